//! `sheaf model`: ports, messages and bytes of a described detector, with and without grouped readout buffers.

use crate::Verdict;
use crate::files::{print, print_json};
use clap::Args;
use serde::Serialize;
use sheaf_sim::model::{Description, SHIPPED};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// A description, a TOML file, or the name of one that ships; without it, those that ship are listed.
    scenario: Option<String>,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: String,
}

pub(crate) fn command(arguments: &ModelArguments) -> anyhow::Result<Verdict> {
    let Some(scenario) = &arguments.scenario else {
        return list(arguments.json);
    };
    let report = load(scenario)?.evaluate();
    if arguments.json { print_json(&report)? } else { print(&report.to_string())? }
    Ok(Verdict::Good)
}

/// A description by its path or the name under which it ships. What looks like a path is one.
fn load(scenario: &str) -> anyhow::Result<Description> {
    let path = Path::new(scenario);
    if path.components().count() > 1 || path.extension().is_some() || path.exists() {
        return Ok(Description::load(path)?);
    }
    match SHIPPED.iter().find(|shipped| shipped.name == scenario) {
        Some(shipped) => Ok(shipped.parse()?),
        None => anyhow::bail!(
            "there is no file and no description `{scenario}`; `sheaf model` lists those that ship"
        ),
    }
}

fn list(json: bool) -> anyhow::Result<Verdict> {
    let mut rows = Vec::new();
    for shipped in SHIPPED {
        rows.push(Listed { name: shipped.name, about: shipped.parse()?.about });
    }
    if json {
        print_json(&rows)?;
        return Ok(Verdict::Good);
    }
    print(&rows.iter().map(|row| format!("{}  {}\n", row.name, row.about)).collect::<String>())?;
    Ok(Verdict::Good)
}
