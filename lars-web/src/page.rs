//! The pages, and the frame around them.

mod late;

pub(crate) mod actors;
pub(crate) mod group;
pub(crate) mod scheduler;
pub(crate) mod timers;
pub(crate) mod work;

use maud::{DOCTYPE, Markup, html};

/// What is in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Group,
    Timers,
    Scheduler,
    Actors,
    /// None of those that the frame links to.
    Other,
}

/// What all pages have in common.
pub(crate) struct Frame<'a> {
    /// The path under which the pages are: empty, or one that begins with a slash.
    pub(crate) prefix: &'a str,
    /// The path of this page, with the prefix.
    pub(crate) path: &'a str,
    pub(crate) title: &'a str,
    pub(crate) tab: Tab,
    pub(crate) tabs: &'a [Tab],
    /// What is watched, for people.
    pub(crate) about: &'a str,
    /// Where the page gets its news from.
    pub(crate) feed: Option<&'a str>,
}

impl Tab {
    pub(crate) fn title_and_path(self) -> (&'static str, &'static str) {
        match self {
            Self::Group => ("Group", "group"),
            Self::Timers => ("Timers", "timers"),
            Self::Scheduler => ("Scheduler", "scheduler"),
            Self::Actors => ("Actors", "actors"),
            Self::Other => ("", ""),
        }
    }
}

impl Frame<'_> {
    /// The whole page. All of its links are relative to the prefix.
    pub(crate) fn around(&self, content: &Markup) -> String {
        // Two slashes at the beginning would name another server.
        let skip = format!("/{}#main", self.path.trim_start_matches(['/', '\\']));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    base href=(format!("{}/", self.prefix));
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " – lars-web" }
                    link rel="icon" href="icon.svg";
                    link rel="stylesheet" href="style.css";
                    script src="script.js" defer {}
                }
                body {
                    a.skip href=(skip) { "To the content" }
                    header {
                        b { "lars-web" }
                        span.about { (crate::html::name(self.about)) }
                        nav aria-label="Pages" {
                            @for (number, tab) in self.tabs.iter().enumerate() {
                                @let (title, path) = tab.title_and_path();
                                @let current = (*tab == self.tab).then_some("page");
                                a href=(path) data-key=(number + 1) aria-current=[current] {
                                    (title)
                                }
                            }
                        }
                        @if self.feed.is_some() {
                            button #pause type="button" aria-pressed="false" hidden { "Pause" }
                        }
                        p #link role="status" { noscript { "Without scripts: reload for news." } }
                    }
                    main #main tabindex="-1" {
                        @match self.feed {
                            Some(feed) => div #live data-feed=(feed) { (content) },
                            None => (content),
                        }
                    }
                    footer {
                        "Keys: " kbd { "1" } "–" (self.tabs.len()) " pages, " kbd { "/" }
                        " search, " kbd { "p" } " pause, " kbd { "Tab" } " and " kbd { "Enter" }
                        " for all else."
                    }
                }
            }
        };
        page.into_string()
    }
}

/// Why there is nothing new to see; perhaps beside what is older. It is there without trouble too,
/// so that it is read aloud when it changes.
pub(crate) fn trouble(why: Option<&str>, older: bool) -> Markup {
    html! {
        div role="alert" {
            @if let Some(why) = why {
                p.trouble {
                    b { "No answer: " } (crate::html::lines(why)) " "
                    span.faint {
                        @if older { "What is shown is older. " }
                        "It is tried again and again."
                    }
                }
            }
        }
    }
}
