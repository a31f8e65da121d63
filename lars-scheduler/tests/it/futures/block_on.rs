//! Virtual time that moves by itself.

use std::time::Duration;

use futures::future::join_all;
use lars_scheduler::Refusal;
use lars_scheduler::future::Stalled;

use crate::common::{Notes, ms, secs, virtual_time};

#[test]
fn block_on_moves_time_from_deadline_to_deadline() {
    let time = virtual_time();
    let timers = time.handle();
    let order = Notes::new();
    let start = time.now();
    let sleeper = |millis| {
        let (timers, order) = (timers.clone(), order.clone());
        async move {
            timers.sleep(ms(millis)).await.unwrap();
            order.add((millis, (timers.now() - start).as_millis() as u64));
        }
    };
    time.block_on(join_all([30, 10, 20].map(sleeper))).unwrap();
    assert_eq!(order.take(), [(10, 10), (20, 20), (30, 30)]);
    assert_eq!(time.elapsed(), ms(30));
}

#[test]
fn block_on_says_when_nothing_could_ever_wake_the_future() {
    let time = virtual_time();
    let (_sender, receiver) = futures::channel::oneshot::channel::<()>();
    assert!(matches!(time.block_on(receiver), Err(Stalled)));
    // A future that is woken without a timer goes on.
    let yields = async {
        for _ in 0..10 {
            smol::future::yield_now().await;
        }
    };
    assert_eq!(time.block_on(yields), Ok(()));
    assert_eq!(time.elapsed(), Duration::ZERO);
}

#[test]
fn block_on_ends_sleeps_of_a_scheduler_that_one_of_its_tasks_stops() {
    let time = virtual_time();
    let timers = time.handle();
    let ended = time.block_on(async {
        let sleeping = timers.sleep(secs(10));
        let stopping = async {
            timers.sleep(secs(1)).await.unwrap();
            drop(time.stop());
        };
        futures::join!(sleeping, stopping).0
    });
    assert_eq!(ended, Ok(Err(Refusal::Stopped)));
    assert_eq!(time.elapsed(), secs(1));
}
