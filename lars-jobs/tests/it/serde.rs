//! Policies in files: what is written is read back.
#![allow(missing_docs)]

use std::fmt::Debug;
use std::time::Duration;

use lars_jobs::backoff::BackoffPolicy;
use lars_jobs::supervised::GivenUp;
use lars_jobs::wall_clock::MissedRuns;
use lars_scheduler::{LightArrayRevolverScheduler, MissedTickBehavior, Settings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

fn json_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let text = serde_json::to_string(&value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

#[test]
fn policies_of_systems_are_read_as_they_were_written() {
    [MissedRuns::Once, MissedRuns::Burst, MissedRuns::Skip(Duration::from_secs(5))]
        .into_iter()
        .for_each(json_round_trip);
    [GivenUp::Drop, GivenUp::Leave].into_iter().for_each(json_round_trip);
}

#[test]
fn a_program_s_own_file_may_hold_them() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        timers: Settings,
        reconnect: BackoffPolicy,
        heartbeat_missed: MissedTickBehavior,
        reports_missed: MissedRuns,
    }
    let file: File = toml::from_str(
        "heartbeat_missed = 'skip'\n\
         reports_missed = { skip = '10m' }\n\
         [timers]\n\
         tick_duration = '5ms'\n\
         close_policy = 'run_marked'\n\
         [reconnect]\n\
         initial = '1s'\n\
         jitter = 'full'\n",
    )
    .unwrap();
    assert_eq!(file.heartbeat_missed, MissedTickBehavior::Skip);
    assert_eq!(file.reports_missed, MissedRuns::Skip(Duration::from_secs(600)));
    assert_eq!(file.reconnect.initial(), Duration::from_secs(1));
    let scheduler = LightArrayRevolverScheduler::builder().settings(file.timers).build().unwrap();
    assert_eq!(scheduler.tick_duration(), Duration::from_millis(5));
}
