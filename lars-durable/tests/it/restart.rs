//! What is scheduled in one life of a process runs in the next.

use crate::common;

use std::time::{Duration, SystemTime};

use common::{Directory, LONG, note, telling};
use lars_durable::Durable;
use lars_durable::schedule::Cancel;

#[test]
fn a_timer_of_one_life_fires_in_the_next() {
    let mut later = Duration::from_millis(700);
    let directory = loop {
        let directory = Directory::new("restart");
        let (tell, seen) = telling();
        let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
        let asked = SystemTime::now();
        durable.timers().schedule_once(later, note("later")).submit().wait().unwrap();
        durable.close().unwrap();
        if seen.try_recv().is_err() {
            break directory;
        }
        // A machine that stands still may run it in this life: later then.
        assert!(asked.elapsed().unwrap() >= later, "close runs nothing early");
        later *= 4;
    };

    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "later");
    durable.close().unwrap();

    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    assert!(seen.recv_timeout(Duration::from_millis(300)).is_err(), "it ran once");
    durable.close().unwrap();
}

#[test]
fn a_timer_cancelled_in_one_life_does_not_fire_in_the_next() {
    let directory = Directory::new("cancelled");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let timers = durable.timers();
    for key in ["a", "b"] {
        let timer = timers.schedule_once(Duration::from_millis(100), note(key)).key(key);
        timer.submit().wait().unwrap();
    }
    assert_eq!(timers.cancel("a").wait().unwrap(), Cancel::Prevented);
    durable.close().unwrap();

    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "b");
    assert_eq!(durable.timers().cancel("a").wait().unwrap(), Cancel::NotFound);
    durable.close().unwrap();
    assert!(seen.try_recv().is_err());
}
