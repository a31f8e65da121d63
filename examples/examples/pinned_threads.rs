//! Pins the scheduler's threads to processors: the timer thread to the last one that this process
//! may use, the threads of the pool to the others.
//!
//! A timer thread that shares its processor with nobody is woken without delay. The hook of
//! `Builder::on_thread_start` runs on each thread before anything else does. How it pins the thread
//! depends on the system, here Linux.
//!
//!     cargo run --release -p examples --example pinned_threads

use examples::checks::Problem;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Problem> {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use examples::checks::verify;
    use lars_scheduler::hooks::ThreadKind;
    use lars_scheduler::{LightArrayRevolverScheduler, Task};
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    // The calling thread.
    const HERE: Pid = Pid::from_raw(0);

    let allowed = sched_getaffinity(HERE)?;
    let processors: Vec<usize> =
        (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).collect();
    let (&for_timers, rest) = processors.split_last().ok_or("no processor is allowed")?;
    let for_tasks = if rest.is_empty() { vec![for_timers] } else { rest.to_vec() };
    println!("timers on processor {for_timers}, tasks on {for_tasks:?}");

    let (threads, of_tasks) = (for_tasks.len(), for_tasks.clone());
    let scheduler = LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(threads))
        .on_thread_start(move |thread| {
            let processor = match thread.kind {
                ThreadKind::Pool { number, .. } => of_tasks[number % threads],
                _ => for_timers,
            };
            let mut set = CpuSet::new();
            match set.set(processor).and_then(|()| sched_setaffinity(HERE, &set)) {
                Ok(()) => println!("{} is on processor {processor}", thread.name),
                Err(error) => eprintln!("{} runs anywhere: {error}", thread.name),
            }
        })
        .build()?;

    // Where tasks run.
    let (sender, receiver) = mpsc::channel();
    let report = move || {
        let here = sched_getaffinity(HERE).map(|set| {
            (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect::<Vec<_>>()
        });
        drop(sender.send((thread::current().name().map(str::to_owned), here)));
    };
    let ms = Duration::from_millis;
    scheduler.schedule_once(ms(1), Task::new(report.clone()).inline())?;
    scheduler.schedule_once(ms(20), report)?;
    let mut pinned = Vec::new();
    for (name, processors) in receiver.iter().take(2) {
        let processors = processors?;
        println!("a task ran on {}, on processor {processors:?}", name.unwrap_or_default());
        pinned.push(processors);
    }
    scheduler.close()?;
    println!();
    verify(&[
        ("a task on the timer thread ran on the processor for timers", {
            pinned[0] == [for_timers]
        }),
        ("a task on the pool ran on one of the processors for tasks", {
            pinned[1].len() == 1 && for_tasks.contains(&pinned[1][0])
        }),
    ])?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Problem> {
    println!("this example pins threads as Linux does");
    Ok(())
}
