//! What the machine does to a process, on Linux.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::late::Lateness;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid, gettid};

use crate::faults::{at_the_end, beats, explaining, sleeps};

type Injected = Result<Option<Lateness>, Box<dyn Error>>;

/// The calling thread.
const HERE: Pid = Pid::from_raw(0);
/// A folder of the control groups of the processor, in their first version.
const GROUP: &str = "/sys/fs/cgroup/cpu/lars-late";

/// Starts this program once more, to do something to this process.
fn helper(task: &str) -> Result<Child, Box<dyn Error>> {
    Ok(Command::new(std::env::current_exe()?).args(["--helper", task]).spawn()?)
}

/// What a helper does.
pub(crate) fn help(task: &str) -> Result<(), Box<dyn Error>> {
    let (what, number) = task.split_once(':').ok_or("no number")?;
    let number: u64 = number.parse()?;
    if what == "stop" {
        let parent = getppid();
        thread::sleep(Duration::from_millis(10));
        kill(parent, Signal::SIGSTOP)?;
        thread::sleep(Duration::from_millis(number));
        kill(parent, Signal::SIGCONT)?;
        return Ok(());
    }
    pin(number as usize)?;
    let end = Instant::now() + Duration::from_millis(400);
    while Instant::now() < end {
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

/// Another process stops this one, with a signal.
pub(crate) fn stopped() -> Injected {
    let scheduler = explaining().inline().build()?;
    beats(&scheduler, 400)?;
    helper("stop:80")?.wait()?;
    at_the_end(&scheduler)
}

/// Other processes use the processor that the timer thread is pinned to.
pub(crate) fn busy_processor() -> Injected {
    let processor = last_processor()?;
    let builder = explaining().inline().on_thread_start(move |_| drop(pin(processor)));
    let scheduler = builder.build()?;
    let burning: Vec<_> =
        (0..6).map(|_| helper(&format!("burn:{processor}"))).collect::<Result<_, _>>()?;
    beats(&scheduler, 300)?;
    let said = at_the_end(&scheduler);
    for mut child in burning {
        child.wait()?;
    }
    said
}

/// The control group of the timer thread may use a twentieth of a processor.
pub(crate) fn quota() -> Injected {
    let group = Path::new(GROUP);
    if fs::create_dir_all(group).is_err()
        || fs::write(group.join("cpu.cfs_quota_us"), "5000").is_err()
    {
        return Ok(None);
    }
    let join = || drop(fs::write(Path::new(GROUP).join("tasks"), gettid().to_string()));
    let scheduler = explaining().inline().on_thread_start(move |_| join()).build()?;
    // Another thread of the group uses its quota up.
    let burns = thread::spawn(move || {
        join();
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    });
    beats(&scheduler, 300)?;
    let said = at_the_end(&scheduler);
    burns.join().map_err(|_| "a thread panicked")?;
    drop(scheduler);
    drop(fs::remove_dir(group));
    said
}

/// An inline task sleeps, and later this process is stopped.
pub(crate) fn sleeper_and_stopped(sleeps_for: Duration, stopped_for: Duration) -> Injected {
    let scheduler = explaining().inline().build()?;
    let _ = scheduler.schedule_once(Duration::ZERO, sleeps("sync_prices", sleeps_for))?;
    thread::sleep(sleeps_for);
    beats(&scheduler, 1)?;
    helper(&format!("stop:{}", stopped_for.as_millis()))?.wait()?;
    at_the_end(&scheduler)
}
