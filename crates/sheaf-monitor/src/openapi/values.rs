//! Schemas of plain values.

use serde_json::{Map, Value, json};

/// Member of an object: its name, with `?` if it may be absent, its schema, and its meaning.
pub(super) type Member = (&'static str, Value, &'static str);

/// Returns the schema of an object that has these members, and may get others.
pub(super) fn object(members: &[Member]) -> Value {
    let name = |name: &'static str| name.trim_end_matches('?');
    let describe = |(key, schema, text): &Member| {
        let mut schema = schema.clone();
        schema["description"] = (*text).into();
        (name(key).to_owned(), schema)
    };
    let properties: Map<String, Value> = members.iter().map(describe).collect();
    let required: Vec<_> = members.iter().map(|(key, ..)| *key).filter(|key| !key.ends_with('?')).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

/// Returns the schema of an object that has no other members than these.
pub(super) fn exact(members: &[Member]) -> Value {
    let mut schema = object(members);
    schema["additionalProperties"] = false.into();
    schema
}

/// Returns the schema of an object with arbitrary names, all with values of this schema.
pub(super) fn map(values: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": values })
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

pub(super) fn flag() -> Value {
    json!({ "type": "boolean" })
}

pub(super) fn number() -> Value {
    json!({ "type": "number" })
}

/// Returns the schema of a count, a number of something, or a time in whole units.
pub(super) fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

/// Returns the schema of an integer from `least` to `most`.
pub(super) fn within(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

pub(super) fn one_of(names: &[&str]) -> Value {
    json!({ "type": "string", "enum": names })
}

pub(super) fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// Returns the schema of a value that may be `null`.
pub(super) fn nullable(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some(kind) if schema["enum"].is_null() => {
            let mut schema = schema.clone();
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}
