//! Reading the fields of a request.

use serde_json::{Map, Value};

use super::{Code, Refusal, SandboxName, data};

/// The fields of one request. Each reader names the field that is wrong; null is the same as absent.
pub(super) struct Fields<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn name(&self) -> Result<SandboxName, Refusal> {
        let name = self.optional_text("name")?.unwrap_or_default();
        name.parse().map_err(|error: super::SandboxNameError| invalid(error.to_string()))
    }

    pub(super) fn text(&self, key: &str) -> Result<String, Refusal> {
        self.optional_text(key)?.ok_or_else(|| invalid(format!("`{key}` is missing")))
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>, Refusal> {
        self.get(key)
            .map(|value| match value {
                Value::String(text) => Ok(text.clone()),
                _ => Err(invalid(format!("`{key}` is not a string"))),
            })
            .transpose()
    }

    /// Absent counts as false, as a peer without the option means it.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Refusal> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(invalid(format!("`{key}` is neither true nor false"))),
        }
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, Refusal> {
        self.get(key)
            .map(|value| {
                value.as_i64().ok_or_else(|| invalid(format!("`{key}` is not a whole number")))
            })
            .transpose()
    }

    pub(super) fn bytes(&self, key: &str) -> Result<Vec<u8>, Refusal> {
        let text = self.text(key)?;
        data::decode(&text).ok_or_else(|| invalid(format!("`{key}` is not base64")))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, Refusal> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        strings(value).ok_or_else(|| invalid(format!("`{key}` is not a list of strings")))
    }

    /// Pairs. Entries of another length are left out, as peers do.
    pub(super) fn pairs(&self, key: &str) -> Result<Vec<(String, String)>, Refusal> {
        let wrong = || invalid(format!("`{key}` is not a list of lists of strings"));
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let mut pairs = Vec::new();
        for entry in value.as_array().ok_or_else(wrong)? {
            let words = strings(entry).ok_or_else(wrong)?;
            if let Ok([name, value]) = <[String; 2]>::try_from(words) {
                pairs.push((name, value));
            }
        }
        Ok(pairs)
    }
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

pub(super) fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal { code: Code::Invalid, detail: Some(detail.into()) }
}
