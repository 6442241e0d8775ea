//! The database of runs of a configuration: whether it can be reached, and how.

use crate::database::Access;
use sheaf_config::Config;
use sheaf_database::Url;
use sheaf_machine::doctor::{Finding, Group, Remedy, Severity};

/// Looks at the database without changing it; `None` if there is none.
pub(super) fn look(config: &Config) -> Option<Finding> {
    let access = match Access::of(config) {
        Ok(access) => access?,
        Err(error) => {
            let value = crate::describe(&error);
            return Some(finding("the configuration", Cost::Refused, value));
        }
    };
    let url = access.url().to_string();
    let is_to_be_made = matches!(access.url(), Url::Sqlite(file) if !file.exists());
    let cost = if access.gives_numbers() { Cost::Numbers } else { Cost::Behind };
    if is_to_be_made {
        // A connection would make it.
        return Some(finding(&url, Cost::None, format!("{url}: the first run makes it")));
    }
    Some(match access.look() {
        Ok(found) => finding(&url, Cost::None, format!("{url}: {found}")),
        Err(error) => finding(&url, cost, crate::describe(&error)),
    })
}

/// Consequence for runs.
#[derive(Clone, Copy)]
enum Cost {
    None,
    /// Runs go on without it.
    Behind,
    /// It gives the run numbers.
    Numbers,
    /// Runs are refused.
    Refused,
}

impl Cost {
    const fn severity(self) -> Severity {
        match self {
            Self::None => Severity::Good,
            Self::Behind => Severity::Warning,
            Self::Numbers | Self::Refused => Severity::Problem,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::None => "it has the records of runs",
            Self::Behind => "runs go on, and a later one writes what it lacks",
            Self::Numbers => {
                "runs get their numbers from it: when those in reserve are used up, a run without run.number is refused"
            }
            Self::Refused => "runs are refused",
        }
    }
}

fn finding(place: &str, cost: Cost, value: String) -> Finding {
    let severity = cost.severity();
    let advice = "start or repair the database, or correct [database] in the configuration";
    Finding {
        group: Group::Database,
        key: "database.url".to_owned(),
        severity,
        value,
        source: place.to_owned(),
        cost: cost.words().to_owned(),
        remedy: (severity != Severity::Good).then(|| Remedy::Advice(advice.into())),
    }
}
