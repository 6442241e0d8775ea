//! Running the commands of findings, when asked to.

use crate::arguments::DoctorArguments;
use anyhow::{Context, bail};
use sheaf_machine::Root;
use sheaf_machine::doctor::{Finding, Remedy, Wanted, examine};
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
        bail!("--apply changes this machine; it cannot be combined with --root");
    }
    let commands: Vec<(&Finding, &str)> =
        arguments.apply.iter().map(|key| command_of(findings, key)).collect::<anyhow::Result<_>>()?;
    if !arguments.yes && !stdin().is_terminal() {
        bail!("standard input is not a terminal: add --yes to run the commands without asking");
    }
    for (finding, command) in &commands {
        crate::print::print(&format!("{}: {}\n  {command}\n", finding.key, finding.value))?;
        if !arguments.yes && !agreed()? {
            crate::print::print("  left as it is\n")?;
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
            crate::print::print(&format!("{}: now {}\n", now.key, now.value))?;
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
        Some(Remedy::Advice(advice)) => bail!("{key} cannot be changed by a command: {advice}"),
        None => bail!("{key} needs no change: {}", finding.value),
    }
}

fn agreed() -> anyhow::Result<bool> {
    crate::print::print("  run it? [y/N] ")?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops where its arrangement fails")]

    use super::*;
    use sheaf_machine::doctor::{Group, Severity};
    use std::path::PathBuf;

    fn finding(key: &str, command: String) -> Finding {
        Finding {
            group: Group::Memory,
            key: key.to_owned(),
            severity: Severity::Warning,
            value: "as it was".to_owned(),
            source: "a test".to_owned(),
            cost: "nothing".to_owned(),
            remedy: Some(Remedy::Command(command)),
        }
    }

    fn apply(findings: &[Finding], keys: &[&str]) -> anyhow::Result<()> {
        let arguments = DoctorArguments {
            config: None,
            all: false,
            apply: keys.iter().map(ToString::to_string).collect(),
            yes: true,
            json: false,
            root: PathBuf::from("/"),
        };
        run(&Root::system(), &Wanted::default(), findings, &arguments)
    }

    #[test]
    fn commands_run_in_order_and_the_first_that_fails_ends_it() {
        let directory = tempfile::tempdir().unwrap();
        let touch = |name: &str| format!("touch {}", directory.path().join(name).display());
        let there = |name: &str| directory.path().join(name).exists();
        let findings = [
            finding("one", touch("one")),
            finding("fails", "exit 7".to_owned()),
            finding("two", touch("two")),
            finding("three", touch("three")),
        ];
        apply(&findings, &["one"]).unwrap();
        assert!(there("one") && !there("two"), "only what was named");
        let error = apply(&findings, &["two", "fails", "three"]).unwrap_err();
        assert!(error.to_string().contains("`exit 7` failed"), "{error}");
        assert!(there("two") && !there("three"));
    }

    #[test]
    fn nothing_runs_if_one_of_the_names_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let findings = [finding("one", format!("touch {}", file.display()))];
        assert!(apply(&findings, &["one", "tow"]).unwrap_err().to_string().contains("\"tow\""));
        assert!(!file.exists());
    }
}
