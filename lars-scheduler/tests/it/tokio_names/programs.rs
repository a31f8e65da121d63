//! What programs do with `tokio::time`, a function for each of its items. The line below is the
//! only one that knows whose names they are.

use super::time::{
    self, Duration, Instant, Interval, MissedTickBehavior, Sleep, error::Elapsed, interval,
    interval_at, sleep, sleep_until, timeout, timeout_at,
};

use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::{mpsc, oneshot};

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// Work that takes some time.
async fn work(takes: Duration) {
    sleep(takes).await;
}

pub(crate) async fn a_sleep_lasts_as_long_as_was_asked_for() {
    let begin = Instant::now();
    sleep(ms(20)).await;
    assert!(begin.elapsed() >= ms(20));
}

pub(crate) async fn a_sleep_until_an_instant_ends_then_or_at_once_if_it_has_passed() {
    let begin = Instant::now();
    sleep_until(begin + ms(20)).await;
    assert!(Instant::now() >= begin + ms(20));
    sleep_until(begin).await;
}

pub(crate) async fn a_pinned_sleep_is_moved_in_a_loop() {
    let begin = Instant::now();
    let sleep = time::sleep(ms(5));
    tokio::pin!(sleep);
    assert!(!sleep.is_elapsed() || begin.elapsed() >= ms(5));
    let mut elapsed = 0;
    while elapsed < 3 {
        tokio::select! {
            () = &mut sleep => {
                elapsed += 1;
                assert!(sleep.is_elapsed());
                let next = sleep.deadline() + ms(10);
                sleep.as_mut().reset(next);
                assert_eq!(sleep.deadline(), next);
            }
        }
    }
    assert!(begin.elapsed() >= ms(25));
}

pub(crate) async fn a_sleep_is_part_of_another_future() {
    pin_project! {
        struct Inline {
            #[pin]
            sleep: Sleep,
        }
    }
    impl Future for Inline {
        type Output = ();
        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.project().sleep.poll(context)
        }
    }
    struct Boxed {
        sleep: Pin<Box<Sleep>>,
    }
    impl Future for Boxed {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.sleep.as_mut().poll(context)
        }
    }
    let begin = Instant::now();
    Inline { sleep: sleep(ms(5)) }.await;
    Boxed { sleep: Box::pin(sleep(ms(5))) }.await;
    assert!(begin.elapsed() >= ms(10));
}

pub(crate) async fn a_timeout_ends_work_that_takes_too_long_and_no_other() {
    let (sender, receiver) = oneshot::channel::<u32>();
    if timeout(ms(10), receiver).await.is_ok() {
        panic!("nobody has sent anything");
    }
    assert!(sender.is_closed()); // the work was dropped
    let (sender, receiver) = oneshot::channel();
    sender.send(7).unwrap();
    assert_eq!(timeout(ms(60_000), receiver).await, Ok(Ok(7)));
    // Even without any time the work is polled once.
    assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7));
}

pub(crate) async fn a_timeout_until_an_instant_is_shared_by_several_steps() {
    let deadline = Instant::now() + ms(20);
    let first: Result<u32, Elapsed> = timeout_at(deadline, async { 1 }).await;
    assert_eq!(first, Ok(1));
    assert!(timeout_at(deadline, pending::<()>()).await.is_err());
    assert!(Instant::now() >= deadline);
}

pub(crate) async fn work_is_looked_at_and_taken_out_of_its_timeout() {
    let (sender, receiver) = oneshot::channel();
    let mut limited = timeout(ms(60_000), receiver);
    assert!(limited.get_mut().try_recv().is_err());
    sender.send(7).unwrap();
    assert!(!limited.get_ref().is_terminated());
    assert_eq!(limited.into_inner().await, Ok(7));
}

pub(crate) async fn an_elapsed_time_is_an_io_error() {
    async fn read() -> io::Result<u32> {
        timeout(ms(5), pending::<io::Result<u32>>()).await?
    }
    assert_eq!(read().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

pub(crate) async fn an_interval_ticks_at_once_and_then_each_period() {
    let begin = Instant::now();
    let mut interval = interval(ms(10));
    let first = interval.tick().await;
    assert!(first >= begin);
    assert_eq!(interval.tick().await, first + ms(10));
    assert_eq!(interval.tick().await, first + ms(20));
    assert!(begin.elapsed() >= ms(20));
}

pub(crate) async fn an_interval_counts_the_time_of_the_work_and_a_sleep_does_not() {
    let begin = Instant::now();
    let mut interval = time::interval(ms(20));
    for _ in 0..3 {
        interval.tick().await;
        work(ms(5)).await;
    }
    assert!(begin.elapsed() >= ms(45));
    let begin = Instant::now();
    for _ in 0..2 {
        work(ms(5)).await;
        sleep(ms(20)).await;
    }
    assert!(begin.elapsed() >= ms(50));
}

pub(crate) async fn an_interval_begins_at_an_instant() {
    let start = Instant::now() + ms(30);
    let mut interval = interval_at(start, ms(10));
    assert_eq!(interval.period(), ms(10));
    for number in 0..3 {
        assert_eq!(interval.tick().await, start + number * ms(10));
    }
    assert!(Instant::now() >= start + ms(20));
}

pub(crate) async fn an_interval_starts_over() {
    let mut interval = interval(ms(20));
    interval.tick().await;
    let at = Instant::now() + ms(5);
    interval.reset_at(at);
    assert_eq!(interval.tick().await, at);
    let before = Instant::now();
    interval.reset();
    assert!(interval.tick().await >= before + ms(20));
    let before = Instant::now();
    interval.reset_after(ms(5));
    assert!(interval.tick().await >= before + ms(5));
    let before = Instant::now();
    interval.reset_immediately();
    assert!(interval.tick().await >= before);
}

pub(crate) async fn an_interval_that_loses_a_select_loses_no_tick() {
    let (sender, mut receiver) = mpsc::channel(8);
    let start = Instant::now();
    let mut interval = interval_at(start, ms(10));
    let mut ticks = Vec::new();
    let send = async {
        for number in 0..5 {
            sleep(ms(4)).await;
            sender.send(number).await.unwrap();
        }
    };
    let receive = async {
        let mut received = 0;
        while received < 5 || ticks.len() < 3 {
            tokio::select! {
                tick = interval.tick() => ticks.push(tick - start),
                Some(_) = receiver.recv() => received += 1,
            }
        }
    };
    tokio::join!(send, receive);
    for (number, tick) in ticks.into_iter().enumerate() {
        assert_eq!(tick, ms(10) * u32::try_from(number).unwrap());
    }
}

/// The ticks of an interval of 50 ms whose first tick is followed by work of 225 ms: when each was
/// due, and when it came, both from the start.
async fn ticks(behavior: MissedTickBehavior) -> Vec<(Duration, Duration)> {
    let start = Instant::now();
    let mut interval: Interval = interval_at(start, ms(50));
    assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    interval.set_missed_tick_behavior(behavior);
    assert_eq!(interval.missed_tick_behavior(), behavior);
    let mut ticks = Vec::new();
    for number in 0..7 {
        let due = interval.tick().await;
        ticks.push((due - start, start.elapsed()));
        if number == 0 {
            work(ms(225)).await;
        }
    }
    ticks
}

pub(crate) async fn missed_ticks_burst() {
    for (number, (due, came)) in ticks(MissedTickBehavior::Burst).await.into_iter().enumerate() {
        assert_eq!(due, ms(50) * u32::try_from(number).unwrap());
        assert!(came >= due);
    }
}

pub(crate) async fn missed_ticks_are_delayed() {
    let ticks = ticks(MissedTickBehavior::Delay).await;
    assert!(ticks[1].0 >= ms(50));
    assert!(ticks[1].1 >= ms(225));
    // The next one counts from when the late one came.
    assert!(ticks[2].0 >= ms(275));
    for pair in ticks[1..].windows(2) {
        assert!(pair[1].0 >= pair[0].0 + ms(50));
    }
}

pub(crate) async fn missed_ticks_are_skipped() {
    let ticks = ticks(MissedTickBehavior::Skip).await;
    assert!(ticks[1].0 >= ms(50));
    assert!(ticks[2].0 >= ms(250));
    for (due, _) in ticks {
        assert_eq!(due.as_nanos() % ms(50).as_nanos(), 0);
    }
}

/// In a time that passes only while all wait, nothing is late, and every tick is known.
pub(crate) async fn late_ticks_come_when_the_table_of_tokio_says() {
    let came = |ticks: Vec<(Duration, Duration)>| {
        ticks.into_iter().map(|(_, came)| came.as_millis()).collect::<Vec<_>>()
    };
    let burst = came(ticks(MissedTickBehavior::Burst).await);
    assert_eq!(burst, [0, 225, 225, 225, 225, 250, 300]);
    let delay = came(ticks(MissedTickBehavior::Delay).await);
    assert_eq!(delay, [0, 225, 275, 325, 375, 425, 475]);
    let skip = came(ticks(MissedTickBehavior::Skip).await);
    assert_eq!(skip, [0, 225, 250, 300, 350, 400, 450]);
}

pub(crate) async fn instants_are_compared_added_and_converted() {
    let now = Instant::now();
    let later = now + ms(20);
    assert_eq!(later - now, ms(20));
    assert_eq!(now - later, Duration::ZERO);
    assert_eq!(now.duration_since(later), Duration::ZERO);
    assert_eq!(now.saturating_duration_since(later), Duration::ZERO);
    assert_eq!(later.checked_duration_since(now), Some(ms(20)));
    assert_eq!(now.checked_duration_since(later), None);
    assert_eq!(now.checked_add(ms(20)), Some(later));
    assert_eq!(later.checked_sub(ms(20)), Some(now));
    assert_eq!(now.checked_add(Duration::MAX), None);
    assert_eq!(Instant::from_std(now.into_std()), now);
    assert_eq!(Instant::from(std::time::Instant::from(now)), now);
    let mut moving = now;
    moving += ms(20);
    assert_eq!(moving, later);
    moving -= ms(20);
    assert_eq!(moving, later - ms(20));
    assert!(Instant::now() >= now);
}
