//! Policies in files: what is written is read back, and what is wrong is named.
#![allow(missing_docs)]

use std::time::Duration;

use lars_base::backoff::{BackoffPolicy, Jitter};
use lars_base::rate::MissedTickBehavior;

#[test]
fn policies_are_read_as_they_were_written() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    for missed in [Burst, Skip, Delay] {
        let text = serde_json::to_string(&missed).unwrap();
        assert_eq!(serde_json::from_str::<MissedTickBehavior>(&text).unwrap(), missed, "{text}");
    }
    let policy = BackoffPolicy::builder()
        .initial(Duration::from_millis(3))
        .factor(1.5)
        .cap(Duration::MAX)
        .max_attempts(4)
        .jitter(Jitter::Decorrelated)
        .build()
        .unwrap();
    for policy in [policy, BackoffPolicy::builder().build().unwrap()] {
        let text = toml::to_string(&policy).unwrap();
        assert_eq!(toml::from_str::<BackoffPolicy>(&text).unwrap(), policy, "{text}");
    }
}

#[test]
fn what_a_policy_does_not_say_has_its_default() {
    let policy: BackoffPolicy = toml::from_str("cap = '5s'").unwrap();
    assert_eq!(policy, BackoffPolicy::builder().cap(Duration::from_secs(5)).build().unwrap());
}

#[test]
fn an_unknown_field_and_a_value_out_of_range_are_refused_with_their_names() {
    let error = toml::from_str::<BackoffPolicy>("max = '1ms'").unwrap_err().to_string();
    assert!(error.contains("unknown field `max`"), "{error}");
    let error = toml::from_str::<BackoffPolicy>("initial = '5s'\ncap = '2s'").unwrap_err();
    let text = "cap is 2s, but it must be at least the initial delay of 5s";
    assert!(error.to_string().contains(text), "{error}");
}
