//! Requests about values from outside, and the schemas of their bodies and answers.

use super::operation::Operation;
use super::values::{count, exact, list, map, nullable, number, object, one_of, reference, text};
use crate::values::Refusal;
use serde_json::{Value, json};

/// Names of values.
fn name() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$" })
}

pub(super) fn paths() -> Vec<Operation> {
    let example = json!({ "values": { "hv-ecal": 1500.2, "beam": null }, "time_ms": 1_780_000_000_000_u64 });
    let refusal = refusals();
    vec![
        Operation::get("/api/v1/values", ("values", "values"), "Returns the values from outside of the run")
            .gives(200, "The values, by name.", &reference("ValueList"), &example_of_list()),
        Operation::get(
            "/api/v1/values/{name}/history",
            ("values", "value_history"),
            "Returns the numbers over time of a value",
        )
        .note("In the binary form of `/api/v1/history`, with one column. Rows in which the value was not fresh are NaN.")
        .part("name", &name(), json!("hv-ecal"))
        .query("step", &json!({ "type": "integer", "enum": [100, 1_000, 10_000] }), ("Milliseconds between rows: 100, 1000 or 10000.", json!(1_000)))
        .required()
        .gives_media("application/octet-stream", "The rows.")
        .errors(&[400, 404]),
        Operation::new("put", "/api/v1/values", ("values", "set_values"), "Sends values")
            .note(
                "For programs that read devices. The values must be declared, without a file (`[value.NAME]`). A value that its sender does not know is null. \
                 Those that can be taken are taken, also if others are refused.",
            )
            .takes("Values", true, &[("values", example)])
            .gives(200, "All were taken.", &taken(), &json!({ "taken": 2, "age_ms": 0 }))
            .gives(422, "Some were not taken.", &refusal, &example_of_refusal())
            .changes()
            .errors(&[408, 409]),
    ]
}

fn taken() -> Value {
    object(&[
        ("taken", count(), "Number of values"),
        ("age_ms", count(), "Their age by `time_ms`, on the clock of the server"),
    ])
}

fn codes() -> Value {
    one_of(&Refusal::ALL.map(Refusal::name))
}

fn refusals() -> Value {
    let refused = object(&[
        ("name", text(), "The value"),
        ("code", codes(), "Reason"),
        ("remedy", text(), "What to do"),
    ]);
    object(&[
        ("code", one_of(&["values"]), "Kind of the error"),
        ("text", text(), "What happened"),
        ("remedy", text(), "What to do about the first of them"),
        ("taken", count(), "Number of values that were taken"),
        ("refused", list(&refused), "Values that were not taken, at most 16 of them"),
    ])
}

fn example_of_refusal() -> Value {
    json!({
        "code": "values", "text": "1 of 2 values are not taken, such as hv: undeclared", "remedy": "what to do", "taken": 1,
        "refused": [{ "name": "hv", "code": "undeclared", "remedy": "what to do" }]
    })
}

fn example_of_list() -> Value {
    json!({
        "time_ms": 1_780_000_000_000_u64,
        "values": [{
            "name": "hv-ecal", "unit": "V", "value": 1500.2, "state": "fresh", "level": "good", "age_ms": 400, "missing_ms": 0, "stale_ms": 30_000,
            "file": null, "by": "bridge", "problem": null, "warning_below": 1450, "warning_above": 1550, "error_below": null, "error_above": null,
            "readings": 170, "trend": [1500.1, null, 1500.2]
        }],
        "refused": { "undeclared": 0, "from_file": 0, "no_number": 0, "late": 0, "future": 0, "invalid": 0 }
    })
}

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let sent = json!({
        "type": "object",
        "additionalProperties": nullable(&json!({ "type": "number", "minimum": -1e30, "maximum": 1e30 })),
    });
    let values = exact(&[
        ("values", sent, "Numbers by name; null where a value is not known"),
        (
            "time_ms?",
            nullable(&json!({ "type": "number", "minimum": 0, "maximum": 1e16 })),
            "When they were read, in milliseconds since 1970. Default: now",
        ),
    ]);
    let value = object(&[
        ("name", text(), "Name"),
        ("unit", nullable(&text()), "Unit"),
        ("value", nullable(&number()), "The last number. It is the present one only if the value is fresh"),
        ("state", one_of(&["fresh", "stale", "unknown"]), "Whether it is known"),
        (
            "level",
            nullable(&one_of(&["good", "warning", "error"])),
            "Position relative to its limits, if it is fresh",
        ),
        ("age_ms", nullable(&count()), "Age of the last number"),
        ("missing_ms", count(), "Time for which it has not been fresh"),
        ("stale_ms", count(), "Age from which on it is stale"),
        ("file", nullable(&text()), "File that it is read from"),
        ("by", nullable(&text()), "Who has sent it last"),
        ("problem", nullable(&text()), "Reason why its file gives no number"),
        ("warning_below", nullable(&number()), "Limit"),
        ("warning_above", nullable(&number()), "Limit"),
        ("error_below", nullable(&number()), "Limit"),
        ("error_above", nullable(&number()), "Limit"),
        ("readings", count(), "Number of times that it was taken"),
        ("trend?", list(&nullable(&number())), "Means over 10 s of the last ten minutes, the newest last"),
    ]);
    let listed = object(&[
        ("time_ms", count(), "When this was composed, in milliseconds since 1970"),
        ("values", list(&value), "The values, in the order of their names"),
        ("refused", map(&count()), "Number of values that were sent and not taken, by reason"),
    ]);
    vec![("Values", values), ("ValueList", listed)]
}

/// Returns the schema of a value in the record of a run.
pub(super) fn of_run() -> Value {
    let number = || nullable(&number());
    object(&[
        ("name", text(), "Name"),
        ("unit?", text(), "Unit"),
        (
            "first",
            number(),
            "The value when the run began, or the first one after that; null, as all of these, if it was never known",
        ),
        ("last", number(), "The last value"),
        ("minimum", number(), "The lowest value"),
        ("maximum", number(), "The highest value"),
        ("mean", number(), "Mean over the time in which the value was known"),
        ("readings", count(), "Number of readings during the run"),
        ("unknown_ms", count(), "Time for which the value was not known"),
    ])
}

/// Returns the schema of the numbers of values by state.
pub(super) fn counts() -> Value {
    object(&[
        ("declared", count(), "Values of the configuration"),
        ("fresh", count(), "Those that are known"),
        ("stale", count(), "Those whose last number is too old"),
        ("unknown", count(), "Those that were never known, or are not known to their sender"),
    ])
}
