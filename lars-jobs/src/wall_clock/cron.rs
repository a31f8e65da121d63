//! Cron expressions: `croner` searches them, and this puts them into a time zone.
//!
//! `croner` searches local times without a zone. Between two transitions of a zone, local time and
//! real time run in parallel. So the search goes from stretch to stretch, and one place decides
//! what happens at a transition: [`CronSchedule::next_timestamp`].

mod expression;

use std::time::SystemTime;

use croner::Cron;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use self::expression::Expression;
use super::calendar::{CORRECTION, Calendar};
use lars_base::debug_fields;

/// A cron expression in a time zone.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::wall_clock::{Calendar, CronSchedule};
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
/// Five fields, or six with the seconds first, in at most 1024 bytes; names and nicknames in any
/// case:
///
/// | field | values | besides `*` `,` `-` `/` |
/// |---|---|---|
/// | second (may be left out: 0) | 0-59 | |
/// | minute | 0-59 | |
/// | hour | 0-23 | |
/// | day of the month | 1-31 | `L` the last, `15W` the weekday nearest the 15th, `LW`, `?` as `*` |
/// | month | 1-12, `JAN`-`DEC` | |
/// | day of the week | 0-7 (7 as 0), `SUN`-`SAT` | `5L` the last Friday, `5#2` the second, `?` |
///
/// `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight` and `@hourly` mean what
/// they say. If both day fields are restricted, a day has to match one of them, as in Vixie cron;
/// with a `+` before the day of the week, both. (Any field but `*` and `?` is restricted. To Vixie
/// cron `*/2` is not, so with it and a day of the week, both would have to match there.) `L` and
/// `LW` do not stand in one list.
///
/// # Daylight-saving time
///
/// The rule is Vixie cron's. It distinguishes jobs with a fixed time, such as `30 2 * * *`, from
/// jobs whose minute or hour begins with `*`, such as `*/15 * * * *`, which simply happen whenever
/// the clock on the wall shows such a time:
///
/// | the local time | a fixed time | `*` in minute or hour |
/// |---|---|---|
/// | is skipped (2:30 in spring) | once, at the end of the gap (3:00) | not |
/// | comes twice (2:30 in autumn) | once, the first time | both times |
///
/// Occurrences that a gap moves to the same instant are one. A change by three hours or more, such
/// as a move across the date line, is not a season: what it skips is skipped, and what it repeats
/// is repeated.
///
/// Likewise, when the clock is set back by less than three hours, jobs with a fixed time do not run
/// again, and the others do ([`runs_again_when_set_back`](Calendar::runs_again_when_set_back)).
///
/// # Time zones
///
/// By their IANA names. The system's database comes first, if there is one, and then the built-in
/// one. The rules are those at the time of parsing. Occurrences are found up to the year 5000.
#[derive(Clone)]
pub struct CronSchedule {
    text: String,
    cron: Cron,
    zone: TimeZone,
    /// Neither minute nor hour begins with `*`.
    fixed: bool,
}

/// An invalid cron expression or time zone.
///
/// # Examples
///
/// ```
/// use lars_jobs::wall_clock::{CronError, CronSchedule};
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
        "the cron expression {text:?} has {given} fields, but it must have 5, or 6 with the \
         seconds first"
    )]
    Fields {
        /// The expression.
        text: String,
        /// How many fields it has.
        given: usize,
    },
    /// It is longer than any expression needs to be.
    #[error("the cron expression has {given} bytes, but at most {max} are allowed")]
    TooLong {
        /// How long it is, in bytes.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// An item of a field is wrong.
    #[error(
        "the cron expression {text:?} is wrong at byte {position}, {part:?} for the {field}: \
         {reason}"
    )]
    Field {
        /// The expression.
        text: String,
        /// Which field.
        field: &'static str,
        /// The item: what stands between two commas. Empty if there is nothing.
        part: String,
        /// Where it begins, in bytes.
        position: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It begins with `@`, but is not a nickname.
    #[error(
        "the cron expression {text:?} is none of @yearly, @annually, @monthly, @weekly, @daily, \
         @midnight, @hourly"
    )]
    Nickname {
        /// The expression.
        text: String,
    },
    /// No date matches it, such as the 30th of February.
    #[error("the cron expression {text:?} never happens: no date matches it")]
    Never {
        /// The expression.
        text: String,
    },
    /// The time zone does not exist.
    #[error("there is no time zone {zone:?}: {reason}")]
    Zone {
        /// The zone's name.
        zone: String,
        /// What the database says.
        reason: String,
    },
}

impl CronSchedule {
    /// The expression `text` in the zone of that IANA name: `"Europe/Berlin"`, `"UTC"`.
    ///
    /// # Errors
    ///
    /// [`CronError`], with the text, the position and the reason. An expression that no date
    /// matches, such as `0 0 30 2 *`, is an error as well, because it would never run. The answer
    /// takes less than a millisecond of processor time, whatever the text is.
    ///
    /// ```
    /// use lars_jobs::wall_clock::CronSchedule;
    ///
    /// let error = CronSchedule::parse("0 24 * * *", "Europe/Berlin").unwrap_err();
    /// assert!(error.to_string().starts_with(
    ///     r#"the cron expression "0 24 * * *" is wrong at byte 2, "24" for the hour: "#
    /// ));
    /// ```
    pub fn parse(text: &str, zone: &str) -> Result<Self, CronError> {
        Self::in_zone(text, known(zone, TimeZone::get(zone))?)
    }

    /// The expression `text` in the system's zone.
    ///
    /// # Errors
    ///
    /// Same as [`parse`](Self::parse), and if the system's zone cannot be determined.
    pub fn parse_in_system_zone(text: &str) -> Result<Self, CronError> {
        Self::in_zone(text, known("of the system", TimeZone::try_system())?)
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
        let Expression { cron, fixed } = expression::parse(text)?;
        if !expression::happens(&cron) {
            return Err(CronError::Never { text: text.into() });
        }
        Ok(Self { text: text.into(), cron, zone, fixed })
    }

    /// The first occurrence later than `start`.
    fn next_timestamp(&self, start: Timestamp) -> Option<Timestamp> {
        let mut stretch = Stretch::around(&self.zone, start);
        let (mut from, mut inclusive) = (stretch.offset.to_datetime(start), false);
        // Where the last search began, and what it found. Without this, each stretch before a rare
        // date would search for it again.
        let mut searched: Option<(DateTime, DateTime)> = None;
        loop {
            if self.fixed
                && let Some(again) = stretch.repeats_until()
                && again > from
            {
                (from, inclusive) = (again, true);
            }
            let local = match searched {
                Some((since, found)) if since < from && from <= found => found,
                _ => self.cron.find_next_occurrence(&from, inclusive).ok()?,
            };
            searched = Some((from, local));
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

/// The zone that was found by this name. `Etc/Unknown` stands for none, and would pass for UTC.
fn known(name: &str, found: Result<TimeZone, jiff::Error>) -> Result<TimeZone, CronError> {
    let reason = match found {
        Ok(zone) if zone.is_unknown() => "this name stands for a zone that is not known".into(),
        Ok(zone) => return Ok(zone),
        Err(error) => error.to_string(),
    };
    Err(CronError::Zone { zone: name.into(), reason })
}

/// The time between two transitions of a zone, in which the offset is the same.
struct Stretch {
    offset: Offset,
    /// When it began, and what the offset was before.
    begin: Option<(Timestamp, Offset)>,
    /// When it ends, and what the offset is then.
    end: Option<(Timestamp, Offset)>,
}

impl Stretch {
    fn around(zone: &TimeZone, instant: Timestamp) -> Self {
        let offset = zone.to_offset(instant);
        // `preceding` excludes its argument, but a transition at this very instant has happened.
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

    /// The local time up to which this stretch repeats the one before.
    fn repeats_until(&self) -> Option<DateTime> {
        let (begin, before) = self.begin?;
        (before > self.offset && is_season(before, self.offset)).then(|| before.to_datetime(begin))
    }
}

/// Whether a change between these offsets is a change of season, and not a correction.
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

debug_fields!(|it: CronSchedule| text: it.text, zone: it.zone.iana_name());
