//! A shop that does something all the time, with its pages: a scheduler, actors, durable timers
//! that run, fail, wait and are given up, and texts that no page must take for more than texts.
//!
//! ```text
//! cargo run -p lars-web --example shop_in_a_browser
//! ```
//!
//! It prints its token and its address, and ends with its standard input. `ci/web.sh` clicks
//! through it in Chromium.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::time::Duration;

use axum::Router;
use lars_durable::{Durable, Fired, Handler, Outcome, Payload, Timers};
use lars_web::{Console, Probe, SlowLog, new_token};
use mini_actor::{Actor, ActorSystem, Context};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

const HOUR: Duration = Duration::from_secs(3_600);

/// A text that runs, if a page takes it for more than a text.
const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>";

macro_rules! payloads {
    ($($payload:ident is $name:literal),*) => {$(
        #[derive(Debug, Serialize, Deserialize)]
        struct $payload { order: u32, note: String }
        impl Payload for $payload { const NAME: &'static str = $name; }
    )*};
}
payloads!(Remind is "remind", Charge is "charge", Report is "<b onclick=alert(3)>report</b>");

/// Greets, and counts.
struct Greeter;

impl Actor for Greeter {
    type Message = u32;

    fn receive(&mut self, number: u32, _: &mut Context<Self>) {
        if number.is_multiple_of(97) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The shop's durable timers: reminders that run, and charges that fail.
fn open_shop() -> Result<Durable, Box<dyn Error>> {
    let charge = |charge: &Fired<Charge>| match charge.payload().order {
        order if order.is_multiple_of(3) => Outcome::Park(format!("order {order}: {HOSTILE}")),
        _ => Outcome::Retry("connection refused".into()),
    };
    let durable = Durable::in_memory()
        .name("shop-1")
        .handle(|_: &Fired<Remind>| ())
        .handler(Handler::new(charge))
        .start()?;
    let timers = durable.timers();
    let note = || "be kind".to_owned();
    for order in 1..=250 {
        let delay = HOUR + Duration::from_secs(u64::from(order) * 60);
        let remind = timers.schedule_once(delay, Remind { order, note: note() });
        remind.key(format!("order/{order}")).submit().wait()?;
    }
    for order in 1..=12 {
        let charge = timers.schedule_once(Duration::ZERO, Charge { order, note: note() });
        charge.key(format!("charge/{order}")).submit().wait()?;
    }
    // Nobody handles it.
    let report = Report { order: 0, note: HOSTILE.to_owned() };
    timers.schedule_once(2 * HOUR, report).key(HOSTILE).submit().wait()?;
    Ok(durable)
}

/// Reminders that are due at once, again and again.
fn keep_busy(timers: &Timers) -> Result<(), Box<dyn Error>> {
    let remind = Remind { order: 0, note: "again".to_owned() };
    let every = Duration::from_millis(50);
    timers.schedule_at_fixed_rate(every, every, remind).key("again").submit().wait()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let slow = SlowLog::new();
    let system = ActorSystem::new("shop")?;
    let greeter = system.spawn("greeter", || Greeter)?;
    let timers = system.scheduler().timers().clone();
    let hello = Duration::from_millis(10);
    let mut number = 0;
    let _greetings = timers.schedule_at_fixed_rate(hello, hello, move || {
        number += 1;
        let _ = greeter.tell(number);
    })?;
    let session = || lars_scheduler::Task::new(|| ()).named("<i>session</i>");
    let sessions: Result<Vec<_>, _> =
        (0..500).map(|it| timers.schedule_once(HOUR / 60 * it, session())).collect();
    let _sessions = sessions?;
    let durable = open_shop()?;
    keep_busy(&durable.timers())?;

    let token = new_token()?;
    let probe = Probe::of_system(&system.system()).slow_log(&slow);
    let console = Console::new().about("a shop").program(probe).group(durable.timers());
    let pages = console.token(&token).actions().start()?;
    let service = Router::new().nest_service("/ops/timers", pages);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{token}\nhttp://{}/ops/timers", listener.local_addr()?);
        let (end, ended) = futures::channel::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = end.send(());
        });
        // Pages that are open stay so: they are not waited for.
        tokio::select! {
            served = axum::serve(listener, service).into_future() => served?,
            _ = ended => {}
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    durable.close()?;
    system.close()?;
    Ok(())
}
