//! Why tasks began late, or messages of timers were received late, and because of whom.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::widgets::{Paragraph, Row, Wrap};

use super::{FAINT, block, table};
use crate::app::{App, Controls, Order};
use crate::snapshot::{Late, LateRow, Snapshot};
use crate::text::{clean, grouped, tail, time};

/// The least room for causes, if there is any: for that of what has no row.
const CAUSE: usize = 20;
/// A terminal of fewer columns shows no places.
const WITH_PLACES: u16 = 100;

/// The height of a part that has no table.
const WORDS: u16 = 5;

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

/// Finds the first row of a table, by how many it has and by its height.
type First = fn(&Controls, usize, u16) -> usize;

/// The scheduler's part, and below it that of the actors, if they explain lateness.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let tasks = snapshot.late.as_ref();
    let Some(messages) = snapshot.actors.as_ref().and_then(|actors| actors.late.as_ref()) else {
        return draw_tasks(app, frame, area, (tasks, Controls::first_row));
    };
    let rows = |late: Option<&Late>| late.map_or(0, |late| late.rows.len());
    let height = |late: Option<&Late>| match rows(late) {
        0 => Constraint::Length(WORDS),
        _ => Constraint::Fill(1),
    };
    let heights = [height(tasks), height(Some(messages))];
    let [above, below] = Layout::vertical(heights).areas(area);
    let recent = app.trend.late_messages().unwrap_or_default();
    let of_messages = |frame: &mut Frame<'_>, first: First| {
        draw_part(app, frame, below, (messages, &recent, &MESSAGES), first);
    };
    // The longer one scrolls, and comes first, because the other moves with it.
    if rows(tasks) >= rows(Some(messages)) {
        draw_tasks(app, frame, above, (tasks, Controls::first_row));
        of_messages(frame, Controls::first_row_beside);
    } else {
        of_messages(frame, Controls::first_row);
        draw_tasks(app, frame, above, (tasks, Controls::first_row_beside));
    }
}

fn draw_tasks(app: &App, frame: &mut Frame<'_>, area: Rect, (late, first): (Option<&Late>, First)) {
    let Some(late) = late else {
        let text = " The scheduler does not explain lateness. `Builder::explain_late` switches it \
                    on, with how late something has to be.";
        return say(text, TASKS.title, frame, area);
    };
    let recent = app.trend.late().unwrap_or_default();
    draw_part(app, frame, area, (late, &recent, &TASKS), first);
}

/// Draws what was late lately, and below it what was late since the start. `first` is for that.
fn draw_part(
    app: &App,
    frame: &mut Frame<'_>,
    area: Rect,
    (late, recent, words): (&Late, &Late, &Words),
    first: First,
) {
    let (bound, what) = (time(late.bound), words.title);
    if late.count == 0 {
        let text = format!(" {} more than {bound} late.", words.nothing);
        return say(&text, &format!("{what}, since the start"), frame, area);
    }
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [above, below] = Layout::vertical(halves).areas(area);
    let (count, total, longest) = (grouped(late.count), time(late.total), time(late.longest));
    let title = format!("{what}, since the start: {count}, {total} in all, at most {longest}");
    let others = format!("{} others", grouped(late.more_rows));
    // It scrolls, and the other moves with it: what was late lately is in this one, too.
    draw_rows(app, frame, below, (late, &title, &others, words), first);
    let (count, total) = (grouped(recent.count), time(recent.total));
    let title = format!("{what}, {}: {count} by more than {bound}", app.trend.recent());
    if recent.count == 0 {
        return say(" None.", &title, frame, above);
    }
    let title = format!("{title}, {total} in all");
    let of = (recent, &*title, "others", words);
    draw_rows(app, frame, above, of, Controls::first_row_beside);
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
    let room = usize::from(area.width).saturating_sub(2 + 7 + 2 * 10 + 10);
    // As wide as the widest, unless that leaves too little to the others.
    let widest = all.iter().map(|it| it.cause.chars().count()).max().unwrap_or(0).max(CAUSE);
    let cause = widest.min(if places { room / 2 } else { room * 3 / 5 });
    let culprit = if places { (room - cause) / 2 } else { room - cause };
    let place = room - cause - culprit;
    let row = |it: &&LateRow| {
        Row::new([
            share(late, it.time),
            format!("{:>10}", time(it.time)),
            format!("{:>10}", grouped(it.count)),
            clean(&it.cause),
            tail(&it.culprit, culprit),
            tail(&it.place, place),
        ])
    };
    let mut rows: Vec<Row<'_>> = all.iter().map(row).collect();
    if late.more_rows > 0 && app.controls.filter.is_empty() {
        let rest = late.rest();
        let time = format!("{:>10}", time(rest));
        rows.push(Row::new([share(late, rest), time, String::new(), others.into()]).fg(FAINT));
    }
    let first = first(&app.controls, rows.len(), area.height);
    let widths = [
        Constraint::Length(7),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(cause as u16),
        Constraint::Length(culprit as u16),
        Constraint::Length(place as u16),
    ];
    let at = if places { "scheduled at" } else { "" };
    let titles = ["  share", "      time", words.counted, "cause", "culprit", at];
    frame.render_widget(table(titles, widths, rows, first).block(block(title)), area);
}

fn share(late: &Late, time: u64) -> String {
    format!("{:>5.1} %", 100.0 * late.share(time))
}
