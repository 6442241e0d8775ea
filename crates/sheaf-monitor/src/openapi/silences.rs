//! Requests about alarms: silences, and alarms that have been seen.

use super::operation::Operation;
use super::values::{count, exact, nullable, object, one_of, reference, text};
use crate::alarms::CODES;
use serde_json::{Value, json};

const TIME_MS: u64 = 1_780_000_000_000;

pub(super) fn paths() -> Vec<Operation> {
    let answer = object(&[("silence", reference("Silence"), "The silence")]);
    let body = json!({ "code": "dead-time", "culprit": "bu1", "duration_ms": 3_600_000, "why": "its disk is being replaced" });
    let id = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
    vec![
        Operation::new("post", "/api/v1/silences", ("control", "silence"), "Silences alarms for a time")
            .note(
                "Nobody is told of an alarm that is silenced. It stays in the list of alarms, with who has silenced it and why, and is told when the silence \
                 ends before it. A silence of the same alarms takes the place of the first.",
            )
            .takes("NewSilence", true, &[("silence", body)])
            .gives(200, "The silence.", &answer, &json!({ "silence": example() }))
            .changes()
            .errors(&[409]),
        Operation::new("delete", "/api/v1/silences/{id}", ("control", "end_silence"), "Ends a silence")
            .part("id", &id, json!(2))
            .gives(200, "It has ended.", &object(&[]), &json!({}))
            .changes(),
        Operation::new(
            "post",
            "/api/v1/alarms/seen",
            ("control", "alarms_seen"),
            "Notes that the alarms that have ended so far have been seen: they leave the list",
        )
        .gives(200, "They have left the list.", &object(&[]), &json!({}))
        .changes(),
    ]
}

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let codes: Vec<_> = CODES.iter().map(|(code, _)| *code).collect();
    let silence = object(&[
        ("id", count(), "Number of the silence"),
        ("code", text(), "Code of the alarms"),
        ("culprit", nullable(&text()), "Culprit of the alarms; `null`: any"),
        ("by", text(), "Who asked for it"),
        ("why", text(), "Why"),
        ("since_ms", count(), "When it began"),
        ("until_ms", count(), "When it ends"),
    ]);
    let time = json!({ "type": "integer", "minimum": 1_000, "maximum": 604_800_000 });
    let why = json!({ "type": "string", "pattern": "\\S", "maxLength": 256 });
    let culprit = json!({ "type": ["string", "null"], "maxLength": 256 });
    let new = exact(&[
        ("code", one_of(&codes), "Code of the alarms"),
        ("culprit?", culprit, "Culprit of the alarms: a node, a source or a reason. Without it: any"),
        ("duration_ms", time, "Time for which it lasts, at most a week"),
        ("why", why, "Why, for those who come after"),
    ]);
    vec![("Silence", silence), ("NewSilence", new)]
}

pub(super) fn example() -> Value {
    json!({
        "id": 2, "code": "dead-time", "culprit": "bu1", "by": "alice", "why": "its disk is being replaced", "since_ms": TIME_MS, "until_ms": TIME_MS + 3_600_000
    })
}
