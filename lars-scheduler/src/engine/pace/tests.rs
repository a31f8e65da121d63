//! What the meter takes an entry to cost, and how many lanes share, by numbers. What producers make
//! of it is tested by hand.

use super::*;

/// What the timer thread has done until an instant, since the one before.
struct Done {
    at: u64,
    met: u64,
    taken_in: u64,
    late: u64,
}

impl Default for Done {
    fn default() -> Self {
        Self { at: SAMPLE.0, met: 0, taken_in: 0, late: 0 }
    }
}

fn meter() -> (Meter, Pace) {
    let mut meter = Meter::new();
    meter.begin_to_tell();
    (meter, Pace::new(Backpressure::Wait))
}

/// What an entry is taken to cost after a timer thread has done all this since the instant 0.
fn cost_after(all: &[Done]) -> u64 {
    let (mut meter, pace) = meter();
    meter.beat(0, 0, &pace);
    for &Done { at, met, taken_in, late } in all {
        meter.met += met;
        meter.taken_in += taken_in;
        meter.beat(at, late, &pace);
    }
    told_cost(&pace)
}

fn told_cost(pace: &Pace) -> u64 {
    pace.told.cost.load(Ordering::Relaxed)
}

fn beats(pace: &Pace) -> u64 {
    pace.told.beats.load(Ordering::Relaxed)
}

#[test]
fn an_entry_costs_the_time_of_a_sample_divided_by_the_larger_of_its_two_counts() {
    assert_eq!(cost_after(&[Done { met: 100, ..Done::default() }]), 2_500);
    assert_eq!(cost_after(&[Done { met: 100, taken_in: 400, ..Done::default() }]), 625);
    let in_parts = [
        Done { at: 100_000, met: 50, ..Done::default() },
        Done { at: 200_000, ..Done::default() },
        Done { met: 50, ..Done::default() },
    ];
    assert_eq!(cost_after(&in_parts), 2_500);
}

#[test]
fn a_sample_ends_after_a_quarter_of_a_millisecond_or_512_entries() {
    assert_eq!(cost_after(&[]), COST);
    assert_eq!(cost_after(&[Done { at: 249_999, met: 511, ..Done::default() }]), COST);
    assert_eq!(cost_after(&[Done { at: 102_400, met: 512, ..Done::default() }]), 200);
    assert_eq!(cost_after(&[Done { at: 0, met: 512, ..Done::default() }]), COST, "no time");
}

#[test]
fn a_turn_of_a_few_entries_tells_what_one_costs_only_if_the_timer_thread_is_late() {
    assert_eq!(cost_after(&[Done { met: 31, ..Done::default() }]), COST);
    assert_eq!(cost_after(&[Done { met: 32, ..Done::default() }]), 7_812);
    assert_eq!(cost_after(&[Done { met: 1, late: LATE, ..Done::default() }]), COST);
    assert_eq!(cost_after(&[Done { met: 1, late: LATE + 1, ..Done::default() }]), 250_000);
    assert_eq!(cost_after(&[Done { late: LATE + 1, ..Done::default() }]), COST, "of none");
}

#[test]
fn old_samples_fade_and_half_of_them_is_left_after_the_longest_one() {
    let slow = || Done { at: 25_000_000, met: 10_000, ..Done::default() };
    // A 200th fades: of 25 ms 125 µs, of 10,000 entries 50.
    let fast = Done { at: 25_250_000, met: 1_000, ..Done::default() };
    assert_eq!(
        cost_after(&[slow(), fast]),
        (25_000_000 - 125_000 + 250_000) / (10_000 - 50 + 1_000)
    );
    let long = Done { at: 1_025_000_000, met: 1_000_000, ..Done::default() };
    assert_eq!(cost_after(&[slow(), long]), (12_500_000 + 1_000_000_000) / (5_000 + 1_000_000));
}

#[test]
fn entries_that_take_longer_than_before_are_known_at_once_to_do_so() {
    let fast = Done { at: 25_000_000, met: 100_000, ..Done::default() };
    let slow = Done { at: 27_000_000, met: 50, ..Done::default() };
    assert_eq!(cost_after(&[fast, slow]), 40_000);
}

#[test]
fn a_sleep_is_no_work_and_a_sign_of_life() {
    let (mut meter, pace) = meter();
    meter.beat(0, 0, &pace);
    (meter.met, meter.taken_in) = (1_000, 1_000);
    meter.pause(&pace);
    assert_eq!(beats(&pace), 2);
    meter.beat(10_000_000, 0, &pace);
    meter.met += 100;
    meter.beat(10_250_000, 0, &pace);
    assert_eq!((told_cost(&pace), beats(&pace)), (2_500, 4));
}

#[test]
fn a_meter_that_is_not_to_tell_tells_nothing() {
    let (mut meter, pace) = (Meter::new(), Pace::new(Backpressure::Wait));
    assert!(!meter.tells() && !meter.has_passed(1));
    meter.beat(SAMPLE.0, 2 * LATE, &pace);
    meter.pause(&pace);
    assert_eq!((beats(&pace), pace.price(0, false)), (0, None));
    meter.begin_to_tell();
    assert!(meter.tells() && meter.has_passed(1) && !meter.has_passed(0));
    meter.beat(SAMPLE.0, 2 * LATE, &pace);
    assert_eq!((beats(&pace), pace.price(0, false)), (1, Some(2 * COST)));
    assert_eq!(meter.late(), 2 * LATE);
}

#[test]
fn the_price_of_a_timer_thread_that_was_late_and_then_fell_silent_ends_where_each_of_them_does() {
    let (mut meter, pace) = meter();
    let price = |now| pace.price(now, true).unwrap();
    meter.beat(0, 0, &pace);
    assert_eq!(pace.price(5, true), None, "the heartbeat is seen for the first time");
    assert_eq!(price(5 + 10_000_000), 10 * COST, "silent");
    meter.beat(SAMPLE.0, 40 * LATE, &pace);
    assert_eq!(price(20_000_000), 40 * COST, "late");
    assert_eq!(price(30_000_000), 50 * COST, "late and silent");
    assert_eq!(price(20_000_000 + u64::MAX / 2), DEAREST * COST);
}

#[test]
fn a_lane_that_asks_shares_in_this_period_and_in_the_next() {
    let pace = Pace::new(Backpressure::Wait);
    let [a, b, c] = [(); 3].map(|()| AtomicU64::new(0));
    let sharers = |lane, period: u64| pace.sharers(lane, period * PERIOD + 5);
    assert_eq!([sharers(&a, 7), sharers(&b, 7), sharers(&b, 7), sharers(&c, 7)], [1, 2, 2, 3]);
    assert_eq!([sharers(&a, 8), sharers(&b, 8)], [3, 3], "those of the period before");
    assert_eq!(sharers(&a, 9), 2, "the two of the period before");
    assert_eq!(sharers(&a, 11), 1, "nobody else has asked for two periods");
}
