//! `Debug` for types with private insides.

/// Implements `Debug` for a type: the fields that a reader may want, and `..` for the rest.
///
/// `debug_fields!(|it: Timer| due: it.due(), name: it.name);`
#[macro_export]
macro_rules! debug_fields {
    (|$it:ident: $name:ident $(<$($arg:ident),*>)?| $($field:ident: $value:expr),* $(,)?) => {
        impl $(<$($arg),*>)? std::fmt::Debug for $name $(<$($arg),*>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                let mut shown = f.debug_struct(stringify!($name));
                shown$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    };
}
