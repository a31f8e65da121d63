//! Values, both ways.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use bytes::BytesMut;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::time::Timestamp;

type Boxed = Box<dyn Error + Sync + Send>;

/// From 1970 to 2000, where PostgreSQL begins to count.
const EPOCH: i64 = 946_684_800_000_000;

/// What PostgreSQL can express, counted from 2000: from here on, and before here.
const FIRST: i64 = -211_813_488_000_000_000;
const END: i64 = 9_223_371_331_200_000_000;

/// A hundred thousand years in microseconds. PostgreSQL has no date that is much later.
pub(super) const FAR: i64 = 100_000 * 365 * 86_400 * 1_000_000;

/// A random identity, as a `uuid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(pub(super) u128);

/// A parameter whose `Debug` hides it: the client logs parameters, and they hold keys and payloads.
#[derive(Clone, Copy)]
pub(super) struct Hidden<'a>(pub(super) &'a (dyn ToSql + Sync));

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl ToSql for Hidden<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        self.0.to_sql_checked(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        // What is inside is asked when it is written.
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }

    to_sql_checked!();
}

impl ToSql for Timestamp {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        let counted = match self.0.saturating_sub(EPOCH) {
            _ if *self == Self::NEVER => i64::MAX,
            ..FIRST => i64::MIN,
            END.. => i64::MAX,
            counted => counted,
        };
        out.extend_from_slice(&counted.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Timestamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        Ok(match i64::from_be_bytes(raw.try_into()?) {
            i64::MAX => Self::NEVER,
            i64::MIN => Self::MIN,
            counted => Self(counted.saturating_add(EPOCH)),
        })
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    accepts!(UUID);
}

/// A text that a database accepts: one with a NUL byte would be refused forever.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
