//! Why tasks and durable runs began late, why messages of timers were received late, and because of
//! whom.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::widgets::{Paragraph, Row, Wrap};

use super::{FAINT, block, room, shown, table};
use crate::app::{App, Controls, Order};
use crate::snapshot::{Late, LateRow, Snapshot};
use crate::text::{grouped, head, tail, time};

/// The least room for causes, if there is any: for that of what has no row.
const CAUSE: usize = 20;
/// A terminal of fewer columns shows no places.
const WITH_PLACES: u16 = 100;
/// One of fewer columns shows no times and counts, which the shares stand for.
const WITH_TIMES: u16 = 70;
/// What each column needs.
const LEAST: [u16; 6] = [0, WITH_TIMES, WITH_TIMES, 0, 0, WITH_PLACES];

/// The height of a part that has no table.
const WORDS: u16 = 5;
/// A part of fewer rows has only what was late since the start: two tables would show nothing.
const BOTH: u16 = 10;

/// What a part of the page is about.
struct Words {
    title: &'static str,
    nothing: &'static str,
    counted: &'static str,
}

const TASKS: Words = Words { title: "Late", nothing: "No task has begun", counted: "     tasks" };
const MESSAGES: Words = Words {
    title: "Late messages",
    nothing: "No message of a timer was received",
    counted: "  messages",
};
const RUNS: Words =
    Words { title: "Late runs", nothing: "No durable run has begun", counted: "      runs" };

/// A part of the page.
struct Part<'a> {
    /// `None` if nobody watches.
    late: Option<&'a Late>,
    /// `None` also in the first frame.
    recent: Option<Late>,
    words: &'static Words,
}

impl Part<'_> {
    fn rows(&self) -> usize {
        self.late.map_or(0, |late| late.rows.len())
    }
}

/// Finds the first row of a table, by how many it has and by its height.
type First = fn(&Controls, usize, u16) -> usize;

/// The scheduler's part, and below it those of the actors and of durable runs, if they are
/// explained.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let trend = &app.trend;
    let messages = snapshot.actors.as_ref().and_then(|actors| actors.late.as_ref());
    let others = [
        Part { late: messages, recent: trend.late_messages(), words: &MESSAGES },
        Part { late: snapshot.late_runs.as_ref(), recent: trend.late_runs(), words: &RUNS },
    ];
    let tasks = Part { late: snapshot.late.as_ref(), recent: trend.late(), words: &TASKS };
    let mut parts = vec![tasks];
    parts.extend(others.into_iter().filter(|part| part.late.is_some()));
    let heights = parts.iter().map(|part| match part.rows() {
        0 if parts.len() > 1 => Constraint::Length(WORDS),
        _ => Constraint::Fill(1),
    });
    let areas = Layout::vertical(heights).split(area);
    let mut parts: Vec<_> = parts.iter().zip(areas.iter()).collect();
    // The longest one scrolls, and comes first, because the others move with it.
    parts.sort_by_key(|(part, _)| std::cmp::Reverse(part.rows()));
    let first: [First; 2] = [Controls::first_row, Controls::first_row_beside];
    for (number, (part, area)) in parts.into_iter().enumerate() {
        draw_part(app, frame, *area, part, first[number.min(1)]);
    }
}

/// Draws what was late lately, and below it what was late since the start. `first` is for that.
fn draw_part(app: &App, frame: &mut Frame<'_>, area: Rect, part: &Part<'_>, first: First) {
    let Part { late, recent, words } = part;
    let Some(late) = late else {
        let text = " The scheduler does not explain lateness. `Builder::explain_late` switches it \
                    on, with how late something has to be.";
        return say(text, words.title, frame, area);
    };
    let (bound, what) = (time(late.bound), words.title);
    if late.count == 0 {
        let text = format!(" {} more than {bound} late.", words.nothing);
        return say(&text, &format!("{what}, since the start"), frame, area);
    }
    let recent = recent.as_ref().filter(|_| area.height >= BOTH);
    let above = if recent.is_some() { Constraint::Fill(1) } else { Constraint::Length(0) };
    let [above, below] = Layout::vertical([above, Constraint::Fill(1)]).areas(area);
    let (count, total, longest) = (grouped(late.count), time(late.total), time(late.longest));
    let rest = [format!(", {total} in all"), format!(", at most {longest}")];
    let start = title(area.width, format!("{what}, since the start: {count}"), &rest);
    let others = format!("{} others", grouped(late.more_rows));
    // It scrolls, and the other moves with it: what was late lately is in this one, too.
    draw_rows(app, frame, below, (late, &start, &others, words), first);
    let Some(recent) = recent else { return };
    let (count, total) = (grouped(recent.count), time(recent.total));
    let rest = [format!(" by more than {bound}"), format!(", {total} in all")];
    let rest = if recent.count == 0 { &rest[..1] } else { &rest };
    let lately = title(area.width, format!("{what}, {}: {count}", app.trend.recent()), rest);
    if recent.count == 0 {
        return say(" None.", &lately, frame, above);
    }
    let of = (recent, &*lately, "others", *words);
    draw_rows(app, frame, above, of, Controls::first_row_beside);
}

/// A title with as much of the rest as there is room for: half a number would be another one.
fn title(width: u16, mut title: String, rest: &[String]) -> String {
    // Beside the corners, and a space at each end.
    let room = usize::from(width).saturating_sub(4);
    for part in rest {
        if title.chars().count() + part.chars().count() > room {
            break;
        }
        title += part;
    }
    title
}

fn say(text: &str, title: &str, frame: &mut Frame<'_>, area: Rect) {
    let text = Paragraph::new(text.fg(FAINT)).wrap(Wrap { trim: false });
    frame.render_widget(text.block(block(title)), area);
}

/// Draws what was late in one time, from the row on that `first` says.
fn draw_rows(
    app: &App,
    frame: &mut Frame<'_>,
    area: Rect,
    (late, title, others, words): (&Late, &str, &str, &Words),
    first: First,
) {
    let taken = |it: &&LateRow| app.controls.takes(&[&it.cause, &it.culprit, &it.place]);
    let mut all: Vec<&LateRow> = late.rows.iter().filter(taken).collect();
    match app.order() {
        Some(Order::Tasks) => all.sort_by_key(|it| std::cmp::Reverse(it.count)),
        Some(Order::Cause) => all.sort_by(|one, other| one.cause.cmp(&other.cause)),
        Some(Order::Name) => all.sort_by(|one, other| one.culprit.cmp(&other.culprit)),
        _ => {}
    }
    let places = area.width >= WITH_PLACES;
    let room = room(area.width, LEAST, [7, 10, 10, 0, 0, 0]);
    // As wide as the widest, unless that leaves too little to the others.
    let widest = all.iter().map(|it| it.cause.chars().count()).max().unwrap_or(0).max(CAUSE);
    let cause = widest.min(if places { room / 2 } else { room * 3 / 5 });
    let culprit = if places { (room - cause) / 2 } else { room - cause };
    let place = room - cause - culprit;
    let row = |it: &&LateRow| {
        let (time, count) = (time(it.time), grouped(it.count));
        Row::new(shown(
            area.width,
            LEAST,
            [
                share(late, it.time),
                format!("{time:>10}"),
                format!("{count:>10}"),
                head(&it.cause, cause),
                tail(&it.culprit, culprit),
                tail(&it.place, place),
            ],
        ))
    };
    let mut rows: Vec<Row<'_>> = all.iter().map(row).collect();
    if late.more_rows > 0 && app.controls.filter.is_empty() {
        let rest = late.rest();
        let (share, time) = (share(late, rest), format!("{:>10}", time(rest)));
        let cells = [share, time, String::new(), others.into(), String::new(), String::new()];
        rows.push(Row::new(shown(area.width, LEAST, cells)).fg(FAINT));
    }
    let first = first(&app.controls, rows.len(), area.height);
    let widths = [7, 10, 10, cause as u16, culprit as u16, place as u16].map(Constraint::Length);
    let titles = ["  share", "      time", words.counted, "cause", "culprit", "scheduled at"];
    let (titles, widths) = (shown(area.width, LEAST, titles), shown(area.width, LEAST, widths));
    frame.render_widget(table(titles, widths, rows, first).block(block(title)), area);
}

fn share(late: &Late, time: u64) -> String {
    format!("{:>5.1} %", 100.0 * late.share(time))
}
