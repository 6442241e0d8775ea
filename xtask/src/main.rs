//! Development tasks of this repository, the same for developers and for CI. `cargo xtask` lists them.
//!
//! | module | tasks |
//! |---|---|
//! | `layers` | `check-layers`: who may depend on whom |
//! | `tidy` | `tidy`: rules that neither the compiler nor clippy checks |
//! | `verify` | `check`, `test`, `docs`, `swarm`, `ci`, `nightly`: other tools, in order |
//! | `testing` | the tests, built and run at the same time |
//! | `documents` | `docs-test`: the commands of the documents, run |
//! | `smoke` | `smoke`: a short run of the released command, its output verified |
//! | `mutants` | `mutants`: deliberately planted bugs that the swarm must find |
//! | `torture` | `torture`: real faults against real runs of the released command |
//! | `mixed` | `mixed`: the previous release against the present one |
//! | `fuzz` | `fuzz`, `fuzz-replay`, `fuzz-seeds`, `fuzz-shrink` |
//! | `bench` | `bench` |
//! | `instructions` | `instructions`: instruction counts per fragment |
//! | `python` | `python`: builds and tests the Python package |
//! | `page` | `page`: type check and tests of the page of a run |
//! | `openapi` | `openapi`: a running controller compared with the description of its interface |
//! | `package` | `package`: archive, Debian package, Python wheel and container image of the command, made and installed |
//! | `compare` | `compare`: other software with the same traffic |
//! | `performance` | `performance`: the tables and pictures of `docs/performance.md` |
//!
//! The other modules support these: `build` builds programs in a profile, `shell` runs programs, `workspace` lists packages and files,
//! `rust_source` removes comments and strings from Rust source, `problem` describes a finding of a check.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod bench;
mod build;
mod compare;
mod documents;
mod fuzz;
mod instructions;
mod layers;
mod mixed;
mod mutants;
mod openapi;
mod optional;
mod package;
mod page;
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

/// Development tasks of the Sheaf repository. Each prints the commands that it runs, so that they can be repeated by hand.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check formatting, clippy, rustdoc (warnings are errors), `check-layers` and `tidy`. Changes no files.
    Check,
    /// Check the dependencies between crates against the table in `xtask/src/layers/table.rs`.
    CheckLayers,
    /// Check file and function sizes, leftovers, module documentation, links, machine-specific paths and white space.
    Tidy,
    /// Build and run all tests of the workspace, with the optional features whose libraries are installed.
    Test(verify::TestArguments),
    /// Run simulated clusters under random faults, each determined by its seed.
    Swarm(verify::SwarmArguments),
    /// Build the Python package with pip and run its tests. Prints the reason if that is not possible.
    Python,
    /// Check the types of the page of a run, and test it in Chromium. Prints the reason if that is not possible.
    Page,
    /// Compare a running `sheaf serve` with `docs/reference/openapi.json`, by generated requests. Prints the reason if that is not possible.
    Openapi(openapi::OpenapiArguments),
    /// Run the release build briefly and verify its events: in one process, and with one process per role.
    Smoke,
    /// Make packages of the command in `target/packages`: archive, Debian package, Python wheel, container image.
    Package(package::PackageArguments),
    /// Plant bugs in a copy of the workspace, one at a time, and report which of them the swarm finds.
    Mutants(mutants::MutantsArguments),
    /// Inject faults into real runs of the release build: kills, freezes, starved processors, full and hanging disks.
    Torture(torture::TortureArguments),
    /// Run the previous release against the present one, one role at a time: each run must be balanced, or refused in words.
    Mixed(mixed::MixedArguments),
    /// Fuzz one target, or all in turn, with cargo-fuzz. Findings go to `fuzz/corpus` or `fuzz/artifacts`.
    Fuzz(fuzz::FuzzArguments),
    /// Run every committed fuzz input through its parser. Needs neither cargo-fuzz nor a nightly compiler.
    FuzzReplay,
    /// Regenerate the seed inputs under `fuzz/corpus`, after a change of a format.
    FuzzSeeds,
    /// Reduce each corpus to the smallest inputs that together reach the same code.
    FuzzShrink(fuzz::ShrinkArguments),
    /// Measure the figures of `benches/README.md`: machine, commit, every run, median.
    Bench(bench::BenchArguments),
    /// Count the instructions executed per fragment and compare them with the committed counts.
    Instructions(instructions::InstructionsArguments),
    /// Measure event building over ZeroMQ and Open MPI, if installed, alternating with `sheaf bench builder`.
    Compare(compare::CompareArguments),
    /// Measure the tables and plots of `docs/performance.md` again, on this machine.
    Performance(performance::PerformanceArguments),
    /// Regenerate the generated pages under `docs/`.
    Docs,
    /// Run the commands of README.md and of the pages under `docs/`. Prints which it skips, and why.
    DocsTest(documents::DocsTestArguments),
    /// Run every check that a change must pass. `.ci/run` calls this.
    Ci(verify::CiArguments),
    /// Run longer checks: a million simulated runs, planted bugs, an hour of real faults, and fuzzing of every target.
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
        Verb::Page => page::command(),
        Verb::Openapi(arguments) => openapi::command(&arguments),
        Verb::Smoke => smoke::command(),
        Verb::Package(arguments) => package::command(&arguments),
        Verb::Mutants(arguments) => mutants::command(&arguments),
        Verb::Torture(arguments) => torture::command(&arguments),
        Verb::Mixed(arguments) => mixed::command(&arguments),
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
