//! What the tests share: a client that keeps its cookie, and something to look at.

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use futures::StreamExt;
use futures::executor::block_on;
use lars_durable::{Builder, Durable, Fired, Handler, Outcome, Payload};
use serde::{Deserialize, Serialize};
use tower::ServiceExt;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const TOKEN: &str = "a token of many letters";

/// A text that runs, if a page takes it for more than a text.
pub(crate) const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bill(pub(crate) String);

impl Payload for Bill {
    const NAME: &'static str = "bill";
}

/// A node whose handler gives up what is due, for a reason that is its payload.
pub(crate) fn node(builder: Builder) -> Durable {
    let park = Handler::new(|bill: &Fired<Bill>| Outcome::Park(bill.payload().0.clone()));
    // A machine that is busy with other things may take long.
    let builder = builder.lease(Duration::from_secs(60)).call_timeout(Duration::from_secs(300));
    builder.name("shop-1").handler(park).start().unwrap()
}

pub(crate) fn schedule(durable: &Durable, key: &str, delay: Duration, text: &str) -> u64 {
    let bill = durable.timers().schedule_once(delay, Bill(text.to_owned())).key(key);
    bill.submit().wait().unwrap().id
}

/// Schedules one that is given up, and waits until it is.
pub(crate) fn park(durable: &Durable, key: &str, why: &str) -> u64 {
    let id = schedule(durable, key, Duration::ZERO, why);
    while durable.timers().get_parked(id).wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    id
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |it| it.to_str().unwrap())
    }

    /// What a hidden field of the first form has.
    pub(crate) fn hidden(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!("name=\"{name}\" value=\""))?;
        rest.split_once('"').map(|it| it.0)
    }

    /// Each of these is there, as it stands in the source of the page.
    #[track_caller]
    pub(crate) fn has<const N: usize>(&self, texts: [&str; N]) {
        for text in texts {
            assert!(self.text.contains(text), "`{text}` is not in {}", self.text);
        }
    }

    #[track_caller]
    pub(crate) fn has_not<const N: usize>(&self, texts: [&str; N]) {
        for text in texts {
            assert!(!self.text.contains(text), "`{text}` is in {}", self.text);
        }
    }
}

/// A browser without scripts.
#[derive(Clone)]
pub(crate) struct Browser {
    pub(crate) pages: Router,
    pub(crate) host: &'static str,
    pub(crate) cookie: Option<String>,
    /// More headers.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
}

impl Browser {
    pub(crate) fn new(pages: Router) -> Self {
        Self { pages, host: "localhost:7878", cookie: None, headers: Vec::new() }
    }

    /// One that knows the token.
    pub(crate) fn known(pages: Router) -> Self {
        let mut browser = Self::new(pages);
        let answer = browser.post("/login", &[("token", TOKEN)]);
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        let cookie = answer.header("set-cookie");
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        browser.cookie = cookie.split(';').next().map(str::to_owned);
        browser
    }

    fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        let request = Request::builder().method(method).uri(path).header("host", self.host);
        let request = match &self.cookie {
            Some(cookie) => request.header("cookie", format!("other=1; {cookie}")),
            None => request,
        };
        self.headers.iter().fold(request, |it, (name, value)| it.header(*name, *value))
    }

    fn send(&self, request: Request<Body>) -> Answer {
        block_on(async {
            let answer = self.pages.clone().oneshot(request).await.unwrap();
            let (status, headers) = (answer.status(), answer.headers().clone());
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            Answer { status, headers, text: String::from_utf8(body.to_vec()).unwrap() }
        })
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path).body(Body::empty()).unwrap())
    }

    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let request = self.request(Method::POST, path);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(form.extend_pairs(fields).finish().into()).unwrap())
    }

    /// Events of a page, as they come.
    pub(crate) fn events(&self, path: &str) -> Events {
        let request = self.request(Method::GET, path).body(Body::empty()).unwrap();
        let answer = block_on(self.pages.clone().oneshot(request)).unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Events { stream: answer.into_body().into_data_stream(), buffered: String::new() }
    }

    /// Loads a page until it has this text.
    pub(crate) fn until(&self, path: &str, text: &str) -> Answer {
        let begin = SystemTime::now();
        // An open page has the group looked at once a second.
        let _open = (path == "/group").then(|| self.events("/events/group"));
        loop {
            let answer = self.get(path);
            if answer.text.contains(text) {
                return answer;
            }
            let waited = begin.elapsed().unwrap_or_default();
            assert!(waited < Duration::from_secs(120), "no `{text}` in {}", answer.text);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) struct Events {
    stream: BodyDataStream,
    buffered: String,
}

impl Events {
    /// What the next event has; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.buffered.split_once("\n\n") {
                let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
                let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
                let data = lines.collect::<Vec<_>>().join("\n");
                self.buffered = rest.to_owned();
                return Some(data);
            }
            let part = block_on(self.stream.next())?.unwrap();
            self.buffered.push_str(std::str::from_utf8(&part).unwrap());
        }
    }

    /// The first event with this text.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            let event = self.next().expect("the events have not ended");
            if event.contains(text) {
                return event;
            }
        }
    }
}
