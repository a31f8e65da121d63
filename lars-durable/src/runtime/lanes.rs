//! One thread per lane, for a store with one session per lane.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::inbox::Input;
use super::{Shared, contain};
use crate::engine::Lane;
use crate::model::{BucketNo, TimerId};
use crate::store::{Bell, Request, Ring, StartBell, Store, StoreError};
use crate::sync::Arc;

/// The channels to the threads. Dropping them ends each thread after its current batch.
pub(super) struct Lanes {
    keeper: Sender<Vec<Request>>,
    writer: Sender<Vec<Request>>,
    runner: Sender<Vec<Request>>,
    bell: Option<Box<dyn Bell>>,
}

impl Lanes {
    pub(super) fn start(
        [keeper, writer, runner]: [Box<dyn Store>; 3],
        bell: Option<StartBell>,
        shared: &Arc<Shared>,
    ) -> io::Result<Self> {
        let hear = Arc::clone(shared);
        let hear = move |ring| {
            // A node that has ended needs no answer.
            let _ = hear.push(match ring {
                Ring::Near(timers) => Input::Near(timers),
                Ring::Free => Input::Free,
                Ring::Deaf => Input::Deaf,
            });
        };
        Ok(Self {
            keeper: lane(Lane::Keeper, "lars-durable-keep", keeper, shared)?,
            writer: lane(Lane::Writer, "lars-durable-write", writer, shared)?,
            runner: lane(Lane::Runner, "lars-durable-run", runner, shared)?,
            bell: bell.map(|start| start(Box::new(hear))).transpose()?,
        })
    }

    pub(super) fn send(&self, lane: Lane, requests: Vec<Request>) {
        let lane = match lane {
            Lane::Keeper => &self.keeper,
            Lane::Writer => &self.writer,
            Lane::Runner => &self.runner,
        };
        // The thread ends only when this side is gone.
        let _ = lane.send(requests);
    }

    /// Tells the other nodes, if they are to be told.
    pub(super) fn announce(&self, timers: Vec<(BucketNo, TimerId)>) {
        if let Some(bell) = &self.bell {
            bell.near(timers);
        }
    }
}

fn lane(
    lane: Lane,
    name: &str,
    store: Box<dyn Store>,
    shared: &Arc<Shared>,
) -> io::Result<Sender<Vec<Request>>> {
    let (sender, receiver) = channel();
    let shared = Arc::clone(shared);
    let work = move || work(lane, store, &receiver, &shared);
    thread::Builder::new().name(name.into()).spawn(work)?;
    Ok(sender)
}

fn work(lane: Lane, mut store: Box<dyn Store>, batches: &Receiver<Vec<Request>>, shared: &Shared) {
    while let Ok(requests) = batches.recv() {
        let result = contain(|| store.transact(&requests)).unwrap_or_else(|panic| {
            // A defect. What the store did is not known, so the batch is repeated.
            Err(StoreError::unknown(panic))
        });
        let _ = shared.push(Input::Replied { lane, result });
    }
}
