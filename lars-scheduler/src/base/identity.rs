//! Whose a task is: a name, a type, a place in the source.

use std::any::type_name;
use std::fmt;
use std::panic::Location;

/// Whose a task is: the type of its body, the place of the call that scheduled it, and its name, if
/// it has one.
///
/// You find it in every [`PanicReport`](crate::hooks::PanicReport) of a task, in the log, in each
/// [`PendingTask`](crate::PendingTask), and in the [`Listing`](crate::listing::Listing) of what is
/// pending. It makes no timer larger: the functions that run the body know the type, and the place
/// is kept with the captures.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let task = Task::new(|| println!("flushed")).named("flush");
/// let timer = time.schedule_once(Duration::from_secs(1), task)?;
///
/// let identity = timer.identity();
/// assert_eq!(identity.name(), Some("flush"));
/// assert!(identity.type_name().ends_with("{{closure}}"));
/// assert!(identity.place().is_some());
/// assert!(identity.to_string().starts_with("`flush`, scheduled at "));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskIdentity {
    name: Option<&'static str>,
    type_name: &'static str,
    place: Option<&'static Location<'static>>,
}

impl TaskIdentity {
    pub(crate) fn new(type_name: &'static str, label: Label) -> Self {
        Self { name: label.name, type_name, place: label.place }
    }

    /// Work of this type that no timer was scheduled for.
    pub(crate) fn of_type<T>() -> Self {
        Self::new(type_name::<T>(), Label::default())
    }

    /// The name that [`Task::named`](crate::Task::named),
    /// [`Periodic::named`](crate::Periodic::named) or the system that made the task gave it.
    pub fn name(&self) -> Option<&'static str> {
        self.name
    }

    /// The type of its body. A closure's type names the function that contains it.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// The place of the call that scheduled it. `None` for a
    /// [`Runnable`](crate::executor::Runnable) that was never scheduled.
    ///
    /// Tasks with a name, or with captures of exactly three words, share a table of 65,536
    /// combinations of type, place and name. When it is full, new combinations have neither name
    /// nor place.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.place
    }

    /// The name, or the type if it has no name.
    pub fn label(&self) -> &'static str {
        self.name.unwrap_or(self.type_name)
    }
}

impl fmt::Display for TaskIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.label())?;
        match self.place {
            Some(place) => write!(f, ", scheduled at {place}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for TaskIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskIdentity")
            .field("name", &self.name)
            .field("type_name", &self.type_name)
            .field("place", &self.place.map(ToString::to_string))
            .finish()
    }
}

/// What is known of a task beside its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Label {
    pub(crate) name: Option<&'static str>,
    pub(crate) place: Option<&'static Location<'static>>,
}

#[cfg_attr(lars_loom, allow(dead_code))] // no model has the systems that use some of this
impl Label {
    /// The label of an unnamed task that was scheduled here.
    #[inline]
    pub(crate) fn at(place: &'static Location<'static>) -> Self {
        Self { name: None, place: Some(place) }
    }

    #[inline]
    pub(crate) fn named(self, name: Option<&'static str>) -> Self {
        Self { name, ..self }
    }

    /// This label, with `place` if it has no place of its own.
    #[inline]
    pub(crate) fn or_at(self, place: &'static Location<'static>) -> Self {
        Self { place: self.place.or(Some(place)), ..self }
    }
}
