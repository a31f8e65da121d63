//! A chunk of tasks, and the workers that claim them.

use loom::thread;

use super::{Token, check};
use crate::base::identity::Label;
use crate::base::panics::Reporter;
use crate::base::raw_task::RawTask;
use crate::executor::chunk::{Chunk, Timed};
use crate::sync::Arc;

fn chunk(tasks: usize) -> (Chunk, Vec<Arc<super::Fate>>) {
    let (tokens, fates): (Vec<_>, _) = (0..tasks).map(|_| Token::new()).unzip();
    let task = |token: Token| RawTask::new(move || token.run(), Label::default());
    let tasks = tokens.into_iter().map(|token| Timed { task: task(token), due: 0 });
    (Chunk::new(tasks.collect(), 0, &Arc::new(Reporter::default())), fates)
}

#[test]
fn each_task_of_a_chunk_is_claimed_by_one_worker_and_none_is_left() {
    check(3, || {
        let (chunk, fates) = chunk(3);
        let chunk = Arc::new(chunk);
        let work = |chunk: Arc<Chunk>| {
            while let Some(task) = chunk.claim() {
                task.run();
            }
        };
        let other = Arc::clone(&chunk);
        let other = thread::spawn(move || work(other));
        work(chunk);
        other.join().unwrap();
        assert!(fates.iter().all(|fate| (fate.runs(), fate.drops()) == (1, 1)));
    });
}

#[test]
fn what_no_worker_has_claimed_is_dropped_with_the_chunk() {
    check(3, || {
        let (chunk, fates) = chunk(3);
        let chunk = Arc::new(chunk);
        let claim = |chunk: Arc<Chunk>| {
            if let Some(task) = chunk.claim() {
                task.run();
            }
        };
        let other = Arc::clone(&chunk);
        let other = thread::spawn(move || claim(other));
        claim(chunk);
        other.join().unwrap();
        assert_eq!(fates.iter().map(|fate| fate.runs()).sum::<usize>(), 2);
        assert!(fates.iter().all(|fate| fate.drops() == 1));
    });
}
