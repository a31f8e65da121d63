//! One activation at a time, in virtual time that moves between them: what a busy thread does to an
//! actor.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use lars_scheduler::VirtualTime;

use crate::supervision::{Directive, SupervisionStrategy};
use crate::sync::Arc;
use crate::system::builder::Builder;
use crate::{Actor, ActorRef, ActorSystem, Context, Props, StopReason, Terminated};

const SECOND: Duration = Duration::from_secs(1);

/// What happened to an actor, in order.
type Log = Sender<String>;
type Act = fn(&str, &mut Context<Scripted>);

/// Tells of everything that happens to it, and does what its script says.
struct Scripted {
    log: Log,
    act: Act,
}

impl Scripted {
    fn tell(&self, what: &str, ctx: &mut Context<Self>) {
        let _ = self.log.send(what.to_owned());
        (self.act)(what, ctx);
    }
}

impl Actor for Scripted {
    type Message = &'static str;

    fn started(&mut self, ctx: &mut Context<Self>) {
        (self.act)("started", ctx);
    }

    fn receive(&mut self, message: &'static str, ctx: &mut Context<Self>) {
        self.tell(message, ctx);
    }

    fn terminated(&mut self, gone: Terminated, ctx: &mut Context<Self>) {
        self.tell(&format!("gone {}", gone.path), ctx);
    }

    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        self.tell("quiet", ctx);
    }
}

struct Set {
    system: ActorSystem,
    time: Arc<VirtualTime>,
    log: Log,
    told: Receiver<String>,
}

impl Set {
    fn new(builder: Builder) -> Self {
        let (system, time) = builder.build_manual().unwrap();
        let (log, told) = channel();
        Self { system, time, log, told }
    }

    fn spawn(&self, name: &str, act: Act) -> ActorRef<&'static str> {
        let log = self.log.clone();
        self.system.spawn_with(name, Props::once(move || Scripted { log, act })).unwrap()
    }

    /// Runs at most `turns` activations. Returns how many there were.
    fn run(&self, turns: usize) -> usize {
        self.system.system().registry().dispatcher.as_manual().unwrap().run(turns)
    }

    fn pending(&self) -> u64 {
        self.time.handle().metrics().pending
    }

    fn told(&self) -> Vec<String> {
        self.told.try_iter().collect()
    }
}

fn turn_by_turn() -> Set {
    Set::new(ActorSystem::builder("test").throughput(1))
}

#[test]
fn a_receive_timeout_of_a_time_before_a_message_came_is_not_called_when_that_waits() {
    let set = turn_by_turn();
    let actor = set.spawn("actor", |what, ctx| {
        if what == "started" {
            ctx.set_receive_timeout(10 * SECOND).unwrap();
        }
    });
    set.run(10);
    set.time.advance(5 * SECOND);
    actor.tell("long").unwrap();
    set.time.advance(15 * SECOND);
    assert_eq!(set.run(1), 1, "it is handled, which has taken 15 s");
    set.time.advance(5 * SECOND);
    actor.tell("in time").unwrap();
    // Its thread is busy with others.
    set.time.advance(10 * SECOND);
    set.run(10);
    assert_eq!(set.told(), ["long", "in time"]);
    set.time.advance(10 * SECOND);
    set.run(10);
    // The timer that looked again before the message is followed by the one that looks behind it.
    set.time.advance(Duration::ZERO);
    set.run(10);
    assert_eq!(set.told(), ["quiet"]);
}

#[test]
fn a_receive_timeout_that_was_set_anew_has_one_timer_whatever_became_of_the_old_one() {
    let set = turn_by_turn();
    let actor = set.spawn("actor", |what, ctx| match what {
        "started" => ctx.set_receive_timeout(10 * SECOND).unwrap(),
        "longer" => ctx.set_receive_timeout(100 * SECOND).unwrap(),
        _ => {}
    });
    set.run(10);
    actor.tell("longer").unwrap();
    // The old timer fires while the message waits.
    set.time.advance(10 * SECOND);
    set.run(10);
    assert_eq!(set.pending(), 1);
    set.time.advance(99 * SECOND);
    set.run(10);
    assert_eq!(set.told(), ["longer"]);
    set.time.advance(SECOND);
    set.run(10);
    assert_eq!((set.told(), set.pending()), (vec!["quiet".to_owned()], 1));
}

/// How much the first actor does in one turn, before another one has its turn.
fn in_one_turn(set: &Set) -> usize {
    set.spawn("other", |_, _| {}).tell("other").unwrap();
    set.run(1_000);
    let told = set.told();
    told.iter().position(|what| what == "other").unwrap()
}

#[test]
fn ticks_count_against_the_throughput() {
    let set = Set::new(ActorSystem::builder("test").throughput(4));
    set.spawn("busy", |what, ctx| {
        if what == "started" {
            for number in 0..20_u64 {
                ctx.timers().start_single(number, SECOND, "tick").unwrap();
            }
        }
    });
    set.run(10);
    set.time.advance(SECOND);
    assert!(in_one_turn(&set) <= 4);
}

#[test]
fn ends_of_others_count_against_the_throughput() {
    let set = Set::new(ActorSystem::builder("test").throughput(4));
    set.spawn("busy", |what, ctx| {
        if what == "started" {
            for number in 0..20 {
                let make = || Scripted { log: channel().0, act: |_, _| {} };
                let child = ctx.spawn(&format!("child-{number}"), make).unwrap();
                ctx.watch(&child);
                child.kill();
            }
        }
    });
    // It starts, and its children start and end: each has its turn before it is told.
    set.run(21);
    assert!(in_one_turn(&set) <= 4);
}

#[test]
fn messages_that_a_killed_actor_leaves_count_against_the_throughput() {
    let set = Set::new(ActorSystem::builder("test").throughput(4));
    let busy = set.spawn("busy", |_, _| {});
    set.run(10);
    for _ in 0..20 {
        busy.tell("left").unwrap();
    }
    busy.kill();
    let buried = || set.system.system().metrics().dead_letters;
    for turns in 1..=5 {
        assert_eq!(set.run(1), 1);
        assert!(buried() <= 4 * turns, "{} in {turns} turns", buried());
    }
    set.run(10);
    assert_eq!(
        (buried(), busy.termination().wait_timeout(Duration::ZERO)),
        (20, Some(StopReason::Killed))
    );
}

/// Escalates at once.
struct Failing;

impl Actor for Failing {
    type Message = ();

    fn started(&mut self, _: &mut Context<Self>) {
        panic!("expected by this test");
    }

    fn receive(&mut self, (): (), _: &mut Context<Self>) {}
}

#[test]
fn failures_of_children_count_against_the_throughput() {
    let set = Set::new(ActorSystem::builder("test").throughput(4));
    let (log, failures) = (set.log.clone(), set.log.clone());
    let supervision = SupervisionStrategy::decide(move |_| {
        failures.send("failure".to_owned()).unwrap();
        Directive::Resume
    });
    let act: Act = |what, ctx| {
        if what == "started" {
            for number in 0..20 {
                let props = Props::once(|| Failing).supervision(SupervisionStrategy::escalate());
                ctx.spawn_with(&format!("child-{number}"), props).unwrap();
            }
        }
    };
    let busy = Props::once(move || Scripted { log, act }).supervision(supervision);
    set.system.spawn_with("busy", busy).unwrap();
    // It starts, and each child fails before it has a turn again.
    set.run(21);
    let in_one = in_one_turn(&set);
    assert!((1..=4).contains(&in_one), "{in_one} in one turn");
    set.run(1_000);
    assert_eq!(set.system.metrics().panicked, 20);
}

#[test]
fn a_failure_that_has_come_is_decided_on_before_messages() {
    let set = turn_by_turn();
    let (log, failures) = (set.log.clone(), set.log.clone());
    let supervision = SupervisionStrategy::decide(move |_| {
        failures.send("failure".to_owned()).unwrap();
        Directive::Restart
    });
    let act: Act = |what, ctx| {
        if what == "fail" {
            for name in ["first", "second"] {
                let props = Props::once(|| Failing).supervision(SupervisionStrategy::escalate());
                ctx.spawn_with(name, props).unwrap();
            }
        }
    };
    let parent = Props::new(move || Scripted { log: log.clone(), act }).supervision(supervision);
    let parent = set.system.spawn_with("parent", parent).unwrap();
    for message in ["fail", "more", "most"] {
        parent.tell(message).unwrap();
    }
    set.run(1_000);
    // The second failure belongs to the incarnation that the first one ended.
    assert_eq!(set.told(), ["fail", "failure", "more", "most"]);
    assert_eq!(parent.metrics().restarts, 1);
}

#[test]
fn what_is_unstashed_comes_before_a_tick_that_is_due() {
    let set = turn_by_turn();
    let actor = set.spawn("actor", |what, ctx| match what {
        "started" => ctx.timers().start_single("tick", SECOND, "tick").unwrap(),
        "first" | "second" if ctx.timers().is_active("tick") && ctx.stashed() < 2 => {
            ctx.stash(if what == "first" { "first" } else { "second" }).unwrap();
        }
        "open" => ctx.unstash_all(),
        _ => {}
    });
    set.run(1);
    for message in ["first", "second", "open"] {
        actor.tell(message).unwrap();
    }
    set.time.advance(SECOND);
    set.run(2);
    assert_eq!(set.told(), ["first", "second"]);
    set.run(10);
    assert_eq!(set.told(), ["open", "first", "second", "tick"]);
}

/// More than is done in one step. (Miri takes minutes for a thousand actors.)
const VERY_MANY: u64 = if cfg!(miri) { 96 } else { 320 };

/// All of these; the first under Miri.
fn each<T>(kinds: &[T]) -> &[T] {
    if cfg!(miri) { &kinds[..1] } else { kinds }
}

/// How often another actor, which always has something to do, has its turn before `over`; and what
/// else is told until all have nothing to do.
fn turns_of_another(set: &Set, over: impl Fn(&[String]) -> bool) -> (usize, Vec<String>) {
    let other = set.spawn("other", |_, _| {});
    let (mut turns, mut rest) = (0, Vec::new());
    while !over(&rest) {
        if other.metrics().mailbox_depth == 0 {
            other.tell("other").unwrap();
        }
        set.run(1);
        let (others, more): (Vec<_>, Vec<_>) =
            set.told().into_iter().partition(|what| what == "other");
        turns += others.len();
        rest.extend(more);
    }
    set.run(1_000);
    rest.extend(set.told().into_iter().filter(|what| what != "other"));
    (turns, rest)
}

/// Whether this actor has ended.
fn ended(actor: &ActorRef<&'static str>) -> impl Fn(&[String]) -> bool + use<> {
    let termination = actor.termination();
    move |_| termination.wait_timeout(Duration::ZERO).is_some()
}

/// Spawns very many children.
fn spawn_children(ctx: &mut Context<Scripted>) {
    for _ in 0..VERY_MANY {
        let child = || Scripted { log: channel().0, act: |_, _| {} };
        ctx.spawn_anonymous(Props::once(child)).unwrap();
    }
}

/// At least so many turns take all of it: 16 in a step, and no more than two steps around a turn's
/// one message. (The first and the last do less.)
const TURNS: usize = VERY_MANY as usize / 16 / 2 - 2;

#[test]
fn an_actor_with_very_many_children_lets_others_have_their_turn_while_it_ends() {
    let ends: [fn(&ActorRef<&'static str>); 3] =
        [ActorRef::stop, ActorRef::kill, |actor| actor.tell("end").unwrap()];
    for end in each(&ends) {
        let set = turn_by_turn();
        let parent = set.spawn("parent", |what, ctx| match what {
            "started" => spawn_children(ctx),
            _ => ctx.stop(),
        });
        set.run(1_000);
        end(&parent);
        // They are told, and then they tell that they have gone.
        let (turns, _) = turns_of_another(&set, ended(&parent));
        assert!(turns >= TURNS, "{turns} turns");
        assert_eq!(set.system.metrics().stopped, VERY_MANY + 1);
    }
}

#[test]
fn an_actor_with_very_many_children_lets_others_have_their_turn_while_it_is_restarted() {
    let set = turn_by_turn();
    let log = set.log.clone();
    let act: Act = |what, ctx| match what {
        "more" => spawn_children(ctx),
        "fail" => panic!("expected by this test"),
        _ => {}
    };
    let props = Props::new(move || Scripted { log: log.clone(), act });
    let props = props.supervision(SupervisionStrategy::restart());
    let parent = set.system.spawn_with("parent", props).unwrap();
    parent.tell("more").unwrap();
    set.run(1_000);
    for message in ["fail", "more", "after"] {
        parent.tell(message).unwrap();
    }
    let after = |told: &[String]| told.iter().any(|what| what == "after");
    let (turns, _) = turns_of_another(&set, after);
    assert!(turns >= TURNS, "{turns} turns");
    // The children of the next one are told nothing.
    let metrics = set.system.metrics();
    assert_eq!((metrics.stopped, metrics.alive as u64), (VERY_MANY, VERY_MANY + 2));
}

#[test]
fn an_actor_that_very_many_watch_lets_others_have_their_turn_while_it_tells_them() {
    let set = turn_by_turn();
    let watched = set.spawn("watched", |_, _| {});
    for number in 0..VERY_MANY {
        let (log, watched) = (set.log.clone(), watched.clone());
        let props = Props::once(move || Watching { log, watched });
        set.system.spawn_with(&format!("w{number}"), props).unwrap();
    }
    set.run(1_000);
    watched.stop();
    let (turns, told) = turns_of_another(&set, ended(&watched));
    assert!(turns >= TURNS, "{turns} turns");
    assert_eq!((told.len() as u64, &*told[0]), (VERY_MANY, "/watched"));
}

/// Watches one actor.
struct Watching {
    log: Log,
    watched: ActorRef<&'static str>,
}

impl Actor for Watching {
    type Message = ();

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.watch(&self.watched);
    }

    fn receive(&mut self, (): (), _: &mut Context<Self>) {}

    fn terminated(&mut self, gone: Terminated, _: &mut Context<Self>) {
        self.log.send(gone.path.to_string()).unwrap();
    }
}

#[test]
fn an_actor_with_very_many_timers_watches_and_stashed_messages_ends_in_steps() {
    let acts: [(Act, u64); 3] = [
        (
            |what, ctx| {
                if what == "started" {
                    for number in 0..VERY_MANY {
                        ctx.timers().start_single(number, SECOND, "tick").unwrap();
                    }
                }
            },
            0,
        ),
        (
            |what, ctx| {
                if what == "started" {
                    for number in 0..VERY_MANY {
                        let name = format!("w{number}");
                        let idle = || Scripted { log: channel().0, act: |_, _| {} };
                        let watched = ctx.system().spawn(&name, idle).unwrap();
                        ctx.watch(&watched);
                    }
                }
            },
            0,
        ),
        (
            |what, ctx| {
                if what == "started" {
                    for _ in 0..VERY_MANY {
                        ctx.stash("aside").unwrap();
                    }
                }
            },
            VERY_MANY,
        ),
    ];
    for &(act, letters) in each(&acts) {
        let set = turn_by_turn();
        let actor = set.spawn("actor", act);
        set.run(1_000);
        actor.stop();
        let (turns, _) = turns_of_another(&set, ended(&actor));
        assert!(turns >= TURNS, "{turns} turns");
        assert_eq!((set.pending(), set.system.metrics().dead_letters), (0, letters));
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("expected by this test");
    }
}

#[test]
fn a_supervision_that_panics_when_it_is_dropped_harms_nobody_at_the_end_of_its_actor() {
    let set = turn_by_turn();
    let bomb = Bomb;
    let supervision = SupervisionStrategy::decide(move |_| {
        let _ = &bomb;
        Directive::Stop
    });
    let log = set.log.clone();
    let props = Props::once(move || Scripted { log, act: |_, _| {} }).supervision(supervision);
    let actor = set.system.spawn_with("actor", props).unwrap();
    actor.stop();
    set.run(10);
    assert_eq!(actor.termination().wait_timeout(Duration::ZERO), Some(StopReason::Asked));
    assert_eq!(set.run(10), 0);
}
