//! A timer that runs once as one statement, for the transaction of a user.

use super::values::FAR;
use crate::error::Refused;
use crate::model::{NewTimer, OnConflict, When};

/// Schedules the timer that `$1`, a `text[]`, describes. The delay has no days, which the session's
/// time zone could make longer or shorter.
pub(crate) const SUBMISSION: &str = "
SELECT lars.schedule(
           a[1], a[2], a[3],
           coalesce(a[4]::float8,
                    greatest(a[5]::bigint - extract(epoch FROM lars.clock()) * 1000000, 0)::float8)
               * interval '1 microsecond',
           key => a[6], payload_version => a[7]::int,
           remember => a[8]::float8 * interval '1 microsecond', on_conflict => a[9], tag => a[10])
  FROM (SELECT $1::text[]) AS given (a)";

/// What describes `timer`, which is to be of this group.
pub(crate) fn submission(group: &str, timer: &NewTimer) -> Result<Vec<Option<String>>, Refused> {
    let on_conflict = match timer.conflict {
        OnConflict::Keep => "keep",
        OnConflict::Replace => "replace",
        OnConflict::Fail => "fail",
        OnConflict::Update => {
            return Err(Refused::NotInSql { what: "a timer that updates another one" });
        }
    };
    if timer.home.is_some() {
        return Err(Refused::NotInSql { what: "a message to an actor" });
    }
    let number = |micros: i64| Some(micros.min(FAR).to_string());
    let (delay, at) = match timer.when {
        // It runs once, so it has no end.
        When::After(delay) | When::UpTo(_, delay) => (number(delay.0), None),
        When::At(at) => (None, number(at.0)),
    };
    Ok(vec![
        Some(group.to_owned()),
        Some(timer.handler.to_string()),
        Some(timer.payload.to_string()),
        delay,
        at,
        timer.key.as_deref().map(str::to_owned),
        Some(timer.payload_version.to_string()),
        number(timer.remember.0),
        Some(on_conflict.to_owned()),
        timer.tag.as_deref().map(str::to_owned),
    ])
}
