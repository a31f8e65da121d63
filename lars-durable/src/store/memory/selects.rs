//! Walks through timers.

use std::ops::Bound::{Excluded, Unbounded};

use super::{Stored, Tables};
use crate::model::{Act, BucketNo, Candidate, Cursor, Select, TimerId, Way, Which};
use crate::store::{Selected, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

impl Tables {
    pub(super) fn select(&mut self, select: &Select, act: Act, now: Timestamp) -> Written {
        let (seen, end) = match select.way() {
            None => (Vec::new(), None),
            Some(Way::Parked(after)) => (self.parked_after(after), None),
            Some(Way::Key(from)) => (self.by_key(select, from), select.behind_timers()),
            Some(Way::Due(bucket, due, id)) => {
                (self.by_time(select, (bucket, due, id)), select.behind_timers())
            }
            Some(Way::Tag(due, id)) => (self.by_tag(select, (due, id)), select.behind_timers()),
        };
        let paused: Vec<Arc<str>> = self.paused.iter().cloned().collect();
        let mut selected = Selected::default();
        let (mut found, mut next) = (Vec::new(), None);
        for (row, cursor) in seen {
            if found.len() >= select.limit || selected.looked_at >= select.scan {
                selected.next = next;
                break;
            }
            selected.looked_at += 1;
            if select.matches(&row, now, &paused) {
                found.push(row);
            }
            next = Some(cursor);
        }
        if selected.next.is_none() {
            selected.next = end;
        }
        selected.matched = found.len();
        for row in found {
            self.act(&row, act, now, &mut selected);
        }
        Written::Selected(selected)
    }

    fn act(&mut self, row: &Candidate, act: Act, now: Timestamp, selected: &mut Selected) {
        let id = row.id;
        let written = match act {
            Act::Count => return,
            Act::List => {
                selected.listed.push(match self.parked.get(&id) {
                    Some((timer, reason, at)) => timer.listed(id, Some((reason.clone(), *at))),
                    None => self.timers[&id].listed(id, None),
                });
                return;
            }
            Act::Cancel => self.cancel(&Which::Id(id)),
            Act::Reset(when) => self.reset(&Which::Id(id), when.by(now)),
            Act::Retry => self.retry_parked(id, now),
            Act::Discard => self.discard_parked(id),
        };
        selected.each.push(written);
    }

    /// All there are from a place on, each with where the walk goes on behind it.
    fn by_time(
        &self,
        select: &Select,
        (bucket, due, id): (BucketNo, Timestamp, TimerId),
    ) -> Vec<(Candidate, Cursor)> {
        let range = self.due.range((Excluded((bucket, due, id)), Unbounded));
        let early = range.filter(|(_, due, _)| *due <= select.due.1);
        let placed = early.map(|(.., id)| {
            let row = self.timers[id].candidate(*id, None);
            let cursor = Cursor::Due { bucket: row.bucket, due: row.due, id: row.id };
            (row, cursor)
        });
        placed.collect()
    }

    fn by_tag(&self, select: &Select, behind: (Timestamp, TimerId)) -> Vec<(Candidate, Cursor)> {
        let tagged = self.timers.iter().filter(|(_, timer)| timer.tag == select.tag);
        let mut rows: Vec<Candidate> =
            tagged.map(|(id, timer)| timer.candidate(*id, None)).collect();
        rows.retain(|row| (row.due, row.id) > behind && row.due <= select.due.1);
        rows.sort_unstable_by_key(|row| (row.due, row.id));
        let placed = rows.into_iter().map(|row| {
            let cursor = Cursor::Due { bucket: row.bucket, due: row.due, id: row.id };
            (row, cursor)
        });
        placed.collect()
    }

    fn by_key(&self, select: &Select, from: String) -> Vec<(Candidate, Cursor)> {
        let (from, end): (Arc<str>, String) = (from.into(), select.end_of_keys());
        // A place of another query may be behind the end.
        let range = self.keys.range(from..).take_while(|(key, _)| ***key < *end);
        range
            .map(|(key, id)| (self.timers[id].candidate(*id, None), Cursor::Key(key.to_string())))
            .collect()
    }

    fn parked_after(&self, after: TimerId) -> Vec<(Candidate, Cursor)> {
        let range = self.parked.range((Excluded(after), Unbounded));
        let behind = |id: &TimerId| Cursor::Parked(*id);
        range
            .map(|(id, (timer, reason, _))| (timer.candidate(*id, Some(reason)), behind(id)))
            .collect()
    }
}

impl Stored {
    fn candidate(&self, id: TimerId, reason: Option<&String>) -> Candidate {
        Candidate {
            id,
            bucket: self.bucket,
            due: self.due,
            deadline: self.deadline,
            started: self.fence.is_some(),
            attempt: self.attempt,
            handler: Arc::clone(&self.handler),
            key: self.key.as_deref().map(str::to_owned),
            tag: self.tag.as_deref().map(str::to_owned),
            last_error: self.last_error.clone(),
            reason: reason.cloned(),
        }
    }
}
