//! `sheaf model`: ports, messages and bytes of a described detector, with and without grouped readout buffers.

use crate::Verdict;
use crate::print::{print, print_json};
use crate::scenarios::{self, Scenario};
use clap::Args;
use serde::Serialize;
use sheaf_netsim_scenarios::model::{self, Description, SHIPPED};

#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// Description (TOML file), or name of a built-in one [default: list the built-in ones].
    scenario: Option<String>,
    /// Print JSON on standard output.
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
    if arguments.json {
        print_json(&report)?
    } else {
        print(&report.to_string())?
    }
    Ok(Verdict::Good)
}

fn load(scenario: &str) -> anyhow::Result<Description> {
    Ok(match scenarios::find(scenario, model::find, model::nearest, "sheaf model")? {
        Scenario::File(path) => Description::load(path)?,
        Scenario::Shipped(shipped) => shipped.parse()?,
    })
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
