//! Tasks that call other tools, and the lists of steps for every change and for every night.

use crate::build::{self, Profile};
use crate::documents::{self, DocsTestArguments};
use crate::fuzz::Limits;
use crate::instructions::{self, InstructionsArguments};
use crate::mixed;
use crate::mutants::{self, MutantsArguments};
use crate::openapi::OpenapiArguments;
use crate::optional::{tests, with_optional_parts};
use crate::package::{self, PackageArguments};
use crate::shell::{self, Steps, cargo};
use crate::torture::{self, TortureArguments};
use crate::{fuzz, layers, openapi, page, python, smoke, testing, tidy, workspace};
use anyhow::{Context as _, Result, ensure};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Number of simulated runs for every change: a minute or two on two cores.
const SIMULATED_RUNS: u64 = 4_000;

/// Numbers of simulated runs of the drivers, of each family: for every change (less than a minute on two cores), and every night.
const DRIVER_RUNS: u64 = 250;
const NIGHTLY_DRIVER_RUNS: u64 = 10_000;

/// Cases of torture at a time: they wait more than they compute.
const TORTURE_JOBS: u64 = 3;

/// Fixed seed for the inputs of property tests in CI, so that a change fails only for its own faults, not for an input drawn at
/// random. `cargo xtask test` draws other inputs, and `cargo xtask nightly` many of them.
const PROPERTY_SEED: &str = "20000";

/// Number of inputs for each property test at night.
const NIGHTLY_CASES: &str = "4096";

#[derive(Debug, clap::Args)]
pub(crate) struct SwarmArguments {
    /// Number of seeds to run.
    #[arg(long, value_name = "N", default_value_t = SIMULATED_RUNS)]
    runs: u64,
    /// First seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    start: u64,
    /// Run only this seed and print its log, to investigate a failed run.
    #[arg(long, value_name = "S", conflicts_with_all = ["runs", "start"])]
    seed: Option<u64>,
    /// Run the drivers instead of the roles: `slowness`, `faults`, `standby`, `mirrors` or `protected`.
    #[arg(long, value_name = "FAMILY")]
    drivers: Option<String>,
    /// Print how often 10,000 seeds draw each option, without running them.
    #[arg(long, conflicts_with_all = ["runs", "start", "seed"])]
    table: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NightlyArguments {
    /// Number of seeds to run.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    runs: u64,
    /// First seed. A different one every night covers more.
    #[arg(long, value_name = "SEED", default_value_t = SIMULATED_RUNS)]
    start: u64,
    /// Number of executions of each fuzz target: a thousand million over the 20 targets.
    #[arg(long, value_name = "N", default_value_t = 50_000_000)]
    executions: u64,
    /// Maximum duration of fuzzing for each target.
    #[arg(long, value_name = "N", default_value_t = 1_800)]
    seconds: u64,
    /// Duration of fault injection into real runs.
    #[arg(long, value_name = "N", default_value_t = 60)]
    torture_minutes: u64,
    /// Number of kills and freezes of processes of real runs.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    faults: u64,
    /// Number of real runs with slow filters, disks and machines.
    #[arg(long, value_name = "N", default_value_t = 500)]
    slow_runs: u64,
    /// Duration of the soak: a real run in which a process is killed every ten seconds.
    #[arg(long, value_name = "N", default_value_t = 60)]
    soak_minutes: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TestArguments {
    /// Run only the tests of this package, without optional parts. May be repeated.
    #[arg(long, short, value_name = "PACKAGE")]
    package: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CiArguments {
    /// Skip the steps of `cargo xtask check`, which has passed already.
    #[arg(long)]
    checked: bool,
    /// Run only the steps with programs of this profile.
    #[arg(long, value_name = "PROFILE")]
    only: Option<Half>,
    /// Build the programs of the release profile, and run no step.
    #[arg(long, conflicts_with_all = ["checked", "only"])]
    build: bool,
}

/// Two halves of the steps that follow those of `check`. They share no build and run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Half {
    /// Tests, and steps with programs of the same build.
    Dev,
    /// Steps with programs of the release build.
    Release,
}

/// `cargo xtask check`.
pub(crate) fn check() -> Result<()> {
    let mut steps = Steps::default();
    check_steps(&mut steps)?;
    steps.finish();
    Ok(())
}

fn check_steps(steps: &mut Steps) -> Result<()> {
    steps.step("format", || {
        shell::run(&mut cargo(&["fmt", "--all", "--check"]))?;
        shell::run(&mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
    })?;
    steps.step("clippy", || {
        shell::run(
            with_optional_parts(&["clippy", "--workspace", "--all-targets"]).args(["--", "-D", "warnings"]),
        )
    })?;
    steps.step("documentation of the code", || {
        let mut rustdoc =
            with_optional_parts(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
        shell::run(rustdoc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    steps.step("direction of dependencies", layers::command)?;
    steps.step("tidy", tidy::command)
}

/// `cargo xtask test`.
pub(crate) fn test(arguments: &TestArguments) -> Result<()> {
    if arguments.package.is_empty() {
        return testing::run(&mut tests());
    }
    let packages = arguments.package.iter().flat_map(|package| ["--package", package]);
    testing::run(cargo(&["test", "--no-fail-fast"]).args(packages))
}

/// Tests that write generated pages: package, target, and name of the test.
const GENERATED: &[&[&str]] = &[
    &["sheaf-config", "--test", "suite", "page"],
    &["sheaf-netsim-scenarios", "--lib", "page"],
    &["sheaf-monitor", "--lib", "openapi"],
    &["sheaf-capi", "--test", "suite", "the_header"],
    &["sheaf-swarm", "--test", "suite", "the_table"],
];

/// `cargo xtask docs`. Every generated page has a test that compares it with the code, and that writes the page if a certain
/// environment variable is set.
pub(crate) fn docs() -> Result<()> {
    layers::draw()?;
    for tests in GENERATED {
        let arguments = [&["test", "--quiet", "--package"], *tests].concat();
        shell::run(cargo(&arguments).env("UPDATE_DOCS", "1"))?;
    }
    println!("changed files, if any:");
    let mut git = Command::new("git");
    shell::run(
        git.args(["status", "--short", "docs", "ARCHITECTURE.md", "crates/sheaf-capi/include"])
            .current_dir(workspace::root()),
    )
}

/// `cargo xtask swarm`.
pub(crate) fn swarm(arguments: &SwarmArguments) -> Result<()> {
    let drivers = arguments.drivers.iter().flat_map(|family| ["--drivers", family]);
    let runs = match arguments.seed {
        Some(seed) => vec!["--seed".to_owned(), seed.to_string(), "--log".to_owned()],
        None if arguments.table => vec!["--runs".to_owned(), "10000".to_owned(), "--table".to_owned()],
        None => range(arguments.runs, arguments.start),
    };
    swarm_command(drivers.chain(runs.iter().map(String::as_str)))
}

fn simulate(runs: u64, start: u64) -> Result<()> {
    let range = range(runs, start);
    let reach = (runs >= SIMULATED_RUNS).then_some("--reach-everything");
    swarm_command(range.iter().map(String::as_str).chain(reach))
}

fn simulate_drivers(runs: u64, start: u64) -> Result<()> {
    for family in ["slowness", "faults", "standby", "mirrors", "protected"] {
        let range = range(runs, start);
        swarm_command(["--drivers", family].into_iter().chain(range.iter().map(String::as_str)))?;
    }
    Ok(())
}

/// Returns the arguments for a range of seeds.
fn range(runs: u64, start: u64) -> Vec<String> {
    vec!["--runs".to_owned(), runs.to_string(), "--start".to_owned(), start.to_string()]
}

fn swarm_command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut command = Command::new(build::swarm()?);
    command.args(arguments).current_dir(workspace::root());
    if let Some(commit) = workspace::commit() {
        command.env("SHEAF_COMMIT", commit);
    }
    shell::run(&mut command)
}

/// `cargo xtask ci`.
pub(crate) fn ci(arguments: &CiArguments) -> Result<()> {
    if arguments.build {
        return build::sheaf(Profile::Release).map(drop);
    }
    let mut steps = Steps::default();
    if !arguments.checked {
        check_steps(&mut steps)?;
    }
    match arguments.only {
        Some(Half::Dev) => dev_steps(&mut steps)?,
        Some(Half::Release) => release_steps(&mut steps)?,
        None => {
            let release = ReleaseSteps::start()?;
            let dev = dev_steps(&mut steps);
            // A failure does not hide others.
            let released = steps.step("waiting for the steps with the release build", || release.end());
            dev.and(released)?;
        }
    }
    steps.finish();
    Ok(())
}

fn dev_steps(steps: &mut Steps) -> Result<()> {
    steps.step("tests", || testing::run(tests().env("PROPTEST_RNG_SEED", PROPERTY_SEED)))?;
    // The release build is what users build, without optional parts; that of the tests has them.
    steps.step("torture of optional parts", || {
        let sheaf = workspace::target_directory()?.join("debug/sheaf");
        torture::command(&TortureArguments::for_one_case("kill-postgresql", sheaf))
    })?;
    steps.step("tests of the Python importers", python_tests)?;
    steps.step("Python package", python::package_tests)?;
    steps.step("commands of the documents", || documents::command(&DocsTestArguments::default()))
}

fn release_steps(steps: &mut Steps) -> Result<()> {
    steps.step("release build", || build::sheaf(Profile::Release).map(drop))?;
    steps.step("simulation", || simulate(SIMULATED_RUNS, 0))?;
    steps.step("simulation of the drivers", || simulate_drivers(DRIVER_RUNS, 0))?;
    steps.step("instructions", || instructions::command(&InstructionsArguments::default()))?;
    steps.step("smoke", smoke::command)?;
    let cases = TortureArguments::for_every_change().with_jobs(TORTURE_JOBS);
    steps.step("torture", || torture::command(&cases))?;
    // Its tests wait more than they compute, so they take little from the steps beside them.
    steps.step("page of a run", page::command)?;
    steps.step("interface for programs", || openapi::command(&OpenapiArguments::default()))?;
    steps.step("packages", || package::command(&PackageArguments::for_every_change()))
}

/// The steps of [`Half::Release`] in a separate process, whose output is printed when it has ended.
struct ReleaseSteps {
    process: Child,
    log: PathBuf,
}

impl ReleaseSteps {
    fn start() -> Result<Self> {
        let log = workspace::target_directory()?.join("ci-release.log");
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let errors = file.try_clone().with_context(|| log.display().to_string())?;
        let program = std::env::current_exe().context("cannot determine the path of this program")?;
        let mut command = Command::new(program);
        command
            .args(["ci", "--checked", "--only", "release"])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors);
        println!(
            "running at the same time, with output in {}: cargo xtask ci --checked --only release",
            log.display()
        );
        Ok(Self { process: command.spawn().context("cannot start the steps with the release build")?, log })
    }

    /// Waits for the process to end and prints its output.
    fn end(mut self) -> Result<()> {
        let status = self.process.wait().context("cannot wait for the steps with the release build")?;
        let printed = std::fs::read(&self.log).with_context(|| self.log.display().to_string())?;
        println!("{}", String::from_utf8_lossy(&printed));
        ensure!(status.success(), "cargo xtask ci --checked --only release ended with {status}");
        Ok(())
    }
}

fn python_tests() -> Result<()> {
    let python = python::interpreter();
    if !python::has(&python, "pytest") {
        let variable = python::PYTHON_VARIABLE;
        println!("skipped: {} has no pytest; name another with {variable}", python.display());
        return Ok(());
    }
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "-q"]).current_dir(workspace::root().join("tools/sheaf-import"));
    shell::run(&mut pytest)
}

/// Returns the call for tests with many inputs of each property, and with amounts that take too long for every change.
fn nightly_tests() -> Command {
    let mut tests = tests();
    tests.arg("--release").env("PROPTEST_CASES", NIGHTLY_CASES).env("SHEAF_NIGHTLY", "1");
    tests
}

/// `cargo xtask nightly`.
pub(crate) fn nightly(arguments: &NightlyArguments) -> Result<()> {
    let mut steps = Steps::default();
    steps.step("simulation", || simulate(arguments.runs, arguments.start))?;
    steps.step("simulation of the drivers", || simulate_drivers(NIGHTLY_DRIVER_RUNS, arguments.start))?;
    steps.step("tests with larger amounts", || testing::run(&mut nightly_tests()))?;
    steps.step("instructions of the profile dist", || {
        instructions::command(&InstructionsArguments::for_a_night())
    })?;
    steps.step("planted bugs", || mutants::command(&MutantsArguments::for_a_night()))?;
    let torture = TortureArguments::for_a_night(arguments.torture_minutes, arguments.start);
    steps.step("torture", || torture::command(&torture))?;
    let faults = TortureArguments::for_faults(arguments.faults, arguments.start);
    steps.step("kills and freezes", || torture::command(&faults))?;
    let slowness = TortureArguments::for_slowness(arguments.slow_runs, arguments.start);
    steps.step("slowness", || torture::command(&slowness))?;
    let soak = TortureArguments::for_a_soak(arguments.soak_minutes, arguments.start);
    steps.step("soak", || torture::command(&soak))?;
    steps.step("mixed releases", mixed::for_a_night)?;
    let limits = Limits { seconds: Some(arguments.seconds), executions: Some(arguments.executions) };
    steps.step("fuzzing", || fuzz::fuzz_all(limits))?;
    steps.finish();
    Ok(())
}

#[cfg(test)]
mod ci_script;

#[cfg(test)]
mod tests {
    use super::*;

    /// README.md names the test command that CI runs.
    #[test]
    fn the_readme_has_the_command_that_ci_runs() {
        let readme =
            std::fs::read_to_string(workspace::root().join("README.md")).expect("there is a README.md");
        let command = "cargo xtask test";
        let is_there =
            |line: &str| line.trim_start_matches("$ ").split('#').next().map(str::trim_end) == Some(command);
        assert!(readme.lines().map(str::trim).any(is_there), "README.md has no line `{command}`");
    }

    #[test]
    fn ci_calls_the_verb_that_has_all_steps() {
        let script = std::fs::read_to_string(workspace::root().join(".ci/run")).expect("there is .ci/run");
        assert!(
            script.lines().any(|line| line.trim().starts_with("cargo xtask ci")),
            ".ci/run does not call cargo xtask ci"
        );
    }
}
