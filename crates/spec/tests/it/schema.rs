//! The schema and the page of keys are what is checked in, and the schema is true: it takes what is read
//! without a problem, and refuses what has a fault that a schema can see.

use std::path::{Path, PathBuf};

use minimal_spec::{Fault, KEYS, Project};
use serde_json::Value as Json;

use crate::golden::{compare, directory};

fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)
}

#[test]
fn generated_schema() {
    let schema = serde_json::to_string_pretty(&minimal_spec::schema()).unwrap() + "\n";
    compare(&reference("minimal.schema.json"), &schema);
}

#[test]
fn generated_reference_of_keys() {
    compare(&reference("minimal-toml.md"), &minimal_spec::reference());
}

/// Whether a value is as a schema says. Any word of the schema's that is not known here is a fault of
/// this test, so that none is passed over.
fn fits(root: &Json, schema: &Json, value: &Json) -> bool {
    let Some(words) = schema.as_object() else { return *schema == Json::Bool(true) };
    words.iter().all(|(word, wants)| match word.as_str() {
        "$schema" | "$id" | "$defs" | "title" | "description" => true,
        "$ref" => {
            let path = wants.as_str().unwrap().strip_prefix('#').unwrap();
            fits(root, root.pointer(path).unwrap(), value)
        }
        "type" => match wants.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            other => panic!("type {other}"),
        },
        "const" => value == wants,
        "enum" => wants.as_array().unwrap().contains(value),
        "not" => !fits(root, wants, value),
        "oneOf" => wants.as_array().unwrap().iter().filter(|it| fits(root, it, value)).count() == 1,
        "properties" => value.as_object().is_none_or(|map| {
            map.iter().all(|(key, it)| wants.get(key).is_none_or(|wants| fits(root, wants, it)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = |key: &String| schema["properties"].get(key).is_some();
            map.iter().all(|(key, it)| known(key) || fits(root, wants, it))
        }),
        "propertyNames" => value
            .as_object()
            .is_none_or(|map| map.keys().all(|key| fits(root, wants, &Json::from(key.as_str())))),
        "required" => value.as_object().is_none_or(|map| {
            wants.as_array().unwrap().iter().all(|key| map.contains_key(key.as_str().unwrap()))
        }),
        "items" => value.as_array().is_none_or(|list| list.iter().all(|it| fits(root, wants, it))),
        "minItems" => value.as_array().is_none_or(|it| it.len() as u64 >= wants.as_u64().unwrap()),
        "minimum" => value.as_f64().is_none_or(|it| it >= wants.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|it| it <= wants.as_f64().unwrap()),
        "pattern" => value.as_str().is_none_or(|text| {
            regex_lite::Regex::new(wants.as_str().unwrap()).unwrap().is_match(text)
        }),
        other => panic!("the schema says `{other}`, which this test does not know"),
    })
}

fn takes(text: &str) -> bool {
    let schema = minimal_spec::schema();
    let value: Json = toml::from_str(text).unwrap();
    fits(&schema, &schema, &value)
}

#[test]
fn it_takes_every_sample() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../minimal.toml");
    let samples = ["keys", "merging", "types", "constraints", "example"];
    let samples = samples.iter().map(|name| directory().join(format!("{name}.toml"))).chain([own]);
    for file in samples {
        let text = std::fs::read_to_string(&file).unwrap();
        Project::parse("f", &text).unwrap();
        assert!(takes(&text), "the schema refuses {}", file.display());
    }
    assert!(takes(""));
}

#[test]
fn it_refuses_what_a_schema_can_see() {
    // Each alone, since one file may have several faults.
    for (text, fault) in [
        ("[tasks.a]\nexce = 'a'", Fault::UnknownKey),
        ("[tasks.a.io]\npty = true", Fault::UnknownKey),
        ("[task.a]\nexec = 'a'", Fault::UnknownKey),
        ("[defaults]\ndescription = 'a'", Fault::UnknownKey),
        ("[tasks.a]\nexec = 1", Fault::WrongKind),
        ("[tasks.a]\nmounts = {}", Fault::WrongKind),
        ("[tasks]\na = 1", Fault::WrongKind),
        ("[defaults.task]\nram = '8G'", Fault::WrongValue),
        ("[tasks.a]\ntimeout = '5 minutes'", Fault::WrongValue),
        ("[tasks.a]\nnetwork.mode = 'bridge'", Fault::WrongValue),
        ("[tasks.a]\npids = 0", Fault::WrongValue),
        ("[tasks.a]\nexec = []", Fault::WrongValue),
        ("[tasks.a]\nargs.x = {}", Fault::MissingKey),
        ("[boxes.a]\nexec = 'a'", Fault::MissingKey),
        ("[box_types.a]\ndescription = 'a'", Fault::MissingKey),
        ("[tasks.a]\nexec = 'a'\nbash = 'a'", Fault::Conflict),
        ("[tasks.self]\nexec = 'a'", Fault::WrongName),
        ("[tasks.A]\nexec = 'a'", Fault::WrongName),
        ("[box_types.a]\nextends = 'task'\nconstraints.ram = '1GiB'", Fault::UnknownKey),
        ("[box_types.a]\nextends = 'task'\nconstraints.network.mode = 'x'", Fault::WrongValue),
    ] {
        let problems = Project::parse("f", text).unwrap_err();
        assert!(problems.iter().any(|it| it.fault == fault), "{text}: {problems}");
        assert!(!takes(text), "the schema takes {text}");
    }
}

/// Of each key a value of another kind than it takes is refused by both.
#[test]
fn it_knows_the_kind_of_each_key() {
    for key in KEYS.iter().filter(|key| key.name != "type") {
        for wrong in ["[[[]]]", "[{}, 1]"] {
            let text = format!("[tasks.a]\n{} = {wrong}", key.name);
            assert!(Project::parse("f", &text).is_err(), "{text}");
            assert!(!takes(&text), "the schema takes {text}");
        }
        let table = minimal_spec::schema();
        let about = &table["$defs"]["entry"]["properties"][key.name]["description"];
        assert!(about.as_str().is_some_and(|it| it.contains(key.doc)), "{}", key.name);
    }
}
