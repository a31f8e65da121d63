//! Retries as in many services. Several producers schedule attempts, and withdraw those that turn
//! out to be needless. Several consumers, threads and async tasks, take due items from one delay
//! queue.
#![allow(clippy::disallowed_methods)]

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use examples::checks::{Problem, ensure};
use futures::executor::block_on;
use lars_jobs::delay_queue::DelayQueue;
use lars_scheduler::{Handle, LightArrayRevolverScheduler};

const PRODUCERS: usize = 3;
const ITEMS_EACH: usize = 1_000;
const THREADS: usize = 2;
const TASKS: usize = 2;
/// Time enough for the producers to put everything in before the first item is due.
const LEAD: Duration = Duration::from_millis(100);
const SPACING: Duration = Duration::from_micros(100);

/// Something to be tried again.
struct Retry {
    number: usize,
    due: Instant,
}

/// What a consumer took.
struct Taken {
    number: usize,
    due: Instant,
    at: Instant,
}

fn main() -> Result<(), Problem> {
    // For the async consumers only; the threads wait by themselves.
    let scheduler = LightArrayRevolverScheduler::new()?;
    let queue = DelayQueue::new();
    let first = Instant::now() + LEAD;
    let removed = Mutex::new(Vec::new());

    let (mut consumers, in_time) = thread::scope(|scope| {
        let (queue, removed, scheduler) = (&queue, &removed, &scheduler);
        let mut consumers = Vec::new();
        for number in 1..=THREADS {
            let consumer = scope.spawn(|| consume_on_a_thread(queue));
            consumers.push((format!("thread {number}"), consumer));
        }
        for number in 1..=TASKS {
            let consumer = scope.spawn(|| block_on(consume_async(queue, scheduler)));
            consumers.push((format!("task {number}"), consumer));
        }
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| scope.spawn(move || produce(queue, producer, first, removed)))
            .collect();
        let put = producers.into_iter().all(|producer| producer.join().unwrap_or(false));
        let in_time = put && Instant::now() < first;

        // Every consumer is told when the queue is closed, so it is when nothing is left to wait
        // for.
        let patience = first + Duration::from_secs(60);
        while !queue.is_empty() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(5));
        }
        queue.close();
        let taken: Vec<_> = consumers
            .into_iter()
            .map(|(name, consumer)| (name, consumer.join().unwrap_or_default()))
            .collect();
        (taken, in_time)
    });

    let removed = removed.into_inner()?;
    println!(
        "{PRODUCERS} producers put {} items; {} were removed again",
        PRODUCERS * ITEMS_EACH,
        removed.len()
    );
    println!("{:<10} {:>6} {:>14} {:>14}", "consumer", "items", "median late", "worst");
    let mut times = vec![0_usize; PRODUCERS * ITEMS_EACH];
    removed.iter().for_each(|&number: &usize| times[number] += 1);
    let (mut early, mut out_of_order) = (0, 0);
    for (name, taken) in &mut consumers {
        taken.iter().for_each(|item| times[item.number] += 1);
        early += taken.iter().filter(|item| item.at < item.due).count();
        out_of_order += taken.windows(2).filter(|pair| pair[0].due > pair[1].due).count();
        let mut late: Vec<_> =
            taken.iter().map(|item| item.at.saturating_duration_since(item.due)).collect();
        late.sort_unstable();
        let median = late.get(late.len() / 2).copied().unwrap_or_default();
        let worst = late.last().copied().unwrap_or_default();
        println!(
            "{name:<10} {:>6} {:>14} {:>14}",
            taken.len(),
            format!("{median:.1?}"),
            format!("{worst:.1?}")
        );
    }
    let lost = times.iter().filter(|&&times| times == 0).count();
    let doubled = times.iter().filter(|&&times| times > 1).count();
    println!("early: {early}, lost: {lost}, taken twice: {doubled}");
    if in_time {
        println!("taken after a later one by the same consumer: {out_of_order}");
    } else {
        // An item that is put in late can only be taken late.
        println!("the producers were held up, so the order was not checked");
    }
    println!("timers left behind: {}", scheduler.pending());
    let in_order = out_of_order == 0 || !in_time;
    ensure(
        early + lost + doubled == 0 && in_order && scheduler.pending() == 0,
        "not every item was taken once, in time and in order",
    )?;
    Ok(())
}

/// Puts its share in, in no order of deadlines, and takes every tenth item out again. Says whether
/// all were accepted.
fn produce(
    queue: &DelayQueue<Retry>,
    producer: usize,
    first: Instant,
    removed: &Mutex<Vec<usize>>,
) -> bool {
    (0..ITEMS_EACH).all(|step| {
        let number = producer * ITEMS_EACH + step;
        // 389 has no divisor in common with the number of items: each gets a place of its own.
        let place = (number * 389) % (PRODUCERS * ITEMS_EACH);
        let due = first + SPACING * place as u32;
        let Ok(key) = queue.put_at(Retry { number, due }, due) else { return false };
        if step % 10 == 0
            && let Some(needless) = queue.remove(key)
            && let Ok(mut removed) = removed.lock()
        {
            removed.push(needless.number);
        }
        true
    })
}

fn consume_on_a_thread(queue: &DelayQueue<Retry>) -> Vec<Taken> {
    std::iter::from_fn(|| queue.take().ok()).map(note).collect()
}

async fn consume_async(queue: &DelayQueue<Retry>, scheduler: &Handle) -> Vec<Taken> {
    let mut taken = Vec::new();
    while let Ok(retry) = queue.next(scheduler).await {
        taken.push(note(retry));
    }
    taken
}

fn note(Retry { number, due }: Retry) -> Taken {
    Taken { number, due, at: Instant::now() }
}
