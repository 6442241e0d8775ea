//! `sheaf doctor`: settings of this host that slow a run, and the commands that change them.
//!
//! | module | holds |
//! |---|---|
//! | `wanted` | requirements of a configuration on a host |
//! | `agents` | whether the agents of a configuration answer |
//! | `database` | whether the database of runs can be reached |
//! | `standby` | what the event manager and its standby share |
//! | `report` | the findings as a table |
//! | `apply` | runs commands on request |

mod agents;
mod apply;
mod database;
mod report;
mod standby;
mod wanted;

use crate::Verdict;
use crate::arguments::DoctorArguments;
use crate::hooks::Hooks;
use serde::Serialize;
use sheaf_config::Config;
use sheaf_machine::Root;
use sheaf_machine::doctor::{Finding, Severity, examine};

/// The findings for programs. In the order of the table.
#[derive(Serialize)]
struct Answer<'a> {
    /// Findings with the severity `problem`.
    problems: usize,
    /// Findings with the severity `warning`.
    warnings: usize,
    findings: &'a [Finding],
}

/// Reads the host; changes it only with `--apply`.
pub(crate) fn command(arguments: &DoctorArguments) -> anyhow::Result<Verdict> {
    let root = Root::at(&arguments.root);
    let config = arguments.config.as_deref().map(Config::load).transpose()?;
    let wanted = wanted::of(config.as_ref())?;
    let mut findings = examine(&root, &wanted);
    if !arguments.apply.is_empty() {
        apply::run(&root, &wanted, &findings, arguments)?;
        return Ok(Verdict::Good);
    }
    findings.extend(config.iter().flat_map(agents::ask));
    findings.extend(config.as_ref().and_then(database::look));
    findings.extend(config.as_ref().map(standby::look).transpose()?.unwrap_or_default());
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    if arguments.json {
        crate::print::print_json(&Answer { problems, warnings, findings: &findings })?;
    } else {
        crate::print::print(&report::table(&findings, arguments.all, wanted.configured))?;
    }
    if let Some(config) = &config {
        Hooks::find(config)?;
    }
    Ok(if problems == 0 { Verdict::Good } else { Verdict::NotGood })
}
