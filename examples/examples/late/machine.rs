//! What the machine does to a process, on Linux.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::late::Cause;
use lars_scheduler::{Handle, LightArrayRevolverScheduler};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::{Pid, getppid, gettid};

use crate::faults::{Fault, Injected, LASTS, at_the_end, beats, begun, explaining, sleeps};

/// The calling thread.
const HERE: Pid = Pid::from_raw(0);
/// A folder of the control groups of the processor, in their first version.
const GROUP: &str = "/sys/fs/cgroup/cpu/lars-late";

pub(crate) fn all() -> Vec<Fault> {
    const fn pair(
        name: &'static str,
        about: &'static str,
        causes: &'static [Cause],
        inject: fn() -> Injected,
    ) -> Fault {
        Fault { name, about, causes, percent: 95, inject }
    }
    vec![
        Fault::alone(
            "stopped process",
            "another process stops this one with a signal",
            &[Cause::Overslept],
            || stopped(begun(explaining().inline())?),
        ),
        Fault::alone(
            "stopped, with a pool",
            "the same, with tasks on the pool",
            &[Cause::Overslept],
            || stopped(begun(explaining())?),
        ),
        Fault::alone(
            "busy processor",
            "other processes use the processor of the timer thread",
            &[Cause::Processor],
            busy_processor,
        ),
        Fault::alone(
            "quota",
            "another thread uses up the quota of the control group",
            &[Cause::Throttled],
            quota,
        ),
        Fault::alone(
            "interrupted thread",
            "a signal interrupts a thread while it schedules something",
            &[Cause::Gate],
            interrupted,
        ),
        pair(
            "sleeper, some stop",
            "an inline task sleeps; a shorter stop follows",
            &[Cause::InlineTask],
            || sleeper_and_stop(4 * LASTS, LASTS),
        ),
        pair(
            "stop, some sleeper",
            "an inline task sleeps; a longer stop follows",
            &[Cause::Overslept],
            || sleeper_and_stop(LASTS, 4 * LASTS),
        ),
    ]
}

/// A process that does something to this one when it is told to.
struct Helper(Child);

impl Helper {
    /// It is ready when this returns.
    fn start(task: &str) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--helper", task])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.as_mut().ok_or("no output")?;
        BufReader::new(output).read_line(&mut String::new())?;
        Ok(Self(child))
    }

    fn go(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(self.0.stdin.as_mut().ok_or("no input")?.write_all(b"go\n")?)
    }

    fn end(mut self) -> Result<(), Box<dyn Error>> {
        self.0.wait()?;
        Ok(())
    }
}

/// What a helper does: stops its parent for so many milliseconds, or computes on a processor.
pub(crate) fn help(task: &str) -> Result<(), Box<dyn Error>> {
    let (what, number) = task.split_once(':').ok_or("no number")?;
    let number: u64 = number.parse()?;
    println!("ready");
    if what == "stop" {
        let parent = getppid();
        stdin().read_line(&mut String::new())?;
        kill(parent, Signal::SIGSTOP)?;
        thread::sleep(Duration::from_millis(number));
        kill(parent, Signal::SIGCONT)?;
        return Ok(());
    }
    pin(number as usize)?;
    // Until the other end is closed.
    let end = Arc::new(AtomicBool::new(false));
    let reads = Arc::clone(&end);
    thread::spawn(move || {
        let _ = stdin().read_line(&mut String::new());
        reads.store(true, Ordering::Relaxed);
    });
    while !end.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(())
}

fn pin(processor: usize) -> Result<(), Box<dyn Error>> {
    let mut set = CpuSet::new();
    set.set(processor)?;
    Ok(sched_setaffinity(HERE, &set)?)
}

fn last_processor() -> Result<usize, Box<dyn Error>> {
    let allowed = sched_getaffinity(HERE)?;
    let last = (0..CpuSet::count()).rfind(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    Ok(last.ok_or("no processor is allowed")?)
}

fn stopped(scheduler: LightArrayRevolverScheduler) -> Injected {
    let mut helper = Helper::start("stop:80")?;
    beats(&scheduler, 60)?;
    helper.go()?;
    helper.end()?;
    at_the_end(&scheduler)
}

/// For how long the kernel says that a thread of this process was ready and had no processor.
fn run_delay(thread: Pid) -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))?;
    let nanos = text.split_ascii_whitespace().nth(1).ok_or("no run delay")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// The same for all threads but the first: those of the scheduler of this run.
pub(crate) fn run_delay_of_others() -> Result<Duration, Box<dyn Error>> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?.file_name().to_str().ok_or("no number")?.parse()?;
        if Pid::from_raw(thread) != Pid::this() {
            // (One that has ended meanwhile has no count.)
            sum += run_delay(Pid::from_raw(thread)).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// The kernel's count for the timer thread is the oracle: no more of it is said than is true.
fn busy_processor() -> Injected {
    let processor = last_processor()?;
    let (sender, thread) = mpsc::channel();
    let builder = explaining().inline().on_thread_start(move |_| {
        let _ = (pin(processor), sender.send(gettid()));
    });
    let scheduler = begun(builder)?;
    let thread = thread.recv()?;
    let before = run_delay(thread)?;
    let burning: Vec<_> =
        (0..6).map(|_| Helper::start(&format!("burn:{processor}"))).collect::<Result<_, _>>()?;
    // One after another, so that no time counts twice.
    for _ in 0..40 {
        beats(&scheduler, 1)?;
        while scheduler.metrics().pending > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    for mut helper in burning {
        drop(helper.0.stdin.take());
        helper.end()?;
    }
    let said = at_the_end(&scheduler)?;
    let delayed = run_delay(thread)?.saturating_sub(before);
    let rows = said.iter().flat_map(|run| &run.table.rows);
    let most: Duration = rows.filter(|row| row.cause == Cause::Processor).map(|row| row.time).sum();
    if most > delayed {
        return Err(format!("{most:?} were said, and the kernel has {delayed:?}").into());
    }
    Ok(said)
}

/// The control group of the timer thread may use a twentieth of a processor.
fn quota() -> Injected {
    let group = Path::new(GROUP);
    if fs::create_dir_all(group).is_err()
        || fs::write(group.join("cpu.cfs_quota_us"), "5000").is_err()
    {
        return Ok(None);
    }
    let join = || drop(fs::write(Path::new(GROUP).join("tasks"), gettid().to_string()));
    let scheduler = begun(explaining().inline().on_thread_start(move |_| join()))?;
    let burns = thread::spawn(move || {
        join();
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    });
    beats(&scheduler, 300)?;
    at_the_end(&scheduler)?;
    let said = scheduler.lateness().into();
    burns.join().map_err(|_| "a thread panicked")?;
    drop(scheduler);
    drop(fs::remove_dir(group));
    Ok(Some(said))
}

extern "C" fn sleep_in_handler(_: i32) {
    // (It does nothing but call `nanosleep`, which a handler may do.)
    thread::sleep(LASTS);
}

/// The signal may also come between two calls. Then nothing is late, and it is sent again.
fn interrupted() -> Injected {
    let handler = SigHandler::Handler(sleep_in_handler);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler calls only what a handler may call.
    unsafe { sigaction(Signal::SIGUSR1, &action)? };
    let scheduler = begun(explaining().inline())?;
    for _ in 0..20 {
        interrupt(scheduler.handle())?;
        if scheduler.lateness().count > 0 {
            break;
        }
    }
    at_the_end(&scheduler)
}

/// Interrupts a thread that has timers, and schedules and cancels without a pause.
fn interrupt(timers: Handle) -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let (sender, thread) = mpsc::channel();
    let importer = thread::Builder::new().name("importer".to_owned()).spawn(move || {
        let hour = Duration::from_secs(3_600);
        // Enough of them for a wheel of its own.
        let many: Vec<_> =
            (0..1_000).filter_map(|_| timers.schedule_once(hour, || ()).ok()).collect();
        let _ = (beats(&timers, 60), sender.send(pthread_self()));
        while !stops.load(Ordering::Relaxed) {
            if let Ok(timer) = timers.schedule_once(hour, || ()) {
                let _ = timer.cancel();
            }
        }
        many.iter().for_each(|timer| _ = timer.cancel());
    })?;
    let thread = thread.recv()?;
    pthread_kill(thread, Signal::SIGUSR1)?;
    thread::sleep(LASTS + Duration::from_millis(5));
    stop.store(true, Ordering::Relaxed);
    importer.join().map_err(|_| "a thread panicked")?;
    Ok(())
}

/// An inline task sleeps before a timer, and then this process is stopped before another.
fn sleeper_and_stop(sleeps_for: Duration, stopped_for: Duration) -> Injected {
    let scheduler = begun(explaining().inline())?;
    let mut helper = Helper::start(&format!("stop:{}", stopped_for.as_millis()))?;
    let _ = scheduler.schedule_once(Duration::ZERO, sleeps("sync_prices", sleeps_for))?;
    beats(&scheduler, 2)?;
    at_the_end(&scheduler)?;
    let _ = scheduler.schedule_once(Duration::from_millis(10), || ())?;
    helper.go()?;
    helper.end()?;
    at_the_end(&scheduler)
}
