//! What a person types to mean a box: an id, a part of one, or a name.

use uuid::Uuid;

use crate::{BoxId, BoxName, State, Timestamp};

/// What resolution needs to know of each box.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The box.
    pub id: BoxId,
    /// Its name; none for a broken directory.
    pub name: Option<&'a BoxName>,
    /// Its state; none for a broken directory.
    pub state: Option<State>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}

/// The shortest part of an id that is taken for one.
const MIN_PART: usize = 6;

/// A part of an id: its beginning or end, long enough to mean one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part(String);

impl Part {
    /// Of a text of at least six hex digits, hyphens aside; none of another.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let digits = text.replace('-', "");
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (digits.len() >= MIN_PART && digits.bytes().all(is_digit)).then_some(Self(digits))
    }

    /// Whether the id begins or ends with it.
    #[must_use]
    pub fn matches(&self, id: Uuid) -> bool {
        let simple = id.simple().to_string();
        simple.starts_with(&self.0) || simple.ends_with(&self.0)
    }
}

/// Why an address means no one box.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// None has that id or name.
    #[error("no box is called `{0}`")]
    NotFound(String),
    /// Several ids begin or end with it.
    #[error("`{address}` is part of the ids of {} boxes: {}", candidates.len(), list(candidates))]
    Ambiguous {
        /// What was typed.
        address: String,
        /// The boxes it could mean.
        candidates: Vec<BoxId>,
    },
}

/// How many candidates a message names.
const NAMED: usize = 10;

fn list(candidates: &[BoxId]) -> String {
    let mut named: Vec<_> = candidates.iter().take(NAMED).map(ToString::to_string).collect();
    if candidates.len() > NAMED {
        named.push(format!("and {} more", candidates.len() - NAMED));
    }
    named.join(", ")
}

/// Finds the box an address means. In this order: the full id; a name, where the box that has not
/// ended wins, then the most recently created; a prefix or suffix, of at least six hex digits, of one id.
///
/// # Errors
/// No box, or more than one.
pub fn resolve<'a>(
    address: &str,
    mut boxes: impl Iterator<Item = Candidate<'a>> + Clone,
) -> Result<BoxId, AddressError> {
    if let Ok(id) = address.parse::<BoxId>() {
        return match boxes.any(|candidate| candidate.id == id) {
            true => Ok(id),
            false => Err(AddressError::NotFound(address.to_owned())),
        };
    }
    let named = boxes
        .clone()
        .filter(|candidate| candidate.name.is_some_and(|name| name.as_str() == address))
        .max_by_key(|candidate| {
            let live = candidate.state.is_some_and(|state| !state.is_ended());
            (live, candidate.created_at, candidate.id)
        });
    if let Some(candidate) = named {
        return Ok(candidate.id);
    }
    if let Some(part) = Part::of(address) {
        let matching: Vec<BoxId> =
            boxes.map(|candidate| candidate.id).filter(|id| part.matches(id.as_uuid())).collect();
        match matching.as_slice() {
            [] => {}
            [id] => return Ok(*id),
            _ => {
                return Err(AddressError::Ambiguous {
                    address: address.to_owned(),
                    candidates: matching,
                });
            }
        }
    }
    Err(AddressError::NotFound(address.chars().take(80).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> BoxId {
        format!("01909a30-0000-7000-8000-{n:012x}").parse().unwrap()
    }

    #[test]
    fn a_live_box_wins_its_name_then_the_newest() {
        let name: BoxName = "web".parse().unwrap();
        let candidate = |n: u64, state| Candidate {
            id: id(n),
            name: Some(&name),
            state: Some(state),
            created_at: Some(Timestamp::from_micros(i64::try_from(n).unwrap())),
        };
        let boxes = [
            candidate(1, State::Exited),
            candidate(2, State::Running),
            candidate(3, State::Failed),
        ];
        assert_eq!(resolve("web", boxes.iter().copied()), Ok(id(2)));
        let ended = [boxes[0], boxes[2]];
        assert_eq!(resolve("web", ended.iter().copied()), Ok(id(3)));
        assert!(matches!(resolve("nope", boxes.iter().copied()), Err(AddressError::NotFound(_))));
    }

    #[test]
    fn a_part_of_an_id_must_be_unique_and_long_enough() {
        let candidate = |n| Candidate { id: id(n), name: None, state: None, created_at: None };
        let boxes = [candidate(0xaa_0000_0001), candidate(0xbb_0000_0002)];
        assert_eq!(resolve("00000001", boxes.iter().copied()), Ok(id(0xaa_0000_0001)));
        assert!(matches!(
            resolve("01909a30", boxes.iter().copied()),
            Err(AddressError::Ambiguous { .. })
        ));
        assert!(matches!(resolve("00001", boxes.iter().copied()), Err(AddressError::NotFound(_))));
    }
}
