//! Messages up to a mebibyte, on threads of the usual size.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use common::LONG;
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
    system.close().unwrap();
}

#[test]
fn a_message_of_sixteen_kibibytes_needs_no_large_stack() {
    // This thread has the two mebibytes of any other.
    sends::<{ 16 << 10 }>(None);
    sends::<{ 16 << 10 }>(Some(3));
}

#[test]
fn a_message_of_a_mebibyte_is_sent_and_received() {
    // A caller that holds some of them has a stack for them.
    let caller = std::thread::Builder::new().stack_size(48 << 20);
    let caller = caller.spawn(|| {
        sends::<{ 1 << 20 }>(None);
        sends::<{ 1 << 20 }>(Some(3));
    });
    caller.unwrap().join().unwrap();
}
