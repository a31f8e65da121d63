//! Settings and policies in files: what is written is read back, and what is wrong is named.
#![allow(missing_docs)]

use std::fmt::Debug;
use std::time::Duration;

use lars_scheduler::{ClosePolicy, LightArrayRevolverScheduler, MissedTickBehavior, Settings};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn json_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let text = serde_json::to_string(&value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

fn toml_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let text = toml::to_string(&value).unwrap();
    assert_eq!(toml::from_str::<T>(&text).unwrap(), value, "{text}");
}

fn other_settings() -> Settings {
    let mut settings = Settings::default();
    settings.tick_duration = Some(Duration::from_nanos(1_500_001));
    settings.ticks_per_wheel = 64;
    settings.coalesce = Duration::from_micros(20);
    settings.short_slices = true;
    settings.count_suspend = true;
    settings.max_pending = Some(7);
    settings.thread_name = Some("timers".to_owned());
    settings.stack_size = Some(1 << 21);
    settings.pool_threads = Some(3);
    settings.pool_queue = Some(100);
    settings.pool_stack_size = Some(1 << 20);
    settings.shutdown_timeout = Duration::from_secs(90);
    settings.close_policy = ClosePolicy::RunNone;
    settings.slow_inline = Duration::MAX;
    settings.slow_on_pool = Duration::from_secs(86_400 * 40);
    settings.explain_late = Some(Duration::from_micros(5_500));
    settings
}

#[test]
fn settings_are_read_as_they_were_written() {
    for settings in [Settings::default(), other_settings()] {
        toml_round_trip(settings.clone());
        json_round_trip(settings);
    }
}

#[test]
fn policies_are_read_as_they_were_written() {
    for policy in [ClosePolicy::RunPending, ClosePolicy::RunMarked, ClosePolicy::RunNone] {
        json_round_trip(policy);
    }
    use MissedTickBehavior::{Burst, Delay, Skip};
    [Burst, Skip, Delay].into_iter().for_each(json_round_trip);
}

#[test]
fn what_is_missing_has_its_default() {
    assert_eq!(toml::from_str::<Settings>("").unwrap(), Settings::default());
}

#[test]
fn an_unknown_field_or_word_is_refused_by_its_name() {
    let error = toml::from_str::<Settings>("tick = '1ms'").unwrap_err().to_string();
    assert!(error.contains("unknown field `tick`"), "{error}");
    let error = toml::from_str::<Settings>("close_policy = 'run'").unwrap_err().to_string();
    assert!(error.contains("unknown variant `run`") && error.contains("run_marked"), "{error}");
    let error = toml::from_str::<Settings>("coalesce = '5 parsecs'").unwrap_err().to_string();
    assert!(error.contains("coalesce") && error.contains("parsecs"), "{error}");
}

#[test]
fn a_value_out_of_its_range_is_refused_with_its_name_and_the_limit() {
    let settings: Settings = toml::from_str("pool_threads = 5000").unwrap();
    let error = LightArrayRevolverScheduler::builder().settings(settings).build().unwrap_err();
    assert_eq!(error.to_string(), "pool_threads is 5000, but it must be between 1 and 1024");
}
