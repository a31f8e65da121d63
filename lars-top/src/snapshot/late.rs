//! Why tasks or durable runs began late, or messages were received late, as a snapshot has it.

use serde::{Deserialize, Serialize};

/// Why tasks or durable runs began late, or messages were received late; see
/// [`Lateness`](lars_scheduler::late::Lateness).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Late {
    /// How late something has to be to be counted.
    pub bound: u64,
    /// How many began late.
    pub count: u64,
    /// How late all of them were together.
    pub total: u64,
    /// How late the latest was, since the beginning.
    pub longest: u64,
    /// What they waited for, for longest first; at most 50.
    pub rows: Vec<LateRow>,
    /// How many rows there are beside these. They have the rest of the time.
    pub more_rows: u64,
}

/// What those that were late waited for, for one reason; see
/// [`LateRow`](lars_scheduler::late::LateRow).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LateRow {
    /// Why, in a few words.
    pub cause: String,
    /// Who was at fault: a task's name or type, a thread, an actor and a type of its messages, a
    /// durable handler or a node. Empty if nobody can be named.
    pub culprit: String,
    /// The place of the call that scheduled it, if it is a task.
    pub place: String,
    /// For how many this is a reason, among others.
    pub count: u64,
    /// For how long, all of them together.
    pub time: u64,
}

impl LateRow {
    fn key(&self) -> (&str, &str, &str) {
        (&self.cause, &self.culprit, &self.place)
    }
}

impl Late {
    /// What was late after an earlier snapshot was made. (The latest is that since the start.)
    ///
    /// A row that was not among the largest then, and is now, has the time that came in between at
    /// least. What it may have beside that is in the [rest](Self::rest).
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let count = self.count.saturating_sub(earlier.count);
        let least = earlier.rows.iter().map(|row| row.time).min().unwrap_or(0);
        let left_out = if earlier.more_rows > 0 { least } else { 0 };
        let grown = |row: &LateRow| {
            let before = earlier.rows.iter().find(|before| before.key() == row.key());
            let (times, time) = before.map_or((0, left_out), |before| (before.count, before.time));
            LateRow {
                count: row.count.saturating_sub(times).min(count),
                time: row.time.saturating_sub(time),
                ..row.clone()
            }
        };
        let mut rows: Vec<_> = self.rows.iter().map(grown).filter(|row| row.time > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.time));
        let total = self.total.saturating_sub(earlier.total);
        Self { count, total, rows, ..*self }
    }

    /// How long they waited for what has no row here.
    pub fn rest(&self) -> u64 {
        self.rows.iter().fold(self.total, |rest, row| rest.saturating_sub(row.time))
    }

    /// Which part of all the time that is, from 0 to 1.
    pub fn share(&self, time: u64) -> f64 {
        time as f64 / self.total.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(culprit: &str, count: u64, time: u64) -> LateRow {
        let [cause, culprit] = ["an inline task ran", culprit].map(str::to_owned);
        LateRow { cause, culprit, place: String::new(), count, time }
    }

    fn late(count: u64, total: u64, rows: &[LateRow], more_rows: u64) -> Late {
        Late { bound: 5, count, total, longest: 60, rows: rows.to_vec(), more_rows }
    }

    #[test]
    fn an_interval_has_what_came_in_it_by_cause_and_culprit() {
        let first = late(3, 100, &[row("a", 2, 70), row("b", 1, 30)], 0);
        let second = late(6, 400, &[row("b", 4, 230), row("c", 1, 100), row("a", 2, 70)], 0);
        let since = second.since(&first);
        assert_eq!(since, late(3, 300, &[row("b", 3, 200), row("c", 1, 100)], 0));
        assert_eq!((since.rest(), since.share(since.rows[0].time)), (0, 200.0 / 300.0));
        assert_eq!(second.since(&second), late(0, 0, &[], 0));
        assert_eq!(second.since(&second).share(0), 0.0);
    }

    #[test]
    fn a_row_that_was_not_among_the_largest_has_no_more_than_came_in_the_interval() {
        // Of c it is known only that it had no more than b.
        let first = late(9, 120, &[row("a", 6, 70), row("b", 2, 30)], 1);
        let second = late(11, 180, &[row("c", 5, 80), row("a", 6, 70)], 1);
        let since = second.since(&first);
        assert_eq!(since.rows, [row("c", 2, 50)]);
        assert_eq!((since.total, since.rest(), since.more_rows), (60, 10, 1));
    }

    #[test]
    fn a_table_that_ends_before_it_began_has_nothing() {
        let most = late(u64::MAX, u64::MAX, &[row("a", u64::MAX, u64::MAX)], 0);
        assert_eq!(Late::default().since(&most), Late::default());
        assert_eq!((most.rest(), most.share(u64::MAX)), (0, 1.0));
    }
}
