//! Which names are taken, and which one an unnamed box gets.
//!
//! Pure: it knows names and ids, and is told by its caller who has ended.

use std::collections::{BTreeMap, BTreeSet};

use minimal_proto::{BoxId, BoxName};

/// The names of all retained boxes. A name may have several: one that runs and any that have ended.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ids: BTreeMap<BoxName, BTreeSet<BoxId>>,
    /// For `<program>-`: no number below this is free. Without it, naming the ten thousandth box
    /// of one program would try ten thousand names.
    none_free_below: BTreeMap<String, u64>,
}

/// The name is held by a box that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name `{name}` is held by a box that runs")]
pub(crate) struct NameHeld {
    /// The name.
    pub(crate) name: BoxName,
    /// The box that holds it.
    pub(crate) holder: BoxId,
}

impl Names {
    /// The boxes of a name, oldest first.
    pub(crate) fn of(&self, name: &str) -> impl Iterator<Item = BoxId> + Clone {
        // A text that cannot be a name is nobody's.
        let ids = name.parse::<BoxName>().ok().and_then(|name| self.ids.get(&name));
        ids.into_iter().flatten().copied()
    }

    /// Decides the name of a new box: the one asked for unless a box that has not ended holds it,
    /// else the first of `<program>-1`, `-2`, … that no box has.
    pub(crate) fn admit(
        &mut self,
        asked: Option<&BoxName>,
        program: &[u8],
        has_ended: impl Fn(BoxId) -> bool,
    ) -> Result<BoxName, NameHeld> {
        if let Some(name) = asked {
            let holder = self.ids.get(name).and_then(|ids| ids.iter().find(|id| !has_ended(**id)));
            return match holder {
                Some(holder) => Err(NameHeld { name: name.clone(), holder: *holder }),
                None => Ok(name.clone()),
            };
        }
        let series = Series::of(&BoxName::ad_hoc(program, 1));
        let first = series.as_ref().and_then(|series| self.none_free_below.get(&series.base));
        let mut number = first.copied().unwrap_or(1);
        let name = loop {
            let name = BoxName::ad_hoc(program, number);
            if !self.ids.contains_key(&name) {
                break name;
            }
            number += 1;
        };
        if let Some(series) = series {
            self.none_free_below.insert(series.base, number);
        }
        Ok(name)
    }

    /// Notes that a box has this name.
    pub(crate) fn insert(&mut self, name: &BoxName, id: BoxId) {
        self.ids.entry(name.clone()).or_default().insert(id);
    }

    /// Notes that it has it no more.
    pub(crate) fn remove(&mut self, name: &BoxName, id: BoxId) {
        let Some(ids) = self.ids.get_mut(name) else { return };
        ids.remove(&id);
        if !ids.is_empty() {
            return;
        }
        self.ids.remove(name);
        if let Some(series) = Series::of(name)
            && let Some(bound) = self.none_free_below.get_mut(&series.base)
        {
            *bound = (*bound).min(series.number);
        }
    }
}

/// A name read as `<base>-<number>`.
struct Series {
    base: String,
    number: u64,
}

/// Longest base that no number shortens: 63 less a hyphen and the 20 digits of the largest.
const LONGEST_BASE: usize = 63 - 21;

impl Series {
    /// `None` for names that do not end in a number, and for ones so long that the base of their
    /// series depends on the number: those are searched from 1.
    fn of(name: &BoxName) -> Option<Self> {
        let (base, number) = name.as_str().rsplit_once('-')?;
        let number = number.parse().ok()?;
        (base.len() <= LONGEST_BASE).then(|| Self { base: base.to_owned(), number })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::btree_map::Entry;

    use proptest::prelude::*;

    use super::*;

    fn id(n: u64) -> BoxId {
        format!("01909a30-0000-7000-8000-{n:012x}").parse().unwrap()
    }

    fn name(text: &str) -> BoxName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_free_once_its_box_has_ended() {
        let mut names = Names::default();
        names.insert(&name("web"), id(1));
        let held = names.admit(Some(&name("web")), b"x", |_| false).unwrap_err();
        assert_eq!(held, NameHeld { name: name("web"), holder: id(1) });
        assert_eq!(names.admit(Some(&name("web")), b"x", |_| true), Ok(name("web")));
        names.insert(&name("web"), id(2));
        assert_eq!(names.of("web").collect::<Vec<_>>(), [id(1), id(2)]);
        let held = names.admit(Some(&name("web")), b"x", |other| other == id(1)).unwrap_err();
        assert_eq!(held.holder, id(2));
    }

    proptest! {
        /// The model: the smallest number whose name no box has.
        #[test]
        fn an_unnamed_box_gets_the_smallest_free_number(
            steps in proptest::collection::vec((0usize..3, 0usize..3, 1u64..6), 0..60),
        ) {
            let programs: [&[u8]; 3] = [b"/bin/sh", b"a-1", &[b'z'; 70]];
            let mut names = Names::default();
            let mut held: BTreeMap<BoxName, BoxId> = BTreeMap::new();
            for (next, (what, program, number)) in steps.into_iter().enumerate() {
                let program = programs[program];
                let new = id(next as u64);
                match what {
                    0 => {
                        let given = names.admit(None, program, |_| true).unwrap();
                        let expected = (1..)
                            .map(|n| BoxName::ad_hoc(program, n))
                            .find(|name| !held.contains_key(name))
                            .unwrap();
                        prop_assert_eq!(&given, &expected);
                        names.insert(&given, new);
                        held.insert(given, new);
                    }
                    1 => {
                        let asked = BoxName::ad_hoc(program, number);
                        if let Entry::Vacant(free) = held.entry(asked) {
                            prop_assert!(names.admit(Some(free.key()), b"x", |_| true).is_ok());
                            names.insert(free.key(), new);
                            free.insert(new);
                        }
                    }
                    _ => {
                        let gone = BoxName::ad_hoc(program, number);
                        if let Some(id) = held.remove(&gone) {
                            names.remove(&gone, id);
                        }
                    }
                }
            }
        }
    }
}
