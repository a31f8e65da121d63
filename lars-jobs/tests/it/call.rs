//! Scheduled calls with a result: whoever waits is told, in every case.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Weak, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ByHand, Captive, Notes, PATIENCE, eventually, ms, ns, occupy, scaled, secs, virtual_time,
};
use lars_jobs::Jobs;
use lars_jobs::call::{Call, CallError, ScheduledCall};
use lars_scheduler::{
    CloseError, ClosePolicy, LightArrayRevolverScheduler, MissedTickBehavior, Refusal, Task,
    VirtualTime,
};

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, woken: &Arc<Woken>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

/// Waits in real time, so that a test does not hang.
fn get<T>(call: ScheduledCall<T>) -> Result<T, CallError> {
    call.wait_timeout(PATIENCE).expect("the call has ended, one way or the other")
}

#[test]
fn a_call_returns_its_value_at_its_time_and_not_before() {
    let time = virtual_time();
    let mut call = time.schedule_call(secs(3), || 6 * 7).unwrap();
    let woken = Arc::new(Woken::default());
    assert!(poll(&mut call, &woken).is_pending());
    assert_eq!(call.remaining(), secs(3));
    assert_eq!(call.due(), Some(time.now() + secs(3)));
    time.advance(secs(3) - ns(1));
    assert_eq!((call.is_done(), call.remaining()), (false, ns(1)));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    time.advance(secs(10));
    assert_eq!((call.is_done(), call.remaining()), (true, Duration::ZERO));
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(matches!(poll(&mut call, &woken), Poll::Ready(Ok(42))));
}

/// The JDK's first test of its scheduled pool; and below a millisecond, where `java.util.Timer` is
/// early.
#[test]
fn in_real_time_a_thread_gets_the_value_and_the_call_has_not_run_early() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    for micros in [0, 50, 300, 700, 1_300, 5_000] {
        let delay = Duration::from_micros(micros);
        let start = Instant::now();
        let call = scheduler.schedule_call(delay, Instant::now).unwrap();
        assert!(get(call).unwrap() - start >= delay, "after {micros} µs the call is early");
    }
    let deadline = scheduler.now() + ms(2);
    let call = scheduler.schedule_call_at(deadline, Instant::now).unwrap();
    assert!(get(call).unwrap() >= deadline);
}

#[test]
fn a_call_can_be_awaited() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let sum = futures::executor::block_on(async {
        let one = scheduler.schedule_call(ms(3), || 1).unwrap();
        let two = scheduler.schedule_call(ms(1), || 2).unwrap();
        one.await.unwrap() + two.await.unwrap()
    });
    assert_eq!(sum, 3);
}

#[test]
fn a_wait_that_is_too_long_gives_the_call_back_to_go_on_with() {
    let time = virtual_time();
    let call = time.schedule_call(secs(1), || "value").unwrap();
    let call = call.wait_timeout(ms(1)).unwrap_err();
    let call = call.wait_timeout(Duration::ZERO).unwrap_err();
    time.advance(secs(1));
    assert_eq!(call.wait_timeout(Duration::ZERO).unwrap().unwrap(), "value");
}

#[test]
fn a_thread_that_waits_gets_the_value_when_time_is_moved() {
    let time = virtual_time();
    let call = time.schedule_call(secs(1), || "value").unwrap();
    let waiting = thread::spawn(move || call.wait());
    time.advance(secs(1));
    assert_eq!(waiting.join().unwrap().unwrap(), "value");
}

#[test]
fn the_panic_of_a_call_arrives_with_its_message_and_its_payload_and_harms_nothing_else() {
    let reports = Notes::new();
    let note = reports.clone();
    let time = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add(report.message.to_owned()))
        .build_virtual()
        .unwrap();
    let text = time.schedule_call(ms(1), || -> u32 { panic!("number {}", black_box(7)) }).unwrap();
    let other = time.schedule_call(ms(1), || -> u32 { std::panic::panic_any(vec![1, 2]) }).unwrap();
    let well = time.schedule_call(ms(1), || "well").unwrap();
    time.advance(ms(1));
    assert!(text.is_done() && !text.is_cancelled());
    let error = get(text).unwrap_err();
    assert_eq!(error.to_string(), "the call panicked: number 7");
    let CallError::Panicked(panic) = error else { panic!("not a panic: {error}") };
    assert_eq!(panic.message(), "number 7");
    assert_eq!(*panic.into_payload().downcast::<String>().unwrap(), "number 7");
    let Err(CallError::Panicked(panic)) = get(other) else { panic!("not a panic") };
    assert_eq!(*panic.into_payload().downcast::<Vec<i32>>().unwrap(), [1, 2]);
    assert_eq!(get(well).unwrap(), "well");
    // The scheduler knows too, as of any task.
    assert_eq!(reports.take()[0], "number 7");
    assert_eq!(time.metrics().panicked, 2);
}

#[test]
fn errors_of_calls_pass_through_the_usual_boxed_errors() {
    fn run() -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        let time = virtual_time();
        let call = time.schedule_call(ms(1), || 1_u32)?;
        call.cancel();
        Ok(call.wait()?)
    }
    assert_eq!(run().unwrap_err().to_string(), "the call was cancelled");
}

#[test]
fn cancelling_prevents_the_run_for_one_caller_and_tells_who_waits() {
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let call = time.schedule_call(secs(1), move || drop(captive)).unwrap();
    let canceller = call.canceller();
    assert!(!call.is_done() && !call.is_cancelled() && !canceller.is_cancelled());
    assert!(call.cancel());
    assert_eq!(notes.take(), ["captures dropped"]);
    assert!(!call.cancel() && !canceller.cancel());
    assert!(call.is_done() && call.is_cancelled() && canceller.is_cancelled());
    assert_eq!(time.pending(), 0);
    assert_eq!(time.advance(secs(5)), 0);
    assert!(matches!(get(call), Err(CallError::Cancelled)));
}

#[test]
fn a_call_that_has_run_or_runs_cannot_be_cancelled() {
    let time = virtual_time();
    let (give, take) = mpsc::channel::<ScheduledCall<bool>>();
    let (report, inside) = mpsc::channel();
    let call = time
        .schedule_call(ms(1), move || {
            let itself = take.recv().unwrap();
            report.send((itself.cancel(), itself.is_done())).unwrap();
            true
        })
        .unwrap();
    let canceller = call.canceller();
    give.send(call).unwrap();
    time.advance(ms(1));
    assert_eq!(inside.recv().unwrap(), (false, false));
    assert!(!canceller.cancel() && !canceller.is_cancelled());
}

#[test]
fn a_thread_that_waits_is_told_when_somebody_else_cancels() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let call = scheduler.schedule_call(secs(3_600), || ()).unwrap();
    let canceller = call.canceller().clone();
    let waiting = thread::spawn(move || call.wait());
    assert!(canceller.cancel());
    assert!(matches!(waiting.join().unwrap(), Err(CallError::Cancelled)));
}

/// In the JDK a thread that waits for a task that `shutdownNow` handed back waits forever.
#[test]
fn a_call_that_stop_hands_back_is_dropped_with_an_error_or_run_with_its_value() {
    let time = virtual_time();
    let dropped = time.schedule_call(secs(1), || 1).unwrap();
    let run = time.schedule_call(secs(2), || 2).unwrap();
    let panics =
        time.schedule_call(secs(3), || -> u32 { panic!("expected by this test") }).unwrap();
    let mut pending = time.stop().wait().into_iter();
    assert!(dropped.is_done() && run.is_done(), "nobody would have to wait");
    drop(pending.next());
    assert!(pending.next().unwrap().run());
    assert!(!pending.next().unwrap().run());
    assert!(matches!(get(dropped), Err(CallError::Dropped)));
    assert_eq!(get(run).unwrap(), 2);
    assert!(matches!(get(panics), Err(CallError::Panicked(_))));
}

#[test]
fn waiting_for_a_call_that_stop_has_handed_back_returns_at_once() {
    let time = virtual_time();
    let call = time.schedule_call(secs(5), || 1).unwrap();
    let with_options =
        time.schedule_call(secs(5), Call::new(|| 1).executor(Arc::new(ByHand::default())));
    let series = time.schedule_calls_with_fixed_delay(secs(5), secs(1), || ()).unwrap();
    let hold = time.schedule_call(secs(5), || 2).unwrap();
    let pending = time.stop().wait();
    assert_eq!(pending.len(), 4);
    assert!(matches!(get(call), Err(CallError::HandedBack)), "while the list is kept");
    assert!(matches!(get(with_options.unwrap()), Err(CallError::HandedBack)));
    assert!(matches!(get(series), Err(CallError::HandedBack)));

    let (mut hold, woken) = (hold, Arc::default());
    for _ in 0..2 {
        assert!(matches!(poll(&mut hold, &woken), Poll::Ready(Err(CallError::HandedBack))));
    }
    for task in pending {
        let _ = task.run();
    }
    assert_eq!(get(hold).unwrap(), 2, "its handle was not used up");
}

#[test]
fn whoever_waits_for_a_call_when_stop_hands_it_back_is_woken() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let series = scheduler.schedule_calls_at_fixed_rate(secs(3_600), secs(1), || ()).unwrap();
    let mut call = scheduler.schedule_call(secs(3_600), || ()).unwrap();
    let woken = Arc::default();
    assert!(poll(&mut call, &woken).is_pending());
    let waiting = thread::spawn(move || get(series).unwrap_err());
    let pending = scheduler.stop().wait();
    assert_eq!((woken.0.load(Ordering::SeqCst), pending.len()), (1, 2));
    assert!(matches!(waiting.join().unwrap(), CallError::HandedBack));
    assert!(matches!(poll(&mut call, &woken), Poll::Ready(Err(CallError::HandedBack))));
    drop(pending);
    assert!(matches!(get(call), Err(CallError::Dropped)));
}

#[test]
fn a_call_in_a_list_that_close_has_left_to_its_caller_is_handed_back_with_it() {
    let scheduler =
        LightArrayRevolverScheduler::builder().shutdown_timeout(ms(10)).build().unwrap();
    let call = scheduler.schedule_call(secs(3_600), || ()).unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let (begun, inside) = mpsc::channel();
    let blocks = Task::new(move || {
        begun.send(()).unwrap();
        let _ = hold.recv();
    });
    let _ = scheduler.schedule_once(Duration::ZERO, blocks.inline()).unwrap();
    inside.recv().unwrap();
    let Err(CloseError::Timeout { pending, .. }) = scheduler.close() else { panic!() };
    assert!(!call.is_done());
    drop(release);
    let pending = pending.wait();
    assert_eq!(pending.len(), 1);
    assert!(matches!(get(call), Err(CallError::HandedBack)));
}

#[test]
fn a_waker_may_use_virtual_time_when_its_call_is_handed_back() {
    struct Uses(Weak<VirtualTime>, Notes<(bool, usize)>);
    impl Wake for Uses {
        fn wake(self: Arc<Self>) {
            let time = self.0.upgrade().unwrap();
            self.1.add((time.close().is_err(), time.stop().wait().len()));
        }
    }
    let (time, notes) = (Arc::new(virtual_time()), Notes::new());
    let mut call = time.schedule_call(secs(1), || ()).unwrap();
    let waker = Waker::from(Arc::new(Uses(Arc::downgrade(&time), notes.clone())));
    assert!(Pin::new(&mut call).poll(&mut Context::from_waker(&waker)).is_pending());
    let pending = time.stop().wait();
    assert_eq!((pending.len(), notes.take()), (1, vec![(true, 0)]));
}

/// What a waker does when a call is handed back is not the timer thread's concern.
#[test]
fn a_waker_that_panics_when_its_call_is_handed_back_costs_nobody_the_list() {
    struct Throws;
    impl Wake for Throws {
        fn wake(self: Arc<Self>) {
            panic!("expected by this test");
        }
    }
    let time = virtual_time();
    let mut call = time.schedule_call(secs(1), || ()).unwrap();
    let other = time.schedule_call(secs(2), || ()).unwrap();
    let waker = Waker::from(Arc::new(Throws));
    assert!(Pin::new(&mut call).poll(&mut Context::from_waker(&waker)).is_pending());
    let pending = time.stop().wait();
    assert_eq!(pending.len(), 2);
    assert!(matches!(get(other), Err(CallError::HandedBack)));
}

#[test]
fn closing_runs_pending_calls_or_drops_them_and_who_waits_is_told() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let call = scheduler.schedule_call(secs(3_600), || "run on close").unwrap();
    let waiting = thread::spawn(move || call.wait());
    assert_eq!(scheduler.close().unwrap().ran, 1);
    assert_eq!(waiting.join().unwrap().unwrap(), "run on close");

    let scheduler = LightArrayRevolverScheduler::builder()
        .close_policy(ClosePolicy::RunMarked)
        .build()
        .unwrap();
    let plain = scheduler.schedule_call(secs(3_600), || "plain").unwrap();
    let marked =
        scheduler.schedule_call(secs(3_600), Call::new(|| "marked").run_on_close()).unwrap();
    scheduler.close().unwrap();
    assert!(matches!(get(plain), Err(CallError::Dropped)));
    assert_eq!(get(marked).unwrap(), "marked");
}

#[test]
fn a_call_whose_scheduler_is_dropped_ends_with_an_error() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let call = scheduler.schedule_call(secs(3_600), || ()).unwrap();
    let waiting = thread::spawn(move || call.wait());
    drop(scheduler);
    assert!(matches!(waiting.join().unwrap(), Err(CallError::Dropped)));
}

#[test]
fn a_call_that_an_executor_loses_ends_with_an_error() {
    let time = virtual_time();
    let by_hand = ByHand::default();
    let on_it = |value| Call::new(move || value).executor(Arc::new(by_hand.clone()));
    let lost = time.schedule_call(ms(1), on_it(1)).unwrap();
    time.advance(ms(1));
    assert!(!lost.is_done(), "it waits in its executor");
    assert_eq!(by_hand.abandon(), 1);
    assert!(matches!(get(lost), Err(CallError::Dropped)));
    let run = time.schedule_call(ms(1), on_it(2)).unwrap();
    time.advance(ms(1));
    assert!(by_hand.run_next());
    assert_eq!(get(run).unwrap(), 2);
}

#[test]
fn dropping_the_handle_does_not_cancel_unless_it_is_asked_to() {
    let time = virtual_time();
    let notes = Notes::new();
    let (kept, gone, taken) = (notes.clone(), notes.clone(), notes.clone());
    drop(time.schedule_call(ms(1), move || kept.add("runs")).unwrap());
    drop(time.schedule_call(ms(1), move || gone.add("does not")).unwrap().cancel_on_drop());
    let guard = time.schedule_call(ms(1), move || taken.add("runs too")).unwrap().cancel_on_drop();
    assert_eq!(time.metrics().cancelled, 1);
    time.advance(ms(1));
    drop(guard);
    assert_eq!(notes.take(), ["runs", "runs too"]);
}

#[test]
fn a_call_that_never_comes_due_can_be_waited_for_cancelled_and_closed() {
    let time = virtual_time();
    let call = time.schedule_call(Duration::MAX, || ()).unwrap();
    assert_eq!((call.remaining(), call.due()), (Duration::MAX, None));
    time.advance(secs(3_600 * 24 * 365 * 80));
    let call = call.wait_timeout(Duration::ZERO).unwrap_err();
    assert!(call.cancel());
    let call = time.schedule_call(Duration::MAX, || "closed").unwrap();
    time.close().unwrap();
    assert_eq!(get(call).unwrap(), "closed");
}

#[test]
fn a_call_that_is_refused_is_given_back_with_its_options_and_never_runs() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let first = time.schedule_call(secs(1), || 1).unwrap();
    let by_hand = ByHand::default();
    let call = Call::new(|| 2).executor(Arc::new(by_hand.clone()));
    let error = time.schedule_call(secs(1), call).unwrap_err();
    assert_eq!(*error.refusal(), Refusal::Full { limit: 1 });
    assert!(first.cancel());
    let second = time.schedule_call(secs(1), error.into_task()).unwrap();
    time.advance(secs(1));
    assert!(by_hand.run_next(), "it went to the executor that it named");
    assert_eq!(get(second).unwrap(), 2);
    drop(time.stop());
    let error = time.schedule_call(secs(1), || 3).unwrap_err();
    assert_eq!((error.refusal().clone(), error.into_task()()), (Refusal::Stopped, 3));
}

#[test]
fn a_result_that_was_taken_is_not_there_a_second_time() {
    let time = virtual_time();
    let mut call = time.schedule_call(ms(1), || "value").unwrap();
    time.advance(ms(1));
    let woken = Arc::default();
    assert!(matches!(poll(&mut call, &woken), Poll::Ready(Ok("value"))));
    assert!(matches!(poll(&mut call, &woken), Poll::Ready(Err(CallError::Taken))));
    assert!(call.is_done());
    assert!(matches!(get(call), Err(CallError::Taken)));
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_woken() {
    let time = virtual_time();
    let mut call = time.schedule_call(ms(1), || ()).unwrap();
    let (first, last) = (Arc::default(), Arc::default());
    assert!(poll(&mut call, &first).is_pending());
    assert!(poll(&mut call, &last).is_pending());
    time.advance(ms(1));
    assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
}

struct Grumpy;

impl Wake for Grumpy {
    fn wake(self: Arc<Self>) {
        panic!("expected by this test");
    }
}

#[test]
fn a_waker_that_panics_loses_no_result() {
    let time = virtual_time();
    let mut call = time.schedule_call(ms(1), || "value").unwrap();
    let grumpy = Waker::from(Arc::new(Grumpy));
    assert!(Pin::new(&mut call).poll(&mut Context::from_waker(&grumpy)).is_pending());
    time.advance(ms(1));
    assert_eq!(get(call).unwrap(), "value");
}

struct Touchy(&'static str);

impl Drop for Touchy {
    fn drop(&mut self) {
        panic!("expected by this test, dropping {}", self.0);
    }
}

#[test]
fn values_captures_and_payloads_whose_destructors_panic_are_contained() {
    let time = virtual_time();
    drop(time.schedule_call(ms(1), || Touchy("a value nobody waits for")).unwrap());
    drop(
        time.schedule_call(ms(1), || -> u32 { std::panic::panic_any(Touchy("a payload")) })
            .unwrap(),
    );
    let captured = Touchy("captures");
    let cancelled = time.schedule_call(ms(1), move || drop(captured)).unwrap();
    assert!(cancelled.cancel());
    assert!(matches!(get(cancelled), Err(CallError::Cancelled)));
    let well = time.schedule_call(ms(1), || "well").unwrap();
    time.advance(ms(1));
    assert_eq!(get(well).unwrap(), "well");
    assert_eq!(time.metrics().panicked, 3);
}

#[test]
fn a_call_may_run_on_the_timer_thread() {
    let scheduler = LightArrayRevolverScheduler::builder().thread_name("timer").build().unwrap();
    let name = || thread::current().name().map(str::to_owned);
    let inline = scheduler.schedule_call(ms(1), Call::new(name).inline()).unwrap();
    assert_eq!(get(inline).unwrap().as_deref(), Some("timer"));
    let pooled = scheduler.schedule_call(ms(1), name).unwrap();
    assert!(get(pooled).unwrap().unwrap().starts_with("timer-worker"));
}

#[test]
fn in_a_race_of_cancel_and_deadline_the_result_says_who_won() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let mut cancelled = 0;
    for round in 0..scaled(2_000, 20) {
        let call =
            scheduler.schedule_call(Duration::from_micros(round as u64 % 300), || ()).unwrap();
        let canceller = call.canceller();
        let begin = Arc::new(Barrier::new(2));
        let start = Arc::clone(&begin);
        let racer = thread::spawn(move || {
            start.wait();
            canceller.cancel()
        });
        begin.wait();
        let result = get(call);
        if racer.join().unwrap() {
            assert!(matches!(result, Err(CallError::Cancelled)), "{result:?}");
            cancelled += 1;
        } else {
            assert!(result.is_ok(), "{result:?}");
        }
    }
    assert_eq!(scheduler.metrics().cancelled, cancelled);
}

#[test]
fn repeated_calls_go_on_until_one_comes_to_a_result() {
    let time = virtual_time();
    let start = time.now();
    let timers = time.handle();
    let mut runs = 0;
    let count = move || {
        runs += 1;
        if runs == 8 { ControlFlow::Break(timers.now() - start) } else { ControlFlow::Continue(()) }
    };
    let call = time.schedule_calls_at_fixed_rate(secs(1), secs(2), count).unwrap();
    time.advance(secs(15) - ns(1));
    assert!(!call.is_done());
    let call = call.wait_timeout(Duration::ZERO).unwrap_err();
    time.advance(secs(100));
    assert!(call.is_done() && !call.is_cancelled() && !call.cancel());
    assert_eq!(call.wait().unwrap(), secs(15));
    assert_eq!(time.pending(), 0);
}

#[test]
fn the_initial_delay_of_repeated_calls_is_never_cut_short() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let start = Instant::now();
    let at_once = || ControlFlow::Break(Instant::now());
    let (initial, period) = (Duration::from_micros(2_700), ms(1));
    let rate = scheduler.schedule_calls_at_fixed_rate(initial, period, at_once).unwrap();
    let delay = scheduler.schedule_calls_with_fixed_delay(initial, period, at_once).unwrap();
    for call in [rate, delay] {
        let first = call.wait_timeout(PATIENCE).unwrap().unwrap();
        assert!(first - start >= initial);
    }
}

#[test]
fn a_run_that_panics_ends_the_series_and_who_waits_gets_the_panic() {
    let time = virtual_time();
    let mut runs = 0;
    let count = move || {
        runs += 1;
        assert!(runs < 3, "in run {runs}");
    };
    let call = time.schedule_calls_with_fixed_delay(Duration::ZERO, secs(1), count).unwrap();
    time.advance(secs(100));
    let Err(CallError::Panicked(panic)) = call.wait() else { panic!("not a panic") };
    assert_eq!(panic.message(), "in run 3");
    let metrics = time.metrics();
    assert_eq!((metrics.fired, metrics.panicked, metrics.pending), (3, 1, 0));
}

#[test]
fn cancelling_repeated_calls_ends_them_and_drops_the_captures() {
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let run = notes.clone();
    let call = time
        .schedule_calls_at_fixed_rate(secs(1), secs(1), move || {
            let _ = &captive;
            run.add("run");
        })
        .unwrap();
    time.advance(secs(2));
    assert!(call.cancel() && !call.cancel());
    assert!(call.is_cancelled() && call.is_done());
    time.advance(secs(10));
    assert_eq!(notes.take(), ["run", "run", "captures dropped"]);
    let result: Result<Infallible, CallError> = call.wait();
    assert!(matches!(result, Err(CallError::Cancelled)));
}

#[test]
fn cancelling_repeated_calls_during_a_run_has_its_result_when_that_ends() {
    let time = virtual_time();
    let by_hand = ByHand::default();
    let (send, canceller) = mpsc::channel::<lars_jobs::call::CallCanceller>();
    let run = move || {
        assert!(canceller.recv().unwrap().cancel());
    };
    let call = time
        .schedule_calls_with_fixed_delay(
            secs(1),
            secs(1),
            Call::new(run).executor(Arc::new(by_hand.clone())),
        )
        .unwrap();
    send.send(call.canceller()).unwrap();
    time.advance(secs(1));
    assert!(!call.is_cancelled());
    assert!(by_hand.run_next());
    assert!(call.is_cancelled());
    assert!(matches!(call.wait(), Err(CallError::Cancelled)));
    assert_eq!((time.pending(), time.advance(secs(10))), (0, 0));
}

#[test]
fn the_end_of_the_scheduler_ends_repeated_calls_with_an_error() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let call = scheduler.schedule_calls_at_fixed_rate(ms(1), secs(3_600), || ()).unwrap();
    let waiting = thread::spawn(move || call.wait());
    scheduler.close().unwrap();
    assert!(matches!(waiting.join().unwrap(), Err(CallError::Dropped)));

    let time = virtual_time();
    let by_hand = ByHand::default();
    let lost = Call::new(|| ()).executor(Arc::new(by_hand.clone()));
    let lost = time.schedule_calls_at_fixed_rate(ms(1), ms(1), lost).unwrap();
    time.advance(ms(1));
    by_hand.abandon();
    assert!(matches!(lost.wait(), Err(CallError::Dropped)));
}

#[test]
fn repeated_calls_end_by_their_count_or_at_their_end_and_who_waits_is_told() {
    let time = virtual_time();
    let (counted, ended) = (Call::new(|| ()).times(3), Call::new(|| ()));
    let ended = ended.until(time.now() + secs(10));
    let counted = time.schedule_calls_at_fixed_rate(secs(1), secs(1), counted).unwrap();
    let ended = time.schedule_calls_with_fixed_delay(secs(1), secs(3), ended).unwrap();
    assert_eq!(time.advance(secs(3) - ns(1)), 2 + 1);
    assert!(!counted.is_done());
    assert_eq!(time.advance(secs(100)), 1 + 3, "at 3 s; at 4, 7 and 10 s");
    for series in [counted, ended] {
        assert!(series.is_done() && !series.is_cancelled() && !series.cancel());
        let error = series.wait().unwrap_err();
        assert!(matches!(error, CallError::Ended), "{error}");
    }
    assert_eq!((time.pending(), time.metrics().cancelled), (0, 0));
}

#[test]
fn a_last_run_of_repeated_calls_that_comes_to_a_result_has_it() {
    let time = virtual_time();
    let mut runs = 0;
    let third = Call::new(move || {
        runs += 1;
        if runs == 3 { ControlFlow::Break(runs) } else { ControlFlow::Continue(()) }
    });
    let call = time.schedule_calls_at_fixed_rate(secs(1), secs(1), third.times(3)).unwrap();
    time.advance(secs(10));
    assert_eq!(call.wait().unwrap(), 3);
}

#[test]
fn repeated_calls_without_a_run_are_refused_and_given_back_with_their_end() {
    let time = virtual_time();
    let never = Call::new(|| ()).times(0);
    let refused = time.schedule_calls_at_fixed_rate(secs(1), secs(1), never).unwrap_err();
    assert_eq!(*refused.refusal(), Refusal::Times { given: 0 });
    let late = refused.into_task().times(2).until(time.now());
    let refused = time.schedule_calls_at_fixed_rate(secs(1), secs(1), late).unwrap_err();
    assert_eq!(*refused.refusal(), Refusal::EndsBefore { by: secs(1) });
    let call = refused.into_task().until(time.now() + secs(100));
    let call = time.schedule_calls_at_fixed_rate(secs(1), secs(1), call).unwrap();
    assert_eq!(time.advance(secs(100)), 2, "the count is still there");
    assert!(matches!(call.wait(), Err(CallError::Ended)));
}

#[test]
fn repeated_calls_that_are_spread_are_later_than_their_rule_says_and_never_by_more() {
    let time = virtual_time();
    let notes = Notes::new();
    let (clock, start, note) = (time.handle(), time.now(), notes.clone());
    let call = Call::new(move || note.add(clock.now() - start)).spread(ms(500)).spread_seed(7);
    let call = time.schedule_calls_at_fixed_rate(secs(1), secs(1), call.times(50)).unwrap();
    time.advance(secs(100));
    assert!(call.is_done());
    let added: Vec<_> =
        (1..).zip(notes.take()).map(|(nth, at)| at.checked_sub(secs(nth))).collect();
    assert_eq!(added.len(), 50);
    // (The clock of the test stands on whole ticks.)
    assert!(added.iter().all(|it| it.is_some_and(|it| it <= ms(501))), "{added:?}");
    assert!(added.iter().any(|it| *it > Some(ms(250))), "{added:?}");
}

#[test]
fn dropping_the_handle_of_repeated_calls_does_not_cancel_unless_it_is_asked_to() {
    let time = virtual_time();
    let notes = Notes::new();
    let (kept, gone) = (notes.clone(), notes.clone());
    drop(time.schedule_calls_at_fixed_rate(ms(1), ms(1), move || kept.add("runs")).unwrap());
    let guard = time.schedule_calls_at_fixed_rate(ms(1), ms(1), move || gone.add("ends")).unwrap();
    let guard = guard.cancel_on_drop();
    time.advance(ms(1));
    drop(guard);
    time.advance(ms(1));
    assert_eq!(notes.take(), ["runs", "ends", "runs"]);
}

#[test]
fn repeated_calls_that_are_refused_are_given_back_and_never_run() {
    let time = virtual_time();
    let notes = Notes::new();
    let (run, captive) = (notes.clone(), Captive::new(&notes, "captures dropped"));
    let call = Call::new(move || {
        let _ = &captive;
        run.add("run");
    });
    let error = time.schedule_calls_at_fixed_rate(ms(1), Duration::ZERO, call).unwrap_err();
    assert!(matches!(error.refusal(), Refusal::Period { given: Duration::ZERO, .. }));
    assert_eq!(notes.len(), 0);
    let call = time.schedule_calls_with_fixed_delay(ms(1), ms(1), error.into_task()).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), ["run"]);
    drop(time.stop());
    assert_eq!(notes.take(), ["captures dropped"]);
    assert!(matches!(call.wait(), Err(CallError::Dropped)));
    let error = time.schedule_calls_with_fixed_delay(ms(1), ms(1), || ()).unwrap_err();
    assert_eq!(*error.refusal(), Refusal::Stopped);
}

/// In the JDK one run of 500 ms at a rate of 50 ms brings ten more within a millisecond of its end.
#[test]
fn missed_runs_of_repeated_calls_are_made_up_for_or_left_out_as_asked() {
    for (behavior, expected) in [
        (MissedTickBehavior::Burst, 1 + 10 + 1),
        (MissedTickBehavior::Skip, 1 + 1 + 1),
        (MissedTickBehavior::Delay, 1 + 1 + 1),
    ] {
        let time = virtual_time();
        let by_hand = ByHand::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let run = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        let call = Call::new(run).executor(Arc::new(by_hand.clone())).missed_ticks(behavior);
        let call = time.schedule_calls_at_fixed_rate(Duration::ZERO, ms(50), call).unwrap();
        time.advance(Duration::ZERO);
        // The first run waits for its executor, and so ends, 500 ms after it was due.
        time.advance(ms(500));
        while by_hand.run_next() {
            time.advance(Duration::ZERO);
        }
        time.advance(ms(50));
        while by_hand.run_next() {
            time.advance(Duration::ZERO);
        }
        assert_eq!(runs.load(Ordering::SeqCst), expected, "{behavior:?}");
        assert!(call.cancel());
    }
}

#[test]
fn repeated_calls_can_be_awaited() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let mut left = 3;
    let countdown = move || {
        left -= 1;
        if left == 0 { ControlFlow::Break("done") } else { ControlFlow::Continue(()) }
    };
    let call = scheduler.schedule_calls_at_fixed_rate(ms(1), ms(1), countdown).unwrap();
    assert_eq!(futures::executor::block_on(call).unwrap(), "done");
}

#[test]
fn a_future_that_is_dropped_while_it_waits_leaves_the_call_alone() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let held = occupy(&scheduler);
    let mut call = scheduler.schedule_call(Duration::ZERO, || "value").unwrap();
    {
        let by_reference = pin!(&mut call);
        let woken = Waker::from(Arc::new(Woken::default()));
        assert!(by_reference.poll(&mut Context::from_waker(&woken)).is_pending());
    }
    drop(held);
    eventually("it has run", || call.is_done());
    assert_eq!(get(call).unwrap(), "value");
}
