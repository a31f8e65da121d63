//! What the pages show, drawn into a terminal that is a buffer.
#![allow(missing_docs)]

use crate::common;

use common::{drawn, key, late, snapshot, typed};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use lars_top::snapshot::{Actor, Actors, Group, Late, LateRow, Letter, Pending, Spread};
use lars_top::{App, Flow, News, Page, Snapshot};
use serde_json::Value;

fn app(snapshots: impl IntoIterator<Item = Snapshot>) -> App {
    let mut app = App::new("the test");
    for snapshot in snapshots {
        app.tell(News::Snapshot(Box::new(snapshot)));
    }
    app
}

/// The line of the screen that has this text.
fn line<'a>(screen: &'a str, text: &str) -> &'a str {
    let found = screen.lines().find(|line| line.contains(text));
    found.unwrap_or_else(|| panic!("no line has `{text}`:\n{screen}"))
}

/// Asserts that two screens are the same: the line in which they first differ is enough to read.
#[track_caller]
fn assert_same(screen: &str, expected: &str) {
    let first = screen.lines().zip(expected.lines()).find(|(one, other)| one != other);
    assert!(screen == expected, "a screen is another one; the first lines that differ: {first:#?}");
}

fn position(screen: &str, text: &str) -> usize {
    screen.find(text).unwrap_or_else(|| panic!("`{text}` is missing:\n{screen}"))
}

#[test]
fn before_the_first_snapshot_the_view_says_what_it_waits_for_and_what_is_wrong() {
    let mut app = App::new("/run/server.lars");
    assert!(drawn(&app, 80, 24).contains("Waiting for /run/server.lars …"));
    app.tell(News::Trouble("nobody listens".to_owned()));
    assert!(drawn(&app, 80, 24).contains("nobody listens"));
}

#[test]
fn the_overview_has_rates_of_the_last_interval_and_lateness_of_the_last_seconds() {
    let first = snapshot(1);
    let mut second = snapshot(3);
    second.counts.fired += 3_000;
    second.counts.scheduled += 100_000;
    second.lateness = Spread { max: 4_000_000, buckets: vec![(90_000, 2_000), (3_500_000, 1_000)] };
    let screen = drawn(&app([first, second]), 120, 40);
    assert!(line(&screen, "fired ").contains("1.50k/s"), "{screen}");
    assert!(line(&screen, "scheduled ").contains("50.0k/s"), "{screen}");
    assert!(line(&screen, " pending ").contains("12,345"), "{screen}");
    assert!(screen.contains("p99 ") && screen.contains("max 4.00 ms"), "{screen}");
    assert!(line(&screen, "< 100 µs").contains("66.7 %"), "{screen}");
    assert!(line(&screen, "< 10 ms").contains("33.3 %"), "{screen}");
    assert!(line(&screen, "pool stalls").contains(" 2"), "{screen}");
    assert!(line(&screen, "held for the pool").contains("4,321"), "{screen}");
    assert!(screen.contains("request timeout"), "{screen}");
    assert!(screen.contains("level 0  8.00 ms a slot, 512 ms a turn   7 timers"), "{screen}");
}

#[test]
fn the_wheel_shows_each_level_up_to_the_highest_that_has_timers() {
    let mut app = app([snapshot(1)]);
    app.turn_to(Page::Wheel);
    let screen = drawn(&app, 130, 36);
    assert!(screen.contains("level 1  256 ms a slot, 16.4 s a turn   12,338 timers"), "{screen}");
    assert!(!screen.contains("level 2"), "{screen}");
    assert!(screen.contains("listed 1 s ago, in 2.00 ms"), "{screen}");
    // The rings.
    assert!(screen.chars().any(|symbol| ('\u{2801}'..='\u{28ff}').contains(&symbol)), "{screen}");
    let mut empty = snapshot(1);
    empty.pending = None;
    app.tell(News::Snapshot(Box::new(empty)));
    assert!(drawn(&app, 130, 36).contains("being listed"));
}

#[test]
fn timers_are_sorted_by_what_s_chooses_and_filtered_by_name_and_place() {
    let mut app = app([snapshot(1)]);
    app.turn_to(Page::Timers);
    let screen = drawn(&app, 120, 30);
    assert!(screen.contains("12,345 pending") && screen.contains("by pending"), "{screen}");
    assert!(position(&screen, "request timeout") < position(&screen, "heartbeat"), "{screen}");
    assert!(line(&screen, "request timeout").contains("src/client.rs:42:9"), "{screen}");
    assert!(line(&screen, "never due").contains("never"), "{screen}");

    assert_eq!(app.press(key('s')), Flow::On);
    let screen = drawn(&app, 120, 30);
    assert!(screen.contains("by first due"), "{screen}");
    assert!(position(&screen, "heartbeat") < position(&screen, "request timeout"), "{screen}");

    typed(&mut app, "/CLIENT");
    assert!(drawn(&app, 120, 30).contains("filter: CLIENT"));
    typed(&mut app, "\n");
    let screen = drawn(&app, 120, 30);
    assert!(screen.contains("only “CLIENT”") && screen.contains("request timeout"), "{screen}");
    assert!(!screen.contains("heartbeat"), "{screen}");
    assert_eq!(app.press(KeyEvent::from(KeyCode::Esc)), Flow::On);
    assert!(drawn(&app, 120, 30).contains("heartbeat"));
}

#[test]
fn slow_tasks_say_how_long_they_ran_and_where() {
    let mut app = app([snapshot(1)]);
    app.turn_to(Page::Slow);
    let screen = drawn(&app, 120, 30);
    let slow = line(&screen, "src/flush.rs:7:5");
    assert!(slow.contains("35.0 ms") && slow.contains("timer") && slow.contains("or 2 others"));
    let mut without = snapshot(2);
    without.slow.clear();
    app.tell(News::Snapshot(Box::new(without.clone())));
    assert!(drawn(&app, 120, 30).contains("was not given a `SlowLog`"));
    without.counts.slow = 0;
    without.taken += 1;
    app.tell(News::Snapshot(Box::new(without)));
    assert!(drawn(&app, 120, 30).contains("None so far"));
}

#[test]
fn run_times_are_shown_by_whose_they_are_if_they_are_recorded() {
    let mut app = app([snapshot(1)]);
    app.turn_to(Page::Slow);
    let screen = drawn(&app, 120, 30);
    let reindex = line(&screen, "src/index.rs:3:3");
    assert!(reindex.contains("2.00 s") && reindex.contains("500 ms"), "{screen}");
    assert!(position(&screen, "src/index.rs:3") < position(&screen, "src/flush.rs:1"), "{screen}");
    typed(&mut app, "s"); // by the longest run
    let screen = drawn(&app, 120, 30);
    assert!(position(&screen, "src/flush.rs:1") < position(&screen, "src/index.rs:3"), "{screen}");
    let mut without = snapshot(2);
    without.run_times.clear();
    app.tell(News::Snapshot(Box::new(without)));
    assert!(!drawn(&app, 120, 30).contains("How long tasks run"));
}

/// Nothing was late.
fn none() -> Late {
    Late { rows: vec![], more_rows: 0, ..late(0) }
}

#[test]
fn the_late_page_says_why_and_because_of_whom_lately_and_since_the_start() {
    let mut second = snapshot(3);
    second.late = Some(late(48));
    let mut app = app([snapshot(1), second]);
    typed(&mut app, "5");
    let screen = drawn(&app, 130, 30);
    let (recent, whole) = screen.split_at(position(&screen, "Late, since the start"));
    assert!(recent.contains("Late, last 2 s: 8 by more than 5.00 ms, 80.0 ms in all"), "{screen}");
    assert!(whole.contains(": 48, 480 ms in all, at most 80.0 ms "), "{screen}");
    for (part, share, time, tasks) in
        [(recent, "50.0 %", "40.0 ms", " 8  "), (whole, "50.0 %", "240 ms", " 48  ")]
    {
        let row = line(part, "an inline task ran");
        for text in [share, time, tasks, "sync prices", "src/sync.rs:5:5"] {
            assert!(row.contains(text), "`{text}`: {screen}");
        }
    }
    assert!(line(recent, "no processor was free").contains("25.0 %"), "{screen}");
    // Nobody was interrupted lately; and what has no row has the rest.
    assert!(!recent.contains("importer"), "{screen}");
    assert!(line(recent, " others").contains("25.0 %     20.0 ms"), "{screen}");
    assert!(line(whole, "a thread was interrupted").contains("thread `importer`"), "{screen}");
    assert!(line(whole, "31 others").contains("22.9 %      110 ms"), "{screen}");
}

#[test]
fn the_late_page_is_sorted_and_filtered_by_cause_culprit_and_place() {
    let mut app = app([snapshot(1), snapshot(2)]);
    app.turn_to(Page::Late);
    let order = |app: &App| {
        let screen = drawn(app, 120, 30);
        let rows = screen[position(&screen, "Late, since the start")..].lines();
        let of = ["an inline", "no processor", "a thread", "31 others"];
        rows.filter_map(|row| of.iter().position(|it| row.contains(it))).collect::<Vec<_>>()
    };
    assert_eq!(order(&app), [0, 1, 2, 3]);
    typed(&mut app, "ss"); // by tasks, which is the same here, and by cause
    assert!(drawn(&app, 120, 30).contains("by cause"));
    assert_eq!(order(&app), [2, 0, 1, 3]);
    for (filter, found) in [("IMPORTER", 2), ("processor", 1), ("sync.rs", 0)] {
        typed(&mut app, &format!("/{filter}\n"));
        assert_eq!(order(&app), [found], "{filter}");
        assert_eq!(app.press(KeyEvent::from(KeyCode::Esc)), Flow::On);
    }
}

#[test]
fn where_nothing_is_late_or_explained_the_late_page_says_so() {
    let mut on = snapshot(1);
    on.late = Some(none());
    let mut app = app([on]);
    app.turn_to(Page::Late);
    let screen = drawn(&app, 80, 24);
    assert!(screen.contains("No task has begun more than 5.00 ms late."), "{screen}");
    for second in [2, 3] {
        app.tell(News::Snapshot(Box::new(snapshot(second))));
    }
    app.tell(News::Snapshot(Box::new(snapshot(60))));
    let screen = drawn(&app, 80, 24);
    assert!(screen.contains("Late, last 57 s: 0 by more than 5.00 ms"), "{screen}");
    assert!(line(&screen, " None.").contains('│'), "{screen}");
    let mut off = snapshot(61);
    off.late = None;
    app.tell(News::Snapshot(Box::new(off)));
    for width in [41, 80] {
        let screen = drawn(&app, width, 24);
        assert!(screen.contains("`Builder::explain_late`"), "{screen}");
    }
}

#[test]
fn the_late_page_has_causes_and_culprits_in_80_columns_and_scrolls_both_tables() {
    let mut many = late(1_000);
    let row = many.rows[0].clone();
    let numbered = |number: u64| LateRow {
        culprit: format!("task {number:02}"),
        count: 50 - number,
        time: 50_000_000 - number,
        ..row.clone()
    };
    many.rows = (0..50).map(numbered).collect();
    let mut one = snapshot(1);
    one.late = Some(many);
    let mut app = app([Snapshot { late: Some(none()), ..snapshot(0) }, one]);
    app.turn_to(Page::Late);
    let screen = drawn(&app, 80, 24);
    assert!(line(&screen, "task 00").contains("an inline task ran"), "{screen}");
    for _ in 0..20 {
        assert_eq!(app.press(KeyEvent::from(KeyCode::PageDown)), Flow::On);
    }
    let screen = drawn(&app, 80, 24);
    assert_eq!(screen.matches("task 49").count(), 2, "{screen}");
    assert!(screen.contains("31 others") && !screen.contains("task 40"), "{screen}");
    // A cause has the room that it needs, where the culprits leave it.
    let mut one = snapshot(2);
    let mut few = late(40);
    few.rows[1].cause = "timer thread housekeeping".to_owned();
    few.rows.truncate(2);
    one.late = Some(few);
    app.tell(News::Snapshot(Box::new(one)));
    let screen = drawn(&app, 80, 24);
    assert!(screen.contains(" timer thread housekeeping  "), "{screen}");
    assert!(line(&screen, "an inline task ran").contains("sync prices"), "{screen}");
    let screen = drawn(&app, 100, 24);
    assert!(screen.contains(" timer thread housekeeping  "), "{screen}");
    assert!(line(&screen, "an inline task ran").contains("src/sync.rs:5:5"), "{screen}");
}

#[test]
fn the_late_page_cuts_no_title_and_no_number_and_has_causes_and_culprits_in_40_columns() {
    let mut second = snapshot(3);
    second.late = Some(late(48));
    let mut app = app([snapshot(1), second]);
    app.turn_to(Page::Late);
    for width in [40, 50, 60, 69, 70, 80, 99, 100, 120] {
        let screen = drawn(&app, width, 24);
        let titles: Vec<_> = screen.lines().filter(|line| line.starts_with('╭')).collect();
        assert!(titles[0].starts_with("╭ Late, last 2 s: 8"), "{screen}");
        assert!(titles[1].starts_with("╭ Late, since the start: 48"), "{screen}");
        for title in titles {
            assert!(title.ends_with(" ╮") || title.ends_with("─╮"), "{screen}");
        }
        let row = line(&screen, "sync prices");
        assert!(row.contains(" 50.0 %") && row.contains("an inline task "), "{screen}");
        assert_eq!(row.contains(" 40.0 ms "), width >= 70, "{screen}");
        assert_eq!(row.contains("src/sync.rs:5:5"), width >= 100, "{screen}");
        // A cause that is cut says so.
        let interrupted = line(&screen, "a thread was i");
        assert!(interrupted.contains("…  "), "{screen}");
        assert!(line(&screen, "31 others").contains(" 22.9 %"), "{screen}");
    }
    let narrow = drawn(&app, 40, 24);
    assert!(narrow.contains("│  share  cause             culprit    │"), "{narrow}");
    assert!(narrow.contains("│ 50.0 %  an inline task …  sync prices│"), "{narrow}");
}

fn late_messages(count: u64) -> Late {
    let mut late = late(count);
    for row in &mut late.rows {
        row.culprit = "/orders/slow in u32".to_owned();
    }
    late
}

/// What the actors were late by is in it, too.
fn with_late_messages(mut snapshot: Snapshot, late: Late) -> Snapshot {
    snapshot.actors = Some(Actors { late: Some(late), ..Actors::default() });
    snapshot
}

#[test]
fn the_late_page_has_the_messages_of_actors_below_the_tasks_if_they_are_explained() {
    let mut unexplained = with_actors(snapshot(1));
    unexplained.taken += 1;
    let mut app = app([snapshot(1), unexplained]);
    app.turn_to(Page::Late);
    assert!(!drawn(&app, 130, 40).contains("Late messages"));
    for (second, count) in [(2, 24), (3, 48)] {
        let next = with_late_messages(snapshot(second), late_messages(count));
        app.tell(News::Snapshot(Box::new(next)));
    }
    let screen = drawn(&app, 130, 40);
    let (tasks, messages) = screen.split_at(position(&screen, "Late messages, "));
    assert!(tasks.contains("Late, since the start: 40, ") && !tasks.contains("u32"), "{screen}");
    assert!(messages.contains(": 48, 480 ms in all, at most 80.0 ms "), "{screen}");
    assert!(line(messages, "share").contains("  messages"), "{screen}");
    assert!(line(messages, "an inline task ran").contains("/orders/slow in u32"), "{screen}");
    assert!(!messages.contains("sync prices"), "{screen}");
    // Not one lately: it is told in words.
    app.tell(News::Snapshot(Box::new(with_late_messages(snapshot(4), none()))));
    for (width, height) in [(130, 40), (80, 24)] {
        let screen = drawn(&app, width, height);
        let nothing = "No message of a timer was received more than 5.00 ms late.";
        assert!(screen.contains(nothing), "{screen}");
        assert!(line(&screen, "an inline task ran").contains("sync prices"), "{screen}");
    }
    // The scheduler may be somebody else's.
    let off = Snapshot { late: None, ..with_late_messages(snapshot(5), late_messages(60)) };
    app.tell(News::Snapshot(Box::new(off)));
    let screen = drawn(&app, 80, 24);
    assert!(screen.contains("`Builder::explain_late`"), "{screen}");
    assert!(screen.contains("Late messages, since the start: 60, "), "{screen}");
}

/// The same, and what durable runs were late by.
fn with_late_runs(snapshot: Snapshot, messages: u64, runs: u64) -> Snapshot {
    let mut late = late(runs);
    for row in &mut late.rows {
        row.culprit = "mail".to_owned();
    }
    Snapshot { late_runs: Some(late), ..with_late_messages(snapshot, late_messages(messages)) }
}

#[test]
fn the_late_page_has_durable_runs_below_all_others_if_they_are_explained() {
    let both = |second, messages, runs| with_late_runs(snapshot(second), messages, runs);
    let mut app = app([both(1, 24, 30), both(3, 48, 60)]);
    app.turn_to(Page::Late);
    let screen = drawn(&app, 130, 60);
    let (tasks, others) = screen.split_at(position(&screen, "Late messages, "));
    let (messages, runs) = others.split_at(position(others, "Late runs, "));
    assert!(tasks.contains("Late, since the start: 40, ") && !tasks.contains("mail"), "{screen}");
    assert!(messages.contains("Late messages, since the start: 48, "), "{screen}");
    assert!(!messages.contains("mail"), "{screen}");
    assert!(runs.contains("Late runs, last 2 s: 30 by more than 5.00 ms"), "{screen}");
    assert!(runs.contains("Late runs, since the start: 60, 600 ms in all"), "{screen}");
    assert!(line(runs, "share").contains("      runs"), "{screen}");
    assert!(line(runs, "an inline task ran").contains("mail"), "{screen}");
    // Where there is little room, each has one table, with rows.
    let screen = drawn(&app, 80, 24);
    assert!(!screen.contains("last 2 s"), "{screen}");
    for (title, culprit) in
        [("Late, ", "sync prices"), ("Late messages, ", "slow in u32"), ("Late runs, ", "mail")]
    {
        assert!(screen.contains(&format!("{title}since the start: ")), "{screen}");
        assert!(screen.contains(culprit), "{screen}");
    }
    // A scheduler of its own, without actors.
    let runs = Snapshot { actors: None, ..both(4, 0, 70) };
    app.tell(News::Snapshot(Box::new(runs)));
    let screen = drawn(&app, 130, 40);
    assert!(screen.contains("Late runs, since the start: 70, "), "{screen}");
    assert!(!screen.contains("Late messages"), "{screen}");
    let none = Snapshot { late_runs: Some(none()), ..snapshot(5) };
    app.tell(News::Snapshot(Box::new(none)));
    let screen = drawn(&app, 80, 24);
    assert!(screen.contains("No durable run has begun more than 5.00 ms late."), "{screen}");
}

#[test]
fn before_there_is_an_interval_the_late_page_has_one_table_for_each() {
    let first = with_late_runs(snapshot(1), 48, 60);
    let mut app = app([first.clone()]);
    app.turn_to(Page::Late);
    let titles = |app: &App| drawn(app, 130, 60).matches("╭ Late").count();
    assert_eq!(titles(&app), 3, "{}", drawn(&app, 130, 60));
    app.tell(News::Snapshot(Box::new(Snapshot { taken: first.taken + 1, ..first })));
    assert_eq!(titles(&app), 6, "{}", drawn(&app, 130, 60));
}

#[test]
fn the_late_page_scrolls_to_the_end_of_the_longer_table() {
    let mut many = late_messages(1_000);
    let row = many.rows[0].clone();
    let numbered = |number: u64| LateRow { culprit: format!("/a{number:02}"), ..row.clone() };
    many.rows = (0..50).map(numbered).collect();
    for (tasks, messages) in [(late(40), many.clone()), (many, late_messages(40))] {
        let mut one = with_late_messages(snapshot(1), messages);
        one.late = Some(tasks);
        let before = with_late_messages(snapshot(0), none());
        let mut app = app([Snapshot { late: Some(none()), ..before }, one]);
        app.turn_to(Page::Late);
        for _ in 0..20 {
            assert_eq!(app.press(KeyEvent::from(KeyCode::PageDown)), Flow::On);
        }
        let screen = drawn(&app, 80, 40);
        assert_eq!(screen.matches("/a49").count(), 2, "{screen}");
    }
}

fn with_actors(mut snapshot: Snapshot) -> Snapshot {
    let actor = |path: &str, depth, restarts| Actor {
        path: path.to_owned(),
        depth,
        restarts,
        processed: 10,
    };
    snapshot.actors = Some(Actors {
        system: "shop".to_owned(),
        alive: 3,
        dead_letters: 17,
        slow_receives: 23,
        busiest: vec![actor("/orders/slow", 5_000, 0), actor("/orders/failing", 1, 9)],
        letters: vec![Letter {
            age: 2_000_000_000,
            recipient: "/gone".to_owned(),
            message: "shop::Paid".to_owned(),
            reason: "stopped".to_owned(),
        }],
        ..Actors::default()
    });
    snapshot
}

#[test]
fn actors_are_listed_by_mailbox_with_the_last_dead_letters() {
    let mut with = snapshot(1);
    let mut app = app([with.clone()]);
    app.turn_to(Page::Actors);
    assert!(drawn(&app, 100, 30).contains("was not given a system of actors"));
    with = with_actors(with);
    with.taken += 1;
    app.tell(News::Snapshot(Box::new(with)));
    let screen = drawn(&app, 100, 30);
    assert!(line(&screen, "system").contains("shop"), "{screen}");
    assert!(line(&screen, "slow messages").contains("23"), "{screen}");
    assert!(line(&screen, "/orders/slow").contains("5,000"), "{screen}");
    assert!(position(&screen, "/orders/slow") < position(&screen, "/orders/failing"), "{screen}");
    let letter = line(&screen, "/gone");
    assert!(letter.contains("2.00 s") && letter.contains("shop::Paid"), "{screen}");
    typed(&mut app, "ss");
    let screen = drawn(&app, 100, 30);
    assert!(screen.contains("by restarts"), "{screen}");
    assert!(position(&screen, "/orders/failing") < position(&screen, "/orders/slow"), "{screen}");
}

#[test]
fn threads_have_their_share_of_the_processors() {
    let (first, mut second) = (snapshot(1), snapshot(2));
    second.threads[0].ran += 250_000_000;
    second.executor.run_time += 1_500_000_000;
    second.executor.queue_time = Spread { max: 70_000, buckets: vec![(65_536, 10)] };
    second.threads[1].waited += 500_000_000;
    let mut app = app([first, second.clone()]);
    app.turn_to(Page::Threads);
    let screen = drawn(&app, 100, 30);
    assert!(line(&screen, "lars-scheduler").contains("25.0 %"), "{screen}");
    assert!(line(&screen, "worker-0").contains("50.0 %"), "{screen}");
    assert!(line(&screen, "stalls").contains('2'), "{screen}");
    assert!(line(&screen, "held for room in the queue").contains("4,321"), "{screen}");
    let pool = line(&screen, "pool threads 4");
    assert!(pool.contains("running 3") && pool.contains("queued 21"), "{screen}");
    assert!(pool.contains("busy with tasks 1.50"), "{screen}");
    assert!(line(&screen, "waited for a thread, last 1 s").contains("p50 70.0 µs"), "{screen}");
    assert!(screen.contains(" 2 threads "), "{screen}");
    second.more_threads = 3_000;
    second.taken += 1;
    app.tell(News::Snapshot(Box::new(second)));
    assert!(drawn(&app, 100, 30).contains("The 2 oldest of 3,002 threads"));
}

#[test]
fn the_view_says_which_threads_backpressure_holds_back_how_often_and_for_how_long() {
    let mut first = snapshot(1);
    first.counts.backpressure_waited -= 1_500_000_000;
    let mut app = app([first, snapshot(2)]);
    let screen = drawn(&app, 120, 50);
    assert!(line(&screen, "calls held back").contains(" 6,543"), "{screen}");
    assert!(line(&screen, "for how long, in all").contains(" 2.50 s"), "{screen}");
    assert!(line(&screen, "threads held back now").contains(" 2"), "{screen}");
    assert!(line(&screen, "most: importer").contains(" 2.40 s"), "{screen}");
    app.turn_to(Page::Threads);
    for (width, height) in [(50, 16), (80, 24), (120, 50)] {
        let screen = drawn(&app, width, height);
        assert!(screen.contains("Held back: 2, 1.50 of them at a time"), "{screen}");
        let importer = line(&screen, "importer");
        assert!(importer.contains(" 2 ") && importer.contains(" 6,000 "), "{screen}");
        assert!(importer.contains(" 2.40 s"), "{screen}");
        assert!(line(&screen, "(no name)").contains(" 543 "), "{screen}");
    }
    let mut many = snapshot(3);
    many.waits = vec![many.waits[0].clone(); 9];
    app.tell(News::Snapshot(Box::new(many)));
    let screen = drawn(&app, 80, 24);
    assert!(screen.contains("Held back: the 5 most of 9"), "{screen}");
    assert_eq!(screen.matches("importer").count(), 5, "{screen}");
}

#[test]
fn where_nobody_is_held_back_the_view_says_no_more_than_that() {
    let mut calm = snapshot(1);
    calm.waits.clear();
    (calm.counts.backpressure_waits, calm.counts.backpressure_waited) = (0, 0);
    let mut app = app([calm]);
    let screen = drawn(&app, 120, 50);
    assert!(line(&screen, "calls held back").contains(" 0"), "{screen}");
    assert!(!screen.contains("most: "), "{screen}");
    app.turn_to(Page::Threads);
    assert!(!drawn(&app, 120, 50).contains("Held back"));
}

#[test]
fn a_paused_view_stays_as_it_is_until_it_goes_on() {
    let mut app = app([snapshot(1)]);
    typed(&mut app, "p");
    let mut later = snapshot(2);
    later.counts.pending = 99;
    app.tell(News::Snapshot(Box::new(later.clone())));
    let screen = drawn(&app, 120, 40);
    assert!(screen.contains("PAUSED") && line(&screen, " pending ").contains("12,345"));
    typed(&mut app, " ");
    app.tell(News::Snapshot(Box::new(later)));
    let screen = drawn(&app, 120, 40);
    assert!(!screen.contains("PAUSED") && line(&screen, " pending ").contains(" 99 "), "{screen}");
}

#[test]
fn a_connection_that_is_lost_is_seen_while_the_last_snapshot_stays() {
    let mut app = app([snapshot(1)]);
    app.tell(News::Trouble("nobody listens".to_owned()));
    let screen = drawn(&app, 120, 40);
    assert!(screen.contains("NO CONNECTION") && screen.contains("nobody listens"), "{screen}");
    assert!(screen.contains("12,345"), "{screen}");
    app.tell(News::Snapshot(Box::new(snapshot(2))));
    assert!(!drawn(&app, 120, 40).contains("NO CONNECTION"));
}

#[test]
fn keys_turn_the_pages_show_help_and_quit() {
    let mut app = app([snapshot(1)]);
    for (number, page) in Page::ALL.iter().enumerate() {
        typed(&mut app, &(number + 1).to_string());
        let by_number = drawn(&app, 120, 30);
        app.turn_to(*page);
        assert_same(&drawn(&app, 120, 30), &by_number);
    }
    let last = drawn(&app, 120, 30);
    assert_eq!(app.press(KeyEvent::from(KeyCode::Tab)), Flow::On);
    assert_eq!(app.press(KeyEvent::from(KeyCode::Left)), Flow::On);
    assert_same(&drawn(&app, 120, 30), &last);

    typed(&mut app, "h");
    assert!(drawn(&app, 120, 30).contains("quit the view; the program goes on"));
    // The next key ends the help, whatever it is.
    assert_eq!(app.press(key('q')), Flow::On);
    assert!(!drawn(&app, 120, 30).contains("quit the view"));
    assert_eq!(app.press(key('q')), Flow::Quit);
    // In a filter it is a letter.
    typed(&mut app, "/q");
    assert!(drawn(&app, 120, 30).contains("filter: q"));
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(app.press(control('l')), Flow::Redraw);
    assert_eq!(app.press(control('c')), Flow::Quit);
}

/// The same with each of its texts replaced.
fn with_texts(snapshot: &Snapshot, text: &str) -> Snapshot {
    fn replace(value: &mut Value, text: &str) {
        match value {
            Value::String(old) => text.clone_into(old),
            Value::Array(parts) => parts.iter_mut().for_each(|part| replace(part, text)),
            Value::Object(parts) => parts.values_mut().for_each(|part| replace(part, text)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(snapshot).unwrap();
    replace(&mut value, text);
    serde_json::from_value(value).unwrap()
}

#[test]
fn no_text_turns_or_breaks_a_line_or_reaches_the_terminal_as_a_command() {
    let text = "\u{202e}a\u{1b}[2J\r\n\u{2028}b\u{2066}";
    let snapshot = with_texts(&with_actors(snapshot(1)), text);
    let mut app = App::new(text);
    app.tell(News::Trouble(text.to_owned()));
    let check = |app: &App, page| {
        let screen = drawn(app, 200, 40);
        let bad = |it: &char| "\u{202e}\u{1b}\r\u{2028}\u{2066}".contains(*it);
        assert_eq!(screen.chars().find(bad), None, "on {page:?}");
        assert!(screen.contains("�a�[2J��"), "{page:?} has no text");
    };
    check(&app, Page::Overview);
    app.tell(News::Snapshot(Box::new(snapshot)));
    typed(&mut app, "/\u{202e}a\n");
    for page in Page::ALL {
        app.turn_to(page);
        check(&app, page);
    }
    app.tell(News::Trouble(text.to_owned()));
    check(&app, Page::Threads);
}

#[test]
fn scrolling_ends_at_the_last_row_and_begins_to_go_back_there() {
    let mut many = snapshot(1);
    let pending = many.pending.as_mut().unwrap();
    let one = pending.groups[0].clone();
    pending.groups = (0..50)
        .map(|number| Group { label: format!("group {number:02}"), ..one.clone() })
        .collect();
    let mut app = app([many]);
    app.turn_to(Page::Timers);
    for _ in 0..100 {
        assert_eq!(app.press(KeyEvent::from(KeyCode::PageDown)), Flow::On);
    }
    let end = drawn(&app, 120, 30);
    let rows = end.lines().filter(|line| line.contains("group ")).count();
    assert!(rows > 5 && end.contains("group 49"), "{end}");
    assert_eq!(app.press(KeyEvent::from(KeyCode::Up)), Flow::On);
    let back = drawn(&app, 120, 30);
    assert!(back.contains("group 48") && !back.contains("group 49"), "{back}");
    // A larger terminal has more rows.
    assert_eq!(drawn(&app, 120, 90).lines().filter(|line| line.contains("group ")).count(), 50);
}

#[test]
fn panics_and_refusals_are_seen_in_80_columns_and_24_lines() {
    let mut calm = with_actors(snapshot(1));
    calm.counts.panicked = 0;
    let screen = drawn(&app([calm.clone()]), 80, 24);
    assert!(line(&screen, " panics ").contains(" 0"), "{screen}");
    assert!(line(&screen, " refused ").contains(" 0"), "{screen}");
    // What is not zero comes before what is.
    assert!(line(&screen, "pool stalls").contains(" 2"), "{screen}");
    assert!(!screen.contains("rejected by") && screen.contains("Watch, and 12 more"), "{screen}");
    calm.counts.refused = 17;
    calm.counts.rejected = 4;
    let screen = drawn(&app([calm]), 80, 24);
    assert!(line(&screen, " refused ").contains(" 17"), "{screen}");
    assert!(line(&screen, "rejected by").contains(" 4"), "{screen}");
}

#[test]
fn each_page_says_how_old_the_listing_is_that_it_shows() {
    let mut old = with_actors(snapshot(1));
    old.pending.as_mut().unwrap().age = 13_000_000_000;
    old.actors.as_mut().unwrap().age = 13_000_000_000;
    let mut app = app([old]);
    let pages = [(Page::Overview, 2), (Page::Wheel, 1), (Page::Timers, 2), (Page::Actors, 1)];
    for (page, times) in pages {
        app.turn_to(page);
        let screen = drawn(&app, 120, 40);
        assert_eq!(screen.matches("13 s ago").count(), times, "{page:?}:\n{screen}");
    }
}

#[test]
fn what_an_order_or_a_filter_did_not_look_at_is_said() {
    let mut some = with_actors(snapshot(1));
    some.pending.as_mut().unwrap().more_groups = 1_800;
    some.actors.as_mut().unwrap().alive = 12_345;
    let mut app = app([some]);
    app.turn_to(Page::Timers);
    assert!(drawn(&app, 120, 40).contains("the 3 largest of 1,803 groups"));
    app.turn_to(Page::Actors);
    assert!(drawn(&app, 120, 40).contains("The 2 deepest of 12,345 mailboxes"));
    app.turn_to(Page::Slow);
    assert!(drawn(&app, 120, 40).contains("5 tasks were slow; the last 1"));
}

#[test]
fn every_page_fits_into_every_terminal() {
    let text = "\u{1b}[31m\n\t中文字符 e\u{301} 👩‍👩‍👧 \u{202e}".repeat(20);
    let mut hostile = with_texts(&with_actors(snapshot(1)), &text);
    hostile.version = lars_top::snapshot::VERSION;
    let mut none = snapshot(2);
    none.pending = Some(Pending::default());
    for snapshots in [vec![hostile], vec![snapshot(1), none], vec![Snapshot::default()], vec![]] {
        let mut app = app(snapshots);
        for page in Page::ALL {
            app.turn_to(page);
            for (width, height) in [(1, 1), (3, 2), (20, 5), (41, 12), (80, 24), (300, 100)] {
                let screen = drawn(&app, width, height);
                for harmful in ['\u{1b}', '\t', '\u{202e}'] {
                    assert!(!screen.contains(harmful), "{harmful:?} is drawn on {page:?}");
                }
            }
            assert_eq!(app.press(KeyEvent::from(KeyCode::PageDown)), Flow::On);
        }
    }
}

#[test]
fn a_narrow_terminal_shows_which_page_order_and_filter_and_whole_counts() {
    let mut app = app([snapshot(1)]);
    let overview = drawn(&app, 50, 20);
    assert!(line(&overview, "Overview").contains(" 2  3  4  5  6  7"), "{overview}");
    assert!(line(&overview, " pending ").contains("12,345"), "{overview}");
    app.turn_to(Page::Threads);
    typed(&mut app, "/serv");
    assert_eq!(app.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)), Flow::On);
    let threads = drawn(&app, 50, 20);
    assert!(line(&threads, "Threads").contains(" 7 Threads"), "{threads}");
    assert!(line(&threads, "h help").contains("by running   only “serv”"), "{threads}");
    let wide = drawn(&app, 120, 20);
    assert!(line(&wide, "h help").contains("q quit"), "{wide}");
    assert!(line(&wide, "Threads").contains(" 1 Overview "), "{wide}");
}

#[test]
fn the_tables_of_a_narrow_terminal_leave_out_columns_and_cut_neither_numbers_nor_titles() {
    let mut second = with_actors(snapshot(3));
    second.threads[0].ran += 500_000_000;
    let mut app = app([with_actors(snapshot(1)), second]);
    let pages = [
        (Page::Timers, [" 12,000 ", "   30.0 s ", "   first due  whose ", " in  "]),
        (Page::Slow, [" 35.0 ms ", "   2.00 s ", "    ran for  ", "   together  "]),
        (Page::Actors, [" 5,000 ", " stopped ", "     mailbox  ", "why           for "]),
        (Page::Threads, [" 2.40 s", " 25.0 % ", "  for, in all", " running  "]),
    ];
    for (page, texts) in pages {
        app.turn_to(page);
        for width in [40, 49, 50, 59, 60, 69, 70, 79, 80, 120] {
            let screen = drawn(&app, width, 24);
            for text in texts {
                assert!(screen.contains(text), "`{text}` in {width} columns: {screen}");
            }
        }
    }
}

#[test]
fn every_page_can_be_drawn_in_a_terminal_of_any_size() {
    let first = snapshot(1);
    let mut second = snapshot(2);
    // In the first row of the histogram, and in its last.
    let buckets = vec![(1_000, 2_000), (3_000_000_000, 1_000)];
    second.lateness = Spread { max: 4_000_000_000, buckets };
    let mut app = app([first, second]);
    for number in '1'..='7' {
        assert_eq!(app.press(key(number)), Flow::On);
        for width in [0, 1, 20, 80, 130] {
            for height in 0..=14 {
                drawn(&app, width, height);
            }
        }
    }
}

#[test]
fn every_page_can_be_drawn_in_the_highest_terminal_that_there_can_be() {
    let mut app = app([snapshot(1), snapshot(2)]);
    for page in Page::ALL {
        app.turn_to(page);
        assert_eq!(drawn(&app, 1, u16::MAX).lines().count(), 65_535, "{page:?}");
    }
}

#[test]
fn the_largest_numbers_there_can_be_are_drawn() {
    fn replace(value: &mut Value) {
        match value {
            Value::Number(number) => *number = u64::MAX.into(),
            Value::Array(parts) => parts.iter_mut().for_each(replace),
            Value::Object(parts) => parts.values_mut().for_each(replace),
            _ => {}
        }
    }
    let largest = |taken: u64| {
        let mut value = serde_json::to_value(with_actors(with_late_runs(snapshot(1), 1, 1)));
        replace(value.as_mut().unwrap());
        let mut value = value.unwrap();
        (value["version"], value["pid"], value["taken"]) = (1.into(), 17.into(), taken.into());
        serde_json::from_value::<Snapshot>(value).unwrap()
    };
    let mut app = app([largest(u64::MAX - 1), largest(u64::MAX)]);
    for page in Page::ALL {
        app.turn_to(page);
        assert!(drawn(&app, 120, 60).contains("584 years"), "{page:?}");
    }
}

#[test]
fn the_overview_shows_what_matters_in_40_columns() {
    let mut second = with_actors(snapshot(3));
    second.counts.panicked = 17;
    second.lateness = Spread { max: 4_000_000, buckets: vec![(3_500_000, 3_000)] };
    let mut app = app([with_actors(snapshot(1)), second]);
    let state = " STOPPED";
    for width in [40, 49, 50, 56, 57, 60, 69, 70, 77, 78, 79, 80, 120] {
        let screen = drawn(&app, width, 24);
        for text in [" 12,345 ", "p99 ", "max 4.00 ms", "a slot", "   7 timers", "   12,338 timers"]
        {
            assert!(screen.contains(text), "`{text}` in {width} columns: {screen}");
        }
        assert!(line(&screen, " panics ").contains(" 17 "), "{screen}");
        assert!(line(&screen, "pool stalls").contains(" 2 "), "{screen}");
        // A higher one has room for whose the timers are.
        let screen = drawn(&app, width, 40);
        assert!(line(&screen, "request timeout").contains(" 12,000 "), "{width}: {screen}");
        assert!(!screen.lines().next().unwrap().contains(state));
    }
    let mut ended = snapshot(4);
    ended.counts.stopped = true;
    app.tell(News::Snapshot(Box::new(ended)));
    typed(&mut app, "p");
    for width in [40, 80] {
        let screen = drawn(&app, width, 24);
        assert!(line(&screen, " lars-top ").contains("STOPPED  PAUSED"), "{screen}");
    }
}

#[test]
fn the_wheel_shows_what_matters_in_40_columns() {
    let mut app = app([snapshot(1)]);
    app.turn_to(Page::Wheel);
    for width in [40, 50, 60, 70, 79, 80, 99, 120] {
        let screen = drawn(&app, width, 24);
        for text in [
            "The wheel ─",
            "How full its slots are ─",
            "8.00 ms a slot",
            "   7 timers",
            "256 ms a slot",
            "   12,338 timers",
            "listed 1 s ago, in 2.00 ms ",
            "the bright slot is now ",
        ] {
            assert!(screen.contains(text), "`{text}` in {width} columns: {screen}");
        }
        let rings = screen.chars().filter(|symbol| ('\u{2801}'..='\u{28ff}').contains(symbol));
        assert!(rings.count() > 50, "{screen}");
    }
}
