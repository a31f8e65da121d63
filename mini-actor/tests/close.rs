//! Closing: what is scheduled is sent, what is queued is received, everybody stops, and it is reported.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{Event, LONG, all, probe};
use mini_actor::{Actor, ActorSystem, ClosePolicy, CloseReport, Context, SpawnError, StopReason};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn closing_sends_what_is_scheduled_and_lets_actors_receive_what_is_queued() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    for number in 0..50 {
        actor.tell(number).unwrap();
    }
    for number in 50..60 {
        // Later ones first: they are sent in the order of their deadlines.
        let delay = HOUR + Duration::from_secs(60 - number);
        let _ = system.scheduler().schedule_once(delay, &actor, number).unwrap();
    }
    let _ = system.scheduler().schedule_at_fixed_rate(HOUR, HOUR, &actor, 99).unwrap();
    let report = system.close().unwrap();
    assert_eq!(report.sent, 10);
    assert_eq!(report.repeats_ended, 1);
    assert_eq!(report.actors_stopped, 1);
    assert_eq!(report.dead_letters, 0);
    let mut expected = vec![Event::Started];
    expected.extend((0..50).map(Event::Received));
    expected.extend((50..60).rev().map(Event::Received));
    expected.extend([Event::Stopped(StopReason::SystemClosed), Event::Dropped]);
    assert_eq!(all(&told), expected);
    let metrics = system.scheduler().timers().metrics();
    assert_eq!(metrics.pending, 0);
    assert_eq!(metrics.scheduled, metrics.fired + metrics.cancelled + metrics.handed_back);
}

#[test]
fn a_system_may_be_closed_without_sending_what_is_scheduled() {
    let system =
        ActorSystem::builder("test").close_policy(ClosePolicy::DropPending).build().unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    actor.tell(1).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &actor, 2).unwrap();
    let report = system.close().unwrap();
    assert_eq!((report.sent, report.dropped), (0, 1));
    assert!(all(&told).contains(&Event::Received(1)));
    assert_eq!(report.dead_letters, 0);
}

#[test]
fn a_closed_system_refuses_actors_and_closing_again_does_nothing() {
    let system = ActorSystem::new("test").unwrap();
    system.close().unwrap();
    let (factory, _) = probe(|_: &(), _| ());
    let error = system.spawn("a", factory).unwrap_err();
    assert_eq!(error, SpawnError::Closed { system: "test".to_owned() });
    let again = system.close().unwrap();
    assert_eq!(again.actors_stopped, 0);
    assert_eq!(again.sent, 0);
}

#[test]
fn an_actor_may_close_its_system_and_another_thread_waits_for_the_end() {
    struct Closer(std::sync::Arc<ActorSystem>, mpsc::Sender<CloseReport>);
    impl Actor for Closer {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            self.1.send(self.0.close().unwrap_err().report).unwrap();
        }
    }
    let system = std::sync::Arc::new(ActorSystem::new("test").unwrap());
    let (sender, receiver) = mpsc::channel();
    let inner = std::sync::Arc::clone(&system);
    let closer = system.spawn("closer", move || Closer(inner, sender)).unwrap();
    closer.tell(()).unwrap();
    let report = receiver.recv_timeout(LONG).unwrap();
    assert_eq!(report.running, ["/closer".into()]);
    let report = system.close().unwrap();
    assert_eq!(report.actors_stopped, 1);
}

#[test]
fn closing_gives_up_on_an_actor_that_does_not_return_and_the_next_close_keeps_the_first_report() {
    struct Stuck(mpsc::Receiver<()>, mpsc::Sender<()>);
    impl Actor for Stuck {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            self.1.send(()).unwrap();
            let _ = self.0.recv();
        }
    }
    let system =
        ActorSystem::builder("test").shutdown_timeout(Duration::from_millis(20)).build().unwrap();
    let (release, hold) = mpsc::channel();
    let (entered, wait) = mpsc::channel();
    let stuck = system.spawn("stuck", move || Stuck(hold, entered)).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &stuck, ()).unwrap();
    stuck.tell(()).unwrap();
    wait.recv_timeout(LONG).unwrap();
    let error = system.close().unwrap_err();
    assert!(error.to_string().starts_with("not closed within 20ms: "), "{error}");
    assert_eq!((error.report.sent, error.report.actors_stopped), (1, 0));
    assert_eq!(error.report.running, ["/stuck".into()]);
    drop(release);
    let report = system.close_within(LONG);
    assert!(report.is_complete());
    assert_eq!((report.sent, report.actors_stopped, report.received), (1, 1, 2));
}

#[test]
fn dropping_a_system_stops_its_actors_without_sending_what_is_scheduled() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    actor.tell(1).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &actor, 2).unwrap();
    drop(system);
    assert_eq!(
        all(&told),
        [
            Event::Started,
            Event::Received(1),
            Event::Stopped(StopReason::SystemClosed),
            Event::Dropped
        ]
    );
}
