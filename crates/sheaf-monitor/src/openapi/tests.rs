//! The description fits the server, the checked-in file, and real answers.

use super::*;
use crate::server::routes;
use std::collections::BTreeSet;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");

#[test]
fn the_checked_in_file_is_the_description() {
    let text = format!("{:#}\n", document());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(FILE, &text).expect("the file can be written");
    }
    let found = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(found == text, "run UPDATE_DOCS=1 cargo test -p sheaf-monitor openapi");
}

#[test]
fn a_run_has_every_phase_of_the_metric() {
    let phases =
        document()["components"]["schemas"]["State"]["properties"]["run"]["properties"]["phase"].clone();
    let described = phases["enum"].as_array().expect("a list of phases").clone();
    let help = sheaf_telemetry::catalog::RUN_STATE.help;
    let published: Vec<_> = help.split('`').skip(1).step_by(2).collect();
    assert!(published.len() >= 7, "{help}");
    assert!(
        published.iter().all(|phase| described.contains(&(*phase).into())),
        "{published:?}, {described:?}"
    );
}

#[test]
fn the_description_has_the_requests_that_are_answered_and_no_others() {
    let answered: BTreeSet<_> = routes()
        .iter()
        .map(|route| (route.method.as_str().to_lowercase(), route.path.replace("{*", "{")))
        .collect();
    let operations = paths::all();
    let described: BTreeSet<_> = operations
        .iter()
        .map(|operation| (operation.method().to_owned(), operation.path().to_owned()))
        .collect();
    assert_eq!(described, answered);
    assert_eq!(described.len(), operations.len(), "a request is described twice");
}

#[test]
fn names_of_operations_are_unique_and_references_lead_somewhere() {
    let document = document();
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{method} {path}: another one is called {name}");
        }
    }
    let text = document.to_string();
    for target in text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document.pointer(&target[1..]).is_some(), "{target} leads nowhere");
    }
}

#[test]
fn examples_fit_their_schemas_and_have_no_other_members() {
    let document = document();
    let mut examples = 0;
    visit(&document, &mut |content| {
        for example in content["examples"].as_object().into_iter().flatten().map(|(_, example)| example) {
            let problems = problems_of(&example["value"], &content["schema"], &document);
            assert!(problems.is_empty(), "{example}: {problems:?}");
            examples += 1;
        }
    });
    assert!(examples > 20, "{examples}");
}

/// Calls `look` for each object that has a schema and examples.
fn visit(value: &Value, look: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(members) => {
            if members.contains_key("examples") && members.contains_key("schema") {
                look(value);
            }
            members.values().for_each(|member| visit(member, look));
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, look)),
        _ => {}
    }
}

/// Returns where a value differs from a schema. Members that the schema of an object does not have are differences.
fn problems_of(value: &Value, schema: &Value, document: &Value) -> Vec<String> {
    if let Some(target) = schema["$ref"].as_str() {
        return problems_of(value, document.pointer(&target[1..]).unwrap(), document);
    }
    let choices = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    if let Some(choices) = choices {
        let tried: Vec<_> = choices.iter().map(|choice| problems_of(value, choice, document)).collect();
        return if tried.iter().any(Vec::is_empty) { Vec::new() } else { tried.concat() };
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = |name: &str| name == kind || (name == "number" && kind == "integer");
    let fits = match &schema["type"] {
        Value::String(name) => allowed(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(allowed),
        _ => true,
    };
    if !fits || schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        return vec![format!("{value} is not of {schema}")];
    }
    match value {
        Value::Array(items) => {
            items.iter().flat_map(|item| problems_of(item, &schema["items"], document)).collect()
        }
        Value::Object(members) => problems_of_object(members, schema, document),
        _ => Vec::new(),
    }
}

fn problems_of_object(members: &Map<String, Value>, schema: &Value, document: &Value) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let absent = required.filter(|name| !members.contains_key(*name)).map(|name| format!("{name} is absent"));
    let mut problems: Vec<_> = absent.collect();
    if schema["properties"].is_null() && !schema["additionalProperties"].is_object() {
        return problems;
    }
    for (name, member) in members {
        let known = Some(&schema["properties"][name]).filter(|schema| !schema.is_null());
        match known.or_else(|| Some(&schema["additionalProperties"]).filter(|schema| schema.is_object())) {
            Some(schema) => problems.extend(problems_of(member, schema, document)),
            None => problems.push(format!("{name} is not described")),
        }
    }
    problems
}
