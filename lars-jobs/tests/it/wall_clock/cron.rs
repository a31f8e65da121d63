//! Cron expressions in time zones: when they happen over changes of the local time.
#![cfg(test)]

use proptest::prelude::*;

use super::*;
use jiff::{Timestamp, ToSpan, Zoned, tz::TimeZone};
use lars_jobs::wall_clock::{CronError, CronSchedule};

const BERLIN: &str = "Europe/Berlin";
const SYDNEY: &str = "Australia/Sydney";

fn cron(text: &str, zone: &str) -> CronSchedule {
    CronSchedule::parse(text, zone).unwrap()
}

/// The instant at which a clock in the zone shows this; the first one, if it does twice.
fn local(time: &str, zone: &str) -> Zoned {
    time.parse::<jiff::civil::DateTime>().unwrap().in_tz(zone).unwrap()
}

/// The occurrences after `from`, as many as asked for, as the clocks in the zone show them.
fn occurrences(text: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let schedule = cron(text, zone);
    let mut at = SystemTime::from(local(from, zone));
    (0..count)
        .map(|_| {
            let next = schedule.next_after(at).unwrap();
            assert!(next > at);
            at = next;
            Timestamp::try_from(at)
                .unwrap()
                .in_tz(zone)
                .unwrap()
                .strftime("%F %H:%M %Z")
                .to_string()
        })
        .collect()
}

#[test]
fn nine_oclock_is_nine_oclock_before_and_after_the_clocks_change() {
    assert_eq!(
        occurrences("0 9 * * *", BERLIN, "2026-03-28T00:00", 3),
        ["2026-03-28 09:00 CET", "2026-03-29 09:00 CEST", "2026-03-30 09:00 CEST"]
    );
    assert_eq!(
        occurrences("0 9 * * *", BERLIN, "2026-10-24T00:00", 3),
        ["2026-10-24 09:00 CEST", "2026-10-25 09:00 CET", "2026-10-26 09:00 CET"]
    );
}

#[test]
fn a_fixed_time_that_is_skipped_in_spring_happens_at_the_end_of_the_gap() {
    assert_eq!(
        occurrences("30 2 * * *", BERLIN, "2026-03-28T00:00", 3),
        ["2026-03-28 02:30 CET", "2026-03-29 03:00 CEST", "2026-03-30 02:30 CEST"]
    );
    // In the south, spring is in October.
    assert_eq!(
        occurrences("30 2 * * *", SYDNEY, "2026-10-03T00:00", 3),
        ["2026-10-03 02:30 AEST", "2026-10-04 03:00 AEDT", "2026-10-05 02:30 AEDT"]
    );
    // The first and the last moment of the gap, and the times beside it.
    for (time, end) in [("0 2", "03:00"), ("59 2", "03:00"), ("59 1", "01:59"), ("1 3", "03:01")] {
        let text = format!("{time} * * *");
        let found = occurrences(&text, BERLIN, "2026-03-29T00:00", 1);
        assert!(found[0].starts_with(&format!("2026-03-29 {end}")), "{text}: {found:?}");
    }
}

#[test]
fn occurrences_that_the_gap_moves_to_one_instant_are_one() {
    assert_eq!(
        occurrences("0,20,40 2,3 * * *", BERLIN, "2026-03-29T00:00", 4),
        [
            "2026-03-29 03:00 CEST",
            "2026-03-29 03:20 CEST",
            "2026-03-29 03:40 CEST",
            "2026-03-30 02:00 CEST"
        ]
    );
}

#[test]
fn a_fixed_time_that_comes_twice_in_autumn_happens_the_first_time() {
    assert_eq!(
        occurrences("30 2 * * *", BERLIN, "2026-10-24T12:00", 2),
        ["2026-10-25 02:30 CEST", "2026-10-26 02:30 CET"]
    );
    assert_eq!(
        occurrences("30 2 * * *", SYDNEY, "2026-04-04T12:00", 2),
        ["2026-04-05 02:30 AEDT", "2026-04-06 02:30 AEST"]
    );
    // Asked in the middle of the second hour: it is over.
    let second_hour = local("2026-10-25T02:00", BERLIN).checked_add(70.minutes()).unwrap();
    let next = cron("30 2 * * *", BERLIN).next_after(second_hour.into()).unwrap();
    assert_eq!(next, local("2026-10-26T02:30", BERLIN).into());
    // The end of the hour that comes twice is not part of it.
    assert_eq!(occurrences("0 3 * * *", BERLIN, "2026-10-25T00:00", 1), ["2026-10-25 03:00 CET"]);
}

#[test]
fn a_star_in_minute_or_hour_follows_the_clock_on_the_wall() {
    assert_eq!(
        occurrences("30 * * * *", BERLIN, "2026-03-29T01:00", 2),
        ["2026-03-29 01:30 CET", "2026-03-29 03:30 CEST"]
    );
    assert_eq!(
        occurrences("*/30 2 * * *", BERLIN, "2026-03-29T00:00", 1),
        ["2026-03-30 02:00 CEST"],
        "it does not show these minutes on that day"
    );
    assert_eq!(
        occurrences("*/30 2 * * *", BERLIN, "2026-10-25T00:00", 5),
        [
            "2026-10-25 02:00 CEST",
            "2026-10-25 02:30 CEST",
            "2026-10-25 02:00 CET",
            "2026-10-25 02:30 CET",
            "2026-10-26 02:00 CET"
        ]
    );
    assert_eq!(
        occurrences("@hourly", SYDNEY, "2026-04-05T01:30", 3),
        ["2026-04-05 02:00 AEDT", "2026-04-05 02:00 AEST", "2026-04-05 03:00 AEST"]
    );
}

#[test]
fn changes_by_half_an_hour_and_at_midnight_are_changes_like_the_others() {
    assert_eq!(
        occurrences("15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00", 1),
        ["2026-10-04 02:30 +11"]
    );
    assert_eq!(
        occurrences("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", 2),
        ["2026-04-05 01:45 +11", "2026-04-06 01:45 +1030"]
    );
    // In Chile the day begins at one o'clock, once a year.
    assert_eq!(
        occurrences("@daily", "America/Santiago", "2024-09-07T12:00", 2),
        ["2024-09-08 01:00 -03", "2024-09-09 00:00 -03"]
    );
    // And has 23:00 twice.
    assert_eq!(
        occurrences("30 23 * * *", "America/Santiago", "2024-04-06T12:00", 2),
        ["2024-04-06 23:30 -03", "2024-04-07 23:30 -04"]
    );
}

#[test]
fn a_day_that_a_zone_leaves_out_is_not_made_up_for() {
    // Samoa went from the 29th of December 2011 to the 31st.
    assert_eq!(
        occurrences("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", 2),
        ["2011-12-29 09:00 -10", "2011-12-31 09:00 +14"]
    );
    assert_eq!(
        occurrences("0 9 30 12 *", "Pacific/Apia", "2011-01-01T00:00", 1),
        ["2012-12-30 09:00 +14"]
    );
}

#[test]
fn leap_days_come_every_four_years_and_not_in_2100() {
    assert_eq!(occurrences("0 12 29 2 *", "UTC", "2025-01-01T00:00", 1), ["2028-02-29 12:00 UTC"]);
    assert_eq!(occurrences("0 12 29 2 *", BERLIN, "2096-02-29T12:00", 1), ["2104-02-29 12:00 CET"]);
}

#[test]
fn dates_that_do_not_exist_are_left_out_and_one_that_never_does_is_refused() {
    assert_eq!(
        occurrences("0 0 31 * *", "UTC", "2026-01-31T00:00", 2),
        ["2026-03-31 00:00 UTC", "2026-05-31 00:00 UTC"]
    );
    assert_eq!(
        occurrences("0 0 30 2,4 *", "UTC", "2026-01-01T00:00", 2),
        ["2026-04-30 00:00 UTC", "2027-04-30 00:00 UTC"]
    );
    for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
        let error = CronSchedule::parse(text, "UTC").unwrap_err();
        assert_eq!(error, CronError::Never { text: text.into() });
    }
}

#[test]
fn the_last_day_of_the_month_is_also_that_of_december_and_the_day_fields_are_alternatives() {
    assert_eq!(
        occurrences("0 0 L * *", "UTC", "2027-11-30T00:00", 3),
        ["2027-12-31 00:00 UTC", "2028-01-31 00:00 UTC", "2028-02-29 00:00 UTC"]
    );
    assert_eq!(occurrences("0 0 * * 5L", "UTC", "2026-12-01T00:00", 1), ["2026-12-25 00:00 UTC"]);
    assert_eq!(
        occurrences("0 0 13 * FRI", "UTC", "2026-02-06T00:00", 3),
        ["2026-02-13 00:00 UTC", "2026-02-20 00:00 UTC", "2026-02-27 00:00 UTC"]
    );
    assert_eq!(
        occurrences("0 0 13 * +FRI", "UTC", "2026-02-13T00:00", 1),
        ["2026-03-13 00:00 UTC"]
    );
    assert_eq!(
        occurrences("30 0 9 * * MON-FRI", "UTC", "2026-02-06T10:00", 1),
        ["2026-02-09 09:00 UTC"]
    );
}

#[test]
fn a_step_over_all_days_restricts_the_field_as_a_list_of_them_does() {
    // (In Vixie cron a field that begins with a star does not: both would have to match.)
    assert_eq!(
        occurrences("0 0 */10 * FRI", "UTC", "2026-02-01T00:00", 4),
        [
            "2026-02-06 00:00 UTC",
            "2026-02-11 00:00 UTC",
            "2026-02-13 00:00 UTC",
            "2026-02-20 00:00 UTC"
        ]
    );
    assert_eq!(
        occurrences("0 0 */10 * +SAT", "UTC", "2026-02-01T00:00", 1),
        ["2026-02-21 00:00 UTC"]
    );
}

#[test]
fn a_wrong_expression_is_an_error_with_the_text_the_place_and_the_reason() {
    let fault = |text: &str| match CronSchedule::parse(text, "UTC").unwrap_err() {
        CronError::Field { text: named, field, part, position, reason } => {
            assert_eq!(named, text);
            assert_eq!(&text[position..position + part.len()], part);
            assert!(!reason.is_empty());
            (field, part)
        }
        other => panic!("{text}: {other}"),
    };
    assert_eq!(fault("60 * * * *"), ("minute", "60".into()));
    assert_eq!(fault("  0   24 * * *"), ("hour", "24".into()));
    assert_eq!(fault("0 9 0 * *"), ("day of the month", "0".into()));
    assert_eq!(fault("0 9 * FOO *"), ("month", "FOO".into()));
    assert_eq!(fault("0 9 * * 8"), ("day of the week", "8".into()));
    assert_eq!(fault("61 0 9 * * *"), ("second", "61".into()));
    assert_eq!(fault("*/0 9 * * *"), ("minute", "*/0".into()));
    assert_eq!(fault("0 9 * * nö"), ("day of the week", "nö".into()));

    for (text, given) in [("", 0), ("0 9 * *", 4), ("0 0 9 * * * 2026", 7)] {
        let error = CronSchedule::parse(text, "UTC").unwrap_err();
        assert_eq!(error, CronError::Fields { text: text.into(), given });
    }
    let error = CronSchedule::parse("@fortnightly", "UTC").unwrap_err();
    assert_eq!(error, CronError::Nickname { text: "@fortnightly".into() });
    let error = CronSchedule::parse("@daily", "Europe/Atlantis").unwrap_err();
    assert!(error.to_string().starts_with(r#"there is no time zone "Europe/Atlantis": "#));
    for zone in ["Etc/Unknown", "etc/unknown"] {
        let error = CronSchedule::parse("@daily", zone).unwrap_err();
        assert!(error.to_string().starts_with(&format!("there is no time zone {zone:?}: ")));
    }
}

fn fault(text: &str) -> (&'static str, String, usize, String) {
    match CronSchedule::parse(text, "UTC") {
        Err(CronError::Field { text: named, field, part, position, reason }) => {
            assert_eq!(named, text);
            assert_eq!(&text[position..position + part.len()], part);
            (field, part, position, reason)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn an_empty_item_is_an_error_at_its_place() {
    for (text, field, position) in [
        (", * * * *", "minute", 0),
        ("1,,2 * * * *", "minute", 2),
        ("0 1, * * *", "hour", 4),
        ("0 0 ,L * *", "day of the month", 4),
        ("0 0 * * +", "day of the week", 9),
        ("0 0 * *  +,1", "day of the week", 10),
    ] {
        let (named, part, at, reason) = fault(text);
        assert_eq!((named, part.as_str(), at), (field, "", position), "{text}");
        assert!(reason.contains("empty"), "{reason}");
    }
}

#[test]
fn a_name_is_accepted_in_its_own_field_only() {
    for (text, field, part, position) in [
        ("0 9 MON-FRI * *", "day of the month", "MON-FRI", 4),
        ("0 9 * MON *", "month", "MON", 6),
        ("0 9 * * JAN", "day of the week", "JAN", 8),
        ("JAN 9 * * *", "minute", "JAN", 0),
        ("0 1,FRI * * *", "hour", "FRI", 4),
        ("0 9 * JANUARY *", "month", "JANUARY", 6),
        ("0 9 * * MON1", "day of the week", "MON1", 8),
        ("0 9 * * \u{17f}un", "day of the week", "\u{17f}un", 8), // in capitals it is SUN
    ] {
        let (named, wrong, at, _) = fault(text);
        assert_eq!((named, wrong.as_str(), at), (field, part, position), "{text}");
    }
    let weekend = ["2026-01-03 09:00 UTC", "2026-01-04 09:00 UTC"];
    assert_eq!(occurrences("0 9 * jan sat-Sun", "UTC", "2025-12-31T00:00", 2), weekend);
}

#[test]
fn an_item_that_means_nothing_is_an_error_with_the_reason() {
    for (text, part, reason) in [
        ("60 * * * *", "60", "0-59"),
        ("* * 5-1 * *", "5-1", "backwards"),
        ("* * * * *-5", "*-5", "0-7"),
        ("0/10 * * * *", "0/10", "*/10"),
        ("*/0 * * * *", "*/0", "at least 1"),
        ("*,5 * * * *", "*", "alone"),
        ("0 0 * * L", "L", "5L"),
        ("0 0 W * *", "W", "15W"),
        ("0 0 5L * *", "5L", "1-31"),
        ("0 0 l,15,lw * *", "lw", "together"),
        ("0 0 LW,L * *", "L", "together"),
        ("0 0 * * 5#6", "5#6", "1 and 5"),
        ("0 0 * * 5#", "5#", "1 and 5"),
        ("99999999999999999999 * * * *", "99999999999999999999", "0-59"),
        ("? * * * *", "?", "0-59"),
    ] {
        let (_, wrong, _, said) = fault(text);
        assert_eq!(wrong, part, "{text}");
        assert!(said.contains(reason), "{text}: {said}");
    }
}

#[test]
fn what_the_documentation_promises_is_accepted() {
    for text in [
        "*/15,7 0-23/2 * * *",
        "0 0 L * *",
        "0 0 LW * *",
        "0 0 15W,1 * *",
        "0 0 ? * 5L",
        "0 0 * * 5#2",
        "0 0 * * FRI#L",
        "0 0 * * mon-fri#1",
        "0 0 1 JAN-MAR/2 ?",
        "0 0 13 * +FRI",
        "59 59 23 31 12 7",
        "*/4000 * * * *",
        "0-30/70000 * * * *",
        "007 * * * *",
        "0 0 * * FRI-SUN",
        "0 0 l * *",
    ] {
        assert!(CronSchedule::parse(text, "UTC").is_ok(), "{text}");
    }
}

#[test]
fn an_expression_that_is_too_long_is_refused_with_the_limit() {
    let text = "1,".repeat(1_000);
    let error = CronSchedule::parse(&text, "UTC").unwrap_err();
    assert_eq!(error, CronError::TooLong { given: 2_000, max: 1_024 });
    let every_second = (0..60).map(|s| s.to_string()).collect::<Vec<_>>().join(",");
    let long = format!("{every_second} {every_second} * * * *");
    assert!(CronSchedule::parse(&long, "UTC").is_ok());
}

/// How long the thread has worked: other processes do not count.
#[cfg(target_os = "linux")]
fn worked(work: impl FnOnce()) -> Duration {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to a local variable.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        assert_eq!(result, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let begin = now();
    work();
    now() - begin
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn any_expression_is_answered_in_no_time_whether_it_ever_happens_or_not() {
    // A millisecond, where the compiler optimizes.
    let limit = ms(if cfg!(debug_assertions) { 100 } else { 5 });
    for text in [
        ", * * * *",
        "* , * * *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 15W * +SUN",
        "0 0 29 2 +MON",
        "0 0 29 2 +1#5",
        "* * 28 * +5#5",
        "0 0 LW * +SAT",
        "0 0 31 2 *",
    ] {
        for zone in ["UTC", BERLIN] {
            let took = worked(|| {
                let schedule = CronSchedule::parse(text, zone);
                if let Ok(schedule) = schedule {
                    let mut at = SystemTime::UNIX_EPOCH;
                    for _ in 0..3 {
                        at = schedule.next_after(at).unwrap();
                    }
                }
            });
            println!("{text:?} in {zone}: {took:?}");
            assert!(took < limit, "{text:?} in {zone} took {took:?}");
        }
    }
}

#[test]
fn nicknames_stand_for_what_they_say_in_any_case() {
    for (name, expected) in [
        ("@yearly", "2027-01-01 00:00 UTC"),
        ("@annually", "2027-01-01 00:00 UTC"),
        ("@monthly", "2026-12-01 00:00 UTC"),
        ("@Weekly", "2026-11-29 00:00 UTC"),
        (" @DAILY ", "2026-11-26 00:00 UTC"),
        ("@midnight", "2026-11-26 00:00 UTC"),
        ("@hourly", "2026-11-25 13:00 UTC"),
    ] {
        assert_eq!(occurrences(name, "UTC", "2026-11-25T12:00", 1), [expected], "{name}");
    }
}

#[test]
fn a_schedule_says_what_it_was_made_of_and_ends_with_the_calendar() {
    let schedule = cron("0 9 * * *", BERLIN);
    assert_eq!((schedule.text(), schedule.zone()), ("0 9 * * *", Some(BERLIN)));
    let far = SystemTime::from(local("5001-01-01T00:00", "UTC"));
    assert_eq!(schedule.next_after(far), None);
    assert_eq!(schedule.next_after(far + 10_000 * 365 * DAY), None);
    assert!(CronSchedule::parse_in_system_zone("0 9 * * *").is_ok());
}

/// In real time, minute by minute: what Vixie cron's rule says, in the plainest way.
fn by_hand(
    zone: &TimeZone,
    from: Timestamp,
    minutes: i64,
    hours: &[i8],
    past: &[i8],
    fixed: bool,
) -> Vec<Timestamp> {
    let mut found = Vec::new();
    let mut run = std::collections::HashSet::new();
    let mut shown = zone.to_datetime(from - 1.minute());
    for minute in 0..minutes {
        let now = from + minute.minutes();
        let next = zone.to_datetime(now);
        let matches =
            |at: &jiff::civil::DateTime| hours.contains(&at.hour()) && past.contains(&at.minute());
        if fixed {
            // All local minutes since the last one, which is one, or those of a gap too.
            let mut due = false;
            let mut at = shown + 1.minute();
            while at < next {
                due |= matches(&at) && run.insert(at);
                at += 1.minute();
            }
            due |= matches(&next) && run.insert(next);
            if due {
                found.push(now);
            }
            shown = shown.max(next);
        } else if matches(&next) {
            found.push(now);
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(64, 2) as u32))]

    #[test]
    fn around_every_change_the_occurrences_are_those_of_a_minute_by_minute_search(
        change in prop::sample::select(vec![
            (BERLIN, "2026-03-29T01:00Z"), (BERLIN, "2026-10-25T01:00Z"),
            (SYDNEY, "2026-04-04T16:00Z"), (SYDNEY, "2026-10-03T16:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
            ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
            ("America/Santiago", "2024-09-08T04:00Z"), ("America/Santiago", "2024-04-07T03:00Z"),
            ("UTC", "2026-03-29T01:00Z"),
        ]),
        hours in prop::collection::btree_set(prop_oneof![0_i8..5, 22_i8..24], 1..4),
        past in prop::collection::btree_set(0_i8..60, 1..4),
        star in any::<bool>(),
        before in 0_i64..300,
    ) {
        let (zone_name, transition) = change;
        let zone = TimeZone::get(zone_name).unwrap();
        let transition: Timestamp = transition.parse().unwrap();
        // Begin well before, so that the search by hand has seen everything that can repeat.
        let from = transition - 300.minutes() + before.minutes() - 600.minutes();
        let list = |values: &[i8]| {
            values.iter().map(i8::to_string).collect::<Vec<_>>().join(",")
        };
        let hours: Vec<_> = hours.into_iter().collect();
        let past: Vec<_> = past.into_iter().collect();
        let (text, hours) = if star {
            (format!("{} * * * *", list(&past)), (0..24).collect())
        } else {
            (format!("{} {} * * *", list(&past), list(&hours)), hours)
        };
        let window = 1_800;
        let expected = by_hand(&zone, from, window, &hours, &past, !star);
        let schedule = cron(&text, zone_name);
        let end = SystemTime::from(from + window.minutes());
        let mut at = SystemTime::from(from - 1.nanosecond());
        let mut found = Vec::new();
        while let Some(next) = schedule.next_after(at).filter(|next| *next < end) {
            found.push(Timestamp::try_from(next).unwrap());
            at = next;
        }
        prop_assert_eq!(found, expected, "{} in {}", text, zone_name);
    }

    #[test]
    fn the_days_of_an_expression_are_those_that_a_day_by_day_search_finds(
        days in prop::collection::btree_set(1_i8..32, 1..4),
        months in prop::collection::btree_set(1_i8..13, 1..4),
        weekdays in prop::collection::btree_set(0_i8..7, 1..3),
        given in prop::sample::select(vec![(true, false), (false, true), (true, true)]),
        both in any::<bool>(),
    ) {
        let list = |values: &std::collections::BTreeSet<i8>, is_given: bool| match is_given {
            true => values.iter().map(i8::to_string).collect::<Vec<_>>().join(","),
            false => "*".to_owned(),
        };
        let (by_day, by_weekday) = given;
        let both = both && by_day && by_weekday;
        let text = format!(
            "0 0 {} {} {}{}",
            list(&days, by_day),
            list(&months, true),
            if both { "+" } else { "" },
            list(&weekdays, by_weekday),
        );
        let Ok(schedule) = CronSchedule::parse(&text, "UTC") else {
            // The 30th of February, and such.
            prop_assert!(by_day && days.iter().all(|day| *day > 29));
            return Ok(());
        };
        let first = jiff::civil::date(2027, 1, 1);
        let instant = |day: jiff::civil::Date| SystemTime::from(day.in_tz("UTC").unwrap());
        let mut at = instant(first) - ns(1);
        for day in first.series(1.day()).take(800) {
            let of_month = days.contains(&day.day());
            let of_week = weekdays.contains(&day.weekday().to_sunday_zero_offset());
            let matches = months.contains(&day.month()) && match given {
                (true, true) if both => of_month && of_week,
                (true, true) => of_month || of_week,
                (true, false) => of_month,
                _ => of_week,
            };
            if matches {
                prop_assert_eq!(schedule.next_after(at), Some(instant(day)), "{}", text);
                at = instant(day);
            }
        }
        prop_assert!(schedule.next_after(at).is_none_or(|next| next >= instant(first) + 800 * DAY));
    }

    #[test]
    fn from_any_instant_near_a_change_the_next_one_is_that_of_the_whole_list(
        offset in -7200_i64..7200,
        text in prop::sample::select(vec!["30 2 * * *", "*/7 * * * *", "0 3 * * *", "0 2,3 * * *"]),
        autumn in any::<bool>(),
    ) {
        let transition: Timestamp =
            if autumn { "2026-10-25T01:00Z" } else { "2026-03-29T01:00Z" }.parse().unwrap();
        let schedule = cron(text, BERLIN);
        let mut list = vec![SystemTime::from(transition - 48.hours())];
        while *list.last().unwrap() < SystemTime::from(transition + 48.hours()) {
            list.push(schedule.next_after(*list.last().unwrap()).unwrap());
        }
        let from = SystemTime::from(transition + offset.seconds());
        let expected = list.into_iter().find(|at| *at > from);
        prop_assert_eq!(schedule.next_after(from), expected);
    }

    #[test]
    fn no_text_makes_the_parser_panic(
        text in "[-0-9*/,?#LW@+A-Za-zö ]{0,24}",
        zone in "\\PC{0,12}",
    ) {
        let _ = CronSchedule::parse(&text, "UTC");
        let _ = CronSchedule::parse("* * * * *", &zone);
    }
}

/// A week in virtual wall time, with the job at 9:00 in Berlin.
fn a_week(from: &str) -> Vec<String> {
    let time = virtual_time();
    let start = SystemTime::from(local(from, BERLIN));
    let clock = VirtualWallClock::new(time.handle(), start);
    let wall = WallClockScheduler::with_clock(time.handle(), clock.clone());
    let notes = Notes::new();
    let note = notes.clone();
    let now = clock.clone();
    let report = wall
        .schedule_by_calendar(cron("0 9 * * *", BERLIN), move || {
            let now = Timestamp::try_from(now.now()).unwrap().in_tz(BERLIN).unwrap();
            note.add(now.strftime("%a %H:%M:%S.%f %Z").to_string());
        })
        .unwrap();
    time.advance(7 * DAY);
    assert!(report.cancel());
    notes.take()
}

#[test]
fn the_daily_job_runs_at_nine_by_the_clock_on_the_wall_all_week_over_both_changes() {
    for (from, zones) in [
        ("2026-03-26T12:00", ["CET", "CET", "CEST", "CEST", "CEST", "CEST", "CEST"]),
        ("2026-10-22T12:00", ["CEST", "CEST", "CET", "CET", "CET", "CET", "CET"]),
    ] {
        let days = ["Fri", "Sat", "Sun", "Mon", "Tue", "Wed", "Thu"];
        let expected: Vec<_> =
            days.iter().zip(zones).map(|(day, zone)| format!("{day} 09:00:00.0 {zone}")).collect();
        assert_eq!(a_week(from), expected);
    }
}

#[test]
fn set_back_an_hour_the_clock_repeats_the_job_of_every_minute_but_not_that_of_nine_oclock() {
    let world = World::new();
    world.time.advance(8 * HOUR + 59 * MINUTE + secs(30));
    let notes = Notes::new();
    for (text, name) in [("0 9 * * *", "nine"), ("*/30 * * * *", "half")] {
        let (note, clock) = (notes.clone(), world.clock.clone());
        let task = move || {
            let minutes = clock.now().duration_since(midnight()).unwrap().as_secs() / 60;
            note.add((name, minutes / 60, minutes % 60));
        };
        world.wall.schedule_by_calendar(cron(text, "UTC"), task).unwrap();
    }
    world.time.advance(MINUTE);
    let mut first = notes.take();
    first.sort_unstable();
    assert_eq!(first, [("half", 9, 0), ("nine", 9, 0)]);
    world.clock.jump_back(HOUR); // to 8:00:30
    world.time.advance(HOUR);
    assert_eq!(notes.take(), [("half", 8, 30), ("half", 9, 0)]);
}

#[test]
fn set_back_an_hour_the_job_of_every_minute_leaves_no_minute_out() {
    let world = World::new();
    let notes = Notes::new();
    world.wall.schedule_by_calendar(cron("* * * * *", "UTC"), world.note(&notes)).unwrap();
    world.time.advance(2 * HOUR + secs(30));
    assert_eq!(notes.take().len(), 120);
    world.clock.jump_back(HOUR); // to 1:00:30
    world.time.advance(3 * MINUTE);
    assert_eq!(notes.take(), [61, 62, 63].map(|minutes| minutes * MINUTE));
}
