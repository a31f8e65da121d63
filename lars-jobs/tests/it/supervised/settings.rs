//! Settings, their limits and edges.

use super::*;

#[test]
fn a_setting_out_of_its_range_is_an_error_that_names_the_value_and_the_limit() {
    let every = Supervision::every;
    let cases: [(SupervisionBuilder, &str); 10] = [
        (every(secs(0)), "interval is 0ns, but it must be at least 1ns"),
        (every(secs(1)).timeout(secs(0)), "timeout is 0ns, but it must be at least 1ns"),
        (
            every(secs(9)).max_interval(secs(8)),
            "max_interval is 8s, but it must be at least the interval, which is 9s",
        ),
        (
            every(secs(9)).max_interval(secs(0)),
            "max_interval is 0ns, but it must be at least the interval, which is 9s",
        ),
        (every(secs(1)).jitter(1.5), "jitter is 1.5, but it must be between 0 and 1"),
        (every(secs(1)).jitter(-0.1), "jitter is -0.1, but it must be between 0 and 1"),
        (every(secs(1)).jitter(f64::NAN), "jitter is NaN, but it must be between 0 and 1"),
        (every(secs(1)).max_concurrent(0), "max_concurrent is 0, but it must be at least 1"),
        (
            every(secs(1)).on_demand_limit(0, secs(1)),
            "the burst of on_demand_limit is 0, but it must be at least 1",
        ),
        (
            every(secs(1)).on_demand_limit(3, ns(2)),
            "the period of on_demand_limit is 2ns, but for a burst of 3 it must be at least 3ns",
        ),
    ];
    for (builder, message) in cases {
        assert_eq!(builder.build().unwrap_err().to_string(), message);
    }
    assert!(matches!(
        every(secs(0)).build(),
        Err(SettingError::Interval { given: Duration::ZERO, .. })
    ));
    // The edges themselves are fine.
    let edge = every(ns(1)).timeout(ns(1)).max_interval(ns(1)).jitter(1.0);
    assert!(edge.on_demand_limit(3, ns(3)).max_concurrent(usize::MAX).build().is_ok());
    let far = every(Duration::MAX).timeout(Duration::MAX).initial_delay(Duration::MAX);
    assert!(far.max_interval(Duration::MAX).on_demand_limit(1, Duration::MAX).build().is_ok());
}
