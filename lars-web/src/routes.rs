//! What the server answers.

use std::convert::Infallible;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, OriginalUri, Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use form_urlencoded::Serializer;
use futures::Stream;
use futures::stream::unfold;
use lars_durable::query::{Listing, Place};
use maud::{Markup, html};

use crate::filter::{Fields, Filter, field, fields};
use crate::guard;
use crate::html::lines;
use crate::page::{self, Frame, Tab, timers};
use crate::shared::{Group, Shared};
use crate::source::Trouble;
use crate::sync::{Arc, wall_now, watch};
use crate::work::{self, Act};

/// The longest form.
const LONGEST_FORM: usize = 64 << 10;

/// How many timers a page has at most, and in how many steps they are looked for, or counted.
const PAGE: usize = 100;
const STEPS: usize = 10;

type Here = State<Arc<Shared>>;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let pages = [
        ("/group", get(group)),
        ("/timers", get(list)),
        ("/timers/{id}", get(one)),
        ("/scheduler", get(scheduler)),
        ("/actors", get(actors)),
        ("/work", get(progress)),
        ("/login", get(login).post(log_in)),
    ];
    // People end an address with a slash, too. All links are relative to `<base>`, so they hold.
    let with_slash = |pages: Router<_>, (path, page): (&str, MethodRouter<_>)| {
        pages.route(path, page.clone()).route(&format!("{path}/"), page)
    };
    pages
        .into_iter()
        .fold(Router::new(), with_slash)
        .route("/", get(first))
        .route("/events/{page}", get(events))
        .route("/act", post(act))
        .route("/stop", post(stop))
        .route("/style.css", get(async || asset("text/css", include_str!("assets/style.css"))))
        .route("/script.js", get(async || asset("text/javascript", SCRIPT)))
        .route("/icon.svg", get(async || asset("image/svg+xml", include_str!("assets/icon.svg"))))
        .fallback(async |here: Here, at: At| {
            here.say(&at, StatusCode::NOT_FOUND, "There is no such page.")
        })
        .layer(DefaultBodyLimit::max(LONGEST_FORM))
        .layer(from_fn_with_state(Arc::clone(&shared), guarded))
        .with_state(shared)
}

const SCRIPT: &str = include_str!("assets/script.js");

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, format!("{kind}; charset=utf-8"))], text).into_response()
}

/// Where a page is.
#[derive(Debug)]
struct At {
    /// The path of the request, as the client named it.
    whole: String,
    /// Under which path the pages are.
    prefix: String,
    /// The path below that.
    path: String,
}

impl At {
    /// `here` is without what an outer router has taken off.
    fn of(original: &Uri, here: &Uri) -> Self {
        let (whole, path) = (original.path(), here.path());
        let prefix = whole.strip_suffix(path).unwrap_or(whole).trim_end_matches('/');
        Self { whole: whole.to_owned(), prefix: prefix.to_owned(), path: path.to_owned() }
    }
}

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for At {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<Self, Infallible> {
        let OriginalUri(original) = OriginalUri::from_request_parts(parts, state).await?;
        Ok(Self::of(&original, &parts.uri))
    }
}

/// See [`guard`].
async fn guarded(State(shared): Here, at: At, request: Request, next: Next) -> Response {
    let mut answer = match refused(&shared, &at, &request) {
        Some(refused) => refused,
        None => next.run(request).await,
    };
    guard::seal(answer.headers_mut());
    answer
}

fn refused(shared: &Shared, at: &At, request: &Request) -> Option<Response> {
    let (guard, headers, uri) = (&shared.guard, request.headers(), request.uri());
    if let Err(why) = guard.check_host(headers, uri) {
        return Some((StatusCode::FORBIDDEN, why).into_response());
    }
    if request.method() != Method::GET && !guard.comes_from_here(headers, uri) {
        let why = "The request comes from another page.";
        return Some((StatusCode::FORBIDDEN, why).into_response());
    }
    let open = ["/login", "/login/", "/style.css", "/script.js", "/icon.svg"];
    if open.contains(&&*at.path) || guard.knows(headers, uri) {
        return None;
    }
    let page = request.method() == Method::GET && !at.path.starts_with("/events/");
    Some(match page {
        true => Redirect::to(&format!("{}/login", at.prefix)).into_response(),
        false => (StatusCode::UNAUTHORIZED, "The token is needed.").into_response(),
    })
}

impl Shared {
    fn frame<'a>(&'a self, at: &'a At, tab: Tab, title: &'a str, tabs: &'a [Tab]) -> Frame<'a> {
        let (prefix, path) = (&*at.prefix, &*at.whole);
        Frame { prefix, path, title, tab, tabs, about: &self.about, feed: None }
    }

    fn page(&self, at: &At, tab: Tab, title: &str, content: &Markup) -> Response {
        Html(self.frame(at, tab, title, &self.tabs()).around(content)).into_response()
    }

    /// A page that is kept up to date.
    fn live(&self, at: &At, tab: Tab, title: &str, feed: &str, content: &Markup) -> Response {
        let tabs = self.tabs();
        let frame = Frame { feed: Some(feed), ..self.frame(at, tab, title, &tabs) };
        Html(frame.around(content)).into_response()
    }

    /// A page that says one thing.
    fn say(&self, at: &At, status: StatusCode, what: &str) -> Response {
        let content = html! {
            div role="alert" { p { (lines(what)) } }
            p { a href=(self.first_page()) { "To the first page" } }
        };
        (status, self.page(at, Tab::Other, "lars-web", &content)).into_response()
    }

    /// By its name: the prefix with a slash is an address that axum's `nest` does not pass on.
    fn first_page(&self) -> &'static str {
        self.tabs()[0].title_and_path().1
    }

    fn no_answer(&self, at: &At, why: &Trouble) -> Response {
        self.say(at, status_of(why), &why.to_string())
    }

    fn no_group(&self, at: &At) -> Response {
        self.say(at, StatusCode::NOT_FOUND, "No durable timers are watched here.")
    }

    fn no_program(&self, at: &At) -> Response {
        self.say(at, StatusCode::NOT_FOUND, "No live scheduler is watched here.")
    }
}

fn status_of(why: &Trouble) -> StatusCode {
    match why {
        Trouble::Refused(_) => StatusCode::BAD_REQUEST,
        Trouble::Away(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn first(here: Here, at: At) -> Response {
    match here.tabs().first() {
        Some(Tab::Group) => group(here, at).await,
        _ => scheduler(here, at).await,
    }
}

async fn group(State(shared): Here, at: At) -> Response {
    let Some(group) = &shared.group else { return shared.no_group(&at) };
    shared.live(&at, Tab::Group, "Group", "events/group", &group.feed.latest().page)
}

async fn scheduler(State(shared): Here, at: At) -> Response {
    let Some(feed) = &shared.program else { return shared.no_program(&at) };
    shared.live(&at, Tab::Scheduler, "Scheduler", "events/scheduler", &feed.latest().scheduler)
}

async fn actors(State(shared): Here, at: At) -> Response {
    let Some(feed) = &shared.program else { return shared.no_program(&at) };
    shared.live(&at, Tab::Actors, "Actors", "events/actors", &feed.latest().actors)
}

async fn progress(State(shared): Here, at: At) -> Response {
    let progress = shared.work.subscribe().borrow().clone();
    let content = page::work::progress(&progress, shared.guard.actions());
    shared.live(&at, Tab::Other, "Action", "events/work", &content)
}

/// Fragments of a page as they come, each the whole content.
async fn events(State(shared): Here, at: At, Path(page): Path<String>) -> Response {
    match (&*page, &shared.group, &shared.program) {
        ("group", Some(group), _) => {
            stream(group.feed.subscribe(), |seen| seen.page.0.clone()).into_response()
        }
        ("scheduler", _, Some(feed)) => {
            stream(feed.subscribe(), |seen| seen.scheduler.0.clone()).into_response()
        }
        ("actors", _, Some(feed)) => {
            stream(feed.subscribe(), |seen| seen.actors.0.clone()).into_response()
        }
        ("work", ..) => {
            let actions = shared.guard.actions().map(str::to_owned);
            let content = move |it: &_| page::work::progress(it, actions.as_deref()).into_string();
            stream(shared.work.subscribe(), content).into_response()
        }
        _ => shared.say(&at, StatusCode::NOT_FOUND, "There are no such events."),
    }
}

fn stream<T: Send + Sync + 'static>(
    feed: watch::Receiver<T>,
    content: impl Fn(&T) -> String + Send + 'static,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(unfold((feed, content), async |(mut feed, content)| {
        feed.changed().await.ok()?;
        let event = Event::default().data(content(&feed.borrow_and_update()));
        Some((Ok(event), (feed, content)))
    }))
}

async fn list(State(shared): Here, at: At, RawQuery(asked): RawQuery) -> Response {
    let Some(group) = &shared.group else { return shared.no_group(&at) };
    let asked = fields(asked.unwrap_or_default().as_bytes());
    let (filter, found) = match Filter::of(&asked) {
        Ok(filter) => {
            let found = found(group, &filter, &asked).await;
            (filter, found)
        }
        Err(why) => (Filter::as_typed(&asked), Err(Trouble::Refused(why))),
    };
    let next = found.as_ref().ok().and_then(|found| found.next.clone());
    let next = next.map(|place| {
        let fields = filter.fields().into_iter().map(|(name, text)| (name, text.to_owned()));
        let after = [("after", place.to_string())];
        let address = Serializer::new(String::new()).extend_pairs(fields.chain(after)).finish();
        format!("timers?{address}")
    });
    let status = found.as_ref().map_or_else(status_of, |_| StatusCode::OK);
    let content = timers::list(&timers::Listed {
        filter: &filter,
        handlers: &group.feed.latest().handlers,
        found: found.as_ref().map_err(Trouble::to_string),
        next,
        now: wall_now(),
        actions: shared.guard.actions(),
    });
    (status, shared.page(&at, Tab::Timers, "Timers", &content)).into_response()
}

async fn found(group: &Group, filter: &Filter, asked: &Fields) -> Result<Listing, Trouble> {
    let mut query = filter.query().limit(PAGE);
    if let Some(after) = field(asked, "after") {
        let place = after.parse::<Place>().map_err(|error| Trouble::Refused(error.to_string()))?;
        query = query.after(place);
    }
    let filled = group.desk.ask(move |reader| {
        let mut all = reader.list(&query)?;
        for _ in 1..STEPS {
            let missing = PAGE - all.timers.len();
            let Some(place) = all.next.take_if(|_| missing > 0) else { break };
            query = query.clone().after(place).limit(missing);
            let more = reader.list(&query)?;
            all.timers.extend(more.timers);
            (all.looked_at, all.next) = (all.looked_at + more.looked_at, more.next);
        }
        Ok(all)
    });
    filled.await
}

async fn one(State(shared): Here, at: At, Path(id): Path<String>) -> Response {
    let Some(group) = &shared.group else { return shared.no_group(&at) };
    let Ok(number) = id.parse::<u64>() else {
        let why = format!("A timer has a number, but {id:?} is none.");
        return shared.say(&at, StatusCode::BAD_REQUEST, &why);
    };
    let asked = group.desk.ask(move |reader| Ok((reader.find(number)?, reader.runs(number)?)));
    match asked.await {
        Ok((None, runs)) if runs.is_empty() => {
            let why = format!("There is no timer {number}: it has run, or was cancelled.");
            shared.say(&at, StatusCode::NOT_FOUND, &why)
        }
        Ok((found, runs)) => {
            let (now, actions) = (wall_now(), shared.guard.actions());
            let content = html! {
                @match &found {
                    Some(found) => (timers::one(found, now, actions)),
                    None => { h2 { "Timer " (number) } p { "It has run, or was cancelled." } },
                }
                (timers::runs(&runs, now))
            };
            shared.page(&at, Tab::Timers, &format!("Timer {number}"), &content)
        }
        Err(why) => shared.no_answer(&at, &why),
    }
}

async fn act(State(shared): Here, at: At, body: Bytes) -> Response {
    let said = fields(&body);
    if let Err(why) = shared.guard.may_change(field(&said, "csrf")) {
        return shared.say(&at, StatusCode::FORBIDDEN, why);
    }
    let Some(group) = &shared.group else { return shared.no_group(&at) };
    let done = match field(&said, "do") {
        Some(what @ ("pause" | "resume")) => pause(&shared, &at, group, &said, what).await,
        _ => match Act::of(&said) {
            Err(why) => Err(Trouble::Refused(why)),
            Ok(act) if field(&said, "all").is_some() => {
                act_on_all(&shared, &at, group, &said, act).await
            }
            Ok(act) => act_on_one(&shared, &at, group, &said, act).await,
        },
    };
    done.unwrap_or_else(|why| shared.no_answer(&at, &why))
}

async fn pause(
    shared: &Shared,
    at: &At,
    group: &Group,
    said: &Fields,
    what: &str,
) -> Result<Response, Trouble> {
    // As it is, unlike what people type: its name may begin with a space.
    let handler = said.iter().find(|(name, _)| name == "handler");
    let handler = handler.map_or("", |(_, name)| name).to_owned();
    work::pause(group.source.clone(), handler.clone(), what == "pause").await?;
    let done = if what == "pause" { "starts no more timers" } else { "starts its timers again" };
    Ok(shared.say(at, StatusCode::OK, &format!("The handler {handler} {done}.")))
}

async fn act_on_one(
    shared: &Shared,
    at: &At,
    group: &Group,
    said: &Fields,
    act: Act,
) -> Result<Response, Trouble> {
    let given = field(said, "id").unwrap_or("");
    let wrong = || Trouble::Refused(format!("A timer has a number, but {given:?} is none."));
    let id: u64 = given.parse().map_err(|_| wrong())?;
    let done = work::one(group.source.clone(), act, id).await?;
    Ok(shared.say(at, StatusCode::OK, &format!("Timer {id}: {done}")))
}

/// Asks again, or begins.
async fn act_on_all(
    shared: &Shared,
    at: &At,
    group: &Group,
    said: &Fields,
    act: Act,
) -> Result<Response, Trouble> {
    let filter = Filter::of(said).map_err(Trouble::Refused)?;
    if field(said, "sure").is_some() {
        shared.work.start(group.source.clone(), act, &filter).map_err(Trouble::Refused)?;
        return Ok(Redirect::to(&format!("{}/work", at.prefix)).into_response());
    }
    let mut query = act.query(&filter);
    let counted = group.desk.ask(move |reader| {
        let mut counted = page::work::Counted { matched: 0, more: true };
        for _ in 0..STEPS {
            let step = reader.count(&query)?;
            counted.matched += step.matched as u64;
            match step.next {
                Some(place) => query = query.clone().after(place),
                None => {
                    counted.more = false;
                    break;
                }
            }
        }
        Ok(counted)
    });
    let counted = counted.await?;
    let csrf = shared.guard.actions().unwrap_or("");
    let delay = matches!(act, Act::Move(_)).then(|| field(said, "delay").unwrap_or("0s"));
    let content = page::work::sure(act, &filter, delay, &counted, csrf);
    Ok(shared.page(at, Tab::Other, "Are you sure?", &content))
}

async fn stop(State(shared): Here, at: At, body: Bytes) -> Response {
    if let Err(why) = shared.guard.may_change(field(&fields(&body), "csrf")) {
        return shared.say(&at, StatusCode::FORBIDDEN, why);
    }
    shared.work.stop();
    Redirect::to(&format!("{}/work", at.prefix)).into_response()
}

async fn login(State(shared): Here, at: At) -> Response {
    shared.page(&at, Tab::Other, "Token", &login_form(None))
}

async fn log_in(
    State(shared): Here,
    at: At,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Response {
    let said = fields(&body);
    let given = field(&said, "token").unwrap_or("");
    match shared.guard.cookie(given, &at.prefix, &headers, &uri) {
        Some(cookie) => {
            let home = format!("{}/{}", at.prefix, shared.first_page());
            ([(SET_COOKIE, cookie)], Redirect::to(&home)).into_response()
        }
        None => {
            let wrong = login_form(Some("This is not the token."));
            let page = shared.page(&at, Tab::Other, "Token", &wrong);
            (StatusCode::UNAUTHORIZED, page).into_response()
        }
    }
}

fn login_form(wrong: Option<&str>) -> Markup {
    html! {
        h2 { "Token" }
        p { "This page is for those who know its token." }
        div role="alert" { @if let Some(wrong) = wrong { p.trouble { (wrong) } } }
        form.filter method="post" action="login" {
            label { "Token"
                input #search type="password" name="token" autocomplete="current-password"
                    autofocus;
            }
            button { "Show" }
        }
    }
}
