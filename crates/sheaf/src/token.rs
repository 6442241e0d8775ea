//! `sheaf token`: who may look at a controller and give it commands.

use crate::Verdict;
use crate::control_directory::{self, ControlDirectory};
use crate::people::{Means, People};
use crate::print::print;
use anyhow::bail;
use clap::{Args, Subcommand};
use sheaf_control::Role;
use sheaf_node::Clock;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SECONDS_PER_DAY: u64 = 86_400;

#[derive(Debug, Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    command: TokenCommand,
    /// Directory of the controller.
    #[arg(long, value_name = "DIR", default_value = "runs/control", global = true)]
    directory: PathBuf,
    /// Partition that the controller has: its directory has `-NAME` at its end.
    #[arg(long, value_name = "NAME", global = true)]
    partition: Option<String>,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token for a person, a script or a proxy, and print it. It is kept nowhere.
    Add(AddArguments),
    /// List who is known.
    List,
    /// Remove somebody, whose token is worthless from then on.
    Remove(RemoveArguments),
}

#[derive(Debug, Args)]
struct AddArguments {
    /// Name in the records.
    name: String,
    /// Role, each with the rights of those before it: a viewer looks, an operator gives commands, an expert also changes settings of runs,
    /// and an admin also takes the lock from somebody [default: operator].
    #[arg(long, value_name = "viewer|operator|expert|admin", value_parser = parse_role)]
    role: Option<Role>,
    /// The token is for a proxy, which identifies people and sends their names in the header `X-Forwarded-User`.
    #[arg(long, conflicts_with_all = ["role", "named"])]
    proxy: bool,
    /// Make no token: a proxy identifies this person. Without this, those whom it identifies are viewers.
    #[arg(long)]
    named: bool,
    /// Days until the token ends [default: it does not end].
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    days: Option<u32>,
}

#[derive(Debug, Args)]
struct RemoveArguments {
    /// Name in the records.
    name: String,
}

impl AddArguments {
    fn rights(&self) -> (Role, Means) {
        match (self.proxy, self.named) {
            // What a proxy sends for nobody is refused, so its role is of no meaning.
            (true, _) => (Role::Viewer, Means::Proxy),
            (false, true) => (self.role.unwrap_or(Role::Operator), Means::Named),
            (false, false) => (self.role.unwrap_or(Role::Operator), Means::Token),
        }
    }
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "must be viewer, operator, expert or admin".to_owned())
}

pub(crate) fn command(arguments: &TokenArguments) -> anyhow::Result<Verdict> {
    let directory = ControlDirectory::new(&arguments.directory).of_partition(arguments.partition.as_deref());
    match &arguments.command {
        TokenCommand::Add(arguments) => {
            directory.create()?;
            let lasts = arguments.days.map(|days| Duration::from_secs(u64::from(days) * SECONDS_PER_DAY));
            let add = |people: &mut People| people.add(&arguments.name, arguments.rights(), lasts);
            let token = People::change(&directory, add)?;
            if let Some(token) = token {
                print(&format!("{token}\n"))?;
            }
        }
        TokenCommand::List => {
            check_exists(&directory)?;
            for person in People::read(&directory)?.people {
                let ends = person.expires_ms.map_or_else(
                    || "does not end".to_owned(),
                    |expires_ms| {
                        let left_ms = expires_ms.saturating_sub(Clock::new().now().as_millis());
                        match left_ms / 1_000 / SECONDS_PER_DAY {
                            _ if left_ms == 0 => "has ended".to_owned(),
                            0 => "ends within a day".to_owned(),
                            days => format!("ends in {} days", days + 1),
                        }
                    },
                );
                let (role, by) = match person.means {
                    Means::Token => (person.role.name(), ""),
                    Means::Proxy => ("proxy", ""),
                    Means::Named => (person.role.name(), ", by what a proxy says"),
                };
                print(&format!("{:<20} {role:<9} {ends}{by}\n", person.name))?;
            }
        }
        TokenCommand::Remove(RemoveArguments { name }) => {
            check_exists(&directory)?;
            People::change(&directory, |people| match people.remove(name) {
                true => Ok(()),
                false => bail!("{name} is not known; `sheaf token list` lists who is"),
            })?;
        }
    }
    Ok(Verdict::Good)
}

fn check_exists(directory: &ControlDirectory) -> anyhow::Result<()> {
    if !directory.path().is_dir() {
        bail!(
            "{} does not exist; name the directory of a controller with --directory (`{}` below `run.output`)",
            directory.path().display(),
            control_directory::NAME
        );
    }
    Ok(())
}

/// Default of `--directory` where a configuration says where runs are.
pub(crate) fn directory_of(output: &Path) -> PathBuf {
    output.join(control_directory::NAME)
}
