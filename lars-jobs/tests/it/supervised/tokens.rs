//! Tokens: looked at, slept on, awaited.

use super::*;

#[test]
fn a_token_is_cancelled_at_the_deadline_and_not_when_the_run_ends_in_time() {
    let time = Arc::new(virtual_time());
    let executor = ByHand::default();
    let (inner, tokens) = (Arc::clone(&time), Notes::new());
    let kept = tokens.clone();
    let runs = AtomicU32::new(0);
    let _task = every_ten()
        .build()
        .unwrap()
        .start(&time, executor.clone(), move |token| {
            kept.add(token.clone());
            if runs.fetch_add(1, Ordering::SeqCst) == 1 {
                inner.advance(secs(4) - ns(1));
                assert!(!token.is_cancelled());
                inner.advance(ns(1));
                assert!(token.is_cancelled());
            }
        })
        .unwrap();
    for _ in 0..2 {
        time.advance(secs(10));
        assert!(executor.run_next());
    }
    time.advance(secs(1));
    assert_eq!(time.metrics().panicked, 0, "an assertion in the run failed");
    let cancelled: Vec<_> = tokens.take().iter().map(CancelToken::is_cancelled).collect();
    assert_eq!(cancelled, [false, true]);
}

#[test]
fn a_thread_that_sleeps_on_its_token_wakes_up_when_the_run_is_given_up() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = Supervision::every(ms(5))
        .build()
        .unwrap()
        .start(&scheduler, Pool::new("sleeper", 1).unwrap(), move |token| {
            let before = token.wait_timeout(Duration::ZERO);
            let _ = sender.send((before, token.wait_timeout(Duration::MAX)));
        })
        .unwrap();
    let (_, woken) = receiver.recv_timeout(PATIENCE).unwrap();
    assert!(woken);
    eventually("the straggler to end", || task.counts().late_ends > 0);
    task.cancel();
}

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct CountWakes(AtomicU32);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A run that hands its token to the test, under way.
fn with_token(time: &VirtualTime) -> (Supervised, CancelToken) {
    let tokens = Notes::new();
    let kept = tokens.clone();
    let make = move |token: CancelToken| {
        kept.add(token);
        pending::<()>()
    };
    let builder = every_ten().initial_delay(Duration::ZERO).given_up(GivenUp::Leave);
    let task = builder.build().unwrap().start_future(time, Inline, make).unwrap();
    time.advance(ns(0));
    (task, tokens.take().pop().unwrap())
}

fn poll_with<F: Future>(future: Pin<&mut F>, waker: &Arc<CountWakes>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
}

#[test]
fn whoever_awaits_a_token_is_woken_once_with_the_last_waker_and_a_dropped_wait_is_forgotten() {
    let time = virtual_time();
    let (_task, token) = with_token(&time);
    let wakers: [Arc<CountWakes>; 3] = Default::default();
    let mut awaited = pin!(token.cancelled());
    let mut dropped = Box::pin(token.cancelled());
    assert!(poll_with(awaited.as_mut(), &wakers[0]).is_pending());
    assert!(poll_with(awaited.as_mut(), &wakers[1]).is_pending());
    assert!(poll_with(dropped.as_mut(), &wakers[2]).is_pending());
    drop(dropped);
    assert_eq!(Arc::strong_count(&wakers[0]), 1, "a waker was kept that is not used");
    assert_eq!(Arc::strong_count(&wakers[2]), 1, "a waker outlives its future");
    time.advance(secs(4));
    let woken = wakers.each_ref().map(|waker| waker.0.load(Ordering::SeqCst));
    assert_eq!(woken, [0, 1, 0]);
    assert!(poll_with(awaited.as_mut(), &wakers[1]).is_ready());
    assert!(poll_with(pin!(token.cancelled()), &wakers[0]).is_ready());
}

struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("bad waker");
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_asleep() {
    let time = virtual_time();
    let (task, token) = with_token(&time);
    let good = Arc::new(CountWakes::default());
    let mut first = pin!(token.cancelled());
    let mut second = pin!(token.cancelled());
    let bad = Waker::from(Arc::new(BadWaker));
    assert!(first.as_mut().poll(&mut Context::from_waker(&bad)).is_pending());
    assert!(poll_with(second.as_mut(), &good).is_pending());
    time.advance(secs(4));
    assert_eq!(good.0.load(Ordering::SeqCst), 1);
    assert_eq!(time.metrics().panicked, 1);
    assert_eq!(task.counts().timeouts, 1);
    assert!(!task.is_ended());
}
