//! A node whose wall clock is wrong. It is a process of its own, because its environment says so.

use std::process::Command;
use std::time::{Duration, SystemTime};

use super::node::{Tagged, node};
use super::server::{PATIENCE, durable, server};
use crate::failpoint::WALL_CLOCK;
use crate::schedule::Cancel;
use crate::time::{Timestamp, system_clock};

const PARAMETERS: &str = "LARS_CLOCKS_PARAMETERS";

const DAY: i64 = 86_400;

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_node_whose_wall_clock_is_a_day_off_plans_and_runs_by_that_of_the_database() {
    let server = server();
    for off in [-DAY, DAY] {
        let database = server.database();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["proof::postgres::clocks::one_wrong_node", "--exact", "--test-threads=1"])
            .env(PARAMETERS, database.parameters())
            .env(WALL_CLOCK, off.to_string())
            .status()
            .unwrap();
        assert!(status.success(), "it is off by {off} s, and ended with {status}");
    }
}

/// Not a test of its own: what the node does.
#[test]
fn one_wrong_node() {
    let Ok(parameters) = std::env::var(PARAMETERS) else { return };
    let true_time = Timestamp::from_system(SystemTime::now());
    let off = (system_clock()().0 - true_time.0).abs() / 1_000_000;
    assert!((DAY - 3_600..DAY + 3_600).contains(&off), "its clock is not wrong");

    let (durable, runs) = node(durable(parameters));
    let timers = durable.timers();
    // At once, before the node has heard of the database's clock again.
    let cron = timers.schedule_by_cron("* * * * *", "UTC", Tagged(1)).key("cron");
    cron.submit().wait().unwrap();
    let planned = timers.get("cron").wait().unwrap().unwrap().deadline.unwrap();
    let (from, to) = (Duration::from_secs(1), Duration::from_secs(61));
    let now = SystemTime::now();
    assert!(planned + PATIENCE > now && planned < now + to + from, "planned for {planned:?}");
    while timers.cancel("cron").wait().unwrap() != Cancel::NotFound {}

    let asked = SystemTime::now();
    timers.schedule_once(from, Tagged(2)).submit().wait().unwrap();
    timers.schedule_at(asked + from, Tagged(3)).submit().wait().unwrap();
    let mut left = vec![2, 3];
    while !left.is_empty() {
        let seen = runs.recv_timeout(PATIENCE).unwrap();
        assert!(seen.tag == 1 || seen.at >= asked + from, "{} is early", seen.tag);
        left.retain(|tag| *tag != seen.tag);
    }
    durable.close().unwrap();
}
