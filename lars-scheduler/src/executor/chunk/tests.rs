//! Which chunks are used again, and which ones the driver offers to more workers. What workers do
//! with one is in the models.

use super::*;
use crate::base::identity::Label;

/// A task for each of these; it has the token until it is dropped.
fn tasks(many: usize, token: &Arc<()>) -> Vec<Timed> {
    let task = |token: Arc<()>| RawTask::new(move || drop(token), Label::default());
    (0..many).map(|_| Timed { task: task(Arc::clone(token)), due: 0 }).collect()
}

impl Chunks {
    /// Hands over a chunk of two tasks.
    fn hand_over(&mut self, now: u64) -> SharedChunk {
        self.hand_over_to(now, true)
    }

    fn hand_over_to(&mut self, now: u64, is_looked_after: bool) -> SharedChunk {
        let reporter = Arc::new(Reporter::default());
        self.fill(&mut tasks(2, &Arc::new(())), (now, None), &reporter, is_looked_after)
    }

    /// When to look next, and which chunks more workers should take.
    fn seen(&mut self, now: u64) -> (Option<u64>, Vec<SharedChunk>) {
        let mut to_share = Vec::new();
        (self.look(now, |chunk| to_share.push(Arc::clone(chunk))), to_share)
    }

    fn offered_at_once(&mut self) -> Vec<SharedChunk> {
        let mut to_share = Vec::new();
        self.share_all(|chunk| to_share.push(Arc::clone(chunk)));
        to_share
    }
}

/// A worker runs so many of the tasks, if there are as many.
fn work(chunk: &SharedChunk, most: usize) -> usize {
    std::iter::from_fn(|| chunk.claim()).take(most).map(Claim::run).count()
}

fn are(found: &[SharedChunk], expected: &[&SharedChunk]) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(one, other)| Arc::ptr_eq(one, other))
}

#[test]
fn a_chunk_is_used_again_once_all_its_tasks_are_claimed_and_its_workers_have_let_it_go() {
    let mut chunks = Chunks::default();
    let first = chunks.hand_over(0);
    let place = Arc::as_ptr(&first);
    assert_eq!(work(&first, 1), 1);
    let second = chunks.hand_over(0);
    assert_ne!(Arc::as_ptr(&second), place, "it has a task that nobody has claimed");
    assert_eq!(work(&first, 9), 1);
    let third = chunks.hand_over(0);
    assert_ne!(Arc::as_ptr(&third), place, "a worker is still at it");
    drop(first);
    let again = chunks.hand_over(0);
    assert_eq!(Arc::as_ptr(&again), place);
    assert_eq!((work(&again, 9), again.has_more()), (2, false));
}

#[test]
fn a_task_that_never_ends_keeps_its_own_chunk_and_none_behind_it() {
    let mut chunks = Chunks::default();
    let [kept, other] = [(); 2].map(|()| chunks.hand_over(0));
    let place = Arc::as_ptr(&other);
    work(&kept, 2);
    work(&other, 2);
    drop(other);
    let new = chunks.hand_over(0);
    assert!(![Arc::as_ptr(&kept), place].contains(&Arc::as_ptr(&new)));
    assert_eq!(Arc::as_ptr(&chunks.hand_over(0)), place);
}

#[test]
fn after_a_burst_each_use_frees_a_chunk_until_a_few_are_left() {
    let mut chunks = Chunks::default();
    let burst: Vec<_> = (0..FEW + 3).map(|_| chunks.hand_over(0)).collect();
    burst.iter().for_each(|chunk| assert_eq!(work(chunk, 2), 2));
    drop(burst);
    let left = [(); 4].map(|()| {
        work(&chunks.hand_over(0), 2);
        chunks.under_way.len() + chunks.claimed.len()
    });
    assert_eq!(left, [FEW + 2, FEW + 1, FEW + 1, FEW + 1]);
}

#[test]
fn the_chunks_that_a_burst_has_in_excess_are_not_kept_and_are_shared_at_once() {
    let mut chunks = Chunks::default();
    let burst: Vec<_> = (0..=KEPT).map(|_| chunks.hand_over(0)).collect();
    let (last, others) = burst.split_last().unwrap();
    assert!(others.iter().all(|chunk| !chunk.is_shared() && Arc::strong_count(chunk) == 2));
    assert!(last.is_shared() && Arc::strong_count(last) == 1);
}

#[test]
fn a_chunk_is_offered_to_more_workers_a_millisecond_after_its_hand_over_if_tasks_are_left() {
    let mut chunks = Chunks::default();
    let [first, done, second] = [0, 0, 500].map(|now| chunks.hand_over(now));
    work(&first, 1);
    work(&done, 2);
    let is_nothing = |(next, to_share): (_, Vec<_>), at| next == at && to_share.is_empty();
    assert!(is_nothing(chunks.seen(HELP_AFTER - 1), Some(HELP_AFTER)));
    let (next, to_share) = chunks.seen(HELP_AFTER);
    assert_eq!(next, Some(HELP_AFTER + 500));
    assert!(are(&to_share, &[&first]));
    first.share();
    let (next, to_share) = chunks.seen(HELP_AFTER + 500);
    assert!(next.is_none() && are(&to_share, &[&second]), "the first has been offered");
    assert!(is_nothing(chunks.seen(9 * HELP_AFTER), None), "there is nothing left to look after");
}

#[test]
fn a_chunk_that_is_not_looked_after_is_shared_at_once() {
    let mut chunks = Chunks::default();
    let chunk = chunks.hand_over_to(0, false);
    assert!(chunk.is_shared());
    let (next, to_share) = chunks.seen(0);
    assert!(next.is_none() && to_share.is_empty() && chunks.offered_at_once().is_empty());
}

#[test]
fn before_a_task_on_the_timer_thread_all_chunks_that_are_under_way_are_offered_once() {
    let mut chunks = Chunks::default();
    let all = [(); 4].map(|()| chunks.hand_over(0));
    work(&all[0], 2);
    all[2].share();
    assert!(are(&chunks.offered_at_once(), &[&all[1], &all[3]]));
    assert!(chunks.offered_at_once().is_empty());
    let later = chunks.hand_over(0);
    all.iter().for_each(|chunk| chunk.share());
    assert!(are(&chunks.offered_at_once(), &[&later]));
}

#[test]
fn tasks_that_nobody_claims_are_dropped_with_their_chunk() {
    let (mut chunks, token) = (Chunks::default(), Arc::new(()));
    let (left, reporter) = (&mut tasks(3, &token), Arc::new(Reporter::default()));
    let chunk = chunks.fill(left, (0, None), &reporter, true);
    assert_eq!((work(&chunk, 1), Arc::strong_count(&token)), (1, 3));
    drop(chunks);
    assert_eq!(Arc::strong_count(&token), 3, "a worker may still claim them");
    drop(chunk);
    assert_eq!(Arc::strong_count(&token), 1);
}
