//! The end of a run as one statement, for the transaction of a user.

use crate::model::{Row, Then, When};
use crate::time::{Micros, Timestamp};

// Remembers the key, if the timer asks for that.
const USED: &str = "INSERT INTO lars.used_key (grp, key, until)
     SELECT grp, key, lars.clock() + remember * interval '1 microsecond'";
const REMEMBERS: &str = "key IS NOT NULL AND remember > 0";
const ON_CONFLICT: &str = "ON CONFLICT (grp, key) DO UPDATE SET until = EXCLUDED.until";

/// The end of a successful run of `row`; `$1` is the timer, `$2` the fence. Only numbers are put
/// into the text.
pub(crate) fn completion(row: &Row, clock: Timestamp) -> String {
    match row.after_success(clock) {
        Then::Next { when, offset } => {
            let planned = match when {
                When::At(at) => instant(at),
                When::After(span) | When::UpTo(_, span) => {
                    format!("lars.clock() + {}", interval(span))
                }
            };
            let later = interval(offset);
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
                      used AS ({USED} FROM over WHERE {REMEMBERS} {ON_CONFLICT}),
                      moved AS (UPDATE lars.timer t
                                   SET fence = NULL, planned_at = n.planned,
                                       due_at = n.planned + {later},
                                       deadline = n.planned + {later},
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
            "WITH used AS ({USED} FROM lars.timer
                            WHERE id = $1::bigint AND fence = $2::bigint AND {REMEMBERS}
                           {ON_CONFLICT})
             DELETE FROM lars.timer WHERE id = $1::bigint AND fence = $2::bigint"
        ),
    }
}

fn instant(at: Timestamp) -> String {
    match at {
        Timestamp::NEVER => "timestamptz 'infinity'".to_owned(),
        at => format!("timestamptz '1970-01-01 00:00:00+00' + {}", interval(Micros(at.0))),
    }
}

fn interval(Micros(micros): Micros) -> String {
    format!("{micros} * interval '1 microsecond'")
}
