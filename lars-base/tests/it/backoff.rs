//! Backoff: growth, cap, jitter, and what is refused.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::time::Duration;

use lars_base::backoff::{BackoffBuilder, BackoffPolicy, Jitter};
use proptest::prelude::*;

fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn builder() -> BackoffBuilder {
    BackoffPolicy::builder()
}

const JITTERS: [Jitter; 4] = [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated];

#[test]
fn delays_grow_by_the_factor_from_the_first_to_the_cap_and_stay_there() {
    let policy = builder().initial(ms(100)).factor(3.0).cap(secs(2)).build().unwrap();
    let delays: Vec<_> = policy.start().take(6).collect();
    assert_eq!(delays, [ms(100), ms(300), ms(900), secs(2), secs(2), secs(2)]);
}

#[test]
fn the_defaults_double_from_a_tenth_of_a_second_to_half_a_minute_without_end() {
    let mut backoff = builder().build().unwrap().start();
    let first: Vec<_> = backoff.by_ref().take(4).collect();
    assert_eq!(first, [ms(100), ms(200), ms(400), ms(800)]);
    assert_eq!(backoff.nth(1000), Some(secs(30)));
    assert_eq!(backoff.policy().max_attempts(), None);
}

#[test]
fn doubling_is_exact_to_the_nanosecond() {
    let policy = builder().initial(ns(1)).cap(Duration::MAX).build().unwrap();
    for (number, delay) in policy.start().take(64).enumerate() {
        assert_eq!(delay, ns(1 << number), "delay {number}");
    }
}

#[test]
fn a_factor_of_one_keeps_the_delay() {
    let policy = builder().initial(ms(7)).factor(1.0).build().unwrap();
    assert!(policy.start().take(10_000).all(|delay| delay == ms(7)));
}

#[test]
fn growth_beyond_all_numbers_ends_at_the_cap() {
    for (initial, factor) in [
        (ns(1), f64::MAX),
        (secs(1), 1e300),
        (Duration::MAX, 2.0),
        (Duration::MAX, 1.0),
        (secs(u64::MAX / 2), 2.0),
    ] {
        for jitter in JITTERS {
            let builder = builder().initial(initial).factor(factor).cap(Duration::MAX);
            let policy = builder.jitter(jitter).build().unwrap();
            let delays: Vec<_> = policy.start_with_seed(1).take(5000).collect();
            if jitter == Jitter::None {
                assert_eq!((delays[0], delays[4999]), (initial, Duration::MAX));
            }
        }
    }
}

#[test]
fn the_limit_of_attempts_counts_the_first_one() {
    for (limit, delays) in [(1, 0), (2, 1), (5, 4)] {
        let mut backoff = builder().max_attempts(limit).build().unwrap().start();
        assert_eq!(backoff.by_ref().count(), delays);
        assert_eq!(backoff.failures(), limit);
        assert_eq!(backoff.next_delay(), None, "and none from then on");
        assert_eq!(backoff.failures(), limit);
        backoff.reset();
        assert_eq!(backoff.by_ref().count(), delays, "a reset begins anew");
    }
}

#[test]
fn a_reset_begins_at_the_first_delay_again() {
    let mut backoff = builder().initial(ms(10)).build().unwrap().start();
    assert_eq!(backoff.nth(5), Some(ms(320)));
    assert_eq!(backoff.failures(), 6);
    backoff.reset();
    assert_eq!(backoff.failures(), 0);
    assert_eq!(backoff.next_delay(), Some(ms(10)));

    let decorrelated = builder().initial(ms(10)).cap(secs(100)).jitter(Jitter::Decorrelated);
    let mut backoff = decorrelated.build().unwrap().start_with_seed(3);
    assert!(backoff.nth(20) > Some(ms(30)), "grown by now");
    backoff.reset();
    assert!(backoff.next_delay() <= Some(ms(30)), "at most three times the first");
}

#[test]
fn the_same_seed_draws_the_same_delays_and_others_draw_others() {
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        let policy = builder().jitter(jitter).build().unwrap();
        let draw = |seed| policy.start_with_seed(seed).take(20).collect::<Vec<_>>();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        // Without a seed two of them do not move in step, which is what jitter is for.
        let (first, second) = (policy.start(), policy.start());
        assert_ne!(first.take(20).collect::<Vec<_>>(), second.take(20).collect::<Vec<_>>());
    }
}

/// Mean, least and most of the delays in an equal situation: the third delay of many backoffs, base
/// 400 ms.
fn third_delays(jitter: Jitter) -> (Duration, Duration, Duration) {
    let policy = builder().initial(ms(100)).cap(secs(2)).jitter(jitter).build().unwrap();
    let delays: Vec<_> =
        (0..20_000).map(|seed| policy.start_with_seed(seed).nth(2).unwrap()).collect();
    let mean = delays.iter().sum::<Duration>() / 20_000;
    (mean, *delays.iter().min().unwrap(), *delays.iter().max().unwrap())
}

#[test]
fn full_jitter_draws_evenly_between_zero_and_the_base() {
    let (mean, least, most) = third_delays(Jitter::Full);
    assert!(mean > ms(195) && mean < ms(205), "{mean:?}");
    assert!(least < ms(2) && most > ms(398) && most <= ms(400), "{least:?} to {most:?}");
}

#[test]
fn equal_jitter_draws_evenly_between_the_half_of_the_base_and_the_base() {
    let (mean, least, most) = third_delays(Jitter::Equal);
    assert!(mean > ms(297) && mean < ms(303), "{mean:?}");
    assert!(least >= ms(200) && least < ms(202), "{least:?}");
    assert!(most > ms(398) && most <= ms(400), "{most:?}");
}

#[test]
fn decorrelated_jitter_draws_between_the_first_delay_and_three_times_the_last() {
    let (_, least, most) = third_delays(Jitter::Decorrelated);
    assert!(least >= ms(100) && least < ms(105), "{least:?}");
    assert!(most > secs(1) && most <= secs(2), "{most:?}");
    let policy = builder().cap(secs(3600)).jitter(Jitter::Decorrelated).build().unwrap();
    let mut previous = policy.initial();
    for delay in policy.start_with_seed(9).take(10_000) {
        assert!(delay >= ms(100) && delay <= previous * 3);
        previous = delay;
    }
}

#[test]
fn what_is_out_of_range_is_refused_with_the_value_and_the_limit() {
    let message = |builder: BackoffBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(
        message(builder().initial(Duration::ZERO)),
        "initial is 0ns, but it must be at least 1ns"
    );
    for (factor, named) in
        [(0.999, "0.999"), (-2.0, "-2"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")]
    {
        assert_eq!(
            message(builder().factor(factor)),
            format!("factor is {named}, but it must be a finite number of at least 1")
        );
    }
    assert_eq!(
        message(builder().initial(secs(1)).cap(ms(999))),
        "cap is 999ms, but it must be at least the initial delay of 1s"
    );
    assert_eq!(
        message(builder().max_attempts(0)),
        "max_attempts is 0, but it must be at least 1 (leave it unset for no limit)"
    );
    assert!(builder().initial(secs(1)).cap(secs(1)).factor(1.0).max_attempts(1).build().is_ok());
}

proptest! {
    /// Akka's jitter is added after the cap, and exceeds it.
    #[test]
    fn no_delay_of_any_kind_exceeds_the_cap_or_falls_below_its_floor(
        initial in 1_u64..=u64::MAX,
        more in 0_u64..=u64::MAX,
        factor in prop_oneof![1.0..4.0, 1.0..f64::MAX],
        jitter in prop::sample::select(&JITTERS[..]),
        seed: u64,
    ) {
        let initial = ns(initial);
        let cap = initial + ns(more);
        let builder = builder().initial(initial).factor(factor).cap(cap).jitter(jitter);
        let floor = match jitter {
            Jitter::Full => Duration::ZERO,
            Jitter::Equal => initial / 2,
            _ => initial,
        };
        for delay in builder.build().unwrap().start_with_seed(seed).take(70) {
            prop_assert!(delay >= floor && delay <= cap, "{delay:?} of {floor:?} to {cap:?}");
        }
    }

    #[test]
    fn without_jitter_delays_never_shrink(
        initial in 1_u64..1_000_000_000_000,
        factor in 1.0..10.0,
        cap in 1_000_000_000_000_u64..=u64::MAX,
    ) {
        let policy = builder().initial(ns(initial)).factor(factor).cap(ns(cap)).build().unwrap();
        let delays: Vec<_> = policy.start().take(200).collect();
        let shrinks = delays.windows(2).find(|pair| pair[1] < pair[0]);
        prop_assert!(shrinks.is_none(), "{shrinks:?}");
    }
}
