//! A live view of a group of durable timers (feature `durable`): nodes and their leases, handlers,
//! and what the database says.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use crossterm::event::{KeyCode, KeyEvent};
use lars_durable::inspection::{Count, HandlerInspection, Inspection, NodeInspection};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Wrap};

use crate::app::{Controls, Flow, View};
use crate::source::Source;
use crate::sync::now;
use crate::terminal::run;
use crate::text::{clean, grouped, short, tail, time};
use crate::view::{ACCENT, BAD, FAINT, GOOD, WARN, block, foot, help, table};

/// The time between two inspections.
const EVERY: Duration = Duration::from_secs(1);

/// What rows can be sorted by, the default first.
const ORDERS: [&str; 5] = ["name", "pending", "overdue", "parked", "rate"];

/// Shows in this terminal what `look` sees, once a second, until the user leaves the view: a group
/// by [`Observer::inspect`](lars_durable::Observer::inspect), or the node of this
/// process, by [`Durable::inspect`](lars_durable::Durable::inspect). It is called on a thread of
/// its own, and may block.
///
/// # Errors
///
/// If the standard output is no terminal, or the terminal cannot be written to. What is wrong with
/// the database is shown in the view.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::Durable;
///
/// let mut observer = Durable::postgres("host=db dbname=shop").group("shop").observe()?;
/// lars_top::durable::show(move || observer.inspect())?;
/// # Ok(()) }
/// ```
pub fn show(
    mut look: impl FnMut() -> Result<Inspection, lars_durable::Error> + Send + 'static,
) -> io::Result<()> {
    let source = Source::start(move |outlet| {
        while !outlet.has_ended() {
            outlet.send(match look() {
                Ok(inspection) => GroupNews::Inspection(Box::new(inspection), now()),
                Err(error) => GroupNews::Trouble(error.to_string()),
            });
            outlet.pause(EVERY);
        }
    })?;
    run(GroupView::new(), &source, || false)
}

/// What a view of a group is told.
#[derive(Debug)]
pub enum GroupNews {
    /// What there is to see, and when it arrived.
    Inspection(Box<Inspection>, Instant),
    /// Why there is nothing to see now.
    Trouble(String),
}

/// A view of a group as a value, like [`App`](crate::App). [`show`] runs one in a terminal.
#[derive(Debug, Default)]
pub struct GroupView {
    last: Option<(Box<Inspection>, Instant)>,
    /// The one before, for rates.
    before: Option<(Box<Inspection>, Instant)>,
    trouble: Option<String>,
    order: usize,
    controls: Controls,
}

impl GroupView {
    /// A view that waits for its first news.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes news. While the view is paused, it ignores inspections.
    pub fn tell(&mut self, news: GroupNews) {
        match news {
            GroupNews::Inspection(inspection, at) => {
                self.trouble = None;
                if !self.controls.paused {
                    self.before = self.last.replace((inspection, at));
                }
            }
            GroupNews::Trouble(why) => self.trouble = Some(why),
        }
    }

    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) -> Flow {
        match self.controls.press(key) {
            Ok(flow) => flow,
            Err(KeyCode::Char('s')) => {
                self.order = (self.order + 1) % ORDERS.len();
                self.controls.scroll_to_top();
                Flow::On
            }
            Err(_) => Flow::On,
        }
    }

    /// Draws the view into a frame of any size.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body, last] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(self.head(), head);
        match &self.last {
            Some((inspection, _)) => self.body(frame, body, inspection),
            None => {
                let trouble = self.trouble.as_deref().map(|why| format!("\n\n{}", clean(why)));
                let text = format!("\nLooking into the database …{}", trouble.unwrap_or_default());
                frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), body);
            }
        }
        let trouble = self.trouble.as_deref().filter(|_| self.last.is_some());
        frame.render_widget(
            foot(&self.controls, trouble, Some(ORDERS[self.order]), last.width),
            last,
        );
        if self.controls.help {
            // Without the key for pages.
            help(frame, body, 1);
        }
    }

    fn head(&self) -> Line<'static> {
        let mut spans: Vec<Span<'_>> =
            vec![" durable_top ".bold().fg(Color::Black).bg(ACCENT), " ".into()];
        if let Some((seen, _)) = &self.last {
            let about = format!("{} nodes, {} buckets", seen.nodes.len(), seen.buckets);
            spans.push(about.into());
            if seen.free_buckets > 0 {
                spans.push(format!(", {} of them nobody's", seen.free_buckets).bold().fg(BAD));
            }
            if seen.counts_took_too_long {
                spans.push("  COUNTING TOOK TOO LONG".bold().fg(BAD));
            } else if !seen.counted_ago.is_zero() {
                spans.push(format!("  timers counted {} ago", of(seen.counted_ago)).dim());
            }
        }
        if self.controls.paused {
            spans.push("  PAUSED".bold().fg(WARN));
        }
        if self.trouble.is_some() && self.last.is_some() {
            spans.push("  NO ANSWER".bold().fg(BAD));
        }
        Line::from(spans)
    }

    fn body(&self, frame: &mut Frame<'_>, area: Rect, seen: &Inspection) {
        let nodes = (seen.nodes.len() as u16).clamp(1, 8) + 3;
        let [above, middle, below] = Layout::vertical([
            Constraint::Length(nodes),
            Constraint::Fill(1),
            Constraint::Length(4),
        ])
        .areas(area);
        self.draw_nodes(frame, above, seen);
        self.draw_handlers(frame, middle, seen);
        frame.render_widget(Paragraph::new(database(seen)).block(block("Database")), below);
    }

    fn draw_nodes(&self, frame: &mut Frame<'_>, area: Rect, seen: &Inspection) {
        let row = |node: &NodeInspection| {
            let late = node.lease_left.is_zero();
            Row::new([
                format!("{:>9}", if late { "late".to_owned() } else { of(node.lease_left) }),
                format!("{:>9}", of(node.renewed_ago)),
                format!("{:>7}", node.buckets),
                format!("{:>9}", grouped(node.resident as u64)),
                format!("{:>7}", grouped(node.in_flight as u64)),
                if node.serves { "runs" } else { "watches" }.to_owned(),
                clean(&node.name) + &pruned(node),
                clean(&node.id).chars().take(8).collect(),
            ])
            .style(if late { Style::new().fg(BAD) } else { Style::new() })
        };
        let titles =
            ["    lease", "  renewed", "buckets", "in memory", "running", "", "node", "identity"];
        let widths = [9, 9, 7, 9, 7, 7].map(Constraint::Length);
        let [a, b, c, d, e, f] = widths;
        let widths = [a, b, c, d, e, f, Constraint::Fill(1), Constraint::Length(8)];
        let wanted = seen.nodes.iter().filter(|node| self.controls.takes(&[&node.name]));
        let mut nodes: Vec<_> = wanted.collect();
        // There is room for a few. Those that are late are looked for.
        nodes.sort_by_key(|node| !node.lease_left.is_zero());
        let room = usize::from(area.height.saturating_sub(3));
        let title = match nodes.len() {
            few if few <= room => "Nodes".to_owned(),
            many => format!("Nodes, {room} of {many}"),
        };
        let table = table(titles, widths, nodes.into_iter().map(row).collect(), 0);
        frame.render_widget(table.block(block(&title)), area);
    }

    /// Runs a second that the nodes have recorded between the last two inspections. (They report
    /// with each renewal of their leases, so the rate moves in steps.)
    fn rate(&self, handler: &HandlerInspection) -> f64 {
        let (Some((before, then)), Some((_, now))) = (&self.before, &self.last) else { return 0.0 };
        // What nobody knew before was not started since.
        let Some(known) = before.handler(&handler.name) else { return 0.0 };
        let seconds = now.saturating_duration_since(*then).as_secs_f64();
        let started = handler.started.saturating_sub(known.started) as f64;
        if seconds > 0.0 { started / seconds } else { 0.0 }
    }

    fn draw_handlers(&self, frame: &mut Frame<'_>, area: Rect, seen: &Inspection) {
        let mut handlers: Vec<&HandlerInspection> =
            seen.handlers.iter().filter(|it| self.controls.takes(&[&it.name])).collect();
        let most = |of: fn(&HandlerInspection) -> Count| {
            move |handler: &&HandlerInspection| std::cmp::Reverse(of(handler).value)
        };
        match ORDERS[self.order] {
            "pending" => handlers.sort_by_key(most(|it| it.pending)),
            "overdue" => handlers.sort_by_key(most(|it| it.overdue)),
            "parked" => handlers.sort_by_key(most(|it| it.parked)),
            "rate" => handlers.sort_by(|one, other| self.rate(other).total_cmp(&self.rate(one))),
            _ => {}
        }
        let row = |handler: &&HandlerInspection| {
            let late = handler.lateness;
            let late =
                late.map_or_else(String::new, |it| format!("{} / {}", of(it.p50), of(it.p99)));
            let next = match (handler.oldest_overdue, handler.next_due) {
                (Some(overdue), _) => format!("{} ago", of(overdue)),
                (None, Some(due)) => from(seen.clock, due),
                (None, None) => String::new(),
            };
            let paused = if handler.paused { "  PAUSED" } else { "" };
            let nobody = if handler.nodes == 0 { "  no node has it" } else { "" };
            let bad = handler.nodes == 0 || handler.parked.value > 0;
            Row::new([
                format!("{:>9}", at_least(handler.pending)),
                format!("{:>9}", at_least(handler.overdue)),
                format!("{:>7}", at_least(handler.running)),
                format!("{:>8}", format!("{}/s", short(self.rate(handler)))),
                format!("{late:>19}"),
                format!("{:>8}", at_least(handler.retrying)),
                format!("{:>7}", at_least(handler.parked)),
                format!("{next:>13}"),
                tail(&handler.name, 40) + paused + nobody,
            ])
            .style(if bad { Style::new().fg(WARN) } else { Style::new() })
        };
        let titles = [
            "  pending",
            "  overdue",
            "running",
            "    rate",
            " late, p50 / p99",
            "retrying",
            " parked",
            "     next due",
            "handler",
        ];
        let [a, b, c, d, e, f, g, h] = [9, 9, 7, 8, 19, 8, 7, 13].map(Constraint::Length);
        let widths = [a, b, c, d, e, f, g, h, Constraint::Fill(1)];
        let rows = handlers.iter().map(row).collect();
        let first = self.controls.first_row(handlers.len(), area.height);
        let table = table(titles, widths, rows, first);
        frame.render_widget(table.block(block("Handlers")), area);
    }
}

impl View for GroupView {
    type News = GroupNews;

    fn tell(&mut self, news: GroupNews) {
        self.tell(news);
    }

    fn press(&mut self, key: KeyEvent) -> Flow {
        self.press(key)
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        self.draw(frame);
    }
}

fn database(seen: &Inspection) -> Vec<Line<'static>> {
    let Some(database) = &seen.database else {
        return vec![" an SQLite file, or memory: it has no dead rows to tell of".fg(FAINT).into()];
    };
    let mut first = vec![
        " rows ".fg(FAINT),
        grouped(database.rows).bold(),
        "   dead ".fg(FAINT),
        grouped(database.dead_rows).bold().fg(if database.dead_rows > 100_000 {
            BAD
        } else {
            GOOD
        }),
    ];
    if let Some(vacuumed) = database.vacuumed {
        let ago = seen.clock.duration_since(vacuumed).unwrap_or_default();
        first.push(format!("   vacuumed {} ago", of(ago)).fg(FAINT));
    }
    let second = match &database.oldest_snapshot {
        None => " no open transaction keeps dead rows".fg(FAINT).into(),
        Some(oldest) => Line::from(vec![
            " oldest snapshot ".fg(FAINT),
            of(oldest.age).bold(),
            format!("   pid {}", oldest.pid).bold().fg(WARN),
            format!("   {}   {}", clean(&oldest.state), clean(&oldest.application)).into(),
        ]),
    };
    vec![Line::from(first), second]
}

/// What it has deleted, if that is anything.
fn pruned(node: &NodeInspection) -> String {
    match node.pruned {
        0 => String::new(),
        number => format!("   deleted {} parked", grouped(number)),
    }
}

fn at_least(count: Count) -> String {
    format!("{}{}", if count.at_least { "≥" } else { "" }, grouped(count.value))
}

fn of(duration: Duration) -> String {
    time(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn from(now: SystemTime, due: SystemTime) -> String {
    due.duration_since(now).map_or_else(|_| "now".to_owned(), |left| format!("in {}", of(left)))
}
