//! Where a view gets its snapshots from: a probe in the same process, or a socket.

use std::thread;
use std::time::Duration;

use crate::probe::Probe;
use crate::snapshot::Snapshot;
use crate::sync::{Arc, AtomicBool, Ordering, Receiver, SyncSender, TrySendError, sync_channel};

/// The time between two snapshots.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// What a source tells a view.
#[derive(Debug)]
pub enum News {
    /// A snapshot.
    Snapshot(Box<Snapshot>),
    /// There is no snapshot at the moment, for this reason.
    Trouble(String),
}

/// A thread that gets snapshots, and where they arrive. It ends soon after this is dropped.
#[derive(Debug)]
pub(crate) struct Source<N> {
    news: Receiver<N>,
    ended: Arc<AtomicBool>,
}

/// The thread's side.
pub(crate) struct Outlet<N> {
    sender: SyncSender<N>,
    ended: Arc<AtomicBool>,
}

/// Snapshots of this process.
pub(crate) fn of_probe(probe: Probe) -> std::io::Result<Source<News>> {
    Source::start(move |outlet| {
        while outlet.send(News::Snapshot(Box::new(probe.snapshot()))) {
            outlet.pause(EVERY);
        }
    })
}

impl<N: Send + 'static> Source<N> {
    /// What `run` sends, on a thread of its own.
    pub(crate) fn start(run: impl FnOnce(Outlet<N>) + Send + 'static) -> std::io::Result<Self> {
        // Few: a view that is stopped shows what is new when it goes on.
        let (sender, news) = sync_channel(2);
        let ended = Arc::new(AtomicBool::new(false));
        let outlet = Outlet { sender, ended: Arc::clone(&ended) };
        thread::Builder::new().name("lars-top-source".to_owned()).spawn(move || run(outlet))?;
        Ok(Self { news, ended })
    }

    /// What has come since the last call.
    pub(crate) fn news(&self) -> impl Iterator<Item = N> + '_ {
        self.news.try_iter()
    }
}

impl<N> Drop for Source<N> {
    fn drop(&mut self) {
        // Relaxed: nothing else is passed on by it.
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl<N> Outlet<N> {
    /// Passes something on, unless the view does not take it; says whether there is a view.
    pub(crate) fn send(&self, news: N) -> bool {
        match self.sender.try_send(news) {
            Ok(()) | Err(TrySendError::Full(_)) => !self.has_ended(),
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits, but not longer than the view lasts (and a moment).
    pub(crate) fn pause(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.has_ended() {
            let part = left.min(Duration::from_millis(100));
            thread::sleep(part);
            left -= part;
        }
    }
}
