//! What is left on the disk when the power fails, and what a disk that fails does.
//!
//! A VFS below SQLite sees every sync and every write. After each sync a copy is made of what is
//! certainly on the disk: each file as it was at its last sync, and of the file that is being
//! written any part of what came after, with a torn end. Every copy has to open, and has to have
//! everything that was acknowledged before it was made.

mod vfs;

use std::collections::BTreeSet;

use self::vfs::{Disk, Image};
use super::tempdir::Directory;
use crate::model::{NewTimer, NodeId, OnConflict, TimerId, When};
use crate::store::{
    Keep, Letters, Reply, Request, SqliteStore, Store, StoreError, Synchronous, Terms, Write,
};
use crate::sync::Arc;
use crate::time::Micros;
use crate::time::{Timestamp, system_clock};

const NODE: NodeId = 1;

fn open(directory: &Directory, vfs: Option<&str>) -> SqliteStore {
    let synchronous = Synchronous::Full;
    let mut store =
        SqliteStore::open_with(&directory.file(), vfs, "default", synchronous, system_clock())
            .unwrap();
    let keep = [
        Request::Keep(Keep::Join { node: NODE, serves: true, terms: Terms::default() }),
        Request::Keep(Keep::Claim { node: NODE, dead: Vec::new(), buckets: vec![0] }),
    ];
    store.transact(&keep).unwrap();
    store
}

fn timer(id: TimerId, size: usize) -> Request {
    Request::Write(Write::Schedule(Arc::new(vec![NewTimer {
        id,
        bucket: 0,
        when: When::After(Micros::SECOND * 3_600),
        offset: Micros::ZERO,
        home: None,
        key: Some(format!("key {id}").into()),
        tag: None,
        conflict: OnConflict::Fail,
        handler: "handler".into(),
        payload_version: 1,
        payload: "x".repeat(size).into(),
        series: None,
        remember: crate::time::Micros::ZERO,
    }])))
}

fn ids(store: &mut SqliteStore) -> Result<BTreeSet<TimerId>, StoreError> {
    let (after, until) = ((Timestamp::MIN, TimerId::MIN), Timestamp::NEVER);
    let load =
        Request::Load { bucket: 0, after, until, limit: usize::MAX, letters: Letters::default() };
    let reply = store.transact(&[load])?.replies.pop();
    let Some(Reply::Loaded(rows)) = reply else { panic!("{reply:?}") };
    Ok(rows.into_iter().map(|row| row.id).collect())
}

#[test]
fn after_a_power_cut_at_any_sync_the_file_opens_and_has_all_that_was_acknowledged() {
    let directory = Directory::new("power");
    let disk = Disk::named("lars-power");
    let mut rng = fastrand::Rng::with_seed(11);
    let mut store = open(&directory, Some("lars-power"));
    disk.watch();
    let (mut acknowledged, mut cancelled) = (BTreeSet::new(), BTreeSet::new());
    let mut images: Vec<(Image, BTreeSet<TimerId>, BTreeSet<TimerId>)> = Vec::new();
    // Enough for the log to be written back into the file, and restarted, several times.
    for id in 1..=160 {
        let size = rng.usize(1..60_000);
        store.transact(&[timer(id, size)]).unwrap();
        // What the syncs of this transaction left had what was acknowledged before it.
        let made = disk.take_images(&mut rng);
        images.extend(made.into_iter().map(|it| (it, acknowledged.clone(), cancelled.clone())));
        acknowledged.insert(id);
        if rng.u8(..4) == 0 {
            let which = format!("key {}", rng.i64(1..=id)).as_str().into();
            let write = Request::Write(Write::Cancel { which });
            let reply = store.transact(&[write]).unwrap().replies.pop();
            let made = disk.take_images(&mut rng);
            images.extend(made.into_iter().map(|it| (it, acknowledged.clone(), cancelled.clone())));
            if let Some(Reply::Written(crate::store::Written::Prevented { id, .. })) = reply {
                cancelled.insert(id);
            }
        }
    }
    drop(store);
    assert!(images.len() > 160, "{} images", images.len());
    assert!(images.iter().any(|(image, ..)| image.is_of_the_database()), "nothing written back");
    let kept = images.iter().enumerate().filter(|(number, _)| number % 4 == 0);
    for (number, (image, acknowledged, cancelled)) in kept {
        let copy = Directory::new("image");
        image.write_to(&copy);
        let found = ids(&mut open(&copy, None)).unwrap();
        let expected: BTreeSet<TimerId> = acknowledged.difference(cancelled).copied().collect();
        let lost: Vec<_> = expected.difference(&found).collect();
        // The transaction under way may have cancelled one more.
        let sizes: Vec<_> = image.sizes();
        assert!(lost.len() <= 1, "image {number} lost {lost:?} of {acknowledged:?} in {sizes:?}");
        assert!(cancelled.is_disjoint(&found), "image {number} has what was cancelled");
    }
}

#[test]
fn a_full_disk_is_an_error_that_says_so_and_loses_nothing() {
    let directory = Directory::new("full");
    let disk = Disk::named("lars-full");
    let mut store = open(&directory, Some("lars-full"));
    store.transact(&[timer(1, 100)]).unwrap();
    disk.fill(true);
    for id in 2..10 {
        let error = store.transact(&[timer(id, 5_000)]).unwrap_err();
        assert!(error.reason.contains("the disk is full"), "{error}");
        assert!(!error.unknown, "nothing was done");
    }
    disk.fill(false);
    store.transact(&[timer(10, 5_000)]).unwrap();
    assert_eq!(ids(&mut store).unwrap(), BTreeSet::from([1, 10]));
    drop(store);
    assert_eq!(ids(&mut open(&directory, None)).unwrap(), BTreeSet::from([1, 10]));
}

#[test]
fn a_sync_that_fails_leaves_the_outcome_open_and_the_batch_can_be_repeated() {
    let directory = Directory::new("sync");
    let disk = Disk::named("lars-sync");
    let mut store = open(&directory, Some("lars-sync"));
    let batch = Request::Batch { writer: 1, token: 1, history: None };
    disk.fail_syncs(true);
    let error = store.transact(&[batch.clone(), timer(1, 100)]).unwrap_err();
    assert!(error.unknown, "{error}");
    disk.fail_syncs(false);
    store.transact(&[batch.clone(), timer(1, 100)]).unwrap();
    store.transact(&[batch, timer(1, 100)]).unwrap();
    assert_eq!(ids(&mut store).unwrap(), BTreeSet::from([1]));
}
