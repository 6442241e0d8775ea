//! `sheaf completions` and `sheaf manual`: the command line for shells and for `man`, out of the definition that `--help` prints.

use crate::Verdict;
use crate::arguments::{CompletionsArguments, ManualArguments};
use crate::cli::Cli;
use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::Write as _;

/// Name of the collection of pages, in the middle of the first line of each.
const COLLECTION: &str = "Sheaf";

/// `sheaf completions`.
pub(crate) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<Verdict> {
    let mut out = std::io::stdout().lock();
    let script = script(arguments.shell);
    out.write_all(&script).and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(Verdict::Good)
}

/// `sheaf manual`.
pub(crate) fn command(arguments: &ManualArguments) -> anyhow::Result<Verdict> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for (name, text) in pages() {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Verdict::Good)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::definition(), "sheaf", &mut script);
    script
}

/// Returns the file name and the text of each page: one for each command that `--help` lists, and one for `sheaf`.
fn pages() -> Vec<(String, Vec<u8>)> {
    // The pages are the same for all builds.
    let mut root = Cli::definition().disable_help_subcommand(true).long_version(None::<&str>);
    // Gives subcommands their full names and the flags of those above.
    root.build();
    let mut pages = Vec::new();
    add_pages(&root, &mut pages);
    pages
}

fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let source = format!("sheaf {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).manual(COLLECTION).source(source);
    let mut text = Vec::new();
    man.render(&mut text).expect("writing into memory cannot fail");
    pages.push((format!("{name}.1"), text));
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_pages(subcommand, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::collections::BTreeMap;

    /// Calls `check` with each command that `--help` lists, and the words before its own.
    fn each(command: &Command, parents: &[String], check: &mut impl FnMut(&Command, &[String])) {
        let words = [parents, &[command.get_name().to_owned()]].concat();
        check(command, &words);
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            each(subcommand, &words, check);
        }
    }

    #[test]
    fn every_command_has_a_page_with_all_its_flags_and_the_first_line_of_its_help() {
        let mut pages: BTreeMap<_, _> = pages().into_iter().collect();
        each(&Cli::definition(), &[], &mut |command, words| {
            let name = format!("{}.1", words.join("-"));
            let text = pages.remove(&name).unwrap_or_else(|| panic!("{name} is missing"));
            let text = String::from_utf8(text).expect("pages are UTF-8");
            // Without the escapes of the format.
            let text = text.replace(r"\*(Aq", "'").replace('\\', "");
            let about = command.get_about().expect("every command has a text").to_string();
            assert!(text.contains(&about), "{name} lacks `{about}`");
            for flag in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let Some(long) = flag.get_long() else { continue };
                assert!(text.contains(&format!("--{long}")), "{name} lacks --{long}");
            }
        });
        assert!(pages.is_empty(), "pages without a command: {:?}", pages.keys());
    }

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).expect("scripts are UTF-8");
            each(&Cli::definition(), &[], &mut |command, _| {
                assert!(script.contains(command.get_name()), "{shell} does not know {}", command.get_name());
            });
        }
    }

    #[test]
    fn bash_reads_its_script() {
        let mut bash = std::process::Command::new("bash");
        let Ok(mut child) = bash.arg("-n").stdin(std::process::Stdio::piped()).spawn() else {
            return;
        };
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(&script(Shell::Bash)).expect("bash reads it");
        drop(input);
        assert!(child.wait().expect("it was started").success(), "bash does not understand its script");
    }
}
