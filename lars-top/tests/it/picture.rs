//! The picture in the documentation: what the view shows of recorded snapshots.
#![allow(missing_docs)]

use std::path::Path;

use lars_top::{App, News, Page, Snapshot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

/// Recorded from `soak --serve`, a snapshot a line. Of all but the last there are only the counts.
fn recorded() -> App {
    let mut app = App::new("a recording");
    for line in include_str!("../data/soak.jsonl").lines() {
        let snapshot: Snapshot = serde_json::from_str(line).unwrap();
        assert_eq!(snapshot.version, lars_top::snapshot::VERSION);
        app.tell(News::Snapshot(Box::new(snapshot)));
    }
    app
}

fn picture(page: Page, width: u16, height: u16) -> String {
    let mut app = recorded();
    app.turn_to(page);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame)).unwrap();
    lars_top::svg(terminal.backend().buffer())
}

/// `LARS_WRITE_PICTURES=1 cargo test -p lars-top --test it picture` writes them anew.
#[test]
fn the_pictures_in_the_documentation_are_what_the_view_shows() {
    let plots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plots");
    for (name, page) in [("lars-top.svg", Page::Overview), ("lars-top-wheel.svg", Page::Wheel)] {
        let (path, picture) = (plots.join(name), picture(page, 120, 34));
        if std::env::var_os("LARS_WRITE_PICTURES").is_some() {
            std::fs::write(&path, picture).unwrap();
        } else {
            let shown = std::fs::read_to_string(&path).unwrap();
            assert!(shown == picture, "{} is not what the view shows", path.display());
        }
    }
}

#[test]
fn a_picture_gives_each_word_the_cells_that_it_has_in_the_terminal() {
    let frame = Buffer::with_lines(["ab 時間切れ x"]);
    let picture = lars_top::svg(&frame);
    for (place, width, word) in [("10", "16", "ab"), ("34", "64", "時間切れ"), ("106", "8", "x")]
    {
        let start = format!("<text x=\"{place}\" ");
        let line = picture.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("nothing is at {place}: {picture}"));
        assert!(line.contains(&format!(" textLength=\"{width}\" ")), "{line}");
        assert!(line.ends_with(&format!(">{word}</text>")), "{line}");
    }
}
