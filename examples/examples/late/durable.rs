//! What makes durable timers late. In virtual time, so that each run says the same.

use std::error::Error;
use std::time::Duration;

use lars_durable::test_kit::Store;
use lars_durable::{Builder, Durable, Fired, Handler, Payload};
use lars_scheduler::late::Cause;
use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};
use serde::{Deserialize, Serialize};

use crate::faults::{Fault, Injected};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) const ALL: [Fault; 4] = [
    Fault::alone(
        "full handler",
        "a durable handler has as many runs as it may",
        &[Cause::HandlerFull],
        || full(|node, mail| node.handler(mail.concurrency(1))),
    ),
    Fault::alone(
        "full node",
        "a node of durable timers has as many runs as it may",
        &[Cause::NodeFull],
        || full(|node, mail| node.handler(mail).max_in_flight(1)),
    ),
    Fault::alone(
        "slow store",
        "the store of durable timers does not answer for a while",
        &[Cause::Store],
        slow_store,
    ),
    Fault::alone(
        "no owner",
        "a node dies, and its timers wait for the end of its lease",
        &[Cause::NoOwner],
        no_owner,
    ),
];

#[derive(Serialize, Deserialize)]
struct Mail;

impl Payload for Mail {
    const NAME: &'static str = "mail";
}

struct Bench {
    time: VirtualTime,
    store: Store,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let time = LightArrayRevolverScheduler::builder().build_virtual()?;
        let store = Store::new(&time.handle());
        Ok(Self { time, store })
    }

    fn node(&self) -> Builder {
        self.store.node().explain_late(SECOND)
    }

    /// Takes ten seconds for each.
    fn mail(&self) -> Handler {
        let time = self.time.handle();
        Handler::future(move |_: Fired<Mail>| {
            let sleep = time.sleep(10 * SECOND);
            async move { drop(sleep.await) }
        })
    }

    fn send(node: &Durable, after: Duration, count: u32) -> Result<(), Box<dyn Error>> {
        for number in 0..count {
            // (With a key its bucket may be any.)
            let mail = node.timers().schedule_once(after, Mail).key(number.to_string());
            mail.submit().wait()?;
        }
        Ok(())
    }

    fn end(self, node: &Durable) -> Injected {
        self.time.advance(120 * SECOND);
        Ok(Some(node.lateness().into()))
    }
}

fn full(limit: fn(Builder, Handler) -> Builder) -> Injected {
    let bench = Bench::new()?;
    let node = limit(bench.node(), bench.mail()).start()?;
    // What a new node may run at once grows in its first moments.
    bench.time.advance(60 * SECOND);
    Bench::send(&node, SECOND, 3)?;
    bench.end(&node)
}

fn slow_store() -> Injected {
    let bench = Bench::new()?;
    let node = bench.node().handler(bench.mail()).start()?;
    bench.time.advance(60 * SECOND);
    Bench::send(&node, SECOND, 3)?;
    bench.store.set_reachable(false);
    bench.time.advance(5 * SECOND);
    bench.store.set_reachable(true);
    bench.end(&node)
}

fn no_owner() -> Injected {
    let bench = Bench::new()?;
    let alive = bench.node().handler(bench.mail()).start()?;
    let dies = bench.node().handler(bench.mail()).start()?;
    bench.time.advance(60 * SECOND);
    Bench::send(&alive, 2 * SECOND, 8)?;
    dies.kill();
    bench.end(&alive)
}
