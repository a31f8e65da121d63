//! Where an actor stands in the tree of its system: its name, and those above it.

use std::fmt;

use crate::base::name::Name;
use crate::sync::{Arc, OnceLock};

/// Something that stands at a path.
pub(crate) trait Stands: fmt::Debug {
    /// The path, for something that may ask again: it is kept from now on.
    fn path(&self) -> &Arc<str>;
}

/// A name, and the way up to the root: what descendants keep, and so the names above them, but not
/// the homes of those actors.
///
/// The path is not kept: in a deep tree all of them would take the square of its depth. Whoever
/// asks for one walks up.
pub(crate) struct Ancestry {
    name: Name<Box<str>>,
    above: Option<Arc<Self>>,
    /// The path, once [`path`](Stands::path) has been called.
    kept: OnceLock<Arc<str>>,
}

impl Ancestry {
    fn new(name: Name<Box<str>>, above: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { name, above, kept: OnceLock::new() })
    }

    /// Like [`Lineage::to_path`].
    pub(crate) fn to_path(&self) -> Arc<str> {
        let make = || make_path(self.name.borrow(), self.above.as_deref());
        self.kept.get().map_or_else(make, Arc::clone)
    }
}

impl Stands for Ancestry {
    fn path(&self) -> &Arc<str> {
        self.kept.get_or_init(|| make_path(self.name.borrow(), self.above.as_deref()))
    }
}

/// Puts a path together. It walks up twice, in loops: a tree may be deeper than a stack.
fn make_path(name: Name<&str>, above: Option<&Ancestry>) -> Arc<str> {
    let names = || {
        let above = std::iter::successors(above, |it| it.above.as_deref());
        std::iter::once(name).chain(above.map(|it| it.name.borrow()))
    };
    let mut place: usize = names().map(|it| 1 + it.len()).sum();
    let mut path = vec![b'/'; place];
    for it in names() {
        let end = place;
        place -= it.len();
        it.write(&mut path[place..end]);
        place -= 1; // the slash
    }
    String::from_utf8(path).unwrap_or_default().into()
}

/// Where an actor stands: in its home.
pub(crate) struct Lineage {
    /// The number of the parent; zero for an actor without one.
    parent: u64,
    /// The number of an anonymous actor.
    number: u64,
    /// Where the parent of an anonymous actor stands.
    above: Option<Arc<Ancestry>>,
    /// From the beginning, if the actor has been given a name. Of an anonymous one, when it has a
    /// child or is asked for its path, which for very many never comes.
    own: OnceLock<Arc<Ancestry>>,
}

impl Lineage {
    /// Of a new actor, by the number of its parent and where that stands, if it has one.
    pub(crate) fn new(name: Name<&str>, parent: Option<(u64, Arc<Ancestry>)>) -> Self {
        let (parent, above) = parent.map_or((0, None), |(number, above)| (number, Some(above)));
        match name {
            Name::Anonymous(number) => Self { parent, number, above, own: OnceLock::new() },
            Name::Given(name) => {
                let own = Ancestry::new(Name::Given(name.into()), above);
                Self { parent, number: 0, above: None, own: own.into() }
            }
        }
    }

    /// For descendants, and whoever else keeps where this actor stands but not its home.
    pub(crate) fn own(&self) -> &Arc<Ancestry> {
        self.own.get_or_init(|| Ancestry::new(Name::Anonymous(self.number), self.above.clone()))
    }

    /// The name. That of an anonymous actor is the end of its path, which is kept.
    pub(crate) fn name(&self) -> &str {
        let own = self.own();
        match &own.name {
            Name::Given(name) => name,
            Name::Anonymous(_) => {
                let path = own.path();
                &path[path.len() - own.name.len()..]
            }
        }
    }

    /// What distinguishes it from all others that are alive at the same time: the number of its
    /// parent, which is zero if it has none, and its name.
    #[inline]
    pub(crate) fn key(&self) -> (u64, Name<&str>) {
        let name = self.own.get().map(|own| own.name.borrow());
        (self.parent, name.unwrap_or(Name::Anonymous(self.number)))
    }

    /// The path, for something that asks of very many actors, or for the last time: if it is not
    /// kept already, it is not kept afterwards.
    pub(crate) fn to_path(&self) -> Arc<str> {
        let make = || make_path(Name::Anonymous(self.number), self.above.as_deref());
        self.own.get().map_or_else(make, |own| own.to_path())
    }
}

impl Stands for Lineage {
    fn path(&self) -> &Arc<str> {
        self.own().path()
    }
}

/// The path.
impl fmt::Debug for Ancestry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_path(), f)
    }
}

/// The path.
impl fmt::Debug for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_path(), f)
    }
}

impl Drop for Ancestry {
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

    fn given(name: &str, parent: Option<(u64, &Lineage)>) -> Lineage {
        Lineage::new(Name::Given(name), below(parent))
    }

    fn below(parent: Option<(u64, &Lineage)>) -> Option<(u64, Arc<Ancestry>)> {
        parent.map(|(number, above)| (number, Arc::clone(above.own())))
    }

    /// Of the last of so many generations, each of this name.
    fn deep(generations: u64, name: &str) -> Lineage {
        let first = given(name, None);
        (1..generations).fold(first, |above, id| given(name, Some((id, &above))))
    }

    #[test]
    fn a_path_is_all_names_from_the_root_and_is_kept_when_it_is_asked_for() {
        let root = given("räder", None);
        let child = given("b", Some((7, &root)));
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
            let child = Lineage::new(Name::Anonymous(number), below(Some((1, &root))));
            // Before and after somebody asks for something that is kept.
            for _ in 0..2 {
                assert_eq!(&*child.to_path(), format!("/a/${number}"));
                assert_eq!(child.key(), (1, Name::parse(&format!("${number}"))));
                assert_eq!(child.name(), format!("${number}"));
            }
            assert!(Arc::ptr_eq(child.path(), &child.to_path()));
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
        let (one, other) = (given("one", Some((10, &shared))), given("other", Some((10, &shared))));
        drop(one);
        assert_eq!(Arc::strong_count(shared.own()), 2);
        drop(shared);
        assert_eq!(&*other.to_path(), "/a/a/a/a/a/a/a/a/a/a/other");
    }
}
