//! Virtual time that another thread waits for, by mistake.

use std::pin::pin;
use std::sync::mpsc;

use futures::{FutureExt, poll};
use lars_scheduler::Handle;
use lars_scheduler::future::{BlockOnError, Stalled};
use tokio::runtime;

use crate::common::{ms, scaled, virtual_time};

/// It gave a wrong order in silence, once in a while.
#[test]
fn tasks_on_other_threads_that_wait_for_virtual_time_are_an_error_and_no_wrong_order() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for _ in 0..scaled(50, 2) {
        let time = virtual_time();
        let timers = time.handle();
        let ended = time.block_on(async {
            let tasks = [5, 10].map(|delay| {
                let timers = timers.clone();
                runtime.spawn(async move { timers.sleep(ms(delay)).await })
            });
            for task in tasks {
                task.await.unwrap().unwrap();
            }
        });
        // (Stalled if the tasks have not begun when there is nothing else to do.)
        assert!(matches!(ended, Err(BlockOnError::OtherThread | Stalled)), "{ended:?}");
    }
}

#[test]
fn a_timer_that_another_thread_waits_for_ends_block_on() {
    let time = virtual_time();
    let timers = time.handle();
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (clock, (waits, wait)) = (timers.clone(), mpsc::channel());
    let _task = runtime.spawn(async move {
        let mut sleep = pin!(clock.sleep(ms(5)));
        assert!(poll!(&mut sleep).is_pending());
        waits.send(()).unwrap();
        sleep.await
    });
    wait.recv().unwrap();
    let ended = time.block_on(timers.sleep(ms(10)));
    assert_eq!(ended, Err(BlockOnError::OtherThread));
    assert_eq!(time.elapsed(), ms(5), "and not a step further");
}

#[test]
fn another_thread_that_waits_for_virtual_time_is_an_error_after_a_block_on_inside_the_first_too() {
    let wait_elsewhere = |timers: &Handle| {
        let timers = timers.clone();
        let wait = move || assert!(pin!(timers.sleep(ms(10))).now_or_never().is_none());
        std::thread::spawn(wait).join().unwrap();
    };
    for comes_first in [true, false] {
        let time = virtual_time();
        let ended = time.block_on(async {
            if comes_first {
                wait_elsewhere(&time);
            }
            let inside = time.block_on(time.sleep(ms(5)));
            assert_eq!(inside.is_err(), comes_first, "{inside:?}");
            if !comes_first {
                wait_elsewhere(&time);
            }
        });
        assert_eq!(ended, Err(BlockOnError::OtherThread));
        // It is over then.
        assert_eq!(time.block_on(time.sleep(ms(5))), Ok(Ok(())));
    }
}
