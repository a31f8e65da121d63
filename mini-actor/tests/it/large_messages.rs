//! Messages up to a mebibyte, on threads of the usual size; and actors of two.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use common::{LONG, close};
use mini_actor::hooks::Undelivered;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::{Actor, ActorSystem, Context, Overflow, Props};

/// Says of each message what its bytes are.
struct Reader<const SIZE: usize>(Sender<u8>);

impl<const SIZE: usize> Actor for Reader<SIZE> {
    type Message = [u8; SIZE];

    fn receive(&mut self, message: [u8; SIZE], _: &mut Context<Self>) {
        assert!(message.iter().all(|&byte| byte == message[0]));
        self.0.send(message[0]).unwrap();
    }
}

fn sends<const SIZE: usize>(capacity: Option<usize>) {
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (report, read) = channel();
    let mut props = Props::once(|| Reader::<SIZE>(report));
    if let Some(capacity) = capacity {
        props = props.bounded(capacity, Overflow::Block(Duration::MAX));
    }
    let actor = system.spawn_with("reader", props).unwrap();
    for number in 0..20 {
        actor.tell([number; SIZE]).unwrap();
    }
    let received: Vec<u8> = (0..20).map(|_| read.recv_timeout(LONG).unwrap()).collect();
    assert!(received.is_sorted());
    close(&system);
}

#[test]
fn a_message_of_sixteen_kibibytes_needs_no_large_stack() {
    // This thread has the two mebibytes of any other.
    sends::<{ 16 << 10 }>(None);
    sends::<{ 16 << 10 }>(Some(3));
}

#[test]
fn a_message_of_a_mebibyte_is_sent_and_received() {
    with_a_large_stack(|| {
        sends::<MEBIBYTE>(None);
        sends::<MEBIBYTE>(Some(3));
    });
}

const MEBIBYTE: usize = 1 << 20;

/// Runs `test` on a thread with room for a caller that holds some large messages. The timer thread
/// has the two mebibytes of any other.
fn with_a_large_stack(test: fn()) {
    let caller = std::thread::Builder::new().stack_size(48 << 20);
    caller.spawn(test).unwrap().join().unwrap();
}

fn schedules(capacity: Option<usize>) {
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (report, read) = channel();
    let mut props = Props::once(|| Reader::<MEBIBYTE>(report));
    if let Some(capacity) = capacity {
        props = props.bounded(capacity, Overflow::DropOldest);
    }
    let actor = system.spawn_with("reader", props).unwrap();
    let (scheduler, ms) = (system.scheduler(), Duration::from_millis(1));
    scheduler.schedule_once(ms, &actor, [1; MEBIBYTE]).unwrap();
    assert_eq!(read.recv_timeout(LONG).unwrap(), 1);
    let repeats = [
        scheduler.schedule_at_fixed_rate(ms, ms, &actor, [2; MEBIBYTE]).unwrap(),
        scheduler.schedule_with_fixed_delay(ms, ms, &actor, [2; MEBIBYTE]).unwrap(),
    ];
    for _ in 0..5 {
        assert_eq!(read.recv_timeout(LONG).unwrap(), 2);
    }
    assert!(repeats.iter().all(|repeat| repeat.cancel()));
    let hour = Duration::from_secs(3600);
    scheduler.schedule_once(hour, &actor, [3; MEBIBYTE]).unwrap();
    close(&system);
    assert_eq!(read.try_iter().last(), Some(3), "`close` sends it");
    let refused = scheduler.schedule_once(hour, &actor, [4; MEBIBYTE]).unwrap_err();
    assert_eq!(refused.into_task()[0], 4);
}

#[test]
fn a_message_of_a_mebibyte_is_scheduled_once_and_again_and_again() {
    with_a_large_stack(|| {
        schedules(None);
        schedules(Some(1));
    });
}

#[test]
fn a_scheduled_message_of_a_mebibyte_that_finds_no_room_or_nobody_is_a_dead_letter() {
    /// Says what became of the first message of all for a busy actor.
    fn dead_letters(overflow: Overflow) -> Vec<(u8, Undelivered)> {
        let (sender, letters) = channel();
        let system = ActorSystem::builder("test")
            .threads(2)
            .on_dead_letter(move |letter| {
                let message = letter.message.downcast_ref::<[u8; MEBIBYTE]>().unwrap();
                sender.send((message[0], letter.reason)).unwrap();
            })
            .build()
            .unwrap();
        let (report, read) = std::sync::mpsc::sync_channel(0);
        let busy = move |message: [u8; MEBIBYTE]| report.send(message[0]).unwrap();
        let props = Props::once(|| Busy(Box::new(busy))).bounded(1, overflow);
        let actor = system.spawn_with("busy", props).unwrap();
        let soon = Duration::from_millis(1);
        for number in 1..=3 {
            system
                .scheduler()
                .schedule_once(number * soon, &actor, [number as u8; MEBIBYTE])
                .unwrap();
        }
        let mut buried = vec![letters.recv_timeout(LONG).unwrap()];
        actor.kill();
        while !actor.is_stopped() {
            let _ = read.recv_timeout(soon);
        }
        system.scheduler().schedule_once(soon, &actor, [4; MEBIBYTE]).unwrap();
        while buried.last() != Some(&(4, Undelivered::Stopped)) {
            buried.push(letters.recv_timeout(LONG).unwrap());
        }
        buried
    }
    with_a_large_stack(|| {
        assert_eq!(dead_letters(Overflow::DropNewest)[0].1, Undelivered::Full);
        assert_eq!(dead_letters(Overflow::DropOldest)[0].1, Undelivered::Full);
        assert_eq!(dead_letters(Overflow::Fail)[0].1, Undelivered::Full);
    });
}

struct Busy(Box<dyn FnMut([u8; MEBIBYTE]) + Send>);

impl Actor for Busy {
    type Message = [u8; MEBIBYTE];

    fn receive(&mut self, message: [u8; MEBIBYTE], _: &mut Context<Self>) {
        (self.0)(message);
    }
}

#[test]
fn an_actor_with_a_state_of_two_mebibytes_is_spawned_on_a_small_stack_and_made_anew() {
    struct Large([u8; 2 << 20]);
    impl Actor for Large {
        type Message = bool;
        fn receive(&mut self, fine: bool, _: &mut Context<Self>) {
            assert!(fine, "expected by this test");
            self.0[0] += 1;
        }
    }
    let spawns = std::thread::Builder::new().stack_size(256 << 10).spawn(|| {
        let system = ActorSystem::builder("test").threads(1).build().unwrap();
        let props = Props::new(|| Large([0; 2 << 20]));
        let props = props.supervision(SupervisionStrategy::restart());
        let large = system.spawn_with("large", props).unwrap();
        for fine in [true, false, true] {
            large.tell(fine).unwrap();
        }
        let report = system.close_within(LONG);
        (large.metrics().processed, report.dead_letters, large.metrics().restarts)
    });
    assert_eq!(spawns.unwrap().join().unwrap(), (3, 0, 1));
}
