//! The grammar of cron expressions: checked item by item, and translated into numbers for `croner`.
//!
//! Expressions come from users. `croner` alone would accept empty items, and names in any field,
//! and it searches three thousand years for an expression that selects nothing. So an expression is
//! checked here first, with the position of what is wrong. What passes selects a value in every
//! field, and [`happens`] finds out without a search whether any date matches.

use std::iter;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};
use jiff::civil::Date;

use super::CronError;

/// The longest expression, in bytes. One that lists every value of every field is half as long.
const MAX_LENGTH: usize = 1024;

/// Vixie cron's nicknames, and what they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// What a field may hold besides numbers, ranges and steps.
#[derive(Clone, Copy, PartialEq)]
enum Extra {
    Nothing,
    DayOfMonth,
    DayOfWeek,
}

struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    /// Names of values, the first one for `min`.
    names: &'static [&'static str],
    extra: Extra,
}

const fn numbers(name: &'static str, min: u16, max: u16) -> Field {
    Field { name, min, max, names: &[], extra: Extra::Nothing }
}

const FIELDS: [Field; 6] = [
    numbers("second", 0, 59),
    numbers("minute", 0, 59),
    numbers("hour", 0, 23),
    Field { extra: Extra::DayOfMonth, ..numbers("day of the month", 1, 31) },
    Field { names: &MONTHS, ..numbers("month", 1, 12) },
    Field { names: &WEEKDAYS, extra: Extra::DayOfWeek, ..numbers("day of the week", 0, 7) },
];

/// An expression that selects a value in every field.
pub(super) struct Expression {
    pub(super) cron: Cron,
    /// Neither minute nor hour begins with `*`.
    pub(super) fixed: bool,
}

/// Checks and parses an expression or a nickname.
pub(super) fn parse(text: &str) -> Result<Expression, CronError> {
    if text.len() > MAX_LENGTH {
        return Err(CronError::TooLong { given: text.len(), max: MAX_LENGTH });
    }
    let name = text.trim();
    if !name.starts_with('@') {
        return parse_fields(text);
    }
    match NICKNAMES.iter().find(|(nickname, _)| nickname.eq_ignore_ascii_case(name)) {
        Some((_, expression)) => parse_fields(expression),
        None => Err(CronError::Nickname { text: text.into() }),
    }
}

fn parse_fields(text: &str) -> Result<Expression, CronError> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    if !(5..=6).contains(&parts.len()) {
        return Err(CronError::Fields { text: text.into(), given: parts.len() });
    }
    let fields = &FIELDS[FIELDS.len() - parts.len()..];
    let wrong = |field: &Field, part: &str, reason: String| CronError::Field {
        text: text.into(),
        field: field.name,
        part: part.into(),
        position: part.as_ptr().addr() - text.as_ptr().addr(),
        reason,
    };
    let mut translated = Vec::new();
    for (field, part) in fields.iter().zip(&parts) {
        translated
            .push(field.translate(part).map_err(|(item, reason)| wrong(field, item, reason))?);
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    let cron = parser
        .parse(&translated.join(" "))
        .map_err(|error| wrong(&fields[0], parts[0], error.to_string()))?;
    let [minute, hour] = [parts[parts.len() - 5], parts[parts.len() - 4]];
    Ok(Expression { cron, fixed: !minute.starts_with('*') && !hour.starts_with('*') })
}

/// Whether some date matches. The 28 years have every kind of year: each day of the week as the
/// first, with and without a leap day.
pub(super) fn happens(cron: &Cron) -> bool {
    let matches = |date: Date| {
        let weekday = date.weekday().to_sunday_zero_offset().unsigned_abs();
        let weekday = Weekday::from_days_from_sunday(weekday.into());
        let (month, day) = (date.month().unsigned_abs().into(), date.day().unsigned_abs().into());
        cron.pattern.month_match(month).unwrap_or(false)
            && cron.pattern.day_match(date.year().into(), month, day, weekday).unwrap_or(false)
    };
    iter::successors(Some(Date::constant(2000, 1, 1)), |date| date.tomorrow().ok())
        .take_while(|date| date.year() < 2028)
        .any(matches)
}

/// What is wrong, and why.
type Wrong<'a> = (&'a str, String);

impl Field {
    /// A field in numbers.
    fn translate<'a>(&self, part: &'a str) -> Result<String, Wrong<'a>> {
        let (plus, list) = match part.strip_prefix('+') {
            Some(list) if self.extra == Extra::DayOfWeek => ("+", list),
            _ => ("", part),
        };
        if list == "*" || (list == "?" && self.extra != Extra::Nothing) {
            return Ok(format!("{plus}*"));
        }
        let mut items = Vec::new();
        for item in list.split(',') {
            items.push(self.item(item).map_err(|reason| (item, reason))?);
            // `croner` would take both for `LW`.
            if ["L", "LW"].iter().all(|last| items.iter().any(|item| item == last)) {
                return Err((item, "L and LW do not stand together".into()));
            }
        }
        Ok(format!("{plus}{}", items.join(",")))
    }

    fn item(&self, item: &str) -> Result<String, String> {
        match item {
            "" => return Err("an item is empty".into()),
            "*" | "?" if item == "*" || self.extra != Extra::Nothing => {
                return Err(format!("{item} selects everything, so it stands alone"));
            }
            _ => {}
        }
        if self.extra == Extra::DayOfMonth {
            if item.eq_ignore_ascii_case("L") || item.eq_ignore_ascii_case("LW") {
                return Ok(item.to_ascii_uppercase());
            }
            if let Some(day) = item.strip_suffix(['W', 'w']) {
                let day = match day {
                    "" => return Err("W follows a day, as in 15W".into()),
                    day => self.value(day)?,
                };
                return Ok(format!("{day}W"));
            }
        }
        if self.extra == Extra::DayOfWeek {
            if let Some((days, which)) = item.split_once('#') {
                return match which {
                    "L" | "l" => Ok(format!("{}#L", self.range(days)?)),
                    "1" | "2" | "3" | "4" | "5" => Ok(format!("{}#{which}", self.range(days)?)),
                    _ => Err("after # comes a number between 1 and 5, or L for the last".into()),
                };
            }
            if let Some(days) = item.strip_suffix(['L', 'l']) {
                return match days {
                    "" => Err("L follows a day of the week, as in 5L".into()),
                    days => Ok(format!("{}#L", self.range(days)?)),
                };
            }
        }
        let Some((range, step)) = item.split_once('/') else {
            return self.range(item);
        };
        let step = match number(step) {
            // A longer step selects the first value of the range as well.
            Some(step @ 1..) => step.min(self.max + 1),
            _ => return Err("a step is a number, and at least 1".into()),
        };
        match range {
            "*" => Ok(format!("*/{step}")),
            _ if range.contains('-') => Ok(format!("{}/{step}", self.range(range)?)),
            _ => Err(format!("a step needs a range or a star before it, as in */{step}")),
        }
    }

    /// A value, or a range of values.
    fn range(&self, item: &str) -> Result<String, String> {
        let Some((first, last)) = item.split_once('-') else {
            return self.value(item).map(|value| value.to_string());
        };
        let (first, mut last) = (self.value(first)?, self.value(last)?);
        // A range ends with Sunday, as the seventh day.
        if self.extra == Extra::DayOfWeek && last == 0 && first != 0 {
            last = 7;
        }
        if first > last {
            return Err(format!("the range goes backwards, from {first} to {last}"));
        }
        Ok(format!("{first}-{last}"))
    }

    fn value(&self, value: &str) -> Result<u16, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(value));
        if let Some(value) = named.and_then(|position| u16::try_from(position).ok()) {
            return Ok(self.min + value);
        }
        match number(value) {
            Some(number) if (self.min..=self.max).contains(&number) => Ok(number),
            _ => Err(match self.names {
                [first, .., last] => {
                    format!("{value:?} is not in {}-{} or {first}-{last}", self.min, self.max)
                }
                _ => format!("{value:?} is not in {}-{}", self.min, self.max),
            }),
        }
    }
}

/// A number of plain digits: no sign, no blank. One that is too great counts as the greatest, which
/// is beyond every field, and a step like others that are.
fn number(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u16::MAX))
}
