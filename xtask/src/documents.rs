//! Runs the commands of the documents as a reader would.
//!
//! | module | contents |
//! |---|---|
//! | `page` | the code blocks of a page and the comments before them |
//! | `script` | the shell script of a page |
//! | `needs` | requirements of a block that this machine may lack |
//! | `network` | a network namespace for each page |
//! | `output` | comparison of the output of a command with the page |
//!
//! Every page of `PAGES` gets its own directory with a copy of the repository's `examples`, and `sheaf` on the search path. The
//! blocks of a page run in order in one shell, so that `cd`, `export` and `&` have the same effect as for a reader. Blocks in
//! `sh`, `console` and `python` run; configurations in `toml` are checked. A comment before a block changes that:
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- docs-test: needs openssl, python:numpy -->` | skip the block and print the reason if one of these is missing |
//! | `<!-- docs-test: skip REASON -->` | never run the block |
//! | `<!-- docs-test: file NAME -->` | write the block to a file |
//! | `<!-- docs-test: output -->` | the block shows what the block before it printed, or the commands of its own `run` |
//! | `<!-- docs-test: status N -->` | the last command of the block ends with this exit status |
//! | `<!-- docs-test: run COMMANDS -->` | run these commands first, to prepare for the block |
//!
//! A run in the documents ends after an amount (`--events`), so that the test takes longer on a slow machine but does not fail.
//!
//! Most commands wait, so several pages run at a time. Their ports would collide; where this process may create network namespaces,
//! each page has its own, and elsewhere one page runs after the other.

mod needs;
mod network;
mod output;
mod page;
mod script;

use crate::optional::{buildable_features, tests};
use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail, ensure};
use needs::Machine;
use page::Page;
use script::Outcome;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Number of pages per processor that run at the same time.
const PAGES_PER_PROCESSOR: usize = 2;

/// Folders and files whose Markdown pages are tested.
const PAGES: [&str; 2] = ["README.md", "docs/"];

#[derive(Debug, Default, clap::Args)]
pub(crate) struct DocsTestArguments {
    /// Text that the path of a page must contain. May be repeated. Default: all pages.
    #[arg(value_name = "PAGE")]
    pages: Vec<String>,
    /// Path of a `sheaf` to use instead of building one.
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
}

/// Results of all pages so far.
#[derive(Debug, Default)]
struct Total {
    /// Number of blocks that ran.
    run: usize,
    /// Number of blocks that were left out.
    skipped: usize,
    /// Paths of the pages that failed.
    failures: Vec<String>,
}

impl Total {
    /// Adds the result of a page and prints it.
    fn add(&mut self, page: &Page, result: Result<Outcome>) {
        match result {
            Ok(outcome) => {
                report(page, &outcome);
                self.run += outcome.run;
                self.skipped += outcome.skipped.len();
            }
            Err(error) => {
                println!("{}: FAILED: {error:#}", page.path);
                self.failures.push(page.path.clone());
            }
        }
    }
}

/// `cargo xtask docs-test`.
pub(crate) fn command(arguments: &DocsTestArguments) -> Result<()> {
    // The optional parts of a command that was built elsewhere are unknown.
    let (sheaf, features) = match &arguments.command {
        Some(path) => (path.canonicalize().with_context(|| path.display().to_string())?, Vec::new()),
        None => (built_sheaf()?, buildable_features()),
    };
    let machine = Machine::new(workspace::target_directory()?.join("docs-test"), sheaf, features);
    let total = Mutex::new(Total::default());
    let pages = Mutex::new(pages(&arguments.pages)?.into_iter());
    let next = || pages.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..pages_at_once(&machine) {
            scope.spawn(|| {
                while let Some(page) = next() {
                    let result = run_page(&machine, &page);
                    total.lock().unwrap_or_else(PoisonError::into_inner).add(&page, result);
                }
            });
        }
    });
    let Total { run, skipped, mut failures } = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("documents: {run} blocks run, {skipped} skipped");
    ensure!(run > 0, "no block was run");
    failures.sort();
    if !failures.is_empty() {
        bail!("commands fail in {}", failures.join(", "));
    }
    Ok(())
}

/// Returns the number of pages to run at the same time.
fn pages_at_once(machine: &Machine) -> usize {
    match machine.has_namespaces {
        true => std::thread::available_parallelism().map_or(1, usize::from) * PAGES_PER_PROCESSOR,
        false => 1,
    }
}

/// Builds the command as for the tests, which is usually built already.
fn built_sheaf() -> Result<PathBuf> {
    shell::run(tests().args(["--quiet", "--no-run", "--test", "command"]))?;
    Ok(workspace::target_directory()?.join("debug/sheaf"))
}

/// Returns the pages with blocks that run or are skipped, in the order of their paths.
fn pages(wanted: &[String]) -> Result<Vec<Page>> {
    let is_page =
        |path: &String| path.ends_with(".md") && PAGES.iter().any(|folder| path.starts_with(folder));
    let is_wanted = |path: &String| wanted.is_empty() || wanted.iter().any(|text| path.contains(text));
    let mut paths: Vec<String> = workspace::files()?.into_iter().filter(is_page).filter(is_wanted).collect();
    paths.sort();
    let mut pages = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(workspace::root().join(&path)).context(path.clone())?;
        let page = Page::parse(&path, &text)?;
        if !page.blocks.is_empty() {
            pages.push(page);
        }
    }
    Ok(pages)
}

fn run_page(machine: &Machine, page: &Page) -> Result<Outcome> {
    let directory = machine.directory.join(page.path.replace('/', "-"));
    if directory.exists() {
        std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
    }
    furnish(&directory, &machine.sheaf)?;
    let result = script::run(machine, page, &directory);
    if result.is_ok() {
        std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
    }
    result
}

fn report(page: &Page, outcome: &Outcome) {
    println!("{}: {} run, {} skipped", page.path, outcome.run, outcome.skipped.len());
    for (line, reason) in &outcome.skipped {
        println!("    skipped: {}:{line}: {reason}", page.path);
    }
}

/// Prepares a directory like that of a reader who has cloned the repository and built the command. Files in whose folders commands
/// write are copied, the others are linked.
fn furnish(directory: &Path, sheaf: &Path) -> Result<()> {
    let link = |target: &Path, name: &str| {
        let link = directory.join(name);
        std::os::unix::fs::symlink(target, &link).with_context(|| link.display().to_string())
    };
    std::fs::create_dir_all(directory.join("target/release"))
        .with_context(|| directory.display().to_string())?;
    link(sheaf, "target/release/sheaf")?;
    if let Some(library) = needs::library_beside(sheaf) {
        link(&library, "target/release/libsheaf.so")?;
    }
    for name in ["crates", "tools", "scenarios"] {
        link(&workspace::root().join(name), name)?;
    }
    let mut copy = std::process::Command::new("cp");
    copy.arg("-r").arg(workspace::root().join("examples")).arg(directory);
    shell::output(&mut copy).map(drop)
}

#[cfg(test)]
mod tests;
