//! An action on many timers: asked again, and how far it is.

use lars_top::text::grouped;
use maud::{Markup, html};

use crate::filter::Filter;
use crate::html::lines;
use crate::work::{Act, Progress, WorkState};

/// What is known of how many timers an action is about.
pub(crate) struct Counted {
    pub(crate) matched: u64,
    /// Not all were looked at.
    pub(crate) more: bool,
}

/// Asks whether it is meant.
pub(crate) fn sure(
    act: Act,
    filter: &Filter,
    delay: Option<&str>,
    counted: &Counted,
    csrf: &str,
) -> Markup {
    let at_least = if counted.more { "at least " } else { "" };
    html! {
        h2 { "Are you sure?" }
        p {
            b { (at_least) (grouped(counted.matched)) " timers" }
            " match now: " (lines(&filter.words())) "."
        }
        @match act {
            Act::Cancel => p { "Their runs are prevented. Of those that have started, this run is \
                                the last." },
            Act::Move(_) => p { "They will be due " b { (delay.unwrap_or("0s")) " from now" }
                                ", each from the step that finds it." },
            Act::Retry => p { "They run again, now, with a full set of attempts." },
            Act::Discard => p { "They are deleted. This cannot be undone." },
        }
        form.actions method="post" action="act" {
            input type="hidden" name="csrf" value=(csrf);
            input type="hidden" name="all" value="1";
            input type="hidden" name="sure" value="1";
            @for (field, value) in filter.fields() {
                input type="hidden" name=(field) value=(value);
            }
            @if let Some(delay) = delay { input type="hidden" name="delay" value=(delay); }
            button.strong name="do" value=(act.name()) autofocus { "Yes, " (act.name()) " them" }
            a.button href=(format!("timers?{}", filter.address())) { "No" }
        }
    }
}

/// How far it is.
pub(crate) fn progress(progress: &Progress, actions: Option<&str>) -> Markup {
    let state = match &progress.state {
        WorkState::Nothing => "nothing was asked for yet",
        WorkState::Going => "going on",
        WorkState::Stopped => "stopped; the same action again goes on with the rest",
        WorkState::Done => "done",
        WorkState::Failed(_) => "ended early; the same action again goes on with the rest",
    };
    html! {
        h2 { "Action" }
        @if let WorkState::Failed(why) = &progress.state {
            p.trouble role="alert" { (lines(why)) }
        }
        dl {
            dt { "What" } dd { (lines(&progress.what)) }
            // Nothing more comes of it.
            dt { "State" } dd #state data-rests[progress.state != WorkState::Going] { (state) }
            dt { "Changed" } dd #changed { (grouped(progress.changed)) }
            dt { "Running: the last run" } dd { (grouped(progress.running)) }
            dt { "Passed over: held by others" } dd { (grouped(progress.passed_over)) }
            dt { "Looked at" } dd { (grouped(progress.looked_at)) }
            dt { "Steps" } dd { (grouped(progress.steps)) }
        }
        @if let (WorkState::Going, Some(csrf)) = (&progress.state, actions) {
            form.actions method="post" action="stop" {
                input type="hidden" name="csrf" value=(csrf);
                button { "Stop" }
            }
        }
    }
}
