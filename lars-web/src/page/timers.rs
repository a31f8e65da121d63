//! Timers that a form asks for, and a single one.

use std::time::SystemTime;

use lars_durable::inspection::{RunInfo, RunOutcome, TimerInfo};
use lars_durable::query::{Found, Listing};
use lars_top::text::{clean, grouped};
use maud::{Markup, html};

use crate::filter::{Filter, STATES};
use crate::html::{cell, lines, moment, name, span, stamp, table};

/// What a page of timers shows.
pub(crate) struct Listed<'a> {
    pub(crate) filter: &'a Filter,
    /// The names that the form offers.
    pub(crate) handlers: &'a [String],
    /// What was found, or why nothing was.
    pub(crate) found: Result<&'a Listing, String>,
    /// The address of the next page, if there is one.
    pub(crate) next: Option<String>,
    pub(crate) now: SystemTime,
    /// By which a form is known to come from a page; `None` if nothing may be changed.
    pub(crate) actions: Option<&'a str>,
}

pub(crate) fn list(listed: &Listed<'_>) -> Markup {
    html! {
        (form(listed))
        @match &listed.found {
            Err(why) => div role="alert" { p.trouble { b { "No answer: " } (lines(why)) } },
            Ok(found) => {
                (rows(found, listed.now))
                p {
                    "Looked at " (grouped(found.looked_at as u64)) " timers"
                    @match &listed.next {
                        Some(next) => { ". " a.button rel="next" href=(next) { "Go on" } },
                        None => ", which were all.",
                    }
                }
                @if let Some(csrf) = listed.actions { (many(listed.filter, csrf)) }
            },
        }
    }
}

fn form(listed: &Listed<'_>) -> Markup {
    let filter = listed.filter;
    let text = |label: &str, field: &str, hint: &str| {
        html! {
            label { (label)
                input name=(field) value=(filter.text(field)) placeholder=(hint)
                    autocomplete="off" spellcheck="false";
            }
        }
    };
    html! {
        form.filter action="timers" role="search" {
            label { "Handler"
                input #search name="handler" value=(filter.text("handler")) list="handlers"
                    autocomplete="off" spellcheck="false";
            }
            datalist #handlers { @for it in listed.handlers { option value=(it) {} } }
            (text("Key begins with", "key", "order/17"))
            (text("Tag", "tag", "customer/17"))
            label { "State"
                select name="state" {
                    @for (state, _) in STATES {
                        option value=(state) selected[state == filter.state()] { (state) }
                    }
                }
            }
            (text("Failed with", "failed", "connection refused"))
            (text("Due from (UTC)", "from", "2030-01-31T09:00"))
            (text("Due before (UTC)", "before", "2030-01-31T10:00"))
            button { "List" }
        }
    }
}

fn rows(found: &Listing, now: SystemTime) -> Markup {
    let row = |found: &Found| {
        let timer = found.timer();
        html! {
            tr.wrong[matches!(found, Found::Parked(_))] {
                th scope="row" { a href=(format!("timers/{}", timer.id)) { (timer.id) } }
                (cell("Key", html! {
                    (timer.key.as_deref().map_or("–".to_owned(), name))
                    @if let Some(tag) = &timer.tag { " " span.badge { (name(tag)) } }
                }))
                (cell("Handler", name(&timer.handler)))
                (cell("State", state(found, now)))
                (cell("Due", due(timer, now)))
                (cell("Attempts", timer.attempt))
                (cell("Why", html! { span.cut { (clean(why(found))) } }))
            }
        }
    };
    let rows: Vec<_> = found.timers.iter().map(row).collect();
    let titles = ["Timer", "Key", "Handler", "State", "Due", "Attempts", "Why"];
    table("Timers", &titles, &rows, "None of those that were looked at is meant.")
}

fn state(found: &Found, now: SystemTime) -> Markup {
    let timer = found.timer();
    let state = match found {
        Found::Parked(_) => "parked",
        Found::Timer(_) if timer.running => "running",
        Found::Timer(_) if timer.attempt > 0 => "retrying",
        Found::Timer(_) if timer.deadline.is_some_and(|due| due <= now) => "due",
        Found::Timer(_) => "waiting",
    };
    // Its run hears of it; one that fails is tried again, and knows from its beginning.
    html! { (state) @if timer.cancelled { ", cancelled" } }
}

fn due(timer: &TimerInfo, now: SystemTime) -> Markup {
    match timer.deadline {
        Some(due) => moment(due, now),
        None => html! { "never" },
    }
}

fn why(found: &Found) -> &str {
    match found {
        Found::Parked(parked) => &parked.reason,
        Found::Timer(timer) => timer.last_error.as_deref().unwrap_or(""),
    }
}

/// What can be done to all that a form asks for.
fn many(filter: &Filter, csrf: &str) -> Markup {
    let parked = matches!(filter.state(), "any" | "parked");
    let waiting = filter.state() != "parked";
    html! {
        form.actions method="post" action="act" {
            h2 { "All that match, also on other pages" }
            input type="hidden" name="csrf" value=(csrf);
            input type="hidden" name="all" value="1";
            @for (field, value) in filter.fields() {
                input type="hidden" name=(field) value=(value);
            }
            @if waiting {
                button name="do" value="cancel" { "Cancel …" }
                (move_by())
            }
            @if parked {
                button name="do" value="retry" { "Retry parked …" }
                button name="do" value="discard" { "Discard parked …" }
            }
        }
    }
}

fn move_by() -> Markup {
    html! {
        span.pair {
            label { "to so long from now"
                input name="delay" value="0s" size="8" autocomplete="off";
            }
            button name="do" value="move" { "Move" }
        }
    }
}

/// A single timer.
pub(crate) fn one(found: &Found, now: SystemTime, actions: Option<&str>) -> Markup {
    let timer = found.timer();
    html! {
        h2 { "Timer " (timer.id) }
        dl {
            dt { "State" } dd { (state(found, now)) }
            dt { "Handler" } dd { (name(&timer.handler)) }
            dt { "Key" } dd { (timer.key.as_deref().map_or("–".to_owned(), name)) }
            @if let Some(tag) = &timer.tag { dt { "Tag" } dd { (name(tag)) } }
            dt { "Due" }
            dd {
                (due(timer, now))
                @if let Some(due) = timer.deadline { " " span.faint { (stamp(due)) } }
            }
            dt { "Attempts" } dd { (timer.attempt) }
            @if let Some(rule) = &timer.rule {
                dt { "Repeats" } dd { (name(rule)) }
                dt { "Runs that are over" } dd { (over(timer)) }
                @if let Some(until) = timer.until {
                    dt { "Ends" } dd { (moment(until, now)) " " span.faint { (stamp(until)) } }
                }
            }
            @if let Found::Parked(parked) = found {
                dt { "Parked" }
                dd { (moment(parked.since, now)) " " span.faint { (stamp(parked.since)) } }
                dt { "Deaths" } dd { (parked.deaths) " processes died while it ran" }
            }
        }
        @if let Found::Parked(parked) = found { (text("Why it was parked", &parked.reason)) }
        @if let Some(error) = &timer.last_error { (text("Last error", error)) }
        (text(&format!("Payload, version {}", timer.payload_version), &timer.payload))
        @if let Some(csrf) = actions { (one_actions(found, csrf)) }
    }
}

/// What became of its last runs, if that is remembered.
pub(crate) fn runs(runs: &[RunInfo], now: SystemTime) -> Markup {
    let row = |run: &RunInfo| {
        let ended = run.began + run.took;
        let failed = matches!(run.outcome, RunOutcome::Parked | RunOutcome::Lost);
        html! {
            tr.wrong[failed] {
                th scope="row" { (moment(ended, now)) }
                (cell("Outcome", outcome(run.outcome)))
                (cell("Took", span(run.took)))
                (cell("Attempt", run.attempt))
                (cell("Node", name(&run.node)))
                (cell("Why", html! { span.cut { (clean(run.error.as_deref().unwrap_or(""))) } }))
            }
        }
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let titles = ["Ended", "Outcome", "Took", "Attempt", "Node", "Why"];
    html! { @if !rows.is_empty() { (table("Last runs", &titles, &rows, "")) } }
}

fn outcome(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Done => "done",
        RunOutcome::Retried => "failed, tried again",
        RunOutcome::Parked => "parked",
        RunOutcome::PutOff => "put off",
        RunOutcome::Lost => "failed, at most once",
        _ => "over",
    }
}

/// Of a series.
fn over(timer: &TimerInfo) -> String {
    match timer.times {
        Some(times) => format!("{} of {}", grouped(timer.runs), grouped(times)),
        None => grouped(timer.runs),
    }
}

fn text(title: &str, content: &str) -> Markup {
    html! { h3 { (title) } pre tabindex="0" { (lines(content)) } }
}

fn one_actions(found: &Found, csrf: &str) -> Markup {
    html! {
        form.actions method="post" action="act" {
            input type="hidden" name="csrf" value=(csrf);
            input type="hidden" name="id" value=(found.timer().id);
            @match found {
                Found::Timer(timer) => {
                    button name="do" value="cancel" { "Cancel" }
                    @if !timer.running { (move_by()) }
                },
                Found::Parked(_) => {
                    button name="do" value="retry" { "Retry" }
                    button name="do" value="discard" { "Discard" }
                },
            }
        }
    }
}
