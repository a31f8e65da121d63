//! What does not happen in steady state: allocations, and wake-ups when there is nothing to do. The
//! only test of its binary, because it counts what all threads of the process do.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use mini_actor::{Actor, ActorRef, ActorSystem, Context};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the layout is the caller's, who gives one that may be allocated.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer was allocated above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const LONG: Duration = Duration::from_secs(60);

/// Sends a number back, one less, until it is zero.
struct Player(mpsc::Sender<()>);

struct Ball {
    left: u64,
    from: ActorRef<Ball>,
}

impl Actor for Player {
    type Message = Ball;

    fn receive(&mut self, ball: Ball, ctx: &mut Context<Self>) {
        if ball.left == 0 {
            self.0.send(()).unwrap();
        } else {
            let back = Ball { left: ball.left - 1, from: ctx.myself().clone() };
            ball.from.tell(back).unwrap();
        }
    }
}

#[test]
fn messages_allocate_nothing_in_steady_state_and_idle_threads_sleep() {
    // A report of a slow message allocates, and on a busy machine any message may be one.
    let builder = ActorSystem::builder("steady").threads(2).slow_receive(LONG);
    let system = builder.build().unwrap();
    let (done, wait) = mpsc::channel();
    let also = done.clone();
    let one = system.spawn("one", move || Player(done)).unwrap();
    let two = system.spawn("two", move || Player(also)).unwrap();
    let play = |rounds| {
        one.tell(Ball { left: rounds, from: two.clone() }).unwrap();
        wait.recv_timeout(LONG).unwrap();
    };
    play(1_000);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    play(100_000);
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // The test's own channel, and the queue between it and the actors, may take a few.
    assert!(allocated < 20, "{allocated} allocations for 100,000 messages");

    // Bursts from outside, such that the mailbox has something in it.
    let burst = || {
        for _ in 0..100 {
            for _ in 0..9 {
                one.tell(Ball { left: 1, from: two.clone() }).unwrap();
            }
            play(0);
        }
    };
    let drain = || wait.try_iter().count();
    burst();
    drain();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    burst();
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    drain();
    // Some blocks of the shared queue and of the test's channel: one for each thirty or so.
    assert!(allocated < 250, "{allocated} allocations for 1,000 messages");

    // With nothing to do no thread of the system runs: the scheduler's timer thread and both
    // workers sleep.
    #[cfg(target_os = "linux")]
    {
        let switches = || {
            let mut sum = 0;
            for task in std::fs::read_dir("/proc/self/task").unwrap() {
                let path = task.unwrap().path();
                // A thread that ends meanwhile has no files any more.
                let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
                let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
                if name.starts_with("steady") {
                    let line = status.lines().find(|it| it.starts_with("voluntary_ctxt_switches"));
                    let value = line.and_then(|line| line.split_whitespace().last());
                    sum += value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
                }
            }
            sum
        };
        // They fall asleep some time after their last message, and then it does not change any
        // more.
        let mut last = switches();
        for attempt in 0.. {
            std::thread::sleep(Duration::from_millis(50));
            let now = switches();
            if now == last {
                break;
            }
            assert!(attempt < 1_000, "the threads do not come to rest");
            last = now;
        }
    }
    assert!(system.close_within(LONG).is_complete());
}
