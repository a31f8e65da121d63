//! A frame as a picture.
//!
//! Frames of boxes, bars and dots are drawn as shapes, so they look the same with every font. Each
//! run of text is stretched to the cells that it has in the terminal.

use std::fmt::{self, Write};

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

/// The size of a cell.
const WIDTH: f64 = 8.0;
const HEIGHT: f64 = 17.0;
const MARGIN: f64 = 10.0;

const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d8dbe2";

/// Writes a drawn frame as an SVG.
///
/// # Examples
///
/// ```
/// use ratatui::{Terminal, backend::TestBackend};
///
/// let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
/// terminal.draw(|frame| lars_top::App::new("demo").draw(frame)).unwrap();
/// let picture = lars_top::svg(terminal.backend().buffer());
/// assert!(picture.starts_with("<svg") && picture.contains("lars-top"));
/// ```
pub fn svg(frame: &Buffer) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = write_svg(&mut text, frame);
    text
}

fn write_svg(out: &mut String, frame: &Buffer) -> fmt::Result {
    let (columns, rows) = (frame.area.width, frame.area.height);
    let width = f64::from(columns) * WIDTH + 2.0 * MARGIN;
    let height = f64::from(rows) * HEIGHT + 2.0 * MARGIN;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"13\" xml:space=\"preserve\">"
    )?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>")?;
    for row in 0..rows {
        let y = MARGIN + f64::from(row) * HEIGHT;
        let cells: Vec<&Cell> = (0..columns)
            .map(|column| &frame[(frame.area.x + column, frame.area.y + row)])
            .collect();
        let mut column = 0;
        while column < cells.len() {
            let x = MARGIN + column as f64 * WIDTH;
            let style = Look::of(cells[column]);
            if let Some(shape) = shape_of(cells[column]) {
                style.background(out, x, y, 1)?;
                shape.draw(out, x, y, style.front)?;
                column += 1;
                continue;
            }
            let same = |cell: &&&Cell| Look::of(cell) == style && shape_of(cell).is_none();
            let run: Vec<_> = cells[column..].iter().take_while(same).collect();
            style.background(out, x, y, run.len())?;
            let mut symbols: Vec<&str> = run.iter().map(|cell| cell.symbol()).collect();
            // What is behind a wide character is a part of it, and no space between words.
            for at in 1..symbols.len() {
                if symbols[at - 1].width() > 1 {
                    symbols[at] = "";
                }
            }
            style.text(out, x, y, &symbols)?;
            column += symbols.len();
        }
    }
    out.push_str("</svg>\n");
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
struct Look {
    front: &'static str,
    back: Option<&'static str>,
    bold: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let (front, back) = (color(cell.fg), color(cell.bg));
        let bold = cell.modifier.contains(Modifier::BOLD);
        if cell.modifier.contains(Modifier::REVERSED) {
            let (front, back) = (back.unwrap_or(BACKGROUND), front.unwrap_or(FOREGROUND));
            return Self { front, back: Some(back), bold };
        }
        Self { front: front.unwrap_or(FOREGROUND), back, bold }
    }

    fn background(&self, out: &mut String, x: f64, y: f64, cells: usize) -> fmt::Result {
        let Some(back) = self.back else { return Ok(()) };
        let width = cells as f64 * WIDTH;
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{back}\"/>"
        )
    }

    /// Words, each at its place, because spaces are not stretched everywhere.
    fn text(&self, out: &mut String, x: f64, y: f64, run: &[&str]) -> fmt::Result {
        let bold = if self.bold { " font-weight=\"bold\"" } else { "" };
        let mut from = 0;
        for word in run.split(|symbol| !symbol.is_empty() && symbol.trim().is_empty()) {
            if !word.is_empty() {
                let (x, y) = (x + from as f64 * WIDTH, y + HEIGHT * 0.75);
                let width = word.len() as f64 * WIDTH;
                let front = self.front;
                write!(
                    out,
                    "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\" \
                     lengthAdjust=\"spacingAndGlyphs\" fill=\"{front}\"{bold}>"
                )?;
                for symbol in word.concat().chars() {
                    match symbol {
                        '&' => out.push_str("&amp;"),
                        '<' => out.push_str("&lt;"),
                        '>' => out.push_str("&gt;"),
                        _ => out.push(symbol),
                    }
                }
                out.push_str("</text>\n");
            }
            from += word.len() + 1;
        }
        Ok(())
    }
}

/// What is drawn and not written.
enum Shape {
    /// A part of the cell: from the left, from the top, width, height.
    Part(f64, f64, f64, f64),
    /// Lines from the middle of the cell: up, down, left, right.
    Lines([bool; 4]),
    /// The dots of a Braille character.
    Dots(u8),
}

fn shape_of(cell: &Cell) -> Option<Shape> {
    let mut chars = cell.symbol().chars();
    let (symbol, None) = (chars.next()?, chars.next()) else { return None };
    let code = u32::from(symbol);
    Some(match symbol {
        '▁'..='█' => {
            let eighths = f64::from(code - 0x2580);
            Shape::Part(0.0, 1.0 - eighths / 8.0, 1.0, eighths / 8.0)
        }
        '▉'..='▏' => Shape::Part(0.0, 0.0, f64::from(0x2590 - code) / 8.0, 1.0),
        '─' => Shape::Lines([false, false, true, true]),
        '│' => Shape::Lines([true, true, false, false]),
        '╭' => Shape::Lines([false, true, false, true]),
        '╮' => Shape::Lines([false, true, true, false]),
        '╰' => Shape::Lines([true, false, false, true]),
        '╯' => Shape::Lines([true, false, true, false]),
        '\u{2801}'..='\u{28ff}' => Shape::Dots((code - 0x2800) as u8),
        _ => return None,
    })
}

impl Shape {
    fn draw(&self, out: &mut String, x: f64, y: f64, color: &str) -> fmt::Result {
        match self {
            Self::Part(left, top, width, height) => {
                let (x, y) = (x + left * WIDTH, y + top * HEIGHT);
                let (width, height) = (width * WIDTH, height * HEIGHT);
                writeln!(
                    out,
                    "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
                     fill=\"{color}\"/>"
                )
            }
            Self::Lines(to) => {
                let (x, y) = (x + WIDTH / 2.0, y + HEIGHT / 2.0);
                let ends = [(0.0, -0.5), (0.0, 0.5), (-0.5, 0.0), (0.5, 0.0)];
                let mut path = String::new();
                for (_, (right, down)) in to.iter().zip(ends).filter(|(drawn, _)| **drawn) {
                    write!(path, "M{x} {y}l{} {}", right * WIDTH, down * HEIGHT)?;
                }
                writeln!(out, "<path d=\"{path}\" stroke=\"{color}\"/>")
            }
            Self::Dots(dots) => {
                // The order of the bits is Braille's.
                let places =
                    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)].iter();
                let mut path = String::new();
                for (_, (right, down)) in places.enumerate().filter(|(bit, _)| dots >> bit & 1 == 1)
                {
                    let x = x + (f64::from(*right) + 0.5) * WIDTH / 2.0 - 0.8;
                    let y = y + (f64::from(*down) + 0.5) * HEIGHT / 4.0 - 0.8;
                    write!(path, "M{x:.1} {y:.1}h1.6v1.6h-1.6z")?;
                }
                writeln!(out, "<path d=\"{path}\" fill=\"{color}\"/>")
            }
        }
    }
}

fn color(color: Color) -> Option<&'static str> {
    Some(match color {
        Color::Black => "#16181d",
        Color::Red | Color::LightRed => "#e0606a",
        Color::Green | Color::LightGreen => "#7fbf6a",
        Color::Yellow | Color::LightYellow => "#d9b45b",
        Color::Blue | Color::LightBlue => "#5c8fd6",
        Color::Magenta | Color::LightMagenta => "#b57edc",
        Color::Cyan | Color::LightCyan => "#4fc1c9",
        Color::Gray => "#aab0bb",
        Color::DarkGray => "#7a808c",
        Color::White => "#ffffff",
        _ => return None,
    })
}
