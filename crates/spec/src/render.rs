//! A spec as text that people read.

use minimal_proto::Spec;
use serde_json::Value as Json;

/// As TOML, which has no word for what is absent: such keys are left out.
///
/// # Panics
/// Never: a spec's values are all values of TOML, once what is absent is left out.
#[must_use]
pub fn to_toml(spec: &Spec) -> String {
    let json = serde_json::to_value(spec).expect("a spec has string keys only");
    toml::to_string_pretty(&without_null(json)).expect("its numbers are below 2^53")
}

fn without_null(json: Json) -> Json {
    match json {
        Json::Object(map) => Json::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_null(value)))
                .collect(),
        ),
        Json::Array(list) => {
            Json::Array(list.into_iter().filter(|it| !it.is_null()).map(without_null).collect())
        }
        other => other,
    }
}

/// As YAML 1.2, in which JSON's scalars are themselves.
///
/// # Panics
/// Never: a spec has string keys only.
#[must_use]
pub fn to_yaml(spec: &Spec) -> String {
    let json = serde_json::to_value(spec).expect("a spec has string keys only");
    let mut text = String::new();
    yaml(&json, 0, &mut text);
    text
}

fn yaml(value: &Json, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                out.push_str(&indent);
                out.push_str(&Json::from(key.as_str()).to_string());
                out.push(':');
                yaml_value(value, depth, out);
            }
        }
        Json::Array(list) => {
            for value in list {
                out.push_str(&indent);
                out.push('-');
                yaml_value(value, depth, out);
            }
        }
        scalar => {
            out.extend([indent.as_str(), scalar.to_string().as_str(), "\n"]);
        }
    }
}

fn yaml_value(value: &Json, depth: usize, out: &mut String) {
    let is_nested = match value {
        Json::Object(map) => !map.is_empty(),
        Json::Array(list) => !list.is_empty(),
        _ => false,
    };
    if is_nested {
        out.push('\n');
        yaml(value, depth + 1, out);
    } else {
        out.extend([" ", value.to_string().as_str(), "\n"]);
    }
}
