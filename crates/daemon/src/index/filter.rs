//! Which boxes a listing shows.

use minimal_proto::{BoxId, BoxName, ByteString, State};

use super::Entry;

/// Every condition that is given must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    /// One of these states.
    pub(crate) states: Option<Vec<State>>,
    /// Of one of these types, or of one derived from it.
    pub(crate) types: Option<Vec<BoxName>>,
    /// Of this project.
    pub(crate) project: Option<ByteString>,
    /// Also broken directories, of which nothing is known that a condition could be about. They pass
    /// without conditions, too.
    pub(crate) broken: bool,
    /// Made by this box.
    pub(crate) parent: Option<BoxId>,
}

impl Filter {
    pub(crate) fn passes(&self, entry: &Entry) -> bool {
        let (box_type, project, parent) = match entry {
            Entry::Live(live) => {
                let parent = live.view.borrow().record.parent;
                (&live.facts.box_type, live.facts.project_root.as_ref(), parent)
            }
            Entry::Ended(ended) => (&ended.box_type, ended.project_root.as_ref(), ended.parent),
            Entry::Broken(_) => return self.broken || *self == Self::default(),
        };
        let state_passes = self
            .states
            .as_ref()
            .is_none_or(|states| entry.state().is_some_and(|state| states.contains(&state)));
        state_passes
            && self.types.as_ref().is_none_or(|types| {
                let is_it = |wanted: &BoxName| {
                    [box_type.as_str(), box_type.root().as_str()].contains(&wanted.as_str())
                };
                types.iter().any(is_it)
            })
            && self.project.as_ref().is_none_or(|wanted| project == Some(wanted))
            && self.parent.is_none_or(|wanted| parent == Some(wanted))
    }
}
