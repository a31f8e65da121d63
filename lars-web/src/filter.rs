//! Which timers a page lists, or an action changes: what its form says.

use std::time::SystemTime;

use form_urlencoded::Serializer;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use lars_durable::query::{Query, State};

/// Names and values, as a form sends them.
pub(crate) type Fields = Vec<(String, String)>;

/// The value of a field; none if it is empty.
pub(crate) fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let found = fields.iter().find(|(it, _)| it == name);
    found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

pub(crate) fn fields(text: &[u8]) -> Fields {
    form_urlencoded::parse(text).into_owned().collect()
}

/// All states, by the name that a form has for them. The first stands for all.
pub(crate) const STATES: [(&str, Option<State>); 7] = [
    ("any", None),
    ("waiting", Some(State::Waiting)),
    ("due", Some(State::Due)),
    ("running", Some(State::Running)),
    ("retrying", Some(State::Retrying)),
    ("paused", Some(State::Paused)),
    ("parked", Some(State::Parked)),
];

/// What the fields are called, but that of the state.
const TEXTS: [&str; 6] = ["handler", "key", "tag", "failed", "from", "before"];

/// The conditions of a form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    state: usize,
    /// In the order of [`TEXTS`].
    texts: [Option<String>; TEXTS.len()],
    due: (Option<SystemTime>, Option<SystemTime>),
}

impl Filter {
    /// # Errors
    ///
    /// Which field is wrong, and what it may be.
    pub(crate) fn of(fields: &Fields) -> Result<Self, String> {
        let state = field(fields, "state").unwrap_or("any");
        let Some(state) = STATES.iter().position(|(name, _)| *name == state) else {
            let names = STATES.map(|(name, _)| name).join(", ");
            return Err(format!("the state is {state:?}, but it must be one of {names}"));
        };
        let due = (at("from", field(fields, "from"))?, at("before", field(fields, "before"))?);
        Ok(Self { state, due, ..Self::as_typed(fields) })
    }

    /// What the fields say, right or wrong, to be shown in the form again.
    pub(crate) fn as_typed(fields: &Fields) -> Self {
        let texts = TEXTS.map(|name| field(fields, name).map(str::to_owned));
        let state = STATES.iter().position(|(name, _)| Some(*name) == field(fields, "state"));
        Self { state: state.unwrap_or_default(), texts, due: (None, None) }
    }

    /// What a field says.
    pub(crate) fn text(&self, name: &str) -> &str {
        let place = TEXTS.iter().position(|it| *it == name);
        place.and_then(|place| self.texts[place].as_deref()).unwrap_or("")
    }

    pub(crate) fn state(&self) -> &'static str {
        STATES[self.state].0
    }

    pub(crate) fn query(&self) -> Query {
        let [handler, key, tag, failed, ..] = &self.texts;
        let mut query = Query::new();
        if let Some(handler) = handler {
            query = query.handler(handler);
        }
        if let Some(prefix) = key {
            query = query.key_prefix(prefix);
        }
        if let Some(tag) = tag {
            query = query.tag(tag);
        }
        if let Some(text) = failed {
            query = query.failed_with(text);
        }
        if let Some(from) = self.due.0 {
            query = query.due_from(from);
        }
        if let Some(before) = self.due.1 {
            query = query.due_before(before);
        }
        match STATES[self.state].1 {
            Some(state) => query.states([state]),
            None => query,
        }
    }

    /// The fields that say the same.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &str)> {
        let texts = TEXTS.iter().zip(&self.texts);
        let said = texts.filter_map(|(name, text)| Some((*name, text.as_deref()?)));
        said.chain([("state", self.state())]).collect()
    }

    /// The same as a part of an address.
    pub(crate) fn address(&self) -> String {
        Serializer::new(String::new()).extend_pairs(self.fields()).finish()
    }

    /// The same for people.
    pub(crate) fn words(&self) -> String {
        let name = |name| match name {
            "key" => "key begins with",
            "failed" => "failed with",
            "from" => "due from",
            "before" => "due before",
            name => name,
        };
        let words = self.fields().into_iter().map(|it| format!("{} {}", name(it.0), it.1));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// A time in UTC, as the browser's field for times or a person writes it.
fn at(name: &str, text: Option<&str>) -> Result<Option<SystemTime>, String> {
    let Some(text) = text else { return Ok(None) };
    let at = text.parse::<Timestamp>().or_else(|_| {
        let local = text.parse::<DateTime>()?;
        local.to_zoned(TimeZone::UTC).map(|it| it.timestamp())
    });
    let wrong = |_| {
        format!("`{name}` is {text:?}, but it must be a time such as 2030-01-31T09:00 (in UTC)")
    };
    at.map(|at| Some(at.into())).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_filter_says_the_same_as_the_address_that_it_makes() {
        let address = "handler=a%26b&key=order%2F&tag=red&failed=%3Cmoney%3E&\
                       from=1970-01-02T00%3A00&state=parked";
        let filter = Filter::of(&fields(address.as_bytes())).unwrap();
        assert_eq!((filter.text("handler"), filter.state()), ("a&b", "parked"));
        assert_eq!(filter.due.0, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400)));
        assert_eq!(filter.address(), address);
        assert_eq!(Filter::of(&fields(filter.address().as_bytes())).unwrap(), filter);
        let words = "handler a&b, key begins with order/, tag red, failed with <money>, \
                     due from 1970-01-02T00:00, state parked";
        assert_eq!(filter.words(), words);
        let expected =
            Query::new().handler("a&b").key_prefix("order/").tag("red").failed_with("<money>");
        let expected = expected.due_from(filter.due.0.unwrap()).states([State::Parked]);
        assert_eq!(filter.query(), expected);
        assert_eq!(Filter::of(&Vec::new()).unwrap().query(), Query::new());
    }

    #[test]
    fn what_a_filter_cannot_be_is_named_with_what_it_may_be() {
        let wrong = |text: &str| Filter::of(&fields(text.as_bytes())).unwrap_err();
        assert!(wrong("state=lost").contains("\"lost\", but it must be one of any, waiting"));
        assert!(wrong("before=soon").contains("`before` is \"soon\", but it must be a time such"));
        let with_zone = Filter::of(&fields(b"from=1970-01-01T01:00%2B01:00")).unwrap();
        assert_eq!(with_zone.due.0, Some(SystemTime::UNIX_EPOCH));
    }
}
