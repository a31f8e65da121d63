//! Where an actor stands in the tree of its system: its name, and those above it.

use std::fmt;

use crate::base::name::Name;
use crate::sync::{Arc, OnceLock};

/// An actor's name, and the way up to the root.
///
/// The path is not kept: in a deep tree all of them would take the square of its depth. Whoever
/// asks for one walks up. Descendants keep this, and so the names above them, but not the homes of
/// those actors.
pub(crate) struct Lineage {
    name: Name<Box<str>>,
    /// The number of the parent; zero for an actor without one.
    parent: u64,
    above: Option<Arc<Self>>,
    /// The path, once [`path`](Self::path) has been called.
    kept: OnceLock<Arc<str>>,
}

impl Lineage {
    /// Of a new actor, by the number of its parent and where that stands, if it has one.
    pub(crate) fn new(name: Name<Box<str>>, parent: Option<(u64, Arc<Self>)>) -> Arc<Self> {
        let (parent, above) = parent.map_or((0, None), |(number, above)| (number, Some(above)));
        Arc::new(Self { name, parent, above, kept: OnceLock::new() })
    }

    /// The name. That of an anonymous actor is the end of its path, which is kept.
    pub(crate) fn name(&self) -> &str {
        match &self.name {
            Name::Given(name) => name,
            Name::Anonymous(_) => {
                let path = self.path();
                &path[path.len() - self.name.len()..]
            }
        }
    }

    /// What distinguishes it from all others that are alive at the same time: the number of its
    /// parent, which is zero if it has none, and its name.
    pub(crate) fn key(&self) -> (u64, Name<&str>) {
        (self.parent, self.name.borrow())
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
            it.name.write(&mut path[place..end]);
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

    fn given(name: &str, parent: Option<(u64, Arc<Lineage>)>) -> Arc<Lineage> {
        Lineage::new(Name::Given(name.into()), parent)
    }

    /// Of the last of so many generations, each of this name.
    fn deep(generations: u64, name: &str) -> Arc<Lineage> {
        let first = given(name, None);
        (1..generations).fold(first, |above, id| given(name, Some((id, above))))
    }

    #[test]
    fn a_path_is_all_names_from_the_root_and_is_kept_when_it_is_asked_for() {
        let root = given("räder", None);
        let child = given("b", Some((7, Arc::clone(&root))));
        assert_eq!((root.key(), child.key()), ((0, Name::Given("räder")), (7, Name::Given("b"))));
        assert_eq!((&*root.to_path(), &*child.to_path()), ("/räder", "/räder/b"));
        assert!(!Arc::ptr_eq(&child.to_path(), &child.to_path()));
        assert!(Arc::ptr_eq(child.path(), child.path()));
        assert!(Arc::ptr_eq(child.path(), &child.to_path()));
        assert_eq!((format!("{child:?}"), child.name()), ("\"/räder/b\"".to_owned(), "b"));
    }

    #[test]
    fn the_name_of_an_anonymous_actor_is_its_number_and_is_found_by_it_alone() {
        let root = given("a", None);
        for number in [1, 9, 10, 99, 100, 12_345_678_909, u64::MAX] {
            let child = Lineage::new(Name::Anonymous(number), Some((1, Arc::clone(&root))));
            assert_eq!(child.name(), format!("${number}"));
            assert_eq!(&*child.to_path(), format!("/a/${number}"));
            assert_eq!(child.key(), (1, Name::parse(&format!("${number}"))));
            // The path is kept, so the name lies in it.
            let end = |text: &str| text.as_bytes().as_ptr_range().end;
            assert_eq!(end(child.name()), end(child.path()));
        }
        for other in ["$", "$0", "$01", "$+1", "$1a", "$ 1", "1", "$18446744073709551616"] {
            assert_eq!(Name::parse(other), Name::Given(other));
        }
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
            given("one", Some((10, Arc::clone(&shared)))),
            given("other", Some((10, Arc::clone(&shared)))),
        );
        drop(one);
        assert_eq!(Arc::strong_count(&shared), 2);
        drop(shared);
        assert_eq!(&*other.to_path(), "/a/a/a/a/a/a/a/a/a/a/other");
    }
}
