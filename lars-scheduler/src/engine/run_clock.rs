//! When each task of a turn begins, from few readings of the clock.

use crate::base::clock::Clock;

/// One reading stands for at most this many tasks. At 25 ns a reading, a task pays 0.8 ns.
const STRIDE: u32 = 32;
/// If tasks took longer than this since the last reading, in nanoseconds, the clock is read before
/// the next one: the cost is negligible beside theirs.
const LONG: u64 = 10_000;

/// The instant at which a task begins, for the record of its lateness.
///
/// The clock is read again before a task that follows a slow one, and before every 32nd of those
/// that follow each other fast. So an instant is too early at most by what the tasks of one such
/// stride took, the first time that one of them is slow.
#[derive(Debug)]
pub(crate) struct RunClock {
    /// The last reading.
    now: u64,
    /// For how many tasks more it stands.
    left: u32,
    /// For how many the next one will stand, if tasks are as fast as they were.
    stride: u32,
}

impl RunClock {
    pub(crate) fn new() -> Self {
        Self { now: 0, left: 0, stride: 1 }
    }

    /// A turn begins, with a fresh reading.
    pub(crate) fn begin_turn(&mut self, now: u64) {
        self.now = now;
        self.left = 1;
    }

    /// When the next task begins.
    #[inline]
    pub(crate) fn next(&mut self, clock: &Clock) -> u64 {
        if self.left == 0 {
            self.read(clock);
        }
        self.left -= 1;
        self.now
    }

    /// Many tasks have run since the last reading.
    pub(crate) fn many_ran(&mut self) {
        self.left = 0;
    }

    fn read(&mut self, clock: &Clock) {
        let before = self.now;
        self.now = before.max(clock.now());
        let slow = self.now - before > LONG;
        self.stride = if slow { 1 } else { (2 * self.stride).min(STRIDE) };
        self.left = self.stride;
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;

    /// The latenesses of tasks that take so long, in nanoseconds, due at zero.
    fn latenesses(tasks: &[u64]) -> Vec<u64> {
        let clock = Clock::manual(0);
        let mut runs = RunClock::new();
        runs.begin_turn(0);
        let run = |&takes: &u64| {
            let late = runs.next(&clock);
            clock.set(clock.now() + takes);
            late
        };
        tasks.iter().map(run).collect()
    }

    #[test]
    fn what_waits_behind_slow_tasks_of_the_same_turn_is_late_by_what_they_take() {
        assert_eq!(latenesses(&[20_000; 5]), [0, 20_000, 40_000, 60_000, 80_000]);
    }

    #[test]
    fn a_slow_task_among_fast_ones_is_missed_by_less_than_a_stride() {
        let mut tasks = [10; 100];
        tasks[50] = 1_000_000;
        let late = latenesses(&tasks);
        assert!(late[50] < 1_000 && late[51 + STRIDE as usize] > 1_000_000);
        assert!(late.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn fast_tasks_share_their_readings() {
        let mut late = latenesses(&[1; 1_600]);
        late.dedup();
        assert!(late.len() < 60, "{} readings", late.len());
    }
}
