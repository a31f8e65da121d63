//! A node with a thread for each lane, over the reference.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use lars_scheduler::Inline;

use crate::engine::NodeSettings;
use crate::model::Look;
use crate::runtime::{Beside, Runtime, Surroundings};
use crate::store::{Backend, Committed, Looker, MemoryStore, Request, Store, StoreError, Write};
use crate::sync::{Arc, Mutex};
use crate::time::system_clock;

/// Only a test that fails waits for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says how many calls it is asked for, and carries them out when it may.
struct Held {
    tables: MemoryStore,
    asked: Sender<usize>,
    may: Receiver<()>,
}

impl Store for Held {
    fn transact(&mut self, requests: &[Request]) -> Result<Committed, StoreError> {
        let calls = requests.iter().filter(|it| matches!(it, Request::Write(_))).count();
        if calls > 0 {
            self.asked.send(calls).unwrap();
            self.may.recv_timeout(PATIENCE).unwrap();
        }
        self.tables.transact(requests)
    }
}

impl Looker for Held {
    fn look(&mut self, limit: usize) -> Result<Look, StoreError> {
        self.tables.look(limit)
    }
}

#[test]
fn the_store_has_the_next_calls_before_the_callers_of_many_are_told() {
    let tables = MemoryStore::new(1, system_clock());
    let ((asked, asks), (permit, may)) = (channel(), channel());
    let (asks, permit) = (Arc::new(Mutex::new(asks)), Arc::new(Mutex::new(permit)));
    let lane = || Box::new(tables.clone());
    let backend = Backend::Lanes {
        keeper: lane(),
        writer: Box::new(Held { tables: tables.clone(), asked, may }),
        runner: lane(),
        bell: None,
        seen: system_clock()(),
    };
    let beside = Beside {
        name: "node".into(),
        on_parked: None,
        recorder: None,
        looker: lane(),
        file: None,
        group: "default".into(),
        executor: Arc::new(Inline),
        around: Surroundings::default(),
        threads: None,
    };
    let mut runtime = Runtime::start(beside, NodeSettings::new(Vec::new()), backend, Vec::new());
    let runtime = runtime.as_mut().unwrap();
    let call = |then: Box<dyn FnOnce() + Send>| {
        let write = Write::Pause { handler: "handler".into(), paused: true };
        runtime.shared.call(write, move |result| {
            result.unwrap();
            then();
        });
    };
    let next = || asks.lock().recv_timeout(PATIENCE);
    let go = || permit.lock().send(()).unwrap();
    // While one is carried out, a hundred come, and while those are, one more.
    call(Box::new(|| ()));
    assert_eq!(next(), Ok(1));
    let (told, tells) = channel();
    for number in 0..100 {
        let (asks, permit, told) = (Arc::clone(&asks), Arc::clone(&permit), told.clone());
        call(Box::new(move || {
            if number == 0 {
                told.send(asks.lock().recv_timeout(PATIENCE)).unwrap();
                permit.lock().send(()).unwrap();
            }
        }));
    }
    go();
    assert_eq!(next(), Ok(100));
    call(Box::new(|| ()));
    go();
    assert_eq!(tells.recv_timeout(2 * PATIENCE).unwrap(), Ok(1), "it waits for its callers");
    runtime.close(PATIENCE);
}
