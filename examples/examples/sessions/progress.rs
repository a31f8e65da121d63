//! A line every second, by an actor with a periodic timer on the scheduler that it tells about.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use examples::late::Late;
use examples::view::Terminal;
use mini_actor::{Actor, Context, System};

use crate::counts::Counts;
use crate::report::grouped;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Tick;

struct Progress {
    counts: Arc<Counts>,
    began: Instant,
    last: Instant,
    requests: u64,
    late: Late,
    terminal: Terminal,
}

/// Starts it. It goes on until the system is closed.
pub fn start(
    system: &System,
    counts: &Arc<Counts>,
    terminal: Terminal,
) -> Result<(), Box<dyn Error>> {
    let (counts, timers) = (Arc::clone(counts), system.scheduler().timers().clone());
    system.spawn("progress", move || {
        let now = Instant::now();
        let (counts, terminal) = (Arc::clone(&counts), terminal.clone());
        let late = Late::new(&timers.metrics());
        Progress { counts, began: now, last: now, requests: 0, late, terminal }
    })?;
    Ok(())
}

impl Actor for Progress {
    type Message = Tick;

    fn started(&mut self, ctx: &mut Context<Self>) {
        // A line that was missed has nothing to say any more: such ticks are left out.
        let _ = ctx.timers().start_at_fixed_rate("line", SECOND, SECOND, || Tick);
    }

    fn receive(&mut self, _: Tick, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let requests = self.counts.requests.get();
        // By the time that has really passed: a line that is late must not show a higher rate.
        let rate = (requests - self.requests) as f64 / (now - self.last).as_secs_f64();
        let metrics = ctx.scheduler().timers().metrics();
        let late = self.late.since(&metrics);
        (self.requests, self.last) = (requests, now);
        if !self.terminal.is_free() {
            return;
        }
        println!(
            "{:>4.0} s {:>7} connections {:>7} requests/s {:>7} timers pending {:>5} timed out   \
             {late}",
            (now - self.began).as_secs_f64(),
            grouped(self.counts.open()),
            grouped(rate as u64),
            grouped(metrics.pending),
            grouped(self.counts.timed_out.get()),
        );
    }
}
