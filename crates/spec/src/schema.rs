//! The JSON Schema of `minimal.toml`, for editors, and the page of its keys: both from [`KEYS`].
//!
//! The schema takes every file that is read without a problem. What it cannot say (names that are taken,
//! circles of types, what a type allows, placeholders) is told when the file is read.

use minimal_proto::spec::Builtin;
use serde_json::{Map, Value as Json, json};

use crate::keys::{KEYS, KeyInfo};
use crate::types::{self, CONSTRAINABLE, Constrained};

/// The schema's name.
const ID: &str = "urn:minimal:schema:minimal.toml";

/// Names of entries and types: DNS labels of at most 63, and not `self`.
const NAME: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

/// The schema of a file (JSON Schema, draft 2020-12).
#[must_use]
pub fn schema() -> Json {
    let entries = |about: &str, entry: &str| {
        json!({
            "description": about,
            "type": "object",
            "propertyNames": {"$ref": "#/$defs/name"},
            "additionalProperties": {"$ref": format!("#/$defs/{entry}")},
        })
    };
    let of_type = |builtin: Builtin| {
        let about = types::builtin(builtin).description;
        entries(&format!("Entries of type `{}`. {about}", builtin.as_str()), "entry")
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "minimal.toml",
        "description": "What a project runs in boxes.",
        "type": "object",
        "properties": {
            "defaults": {"$ref": "#/$defs/defaults"},
            "tasks": of_type(Builtin::Task),
            "sessions": of_type(Builtin::Session),
            "agents": of_type(Builtin::Agent),
            "services": of_type(Builtin::Service),
            "boxes": entries("Entries that say their type themselves.", "typed_entry"),
            "box_types": entries("Types of this project's own.", "box_type"),
        },
        "additionalProperties": false,
        "$defs": {
            "name": {"type": "string", "pattern": NAME, "not": {"const": "self"}},
            "entry": entry(&[]),
            "typed_entry": entry(&["type"]),
            "settings": settings(Map::new()),
            "defaults": defaults(),
            "box_type": box_type(),
        },
    })
}

/// A key's value, with what it means for who writes it.
fn value(key: &KeyInfo) -> Json {
    let mut form = (key.form)();
    form["description"] = json!(format!("{} Without it: {}.", key.doc, key.default));
    form
}

/// A table of keys and what else it has.
fn table<'a>(keys: impl Iterator<Item = &'a KeyInfo>, others: Map<String, Json>) -> Json {
    let mut properties: Map<String, Json> =
        keys.map(|key| (key.name.to_owned(), value(key))).collect();
    properties.extend(others);
    json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        // A box runs one command.
        "not": {"required": ["exec", "bash"]},
    })
}

fn entry(required: &[&str]) -> Json {
    let mut entry = table(KEYS.iter(), Map::new());
    entry["required"] = json!(required);
    entry
}

fn settings(others: Map<String, Json>) -> Json {
    table(KEYS.iter().filter(|key| key.in_defaults), others)
}

/// Settings of all boxes, and of those of each type: the built-in ones, and the project's own.
fn defaults() -> Json {
    let of = |builtin: Builtin| (builtin.as_str().to_owned(), json!({"$ref": "#/$defs/settings"}));
    let mut defaults = settings(Builtin::ALL.into_iter().map(of).collect());
    defaults["description"] =
        json!("What holds for all boxes, and in `[defaults.<type>]` for those of a type.");
    defaults["additionalProperties"] = json!({"$ref": "#/$defs/settings"});
    defaults
}

fn box_type() -> Json {
    json!({
        "type": "object",
        "properties": {
            "extends": {"type": "string", "description": "The type that it is derived from."},
            "description": {"type": "string", "description": "What it is for."},
            "defaults": {"$ref": "#/$defs/settings", "description": "What its boxes default to."},
            "constraints": constraints(),
        },
        "required": ["extends"],
        "additionalProperties": false,
    })
}

/// For each key that can be constrained the values that are allowed.
fn constraints() -> Json {
    let mut root = json!({
        "type": "object",
        "description": "For a key the values that are allowed: only fewer than the type it extends allows.",
        "properties": {},
        "additionalProperties": false,
    });
    for (key, _, kind) in CONSTRAINABLE {
        let one = match kind {
            Constrained::Word(words) => json!({"enum": words}),
            Constrained::Boolean => json!({"type": "boolean"}),
            Constrained::Text => json!({"type": "string"}),
        };
        let form = json!({"oneOf": [one, {"type": "array", "items": one, "minItems": 1}]});
        let mut at = &mut root;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            let properties = &mut at["properties"];
            if parts.peek().is_none() {
                properties[part] = form.clone();
            } else if properties.get(part).is_none() {
                properties[part] =
                    json!({"type": "object", "properties": {}, "additionalProperties": false});
            }
            at = &mut at["properties"][part];
        }
    }
    root
}

/// `docs/reference/minimal-toml.md`: every key, every type.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "<!-- Written by `cargo xtask gen`; do not edit. -->\n\n# Keys of `minimal.toml`\n\n\
         How the parts fit together is in [the guide](../guide/minimal-toml.md). Editors find the same in\n\
         [`minimal.schema.json`](minimal.schema.json): most look for its path in a first line `#:schema PATH`.\n\n\
         ## Keys of an entry\n\n\
         Those marked with `*` are of entries alone; the others can stand in `[defaults]`, `[defaults.<type>]` and the `defaults` of\n\
         a type as well.\n\n\
         | key | takes | without it | sets | meaning |\n|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let mark = if key.in_defaults { "" } else { "\\*" };
        let sets = key.sets.map_or_else(|| "-".to_owned(), |sets| format!("`{sets}`"));
        page.extend([format!(
            "| `{}`{mark} | {} | {} | {sets} | {} |\n",
            key.name,
            words(&(key.form)()),
            key.default,
            key.doc
        )]);
    }
    page.push_str(
        "\n## Types\n\n`extends` takes over defaults and constraints.\n\n\
         | type | extends | defaults | allows only | |\n|---|---|---|---|---|\n",
    );
    for info in Builtin::ALL.into_iter().map(types::builtin) {
        let defaults: Vec<_> =
            info.defaults().map(|(path, value)| format!("`{path} = {value}`")).collect();
        let allows: Vec<_> = info
            .constraints
            .iter()
            .map(|it| format!("`{} = {}`", it.key, Json::from(it.allowed.clone())))
            .collect();
        page.extend([format!(
            "| `{}` | {} | {} | {} | {} |\n",
            info.name,
            info.extends.map_or_else(|| "-".to_owned(), |extends| format!("`{extends}`")),
            listed(&defaults),
            listed(&allows),
            info.description
        )]);
    }
    let keys: Vec<_> = CONSTRAINABLE.iter().map(|(key, ..)| format!("`{key}`")).collect();
    page.extend([format!("\nKeys that `constraints` can be about: {}.\n", keys.join(", "))]);
    page
}

fn listed(texts: &[String]) -> String {
    if texts.is_empty() { "-".to_owned() } else { texts.join(", ") }
}

/// What a schema takes, in words.
fn words(form: &Json) -> String {
    let list = |key: &str| form[key].as_array().into_iter().flatten();
    if let Some(one) = form.get("const") {
        return format!("`{}`", plain(one));
    }
    if form.get("enum").is_some() {
        let words: Vec<_> = list("enum").map(|word| format!("`{}`", plain(word))).collect();
        return words.join(", ");
    }
    if form.get("oneOf").is_some() {
        let ways: Vec<_> = list("oneOf").map(words).collect();
        return ways.join("; or ");
    }
    match form["type"].as_str() {
        Some("array") => format!("list of: {}", words(&form["items"])),
        Some("object") => match form["properties"].as_object() {
            Some(properties) => {
                let keys: Vec<_> = properties.keys().map(|key| format!("`{key}`")).collect();
                format!("table with {}", keys.join(", "))
            }
            None if form["additionalProperties"].is_object() => {
                format!("table of: {}", words(&form["additionalProperties"]))
            }
            None => "table".to_owned(),
        },
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("string") => form["title"].as_str().unwrap_or("text").to_owned(),
        Some(_) | None => "anything".to_owned(),
    }
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
