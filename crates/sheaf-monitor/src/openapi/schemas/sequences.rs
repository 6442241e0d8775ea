//! Schemas of sequences.

use super::{Schemas, time};
use crate::openapi::values::{
    count, exact, flag, list, map, nullable, object, one_of, reference, text, within,
};
use serde_json::{Value, json};

/// Most repetitions of a row that fails.
const REPEATS: u64 = 100;

/// Most rows of a table.
const ROWS: u64 = 10_000;

/// Largest table, in bytes, which are no fewer than its characters.
const TABLE_BYTES: u64 = 1 << 20;

const RULES: [&str; 3] = ["pause", "continue", "repeat"];

/// Returns the schema of the row that a run was made for.
pub(super) fn of_run() -> Value {
    object(&[
        ("name", text(), "Name of the sequence"),
        ("row", count(), "Number of the row, from 1"),
        ("values", map(&text()), "Settings of the row, by key"),
    ])
}

pub(super) fn all() -> Schemas {
    let sequence = object(&[
        ("id", count(), "Number that grows with each sequence of the controller"),
        ("name", text(), "Its name"),
        ("by", text(), "Who has started or resumed it"),
        ("state", one_of(&["running", "paused", "stopping", "ended"]), "Its state"),
        ("reason", nullable(&text()), "Why it is paused, or how it ended"),
        ("on_failure", one_of(&RULES), "What follows when the run of a row fails"),
        ("row", nullable(&count()), "Number of the row in progress, or of the next one, from 1"),
        ("launch", nullable(&count()), "Launch of the run in progress"),
        ("row_began_ms", nullable(&time()), "When the run in progress was started"),
        ("rows", count(), "Number of rows"),
        ("done", count(), "Rows that are done"),
        ("failed", count(), "Rows that have failed"),
        ("skipped", count(), "Rows that are left out"),
        ("mean_ms", nullable(&count()), "Mean time of a row that is done"),
    ]);
    let row = object(&[
        ("row", count(), "Number of the row, from 1"),
        ("values", map(&text()), "Its settings, by key"),
        ("comment", nullable(&text()), "Comment for the record of its run"),
        ("state", one_of(&["waiting", "running", "done", "failed", "skipped"]), "Its state"),
        ("run", nullable(&count()), "Number of the latest run, if it had one"),
        ("triggers", nullable(&count()), "Accepted triggers of that run, once it has ended"),
        ("attempts", count(), "Runs that were started for it"),
        ("took_ms", nullable(&count()), "Time from start to end of the latest run"),
        ("text", nullable(&text()), "End of the latest run in words"),
    ]);
    let table = object(&[
        ("sequence", reference("Sequence"), "The sequence"),
        ("rows", list(&reference("SequenceRow")), "Its rows, in order"),
    ]);
    let request = json!({ "type": "string", "minLength": 1, "maxLength": 64 });
    let name = json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" });
    let csv = json!({ "type": "string", "maxLength": TABLE_BYTES });
    let begin = exact(&[
        ("request", request, "Name of the request, chosen by the client: the same name is the same request"),
        ("name", name, "Name of the sequence, for records"),
        (
            "table",
            csv,
            "The table (CSV): keys of the configuration in the first line, then a run in each line; the column `comment` is for records",
        ),
        ("resume?", flag(), "Whether rows count as done that an earlier sequence of this name has done"),
        ("on_failure?", one_of(&RULES), "What follows when the run of a row fails"),
        ("repeats?", nullable(&within(0, REPEATS)), "Repetitions of a row that fails, with `repeat`"),
    ]);
    let action = exact(&[
        ("action", one_of(&["pause", "resume", "skip", "stop"]), "The command"),
        (
            "row?",
            nullable(&within(1, ROWS)),
            "Row to skip, so that it is skipped once; the present one if it is absent",
        ),
    ]);
    vec![
        ("Sequence", sequence),
        ("SequenceRow", row),
        ("SequenceTable", table),
        ("BeginSequence", begin),
        ("DirectSequence", action),
    ]
}
