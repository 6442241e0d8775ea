//! `sheaf partitions`: the parts of a system, and who has them.

use crate::Verdict;
use crate::claims::{self, ClaimRecord, part_in_words, run_in_words};
use crate::console::plural;
use crate::control_directory::ControlDirectory;
use crate::print::{print, print_json};
use crate::records::utc;
use crate::token::directory_of;
use anyhow::bail;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use sheaf_config::{Config, PartitionParts};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct PartitionsArguments {
    /// Configuration file (TOML) with tables `[partition.NAME]`.
    config: PathBuf,
    /// Directory of the runs [default: `run.output` of the configuration].
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// A partition, and who has something of it.
#[derive(Debug, Serialize)]
pub(crate) struct PartitionState {
    /// `None`: the whole system.
    partition: Option<String>,
    nodes: Vec<String>,
    sources: Vec<u32>,
    /// Page of its controller, if one runs.
    controller: Option<String>,
    /// Its page for other hosts, if it has one.
    remote: Option<String>,
    /// Runs that have something of it: its own, or those of others with which it cannot run at the same time.
    in_use: Vec<Use>,
}

impl PartitionState {
    /// Returns it with numbers in place of lists, as pages show it.
    pub(crate) fn shown(&self) -> Value {
        let Self { partition, nodes, sources, controller, remote, in_use } = self;
        json!({
            "partition": partition, "nodes": nodes.len(), "sources": sources.len(), "controller": controller, "remote": remote, "in_use": in_use
        })
    }
}

/// A run that has nodes of a partition.
#[derive(Debug, Serialize)]
struct Use {
    /// Partition of the run; `None`: the whole system.
    partition: Option<String>,
    run: Option<u32>,
    by: String,
    since_ms: u64,
    host: String,
    process: u32,
    page: Option<String>,
}

impl Use {
    fn of(claim: &ClaimRecord) -> Self {
        let ClaimRecord { partition, run, owner, by, since_ms, page, .. } = claim.clone();
        Self { partition, run, by, since_ms, host: owner.host, process: owner.process, page }
    }

    fn line(&self, of: Option<&str>) -> String {
        let own = self.partition.as_deref();
        let other = if own == of { String::new() } else { format!(" of {}", part_in_words(own)) };
        let run = run_in_words(self.run);
        let page = self.page.as_ref().map_or_else(String::new, |page| format!(", {page}"));
        let since = utc(self.since_ms * 1_000_000);
        format!(
            "{run}{other}, since {since}, by {}, process {} on {}{page}",
            self.by, self.process, self.host
        )
    }
}

/// Returns all partitions of a system and the whole, whose runs are in `output`.
pub(crate) fn states(parts: &[PartitionParts], output: &Path) -> anyhow::Result<Vec<PartitionState>> {
    let claims = claims::read(output)?;
    let (controller, remote) = controller(output, None);
    let whole = PartitionState {
        partition: None,
        nodes: Vec::new(),
        sources: Vec::new(),
        controller,
        remote,
        in_use: claims.iter().map(Use::of).collect(),
    };
    let state = |parts: &PartitionParts| {
        let has_some = |claim: &&ClaimRecord| {
            claim.partition.as_deref() == Some(&*parts.name)
                || parts.nodes.iter().any(|node| claim.nodes.contains(node))
        };
        let (controller, remote) = self::controller(output, Some(&parts.name));
        PartitionState {
            partition: Some(parts.name.clone()),
            nodes: parts.nodes.clone(),
            sources: parts.sources.iter().map(|source| source.0).collect(),
            controller,
            remote,
            in_use: claims.iter().filter(has_some).map(Use::of).collect(),
        }
    };
    Ok(std::iter::once(whole).chain(parts.iter().map(state)).collect())
}

/// Returns the pages of the controller of a partition, if one runs: on its host, and for other hosts.
fn controller(output: &Path, partition: Option<&str>) -> (Option<String>, Option<String>) {
    let directory = ControlDirectory::new(&directory_of(output)).of_partition(partition);
    if !directory.is_in_use() {
        return (None, None);
    }
    (directory.read_address().ok(), directory.read_remote_address())
}

pub(crate) fn command(arguments: &PartitionsArguments) -> anyhow::Result<Verdict> {
    let config = Config::load_with(&arguments.config, |config| config.run.partition = None)?;
    if config.partitions.is_empty() {
        bail!(
            "{} has no partitions; write a table [partition.NAME] for each, with its `nodes`",
            arguments.config.display()
        );
    }
    crate::console::name_sources(&config.names);
    let output = arguments.output.as_ref().unwrap_or(&config.run.output);
    let states = states(&config.partition_parts(), output)?;
    if arguments.json {
        print_json(&json!({ "partitions": states }))?;
        return Ok(Verdict::Good);
    }
    for state in &states {
        print(&text(state))?;
    }
    Ok(Verdict::Good)
}

fn text(state: &PartitionState) -> String {
    let name = state.partition.as_deref();
    let mut text = match name {
        Some(name) => {
            format!("{name}: {}, {}\n", state.nodes.join(", "), plural(state.sources.len() as u64, "source"))
        }
        None => "the whole system\n".to_owned(),
    };
    let controller = state.controller.as_deref().unwrap_or("none");
    text += &format!("  controller  {controller}\n");
    if state.in_use.is_empty() {
        text += "  in use      no\n";
    }
    for used in &state.in_use {
        text += &format!("  in use      {}\n", used.line(name));
    }
    text
}
