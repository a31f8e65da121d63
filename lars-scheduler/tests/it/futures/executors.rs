//! On every executor, and from one to another.

use futures::executor::block_on;
use futures::future::FutureExt;
use lars_scheduler::future::{Interval, Sleep};
use lars_scheduler::{Handle, LightArrayRevolverScheduler};

use crate::common::{eventually, ms, virtual_time};

#[test]
#[allow(clippy::async_yields_async)] // the sleep itself is handed on
fn a_polled_sleep_moves_from_one_executor_to_another() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let begin = scheduler.now();
    let mut sleep = scheduler.sleep(ms(100));
    // Without the drivers of their own timers: none of them is needed.
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    assert_eq!(block_on(async { (&mut sleep).now_or_never() }), None);
    let sleep = tokio.block_on(async move {
        let mut sleep = tokio::spawn(async move {
            let _ = (&mut sleep).now_or_never();
            sleep
        })
        .await
        .unwrap();
        let _ = (&mut sleep).now_or_never();
        sleep
    });
    let ended = smol::block_on(smol::spawn(sleep));
    assert_eq!(ended, Ok(()));
    assert!(scheduler.now() - begin >= ms(100));
    let metrics = scheduler.metrics();
    assert_eq!((metrics.fired, metrics.pending), (1, 0), "one timer at a time");
}

#[test]
fn sleeps_timeouts_and_intervals_run_on_every_executor() {
    async fn all(timers: Handle) {
        let begin = timers.now();
        timers.sleep(ms(3)).await.unwrap();
        assert!(timers.now() - begin >= ms(3));
        let late = timers.timeout(ms(2), std::future::pending::<()>()).await;
        assert!(late.is_err());
        assert!(timers.now() - begin >= ms(5));
        let mut interval = timers.interval(ms(1)).unwrap();
        for number in 0..5 {
            let due = interval.tick().await.unwrap();
            assert!(timers.now() >= due, "tick {number} was early");
        }
        let worked = timers.after(ms(1), async { 7 }).await;
        assert_eq!(worked, Ok(7));
    }
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    block_on(all(scheduler.handle()));
    smol::block_on(all(scheduler.handle()));
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    tokio.block_on(async {
        let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(all(scheduler.handle()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(all(scheduler.handle()));
    eventually("everything is accounted for", || scheduler.pending() == 0);
}

#[test]
fn a_sleep_is_send_sync_and_unpin() {
    fn check<T: Send + Sync + Unpin + 'static>() {}
    check::<Sleep>();
    check::<Interval>();
    fn moves<T: Send + Sync>(_: T) {}
    let time = virtual_time();
    moves(time.timeout(ms(1), async {}));
    moves(time.after(ms(1), async {}));
    moves(async { time.sleep(ms(1)).await });
}
