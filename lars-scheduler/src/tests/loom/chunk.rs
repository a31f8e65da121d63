//! A chunk of tasks, and the workers that claim them.

use loom::thread;

use super::{Token, check};
use crate::base::identity::Label;
use crate::base::panics::Reporter;
use crate::base::raw_task::RawTask;
use crate::executor::chunk::{Chunks, SharedChunk, Timed};
use crate::sync::Arc;

/// A chunk of new tasks.
fn fill(chunks: &mut Chunks, tasks: usize) -> (SharedChunk, Vec<Arc<super::Fate>>) {
    let (tokens, fates): (Vec<_>, _) = (0..tasks).map(|_| Token::new()).unzip();
    let task = |token: Token| RawTask::new(move || token.run(), Label::default());
    let tasks = tokens.into_iter().map(|token| Timed { task: task(token), due: 0 });
    let (mut tasks, reporter): (Vec<_>, _) = (tasks.collect(), Arc::new(Reporter::default()));
    (chunks.fill(&mut tasks, (0, None), &reporter, true), fates)
}

fn chunk(tasks: usize) -> (SharedChunk, Vec<Arc<super::Fate>>) {
    fill(&mut Chunks::default(), tasks)
}

fn work(chunk: SharedChunk) {
    while let Some(task) = chunk.claim() {
        task.run();
    }
}

#[test]
fn each_task_of_a_chunk_is_claimed_by_one_worker_and_none_is_left() {
    check(3, || {
        let (chunk, fates) = chunk(3);
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
        let claim = |chunk: SharedChunk| {
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

#[test]
fn a_chunk_is_used_again_only_when_no_worker_is_at_it() {
    check(3, || {
        let mut chunks = Chunks::default();
        let (first, mut fates) = fill(&mut chunks, 2);
        let worker = thread::spawn(move || work(first));
        // These may use the same memory, while the worker is at its first task or at its last one.
        for _ in 0..2 {
            let (next, more) = fill(&mut chunks, 1);
            fates.extend(more);
            work(next);
        }
        worker.join().unwrap();
        assert!(fates.iter().all(|fate| (fate.runs(), fate.drops()) == (1, 1)));
    });
}

#[test]
fn a_chunk_in_which_one_worker_is_stuck_is_shared_and_each_task_runs_once() {
    check(3, || {
        let mut chunks = Chunks::default();
        let (chunk, fates) = fill(&mut chunks, 2);
        let worker = thread::spawn(move || work(chunk));
        let mut help = Vec::new();
        // The clock says that it is time, whatever the worker has done so far.
        if chunks.look(u64::MAX, |chunk| help.push(SharedChunk::clone(chunk))).is_some() {
            // The worker had not begun. The scheduler ends, and nobody will look again.
            chunks.share_all(|chunk| help.push(SharedChunk::clone(chunk)));
        }
        help.into_iter().for_each(work);
        worker.join().unwrap();
        assert!(fates.iter().all(|fate| (fate.runs(), fate.drops()) == (1, 1)));
    });
}
