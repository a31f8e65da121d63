//! Values, one answer, and guarding against panics.

/// `Debug` for a type whose fields cannot all be shown, or need not be.
macro_rules! show {
    ([$($given:tt)*] $type:ty, $name:literal, |$it:ident| $($field:ident: $value:expr),+) => {
        impl<$($given)*> ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let $it = self;
                f.debug_struct($name)$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) mod name;

pub(crate) mod late;
pub(crate) mod lineage;
pub(crate) mod panics;
pub(crate) mod slow_receive;
pub(crate) mod stop_reason;
pub(crate) mod threads;
pub(crate) mod timer_key;

pub(crate) mod supervision;

pub(crate) mod error;
pub(crate) mod oneshot;
