//! What a task does, with its type and without: three words of storage and a table of functions.
//!
//! A body of up to three words lies in the storage itself, so that scheduling it allocates nothing;
//! a larger one is boxed and its address lies there.
//!
//! A task also knows whose it is. The table knows the type. The place of the call lies in the word
//! of the storage that a body of up to two words, or a box, leaves free. A task with a body of
//! exactly three words, or with a name, gets a table of its own: see [`labels`].

mod labels;

use std::any::{TypeId, type_name};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr;

use crate::base::identity::{Label, TaskIdentity};
use lars_base::debug_fields;

/// The body of a task. It is run, cancelled or lost: exactly one of the three, once.
///
/// Every `FnOnce() + Send + 'static` is one. A type of your own, scheduled through
/// [`Task::new`](crate::Task::new), can also do something when it is cancelled, and can be taken
/// apart again when it was refused ([`Task::into_body`](crate::Task::into_body)), which a closure
/// cannot.
///
/// A body of up to three words is stored in the timer itself; a larger one is boxed.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::TaskBody;
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::sync::mpsc::{Sender, channel};
/// use std::time::Duration;
///
/// struct Timeout(u32, Sender<(u32, bool)>);
///
/// impl TaskBody for Timeout {
///     fn run(self) {
///         drop(self.1.send((self.0, false)));
///     }
///     fn cancelled(self) {
///         drop(self.1.send((self.0, true))); // answered in time
///     }
/// }
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, receiver) = channel();
/// let second = Duration::from_secs(1);
/// let first = time.schedule_once(second, Task::new(Timeout(1, sender.clone())))?;
/// let _ = time.schedule_once(second, Task::new(Timeout(2, sender.clone())))?;
/// first.cancel();
/// time.advance(second);
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [(1, true), (2, false)]);
///
/// time.close()?;
/// let refused = time.schedule_once(second, Task::new(Timeout(3, sender))).unwrap_err();
/// assert_eq!(refused.into_task().into_body().0, 3); // taken apart again
/// # Ok(()) }
/// ```
pub trait TaskBody: Send + Sized + 'static {
    /// Runs the body.
    fn run(self);

    /// The task was cancelled: called once, on the cancelling thread, instead of `run`.
    fn cancelled(self) {}

    /// The task was accepted, and is dropped without having run or been cancelled: called once, on
    /// the thread that drops it, instead of `run`. By default the body is just dropped.
    ///
    /// This happens when an executor takes a task and drops it, when the scheduler is dropped, and
    /// when a [`PendingTask`](crate::PendingTask) that `stop` handed back is dropped. It does not
    /// happen to a task that was refused, because its body comes back to the caller.
    ///
    /// A panic in it is contained, and reported as
    /// [`PanicIn::Cleanup`](crate::hooks::PanicIn::Cleanup).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::executor::TaskBody;
    /// use lars_scheduler::{LightArrayRevolverScheduler, Task};
    /// use std::sync::mpsc::{Sender, channel};
    /// use std::time::Duration;
    ///
    /// /// Answers in any case.
    /// struct Reply(Sender<&'static str>);
    /// impl TaskBody for Reply {
    ///     fn run(self) {
    ///         drop(self.0.send("done"));
    ///     }
    ///     fn lost(self) {
    ///         drop(self.0.send("never"));
    ///     }
    /// }
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let (sender, receiver) = channel();
    /// let _ = time.schedule_once(Duration::from_secs(1), Task::new(Reply(sender)))?;
    /// drop(time.stop().wait()); // the list of pending tasks, unrun
    /// assert_eq!(receiver.recv()?, "never");
    /// # Ok(()) }
    /// ```
    fn lost(self) {}

    /// Whether inline tasks with this type of body that are due one right after another are run
    /// together, by [`run_due`](Self::run_due). By default they are not.
    const TOGETHER: bool = false;

    /// Runs bodies that are due one right after another, first to last. Use it for tasks that are
    /// cheaper together, such as sends to the same queue.
    ///
    /// Called on the timer thread, or the thread that moves virtual time, if
    /// [`TOGETHER`](Self::TOGETHER) is set and the tasks are [inline](crate::Task::inline) and have
    /// no hook of their own. There are from one to 64 of them, from one turn of the timer. Nothing
    /// else that the scheduler runs comes in between. The row ends at a due task of another type,
    /// at one for an executor, at a repeat, and at the end of the turn. So the order of tasks is
    /// what it would be without this. But a task may count as fired, and be too late to cancel,
    /// while up to 63 that were due before it have not run yet. Not called by `close`, nor for
    /// tasks that `stop` handed back: those run one by one.
    ///
    /// Bodies that are left when this returns are run by [`run`](Self::run). A panic is contained,
    /// and ends only the bodies that had been taken out. Then this is called again with the rest;
    /// if nothing had been taken out, the first is run by `run`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::executor::{Due, TaskBody};
    /// use lars_scheduler::{LightArrayRevolverScheduler, Task};
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    ///
    /// /// Writes a line, and takes the lock once for all lines that are due.
    /// struct Line(Arc<Mutex<Vec<u32>>>, u32);
    /// impl TaskBody for Line {
    ///     const TOGETHER: bool = true;
    ///     fn run(self) {
    ///         self.0.lock().unwrap().push(self.1);
    ///     }
    ///     fn run_due(due: &mut Due<'_, Self>) {
    ///         let Some(first) = due.next() else { return };
    ///         let mut lines = first.0.lock().unwrap();
    ///         lines.push(first.1);
    ///         lines.extend(due.map(|line| line.1));
    ///     }
    /// }
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let lines = Arc::default();
    /// for number in 0..5 {
    ///     let line = Line(Arc::clone(&lines), number);
    ///     time.schedule_once(Duration::from_millis(1), Task::new(line).inline())?;
    /// }
    /// time.advance(Duration::from_millis(1));
    /// assert_eq!(*lines.lock().unwrap(), [0, 1, 2, 3, 4]);
    /// # Ok(()) }
    /// ```
    fn run_due(due: &mut Due<'_, Self>) {
        for body in due {
            body.run();
        }
    }

    /// A caller of `stop` is about to get the task, and may keep it unrun for as long as it likes.
    /// For tasks whose result somebody waits for: the task may still be run. Called on the timer
    /// thread, or the thread that stops virtual time; not by `close`, which deals with the tasks at
    /// once.
    #[doc(hidden)]
    fn handed_back(&self) {}

    /// Whether being cancelled is nothing but being dropped.
    #[doc(hidden)]
    const CANCELLED_IS_DROPPED: bool = false;

    /// Whether it only hands the task to an executor.
    #[doc(hidden)]
    const HANDS_OVER: bool = false;

    /// Runs the body on this thread, whatever its executor is: `close` does that.
    #[doc(hidden)]
    fn run_here(self) {
        self.run();
    }

    /// The type by which the task is known. A body of ours that runs a user's code gives the type
    /// of that code.
    #[doc(hidden)]
    fn known_as() -> &'static str {
        type_name::<Self>()
    }
}

impl<F: FnOnce() + Send + 'static> TaskBody for F {
    const CANCELLED_IS_DROPPED: bool = true;

    fn run(self) {
        self();
    }
}

/// How many words of captures are stored without a box.
const INLINE_WORDS: usize = 3;

type Storage = MaybeUninit<[usize; INLINE_WORDS]>;

/// A [`TaskBody`] of any type, owned. Dropping it calls [`TaskBody::lost`].
///
/// In this order, so that each field is copied by loads that lie inside one of the two stores of
/// the copy before. With the table in front the storage would straddle both, and a processor waits
/// until they are through: 5 ns a task.
#[repr(C)]
pub(crate) struct RawTask {
    /// In a cell because [`Due::peek`] lends bodies that may have cells themselves. It also keeps a
    /// task from being `Sync`, whatever its body is.
    storage: UnsafeCell<Storage>,
    table: &'static Table,
}

/// The functions of one body type, and what is known of its tasks.
///
/// Those that are given the storage consume the body: it must hold one, and holds none after.
#[derive(Clone)]
struct Table {
    run: unsafe fn(*mut Storage),
    run_here: unsafe fn(*mut Storage),
    cancelled: unsafe fn(*mut Storage),
    lost: unsafe fn(*mut Storage),
    /// Leaves the body where it is.
    handed_back: unsafe fn(&RawTask),
    /// Runs tasks that are all of this body type, out of the front.
    run_due: unsafe fn(&mut VecDeque<RawTask>),
    together: bool,
    hands_over: bool,
    /// The body type. (One type may have several tables. This is a function because `TypeId::of` is
    /// const only from Rust 1.91 on.)
    of: fn() -> TypeId,
    /// Whether nothing needs to be done for a body that does not run.
    plain: bool,
    known_as: fn() -> &'static str,
    /// Whether the last word of the storage holds the place, as an `Option<&Location>`.
    keeps_place: bool,
    /// The label of all tasks with this table. Empty for those without a name whose place is in the
    /// storage.
    label: Label,
}

// SAFETY: a `RawTask` is made of a `TaskBody`, which is `Send`, and owns it alone.
unsafe impl Send for RawTask {}

/// Whose a task is, in two words, from which the identity can be made later. Copying them takes no
/// branch.
#[derive(Clone, Copy)]
pub(crate) struct Whose {
    table: &'static Table,
    /// The place, if the table says that the storage keeps it; otherwise a part of the body.
    last_word: MaybeUninit<Place>,
}

impl Whose {
    pub(crate) fn identity(self) -> TaskIdentity {
        let mut label = self.table.label;
        label.place = self.kept_place().or(label.place);
        TaskIdentity::new((self.table.known_as)(), label)
    }

    /// The place that lies beside the body, if one does. (Otherwise the table may have it.)
    fn kept_place(self) -> Place {
        // SAFETY: the table says that `RawTask::new` wrote the place there.
        if self.table.keeps_place { unsafe { self.last_word.assume_init() } } else { None }
    }

    /// Whether it hands something over that runs elsewhere.
    pub(crate) fn hands_over(self) -> bool {
        self.table.hands_over
    }

    /// What tells it from those of other types, places and names. (One identity may have several,
    /// because one type may have several tables.)
    pub(crate) fn key(self) -> (usize, usize) {
        let place = self.kept_place().map_or(0, |place| ptr::from_ref(place).addr());
        (ptr::from_ref(self.table).addr(), place)
    }
}

impl fmt::Debug for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.identity().fmt(f)
    }
}

/// Whether a body of type `B` fits the storage.
const fn fits<B>() -> bool {
    mem::size_of::<B>() <= mem::size_of::<Storage>()
        && mem::align_of::<B>() <= mem::align_of::<Storage>()
}

/// Whether the storage has a word left beside a body of type `B`, or the box of one.
const fn keeps_place<B>() -> bool {
    !fits::<B>() || mem::size_of::<B>() <= mem::size_of::<[usize; LAST_WORD]>()
}

/// The word that is left beside the body.
const LAST_WORD: usize = INLINE_WORDS - 1;

type Place = Option<&'static Location<'static>>;
const _: () = assert!(size_of::<Place>() == size_of::<usize>());

/// Reads a body of type `B` out of the storage.
///
/// # Safety
///
/// The storage holds a body of type `B`, written by `RawTask::new`, and holds none afterwards.
unsafe fn take<B: TaskBody>(storage: *mut Storage) -> B {
    assert_address(storage);
    if fits::<B>() {
        // SAFETY: the storage holds a `B` in place; `fits` says that it has the size and alignment
        // for it.
        unsafe { storage.cast::<B>().read() }
    } else {
        // SAFETY: the storage holds the address of a boxed `B`, which `RawTask::new` wrote.
        *unsafe { Box::from_raw(storage.cast::<*mut B>().read()) }
    }
}

/// (The same code for all types of bodies.)
#[inline]
fn assert_address<T>(place: *const T) {
    debug_assert!(!place.is_null() && place.is_aligned(), "{place:p} is not aligned for a task");
}

struct TableOf<B>(PhantomData<B>);

impl<B: TaskBody> TableOf<B> {
    const TABLE: Table = Table {
        // SAFETY: `RawTask` calls these four with storage that holds a `B`, at most one of them,
        // once, and as the last thing that it does with the storage.
        run: |storage| unsafe { take::<B>(storage) }.run(),
        // SAFETY: `RawTask` passes storage that holds a `B`, and does not use it again.
        run_here: |storage| unsafe { take::<B>(storage) }.run_here(),
        // SAFETY: `RawTask` passes storage that holds a `B`, and does not use it again.
        cancelled: |storage| unsafe { take::<B>(storage) }.cancelled(),
        // SAFETY: `RawTask` passes storage that holds a `B`, and does not use it again.
        lost: |storage| unsafe { take::<B>(storage) }.lost(),
        // SAFETY: `RawTask` calls it with itself, which was made of a `B`.
        handed_back: |task| unsafe { task.body::<B>() }.handed_back(),
        // Safety: called with tasks of this type only.
        run_due: |tasks| B::run_due(&mut Due { tasks, body: PhantomData }),
        together: B::TOGETHER,
        hands_over: B::HANDS_OVER,
        of: TypeId::of::<B>,
        plain: fits::<B>() && !mem::needs_drop::<B>() && B::CANCELLED_IS_DROPPED,
        known_as: B::known_as,
        keeps_place: keeps_place::<B>(),
        label: Label { name: None, place: None },
    };
}

/// The table of tasks that are made of a `B` but known by another type: what a wrapper has in it.
pub(crate) struct KnownAs<B> {
    table: &'static Table,
    of: PhantomData<fn(B)>,
}

impl<B: TaskBody> KnownAs<B> {
    fn itself() -> Self {
        Self { table: const { &TableOf::<B>::TABLE }, of: PhantomData }
    }

    pub(crate) fn a<Inner: TaskBody>() -> Self {
        let table = const { &Table { known_as: Inner::known_as, ..TableOf::<B>::TABLE } };
        Self { table, of: PhantomData }
    }
}

impl RawTask {
    #[inline]
    pub(crate) fn new<B: TaskBody>(body: B, label: Label) -> Self {
        Self::new_as(body, KnownAs::itself(), label)
    }

    /// A task made of `body`, known as one that is made of something else.
    #[inline]
    pub(crate) fn new_as<B: TaskBody>(body: B, known: KnownAs<B>, label: Label) -> Self {
        let mut task = MaybeUninit::uninit();
        // SAFETY: `write_as` is given room for a task, and initializes it.
        unsafe {
            Self::write_as(task.as_mut_ptr(), body, known, label);
            task.assume_init()
        }
    }

    /// Writes a task made of `body` to `this`, without a copy on the way.
    ///
    /// # Safety
    ///
    /// `this` may be written, and is aligned for a task. What is there is overwritten.
    #[inline]
    pub(crate) unsafe fn write<B: TaskBody>(this: *mut Self, body: B, label: Label) {
        // SAFETY: the caller's promise.
        unsafe { Self::write_as(this, body, KnownAs::itself(), label) }
    }

    /// Like [`write`](Self::write), for a task that is known as one of another type.
    ///
    /// # Safety
    ///
    /// Like [`write`](Self::write).
    #[inline]
    unsafe fn write_as<B: TaskBody>(this: *mut Self, body: B, known: KnownAs<B>, label: Label) {
        assert_address(this);
        let mut table = known.table;
        if !keeps_place::<B>() || label.name.is_some() {
            table = labels::labelled(table, label);
        }
        // SAFETY: `this` may be written. `fits` says that a `B` has room in the storage, suitably
        // aligned; an address fits it in any case. Where the place is kept, the body, or the
        // address of its box, ends before the last word of the storage, which has the size and
        // alignment of a `Place`.
        unsafe {
            let storage = UnsafeCell::raw_get(&raw const (*this).storage);
            if fits::<B>() {
                storage.cast::<B>().write(body);
            } else {
                storage.cast::<*mut B>().write(Box::into_raw(Box::new(body)));
            }
            if keeps_place::<B>() {
                storage.cast::<Place>().add(LAST_WORD).write(label.place);
            }
            (&raw mut (*this).table).write(table);
        }
    }

    /// Whose it is. This may be asked even after the body was consumed in place: neither the table
    /// nor the place is a part of the body.
    pub(crate) fn identity(&self) -> TaskIdentity {
        self.whose().identity()
    }

    /// Whose it is, from which the identity can be made later.
    #[inline]
    pub(crate) fn whose(&self) -> Whose {
        // SAFETY: `self` was made by `new`.
        unsafe { Self::whose_at(self) }
    }

    /// Whose the task at this address is, or was that was moved out of it since.
    ///
    /// # Safety
    ///
    /// A task was written to this address, and since then nobody has written to its last two words,
    /// nor does while this reads them.
    #[inline]
    pub(crate) unsafe fn whose_at(this: *const Self) -> Whose {
        assert_address(this);
        // SAFETY: `new` wrote the table, which does not change when the body is consumed or moved
        // out, and is `Copy`. Nobody writes to the last word of the storage. It is copied as it is,
        // initialized or not.
        unsafe {
            let storage = UnsafeCell::raw_get(&raw const (*this).storage);
            Whose {
                table: (&raw const (*this).table).read(),
                last_word: storage.cast::<MaybeUninit<Place>>().add(LAST_WORD).read(),
            }
        }
    }

    /// Runs the body. A panic passes through; the body is gone either way.
    #[inline]
    pub(crate) fn run(self) {
        // SAFETY: `ManuallyDrop` keeps `drop` from taking the body again.
        unsafe { ManuallyDrop::new(self).run_in_place() }
    }

    /// Runs the body without moving the task. A panic passes through; the body is gone either way.
    ///
    /// # Safety
    ///
    /// It is neither used nor dropped after that.
    #[inline]
    pub(crate) unsafe fn run_in_place(&self) {
        // SAFETY: the storage holds the body, and the caller does not use the task after this.
        unsafe { (self.table.run)(self.storage.get()) }
    }

    /// Runs the body on this very thread. A panic passes through; the body is gone either way.
    pub(crate) fn run_here(self) {
        let this = ManuallyDrop::new(self);
        let table = this.table;
        // SAFETY: the storage holds the body, which is taken once: `ManuallyDrop` keeps `drop`
        // away.
        unsafe { (table.run_here)(this.storage.get()) }
    }

    /// Whether the task may be forgotten instead of being cancelled: it owns nothing and has no
    /// hook.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.table.plain
    }

    /// Drops the captures and calls the cancelled hook. A panic passes through.
    pub(crate) fn cancelled(self) {
        let this = ManuallyDrop::new(self);
        let table = this.table;
        // SAFETY: the storage holds the body, which is taken once: `ManuallyDrop` keeps `drop`
        // away.
        unsafe { (table.cancelled)(this.storage.get()) }
    }

    /// Tells the body that it is handed back. A panic passes through; the body stays.
    pub(crate) fn handed_back(&self) {
        // SAFETY: the table is that of the type that the task was made of.
        unsafe { (self.table.handed_back)(self) }
    }

    /// Whether it may run together with others of its type.
    #[inline]
    pub(crate) fn is_together(&self) -> bool {
        self.table.together
    }

    /// Whether it does nothing but hand the real task to an executor.
    #[inline]
    pub(crate) fn hands_over(&self) -> bool {
        self.table.hands_over
    }

    /// Whether both are made of the same body type.
    #[inline]
    fn is_same_type(&self, other: &Self) -> bool {
        let (mine, others) = (self.table.of, other.table.of);
        // One function has one answer. Two may have the same: each codegen unit can have its own.
        ptr::fn_addr_eq(mine, others) || mine() == others()
    }

    /// (The same code for all types of bodies.)
    #[inline]
    fn assert_made_of(&self, of: fn() -> TypeId) {
        debug_assert!((self.table.of)() == of(), "the body has another type");
    }

    /// The body, if it is a `B`, as all are.
    ///
    /// # Safety
    ///
    /// The task was made of a `B`.
    unsafe fn body<B: TaskBody>(&self) -> &B {
        self.assert_made_of(TypeId::of::<B>);
        let storage = self.storage.get().cast_const();
        // SAFETY: the storage holds a `B`, or the address of a boxed one, borrowed as long as the
        // task is.
        unsafe { if fits::<B>() { &*storage.cast::<B>() } else { &**storage.cast::<*mut B>() } }
    }

    /// Takes the body out again, unrun.
    ///
    /// # Safety
    ///
    /// The task was made of a `B`.
    pub(crate) unsafe fn into_body<B: TaskBody>(self) -> B {
        self.assert_made_of(TypeId::of::<B>);
        let this = ManuallyDrop::new(self);
        // SAFETY: the body is a `B`, and `this` is not used again.
        unsafe { take::<B>(this.storage.get()) }
    }
}

impl Drop for RawTask {
    fn drop(&mut self) {
        // SAFETY: whatever consumed the body wrapped `self` in `ManuallyDrop`, so it is still here.
        unsafe { (self.table.lost)(self.storage.get()) }
    }
}

debug_fields!(|_it: RawTask|);

/// The most tasks of a row: enough that sharing pays, and few enough that the first need not wait.
const ROW: usize = 64;

/// Due tasks of one body type that are run together.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// All of one type, which has `TOGETHER`.
    tasks: VecDeque<RawTask>,
}

impl Row {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether the task has the type of those that are there, and there is room.
    #[inline]
    pub(crate) fn takes(&self, task: &RawTask) -> bool {
        let same = |first: &RawTask| first.is_same_type(task);
        self.tasks.front().is_none_or(same) && self.tasks.len() < ROW
    }

    /// Adds a task that the row [`takes`](Self::takes).
    #[inline]
    pub(crate) fn add(&mut self, task: RawTask) {
        // A check and not a promise: `run` relies on it.
        assert!(task.is_together() && self.takes(&task), "the row does not take the task");
        self.tasks.push_back(task);
    }

    /// Whose the first of them is.
    pub(crate) fn first(&self) -> Option<Whose> {
        self.tasks.front().map(RawTask::whose)
    }

    /// Runs the tasks. Call it until the row is empty: a panic passes through, and leaves the tasks
    /// that had not been taken out. Each call takes out at least one.
    pub(crate) fn run(&mut self) {
        let before = self.tasks.len();
        let Some(first) = self.tasks.front() else { return };
        let run_due = first.table.run_due;
        // Unwind safety: the row is whole at any time.
        let result = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: `add` lets in tasks of one type only, the first one's.
            unsafe { run_due(&mut self.tasks) }
        }));
        let alone = match &result {
            Ok(()) => self.tasks.len(),
            Err(_) => usize::from(self.tasks.len() == before),
        };
        for _ in 0..alone {
            if let Some(left) = self.tasks.pop_front() {
                left.run();
            }
        }
        if let Err(payload) = result {
            resume_unwind(payload);
        }
    }
}

/// An iterator that takes out task bodies that are due one right after another, first to last. See
/// [`TaskBody::run_due`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::{Due, TaskBody};
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::sync::mpsc::{Sender, channel};
/// use std::time::Duration;
///
/// /// Reports a number, or the greatest of those that are due together.
/// struct Report(Sender<u32>, u32);
/// impl TaskBody for Report {
///     const TOGETHER: bool = true;
///     fn run(self) {
///         drop(self.0.send(self.1));
///     }
///     fn run_due(due: &mut Due<'_, Self>) {
///         let greatest = due.peek().map(|task| task.1).max().unwrap_or(0);
///         assert_eq!(due.len(), 3);
///         let Some(first) = due.next() else { return };
///         due.for_each(drop); // what is left here would be run one by one
///         drop(first.0.send(greatest));
///     }
/// }
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, receiver) = channel();
/// for number in [1, 3, 2] {
///     let task = Task::new(Report(sender.clone(), number)).inline();
///     time.schedule_once(Duration::from_secs(1), task)?;
/// }
/// time.advance(Duration::from_secs(1));
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [3]);
/// # Ok(()) }
/// ```
pub struct Due<'a, B> {
    /// All of them tasks of a `B`.
    tasks: &'a mut VecDeque<RawTask>,
    body: PhantomData<B>,
}

impl<B: TaskBody> Due<'_, B> {
    /// Those that have not been taken out yet, to be looked at.
    pub fn peek(&self) -> impl Iterator<Item = &B> {
        // SAFETY: all of them are made of a `B`.
        self.tasks.iter().map(|task| unsafe { task.body::<B>() })
    }
}

impl<B: TaskBody> Iterator for Due<'_, B> {
    type Item = B;

    #[inline]
    fn next(&mut self) -> Option<B> {
        // SAFETY: all of them are made of a `B`.
        self.tasks.pop_front().map(|task| unsafe { task.into_body::<B>() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.tasks.len(), Some(self.tasks.len()))
    }
}

impl<B: TaskBody> ExactSizeIterator for Due<'_, B> {}

impl<B> fmt::Debug for Due<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Due").field("left", &self.tasks.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// `Rc` in a `Send` coat: these tests stay on one thread and want to count.
    #[derive(Clone)]
    struct Count(Rc<Cell<u32>>);
    // SAFETY: the tests below never leave their thread.
    unsafe impl Send for Count {}
    impl Count {
        fn new() -> Self {
            Self(Rc::new(Cell::new(0)))
        }
        fn add(&self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[repr(align(64))]
    struct Aligned(Count);

    #[test]
    fn a_body_runs_once_and_drops_its_captures_small_large_or_strictly_aligned() {
        let count = Count::new();
        let (small, large, aligned) = (count.clone(), count.clone(), Aligned(count.clone()));
        RawTask::new(move || small.add(), Label::default()).run();
        let ballast = [7_u64; 16];
        RawTask::new(
            move || {
                assert_eq!(ballast[15], 7);
                large.add();
            },
            Label::default(),
        )
        .run();
        RawTask::new(
            move || {
                let aligned = &aligned;
                assert_eq!((&raw const *aligned).addr() % 64, 0);
                aligned.0.add();
            },
            Label::default(),
        )
        .run();
        assert_eq!(count.0.get(), 3);
        assert_eq!(Rc::strong_count(&count.0), 1);
    }

    #[test]
    fn a_body_that_is_dropped_unrun_drops_its_captures() {
        let count = Count::new();
        let (small, large) = (count.clone(), count.clone());
        drop(RawTask::new(move || small.add(), Label::default()));
        let ballast = [0_u64; 16];
        drop(RawTask::new(
            move || {
                let _ = ballast;
                large.add();
            },
            Label::default(),
        ));
        assert_eq!(count.0.get(), 0);
        assert_eq!(Rc::strong_count(&count.0), 1);
    }

    #[test]
    fn a_body_that_is_told_that_it_is_handed_back_stays_as_it_was() {
        struct Told<B>(Count, B);
        impl<B: Send + 'static> TaskBody for Told<B> {
            fn run(self) {}
            fn handed_back(&self) {
                self.0.add();
            }
        }
        let count = Count::new();
        let small = RawTask::new(Told(count.clone(), ()), Label::default());
        let large = RawTask::new(Told(count.clone(), [7_u64; 16]), Label::default());
        small.handed_back();
        large.handed_back();
        assert_eq!((count.0.get(), Rc::strong_count(&count.0)), (2, 3));
        small.run();
        drop(large);
        assert_eq!(Rc::strong_count(&count.0), 1);
    }

    #[test]
    fn a_body_is_told_that_it_is_lost_exactly_when_it_is_dropped_unrun() {
        struct Told<B>(Count, B);
        impl<B: Send + 'static> TaskBody for Told<B> {
            fn run(self) {}
            fn lost(self) {
                self.0.add();
            }
        }
        fn for_each_end<B: Copy + Send + 'static>(ballast: B) {
            let count = Count::new();
            let task = || RawTask::new(Told(count.clone(), ballast), Label::default());
            task().run();
            task().run_here();
            task().cancelled();
            // SAFETY: the task is made of this type two lines above.
            drop(unsafe { task().into_body::<Told<B>>() });
            assert_eq!((count.0.get(), Rc::strong_count(&count.0)), (0, 1));
            drop(task());
            assert_eq!((count.0.get(), Rc::strong_count(&count.0)), (1, 1));
        }
        for_each_end(());
        for_each_end([7_u64; 16]);
    }

    #[test]
    fn a_panicking_body_drops_its_captures_once() {
        let count = Count::new();
        let inside = count.clone();
        let task = RawTask::new(
            move || {
                inside.add();
                panic!("expected by this test");
            },
            Label::default(),
        );
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.run()));
        assert!(result.is_err());
        assert_eq!(Rc::strong_count(&count.0), 1);
    }

    #[test]
    fn a_refused_body_comes_back_as_it_was() {
        fn round_trip<B: TaskBody>(body: B) -> B {
            // SAFETY: the task is made of a `B` on the same line.
            unsafe { RawTask::new(body, Label::default()).into_body::<B>() }
        }
        let count = Count::new();
        let inside = count.clone();
        let body = round_trip(move || inside.add());
        body();
        assert_eq!(count.0.get(), 1);
    }

    #[test]
    fn a_task_says_whose_it_is_whatever_the_size_of_its_body_and_after_it_has_run() {
        fn check<B: TaskBody + Copy>(body: B) {
            let place = Location::caller();
            for name in [None, Some("named")] {
                let task = ManuallyDrop::new(RawTask::new(body, Label::at(place).named(name)));
                let known = TaskIdentity::new(type_name::<B>(), Label::at(place).named(name));
                assert_eq!(task.identity(), known);
                // SAFETY: the task is not dropped.
                unsafe { task.run_in_place() };
                assert_eq!(task.identity(), known);
            }
        }
        check(|| ());
        let two = [1_usize; 2];
        check(move || assert_eq!(two[1], 1));
        let three = [1_usize; 3];
        check(move || assert_eq!(three[2], 1));
        let four = [1_usize; 4];
        check(move || assert_eq!(four[3], 1));
    }

    #[test]
    fn tasks_of_one_type_with_different_names_still_run_together() {
        struct Sum;
        impl TaskBody for Sum {
            const TOGETHER: bool = true;
            fn run(self) {}
        }
        let place = Location::caller();
        let task = |name| RawTask::new(Sum, Label::at(place).named(name));
        let mut row = Row::default();
        row.add(task(None));
        assert!(row.takes(&task(Some("a"))));
        row.run();
        assert!(row.is_empty());
    }
}
