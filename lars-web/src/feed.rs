//! One thread that looks, for all pages that show what it sees.
//!
//! It looks once a second as long as a page is open, and else once in a while, so that there is a
//! history when one is opened. However many pages there are, there is one look. A page that is slow
//! to read gets the newest, and not what it has missed.

use std::io;
use std::thread;
use std::time::Duration;

use crate::sync::{Arc, Condvar, Mutex, now, watch};

/// The time between two looks, while a page is open and while none is.
const WATCHED: Duration = Duration::from_secs(1);
const ALONE: Duration = Duration::from_secs(10);

/// A look that takes long is followed by a pause so many times as long: what is slow is not asked
/// without end. But the pause is no longer than `LONGEST`, after which it may be well again.
const PAUSE: u32 = 4;
const LONGEST: Duration = Duration::from_secs(5);

/// What is seen, again and again. The thread ends soon after this is dropped.
pub(crate) struct Feed<T> {
    latest: watch::Receiver<Arc<T>>,
    bell: Arc<Bell>,
}

/// Wakes the thread.
#[derive(Default)]
struct Bell {
    ended: Mutex<bool>,
    rung: Condvar,
}

impl<T: Send + Sync + 'static> Feed<T> {
    /// `first` is shown until the first look is over.
    pub(crate) fn start(
        name: &str,
        first: T,
        mut look: impl FnMut() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, latest) = watch::channel(Arc::new(first));
        let bell = Arc::new(Bell::default());
        let heard = Arc::clone(&bell);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                let begin = now();
                let seen = look();
                let took = begin.elapsed();
                if sender.send(Arc::new(seen)).is_err() {
                    return;
                }
                // The feed itself has one.
                let is_watched = || sender.receiver_count() > 1;
                if !heard.rest(took, is_watched) {
                    return;
                }
            }
        })?;
        Ok(Self { latest, bell })
    }

    /// What was seen last.
    pub(crate) fn latest(&self) -> Arc<T> {
        Arc::clone(&self.latest.borrow())
    }

    /// What is seen from now on, and what was seen last.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<T>> {
        let mut subscribed = self.latest.clone();
        subscribed.mark_changed();
        // Locked, so that the thread is before its decision or in its rest.
        drop(self.bell.ended.lock());
        self.bell.rung.notify_one();
        subscribed
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        *self.bell.ended.lock() = true;
        self.bell.rung.notify_one();
    }
}

impl Bell {
    /// Waits for the time of the next look; `false` if there is none.
    fn rest(&self, took: Duration, is_watched: impl Fn() -> bool) -> bool {
        let begin = now();
        let slow = took.saturating_mul(PAUSE).min(LONGEST);
        let mut ended = self.ended.lock();
        loop {
            if *ended {
                return false;
            }
            let pause = slow.max(if is_watched() { WATCHED.saturating_sub(took) } else { ALONE });
            match pause.checked_sub(begin.elapsed()) {
                None | Some(Duration::ZERO) => return true,
                Some(left) => _ = self.rung.wait_for(&mut ended, left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures::executor::block_on;

    use super::*;

    #[test]
    fn a_hundred_pages_cost_no_more_looks_than_one() {
        let begun: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let looks = Arc::clone(&begun);
        let feed = Feed::start("test", 0, move || {
            let mut looks = looks.lock();
            looks.push(now());
            looks.len()
        });
        let feed = feed.unwrap();
        let mut pages: Vec<_> = (0..100).map(|_| feed.subscribe()).collect();
        for page in &mut pages {
            assert!(**block_on(page.wait_for(|seen| **seen >= 3)).unwrap() >= 3);
            // Others come and go.
            drop(feed.subscribe());
        }
        let begun = begun.lock();
        let gaps = begun.windows(2).map(|looks| looks[1] - looks[0]);
        assert!(gaps.into_iter().all(|gap| gap >= WATCHED), "{begun:?}");
    }

    #[test]
    fn a_page_that_opens_is_shown_what_was_seen_last_and_then_what_is_new() {
        let (sender, next) = std::sync::mpsc::channel();
        let feed = Feed::start("test", 0, move || next.recv().unwrap_or(0)).unwrap();
        let mut page = feed.subscribe();
        assert!(page.has_changed().unwrap() && **page.borrow_and_update() == 0);
        sender.send(1).unwrap();
        block_on(page.wait_for(|seen| **seen == 1)).unwrap();
        assert_eq!((*feed.latest(), **feed.subscribe().borrow_and_update()), (1, 1));
        drop(feed);
        drop(sender);
        // The thread ends, and says so.
        while block_on(page.changed()).is_ok() {}
    }

    #[test]
    fn a_look_that_takes_long_is_followed_by_a_pause_that_is_bounded() {
        let bell = Bell::default();
        let begin = now();
        assert!(bell.rest(Duration::from_millis(400), || true));
        assert!(begin.elapsed() >= Duration::from_millis(1_600));
        *bell.ended.lock() = true;
        assert!(!bell.rest(Duration::MAX, || true));
    }
}
