//! One thread that answers what single pages ask of a group, one question after the other. So
//! however many pages ask, the store has one question of theirs at a time.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use futures::channel::oneshot;

use crate::source::{Reads, Trouble};

/// How many questions wait at most.
const LONGEST_QUEUE: usize = 64;

type Question = Box<dyn FnOnce(&mut dyn Reads) + Send>;

/// See the module's documentation. Its thread ends when this is dropped.
pub(crate) struct Desk(SyncSender<Question>);

impl Desk {
    pub(crate) fn open(mut reader: Box<dyn Reads>) -> io::Result<Self> {
        let (sender, questions) = sync_channel::<Question>(LONGEST_QUEUE);
        thread::Builder::new().name("lars-web-desk".to_owned()).spawn(move || {
            while let Ok(question) = questions.recv() {
                question(&mut *reader);
            }
        })?;
        Ok(Self(sender))
    }

    /// The answer to a question. Whoever has gone meanwhile is not answered, and costs nothing.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Reads) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let (sender, answer) = oneshot::channel();
        let question = Box::new(move |reader: &mut dyn Reads| {
            if !sender.is_canceled() {
                let _ = sender.send(ask(reader));
            }
        });
        match self.0.try_send(question) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let text = format!("{LONGEST_QUEUE} other questions wait: try again in a moment");
                return Err(Trouble::Away(text));
            }
            Err(TrySendError::Disconnected(_)) => return Err(Trouble::Away(GONE.to_owned())),
        }
        answer.await.unwrap_or_else(|_| Err(Trouble::Away(GONE.to_owned())))
    }
}

const GONE: &str = "a defect: the thread that looks has ended";

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;
    use lars_durable::Durable;

    use super::*;
    use crate::source::Source;

    #[test]
    fn questions_are_answered_one_after_the_other_and_too_many_are_refused() {
        let durable = Durable::in_memory().start().unwrap();
        let desk = Desk::open(Source::live(durable.timers()).reader()).unwrap();
        let (begin, begun) = std::sync::mpsc::channel();
        let (go, going) = std::sync::mpsc::channel::<()>();
        let mut first = Box::pin(desk.ask(move |_| {
            begin.send(()).unwrap();
            Ok(going.recv().is_ok())
        }));
        assert!((&mut first).now_or_never().is_none());
        begun.recv().unwrap();
        let mut others: Vec<_> =
            (0..LONGEST_QUEUE).map(|n| Box::pin(desk.ask(move |_| Ok(n)))).collect();
        for other in &mut others {
            assert!(other.now_or_never().is_none());
        }
        let refused = block_on(desk.ask(|_| Ok(()))).unwrap_err();
        assert!(refused.to_string().contains("64 other questions wait"), "{refused}");
        go.send(()).unwrap();
        assert!(block_on(first).unwrap());
        for (number, other) in others.into_iter().enumerate() {
            assert_eq!(block_on(other).unwrap(), number);
        }
    }
}
