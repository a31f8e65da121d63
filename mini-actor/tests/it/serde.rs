//! Settings and policies in files.
#![allow(missing_docs)]

use std::time::Duration;

use mini_actor::supervision::Directive;
use mini_actor::{ActorSystem, ClosePolicy, Overflow, Settings};
use serde::{Deserialize, Serialize};

fn other_settings() -> Settings {
    let mut settings = Settings::default();
    settings.threads = Some(2);
    settings.throughput = 5;
    settings.time_slice = Some(Duration::from_micros(700));
    settings.slow_receive = Duration::from_millis(30);
    settings.shutdown_timeout = Duration::MAX;
    settings.close_policy = ClosePolicy::DropPending;
    settings.scheduler.max_pending = Some(9);
    settings
}

#[test]
fn settings_are_read_as_they_were_written() {
    for settings in [Settings::default(), other_settings()] {
        let text = toml::to_string(&settings).unwrap();
        assert_eq!(toml::from_str::<Settings>(&text).unwrap(), settings, "{text}");
    }
    assert_eq!(toml::from_str::<Settings>("").unwrap(), Settings::default());
}

#[test]
fn policies_are_read_as_they_were_written() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Policies {
        overflow: Vec<Overflow>,
        directives: Vec<Directive>,
    }
    use Directive::{Escalate, Restart, Resume, Stop};
    use Overflow::{Block, DropNewest, DropOldest, Fail};
    let overflow = vec![Fail, Block(Duration::from_millis(20)), DropNewest, DropOldest];
    let policies = Policies { overflow, directives: vec![Resume, Restart, Stop, Escalate] };
    let text = toml::to_string(&policies).unwrap();
    assert_eq!(toml::from_str::<Policies>(&text).unwrap(), policies, "{text}");
    assert!(text.contains("drop_oldest") && text.contains("20ms"), "{text}");
}

#[test]
fn what_is_wrong_is_refused_by_its_name() {
    let error = toml::from_str::<Settings>("thread = 2").unwrap_err().to_string();
    assert!(error.contains("unknown field `thread`"), "{error}");
    let error = toml::from_str::<Settings>("[scheduler]\ntick = '1s'").unwrap_err().to_string();
    assert!(error.contains("unknown field `tick`"), "{error}");
    for (text, expected) in [
        ("threads = 0", "threads is 0, but it must be between 1 and 1024"),
        ("[scheduler]\nmax_pending = 0", "max_pending is 0, but it must be at least 1"),
    ] {
        let settings: Settings = toml::from_str(text).unwrap();
        let error = ActorSystem::builder("test").settings(settings).build().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
