//! Why a task began late: what its thread did in the time between.
//!
//! Each thread that begins tasks keeps a [`Journal`](journal::Journal) of what it has done lately:
//! which tasks it ran, when it slept, which gates it found shut. When a task begins late, the time
//! between the instant that was promised for it and its begin is laid over the journal, and each
//! piece of it is charged to what the thread did then. So the shares add up to the lateness, by
//! construction.
//!
//! A task that goes to a pool is late for what happened on two threads. The timer thread explains
//! its part when it hands the task over ([`History`](journal::History)), and the thread of the pool
//! explains the rest: what it did itself while the task was in the queue. (The first thread of the
//! pool that became free took the task, so all the others were busy for at least as long.)
//!
//! What the machine did (a thread that waits for a core, a control group over its quota, a
//! hypervisor that runs somebody else) leaves no trace in a journal but a sleep, or a task, that
//! took longer than it should have. [`machine`] asks the kernel about that after each of these.

pub(crate) mod machine;
pub(crate) mod parts;

pub(crate) mod journal;
pub(crate) mod report;

/// Why a task began late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// A task ran on the timer thread that took longer by itself than the bound for lateness.
    InlineTask,
    /// Tasks that take less, of the same or of earlier ticks, stood before it on the timer thread.
    TasksBefore,
    /// All threads of the pool were in tasks.
    PoolBusy,
    /// The queue of the pool was full
    /// ([`PoolBuilder::queue`](crate::executor::PoolBuilder::queue)).
    PoolFull,
    /// It waited in an executor that is not ours.
    OtherExecutor,
    /// A thread was interrupted in the middle of a call that schedules something, so that the timer
    /// thread could not look at what that thread had scheduled before.
    Gate,
    /// The timer thread moved entries between levels of its wheels, took in what other threads had
    /// scheduled or cancelled, or made a listing.
    Housekeeping,
    /// A hook ran on its thread, or a line was written to the log.
    Hook,
    /// The event loop that turns a [`TimerDriver`](crate::TimerDriver) did something else.
    EventLoop,
    /// The thread was ready to run, and had no processor: the machine was busy.
    Processor,
    /// The thread was ready to run, and its control group had used up its quota.
    Throttled,
    /// The hypervisor gave the processor to another guest.
    Stolen,
    /// The machine was suspended
    /// ([`Builder::count_suspend`](crate::Builder::count_suspend) is on).
    Suspended,
    /// The thread slept for longer than it had asked for, or was stopped in the middle of its own
    /// work, and the kernel says of none of these that it was why. A process that is stopped, by a
    /// signal or a debugger, looks like this.
    Overslept,
    /// The actor was in another message.
    ActorBusy,
    /// Other messages were in its mailbox before it.
    MessagesBefore,
    /// All threads of the actor's dispatcher were with other actors.
    DispatcherBusy,
    /// The store of the durable timers answered late.
    Store,
    /// As many runs of the durable timer's handler were under way as it may have.
    HandlerFull,
    /// As many runs were under way as the node may have.
    NodeFull,
    /// No node owned the bucket of the durable timer: its owner had stopped, or had been declared
    /// dead.
    NoOwner,
    /// The timer behind it was late itself. That is in the table of its scheduler.
    Timer,
    /// The platform does not say, or it was too long ago.
    Unknown,
}

impl Cause {
    /// In a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InlineTask => "an inline task ran",
            Self::TasksBefore => "tasks stood before it",
            Self::PoolBusy => "all threads of the pool were busy",
            Self::PoolFull => "the queue of the pool was full",
            Self::OtherExecutor => "it waited in another executor",
            Self::Gate => "a thread was interrupted while it scheduled",
            Self::Housekeeping => "timer thread housekeeping",
            Self::Hook => "a hook or the log took its time",
            Self::EventLoop => "the event loop was elsewhere",
            Self::Processor => "no processor was free",
            Self::Throttled => "the control group was over its quota",
            Self::Stolen => "the hypervisor ran somebody else",
            Self::Suspended => "the machine was suspended",
            Self::Overslept => "the thread overslept",
            Self::ActorBusy => "the actor was in another message",
            Self::MessagesBefore => "messages stood before it in the mailbox",
            Self::DispatcherBusy => "all threads of the dispatcher were busy",
            Self::Store => "the store answered late",
            Self::HandlerFull => "the handler was at its limit",
            Self::NodeFull => "the node was at its limit",
            Self::NoOwner => "no node owned its bucket",
            Self::Timer => "its timer was late",
            Self::Unknown => "unknown",
        }
    }

    /// In one word of small letters and `_`, as the label of a metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::InlineTask => "inline_task",
            Self::TasksBefore => "tasks_before",
            Self::PoolBusy => "pool_busy",
            Self::PoolFull => "pool_full",
            Self::OtherExecutor => "other_executor",
            Self::Gate => "gate",
            Self::Housekeeping => "housekeeping",
            Self::Hook => "hook",
            Self::EventLoop => "event_loop",
            Self::Processor => "processor",
            Self::Throttled => "throttled",
            Self::Stolen => "stolen",
            Self::Suspended => "suspended",
            Self::Overslept => "overslept",
            Self::ActorBusy => "actor_busy",
            Self::MessagesBefore => "messages_before",
            Self::DispatcherBusy => "dispatcher_busy",
            Self::Store => "store",
            Self::HandlerFull => "handler_full",
            Self::NodeFull => "node_full",
            Self::NoOwner => "no_owner",
            Self::Timer => "timer",
            Self::Unknown => "unknown",
        }
    }
}
