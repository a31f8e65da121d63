//! What is used in virtual time, each by itself. 1 means that it did what it should.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use lars_jobs::Jobs;
use lars_jobs::debounce::{Debounce, Throttle};
use lars_jobs::delay_queue::DelayQueue;
use lars_jobs::repeated_timer::RepeatedTimer;
use lars_jobs::wall_clock::{CronSchedule, VirtualWallClock, WallClockScheduler};
use lars_jobs::worker::Worker;
use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, Context, Reply};

type Outcome = Result<bool, Box<dyn Error>>;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn time() -> Result<VirtualTime, Box<dyn Error>> {
    Ok(LightArrayRevolverScheduler::builder().build_virtual()?)
}

/// A number that tasks may change: they are `Send`, here too.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! systems {
    ($($name:ident: $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> u32 {
                let run: fn() -> Outcome = $body;
                run().unwrap_or(false).into()
            }
        )*
    };
}

systems! {
    system_debounce: || {
        let (time, runs) = (time()?, Count::default());
        let counted = runs.clone();
        let debounce = Debounce::new(&time, MS(200), move |_: u32| counted.add())?;
        for width in 0..5 {
            debounce.call(width)?;
            time.advance(MS(100));
        }
        let before = runs.get();
        time.advance(MS(100));
        Ok((before, runs.get()) == (0, 1))
    };
    system_throttle: || {
        let (time, runs) = (time()?, Count::default());
        let counted = runs.clone();
        let throttle = Throttle::new(&time, MS(300), move |_: u32| counted.add())?;
        for edit in 0..6 {
            throttle.call(edit)?;
            time.advance(MS(100));
        }
        Ok(runs.get() == 2 || runs.get() == 3)
    };
    system_sleep: || {
        let time = time()?;
        let (timers, begin) = (time.handle(), time.now());
        time.block_on(async move { timers.sleep(MS(50)).await })??;
        Ok(time.now() - begin == MS(50))
    };
    system_default_sleep: || {
        let time = time()?;
        time.block_on(lars_scheduler_sleep())?;
        Ok(time.elapsed() == MS(70))
    };
    system_timeout: || {
        let time = time()?;
        let timers = time.handle();
        let pending = std::future::pending::<()>();
        Ok(time.block_on(async move { timers.timeout(MS(50), pending).await })?.is_err())
    };
    system_interval: || {
        let time = time()?;
        let mut interval = time.interval(MS(10))?;
        time.block_on(async move {
            for _ in 0..5 {
                interval.tick().await?;
            }
            Ok::<_, lars_scheduler::Refusal>(())
        })??;
        Ok(time.elapsed() == MS(40))
    };
    system_delay_queue: || {
        let time = time()?;
        let timers = time.handle();
        let queue = DelayQueue::with_clock(move || timers.now());
        queue.put('b', MS(20))?;
        queue.put('a', MS(10))?;
        let (first, handle) = (queue.next(&time), time.handle());
        let first = time.block_on(first)?;
        let second = time.block_on(queue.next(&handle))?;
        Ok((first?, second?) == ('a', 'b') && time.elapsed() == MS(20))
    };
    system_call: || {
        let time = time()?;
        let seven = time.schedule_call(MS(5), || 7)?;
        time.advance(MS(5));
        Ok(seven.wait()? == 7)
    };
    system_repeated_timer: || {
        let (time, runs) = (time()?, Count::default());
        let counted = runs.clone();
        let timer = RepeatedTimer::new(&time, MS(10), move |_| counted.add())?;
        timer.start()?;
        time.advance(MS(45));
        Ok(runs.get() == 4)
    };
    system_worker: || {
        let (time, runs) = (time()?, Count::default());
        let counted = runs.clone();
        let worker = Worker::new(&time);
        let _ = worker.schedule(move || counted.add())?;
        time.advance(MS(1));
        Ok(runs.get() == 1)
    };
    system_cron: || {
        let (time, runs) = (time()?, Count::default());
        let counted = runs.clone();
        let clock = VirtualWallClock::new(time.handle(), SystemTime::UNIX_EPOCH);
        let wall = WallClockScheduler::with_clock(time.handle(), clock);
        wall.schedule_by_calendar(CronSchedule::parse("0 9 * * *", "UTC")?, move || counted.add())?;
        time.advance(Duration::from_secs(24 * 3600));
        Ok(runs.get() == 1)
    };
    system_actor_timers: || {
        let kit = TestKit::new("kit")?;
        let drop_of = kit.spawn("drop", || Drops(0))?;
        kit.advance(MS(1_000));
        Ok(drop_of.is_stopped())
    };
    system_ask: || {
        let kit = TestKit::new("kit")?;
        let five = kit.spawn("five", || Five)?;
        let answer = five.ask(|reply| reply, MS(100));
        kit.settle();
        Ok(answer.wait()? == 5)
    };
}

async fn lars_scheduler_sleep() {
    lars_scheduler::time::sleep(MS(70)).await;
}

/// Stops at the end of its receive timeout, if its timer has fired twice before.
struct Drops(u32);

impl Actor for Drops {
    type Message = ();

    fn started(&mut self, ctx: &mut Context<Self>) {
        let _ = ctx.set_receive_timeout(MS(50));
        let _ = ctx.timers().start_single("drop", MS(20), ());
    }

    fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
        self.0 += 1;
        if self.0 < 2 {
            let _ = ctx.timers().start_single("drop", MS(20), ());
        }
    }

    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        if self.0 == 2 {
            ctx.stop();
        }
    }
}

struct Five;

impl Actor for Five {
    type Message = Reply<u32>;

    fn receive(&mut self, reply: Reply<u32>, _: &mut Context<Self>) {
        reply.send(5);
    }
}
