//! A snapshot, and drawing it.
#![allow(dead_code, unreachable_pub)]

use crossterm::event::{KeyCode, KeyEvent};
use lars_top::snapshot::{
    Counts, Executor, Group, Late, LateRow, Level, Pending, RunTime, Slow, Spread, Thread,
    ThreadWaits, Timer, VERSION,
};
use lars_top::{App, Flow, Snapshot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const SECOND: u64 = 1_000_000_000;

/// The program after this many seconds; its counts stay.
pub fn snapshot(seconds: u64) -> Snapshot {
    let group = |label: &str, place: &str, count, first_due| Group {
        label: label.to_owned(),
        place: place.to_owned(),
        count,
        first_due,
    };
    let mut low = vec![0; 64];
    low[9] = 7;
    let mut high = vec![192; 64];
    high[0] = 12_338 - 63 * 192;
    let wait = |thread: &str, waiting, waits, waited| ThreadWaits {
        thread: thread.to_owned(),
        waiting,
        waits,
        waited,
    };
    let thread = |id, name: &str| Thread { id, name: name.to_owned(), ran: 0, waited: 0 };
    Snapshot {
        version: VERSION,
        program: "gateway".to_owned(),
        pid: 17,
        taken: seconds * SECOND,
        counts: Counts {
            scheduled: 50_000,
            fired: 20_000,
            cancelled: 17_655,
            pending: 12_345,
            pool_stalls: 2,
            held_for_pool: 4_321,
            slow: 5,
            backpressure_waits: 6_543,
            backpressure_waited: 2_500_000_000,
            tick: 1_000_000,
            ..Counts::default()
        },
        lateness: Spread::default(),
        executor: Executor { threads: 4, running: 3, queued: 21, ..Executor::default() },
        pending: Some(Pending {
            age: SECOND,
            took: 2_000_000,
            timers: 12_345,
            levels: vec![
                Level { span: 8_000_000, slots: low, hand: 5 },
                Level { span: 256_000_000, slots: high, hand: 60 },
                Level { span: 8_192_000_000, slots: vec![0; 64], hand: 0 },
            ],
            groups: vec![
                group("request timeout", "src/client.rs:42:9", 12_000, Some(30 * SECOND)),
                group("heartbeat", "src/beat.rs:1:1", 344, Some(SECOND)),
                group("never due", "src/never.rs:1:1", 1, None),
            ],
            next: vec![Timer {
                label: "heartbeat".to_owned(),
                place: "src/beat.rs:1:1".to_owned(),
                repeat: true,
                remaining: Some(SECOND),
            }],
            ..Pending::default()
        }),
        slow: vec![Slow {
            age: SECOND,
            label: "flush".to_owned(),
            place: "src/flush.rs:7:5".to_owned(),
            on_timer_thread: true,
            lateness: 1_000_000,
            run_time: 35_000_000,
            others: 2,
        }],
        run_times: vec![
            RunTime {
                label: "reindex".to_owned(),
                place: "src/index.rs:3:3".to_owned(),
                runs: 4,
                total: 2 * SECOND,
                longest: SECOND,
            },
            RunTime {
                label: "flush".to_owned(),
                place: "src/flush.rs:1:1".to_owned(),
                runs: 1_000,
                total: SECOND,
                longest: 1_500_000_000,
            },
        ],
        late: Some(late(40)),
        late_runs: None,
        waits: vec![wait("importer", 2, 6_000, 2_400_000_000), wait("", 0, 543, 100_000_000)],
        actors: None,
        threads: vec![thread(1, "lars-scheduler"), thread(2, "worker-0")],
        more_threads: 0,
    }
}

/// So many tasks were late, by 10 ms each.
pub fn late(count: u64) -> Late {
    let row = |cause: &str, culprit: &str, place: &str, count, time| LateRow {
        cause: cause.to_owned(),
        culprit: culprit.to_owned(),
        place: place.to_owned(),
        count,
        time,
    };
    let each = 10_000_000;
    Late {
        bound: 5_000_000,
        count,
        total: count * each,
        longest: 80_000_000,
        rows: vec![
            row("an inline task ran", "sync prices", "src/sync.rs:5:5", count, count * each / 2),
            row("no processor was free", "", "", count / 2, count * each / 4),
            row("a thread was interrupted while it scheduled", "thread `importer`", "", 1, each),
        ],
        more_rows: 31,
    }
}

/// The view as text, a line a row.
pub fn drawn(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |row| {
        let cells = (0..width).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..height).map(row).collect()
}

pub fn key(letter: char) -> KeyEvent {
    KeyEvent::from(if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) })
}

/// Types a text, none of which quits.
pub fn typed(app: &mut App, text: &str) {
    for letter in text.chars() {
        assert_eq!(app.press(key(letter)), Flow::On);
    }
}
