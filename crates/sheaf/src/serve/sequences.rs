//! Answers to requests about sequences.

use super::answers::{parse, parse_revision, whole_number};
use super::desk::Desk;
use serde::Deserialize;
use serde_json::json;
use sheaf_config::RunTable;
use sheaf_control::Operator;
use sheaf_control::sequence::{ROWS, Row, Rule, SequenceAction, SequenceRequest, Table};
use sheaf_monitor::control::Answer;
use std::sync::Arc;

/// Repetitions of a row that fails, where the client gives no number.
const REPEATS: u64 = 3;

/// A sequence, as clients write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BeginOf {
    request: String,
    name: String,
    table: String,
    #[serde(default)]
    resume: bool,
    #[serde(default)]
    on_failure: Rule,
    #[serde(default, deserialize_with = "whole_number")]
    repeats: Option<u64>,
}

/// A command to a sequence, as clients write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectOf {
    action: SequenceAction,
    #[serde(default, deserialize_with = "whole_number")]
    row: Option<u64>,
}

impl Desk {
    /// Answers with the sequence and all of its rows.
    pub(super) fn sequence(&self) -> Answer {
        match self.controller.sequence_table() {
            Some(table) => Answer::json(200, &json!(table)),
            None => Answer::error(
                404,
                "not_found",
                "there has been no sequence",
                "start one: `sheaf ctl sequence start`",
            ),
        }
    }

    /// Begins a sequence, if each of its rows makes a run.
    pub(super) fn begin_sequence(
        &mut self,
        operator: &Operator,
        body: &[u8],
        revision: Option<&str>,
    ) -> Result<Answer, Answer> {
        let revision = revision.map(parse_revision).transpose()?;
        let BeginOf { request, name, table, resume, on_failure: rule, repeats } = parse(body)?;
        let table = RunTable::parse(&table, &format!("{name}.csv"), ROWS);
        let table = table.and_then(|table| self.launcher.check(&table).map(|()| table));
        let table = table.map_err(|errors| {
            let number = errors.errors().len();
            let problems = if number == 1 { "a problem".to_owned() } else { format!("{number} problems") };
            let text = format!("the table has {problems}, and no run was started\n\n{errors}\n");
            Answer::error(422, "table", &text, "correct the table, and start the sequence again")
        })?;
        let row = |(values, comment): (Vec<&str>, Option<&str>)| Row {
            values: values.into_iter().map(str::to_owned).collect(),
            comment: comment.map(str::to_owned),
        };
        let rows = table.rows().map(row).collect();
        let table = Arc::new(Table { columns: table.columns().map(str::to_owned).collect(), rows });
        let repeats = u32::try_from(repeats.unwrap_or(REPEATS)).unwrap_or(u32::MAX);
        let request = SequenceRequest { request, name, table, rule, repeats, resume, revision };
        let action = format!("sequence start {}", request.name);
        let mut again = false;
        let answer = self.change(operator, &action, |desk| {
            let now = desk.now();
            again = desk.controller.handle_sequence(now, operator, &request)?.again;
            Ok(json!({ "sequence": desk.controller.view().sequence }))
        })?;
        Ok(Answer { status: if again { 200 } else { 202 }, ..answer })
    }

    /// Gives a command to the sequence.
    pub(super) fn direct_sequence(
        &mut self,
        operator: &Operator,
        body: &[u8],
        revision: Option<&str>,
    ) -> Result<Answer, Answer> {
        let revision = revision.map(parse_revision).transpose()?;
        let DirectOf { action, row } = parse(body)?;
        let row = row.map(|row| u32::try_from(row).unwrap_or(u32::MAX));
        self.change(operator, &format!("sequence {}", action.name()), |desk| {
            let now = desk.now();
            desk.controller.handle_sequence_action(now, operator, (action, row), revision)?;
            Ok(json!({ "sequence": desk.controller.view().sequence }))
        })
    }
}
