//! Answers to requests over HTTP.

use super::desk::Desk;
use super::journal::Entry;
use crate::excluding::Excludables;
use crate::gate;
use crate::records::comments::{self, Comment, Quality};
use crate::records::{Like, check_name, find_number, note_addition_later};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Error, Number, Value, json};
use sheaf_control::request::RunSettings;
use sheaf_control::{Command, Excludable, Operator, Refusal, RefusalCode, Request, Role, SilenceRequest};
use sheaf_monitor::alarms::CODES;
use sheaf_monitor::control::{Answer, Asked, Call};
use sheaf_monitor::state::Standby;
use sheaf_node::Exclusions;
use sheaf_telemetry::log_as;
use sheaf_wire::{Nanos, NodeId, SourceId};
use std::str::FromStr as _;

/// Most entries of the journal in an answer.
const MOST: usize = 1_000;

/// A command, as clients write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operate {
    command: Command,
    request: String,
    #[serde(default)]
    now: bool,
    #[serde(flatten)]
    settings: SettingsOf,
}

/// Settings of a run, as clients write them.
#[derive(Debug, Default, Deserialize)]
struct SettingsOf {
    #[serde(default, deserialize_with = "whole_number")]
    events: Option<u64>,
    #[serde(default, deserialize_with = "whole_number")]
    duration_ms: Option<u64>,
    comment: Option<String>,
    like: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IncludedOf {
    included: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockOf {
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SilenceOf {
    code: String,
    culprit: Option<String>,
    #[serde(default, deserialize_with = "whole_number")]
    duration_ms: Option<u64>,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecoverOf {
    request: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommentOf {
    text: Option<String>,
    quality: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NameOf {
    #[serde(deserialize_with = "run_number")]
    run: u32,
    name: String,
}

fn refuse(refusal: &Refusal) -> Answer {
    let (status, code) = match refusal.code {
        RefusalCode::Invalid => (400, "invalid"),
        RefusalCode::Role => (403, "role"),
        RefusalCode::NotFound => (404, "not_found"),
        RefusalCode::State => (409, "state"),
        RefusalCode::Stale => (412, "stale"),
        RefusalCode::Locked => (423, "locked"),
    };
    Answer::error(status, code, &refusal.text, &refusal.remedy)
}

pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Answer> {
    // An array of its members would make a value, too.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let value =
        if is_object { serde_json::from_slice(body) } else { Err(Error::custom("it is not a JSON object")) };
    value.map_err(|problem| {
        Answer::error(
            400,
            "invalid",
            &format!("the request cannot be read: {problem}"),
            "docs/reference/http.md lists what it may have",
        )
    })
}

/// Reads a whole number. Some languages write 1000 as `1000.0`.
pub(super) fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(None) };
    let whole = || number.as_f64().filter(|value| value.fract() == 0.0)?.to_string().parse().ok();
    let value = number.as_u64().or_else(whole);
    value
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("{number} is not a whole number from 0 to {}", u64::MAX)))
}

/// Reads the number of a run.
fn run_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = whole_number(deserializer)?.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| D::Error::custom(format!("`run` is not a whole number from 0 to {}", u32::MAX)))
}

/// Returns the number in an entity tag such as `"17"`. Some clients take the quotes away.
pub(super) fn parse_revision(tag: &str) -> Result<u64, Answer> {
    let number = tag.trim().trim_matches('"');
    let digits = Some(number).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        Answer::error(
            400,
            "invalid",
            "If-Match is not a revision of the state",
            "send the number of `control.revision` in quotes, or leave the header out",
        )
    })
}

fn no_node(name: &str) -> Answer {
    let text = format!("there is no node `{name}`");
    Answer::error(404, "not_found", &text, "give the name of a readout unit or builder unit")
}

/// Returns the role that a request needs.
fn role_for(call: &Call) -> Role {
    match call {
        Call::Me
        | Call::Status
        | Call::Sequence
        | Call::Operation(_)
        | Call::Audit(_)
        | Call::Runs(_)
        | Call::Run(_)
        | Call::Configurations => Role::Viewer,
        // Taking the lock from somebody needs more, which is known when somebody has it.
        Call::Publish
        | Call::Operate(_)
        | Call::DirectSequence(_)
        | Call::Include(..)
        | Call::IncludeNode(..)
        | Call::Recover(..)
        | Call::Lock(_)
        | Call::Unlock
        | Call::Seen(_)
        | Call::Silence(_)
        | Call::EndSilence(_)
        | Call::AlarmsSeen
        | Call::Comment(..) => Role::Operator,
        // The rows of its table change settings, and a name stands for those of runs to come.
        Call::BeginSequence(_) | Call::NameConfiguration(_) => Role::Expert,
    }
}

fn refuse_role(operator: &Operator, call: &Call) -> Option<Answer> {
    gate::refuse_role(operator, role_for(call))
}

impl Desk {
    /// Answers a request. What it changes is on disk before the answer is given.
    pub(super) fn reply(&mut self, Asked { call, credentials, revision }: Asked) -> Answer {
        match call {
            Call::Status => return Answer::json(200, &self.status()),
            Call::Sequence => return self.sequence(),
            Call::Operation(id) => return self.operation(id),
            Call::Audit(last) => {
                return Answer::json(200, &json!({ "entries": self.journal.last(last.min(MOST)) }));
            }
            // The records of runs are read on another thread.
            Call::Runs(_) | Call::Run(_) | Call::Configurations => {
                return Answer::error(404, "not_found", "nothing is here", "look at the list of paths");
            }
            _ => {}
        }
        let operator = match self.gate.identify(&credentials) {
            Ok(operator) => operator,
            Err(answer) => return answer,
        };
        if let Some(answer) = refuse_role(&operator, &call) {
            return answer;
        }
        let done = match call {
            Call::Operate(body) => self.operate(&operator, &body, revision.as_deref()),
            Call::Include(source, body) => self.include(&operator, (&source, &body), revision.as_deref()),
            Call::IncludeNode(node, body) => {
                self.include_node(&operator, (&node, &body), revision.as_deref())
            }
            Call::Recover(node, body) => self.recover(&operator, (&node, &body), revision.as_deref()),
            Call::BeginSequence(body) => self.begin_sequence(&operator, &body, revision.as_deref()),
            Call::DirectSequence(body) => self.direct_sequence(&operator, &body, revision.as_deref()),
            Call::Lock(body) => self.lock(&operator, &body),
            Call::Unlock => self.change(&operator, "unlock", |desk| {
                let now = desk.now();
                desk.controller.handle_unlock(now, &operator);
                Ok(json!({}))
            }),
            Call::Seen(fault) => self.change(&operator, &format!("fault {fault} seen"), |desk| {
                let now = desk.now();
                desk.controller.handle_seen(now, fault)?;
                Ok(json!({}))
            }),
            Call::Silence(body) => self.silence(&operator, &body),
            Call::EndSilence(id) => self.change(&operator, &format!("end silence {id}"), |desk| {
                let now = desk.now();
                desk.controller.handle_silence_end(now, &operator, id)?;
                Ok(json!({}))
            }),
            Call::AlarmsSeen => self.change(&operator, "alarms seen", |desk| {
                let now = desk.now();
                desk.controller.handle_alarms_seen(now);
                Ok(json!({}))
            }),
            Call::NameConfiguration(body) => self.name_configuration(&operator, &body),
            Call::Comment(run, body) => self.comment(&operator, run, &body),
            _ => Ok(Answer::json(200, &json!({ "name": operator.name, "role": operator.role.name() }))),
        };
        done.unwrap_or_else(|answer| answer)
    }

    fn operation(&self, id: u64) -> Answer {
        match self.controller.operation(id) {
            Some(operation) => {
                let view = self.controller.show_operation(operation);
                Answer { lasts: view.ended_ms.is_none(), ..Answer::json(200, &json!(view)) }
            }
            None => Answer::error(
                404,
                "not_found",
                &format!("there is no operation {id}, or it is too old"),
                "look at the journal",
            ),
        }
    }

    fn operate(
        &mut self,
        operator: &Operator,
        body: &[u8],
        revision: Option<&str>,
    ) -> Result<Answer, Answer> {
        let revision = revision.map(parse_revision).transpose()?;
        let Operate { command, request, now, settings } = parse(body)?;
        let SettingsOf { events, duration_ms, comment, like } = settings;
        let warnings = match &like {
            // A request that was accepted is answered as then, whatever has become of the run.
            Some(like) if !self.controller.knows(&request) => self.check_like(operator, like)?,
            _ => Vec::new(),
        };
        let settings = RunSettings { events, duration_ms, comment, like, sequence: None };
        let request = Request { command, name: request, settings, now, revision };
        let mut again = false;
        let answer = self.change(operator, command.name(), |desk| {
            let now = desk.now();
            if matches!(request.command, Command::Configure | Command::Start) {
                desk.read_limits(request.settings.like.as_deref());
            }
            let accepted = desk.controller.handle_request(now, operator, &request)?;
            again = accepted.again;
            let view = desk
                .controller
                .operation(accepted.operation)
                .map(|known| desk.controller.show_operation(known));
            Ok(json!({ "operation": view, "warnings": warnings }))
        })?;
        Ok(Answer { status: if again { 200 } else { 202 }, ..answer })
    }

    /// Checks that a run can be started like another one. It has other settings than those of the present configuration, so it needs the role
    /// that a sequence needs. Returns warnings.
    fn check_like(&self, operator: &Operator, like: &str) -> Result<Vec<String>, Answer> {
        if let Some(answer) = gate::refuse_role(operator, Role::Expert) {
            return Err(answer);
        }
        // Over HTTP nobody looks into other directories.
        let checked = match like.contains('/') {
            true => Err(anyhow::anyhow!(
                "`{like}` is neither the number of a run nor the name of a configuration"
            )),
            false => self.launcher.check_like(like),
        };
        let warnings = checked.map_err(|problem| {
            let remedy = "give a run of `sheaf runs list`, or a name of `sheaf runs configurations`";
            Answer::error(422, "like", &crate::describe(&problem), remedy)
        })?;
        warnings.iter().for_each(|warning| log_as!(CODE_CHANGED; "{warning}"));
        Ok(warnings)
    }

    /// Returns the sources and nodes of the configuration of the run, or as the next run would read it.
    fn excludables(&mut self) -> Result<Excludables, Answer> {
        let excludables = self.launcher.excludables(self.controller.like()).map_err(|problem| {
            Answer::error(503, "configuration", &crate::describe(&problem), "repair the configuration")
        })?;
        self.names = excludables.names().clone();
        Ok(excludables)
    }

    /// Checks that runs are possible without something more than what is excluded.
    fn check_exclusion(&self, excludables: &Excludables, more: &Exclusions) -> Result<(), Answer> {
        let view = self.controller.view();
        let sources = view.sources.iter().filter(|it| !it.included).map(|it| SourceId(it.source));
        let nodes =
            view.nodes.iter().filter(|it| !it.included).filter_map(|it| excludables.find_node(&it.node));
        let all = Exclusions {
            sources: sources.chain(more.sources.iter().copied()).collect(),
            nodes: nodes.chain(more.nodes.iter().copied()).collect(),
        };
        let check = excludables.check(&all);
        check.map_err(|problem| Answer::error(409, "state", &problem.text, problem.remedy))
    }

    /// Excludes a source, or includes it again. It is one of the configuration as the next run would read it.
    fn include(
        &mut self,
        operator: &Operator,
        (text, body): (&str, &[u8]),
        revision: Option<&str>,
    ) -> Result<Answer, Answer> {
        let revision = revision.map(parse_revision).transpose()?;
        let IncludedOf { included } = parse(body)?;
        let excludables = self.excludables()?;
        let known = excludables.find(text).or_else(|| {
            // One that is excluded can be included, also if the configuration has it no more.
            let number = text.parse().ok()?;
            let is_listed = self.controller.view().sources.iter().any(|source| source.source == number);
            (included && is_listed).then_some(SourceId(number))
        });
        let source = known.ok_or_else(|| {
            let text = format!("there is no source `{text}`");
            Answer::error(404, "not_found", &text, "give a number or a name of the configuration")
        })?;
        if !included {
            self.check_exclusion(
                &excludables,
                &Exclusions { sources: [source].into(), ..Exclusions::default() },
            )?;
        }
        let verb = if included { "include" } else { "exclude" };
        let action = format!("{verb} source {}", excludables.names().show(source));
        self.change(operator, &action, |desk| {
            let now = desk.now();
            let what = Excludable::Source(source.0);
            desk.controller.handle_exclusion(now, operator, (what, included), revision)?;
            Ok(json!({ "source": source.0, "sources": desk.status()["sources"] }))
        })
    }

    /// Excludes a node, or includes it again. It is one of the configuration as the next run would read it.
    fn include_node(
        &mut self,
        operator: &Operator,
        (name, body): (&str, &[u8]),
        revision: Option<&str>,
    ) -> Result<Answer, Answer> {
        let revision = revision.map(parse_revision).transpose()?;
        let IncludedOf { included } = parse(body)?;
        let excludables = self.excludables()?;
        match excludables.find_node(name) {
            Some(node) if !included => {
                self.check_exclusion(
                    &excludables,
                    &Exclusions { nodes: [node].into(), ..Exclusions::default() },
                )?;
            }
            Some(_) => {}
            // One that is excluded can be included, also if the configuration has it no more.
            None if included && self.controller.view().nodes.iter().any(|node| node.node == name) => {}
            None => return Err(no_node(name)),
        }
        let action = format!("{} {name}", if included { "include" } else { "exclude" });
        self.change(operator, &action, |desk| {
            let now = desk.now();
            let what = Excludable::Node(name.to_owned());
            desk.controller.handle_exclusion(now, operator, (what, included), revision)?;
            Ok(json!({ "nodes": desk.status()["nodes"] }))
        })
    }

    /// Checks that the run goes on without its event manager.
    fn check_step_down(&self, name: &str) -> Result<(), Answer> {
        let (text, remedy) = match self.standby() {
            Some(Standby { ready: true, .. }) => return Ok(()),
            Some(_) => (
                format!("the standby of {name} is not ready: the run would end with {name}"),
                "wait until it has joined; the log says why it is missing",
            ),
            None => (
                format!("{name} keeps the books of the run: the run ends with it"),
                "stop or reset the run, and start another; with a standby (manager.standby), it could be started again",
            ),
        };
        Err(Answer::error(409, "state", &text, remedy))
    }

    /// Has a node of the run started again.
    fn recover(
        &mut self,
        operator: &Operator,
        (name, body): (&str, &[u8]),
        revision: Option<&str>,
    ) -> Result<Answer, Answer> {
        let revision = revision.map(parse_revision).transpose()?;
        let RecoverOf { request } = parse(body)?;
        match self.excludables()?.find_node(name) {
            None => return Err(no_node(name)),
            Some(NodeId::MANAGER) => self.check_step_down(name)?,
            Some(node) if node.role == NodeId::MANAGER.role => {
                let text = format!("{name} is a replica of the event manager");
                return Err(Answer::error(
                    409,
                    "state",
                    &text,
                    "name the event manager: its standby takes over from it",
                ));
            }
            Some(_) => {}
        }
        self.change(operator, &format!("recover {name}"), |desk| {
            let now = desk.now();
            desk.controller.handle_recover(now, operator, (name, &request), revision)?;
            Ok(json!({ "nodes": desk.status()["nodes"] }))
        })
    }

    fn lock(&mut self, operator: &Operator, body: &[u8]) -> Result<Answer, Answer> {
        let LockOf { force } = if body.is_empty() { LockOf::default() } else { parse(body)? };
        self.change(operator, if force { "lock by force" } else { "lock" }, |desk| {
            let now = desk.now();
            desk.controller.handle_lock(now, operator, force)?;
            Ok(json!({ "lock": desk.controller.view().lock }))
        })
    }

    /// Silences alarms of a code that there is, for a time.
    fn silence(&mut self, operator: &Operator, body: &[u8]) -> Result<Answer, Answer> {
        let SilenceOf { code, culprit, duration_ms, why } = parse(body)?;
        if !CODES.iter().any(|(known, _)| *known == code) {
            let codes: Vec<_> = CODES.iter().map(|(code, _)| *code).collect();
            let remedy = format!("choose one of {}", codes.join(", "));
            return Err(Answer::error(400, "invalid", &format!("there is no alarm `{code}`"), &remedy));
        }
        let time = Nanos::from_millis(duration_ms.unwrap_or(0));
        let action =
            format!("silence {code}{}", culprit.as_ref().map_or_else(String::new, |of| format!(" of {of}")));
        let request = SilenceRequest { code, culprit, time, why };
        self.change(operator, &action, |desk| {
            let now = desk.now();
            let silence = desk.controller.handle_silence(now, operator, request)?;
            Ok(json!({ "silence": silence }))
        })
    }

    fn comment(&mut self, operator: &Operator, run: u32, body: &[u8]) -> Result<Answer, Answer> {
        let CommentOf { text, quality } = parse(body)?;
        let quality = quality.as_deref().map(Quality::from_str).transpose();
        let quality = quality.map_err(|problem| {
            Answer::error(400, "invalid", &format!("quality {problem}"), "choose one of them")
        })?;
        let text = text.filter(|text| !text.trim().is_empty());
        if text.is_none() && quality.is_none() {
            return Err(Answer::error(
                400,
                "invalid",
                "there is neither a text nor a quality",
                "give one of them",
            ));
        }
        let path = find_number(run, &self.output);
        let path = path.map_err(|problem| {
            Answer::error(404, "not_found", &crate::describe(&problem), "look at the list of runs")
        })?;
        let comment = Comment::new(Some(&operator.name), text.as_deref(), quality);
        let added = comments::add(&path, &comment);
        added.map_err(|problem| Answer::error(503, "disk", &crate::describe(&problem), "free some space"))?;
        // The controller does not wait for a database.
        note_addition_later(path);
        Ok(Answer::json(200, &json!({})))
    }

    /// Gives a name to the configuration of a run. The file of the version says who did it.
    fn name_configuration(&self, operator: &Operator, body: &[u8]) -> Result<Answer, Answer> {
        let NameOf { run, name } = parse(body)?;
        if let Err(problem) = check_name(&name) {
            return Err(Answer::error(400, "invalid", &problem.to_string(), "choose another name"));
        }
        let like = Like::find(&run.to_string(), &self.output).map_err(|problem| {
            Answer::error(404, "not_found", &crate::describe(&problem), "look at the list of runs")
        })?;
        let (configuration, known) = like.give_name(&name, Some(&operator.name)).map_err(|problem| {
            let text = crate::describe(&problem);
            match problem.chain().any(|cause| cause.is::<std::io::Error>()) {
                true => Answer::error(503, "disk", &text, "look at the disk of the runs"),
                false => {
                    Answer::error(422, "like", &text, "give the name with the version that made the run")
                }
            }
        })?;
        Ok(Answer::json(200, &json!({ "configuration": configuration, "known": known })))
    }

    /// Makes a change, and writes it down; takes it back if it cannot be written down.
    pub(super) fn change(
        &mut self,
        operator: &Operator,
        action: &str,
        change: impl FnOnce(&mut Self) -> Result<Value, Refusal>,
    ) -> Result<Answer, Answer> {
        let before = self.controller.clone();
        let (entry, answer) = match change(self) {
            Ok(value) => (Entry::new(&operator.name, action, "accepted", ""), Ok(Answer::json(200, &value))),
            Err(refusal) => {
                (Entry::new(&operator.name, action, "refused", refusal.text.clone()), Err(refuse(&refusal)))
            }
        };
        let written = self.journal.add(entry).and_then(|()| self.save());
        if let Err(problem) = written {
            self.controller = before;
            let text =
                format!("nothing was done, because it cannot be recorded: {}", crate::describe(&problem));
            return Err(Answer::error(
                503,
                "disk",
                &text,
                "free some space on the disk of the controller's directory",
            ));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_an_object() {
        for text in ["[]", "[true]", "null", "true", " ", "{"] {
            assert!(parse::<LockOf>(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse::<LockOf>(b" {\"force\": true}").is_ok_and(|lock| lock.force));
        assert!(parse::<CommentOf>(b"[\"fine\", \"good\"]").is_err());
    }

    #[test]
    fn whole_numbers_may_be_written_with_a_fraction_of_0() {
        let events = |text: &str| {
            let body = format!(r#"{{"command": "start", "request": "a", "events": {text}}}"#);
            parse::<Operate>(body.as_bytes()).ok().map(|operate| operate.settings.events)
        };
        for (text, value) in [("7", 7), ("7.0", 7), ("7e2", 700), ("18446744073709551615", u64::MAX)] {
            assert_eq!(events(text), Some(Some(value)), "{text}");
        }
        assert_eq!(events("null"), Some(None));
        let run = |text: &str| {
            parse::<NameOf>(format!(r#"{{"run": {text}, "name": "a"}}"#).as_bytes()).ok().map(|of| of.run)
        };
        assert_eq!([run("7"), run("7.0"), run("4294967296"), run("null")], [Some(7), Some(7), None, None]);
        for text in ["7.5", "-1", "-1.0", "1e30", "\"7\"", "true"] {
            assert_eq!((events(text), run(text)), (None, None), "{text}");
        }
    }
}
