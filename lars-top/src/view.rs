//! Drawing. Each page has a file; what they share is here.

mod actors;
mod late;
mod levels;
mod overview;
mod slow;
mod threads;
mod timers;
mod wheel;

use crossterm::event::KeyEvent;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Row, Table, Wrap};

use crate::app::{App, Controls, Flow, Order, Page, View};
use crate::snapshot::{Pending, Snapshot, ThreadWaits};
use crate::source::News;
use crate::text::{ago, clean, time};

pub(crate) const ACCENT: Color = Color::Cyan;
pub(crate) const GOOD: Color = Color::Green;
pub(crate) const WARN: Color = Color::Yellow;
pub(crate) const BAD: Color = Color::Red;
pub(crate) const FAINT: Color = Color::DarkGray;

const KEYS: [(&str, &str); 9] = [
    ("1 … 7, Tab, ← →", "turn to a page"),
    ("↑ ↓ PgUp PgDn Home", "scroll"),
    ("p, space", "pause, and go on"),
    ("s", "sort by something else"),
    ("/ or f", "filter by name, path or place; Enter keeps it"),
    ("Esc", "no filter"),
    ("h or ?", "this help"),
    ("Ctrl-L", "draw everything anew"),
    ("q, Ctrl-C", "quit the view; the program goes on"),
];

impl App {
    /// Draws the view into a frame of any size.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let [head, tabs, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.head(head.width), head);
        frame.render_widget(self.tabs(tabs.width), tabs);
        match self.trend.last() {
            Some(snapshot) => self.page(frame, body, snapshot),
            None => frame.render_widget(self.waiting(), body),
        }
        frame.render_widget(self.foot(foot.width), foot);
        if self.controls.help {
            help(frame, body, 0);
        }
    }

    fn page(&self, frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
        match self.page {
            Page::Overview => overview::draw(self, frame, area, snapshot),
            Page::Wheel => wheel::draw(frame, area, snapshot),
            Page::Timers => timers::draw(self, frame, area, snapshot),
            Page::Slow => slow::draw(self, frame, area, snapshot),
            Page::Late => late::draw(self, frame, area, snapshot),
            Page::Actors => actors::draw(self, frame, area, snapshot),
            Page::Threads => threads::draw(self, frame, area, snapshot),
        }
    }

    /// The program, and in which state it and the view are. Where there is no room for all, the
    /// state is seen before the rest.
    fn head(&self, width: u16) -> Line<'_> {
        let last = self.trend.last();
        let mut states = Vec::new();
        if last.is_some_and(|snapshot| snapshot.counts.stopped) {
            states.push("  STOPPED".bold().fg(BAD));
        }
        if self.controls.paused {
            states.push("  PAUSED".bold().fg(WARN));
        }
        if self.trouble.is_some() && last.is_some() {
            states.push("  NO CONNECTION".bold().fg(BAD));
        }
        let title = " lars-top ".bold().fg(Color::Black).bg(ACCENT);
        let Some(snapshot) = last else {
            return Line::from_iter([title].into_iter().chain(states));
        };
        let program = [" ".into(), clean(&snapshot.program).bold()];
        let about = format!("  pid {}  watched for {}", snapshot.pid, time(snapshot.taken));
        let all = [title.clone()].into_iter().chain(program.clone()).chain([about.fg(FAINT)]);
        let all = Line::from_iter(all.chain(states.clone()));
        if all.width() <= usize::from(width) {
            return all;
        }
        Line::from_iter([title].into_iter().chain(states).chain(program))
    }

    /// The pages; where there is no room, only this one with its title.
    fn tabs(&self, width: u16) -> Line<'_> {
        let tabs = |titles: bool| {
            let tab = |(number, page): (usize, &Page)| {
                let number = number + 1;
                if *page == self.page {
                    format!(" {number} {} ", page.title()).reversed()
                } else if titles {
                    format!(" {number} {} ", page.title()).fg(FAINT)
                } else {
                    format!(" {number} ").fg(FAINT)
                }
            };
            Line::from(Page::ALL.iter().enumerate().map(tab).collect::<Vec<_>>())
        };
        let all = tabs(true);
        if all.width() <= usize::from(width) { all } else { tabs(false) }
    }

    fn foot(&self, width: u16) -> Line<'_> {
        let trouble = self.trouble.as_deref().filter(|_| self.trend.last().is_some());
        foot(&self.controls, trouble, self.order().map(Order::title), width)
    }

    /// Before the first snapshot.
    fn waiting(&self) -> Paragraph<'_> {
        let mut lines =
            vec![Line::default(), format!("Waiting for {} …", clean(&self.origin)).into()];
        if let Some(trouble) = &self.trouble {
            lines.push(Line::default());
            lines.push(clean(trouble).fg(BAD).into());
        }
        Paragraph::new(lines)
            .wrap(Wrap { trim: true })
            .block(Block::new().padding(ratatui::widgets::Padding::horizontal(2)))
    }
}

impl View for App {
    type News = News;

    fn tell(&mut self, news: News) {
        self.tell(news);
    }

    fn press(&mut self, key: KeyEvent) -> Flow {
        self.press(key)
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        self.draw(frame);
    }
}

/// The last line: the filter that is being typed, what is wrong, or what keys there are. Where
/// there is no room for all keys, the order and the filter are seen before them.
pub(crate) fn foot<'a>(
    controls: &'a Controls,
    trouble: Option<&'a str>,
    order: Option<&'static str>,
    width: u16,
) -> Line<'a> {
    if controls.typing {
        return Line::from(vec![
            " filter: ".fg(ACCENT),
            clean(&controls.filter).into(),
            "█".into(),
            "   Enter keeps it, Esc ends it".fg(FAINT),
        ]);
    }
    if let Some(trouble) = trouble {
        return Line::from(format!(" {}", clean(trouble)).fg(BAD));
    }
    let line = |keys: &'static str| {
        let mut spans = vec![keys.fg(FAINT)];
        if let Some(order) = order {
            spans.push(format!("   by {order}").fg(ACCENT));
        }
        if !controls.filter.is_empty() {
            spans.push(format!("   only “{}”", clean(&controls.filter)).fg(WARN));
        }
        Line::from(spans)
    };
    let all = line(" q quit  p pause  / filter  s sort  h help");
    if all.width() <= usize::from(width) { all } else { line(" h help") }
}

/// The keys, over what is there. `first` says how many are left out, because a view has no pages.
pub(crate) fn help(frame: &mut Frame<'_>, area: Rect, first: usize) {
    let keys = &KEYS[first..];
    let area = area.centered(Constraint::Length(72), Constraint::Length(keys.len() as u16 + 2));
    let key = |(key, does): &(&'static str, &'static str)| {
        Line::from(vec![format!(" {key:<20}").fg(ACCENT), (*does).into()])
    };
    let lines: Vec<Line<'_>> = keys.iter().map(key).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(block("Keys")), area);
}

/// What the threads of a row are called.
fn thread_name(it: &ThreadWaits) -> &str {
    if it.thread.is_empty() { "(no name)" } else { &it.thread }
}

pub(crate) fn block(title: &str) -> Block<'_> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(FAINT))
        .title(Span::styled(format!(" {title} "), Style::new().fg(ACCENT)))
}

/// A table with bold titles, from this row on.
pub(crate) fn table<'a>(
    titles: impl IntoIterator<Item = &'static str>,
    widths: impl IntoIterator<Item = Constraint>,
    rows: Vec<Row<'a>>,
    first: usize,
) -> Table<'a> {
    let header = Row::new(titles).style(Style::new().fg(FAINT).add_modifier(Modifier::BOLD));
    Table::new(rows.into_iter().skip(first), widths).header(header).column_spacing(2)
}

/// Those of the columns for which there is room: each needs so many columns of the terminal.
fn shown<T, const N: usize>(
    width: u16,
    least: [u16; N],
    columns: [T; N],
) -> impl Iterator<Item = T> {
    columns.into_iter().zip(least).filter(move |(_, least)| width >= *least).map(|it| it.0)
}

/// What is left of the terminal for the columns whose width is given as zero.
fn room<const N: usize>(width: u16, least: [u16; N], widths: [u16; N]) -> usize {
    // A frame, and two columns between what is shown.
    let taken: u16 = shown(width, least, widths).map(|it| it + 2).sum();
    usize::from(width.saturating_sub(taken))
}

/// The room for the last two columns: whose something is, and what else is to be said of it, which
/// is perhaps not shown.
fn whose_and_place<const N: usize>(
    width: u16,
    least: [u16; N],
    widths: [u16; N],
) -> (usize, usize) {
    let room = room(width, least, widths);
    if width >= least[N - 1] { (room / 2, room - room / 2) } else { (room, 0) }
}

/// A title, and how old the listing is that it is about.
fn listed(what: &str, pending: Option<&Pending>) -> String {
    pending.map_or_else(|| what.to_owned(), |it| format!("{what}, {}", ago(it.age)))
}

fn or_never(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "never".to_owned(), time)
}

/// A bar of eighths of a cell.
fn bar(share: f64, width: usize) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(PARTS[eighths % 8]);
    } else if eighths == 0 && share > 0.0 {
        text.push(PARTS[1]);
    }
    text
}
