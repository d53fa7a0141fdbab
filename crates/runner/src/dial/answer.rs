//! What a hub answers instead of an upgrade.

use std::fmt;

use serde_json::Value;

/// The most of an answer that is told, in characters.
const TOLD_MAX: usize = 200;

/// An HTTP answer that is no upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAnswer {
    /// Its status.
    pub status: u16,
    /// What it says, in one line; empty if it says nothing.
    pub words: String,
}

impl HubAnswer {
    /// As it came. Of a JSON object the fields that peers explain themselves by are told; of a page,
    /// that it is one; of a text its first line.
    pub(super) fn of(status: u16, content_type: &str, body: &[u8]) -> Self {
        Self { status, words: words(content_type, body) }
    }

    /// Whether nothing will change by itself: the request, the token or the address is wrong.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.status, 400 | 401 | 403 | 404)
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.status {
            401 => Some("the token is not one of this hub's, or not any more: get a new one"),
            403 => {
                Some("the token is good and not for this: it may be one for another runner name")
            }
            404 => Some("check the address: it is the hub's own, without /api/runners/ws"),
            409 => Some("another machine may run one of this name; names are unique at a hub"),
            _ => None,
        }
    }
}

impl fmt::Display for HubAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = http::StatusCode::from_u16(self.status).ok();
        let reason = status.and_then(|status| status.canonical_reason()).unwrap_or_default();
        match reason {
            "" => write!(f, "the hub answers {}", self.status)?,
            reason => write!(f, "the hub answers {} {reason}", self.status)?,
        }
        if self.words.is_empty() { Ok(()) } else { write!(f, ": {}", self.words) }
    }
}

fn words(content_type: &str, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if let Ok(Value::Object(object)) = serde_json::from_str::<Value>(&text) {
        let fields = ["error", "reason", "message", "detail"];
        let told: Vec<&str> =
            fields.iter().filter_map(|field| object.get(*field)?.as_str()).collect();
        if !told.is_empty() {
            return one_line(&told.join(", "));
        }
    }
    let beginning: String = text.trim_start().chars().take(9).collect();
    let beginning = beginning.to_ascii_lowercase();
    let is_page = beginning.starts_with("<!doctype") || beginning.starts_with("<html");
    if is_page || content_type.starts_with("text/html") {
        return "an HTML page: something else than a hub may be there".to_owned();
    }
    one_line(&text)
}

/// The first line, without what a terminal would act on.
fn one_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut told: String = line.chars().filter(|c| !c.is_control()).take(TOLD_MAX).collect();
    if line.chars().count() > TOLD_MAX {
        told.push('…');
    }
    told
}
