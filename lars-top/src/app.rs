//! The state of a view, and what keys do to it.

use std::cell::Cell;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Frame;

use crate::source::News;
use crate::trend::Trend;

/// The most characters of a filter.
const LONGEST_FILTER: usize = 60;

/// The pages of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Page {
    /// Rates, lateness, and some of everything else.
    #[default]
    Overview,
    /// The wheel, level by level.
    Wheel,
    /// What is pending, and whose it is.
    Timers,
    /// Tasks that ran for too long.
    Slow,
    /// Why tasks began late, and because of whom.
    Late,
    /// Mailboxes and dead letters.
    Actors,
    /// The executor, and the threads of the process.
    Threads,
}

impl Page {
    /// All of them, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 7] = [
        Self::Overview,
        Self::Wheel,
        Self::Timers,
        Self::Slow,
        Self::Late,
        Self::Actors,
        Self::Threads,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Wheel => "Wheel",
            Self::Timers => "Timers",
            Self::Slow => "Slow",
            Self::Late => "Late",
            Self::Actors => "Actors",
            Self::Threads => "Threads",
        }
    }

    /// What it can be sorted by, the default first.
    pub(crate) fn orders(self) -> &'static [Order] {
        match self {
            Self::Overview | Self::Wheel => &[],
            Self::Timers => &[Order::Pending, Order::FirstDue, Order::Name, Order::Place],
            Self::Slow => &[Order::Newest, Order::RunTime, Order::Lateness, Order::Name],
            Self::Late => &[Order::Time, Order::Tasks, Order::Cause, Order::Name],
            Self::Actors => &[Order::Depth, Order::Received, Order::Restarts, Order::Name],
            Self::Threads => &[Order::Running, Order::Waiting, Order::Name],
        }
    }
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Pending,
    FirstDue,
    Name,
    Place,
    Newest,
    RunTime,
    Lateness,
    Time,
    Tasks,
    Cause,
    Depth,
    Received,
    Restarts,
    Running,
    Waiting,
}

impl Order {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::FirstDue => "first due",
            Self::Name => "name",
            Self::Place => "place",
            Self::Newest => "newest",
            Self::RunTime => "run time",
            Self::Lateness => "lateness",
            Self::Time => "time",
            Self::Tasks => "tasks",
            Self::Cause => "cause",
            Self::Depth => "depth",
            Self::Received => "received",
            Self::Restarts => "restarts",
            Self::Running => "running",
            Self::Waiting => "waiting",
        }
    }
}

/// A view as a value: it takes news and keys, and draws itself. [`show`](crate::show) and
/// [`Live`](crate::Live) run one in a terminal.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_top::{App, News, Probe};
/// use ratatui::{Terminal, backend::TestBackend};
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let mut app = App::new("demo");
/// app.tell(News::Snapshot(Box::new(Probe::new(scheduler.handle()).snapshot())));
/// let mut terminal = Terminal::new(TestBackend::new(80, 24))?;
/// terminal.draw(|frame| app.draw(frame))?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct App {
    /// Where the snapshots come from, for the time before the first.
    pub(crate) origin: String,
    pub(crate) trend: Trend,
    /// Why there are no snapshots now.
    pub(crate) trouble: Option<String>,
    pub(crate) page: Page,
    /// By the page's number, an index into its orders.
    orders: [usize; Page::ALL.len()],
    pub(crate) controls: Controls,
}

/// What keys change in every kind of view.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    pub(crate) filter: String,
    /// The filter is being typed.
    pub(crate) typing: bool,
    pub(crate) help: bool,
    pub(crate) paused: bool,
    /// How many rows are left out above. Drawing brings it back to the last page, because how many
    /// rows there are, and how many fit, is known only there.
    scrolled: Cell<usize>,
}

/// Whether a view goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// It goes on.
    On,
    /// The whole terminal must be redrawn.
    Redraw,
    /// The user has left.
    Quit,
}

impl App {
    /// A view that waits for its first snapshot. `origin` is what it waits for.
    pub fn new(origin: impl Into<String>) -> Self {
        Self { origin: origin.into(), ..Self::default() }
    }

    /// Takes news. While the view is paused, it ignores snapshots.
    pub fn tell(&mut self, news: News) {
        match news {
            News::Snapshot(snapshot) => {
                self.trouble = None;
                if !self.controls.paused {
                    self.trend.add(snapshot);
                }
            }
            News::Trouble(why) => self.trouble = Some(why),
        }
    }

    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) -> Flow {
        let code = match self.controls.press(key) {
            Ok(flow) => return flow,
            Err(code) => code,
        };
        let (number, pages) = (self.page as usize, Page::ALL.len());
        match code {
            KeyCode::Char('s') => {
                let orders = self.page.orders().len().max(1);
                self.orders[number] = (self.orders[number] + 1) % orders;
                self.controls.scroll_to_top();
            }
            KeyCode::Tab | KeyCode::Right => self.turn_to(Page::ALL[(number + 1) % pages]),
            KeyCode::BackTab | KeyCode::Left => {
                self.turn_to(Page::ALL[(number + pages - 1) % pages]);
            }
            KeyCode::Char(digit @ '1'..='9') => {
                if let Some(page) = Page::ALL.get(digit as usize - '1' as usize) {
                    self.turn_to(*page);
                }
            }
            _ => {}
        }
        Flow::On
    }

    /// Shows this page.
    pub fn turn_to(&mut self, page: Page) {
        self.page = page;
        self.controls.scroll_to_top();
    }

    pub(crate) fn order(&self) -> Option<Order> {
        self.page.orders().get(self.orders[self.page as usize]).copied()
    }
}

impl Controls {
    /// Handles a key, or gives it back if it has a meaning in one kind of view only.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Result<Flow, KeyCode> {
        if key.kind == KeyEventKind::Release {
            return Ok(Flow::On);
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Ok(Flow::Quit),
            KeyCode::Char('l') if control => return Ok(Flow::Redraw),
            _ if control => {}
            code if self.typing => self.press_in_filter(code),
            _ if self.help => self.help = false,
            KeyCode::Char('q') => return Ok(Flow::Quit),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Char('/' | 'f') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down => *self.scrolled.get_mut() += 1,
            KeyCode::Up => self.scroll_up(1),
            KeyCode::PageDown => *self.scrolled.get_mut() += 10,
            KeyCode::PageUp => self.scroll_up(10),
            KeyCode::Home => self.scroll_to_top(),
            other => return Err(other),
        }
        Ok(Flow::On)
    }

    fn press_in_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(typed) if self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(typed);
            }
            _ => {}
        }
        self.scroll_to_top();
    }

    pub(crate) fn scroll_to_top(&mut self) {
        self.scrolled.set(0);
    }

    fn scroll_up(&mut self, rows: usize) {
        let scrolled = self.scrolled.get_mut();
        *scrolled = scrolled.saturating_sub(rows);
    }

    /// The first row of a table of so many that is shown in a block of this height: at the end of
    /// the scrolling, the last row is at the bottom.
    pub(crate) fn first_row(&self, rows: usize, height: u16) -> usize {
        let first = self.first_row_beside(rows, height);
        self.scrolled.set(first);
        first
    }

    /// The same of a shorter table, which moves with that one.
    pub(crate) fn first_row_beside(&self, rows: usize, height: u16) -> usize {
        // The borders, and the titles of the columns.
        let visible = usize::from(height).saturating_sub(3).max(1);
        self.scrolled.get().min(rows.saturating_sub(visible))
    }

    /// Whether the filter takes a row with these texts, whatever their case.
    pub(crate) fn takes(&self, texts: &[&str]) -> bool {
        let wanted = self.filter.to_lowercase();
        wanted.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    }
}

/// A view that a terminal can show.
pub(crate) trait View {
    type News: Send + 'static;
    fn tell(&mut self, news: Self::News);
    fn press(&mut self, key: KeyEvent) -> Flow;
    fn draw(&self, frame: &mut Frame<'_>);
}
