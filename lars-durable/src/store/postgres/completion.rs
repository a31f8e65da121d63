//! The end of a run as one statement, for the transaction of a user.

use super::values::FAR;
use crate::model::{Row, Then, When};
use crate::time::{Micros, Timestamp};

const NEVER: &str = "timestamptz 'infinity'";
const REMEMBERS: &str = "key IS NOT NULL AND remember > 0";
const ON_CONFLICT: &str = "ON CONFLICT (grp, key) DO UPDATE SET until = EXCLUDED.until";

/// The end of a successful run of `row`; `$1` is the timer, `$2` the fence. Only numbers are put
/// into the text.
pub(crate) fn completion(row: &Row, clock: Timestamp) -> String {
    // Remembers the key, if the timer asks for that.
    let used = format!(
        "INSERT INTO lars.used_key (grp, key, until)
         SELECT grp, key, CASE WHEN remember > {FAR} THEN {NEVER}
                               ELSE lars.clock() + remember * interval '1 microsecond' END"
    );
    match row.after_success(clock) {
        Then::Next { when, offset } => {
            let (planned, due) = match when {
                When::At(at) => (instant(at), instant(at + offset)),
                When::After(span) | When::UpTo(_, span) => {
                    (from_now(span), format!("n.planned + {}", interval(offset)))
                }
            };
            // The statement may be executed long after it was made.
            let last = match when {
                When::UpTo(until, _) => format!("n.planned > {}", instant(until)),
                When::At(_) | When::After(_) => "false".to_owned(),
            };
            // A series that was cancelled meanwhile has no rule any more, and is over.
            format!(
                "WITH next AS (SELECT {planned} AS planned),
                      over AS (DELETE FROM lars.timer t USING next n
                                WHERE t.id = $1::bigint AND t.fence = $2::bigint
                                  AND (t.repeat IS NULL OR {last})
                               RETURNING t.id, t.grp, t.key, t.remember),
                      used AS ({used} FROM over WHERE {REMEMBERS} {ON_CONFLICT}),
                      moved AS (UPDATE lars.timer t
                                   SET fence = NULL, planned_at = n.planned,
                                       due_at = {due}, deadline = {due},
                                       attempt = 0, deaths = 0, last_error = NULL,
                                       run = t.run + 1, unknown_since = NULL
                                  FROM next n
                                 WHERE t.id = $1::bigint AND t.fence = $2::bigint
                                   AND t.repeat IS NOT NULL AND NOT ({last})
                                RETURNING t.id)
                 SELECT id FROM over UNION ALL SELECT id FROM moved"
            )
        }
        _ => format!(
            "WITH used AS ({used} FROM lars.timer
                            WHERE id = $1::bigint AND fence = $2::bigint AND {REMEMBERS}
                           {ON_CONFLICT})
             DELETE FROM lars.timer WHERE id = $1::bigint AND fence = $2::bigint"
        ),
    }
}

fn instant(at: Timestamp) -> String {
    if at.0 > FAR {
        return NEVER.to_owned();
    }
    format!("timestamptz '1970-01-01 00:00:00+00' + {}", interval(Micros(at.0)))
}

fn from_now(span: Micros) -> String {
    if span.0 > FAR { NEVER.to_owned() } else { format!("lars.clock() + {}", interval(span)) }
}

fn interval(Micros(micros): Micros) -> String {
    format!("{micros} * interval '1 microsecond'")
}
