//! How to test an actor with timers: nine hours of a circuit breaker, in microseconds and
//! without sleeping.
//!
//! ```text
//! cargo run --release -p examples --example testing_with_virtual_time
//! ```

use std::time::Duration;

use examples::checks::Problem;
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, Context, Recipient, StopReason};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// Refuses calls, until it is tried again.
    Open,
    /// Lets one call through, to see.
    HalfOpen,
}

enum Event {
    Call { succeeds: bool },
    TryAgain,
}

/// Opens after three failures in a row, and tries again after a minute, then two, four, up to an
/// hour. A breaker that nobody has called for six hours goes.
struct Breaker {
    state: State,
    failures: u32,
    pause: Duration,
    changes: Recipient<State>,
}

impl Breaker {
    fn become_state(&mut self, state: State) {
        self.state = state;
        let _ = self.changes.tell(state);
    }
}

impl Actor for Breaker {
    type Message = Event;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let _ = ctx.set_receive_timeout(6 * HOUR);
    }

    fn receive(&mut self, event: Event, ctx: &mut Context<Self>) {
        match (event, self.state) {
            (Event::Call { succeeds: true }, State::Closed) => self.failures = 0,
            (Event::Call { succeeds: true }, State::HalfOpen) => {
                self.failures = 0;
                self.pause = MINUTE;
                self.become_state(State::Closed);
            }
            (Event::Call { succeeds: false }, State::Closed | State::HalfOpen) => {
                self.failures += 1;
                if self.failures >= 3 {
                    let _ = ctx.timers().start_single("try again", self.pause, Event::TryAgain);
                    self.pause = HOUR.min(2 * self.pause);
                    self.become_state(State::Open);
                }
            }
            (Event::Call { .. }, State::Open) => {}
            (Event::TryAgain, _) => self.become_state(State::HalfOpen),
        }
    }

    /// Its own timer says nothing about whether anybody needs it.
    fn influences_receive_timeout(event: &Event) -> bool {
        matches!(event, Event::Call { .. })
    }

    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

fn main() -> Result<(), Problem> {
    let kit = TestKit::new("test")?;
    let changes = kit.probe::<State>("changes");
    let told = changes.actor().recipient();
    let breaker = kit.spawn("breaker", move || Breaker {
        state: State::Closed,
        failures: 0,
        pause: MINUTE,
        changes: told,
    })?;
    let call = |succeeds| breaker.tell(Event::Call { succeeds });

    println!("Two failures and a success leave it closed.");
    for succeeds in [false, false, true, false, false] {
        call(succeeds)?;
    }
    changes.expect_no_message_for(MINUTE);

    println!("The third failure in a row opens it for exactly a minute.");
    call(false)?;
    assert_eq!(changes.expect_message(), State::Open);
    changes.expect_no_message_for(MINUTE - Duration::from_nanos(1));
    assert_eq!(changes.expect_message_within(Duration::from_nanos(1)), State::HalfOpen);

    println!("Each further failure doubles the pause, up to an hour.");
    for minutes in [2, 4, 8, 16, 32, 60, 60] {
        call(false)?;
        assert_eq!(changes.expect_message(), State::Open);
        changes.expect_no_message_for(minutes * MINUTE - Duration::from_nanos(1));
        assert_eq!(changes.expect_message_within(Duration::from_nanos(1)), State::HalfOpen);
    }

    println!("A success closes it.");
    call(true)?;
    assert_eq!(changes.expect_message(), State::Closed);

    println!("An unused breaker stops after six hours, and leaves nothing behind.");
    changes.expect_no_message_for(6 * HOUR - Duration::from_nanos(1));
    assert!(!breaker.is_stopped());
    kit.advance(Duration::from_nanos(1));
    assert_eq!(changes.expect_terminated(&breaker), StopReason::Itself);
    assert_eq!(kit.scheduler().timers().pending(), 0);
    assert_eq!(kit.dead_letters(), []);

    let passed = humantime::format_duration(kit.elapsed());
    println!("\nAll of it held, to the nanosecond, and {passed} of virtual time have passed.");
    Ok(())
}
