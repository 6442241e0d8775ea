//! `sheaf agent`: starts the nodes of runs on its host, for whoever has its key.
//!
//! For each run it starts a process, `sheaf host-run`, which looks after the nodes. The agent passes messages on between that and the run, and
//! does not look into them but for the first.

mod host_runs;

use crate::console::{self, Console};
use crate::host_message::{HostOrder, HostReport};
use crate::{SOFTWARE, Verdict, next, signals};
use anyhow::Context as _;
use clap::Args;
use host_runs::HostRuns;
use sheaf_agent::{Conversation, Door, LinkOptions, Received};
use sheaf_config::{Config, LogFormat};
use sheaf_key::RunKey;
use sheaf_telemetry::log_as;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which the agent looks whether it is to end.
const PERIOD: Duration = Duration::from_millis(200);

/// Time in which the first order must come.
const FIRST_ORDER: Duration = Duration::from_secs(10);

/// Room for messages that a run has not acknowledged.
const ROOM: usize = 64 << 20;

/// Time for the last messages of a conversation.
const HANG_UP: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// File with the key that the agent shares with runs (`agents.key_file`): only who has it can start nodes on this host. `(umask 077;
    /// openssl rand -hex 32 > FILE)` makes one.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Address at which runs reach the agent.
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:7400")]
    listen: String,
    /// Time without a connection to a run after which its nodes are ended.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = crate::arguments::parse_seconds)]
    patience: sheaf_wire::Nanos,
    /// Form of messages on standard error.
    #[arg(long, value_name = "text|json", default_value = "text", value_parser = LogFormat::from_str)]
    log: LogFormat,
}

/// Serves runs until a signal ends the agent.
pub(crate) fn command(arguments: &AgentArguments, console: &Console) -> anyhow::Result<Verdict> {
    console.keep_log("agent", arguments.log)?;
    let key = RunKey::load(&arguments.key).context("--key cannot be used")?;
    let options =
        LinkOptions { patience: arguments.patience.to_std(), connect_timeout: FIRST_ORDER, room: ROOM };
    let door = Door::listen(&arguments.listen, key, &options).with_context(|| {
        format!(
            "cannot listen on {}; is another agent there, or does the address belong to another host?",
            arguments.listen
        )
    })?;
    let place = std::env::current_dir().context("cannot determine the working directory")?;
    log_as!(
        AGENT_BEGAN;
        "the agent of {} listens on {}; relative paths of runs begin in {}",
        next::host(),
        door.address(),
        place.display()
    );
    let stop = signals::stop_flag()?;
    let runs = Arc::new(HostRuns::default());
    while !stop.load(Ordering::Relaxed) {
        if let Some(conversation) = door.accept(PERIOD) {
            let runs = runs.clone();
            let body = move || converse(&Arc::new(conversation), &runs);
            std::thread::Builder::new().name("run".into()).spawn(body).context("cannot start a thread")?;
        }
    }
    let left = runs.end_all();
    if left > 0 {
        log_as!(AGENT_ENDS; "the agent ends, and with it the nodes of {} here", console::plural(left as u64, "run"));
    }
    Ok(Verdict::Good)
}

/// Takes the first order of a conversation, and carries it out.
fn converse(conversation: &Arc<Conversation>, runs: &HostRuns) {
    let first = loop {
        match conversation.receive(FIRST_ORDER) {
            Received::Message(first) => break first,
            Received::Connected => {}
            Received::Nothing | Received::Lost(_) | Received::Ended(_) => {
                conversation.close(Duration::ZERO);
                return;
            }
        }
    };
    match serde_json::from_slice(&first) {
        Ok(HostOrder::Prepare(run)) if run.software != SOFTWARE => {
            let why = format!(
                "it is {SOFTWARE}, and the run is made by {}; install the same on all hosts",
                run.software
            );
            send(conversation, &HostReport::Refused(why));
        }
        Ok(HostOrder::Prepare(run)) => {
            if let Err(error) = runs.serve(conversation, &run, &first) {
                send(conversation, &HostReport::Refused(crate::describe(&error)));
            }
        }
        Ok(HostOrder::Describe) => {
            let software = SOFTWARE.to_owned();
            send(conversation, &HostReport::Described { software, host: next::host() });
        }
        _ => send(conversation, &HostReport::Refused("the agent does not understand its first order".into())),
    }
    conversation.close(HANG_UP);
}

/// Sends a report of the agent itself.
fn send(conversation: &Conversation, report: &HostReport) {
    let sent = serde_json::to_vec(report).map(|text| conversation.send(&text));
    log::debug!("a report of the agent: {sent:?}");
}

/// Asks an agent about its host.
///
/// # Errors
/// Why it does not answer.
pub(crate) fn ask(config: &Config, agent: &str) -> anyhow::Result<(String, String)> {
    let (key, options) = crate::remote::link(config)?;
    let conversation = sheaf_agent::call(agent, &key, &options);
    let order = serde_json::to_vec(&HostOrder::Describe).context("an order is JSON")?;
    conversation.send(&order).context("cannot ask the agent")?;
    let until = std::time::Instant::now() + options.connect_timeout;
    let mut why = "it does not answer".to_owned();
    let answer = loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        match conversation.receive(left) {
            Received::Message(message) => break Some(message),
            Received::Lost(reason) => why = reason,
            Received::Ended(over) => {
                why = crate::remote::reason(over);
                break None;
            }
            Received::Nothing if left.is_zero() => break None,
            Received::Nothing | Received::Connected => {}
        }
    };
    conversation.close(Duration::ZERO);
    match answer.and_then(|message| serde_json::from_slice(&message).ok()) {
        Some(HostReport::Described { software, host }) => Ok((software, host)),
        _ => anyhow::bail!("{why}"),
    }
}
