//! `--shrink`: the smallest run that breaks the same rule.

use sheaf_swarm::drivers::{self, DriverOptions};
use sheaf_swarm::shrink::{Shrunk, Simplify, particulars, shrink};
use sheaf_swarm::violation::list;
use sheaf_swarm::{Options, Violation, run, run_with_log};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum number of runs for one failure, which take some seconds.
const RUNS: u32 = 600;

/// Returns the first rule that a run violated. A panic counts as a violation.
fn broken(run: impl FnOnce() -> Option<String>) -> Option<String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Some("panic".to_owned()))
}

/// Shrinks a run of the roles and prints the smallest one.
pub(crate) fn roles(options: &Options, with_log: bool) -> String {
    let first = |violations: &[Violation]| violations.first().map(Violation::rule);
    let rule =
        |options: &Options| broken(|| run(options).err().and_then(|failure| first(&failure.violations)));
    let Some(shrunk) = shrink(options, RUNS, rule) else { return "this run is good\n".to_owned() };
    let end = || {
        let (result, log) = run_with_log(&shrunk.options);
        let violations = result.err().map(|failure| list(&failure.violations)).unwrap_or_default();
        Some(if with_log { log + &violations } else { violations })
    };
    let again = format!("cargo run --release -p sheaf-swarm -- --seed {} --shrink --log", options.seed);
    tell(&shrunk, broken(end), &again)
}

/// Shrinks a run of the drivers and prints the smallest one.
pub(crate) fn of_drivers(options: &DriverOptions, family: &str, with_log: bool) -> String {
    let first = |violations: &[Violation]| violations.first().map(Violation::rule);
    let rule = |options: &DriverOptions| {
        broken(|| drivers::run(options).err().and_then(|failure| first(&failure.violations)))
    };
    let Some(shrunk) = shrink(options, RUNS, rule) else { return "this run is good\n".to_owned() };
    let end = || {
        let (result, log) = drivers::run_with_log(&shrunk.options);
        let failure = result.err()?;
        let log = if with_log { log } else { failure.log };
        Some(log + &list(&failure.violations))
    };
    let again =
        format!("cargo run --release -p sheaf-swarm -- --drivers {family} --seed {} --shrink", options.seed);
    tell(&shrunk, broken(end), &again)
}

fn tell<O: Simplify>(shrunk: &Shrunk<O>, end: Option<String>, again: &str) -> String {
    let Shrunk { options, runs } = shrunk;
    let (end, particulars) = (end.unwrap_or_default(), particulars(options));
    let end = end.trim_end();
    format!(
        "{end}\nthe smallest such run that {runs} runs found; what differs from a plain one:\n{particulars}replay: {again}\n"
    )
}
