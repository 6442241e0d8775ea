//! The description of the interface for programs, in the format OpenAPI 3.1.
//!
//! | module | holds |
//! |---|---|
//! | `histograms` | requests for histograms, with their schemas |
//! | `operation` | a request, and how it is described |
//! | `paths` | all requests |
//! | `schemas` | the schemas of bodies and answers |
//! | `values` | schemas of plain values |
//!
//! The checked-in file `docs/reference/openapi.json` is this document. Tests compare the requests with those that the server answers, and the
//! schemas with real answers.

mod configurations;
mod histograms;
mod operation;
mod paths;
mod schemas;
mod slow_control;
mod values;

use crate::state::API;
use operation::Operation;
use serde_json::{Map, Value, json};
use values::reference;

/// Errors: status, and what it means.
const ERRORS: &[(u16, &str)] = &[
    (400, "The request makes no sense, or a parameter has no such value."),
    (401, "There is no valid token."),
    (403, "The role does not allow it, or the request is for another host or from the page of another site."),
    (404, "There is no such thing. The page of one run has no run control."),
    (408, "The body did not arrive in time."),
    (409, "The state does not allow the command, or its name was that of another command."),
    (412, "The state has changed since the client saw the revision that it sends."),
    (413, "The body is larger than 2 MB, or than 16 MiB of a publication."),
    (422, "A row of the table makes no run, or there is no such configuration. The text says what is wrong."),
    (423, "Somebody else has the lock."),
    (429, "There were too many wrong tokens."),
    (500, "The server has failed."),
    (503, "The controller does not answer, or cannot write down what it would do. Nothing was done."),
];

/// Returns the document.
#[must_use]
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sheaf",
            "version": API.to_string(),
            "summary": "Run control, the state of a run, and its numbers over time",
            "description": "Served by `sheaf serve`; without run control also by `sheaf run --page` and `sheaf node --page`. \
                At the address for other hosts (`monitor.remote`, HTTPS), each request needs a token, except those for the files of the page and `/healthz`. \
                Members may be added to answers: programs pass over those that they do not know.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" }
        },
        "servers": [{ "url": "http://127.0.0.1:7070", "description": "Only names and addresses of this host are answered." }],
        "tags": [
            { "name": "control", "description": "Commands, and the state of run control" },
            { "name": "runs", "description": "Records of runs" },
            { "name": "state", "description": "The state of a run, and its numbers over time" },
            { "name": "histograms", "description": "Histograms that consumers publish" },
            { "name": "values", "description": "Values from outside of the run: slow control" },
            { "name": "monitoring", "description": "For Prometheus, Grafana and service managers" },
            { "name": "page", "description": "The page" }
        ],
        "paths": by_path(&paths::all()),
        "components": {
            "schemas": schemas::all(),
            "responses": errors(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`sheaf serve` prints the address with the token of its owner; `sheaf token add NAME` makes one for others."
                }
            }
        }
    })
}

fn by_path(operations: &[Operation]) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let path = paths.entry(operation.path()).or_insert_with(|| json!({}));
        path[operation.method()] = operation.describe();
    }
    Value::Object(paths)
}

fn errors() -> Value {
    let error = |(status, text): &(u16, &str)| {
        let example = json!({ "code": code_of(*status), "text": "what happened", "remedy": "what to do" });
        let content = json!({ "application/json": { "schema": reference("Error"), "examples": { "error": { "value": example } } } });
        (format!("Error{status}"), json!({ "description": text, "content": content }))
    };
    Value::Object(ERRORS.iter().map(error).collect())
}

fn code_of(status: u16) -> &'static str {
    match status {
        401 => "token",
        403 => "role",
        404 => "not_found",
        408 => "late",
        409 => "state",
        412 => "stale",
        413 => "too_large",
        422 => "table",
        423 => "locked",
        429 => "too_many",
        500 => "internal",
        503 => "busy",
        _ => "invalid",
    }
}

#[cfg(test)]
mod tests;
