//! Schemas of silences.

use super::Schemas;
use crate::alarms::CODES;
use crate::openapi::values::{count, exact, nullable, object, one_of, text, within};
use serde_json::json;

pub(super) fn all() -> Schemas {
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
    let time = within(1_000, 604_800_000);
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
