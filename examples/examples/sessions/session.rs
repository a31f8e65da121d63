//! A session: one connection as an actor, with its two timers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mini_actor::{Actor, Context, StopReason};

use crate::counts::Counts;
use crate::protocol::{Farewell, Line};
use crate::server::Peer;

#[derive(Debug, Clone, Copy)]
pub enum Message {
    /// `PING n` came in.
    Request(u64),
    /// The client will send no more.
    HungUp,
    /// No request has come for the idle timeout.
    Idle,
    /// A heartbeat is due.
    Beat,
}

/// What all sessions have in common.
#[derive(Debug)]
pub struct Rules {
    pub idle_timeout: Duration,
    pub heartbeat: Duration,
    pub counts: Arc<Counts>,
}

pub struct Session {
    peer: Peer,
    rules: Arc<Rules>,
    armed_at: Instant,
    beats: u64,
    /// Why it ends, once it does.
    farewell: Farewell,
}

impl Session {
    pub fn new(peer: Peer, rules: Arc<Rules>) -> Self {
        Self { peer, rules, armed_at: Instant::now(), beats: 0, farewell: Farewell::Shutdown }
    }

    /// The client was heard of: the time without a request begins anew. Starting the timer replaces
    /// the one before; if that is due and in the mailbox already, behind the request that is just
    /// being received, nothing of it arrives.
    fn arm_idle_timer(&mut self, ctx: &mut Context<Self>) {
        self.armed_at = Instant::now();
        // Refused only at a limit of the scheduler's, and then the timer before it goes on.
        if ctx.timers().start_single("idle", self.rules.idle_timeout, Message::Idle).is_ok() {
            self.rules.counts.armed.add_one();
        }
    }
}

impl Actor for Session {
    type Message = Message;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.rules.counts.opened.add_one();
        self.arm_idle_timer(ctx);
        let every = self.rules.heartbeat;
        // Ends with the session, and so does the idle timer.
        let _ = ctx.timers().start_at_fixed_rate("heartbeat", every, every, || Message::Beat);
    }

    fn receive(&mut self, message: Message, ctx: &mut Context<Self>) {
        match message {
            Message::Request(number) => {
                self.arm_idle_timer(ctx);
                self.rules.counts.requests.add_one();
                self.peer.write(Line::Pong(number));
            }
            Message::Beat => {
                self.beats += 1;
                self.rules.counts.heartbeats.add_one();
                self.peer.write(Line::Beat(self.beats));
            }
            Message::Idle => {
                if self.armed_at.elapsed() < self.rules.idle_timeout {
                    self.rules.counts.early.add_one();
                }
                self.farewell = Farewell::Idle;
                ctx.stop();
            }
            Message::HungUp => {
                self.farewell = Farewell::Done;
                ctx.stop();
            }
        }
    }

    fn stopped(&mut self, _: StopReason, _: &mut Context<Self>) {
        let counts = &self.rules.counts;
        match self.farewell {
            Farewell::Done => counts.closed_by_client.add_one(),
            Farewell::Idle => counts.timed_out.add_one(),
            Farewell::Shutdown => counts.cut_off.add_one(),
        }
        // Last: when the client sees the end, everything has been counted.
        self.peer.write(Line::Bye(self.farewell));
        self.peer.close();
    }
}
