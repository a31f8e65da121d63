//! Faults that the operating system causes: a process that is stopped, threads interrupted
//! anywhere, no memory. Some need a process of their own: the test runs itself again, and the child
//! knows by an environment variable.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::{
    BuildError, LightArrayRevolverScheduler, MissedTickBehavior, PendingTask, Periodic, Task,
};

use crate::common::{Notes, PATIENCE, Xorshift, eventually, in_lead, ms, secs, settle};

const CHILD: &str = "LARS_FAULTS_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test of this name alone, as a child.
fn child(test: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("linux::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what the child prints until a line that ends like this.
fn read_until(output: &mut impl BufRead, end: &str) {
    let mut line = String::new();
    while !line.trim_end().ends_with(end) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child ended before {end:?}");
    }
}

fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: the process is a child of this one that was not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
}

/// From now on `membarrier` fails in all threads of this process.
fn forbid_membarrier() {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS; // the number of the call
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        op(load, 0, 0, 0),
        op(is, 0, 1, libc::SYS_membarrier as u32),
        op(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter outlive both calls, which read them.
    let (own, all) = unsafe {
        let own = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let all = libc::SECCOMP_FILTER_FLAG_TSYNC;
        (own, libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, all, &program))
    };
    assert_eq!((own, all), (0, 0), "{}", std::io::Error::last_os_error());
}

/// Runs the test of this name as a child, which ends well.
fn child_succeeds(test: &str) {
    let output = child(test).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", said.chars().take(2_000).collect::<String>());
}

/// Schedules timers that are due soon, and waits until they have fired.
fn fires(scheduler: &LightArrayRevolverScheduler) {
    let fired = Arc::new(AtomicU64::new(0));
    for _ in 0..1_000 {
        let fired = Arc::clone(&fired);
        let run = move || _ = fired.fetch_add(1, Ordering::Relaxed);
        let _ = scheduler.schedule_once(ms(20), run).unwrap();
    }
    eventually("all timers", || fired.load(Ordering::Relaxed) == 1_000);
}

#[test]
fn a_filter_of_system_calls_that_forbids_membarrier_later_stops_no_timer_and_no_close() {
    let name = "a_filter_of_system_calls_that_forbids_membarrier_later_stops_no_timer_and_no_close";
    if !is_child() {
        return child_succeeds(name);
    }
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    fires(&scheduler);
    forbid_membarrier();
    fires(&scheduler);
    // So does one that is built after it, and both end.
    let second = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    fires(&second);
    let _ = second.schedule_once(secs(3_600), || ()).unwrap();
    assert_eq!(second.stop().wait().len(), 1);
    assert_eq!(scheduler.close().unwrap().ran, 0);
    assert_eq!(scheduler.metrics().restarts, 0);
}

#[test]
fn a_scheduler_that_is_built_when_membarrier_is_forbidden_already_does_without() {
    let name = "a_scheduler_that_is_built_when_membarrier_is_forbidden_already_does_without";
    if !is_child() {
        return child_succeeds(name);
    }
    // It was not forbidden when an earlier scheduler was built, which has never needed it since.
    drop(LightArrayRevolverScheduler::new().unwrap());
    forbid_membarrier();
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    fires(&scheduler);
    assert_eq!(scheduler.close().unwrap().ran, 0);
}

#[test]
fn a_process_that_is_stopped_for_a_second_fires_what_came_due_late_once_and_in_order() {
    if is_child() {
        return stopped_for_a_second();
    }
    let mut child =
        child("a_process_that_is_stopped_for_a_second_fires_what_came_due_late_once_and_in_order");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut output, "ready");
    signal(&child, libc::SIGSTOP);
    thread::sleep(secs(1));
    signal(&child, libc::SIGCONT);
    // Only now may it look at what has become of its timers.
    drop(child.stdin.take());
    let (mut rest, mut errors) = (String::new(), String::new());
    output.read_to_string(&mut rest).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}\n{errors}");
}

fn stopped_for_a_second() {
    const TIMERS: u64 = 1_500;
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let ran = Notes::new();
    let begin = Instant::now();
    let series = |missed| {
        let note = Notes::new();
        let notes = note.clone();
        let run = Periodic::new(move || note.add(begin.elapsed())).missed_ticks(missed);
        let first = Instant::now();
        let rate = scheduler.schedule_at_fixed_rate(ms(10), ms(10), run).unwrap();
        (rate, notes, first - begin)
    };
    let burst = series(MissedTickBehavior::Burst);
    let skip = series(MissedTickBehavior::Skip);
    in_lead(|lead| {
        let first = scheduler.now() + lead;
        let timers: Vec<_> = (0..TIMERS)
            .map(|number| {
                let (note, due) = (ran.clone(), first + ms(number));
                let run = move || note.add((number, Instant::now() >= due));
                scheduler.schedule_at(due, run).unwrap()
            })
            .collect();
        // A call after its deadline would have another one, which is now.
        let in_time = scheduler.now() < first;
        if !in_time {
            timers.iter().for_each(|timer| _ = timer.cancel());
            settle(&scheduler);
            ran.take();
        }
        in_time.then_some(())
    });
    println!("ready");
    std::io::stdin().read_to_string(&mut String::new()).unwrap();
    eventually("all timers", || ran.len() as u64 == TIMERS);
    assert!(burst.0.cancel() && skip.0.cancel());
    settle(&scheduler);
    let ran = ran.take();
    assert!(ran.iter().all(|(_, in_time)| *in_time), "none early");
    assert!(ran.iter().map(|(number, _)| *number).eq(0..TIMERS), "once each, and in order");
    // A burst makes up for every run; skipping leaves out those that were missed; neither is early.
    for (nth, at) in (1..).zip(burst.1.take()) {
        assert!(at >= burst.2 + ms(10) * nth, "run {nth} was early");
    }
    let runs = skip.1.take();
    let at_most = begin.elapsed().as_millis() as usize / 10;
    assert!(runs.len() < at_most - 50, "{} of {at_most} runs, a second was missed", runs.len());
    let metrics = scheduler.metrics();
    assert_eq!((metrics.restarts, metrics.pending), (0, 0));
}

/// Holds the calling thread for a moment, wherever it is.
extern "C" fn hold(_: libc::c_int) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    // SAFETY: a signal handler may call this; the pointer is to a local value.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// A thread that is held in the middle of anything: between the two halves of a push, with its
/// lane's lock, on the way to sleep.
#[test]
fn threads_that_are_interrupted_anywhere_lose_no_timer_and_hold_up_none_for_ever() {
    const THREADS: usize = 3;
    // SAFETY: the handler only sleeps. Nothing else in this process uses the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = hold as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    // A push is in two pieces for a nanosecond or two of the hundred that a call takes: so there
    // are many rounds, and a few of them are stopped there.
    for round in 0..150_u64 {
        let scheduler = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_micros(100))
            .inline()
            .build()
            .unwrap();
        let (ids, victims) = mpsc::channel();
        let id = ids.clone();
        // SAFETY: always succeeds.
        let task = move || id.send(unsafe { libc::pthread_self() }).unwrap();
        let _ = scheduler.schedule_once(Duration::ZERO, task).unwrap();
        let (ran, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (timers, ids) = (scheduler.handle(), ids.clone());
                let (ran, done) = (Arc::clone(&ran), Arc::clone(&done));
                thread::spawn(move || {
                    // SAFETY: always succeeds.
                    ids.send(unsafe { libc::pthread_self() }).unwrap();
                    let mut random = Xorshift(1 + thread as u64 + round * 31);
                    let (mut accepted, mut cancelled) = (0, 0);
                    while !done.load(Ordering::SeqCst) {
                        let ran = Arc::clone(&ran);
                        let run = move || {
                            ran.fetch_add(1, Ordering::SeqCst);
                        };
                        let delay = Duration::from_micros(random.below(2_000));
                        let Ok(timer) = timers.schedule_once(delay, run) else { break };
                        accepted += 1;
                        match random.below(4) {
                            0 => cancelled += u64::from(timer.cancel()),
                            1 => drop(timer.reset(Duration::from_micros(random.below(1_000)))),
                            _ => {}
                        }
                    }
                    // Stays until it is not interrupted any more.
                    while !done.load(Ordering::SeqCst) {
                        thread::sleep(ms(1));
                    }
                    (accepted, cancelled)
                })
            })
            .collect();
        let victims: Vec<_> =
            (0..=THREADS).map(|_| victims.recv_timeout(PATIENCE).unwrap()).collect();
        let mut random = Xorshift(99 + round);
        for _ in 0..4 {
            let victim = victims[random.below(victims.len() as u64) as usize];
            // SAFETY: these threads are alive: the producers wait for `done`, the scheduler is not
            // stopped.
            assert_eq!(unsafe { libc::pthread_kill(victim, libc::SIGUSR1) }, 0);
            thread::sleep(Duration::from_micros(100 + random.below(500)));
        }
        // The stop comes while producers are held.
        for victim in &victims[1..] {
            // SAFETY: the thread is alive: the producers wait for `done`.
            assert_eq!(unsafe { libc::pthread_kill(*victim, libc::SIGUSR1) }, 0);
        }
        let pending = scheduler.stop().wait();
        done.store(true, Ordering::SeqCst);
        let handed_back = pending.len() as u64;
        assert!(pending.into_iter().all(PendingTask::run));
        let (mut accepted, mut cancelled) = (0, 0);
        for thread in threads {
            let (more, gone) = thread.join().unwrap();
            accepted += more;
            cancelled += gone;
        }
        assert_eq!(ran.load(Ordering::SeqCst) + cancelled, accepted);
        // (With the one that told us its thread.)
        let metrics = scheduler.metrics();
        assert_eq!(metrics.scheduled, accepted + 1);
        assert_eq!(metrics.handed_back, handed_back);
    }
}

/// Leaves the process this much address space beyond what it has.
fn leave_memory(bytes: libc::rlim_t) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: libc::rlim_t = statm.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: asks for a number, and sets a limit of this process from a local value.
    unsafe {
        let used = pages * libc::sysconf(libc::_SC_PAGESIZE) as libc::rlim_t;
        let limit = libc::rlimit { rlim_cur: used + bytes, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
    }
}

/// Rust's rule, not the crate's: an allocation that fails ends the process. It does so with a
/// message, whichever thread it is, and not with a torn list or a hang.
#[test]
fn a_process_that_runs_out_of_memory_is_aborted_with_a_message() {
    if is_child() {
        let scheduler = LightArrayRevolverScheduler::new().unwrap();
        settle(&scheduler);
        leave_memory(64 << 20);
        println!("ready");
        let mut held = Vec::new();
        loop {
            held.push(scheduler.schedule_once(secs(3_600), || ()).unwrap());
        }
    }
    let mut child = child("a_process_that_runs_out_of_memory_is_aborted_with_a_message");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut output, "ready");
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}, {errors}");
    assert!(errors.contains("memory allocation of"), "{errors}");
}

/// What needs a thread and gets none: the build is an error, and tasks for the pool run on the
/// timer thread.
#[test]
fn where_no_thread_can_be_started_a_build_is_an_error_and_no_accepted_task_is_lost() {
    if is_child() {
        return without_threads();
    }
    let test = "where_no_thread_can_be_started_a_build_is_an_error_and_no_accepted_task_is_lost";
    let output = child(test).wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn without_threads() {
    let scheduler = LightArrayRevolverScheduler::builder().thread_name("only").build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::with_capacity(10_000)));
    settle(&scheduler);
    // Less than the stack of a thread.
    leave_memory(1 << 20);
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "the limit does not work here");
    match LightArrayRevolverScheduler::new() {
        Err(BuildError::Thread(_)) => {}
        other => panic!("{other:?}"),
    }
    let mut held = Vec::new();
    for number in 0..1_000 {
        let ran = Arc::clone(&ran);
        let name = || thread::current().name().map(str::len);
        let task = Task::new(move || ran.lock().unwrap().push((number, name())));
        held.push(scheduler.schedule_once(Duration::from_micros(number), task).unwrap());
    }
    eventually("all tasks", || ran.lock().unwrap().len() == 1_000);
    assert!(ran.lock().unwrap().iter().all(|(_, name)| *name == Some("only".len())));
    assert_eq!(scheduler.metrics().abandoned_by_executor, 0);
    assert_eq!(scheduler.close().unwrap().unfinished, 0);
}
