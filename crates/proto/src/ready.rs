//! The one line a starting daemon writes to the process that started it.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ErrorBody;

/// What became of a start. JSON, on one line: `{"ready":true,"pid":7}`,
/// `{"ready":true,"other":true}` or `{"error":{…}}`.
///
/// A pipe that closes without a line says that the daemon died before it could tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Readiness {
    /// It answers requests.
    Ready {
        /// The daemon's pid, for people.
        pid: i32,
    },
    /// Another daemon holds the state directory; this one has left.
    AlreadyRunning,
    /// It could not start.
    Failed(ErrorBody),
}

impl Readiness {
    /// The line, with its newline.
    ///
    /// # Panics
    /// Never: every value has a JSON form.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("a readiness has string keys only");
        line.push('\n');
        line
    }
}

#[derive(Serialize, Deserialize)]
struct ReadinessJson {
    #[serde(default, skip_serializing_if = "is_false")]
    ready: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    other: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorBody>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Serialize for Readiness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = ReadinessJson { ready: true, other: false, pid: None, error: None };
        match self {
            Self::Ready { pid } => json.pid = Some(*pid),
            Self::AlreadyRunning => json.other = true,
            Self::Failed(error) => {
                json.ready = false;
                json.error = Some(error.clone());
            }
        }
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Readiness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = ReadinessJson::deserialize(deserializer)?;
        match json {
            ReadinessJson { error: Some(error), .. } => Ok(Self::Failed(error)),
            ReadinessJson { ready: true, other: true, .. } => Ok(Self::AlreadyRunning),
            ReadinessJson { ready: true, pid: Some(pid), .. } => Ok(Self::Ready { pid }),
            ReadinessJson { .. } => Err(de::Error::custom("neither ready nor an error")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn each_form_is_one_line_and_round_trips() {
        let failed = Readiness::Failed(ErrorBody::new(ErrorCode::NoSpace, "no room"));
        for (ready, start) in [
            (Readiness::Ready { pid: 7 }, "{\"ready\":true,\"pid\":7}\n"),
            (Readiness::AlreadyRunning, "{\"ready\":true,\"other\":true}\n"),
            (failed, "{\"error\":{\"code\":\"no_space\""),
        ] {
            let line = ready.to_line();
            assert!(line.starts_with(start), "{line}");
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(serde_json::from_str::<Readiness>(&line).unwrap(), ready);
        }
        assert!(serde_json::from_str::<Readiness>("{}").is_err());
    }
}
