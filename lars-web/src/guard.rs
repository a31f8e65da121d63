//! Who may see the pages, and who may change something.
//!
//! - The `Host` of a request must be a name of this machine, or one that was allowed. So a page
//!   elsewhere whose name is made to lead here (DNS rebinding) gets nothing.
//! - With a token, all but the form for it needs the cookie that the form gives. It is the same for
//!   all who know the token, and changes with each start.
//! - Whatever changes something comes by POST, from a page of ours: the browser says so (`Origin`,
//!   `Sec-Fetch-Site`), and the form has a secret that no other page can read.
//! - The policy for the content lets a page load nothing but the style and the script that are part
//!   of this crate, and be shown in no other page.

use std::fmt;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Uri};
use subtle::ConstantTimeEq;

/// The names of this machine for itself.
const OWN: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    // Of the page itself forms say where they come from, of others nothing.
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// See the module's documentation.
pub(crate) struct Guard {
    hosts: Vec<String>,
    token: Option<String>,
    actions: bool,
    /// What the cookie is.
    session: String,
    /// What forms have.
    csrf: String,
}

impl Guard {
    pub(crate) fn new(
        hosts: Vec<String>,
        token: Option<String>,
        actions: bool,
    ) -> Result<Self, getrandom::Error> {
        Ok(Self { hosts, token, actions, session: secret()?, csrf: secret()? })
    }

    /// The secret of forms, if something may be changed.
    pub(crate) fn actions(&self) -> Option<&str> {
        self.actions.then_some(&*self.csrf)
    }

    /// What is wrong with the name by which this server was reached.
    pub(crate) fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), String> {
        let host = host(headers, uri).unwrap_or("");
        let name = without_port(host);
        let allowed = OWN.iter().copied().chain(self.hosts.iter().map(|it| &**it));
        if allowed.into_iter().any(|it| it.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        Err(format!(
            "This page does not answer to the name {name:?}. It does to localhost, and to names \
             that were allowed (--host, Console::host)."
        ))
    }

    /// Whether the request may see the pages.
    pub(crate) fn knows(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        if self.token.is_none() {
            return true;
        }
        let wanted = cookie_name(headers, uri);
        // Each by itself: those of other programs on this machine may have any bytes.
        let cookies = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
        let mut values = cookies.flat_map(|it| it.split(|byte| *byte == b';')).filter_map(|it| {
            let (name, value) = std::str::from_utf8(it).ok()?.trim().split_once('=')?;
            (name == wanted).then_some(value)
        });
        values.any(|value| same(value, &self.session))
    }

    /// The cookie for whoever knows the token.
    pub(crate) fn cookie(
        &self,
        given: &str,
        prefix: &str,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Option<String> {
        let token = self.token.as_ref()?;
        let path = if prefix.is_empty() { "/" } else { prefix };
        let name = cookie_name(headers, uri);
        same(given, token)
            .then(|| format!("{name}={}; Path={path}; HttpOnly; SameSite=Strict", self.session))
    }

    /// Whether a request that wants to change something comes from a page of this server, as far as
    /// the browser says.
    pub(crate) fn comes_from_here(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let site = headers.get("sec-fetch-site").map(|it| it == "same-origin");
        let origin = headers.get(ORIGIN).map(|it| {
            let origin = it.to_str().ok().and_then(|it| it.split_once("://"));
            origin.is_some_and(|(_, origin)| Some(origin) == host(headers, uri))
        });
        site.unwrap_or(true) && origin.unwrap_or(true)
    }

    /// Whether a form has the secret, and something may be changed at all.
    pub(crate) fn may_change(&self, given: Option<&str>) -> Result<(), &'static str> {
        match (self.actions, given) {
            (false, _) => Err("Nothing may be changed here: it was started without actions \
                               (--actions, Console::actions)."),
            (true, Some(given)) if same(given, &self.csrf) => Ok(()),
            (true, _) => {
                Err("The form is of an earlier start, or of no page of this server. Load \
                              the page again.")
            }
        }
    }
}

/// Headers of every answer.
pub(crate) fn seal(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Does not tell by its time how much is the same.
fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// What nobody can guess: 256 bits, as text.
pub(crate) fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The name by which the server was reached.
fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let header = headers.get(HOST).map(|it| it.to_str().unwrap_or(""));
    header.or_else(|| uri.authority().map(|it| it.as_str()))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The colons of an address are in brackets.
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Cookies are of all ports of a machine: each server has its own.
fn cookie_name(headers: &HeaderMap, uri: &Uri) -> String {
    let host = host(headers, uri).unwrap_or("");
    let port = host[without_port(host).len()..].trim_start_matches(':');
    if port.is_empty() { "lars-web".to_owned() } else { format!("lars-web-{port}") }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // None of the secrets.
        f.debug_struct("Guard")
            .field("hosts", &self.hosts)
            .field("actions", &self.actions)
            .finish_non_exhaustive()
    }
}
