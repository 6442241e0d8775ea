//! Requests about configurations with names, and the schemas of their bodies and answers.

use super::operation::Operation;
use super::values::{count, exact, flag, list, object, reference, text, within};
use serde_json::{Value, json};

pub(super) fn paths() -> Vec<Operation> {
    let versions = object(&[
        ("configurations", list(&reference("NamedConfiguration")), "The versions, by name"),
        ("unreadable", count(), "Number of versions whose files cannot be read"),
    ]);
    let named = object(&[
        ("configuration", reference("NamedConfiguration"), "The version"),
        ("known", flag(), "Whether the newest version of this name was this configuration already"),
    ]);
    vec![
        Operation::get(
            "/api/v1/configurations",
            ("runs", "configurations"),
            "Returns the versions of configurations with names",
        )
        .gives(200, "The versions.", &versions, &json!({ "configurations": [example()], "unreadable": 0 }))
        .errors(&[404, 503]),
        Operation::new(
            "post",
            "/api/v1/configurations",
            ("runs", "name_configuration"),
            "Gives a name to the configuration of a run",
        )
        .note("The command `start` takes the name as `like`. A name that is there gets another version.")
        .takes("NameConfiguration", true, &[("name", json!({ "run": 7, "name": "cosmics-2026a" }))])
        .gives(200, "The version.", &named, &json!({ "configuration": example(), "known": false }))
        .changes()
        .errors(&[422]),
    ]
}

fn example() -> Value {
    json!({
        "name": "cosmics-2026a", "version": 1, "run": 7, "software": "sheaf 0.1.0", "id": "5c01a3e2", "by": "emil",
        "time_ns": 1_780_000_000_000_000_000_u64
    })
}

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    // With a letter in it: a number is that of a run.
    let name = json!({
        "type": "string", "maxLength": 64,
        "pattern": "^([A-Za-z][A-Za-z0-9._-]*|[0-9_-][0-9._-]*[A-Za-z][A-Za-z0-9._-]*)$"
    });
    let version = object(&[
        ("name", text(), "Its name"),
        ("version", count(), "Its version, from 1"),
        ("run", count(), "Run whose configuration it is"),
        ("software", text(), "Program and version that made that run"),
        ("id", text(), "Checksum of settings and code, as in the record of the run"),
        ("by", text(), "Who gave it the name"),
        ("time_ns", count(), "When it got the name, in nanoseconds since 1970"),
    ]);
    let request = exact(&[
        ("run", within(0, u32::MAX.into()), "Run whose configuration gets the name"),
        ("name", name, "The name"),
    ]);
    vec![("NamedConfiguration", version), ("NameConfiguration", request)]
}
