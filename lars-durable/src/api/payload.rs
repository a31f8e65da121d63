//! What a timer carries.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::runtime::contain;

/// The data that a timer carries from the call to the handler, perhaps for months and through many
/// releases.
///
/// It is stored as JSON, with a name and a version. These are data, not Rust paths, so they stay
/// valid when types move.
///
/// # Examples
///
/// A field was added in version 2. Payloads of version 1 can still be read:
///
/// ```
/// use lars_durable::{Payload, UpgradeError};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct PaymentDue {
///     order: u64,
///     currency: String,
/// }
///
/// impl Payload for PaymentDue {
///     const NAME: &'static str = "payment-due";
///     const VERSION: u16 = 2;
///
///     fn upgrade(from: u16, json: &str) -> Result<Self, UpgradeError> {
///         #[derive(Deserialize)]
///         struct V1 {
///             order: u64,
///         }
///         match from {
///             1 => {
///                 let V1 { order } = serde_json::from_str(json)?;
///                 Ok(Self { order, currency: "EUR".into() })
///             }
///             other => Err(UpgradeError::unknown_version(other)),
///         }
///     }
/// }
///
/// let upgraded = PaymentDue::upgrade(1, r#"{"order":17}"#).unwrap();
/// assert_eq!((upgraded.order, upgraded.currency.as_str()), (17, "EUR"));
/// assert!(PaymentDue::upgrade(7, "{}").is_err());
/// ```
pub trait Payload: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the handler that runs it. It must never change or get another meaning.
    const NAME: &'static str;

    /// The version of the JSON that this type writes. A node that knows only older versions puts
    /// the timer off, for another node or for its own next release.
    const VERSION: u16 = 1;

    /// Makes a payload from the JSON that an older version wrote. By default this is an error.
    ///
    /// # Errors
    ///
    /// [`UpgradeError`], which parks the timer.
    fn upgrade(from: u16, json: &str) -> Result<Self, UpgradeError> {
        let _ = json;
        Err(UpgradeError::unknown_version(from))
    }
}

/// Why the JSON of an older version cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct UpgradeError {
    reason: String,
}

impl UpgradeError {
    /// With a reason for people to read.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }

    /// This version cannot be upgraded.
    pub fn unknown_version(from: u16) -> Self {
        Self::new(format!("there is no upgrade from version {from}"))
    }
}

impl From<serde_json::Error> for UpgradeError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Why a stored payload cannot be given to the handler.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A newer release wrote it.
    TooNew,
    /// It can never be read.
    Broken(String),
}

/// A panic while it is read comes back as an error.
pub(super) fn read<P: Payload>(version: u16, json: &str) -> Result<P, Unreadable> {
    if version > P::VERSION {
        return Err(Unreadable::TooNew);
    }
    let read = if version == P::VERSION {
        contain(|| serde_json::from_str(json).map_err(|error| error.to_string()))
    } else {
        contain(|| P::upgrade(version, json).map_err(|error| error.to_string()))
    };
    read.unwrap_or_else(Err).map_err(|error| {
        Unreadable::Broken(format!("the payload (version {version}) cannot be read: {error}"))
    })
}

/// Why it can never be read, if that is so.
pub(super) fn unreadable<P: Payload>(version: u16, json: &str) -> Option<String> {
    // A destructor is foreign code, too. If it panics, the handler will see to that.
    match contain(|| read::<P>(version, json).map(drop)) {
        Ok(Err(Unreadable::Broken(reason))) => Some(reason),
        Ok(Ok(()) | Err(Unreadable::TooNew)) | Err(_) => None,
    }
}
