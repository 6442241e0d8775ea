//! One run of nodes that are started one by one, each with a program of its own.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nodes of a run, and their roles.
pub(super) const NODES: [(&str, &str); 5] =
    [("evm", "manager"), ("ru0", "readout"), ("ru1", "readout"), ("bu0", "builder"), ("bu1", "builder")];

const EVENTS: u64 = 20_000;

/// Time for which the event manager waits for a node.
const START: Duration = Duration::from_secs(15);

/// Time after which the nodes of a run are ended: none may wait for ever.
const WATCHDOG: Duration = Duration::from_secs(180);

/// Words of a refusal. The first are those of this release, the others those of releases before it.
const REFUSALS: [&str; 2] = ["install the same release", "run the same release"];

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct System<'a> {
    /// Directory of all runs.
    pub(super) directory: &'a Path,
    pub(super) transport: &'a str,
    pub(super) number: u32,
}

/// Outcome of a run.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All events are stored, and the ledger balances. Nodes that were refused in words have no part in it.
    Balanced { absent: Vec<String>, words: Option<String> },
    /// It was refused in these words before its first event.
    Refused { words: String },
    /// Neither.
    Failed { why: String },
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balanced { absent, .. } if absent.is_empty() => f.write_str("balanced"),
            Self::Balanced { absent, words } => {
                let words = words.as_deref().unwrap_or_default();
                write!(f, "balanced without {}: {words}", absent.join(", "))
            }
            Self::Refused { words } => write!(f, "refused: {words}"),
            Self::Failed { why } => write!(f, "FAILED: {why}"),
        }
    }
}

/// A node that was started.
struct Node {
    name: &'static str,
    child: Child,
    said: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        // It has ended, or the watchdog ends it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl System<'_> {
    /// Starts each node with its program, and waits for the end of all.
    pub(super) fn run<'p>(&self, program: impl Fn(&str) -> &'p PathBuf) -> Result<Outcome> {
        let folder = self.directory.join(self.number.to_string());
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        fs::write(folder.join("system.toml"), self.configuration()?)
            .context("cannot write the configuration")?;
        let mut nodes = Vec::new();
        for (name, _) in NODES {
            let said = folder.join(format!("{name}.log"));
            let printed =
                File::create(folder.join(format!("{name}.json"))).context("cannot create a file")?;
            let mut command = Command::new(program(name));
            command.args(["node", "system.toml", name, "--json"]).current_dir(&folder);
            command.stdin(Stdio::null()).stdout(printed).stderr(File::create(&said)?);
            let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
            nodes.push(Node { name, child, said });
        }
        let is_over = wait(&mut nodes);
        let words = nodes.iter().find_map(|node| refusal(&node.said));
        let summary = fs::read(folder.join("evm.json")).unwrap_or_default();
        let status = nodes[0].child.try_wait()?;
        let outcome = if !is_over {
            let waiting = nodes.iter_mut().filter_map(|node| match node.child.try_wait() {
                Ok(Some(_)) => None,
                _ => Some(node.name),
            });
            let waiting: Vec<_> = waiting.collect();
            Outcome::Failed { why: format!("{} did not end", waiting.join(", ")) }
        } else {
            judge(status.is_some_and(|status| status.success()), &summary, words)
        };
        Ok(outcome)
    }

    fn configuration(&self) -> Result<String> {
        let mut text = format!(
            "[run]\nnumber = {}\nevents = {EVENTS}\nduration_s = 0\n[transport]\nkind = \"{}\"\n[manager]\nstart_timeout_ms = {}\n",
            self.number,
            self.transport,
            START.as_millis()
        );
        // All at once, so that they differ.
        let ports: Vec<TcpListener> =
            NODES.iter().map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<std::io::Result<_>>()?;
        for ((name, role), port) in NODES.iter().zip(&ports) {
            let address = port.local_addr()?;
            text += &format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"{address}\"\n");
            if *role == "readout" {
                text += if *name == "ru0" { "sources = [\"0-3\"]\n" } else { "sources = [\"4-7\"]\n" };
            }
        }
        Ok(text)
    }
}

/// Waits for the end of all nodes. Returns whether they have ended by themselves.
fn wait(nodes: &mut [Node]) -> bool {
    let begin = Instant::now();
    while nodes.iter_mut().any(|node| matches!(node.child.try_wait(), Ok(None))) {
        if begin.elapsed() > WATCHDOG {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Returns the line with which a node refused another one, or was refused.
fn refusal(said: &Path) -> Option<String> {
    let text = fs::read(said).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let is_refusal = |line: &&str| REFUSALS.iter().any(|words| line.contains(words));
    text.lines().find(is_refusal).map(str::to_owned)
}

fn judge(is_good: bool, summary: &[u8], words: Option<String>) -> Outcome {
    let summary: Value = serde_json::from_slice(summary).unwrap_or_default();
    let (stored, balanced) = (&summary["ledger"]["stored"], summary["ledger"]["balanced"] == true);
    let absent = summary["trouble"]["absent_nodes"].as_array().cloned().unwrap_or_default();
    // Without a readout unit its sources are missing, and the status is not good.
    if (is_good || !absent.is_empty()) && balanced && stored.as_u64() == Some(EVENTS) {
        let absent: Vec<_> = absent.iter().map(|name| name.as_str().unwrap_or("?").to_owned()).collect();
        return match (absent.is_empty(), words) {
            (false, None) => {
                Outcome::Failed { why: format!("{} did not appear, and nobody says why", absent.join(", ")) }
            }
            (_, words) => Outcome::Balanced { absent, words },
        };
    }
    let triggers = summary["ledger"]["triggers"].as_u64().unwrap_or(0);
    match words {
        Some(words) if triggers == 0 => Outcome::Refused { words },
        words => {
            let words = words.unwrap_or_else(|| "nobody refuses another node".to_owned());
            Outcome::Failed { why: format!("{triggers} triggers, {stored} events stored: {words}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(triggers: u64, stored: u64, absent: &str) -> Vec<u8> {
        format!(
            r#"{{"ledger": {{"triggers": {triggers}, "stored": {stored}, "balanced": true}}, "trouble": {{"absent_nodes": [{absent}]}}}}"#
        )
        .into_bytes()
    }

    fn words() -> Option<String> {
        Some("install the same release of sheaf on both hosts".to_owned())
    }

    #[test]
    fn a_run_is_balanced_or_refused_before_its_first_event_or_failed() {
        let whole = summary(EVENTS, EVENTS, "");
        assert!(matches!(judge(true, &whole, None), Outcome::Balanced { absent, .. } if absent.is_empty()));
        assert!(matches!(judge(false, b"", words()), Outcome::Refused { .. }));
        assert!(matches!(judge(false, &summary(0, 0, ""), words()), Outcome::Refused { .. }));
        assert!(matches!(judge(false, b"", None), Outcome::Failed { .. }), "nobody says why");
        assert!(matches!(judge(false, &summary(9, 5, ""), words()), Outcome::Failed { .. }), "it had begun");
        assert!(matches!(judge(false, &whole, None), Outcome::Failed { .. }), "the status is not good");
    }

    #[test]
    fn a_node_may_be_missing_if_it_was_refused_in_words() {
        let without = summary(EVENTS, EVENTS, "\"bu1\"");
        assert!(
            matches!(judge(true, &without, words()), Outcome::Balanced { absent, .. } if absent == ["bu1"])
        );
        assert!(
            matches!(judge(false, &without, words()), Outcome::Balanced { .. }),
            "its sources are missing"
        );
        assert!(matches!(judge(true, &without, None), Outcome::Failed { .. }));
    }
}
