//! `kind/name`, and how a message carries its address.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Refused;
use crate::model::Recipient;

/// The longest address.
const MAX_ADDRESS: usize = 255;

/// What is stored: the name, and the message's own JSON.
#[derive(Serialize, Deserialize)]
struct Letter<'a> {
    #[serde(borrow)]
    to: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    message: &'a RawValue,
}

/// The name in an address of this kind.
pub(super) fn name<'a>(address: &'a str, kind: &'static str) -> Result<&'a str, Refused> {
    let name = address.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/'));
    match name {
        Some(name) if !name.is_empty() && address.len() <= MAX_ADDRESS => Ok(name),
        _ => Err(Refused::Address { given: address.into(), kind, max: MAX_ADDRESS }),
    }
}

/// The payload of a message for `name`.
pub(super) fn letter(name: &str, json: String) -> Result<String, Refused> {
    let failed = |error: serde_json::Error| Refused::Payload { reason: error.to_string() };
    let message = RawValue::from_string(json).map_err(failed)?;
    serde_json::to_string(&Letter { to: name.into(), message: &message }).map_err(failed)
}

/// Whose a payload is, by its beginning: nobody's that is known, if it is not such a message.
pub(super) fn recipient(beginning: &str) -> Recipient {
    // As `letter` writes it. It may be cut off behind the name.
    let quoted = beginning.trim_start().strip_prefix('{');
    let quoted = quoted.and_then(|rest| rest.trim_start().strip_prefix("\"to\""));
    let quoted = quoted.and_then(|rest| rest.trim_start().strip_prefix(':'));
    let name = match quoted {
        Some(name) => serde_json::Deserializer::from_str(name).into_iter::<String>().next(),
        // Somebody else wrote it, in another order.
        None => open(beginning).ok().map(|(name, _)| Ok(name)),
    };
    name.and_then(Result::ok).map(|name| Recipient::of(&name)).unwrap_or_default()
}

/// The recipient of a payload, and the JSON of its message.
pub(super) fn open(payload: &str) -> Result<(String, &str), String> {
    let letter: Letter<'_> = serde_json::from_str(payload)
        .map_err(|error| format!("the payload is not a message for an actor: {error}"))?;
    Ok((letter.to.into_owned(), letter.message.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LETTER;

    #[test]
    fn whose_a_payload_is_is_known_by_its_beginning_whoever_wrote_it() {
        // The longest name, each of its characters as long as they become.
        let longest = "\u{1}".repeat(MAX_ADDRESS);
        for name in ["17", "a \"b\" \\ c", "\u{fc}", &longest] {
            let long = letter(name, format!("{:?}", "x".repeat(10_000))).unwrap();
            let cut: String = long.chars().take(LETTER.into()).collect();
            let spaced = serde_json::json!({ "to": name, "message": 1 }).to_string();
            let spaced = spaced.replace("\"to\":", " \"to\" : ");
            let turned = letter(name, "1".into()).unwrap();
            let (to, message) = turned[1..turned.len() - 1].split_at(turned.len() - 14);
            let turned = format!("{{{},{to}}}", message.trim_start_matches(','));
            for text in [&long, &cut, &spaced, &turned] {
                assert_eq!(recipient(text), Recipient::of(name), "{text}");
            }
        }
        for text in ["", "17", "{}", r#"{"to""#, r#"{"to":17}"#, r#"{"to":"17"#] {
            assert_eq!(recipient(text), Recipient::default(), "{text}");
        }
    }
}
