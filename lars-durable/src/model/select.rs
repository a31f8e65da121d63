//! Which timers a call is about, and what it does to them.
//!
//! A store walks through an index, a bounded number of rows at a time, and asks here of each row
//! whether it is meant: so what matches does not depend on the store.

use std::fmt;
use std::str::FromStr;

use super::{BucketNo, TimerId, When};
use crate::sync::Arc;
use crate::time::Timestamp;

/// Which timers. All conditions have to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Select {
    pub(crate) handler: Option<Arc<str>>,
    /// With what their keys begin.
    pub(crate) prefix: Option<Arc<str>>,
    pub(crate) tag: Option<Arc<str>>,
    pub(crate) states: States,
    /// From when on, and before when, they may run.
    pub(crate) due: (Timestamp, Timestamp),
    /// What the text of their last failure contains, or the reason for which they were parked.
    pub(crate) failed_with: Option<Arc<str>>,
    /// Behind which place the walk goes on.
    pub(crate) after: Option<Cursor>,
    /// How many of them at most.
    pub(crate) limit: usize,
    /// How many rows are looked at, at most.
    pub(crate) scan: usize,
}

/// What is done to those that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Count,
    List,
    Cancel,
    Reset(When),
    Retry,
    Discard,
}

impl Act {
    pub(crate) fn changes(self) -> bool {
        !matches!(self, Self::Count | Self::List)
    }
}

/// A place in the walk: timers come first, by key if a prefix is asked for and no tag, and else by
/// time, and then what is parked, by identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cursor {
    Due { bucket: BucketNo, due: Timestamp, id: TimerId },
    Key(String),
    Parked(TimerId),
}

/// As a word of letters, digits, `.` and `-`, so that it needs no escapes, wherever it is carried.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due { bucket, due, id } => write!(f, "due.{bucket}.{}.{id}", due.0),
            Self::Key(key) => {
                f.write_str("key.")?;
                key.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Parked(id) => write!(f, "parked.{id}"),
        }
    }
}

/// It is no place, or not as it is shown.
#[derive(Debug)]
pub(crate) struct NoCursor;

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let parts: Vec<&str> = text.split('.').collect();
        let cursor = match parts[..] {
            ["due", bucket, due, id] => {
                let bucket = bucket.parse().map_err(|_| NoCursor)?;
                Self::Due { bucket, due: Timestamp(number(due)?), id: number(id)? }
            }
            ["key", hex] => Self::Key(text_of(hex).ok_or(NoCursor)?),
            ["parked", id] => Self::Parked(number(id)?),
            _ => return Err(NoCursor),
        };
        // Each has one text: no `+1`, `01` or `AB`.
        if cursor.to_string() == text { Ok(cursor) } else { Err(NoCursor) }
    }
}

fn number(text: &str) -> Result<i64, NoCursor> {
    text.parse().map_err(|_| NoCursor)
}

/// What is written as the hexadecimal digits of its bytes.
fn text_of(hex: &str) -> Option<String> {
    let digits = hex.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | *pair.get(1)?).ok();
    String::from_utf8(digits.chunks(2).map(byte).collect::<Option<_>>()?).ok()
}

/// In which states a timer may be: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct States(u8);

impl States {
    pub(crate) const WAITING: Self = Self(1);
    pub(crate) const DUE: Self = Self(2);
    pub(crate) const RUNNING: Self = Self(4);
    pub(crate) const RETRYING: Self = Self(8);
    pub(crate) const PAUSED: Self = Self(16);
    pub(crate) const PARKED: Self = Self(32);
    pub(crate) const ALL: Self = Self(63);

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that both have.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that the other one has not.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }
}

/// A row, as far as it matters whether it is meant.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    /// When it is looked at: not after the deadline.
    pub(crate) due: Timestamp,
    pub(crate) deadline: Timestamp,
    pub(crate) started: bool,
    pub(crate) attempt: u32,
    pub(crate) handler: Arc<str>,
    pub(crate) key: Option<String>,
    pub(crate) tag: Option<String>,
    /// Read if it is asked for.
    pub(crate) last_error: Option<String>,
    /// Of a parked one, why it was parked.
    pub(crate) reason: Option<String>,
}

/// What a step of the walk looks at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By time, from behind this place.
    Due(BucketNo, Timestamp, TimerId),
    /// Those with the tag, by time, from behind this place.
    Tag(Timestamp, TimerId),
    /// By key, from this one on.
    Key(String),
    /// What is parked, from behind this one.
    Parked(TimerId),
}

impl Select {
    /// All in these states, from the first one on.
    pub(crate) fn of(states: States, limit: usize, scan: usize) -> Self {
        Self {
            handler: None,
            prefix: None,
            tag: None,
            states,
            due: (Timestamp::MIN, Timestamp::NEVER),
            failed_with: None,
            after: None,
            limit,
            scan,
        }
    }

    /// Where this step begins; `None` if there is nothing to look at.
    pub(crate) fn way(&self) -> Option<Way> {
        let timers = !self.states.without(States::PARKED).is_empty();
        match &self.after {
            Some(Cursor::Parked(id)) => self.parked_too().then_some(Way::Parked(*id)),
            _ if !timers => self.parked_too().then_some(Way::Parked(0)),
            Some(Cursor::Due { due, id, .. }) if self.tag.is_some() => Some(Way::Tag(*due, *id)),
            _ if self.tag.is_some() => Some(Way::Tag(Timestamp::MIN, TimerId::MIN)),
            Some(Cursor::Due { bucket, due, id }) => Some(Way::Due(*bucket, *due, *id)),
            // No key has a NUL byte: this is the next one there can be.
            Some(Cursor::Key(key)) => Some(Way::Key(format!("{key}\u{1}"))),
            None => Some(match &self.prefix {
                Some(prefix) => Way::Key(prefix.to_string()),
                None => Way::Due(0, Timestamp::MIN, TimerId::MIN),
            }),
        }
    }

    /// Where the next step begins, when all timers were looked at.
    pub(crate) fn behind_timers(&self) -> Option<Cursor> {
        self.parked_too().then_some(Cursor::Parked(0))
    }

    fn parked_too(&self) -> bool {
        self.states.has(States::PARKED)
    }

    /// The first key behind those with the prefix: a bound for the walk.
    pub(crate) fn end_of_keys(&self) -> String {
        let mut end: Vec<char> = self.prefix.as_deref().unwrap_or_default().chars().collect();
        while let Some(last) = end.pop() {
            let next = match last {
                '\u{d7ff}' => Some('\u{e000}'),
                last => char::from_u32(u32::from(last) + 1),
            };
            if let Some(next) = next {
                end.push(next);
                return end.into_iter().collect();
            }
        }
        // Longer than any key.
        char::MAX.to_string().repeat(512)
    }

    /// Whether a row is meant.
    pub(crate) fn matches(&self, row: &Candidate, now: Timestamp, paused: &[Arc<str>]) -> bool {
        let begins =
            |prefix: &Arc<str>| row.key.as_deref().is_some_and(|it| it.starts_with(&**prefix));
        let contains = |failure: &Arc<str>| {
            [&row.last_error, &row.reason].into_iter().flatten().any(|it| it.contains(&**failure))
        };
        self.has_state_of(row, now, paused)
            && self.handler.as_ref().is_none_or(|handler| *handler == row.handler)
            && self.prefix.as_ref().is_none_or(begins)
            && self.tag.as_ref().is_none_or(|tag| row.tag.as_deref() == Some(tag))
            && (self.due.0..self.due.1).contains(&row.deadline_or_last())
            && self.failed_with.as_ref().is_none_or(contains)
    }

    fn has_state_of(&self, row: &Candidate, now: Timestamp, paused: &[Arc<str>]) -> bool {
        let states = self.states;
        if row.reason.is_some() {
            return states.has(States::PARKED);
        }
        if row.started {
            return states.has(States::RUNNING);
        }
        let is_due = row.deadline <= now;
        is_due && states.has(States::DUE)
            || !is_due && states.has(States::WAITING)
            || row.attempt > 0 && states.has(States::RETRYING)
            || states.has(States::PAUSED) && paused.contains(&row.handler)
    }
}

impl Candidate {
    /// One that never comes due is before the end of time, so that a range without end has it.
    fn deadline_or_last(&self) -> Timestamp {
        self.deadline.min(Timestamp(Timestamp::NEVER.0 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(prefix: &str) -> String {
        Select { prefix: Some(prefix.into()), ..Select::of(States::ALL, 1, 1) }.end_of_keys()
    }

    #[test]
    fn the_end_of_a_prefix_is_behind_all_keys_that_begin_with_it_and_before_all_others() {
        assert_eq!(end_of("payment/"), "payment0");
        assert_eq!(end_of("\u{d7ff}"), "\u{e000}", "surrogates are no characters");
        assert_eq!(end_of("a\u{10ffff}\u{10ffff}"), "b");
        for prefix in ["", "\u{10ffff}"] {
            assert!(*end_of(prefix) > *format!("{prefix}{}", char::MAX.to_string().repeat(128)));
        }
    }

    #[test]
    fn the_text_of_a_place_is_read_as_that_place_and_no_other_text_is() {
        let id = fastrand::i64(..);
        let texts = [
            (Cursor::Parked(0), "parked.0"),
            (Cursor::Parked(TimerId::MAX), "parked.9223372036854775807"),
            (Cursor::Key(String::new()), "key."),
            (Cursor::Key("ä/1\n".into()), "key.c3a42f310a"),
            (
                Cursor::Due { bucket: u16::MAX, due: Timestamp::MIN, id: -1 },
                "due.65535.-9223372036854775808.-1",
            ),
        ];
        for (cursor, text) in texts {
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse::<Cursor>().unwrap(), cursor);
        }
        let due = Timestamp(fastrand::i64(..));
        let random = Cursor::Due { bucket: fastrand::u16(..), due, id };
        assert_eq!(random.to_string().parse::<Cursor>().unwrap(), random);
        for text in [
            "",
            ".",
            "due",
            "parked",
            "parked.",
            "parked.+1",
            "parked.01",
            "parked.1.",
            "parked.1 ",
            "parked.9223372036854775808",
            "due.1.2",
            "due.65536.1.1",
            "due.-1.1.1",
            "due.1.1.1.1",
            "key",
            "key.a",
            "key.AB",
            "key.ff",
            "key.zz",
            "key.é",
            "key.+1",
            "Key.61",
        ] {
            assert!(text.parse::<Cursor>().is_err(), "{text:?}");
        }
    }
}
