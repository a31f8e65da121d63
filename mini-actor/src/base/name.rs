//! Which names systems and actors may have.

/// The rule, for errors. [`System::spawn`](crate::System::spawn) has it for users.
pub(crate) const NAME_RULE: &str =
    "a name must have 1 to 255 bytes, neither '/' nor control characters, and no '$' in front";

pub(crate) fn is_name(name: &str) -> bool {
    let is_good = |c: char| c != '/' && !c.is_control();
    (1..=255).contains(&name.len()) && !name.starts_with('$') && name.chars().all(is_good)
}

/// A name, which for an actor that was given none is its number, behind a `$`. Very many are never
/// shown, so the digits are made when somebody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Name<T> {
    Given(T),
    Anonymous(u64),
}

impl<'a> Name<&'a str> {
    /// What a name in a path means. Of a number there is one way to write it.
    pub(crate) fn parse(name: &'a str) -> Self {
        let is_number = |digits: &&str| {
            !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let number = name.strip_prefix('$').filter(is_number).and_then(|it| it.parse().ok());
        number.map_or(Self::Given(name), Self::Anonymous)
    }
}

impl Name<&str> {
    /// A name of its own.
    pub(crate) fn keep(self) -> Name<Box<str>> {
        match self {
            Self::Given(name) => Name::Given(name.into()),
            Self::Anonymous(number) => Name::Anonymous(number),
        }
    }
}

impl<T: AsRef<str>> Name<T> {
    pub(crate) fn borrow(&self) -> Name<&str> {
        match self {
            Self::Given(name) => Name::Given(name.as_ref()),
            Self::Anonymous(number) => Name::Anonymous(*number),
        }
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Given(name) => name.as_ref().len(),
            Self::Anonymous(number) => 2 + number.checked_ilog10().unwrap_or(0) as usize,
        }
    }

    /// Writes it to a place of as many bytes.
    pub(crate) fn write(&self, place: &mut [u8]) {
        match self {
            Self::Given(name) => place.copy_from_slice(name.as_ref().as_bytes()),
            Self::Anonymous(number) => {
                let mut number = *number;
                place[0] = b'$';
                for digit in place[1..].iter_mut().rev() {
                    *digit = b'0' + (number % 10) as u8;
                    number /= 10;
                }
            }
        }
    }
}
