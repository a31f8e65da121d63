//! The actors of a live system: mailboxes, restarts, why messages were late, dead letters.

use lars_top::snapshot::{Actor, Actors, Letter};
use lars_top::text::{ago, grouped, short};
use lars_top::trend::{Moment, Trend};
use maud::{Markup, html};

use super::late;
use crate::html::{Line, cell, chart, name, table, tile};

/// The most rows of a table.
const ROWS: usize = 100;

pub(crate) fn page(trend: &Trend) -> Markup {
    let Some(seen) = trend.last() else { return html! { p.faint { "Looking …" } } };
    let Some(actors) = &seen.actors else {
        return html! { p.faint { "No system of actors is watched." } };
    };
    let points = |of: fn(&Moment) -> f64| -> Vec<(f64, f64)> {
        let ago = |it: &Moment| seen.taken.saturating_sub(it.taken) as f64 / 1e9;
        trend.moments().map(|it| (ago(&it), of(&it))).collect()
    };
    let received = Line { label: "", class: "one", points: points(|it| it.rates.messages) };
    let dead = Line { label: "", class: "two", points: points(|it| it.rates.dead_letters) };
    html! {
        (tiles(trend, actors))
        div.charts {
            (chart("Messages/s", &[received], short))
            (chart("Dead letters/s", &[dead], short))
        }
        (busiest(actors))
        @if let Some(all) = &actors.late {
            (late::tables(all, trend.late_messages(), trend, &late::MESSAGES))
        }
        (letters(actors))
    }
}

fn tiles(trend: &Trend, actors: &Actors) -> Markup {
    let bad = |count: u64| if count > 0 { "bad" } else { "" };
    html! {
        div.tiles {
            (tile("messages/s", &short(trend.rates().messages), ""))
            (tile("actors", &grouped(actors.alive), ""))
            (tile("stopped", &grouped(actors.stopped), ""))
            (tile("received", &grouped(actors.processed), ""))
            (tile("panics", &grouped(actors.panicked), bad(actors.panicked)))
            (tile("restarts", &grouped(actors.restarts), bad(actors.restarts)))
            (tile("dead letters", &grouped(actors.dead_letters), bad(actors.dead_letters)))
            (tile("slow", &grouped(actors.slow_receives), bad(actors.slow_receives)))
        }
    }
}

fn busiest(actors: &Actors) -> Markup {
    let row = |actor: &Actor| {
        html! {
            tr {
                th scope="row" { code { (name(&actor.path)) } }
                (cell("Waiting", grouped(actor.depth)))
                (cell("Received", grouped(actor.processed)))
                (cell("Restarts", grouped(actor.restarts)))
            }
        }
    };
    let rows: Vec<_> = actors.busiest.iter().take(ROWS).map(row).collect();
    let more = actors.alive.saturating_sub(rows.len() as u64);
    let titles = ["Actor", "Waiting", "Received", "Restarts"];
    html! {
        (table("Deepest mailboxes", &titles, &rows, "No actor lives."))
        p.faint {
            "As of " (ago(actors.age)) "."
            @if more > 0 { " " (grouped(more)) " actors with fewer messages are left out." }
        }
    }
}

fn letters(actors: &Actors) -> Markup {
    let row = |letter: &Letter| {
        html! {
            tr {
                th scope="row" { code { (name(&letter.recipient)) } }
                (cell("Message", html! { code { (name(&letter.message)) } }))
                (cell("Why", name(&letter.reason)))
                (cell("When", ago(letter.age)))
            }
        }
    };
    let rows: Vec<_> = actors.letters.iter().map(row).collect();
    table("Last dead letters", &["Recipient", "Message", "Why", "When"], &rows, "None.")
}
