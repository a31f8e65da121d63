//! Cron expressions: none makes the parser panic or work for long, an error points at what is
//! wrong, and what is accepted has occurrences that agree with each other.
#![no_main]

use std::time::{Duration, SystemTime};

use lars_jobs::wall_clock::{Calendar, CronError, CronSchedule};
use lars_scheduler_fuzz::{count, in_time};
use libfuzzer_sys::fuzz_target;

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Nowhere/At_All",
];

/// How long one answer may take on the processor. It takes a tenth of that at most without the
/// instrumentation, the debug assertions and the checks for overflow that fuzzing comes with.
const LIMIT: Duration = Duration::from_millis(10);

fuzz_target!(|bytes: &[u8]| {
    let [zone, day_high, day_low, rest @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    // A zone of the list, or what the text says behind a bar.
    let (text, zone) = match text.split_once('|') {
        Some((text, zone)) => (text, zone),
        None => (text, ZONES[usize::from(zone % 8)]),
    };
    count(1);
    let schedule = match in_time(LIMIT, || CronSchedule::parse(text, zone)) {
        Ok(schedule) => schedule,
        Err(CronError::TooLong { given, max }) => {
            assert!(given == text.len() && given > max);
            return;
        }
        Err(error) => {
            if let CronError::Field { part, position, .. } = &error {
                assert_eq!(&text[*position..position + part.len()], part);
            }
            let shown = error.to_string();
            assert!(shown.contains(&format!("{text:?}")) || shown.contains(&format!("{zone:?}")));
            return;
        }
    };
    let days = u64::from(u16::from_be_bytes([*day_high, *day_low]));
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400 + 12_345);
    let mut after = begin;
    for _ in 0..4 {
        let Some(next) = in_time(LIMIT, || schedule.next_after(after)) else { return };
        assert!(next > after, "{next:?} is not after {after:?}");
        // From anywhere before it, it is the next.
        let gap = next.duration_since(after).expect("it is later");
        for from in [after + gap / 2, next - Duration::from_secs(1).min(gap)] {
            assert_eq!(schedule.next_after(from), Some(next), "from {from:?}");
        }
        count(3);
        after = next;
    }
});
