//! Which names systems and actors may have.

/// The rule, for errors. [`System::spawn`](crate::System::spawn) has it for users.
pub(crate) const NAME_RULE: &str =
    "a name must have 1 to 255 bytes, neither '/' nor control characters, and no '$' in front";

pub(crate) fn is_name(name: &str) -> bool {
    let is_good = |c: char| c != '/' && !c.is_control();
    (1..=255).contains(&name.len()) && !name.starts_with('$') && name.chars().all(is_good)
}
