//! The verbs of this repository, the same for a developer and for CI. `cargo xtask` lists them.
//!
//! | module | verbs |
//! |---|---|
//! | `layers` | `check-layers`: who may depend on whom |
//! | `tidy` | `tidy`: what neither the compiler nor clippy looks at |
//! | `verify` | `check`, `test`, `docs`, `swarm`, `ci`, `nightly`: other tools, in order |
//! | `testing` | the tests, built and run at the same time |
//! | `documents` | `docs-test`: the commands of the documents, run |
//! | `smoke` | `smoke`: a short run of the released command, its output verified |
//! | `mutants` | `mutants`: bugs planted on purpose, for the swarm to find |
//! | `torture` | `torture`: real faults against real runs of the released command |
//! | `fuzz` | `fuzz`, `fuzz-replay`, `fuzz-seeds`, `fuzz-shrink` |
//! | `bench` | `bench` |
//! | `instructions` | `instructions`: what a fragment costs, counted |
//! | `python` | `python`: builds and tests the Python package |
//! | `compare` | `compare`: other software with the same traffic |
//! | `performance` | `performance`: the tables and pictures of `docs/performance.md` |
//!
//! The others are their tools: `build` builds programs in a profile, `shell` runs programs, `workspace` knows the packages and the files, `rust_source`
//! takes comments and strings out of Rust text, `problem` is what a check finds.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod bench;
mod build;
mod compare;
mod documents;
mod fuzz;
mod instructions;
mod layers;
mod mutants;
mod optional;
mod performance;
mod problem;
mod python;
mod root;
mod rust_source;
mod shell;
mod smoke;
mod testing;
mod tidy;
mod torture;
mod verify;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The verbs of the Sheaf repository. Each prints what it runs, so that it can be repeated by hand.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Format, clippy and rustdoc with warnings as errors, `check-layers`, `tidy`. Changes nothing.
    Check,
    /// Who depends on whom, against the table in `xtask/src/layers/table.rs`.
    CheckLayers,
    /// Sizes of files and functions, left-overs, module documentation, links, machine-specific paths, white space.
    Tidy,
    /// Builds and runs all tests of the workspace, with the optional parts whose libraries are here.
    Test(verify::TestArguments),
    /// Simulated clusters under random faults, each decided by its seed.
    Swarm(verify::SwarmArguments),
    /// Builds the Python package with pip and runs its tests; says why where that cannot be.
    Python,
    /// A short run of the released command, its events verified: in one process, and in one process a role.
    Smoke,
    /// Plants bugs in a copy of the workspace, one at a time, and tells which of them the swarm finds.
    Mutants(mutants::MutantsArguments),
    /// Real faults against real runs of the released command: kills, freezes, starved processors, full and hanging disks.
    Torture(torture::TortureArguments),
    /// Fuzzes one target, or all in turn, with cargo-fuzz; what it finds goes to `fuzz/corpus` or `fuzz/artifacts`.
    Fuzz(fuzz::FuzzArguments),
    /// Gives every committed fuzz input to its parser. Needs neither cargo-fuzz nor a nightly compiler.
    FuzzReplay,
    /// Makes the seed inputs under `fuzz/corpus` again, after a change of a format.
    FuzzSeeds,
    /// Keeps of each corpus the inputs that reach code which no other reaches, small ones first.
    FuzzShrink(fuzz::ShrinkArguments),
    /// Measures the figures of `benches/README.md`: machine, commit, every run, median.
    Bench(bench::BenchArguments),
    /// Counts the instructions that a fragment costs and compares them with the committed counts.
    Instructions(instructions::InstructionsArguments),
    /// Event building over ZeroMQ and Open MPI, where they are installed, in turn with `sheaf bench builder`.
    Compare(compare::CompareArguments),
    /// Measures the tables and pictures of `docs/performance.md` again, on this machine.
    Performance(performance::PerformanceArguments),
    /// Makes the generated pages under `docs/` again.
    Docs,
    /// Runs the commands of README.md and the pages under `docs/`; says which it skips, and why.
    DocsTest(documents::DocsTestArguments),
    /// Runs every check that a change must pass; `.ci/run` calls this.
    Ci(verify::CiArguments),
    /// Runs longer checks: a million simulated runs, planted bugs, an hour of real faults, and fuzzing of every target.
    Nightly(verify::NightlyArguments),
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Check => verify::check(),
        Verb::CheckLayers => layers::command(),
        Verb::Tidy => tidy::command(),
        Verb::Test(arguments) => verify::test(&arguments),
        Verb::Swarm(arguments) => verify::swarm(&arguments),
        Verb::Python => python::package_tests(),
        Verb::Smoke => smoke::command(),
        Verb::Mutants(arguments) => mutants::command(&arguments),
        Verb::Torture(arguments) => torture::command(&arguments),
        Verb::Fuzz(arguments) => fuzz::command(&arguments),
        Verb::FuzzReplay => fuzz::replay(),
        Verb::FuzzSeeds => fuzz::seeds(),
        Verb::FuzzShrink(arguments) => fuzz::shrink(&arguments),
        Verb::Bench(arguments) => bench::command(&arguments),
        Verb::Instructions(arguments) => instructions::command(&arguments),
        Verb::Compare(arguments) => compare::command(&arguments),
        Verb::Performance(arguments) => performance::command(&arguments),
        Verb::Docs => verify::docs(),
        Verb::DocsTest(arguments) => documents::command(&arguments),
        Verb::Ci(arguments) => verify::ci(&arguments),
        Verb::Nightly(arguments) => verify::nightly(&arguments),
    }
}
