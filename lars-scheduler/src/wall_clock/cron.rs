//! Cron expressions: parsed and searched by `croner`, put into a time zone here.
//!
//! `croner` searches local times that know of no zone. Between two transitions of a zone, local time and
//! real time go side by side, so the search goes from stretch to stretch, and what happens at a transition is
//! decided in one place: [`CronSchedule::next_timestamp`].

use std::fmt;
use std::time::SystemTime;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::calendar::{CORRECTION, Calendar};

/// A cron expression in a time zone.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::wall_clock::{Calendar, CronSchedule};
/// use std::time::{Duration, SystemTime};
///
/// let leap_days = CronSchedule::parse("0 12 29 2 *", "UTC")?;
/// let first = leap_days.next_after(SystemTime::UNIX_EPOCH).ok_or("none")?;
/// let days_to_the_end_of_february_1972 = 2 * 365 + 31 + 28;
/// let noon = Duration::from_secs(days_to_the_end_of_february_1972 * 86_400 + 12 * 3600);
/// assert_eq!(first, SystemTime::UNIX_EPOCH + noon);
/// # Ok(()) }
/// ```
///
/// # The expression
///
/// Five fields, or six with the seconds first; names and nicknames in any case:
///
/// | field | values | besides `*` `,` `-` `/` |
/// |---|---|---|
/// | second (may be left out: 0) | 0-59 | |
/// | minute | 0-59 | |
/// | hour | 0-23 | |
/// | day of the month | 1-31 | `L` the last, `15W` the weekday nearest to the 15th, `LW`, `?` as `*` |
/// | month | 1-12, `JAN`-`DEC` | |
/// | day of the week | 0-7, `SUN`-`SAT`; 0 and 7 are Sunday | `5L` the last Friday, `5#2` the second, `?` as `*` |
///
/// `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight` and `@hourly` stand for what they say. If both day fields
/// are restricted, a day has to match one of them, as in Vixie cron; with a `+` before the day of the week, both.
///
/// # Daylight-saving time
///
/// The rule is Vixie cron's. It distinguishes jobs with a fixed time, such as `30 2 * * *`, from jobs whose
/// minute or hour begins with `*`, such as `*/15 * * * *`, which simply happen whenever the clock on the wall shows such a
/// time:
///
/// | the local time | a fixed time | `*` in minute or hour |
/// |---|---|---|
/// | is skipped (2:30 in spring) | once, at the end of the gap (3:00) | not |
/// | comes twice (2:30 in autumn) | once, the first time | both times |
///
/// Occurrences that fall on the same instant, because the gap ends there, are one. A zone that changes by
/// three hours or more, as those do that move across the date line, makes no season: what it skips is
/// skipped, what it repeats is repeated.
///
/// In the same spirit, a clock that is set back by less than three hours runs jobs with a fixed time not again, and the others
/// again ([`runs_again_when_set_back`](Calendar::runs_again_when_set_back)).
///
/// # Time zones
///
/// By their IANA names. The system's database is asked first, where there is one, and then the one that is
/// built in. The rules are those known when the schedule was parsed. Occurrences are found up to the year 5000.
#[derive(Clone)]
pub struct CronSchedule {
    text: String,
    cron: Cron,
    zone: TimeZone,
    /// Neither minute nor hour begins with `*`.
    fixed: bool,
}

/// A cron expression or a time zone that is none.
///
/// # Examples
///
/// ```
/// use lars_scheduler::wall_clock::{CronError, CronSchedule};
///
/// let error = CronSchedule::parse("0 24 * * *", "UTC").unwrap_err();
/// let CronError::Field { field, part, position, .. } = error else { panic!("{error}") };
/// assert_eq!((field, part.as_str(), position), ("hour", "24", 2));
///
/// let error = CronSchedule::parse("0 0 30 2 *", "UTC").unwrap_err();
/// assert!(matches!(error, CronError::Never { .. })); // there is no 30th of February
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// There are too many fields, or too few.
    #[error(
        "the cron expression {text:?} has {given} fields, but it must have 5, or 6 with the seconds first"
    )]
    Fields {
        /// What was to be parsed.
        text: String,
        /// How many fields it has.
        given: usize,
    },
    /// A field is wrong.
    #[error(
        "the cron expression {text:?} is wrong at byte {position}, {part:?} for the {field}: {reason}"
    )]
    Field {
        /// What was to be parsed.
        text: String,
        /// Which field.
        field: &'static str,
        /// The field's text.
        part: String,
        /// Where it begins, in bytes.
        position: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It begins with `@`, but is no nickname.
    #[error(
        "the cron expression {text:?} is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"
    )]
    Nickname {
        /// What was to be parsed.
        text: String,
    },
    /// No day there ever is matches it, as the 30th of February.
    #[error("the cron expression {text:?} never happens: no date matches it")]
    Never {
        /// What was to be parsed.
        text: String,
    },
    /// There is no such time zone.
    #[error("there is no time zone {zone:?}: {reason}")]
    Zone {
        /// The zone's name.
        zone: String,
        /// What the database says.
        reason: String,
    },
}

/// Vixie cron's, and what they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const FIELDS: [&str; 6] =
    ["second", "minute", "hour", "day of the month", "month", "day of the week"];

impl CronSchedule {
    /// The expression `text` in the zone of that IANA name: `"Europe/Berlin"`, `"UTC"`.
    ///
    /// # Errors
    ///
    /// [`CronError`], with the text, the place in it and the reason. An expression that no date matches, such as
    /// `0 0 30 2 *`, is an error as well: it would never run.
    ///
    /// ```
    /// use lars_scheduler::wall_clock::CronSchedule;
    ///
    /// let error = CronSchedule::parse("0 24 * * *", "Europe/Berlin").unwrap_err();
    /// assert!(error.to_string().starts_with(
    ///     r#"the cron expression "0 24 * * *" is wrong at byte 2, "24" for the hour: "#
    /// ));
    /// ```
    pub fn parse(text: &str, zone: &str) -> Result<Self, CronError> {
        let zone = TimeZone::get(zone)
            .map_err(|error| CronError::Zone { zone: zone.into(), reason: error.to_string() })?;
        Self::in_zone(text, zone)
    }

    /// The expression `text` in the zone that the system is set to.
    ///
    /// # Errors
    ///
    /// As for [`parse`](Self::parse); a system whose zone cannot be found out is an error as well.
    pub fn parse_in_system_zone(text: &str) -> Result<Self, CronError> {
        let zone = TimeZone::try_system().map_err(|error| CronError::Zone {
            zone: "of the system".into(),
            reason: error.to_string(),
        })?;
        Self::in_zone(text, zone)
    }

    /// The expression, as it was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The IANA name of the zone; `None` for a system zone that has none.
    pub fn zone(&self) -> Option<&str> {
        self.zone.iana_name()
    }

    fn in_zone(text: &str, zone: TimeZone) -> Result<Self, CronError> {
        let cron = parse(text)?;
        // No field is for years: what does not happen between 1970 and 5000 never does.
        if cron.find_next_occurrence(&DateTime::constant(1970, 1, 1, 0, 0, 0, 0), true).is_err() {
            return Err(CronError::Never { text: text.into() });
        }
        let fields: Vec<_> = cron.as_str().split_whitespace().collect();
        let fixed =
            !fields.iter().skip(fields.len() - 5).take(2).any(|field| field.starts_with('*'));
        Ok(Self { text: text.into(), cron, zone, fixed })
    }

    /// The first occurrence later than `start`.
    fn next_timestamp(&self, start: Timestamp) -> Option<Timestamp> {
        let mut stretch = Stretch::around(&self.zone, start);
        let (mut from, mut inclusive) = (stretch.offset.to_datetime(start), false);
        loop {
            if self.fixed
                && let Some(again) = stretch.repeats_until()
                && again > from
            {
                (from, inclusive) = (again, true);
            }
            let local = self.cron.find_next_occurrence(&from, inclusive).ok()?;
            let Some((end, after)) = stretch.end else {
                return stretch.offset.to_timestamp(local).ok();
            };
            if local < stretch.offset.to_datetime(end) {
                return stretch.offset.to_timestamp(local).ok();
            }
            let resumes = after.to_datetime(end);
            if self.fixed && local < resumes && is_season(stretch.offset, after) {
                return Some(end);
            }
            stretch = Stretch::from(&self.zone, end, after, stretch.offset);
            (from, inclusive) = (resumes, true);
        }
    }
}

/// The time between two transitions of a zone, in which the offset is the same.
struct Stretch {
    offset: Offset,
    /// Since when, and what the offset was before.
    begin: Option<(Timestamp, Offset)>,
    /// Until when, and what the offset is then.
    end: Option<(Timestamp, Offset)>,
}

impl Stretch {
    fn around(zone: &TimeZone, instant: Timestamp) -> Self {
        let offset = zone.to_offset(instant);
        // `preceding` leaves out its argument, but a transition at this very instant has happened.
        let next_second = instant.checked_add(SignedDuration::from_secs(1)).unwrap_or(instant);
        let begin = zone
            .preceding(next_second)
            .map(|transition| transition.timestamp())
            .find(|at| *at <= instant)
            .and_then(|at| {
                let before = at.checked_sub(SignedDuration::from_secs(1)).ok()?;
                Some((at, zone.to_offset(before)))
            });
        Self { offset, begin, end: Self::end_after(zone, instant) }
    }

    fn from(zone: &TimeZone, begin: Timestamp, offset: Offset, before: Offset) -> Self {
        Self { offset, begin: Some((begin, before)), end: Self::end_after(zone, begin) }
    }

    fn end_after(zone: &TimeZone, instant: Timestamp) -> Option<(Timestamp, Offset)> {
        let transition = zone.following(instant).next()?;
        Some((transition.timestamp(), transition.offset()))
    }

    /// The local time up to which this stretch repeats what the one before has shown.
    fn repeats_until(&self) -> Option<DateTime> {
        let (begin, before) = self.begin?;
        (before > self.offset && is_season(before, self.offset)).then(|| before.to_datetime(begin))
    }
}

/// Whether a change between these offsets is one of the seasons, and not a correction.
fn is_season(one: Offset, other: Offset) -> bool {
    one.duration_since(other).unsigned_abs() < CORRECTION
}

impl Calendar for CronSchedule {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        self.next_timestamp(Timestamp::try_from(instant).ok()?).map(SystemTime::from)
    }

    fn runs_again_when_set_back(&self) -> bool {
        !self.fixed
    }
}

/// Parses the expression; the fields one by one, if it is wrong, to say which.
fn parse(text: &str) -> Result<Cron, CronError> {
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    let name = text.trim();
    if name.starts_with('@') {
        let meant = NICKNAMES.iter().find(|(nickname, _)| nickname.eq_ignore_ascii_case(name));
        return match meant.map(|(_, expression)| parser.parse(expression)) {
            Some(Ok(cron)) => Ok(cron),
            _ => Err(CronError::Nickname { text: text.into() }),
        };
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    if !(5..=6).contains(&parts.len()) {
        return Err(CronError::Fields { text: text.into(), given: parts.len() });
    }
    parser.parse(text).map_err(|error| {
        let field = |number: usize, reason: String| CronError::Field {
            text: text.into(),
            field: FIELDS[FIELDS.len() - parts.len() + number],
            part: parts[number].into(),
            position: parts[number].as_ptr().addr() - text.as_ptr().addr(),
            reason,
        };
        for number in 0..parts.len() {
            let mut alone = vec!["*"; parts.len()];
            alone[number] = parts[number];
            if let Err(error) = parser.parse(&alone.join(" ")) {
                return field(number, error.to_string());
            }
        }
        field(0, error.to_string())
    })
}

impl fmt::Debug for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CronSchedule")
            .field("text", &self.text)
            .field("zone", &self.zone.iana_name())
            .finish()
    }
}
