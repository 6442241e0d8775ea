//! Running the commands of findings, when asked to.

use crate::cli::DoctorArguments;
use crate::files;
use anyhow::{Context, bail};
use sheaf_host::Root;
use sheaf_host::doctor::{Finding, Remedy, Wanted, examine};
use std::io::{BufRead, IsTerminal, stdin};
use std::process::Command;

/// Runs the commands of the findings that are named, each after it was printed and agreed to. Names are checked before
/// anything runs; the first command that fails ends it.
pub(super) fn run(
    root: &Root,
    wanted: &Wanted,
    findings: &[Finding],
    arguments: &DoctorArguments,
) -> anyhow::Result<()> {
    if !root.is_system() {
        bail!("--apply changes this machine; it does not go together with --root");
    }
    let commands: Vec<(&Finding, &str)> =
        arguments.apply.iter().map(|key| command_of(findings, key)).collect::<anyhow::Result<_>>()?;
    if !arguments.yes && !stdin().is_terminal() {
        bail!("nobody can be asked here: add --yes to run the commands without asking");
    }
    for (finding, command) in &commands {
        files::print(&format!("{}: {}\n  {command}\n", finding.key, finding.value))?;
        if !arguments.yes && !agreed()? {
            files::print("  left as it is\n")?;
            continue;
        }
        let status = Command::new("sh").args(["-c", command]).status().context("cannot start a shell")?;
        if !status.success() {
            bail!("`{command}` failed ({status}); are you root?");
        }
    }
    let after = examine(root, wanted);
    for (before, _) in commands {
        if let Some(now) = after.iter().find(|finding| finding.key == before.key) {
            files::print(&format!("{}: now {}\n", now.key, now.value))?;
        }
    }
    Ok(())
}

fn command_of<'a>(findings: &'a [Finding], key: &str) -> anyhow::Result<(&'a Finding, &'a str)> {
    let Some(finding) = findings.iter().find(|finding| finding.key == key) else {
        let with_command = |finding: &&Finding| matches!(finding.remedy, Some(Remedy::Command(_)));
        let known: Vec<&str> =
            findings.iter().filter(with_command).map(|finding| finding.key.as_str()).collect();
        bail!("there is no finding \"{key}\"; those with a command are: {}", known.join(", "));
    };
    match &finding.remedy {
        Some(Remedy::Command(command)) => Ok((finding, command)),
        Some(Remedy::Advice(advice)) => bail!("{key} needs a person, not a command: {advice}"),
        None => bail!("{key} needs no change: {}", finding.value),
    }
}

fn agreed() -> anyhow::Result<bool> {
    files::print("  run it? [y/N] ")?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
