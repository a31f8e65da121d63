//! Virtual time that another thread waits for, by mistake.

use std::pin::pin;
use std::sync::mpsc;

use futures::poll;
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
