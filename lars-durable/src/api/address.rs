//! `kind/name`, and how a message carries its address.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Refused;

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

/// The recipient of a payload, and the JSON of its message.
pub(super) fn open(payload: &str) -> Result<(String, &str), String> {
    let letter: Letter<'_> = serde_json::from_str(payload)
        .map_err(|error| format!("the payload is not a message for an actor: {error}"))?;
    Ok((letter.to.into_owned(), letter.message.get()))
}
