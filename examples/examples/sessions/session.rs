//! A session: one connection as an actor, with its two timers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mini_actor::{Actor, Cancellable, Context, StopReason};

use crate::counts::Counts;
use crate::protocol::{Farewell, Line};
use crate::server::Peer;

#[derive(Debug, Clone, Copy)]
pub enum Message {
    /// `PING n` came in.
    Request(u64),
    /// The client will send no more.
    HungUp,
    /// The idle timer that was armed as the nth is due.
    Idle(u64),
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
    idle: Option<Cancellable>,
    /// How often the idle timer has been armed: the number of the one that counts.
    armed: u64,
    armed_at: Instant,
    heartbeat: Option<Cancellable>,
    beats: u64,
    /// Why it ends, once it does.
    farewell: Farewell,
}

impl Session {
    pub fn new(peer: Peer, rules: Arc<Rules>) -> Self {
        Self {
            peer,
            rules,
            idle: None,
            armed: 0,
            armed_at: Instant::now(),
            heartbeat: None,
            beats: 0,
            farewell: Farewell::Shutdown,
        }
    }

    /// The client was heard of: the time without a request begins anew.
    fn arm_idle_timer(&mut self, ctx: &Context<Self>) {
        self.cancel_idle_timer();
        self.armed += 1;
        self.armed_at = Instant::now();
        // Refused only when the system is being closed, which ends the session in any case.
        self.idle = ctx
            .scheduler()
            .schedule_once(self.rules.idle_timeout, ctx.myself(), Message::Idle(self.armed))
            .ok();
        if self.idle.is_some() {
            self.rules.counts.armed.add_one();
        }
    }

    /// A cancel that comes too late means that the timeout is in the mailbox already, behind the
    /// message that is just being received. It will be known by its number.
    fn cancel_idle_timer(&mut self) {
        if let Some(idle) = self.idle.take() {
            if idle.cancel() {
                self.rules.counts.prevented.add_one();
            } else {
                self.rules.counts.too_late.add_one();
            }
        }
    }

    fn idle_timer_is_due(&mut self, number: u64, ctx: &mut Context<Self>) {
        if number != self.armed {
            self.rules.counts.overtaken.add_one();
            return;
        }
        if ctx.scheduler().timers().is_stopped() {
            // A system that is closed sends what is scheduled before its time. That is no timeout,
            // and the session is about to be stopped.
            return;
        }
        if self.armed_at.elapsed() < self.rules.idle_timeout {
            self.rules.counts.early.add_one();
        }
        self.farewell = Farewell::Idle;
        ctx.stop();
    }
}

impl Actor for Session {
    type Message = Message;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.rules.counts.opened.add_one();
        self.arm_idle_timer(ctx);
        let every = self.rules.heartbeat;
        self.heartbeat =
            ctx.scheduler().schedule_at_fixed_rate(every, every, ctx.myself(), Message::Beat).ok();
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
            Message::Idle(number) => self.idle_timer_is_due(number, ctx),
            Message::HungUp => {
                self.farewell = Farewell::Done;
                ctx.stop();
            }
        }
    }

    fn stopped(&mut self, _: StopReason, _: &mut Context<Self>) {
        if self.farewell == Farewell::Idle {
            // It has fired, so there is nothing to cancel.
            self.idle = None;
        }
        self.cancel_idle_timer();
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.cancel();
        }
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
