//! Where an actor stands in the tree of its system: its name, and those above it.

use std::fmt;

use crate::sync::{Arc, OnceLock};

/// An actor's name, and the way up to the root.
///
/// The path is not kept: in a deep tree all of them would take the square of its depth. Whoever
/// asks for one walks up. Descendants keep this, and so the names above them, but not the homes of
/// those actors.
pub(crate) struct Lineage {
    name: Box<str>,
    /// The number of the parent; zero for an actor without one.
    parent: u64,
    above: Option<Arc<Self>>,
    /// The path, once [`path`](Self::path) has been called.
    kept: OnceLock<Arc<str>>,
}

impl Lineage {
    /// Of a new actor, by the number of its parent and where that stands, if it has one.
    pub(crate) fn new(name: Box<str>, parent: Option<(u64, Arc<Self>)>) -> Arc<Self> {
        let (parent, above) = parent.map_or((0, None), |(number, above)| (number, Some(above)));
        Arc::new(Self { name, parent, above, kept: OnceLock::new() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What distinguishes it from all others that are alive at the same time: the number of its
    /// parent, which is zero if it has none, and its name.
    pub(crate) fn key(&self) -> (u64, &str) {
        (self.parent, &self.name)
    }

    /// The path, for something that may ask again: it is kept from now on.
    pub(crate) fn path(&self) -> &Arc<str> {
        self.kept.get_or_init(|| self.make())
    }

    /// The path, for something that asks of very many actors, or for the last time: if it is not
    /// kept already, it is not kept afterwards.
    pub(crate) fn to_path(&self) -> Arc<str> {
        self.kept.get().map_or_else(|| self.make(), Arc::clone)
    }

    /// Puts the path together. It walks up twice, in loops: a tree may be deeper than a stack.
    fn make(&self) -> Arc<str> {
        let upwards = || std::iter::successors(Some(self), |it| it.above.as_deref());
        let mut place: usize = upwards().map(|it| 1 + it.name.len()).sum();
        let mut path = vec![b'/'; place];
        for it in upwards() {
            let end = place;
            place -= it.name.len();
            path[place..end].copy_from_slice(it.name.as_bytes());
            place -= 1; // the slash
        }
        String::from_utf8(path).unwrap_or_default().into()
    }
}

/// The path.
impl fmt::Debug for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_path(), f)
    }
}

impl Drop for Lineage {
    /// The last of many generations frees those above it one after the other, and not each inside
    /// the one before.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(it) = above {
            above = Arc::into_inner(it).and_then(|mut last| last.above.take());
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    /// Of the last of so many generations, each of this name.
    fn deep(generations: u64, name: &str) -> Arc<Lineage> {
        let first = Lineage::new(name.into(), None);
        (1..generations).fold(first, |above, id| Lineage::new(name.into(), Some((id, above))))
    }

    #[test]
    fn a_path_is_all_names_from_the_root_and_is_kept_when_it_is_asked_for() {
        let root = Lineage::new("räder".into(), None);
        let child = Lineage::new("b".into(), Some((7, Arc::clone(&root))));
        assert_eq!((root.key(), child.key()), ((0, "räder"), (7, "b")));
        assert_eq!((&*root.to_path(), &*child.to_path()), ("/räder", "/räder/b"));
        assert!(!Arc::ptr_eq(&child.to_path(), &child.to_path()));
        assert!(Arc::ptr_eq(child.path(), child.path()));
        assert!(Arc::ptr_eq(child.path(), &child.to_path()));
        assert_eq!((format!("{child:?}"), child.name()), ("\"/räder/b\"".to_owned(), "b"));
    }

    #[test]
    fn a_lineage_that_is_deeper_than_any_stack_has_a_path_and_is_freed() {
        let generations = if cfg!(miri) { 1_000 } else { 1_000_000 };
        let last = deep(generations, "a");
        assert_eq!(last.to_path().len() as u64, 2 * generations);
        drop(last);
    }

    #[test]
    fn a_lineage_frees_no_more_than_it_alone_keeps() {
        let shared = deep(10, "a");
        let (one, other) = (
            Lineage::new("one".into(), Some((10, Arc::clone(&shared)))),
            Lineage::new("other".into(), Some((10, Arc::clone(&shared)))),
        );
        drop(one);
        assert_eq!(Arc::strong_count(&shared), 2);
        drop(shared);
        assert_eq!(&*other.to_path(), "/a/a/a/a/a/a/a/a/a/a/other");
    }
}
