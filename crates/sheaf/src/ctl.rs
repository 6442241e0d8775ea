//! `sheaf ctl`: gives commands to a controller, from a shell or a script.

pub(crate) mod alarms;
pub(crate) mod client;
mod excluding;
mod scan;
mod sequence;
mod silence;

use crate::Verdict;
use crate::control_directory::ControlDirectory;
use crate::print::{print, print_json};
use crate::records::utc;
use anyhow::bail;
use clap::{Args, Subcommand};
use client::{Client, Trust};
use excluding::{ExclusionArguments, RecoverArguments};
use scan::ScanArguments;
use sequence::SequenceArguments;
use serde_json::{Value, json};
use sheaf_control::Command;
use sheaf_key::make_token;
use sheaf_wire::Nanos;
use silence::{SilenceArguments, UnsilenceArguments};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Interval between two looks at a run whose end is waited for.
const PERIOD: Duration = Duration::from_millis(200);

/// Time of one request for an operation, so that what it waits for is told again and again.
const WAIT_MS: u64 = 2_000;

#[derive(Debug, Args)]
pub(crate) struct CtlArguments {
    #[command(subcommand)]
    command: CtlCommand,
    /// Directory of the controller: it has the address and a token.
    #[arg(long, value_name = "DIR", default_value = "runs/control", global = true)]
    directory: PathBuf,
    /// Partition that the controller has: its directory has `-NAME` at its end.
    #[arg(long, value_name = "NAME", global = true)]
    partition: Option<String>,
    /// Address of the controller, instead of the one in its directory. It may have a token, as the address that `sheaf serve` prints.
    #[arg(long, value_name = "URL", global = true)]
    url: Option<String>,
    #[command(flatten)]
    trust: Trust,
    /// Print JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Show the state of run control.
    Status,
    /// Bring up the nodes of a new run, and hold it.
    Configure(BeginArguments),
    /// Take triggers, in a new run if none is configured.
    Start(StartArguments),
    /// Take no triggers until `resume`. The time until then is dead time.
    Pause(CommandArguments),
    /// Take triggers again.
    Resume(CommandArguments),
    /// Begin the next run without a gap: it takes the triggers from the event on that follows the last one of this run.
    Switch(BeginArguments),
    /// End the run: build and store its events in flight, within a time limit.
    Stop(StopArguments),
    /// Kill the processes of the run, and clear all faults.
    Reset(CommandArguments),
    /// Exclude sources, readout units or builder units from the run and from those that follow: events are complete without them.
    Exclude(ExclusionArguments),
    /// Include them again, sources from the next fragment of each on.
    Include(ExclusionArguments),
    /// Start nodes again that hang or were lost, in the same run. The process of one that lives is killed.
    Recover(RecoverArguments),
    /// Make the runs of a table, one after the other, and direct them.
    Sequence(SequenceArguments),
    /// Make a run for each value of settings, or for each combination.
    Scan(ScanArguments),
    /// Take or renew the lock: while you have it, nobody else gives commands.
    Lock(LockArguments),
    /// Give the lock back.
    Unlock,
    /// Note that a fault has been seen, or the alarms that have ended: they leave the list.
    Seen(SeenArguments),
    /// Suppress the notices of alarms for a time.
    Silence(SilenceArguments),
    /// End a silence.
    Unsilence(UnsilenceArguments),
    /// List the last commands, and what came of them.
    Journal(JournalArguments),
}

#[derive(Debug, Args)]
struct WaitArguments {
    /// Return when the command is accepted; do not wait until it is carried out.
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, Args)]
struct CommandArguments {
    /// Comment for the record of the run, beside the command.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    wait: WaitArguments,
}

impl CommandArguments {
    fn body(&self) -> Value {
        self.comment.as_ref().map_or_else(|| json!({}), |comment| json!({ "comment": comment }))
    }
}

#[derive(Debug, Args)]
struct BeginArguments {
    /// End the run after this many triggers.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// End the run after this time.
    #[arg(long, value_name = "SECONDS", value_parser = crate::arguments::parse_seconds)]
    duration: Option<Nanos>,
    /// Comment for the record of the run.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Use the configuration of an earlier run, as it was in force then, instead of the present one: the number of the run, or a name that
    /// its configuration has, NAME or NAME@VERSION. `--events` and `--duration` replace its end.
    #[arg(long, value_name = "RUN|NAME")]
    like: Option<String>,
    #[command(flatten)]
    wait: WaitArguments,
}

#[derive(Debug, Args)]
struct StartArguments {
    #[command(flatten)]
    begin: BeginArguments,
    /// Wait until the run has ended. Exit status 3 if it was not good.
    #[arg(long, conflicts_with = "no_wait")]
    until_end: bool,
}

#[derive(Debug, Args)]
struct StopArguments {
    /// Drop the events in flight.
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    command: CommandArguments,
}

#[derive(Debug, Args)]
struct LockArguments {
    /// Take it from somebody; only an admin can.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct SeenArguments {
    /// Number of the fault, or `alarms`.
    #[arg(value_name = "FAULT|alarms")]
    what: Seen,
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    Alarms,
    Fault(u64),
}

impl FromStr for Seen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "alarms" => Ok(Self::Alarms),
            number => number
                .parse()
                .map(Self::Fault)
                .map_err(|_| "give the number of a fault, or `alarms`".to_owned()),
        }
    }
}

#[derive(Debug, Args)]
struct JournalArguments {
    /// Number of entries.
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
}

impl BeginArguments {
    fn body(&self) -> Value {
        let mut body = json!({});
        if let Some(events) = self.events {
            body["events"] = events.into();
        }
        if let Some(Nanos(duration)) = self.duration.filter(|duration| *duration > Nanos::ZERO) {
            body["duration_ms"] = (duration / 1_000_000).max(1).into();
        }
        if let Some(comment) = &self.comment {
            body["comment"] = comment.clone().into();
        }
        if let Some(like) = &self.like {
            body["like"] = like.clone().into();
        }
        body
    }
}

pub(crate) fn command(arguments: &CtlArguments) -> anyhow::Result<Verdict> {
    if let CtlCommand::Scan(scan) = &arguments.command
        && scan.is_table()
    {
        return scan.print_table();
    }
    let desk = Desk { client: client(arguments)?, json: arguments.json };
    match &arguments.command {
        CtlCommand::Status => desk.status(),
        CtlCommand::Configure(begin) => desk.operate(Command::Configure, begin.body(), &begin.wait),
        CtlCommand::Start(StartArguments { begin, until_end }) => {
            let before = desk.last_launch()?;
            let verdict = desk.operate(Command::Start, begin.body(), &begin.wait)?;
            if *until_end { desk.wait_for_end(before) } else { Ok(verdict) }
        }
        CtlCommand::Pause(given) => desk.operate(Command::Pause, given.body(), &given.wait),
        CtlCommand::Resume(given) => desk.operate(Command::Resume, given.body(), &given.wait),
        CtlCommand::Switch(next) => desk.operate(Command::Switch, next.body(), &next.wait),
        CtlCommand::Stop(StopArguments { now, command }) => {
            let mut body = command.body();
            if *now {
                body["now"] = true.into();
            }
            desk.operate(Command::Stop, body, &command.wait)
        }
        CtlCommand::Reset(given) => desk.operate(Command::Reset, given.body(), &given.wait),
        CtlCommand::Exclude(arguments) => desk.include(arguments, false),
        CtlCommand::Include(arguments) => desk.include(arguments, true),
        CtlCommand::Recover(arguments) => desk.recover(arguments),
        CtlCommand::Sequence(arguments) => desk.sequence(arguments),
        CtlCommand::Scan(arguments) => desk.scan(arguments),
        CtlCommand::Lock(LockArguments { force }) => {
            desk.client.put("/api/v1/lock", &json!({ "force": force }))?;
            Ok(Verdict::Good)
        }
        CtlCommand::Unlock => desk.client.delete("/api/v1/lock").map(|_| Verdict::Good),
        CtlCommand::Seen(SeenArguments { what }) => {
            let path = match what {
                Seen::Alarms => "/api/v1/alarms/seen".to_owned(),
                Seen::Fault(fault) => format!("/api/v1/faults/{fault}/cleared"),
            };
            desk.client.post(&path, &json!({})).map(|_| Verdict::Good)
        }
        CtlCommand::Silence(silence) => desk.silence(silence),
        CtlCommand::Unsilence(UnsilenceArguments { id }) => {
            desk.client.delete(&format!("/api/v1/silences/{id}")).map(|_| Verdict::Good)
        }
        CtlCommand::Journal(JournalArguments { last }) => desk.journal(*last),
    }
}

fn client(arguments: &CtlArguments) -> anyhow::Result<Client> {
    let directory = ControlDirectory::new(&arguments.directory).of_partition(arguments.partition.as_deref());
    match &arguments.url {
        // The token in the directory is that of another controller, perhaps.
        Some(url) => Client::new(url, &arguments.trust, None),
        // Without one, the state can be looked at.
        None => {
            let token = std::fs::read_to_string(directory.own_token()).ok();
            Client::new(&directory.read_address()?, &arguments.trust, token)
        }
    }
}

struct Desk {
    client: Client,
    json: bool,
}

impl Desk {
    fn control(&self) -> anyhow::Result<Value> {
        self.client.get("/api/v1/control")
    }

    fn status(&self) -> anyhow::Result<Verdict> {
        let mut control = self.control()?;
        control["alarms"] = self.client.get("/api/v1/alarms")?["alarms"].take();
        if self.json {
            print_json(&control)?;
        } else {
            print(&describe(&control))?;
        }
        Ok(Verdict::Good)
    }

    /// Gives a command, and waits until it is carried out. The name of the request makes it safe to give it again when an answer is lost.
    fn operate(&self, command: Command, mut body: Value, wait: &WaitArguments) -> anyhow::Result<Verdict> {
        body["command"] = command.name().into();
        body["request"] = make_token()?.into();
        let mut answer = self.client.post("/api/v1/operations", &body)?;
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            log::warn!("{}", warning.as_str().unwrap_or_default());
        }
        let mut operation = answer["operation"].take();
        let mut told = None;
        while !wait.no_wait && operation["ended_ms"].is_null() {
            let progress = operation["progress"].as_str().map(str::to_owned);
            if progress != told {
                told.clone_from(&progress);
                log::info!("{command}: {}", progress.unwrap_or_default());
            }
            let id = &operation["id"];
            operation = self.client.get(&format!("/api/v1/operations/{id}?wait_ms={WAIT_MS}"))?;
        }
        if self.json {
            print_json(&operation)?;
        }
        let text = operation["text"].as_str().unwrap_or("accepted");
        match operation["result"].as_str() {
            Some("done") | None => log::info!("{text}"),
            Some(result) => bail!("`{command}` {result}: {text}"),
        }
        Ok(Verdict::Good)
    }

    /// Number of the launch that ended last.
    fn last_launch(&self) -> anyhow::Result<Option<u64>> {
        Ok(self.control()?["last_run"]["launch"].as_u64())
    }

    fn wait_for_end(&self, before: Option<u64>) -> anyhow::Result<Verdict> {
        loop {
            let control = self.control()?;
            let last = &control["last_run"];
            if last["launch"].as_u64() != before {
                log::info!("{}", last["text"].as_str().unwrap_or("the run has ended"));
                return Ok(if last["good"] == true { Verdict::Good } else { Verdict::NotGood });
            }
            std::thread::sleep(PERIOD);
        }
    }

    fn journal(&self, last: usize) -> anyhow::Result<Verdict> {
        let journal = self.client.get(&format!("/api/v1/audit?last={last}"))?;
        if self.json {
            print_json(&journal)?;
            return Ok(Verdict::Good);
        }
        for entry in journal["entries"].as_array().into_iter().flatten() {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let at = utc(entry["at_ms"].as_u64().unwrap_or(0) * 1_000_000);
            let (by, action, answer, text) = (text("by"), text("action"), text("answer"), text("text"));
            print(&format!("{at}  {by:<16} {action:<12} {answer:<10} {text}\n"))?;
        }
        Ok(Verdict::Good)
    }
}

/// Returns a part of a path, in which other characters than letters and digits are encoded.
fn encode(part: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    part.bytes().map(encoded).collect()
}

/// Returns the state in a few lines.
fn describe(control: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = format!("state     {}", text(&control["state"]));
    if control["state"] != control["target"] {
        lines += &format!(" (to be {})", text(&control["target"]));
    }
    if let Some(run) = control["run"].as_u64() {
        lines += &format!(", run {run} of {}", text(&control["by"]));
    }
    lines += &format!("\nsystem    {}\n", text(&control["system"]));
    let operation = &control["operation"];
    if !operation.is_null() {
        lines += &format!(
            "command   {} of {}: {}\n",
            text(&operation["command"]),
            text(&operation["by"]),
            text(&operation["progress"])
        );
    }
    let last = &control["last"];
    if !last.is_null() {
        lines += &format!(
            "before    {} of {}, {}: {}\n",
            text(&last["command"]),
            text(&last["by"]),
            text(&last["result"]),
            text(&last["text"])
        );
    }
    if !control["last_run"].is_null() {
        lines += &format!("last run  {}\n", text(&control["last_run"]["text"]));
    }
    if !control["lock"].is_null() {
        lines += &format!("lock      {}\n", text(&control["lock"]["by"]));
    }
    if !control["sequence"].is_null() {
        lines += &format!("sequence  {}\n", sequence::describe(&control["sequence"]));
    }
    lines += &excluding::describe(control);
    lines += &alarms::describe(&control["alarms"]);
    lines += &silence::describe(&control["silences"]);
    for fault in control["faults"].as_array().into_iter().flatten() {
        lines += &format!(
            "fault {:<3} {}\n          {}\n",
            fault["id"].as_u64().unwrap_or(0),
            text(&fault["text"]),
            text(&fault["remedy"])
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources_are_parts_of_a_path() {
        assert_eq!(encode("ecal-3.b_c"), "ecal-3.b_c");
        assert_eq!(encode("a/b ä%"), "a%2Fb%20%C3%A4%25");
    }

    #[test]
    fn a_state_is_described_with_its_faults_and_their_remedies() {
        let control = json!({
            "state": "stopping", "target": "idle", "run": 7, "by": "alice", "system": "run.toml",
            "operation": { "command": "stop", "by": "bob", "progress": "builds the events in flight" },
            "last": null, "last_run": null, "lock": { "by": "bob" },
            "sources": [
                { "source": 3, "name": "ecal", "included": false, "excluded": true },
                { "source": 7, "name": null, "included": true, "excluded": true },
            ],
            "nodes": [{ "node": "ru1", "included": false, "excluded": true, "recovering": true }],
            "faults": [{ "id": 3, "text": "run 6 died", "remedy": "look at its log" }],
        });
        let text = describe(&control);
        assert_eq!(
            text,
            "state     stopping (to be idle), run 7 of alice\nsystem    run.toml\n\
             command   stop of bob: builds the events in flight\nlock      bob\n\
             source    3 (ecal): excluded\nsource    7: to be included with its next fragment\n\
             node      ru1: excluded, being started again\n\
             fault 3   run 6 died\n          look at its log\n"
        );
    }
}
