//! Many runs of the drivers: `--drivers`.

use crate::{Arguments, print, small};
use serde_json::json;
use sheaf_swarm::drivers::{self, DriverFailure, DriverOptions, DriverReport, Family};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

type Outcome = Result<DriverReport, Box<DriverFailure>>;

/// Runs seeds of a family. Returns false if one failed.
pub(crate) fn run(arguments: &Arguments, family: Family) -> bool {
    let (first, count) = arguments.seed.map_or((arguments.start, arguments.runs), |seed| (seed, 1));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, outcomes) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let end = first.saturating_add(count);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let outcome = run_one(family, seed, arguments.log && !arguments.shrink);
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push((seed, outcome));
            let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
            if failed >= arguments.failures {
                next.store(end, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.unwrap_or(cores).max(1) {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(seed, _)| *seed);
    if arguments.json {
        print(&format!("{}\n", to_json(&outcomes)));
        return is_good(&outcomes, count);
    }
    report(arguments, &outcomes);
    let failed = outcomes.iter().find_map(|(_, outcome)| outcome.as_ref().err());
    if let Some(failure) = failed.filter(|_| arguments.shrink || arguments.seed.is_none()) {
        let family = format!("{family:?}").to_lowercase();
        print(&format!(
            "the first failure, made small:\n{}\n",
            small::of_drivers(&failure.options, &family, arguments.log)
        ));
    }
    is_good(&outcomes, count)
}

/// Returns whether all runs were good.
fn is_good(outcomes: &[(u64, Outcome)], count: u64) -> bool {
    outcomes.iter().all(|(_, outcome)| outcome.is_ok()) && outcomes.len() as u64 == count
}

/// A driver that panicked is a failure like any other.
fn run_one(family: Family, seed: u64, with_log: bool) -> Outcome {
    let options = DriverOptions::random(family, seed);
    if with_log {
        print(&drivers::run_with_log(&options).1);
    }
    std::panic::catch_unwind(|| drivers::run(&options)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let violations = vec![format!("a driver panicked: {text}").into()];
        Err(Box::new(DriverFailure { options, violations, at: drivers::START, log: String::new() }))
    })
}

fn to_json(outcomes: &[(u64, Outcome)]) -> serde_json::Value {
    let failures: Vec<_> = outcomes
        .iter()
        .filter_map(|(seed, outcome)| Some((seed, outcome.as_ref().err()?)))
        .map(|(seed, failure)| {
            let violations: Vec<_> = failure.violations.iter().map(ToString::to_string).collect();
            json!({ "seed": seed, "violations": violations, "at_ns": failure.at.0 })
        })
        .collect();
    json!({ "good": failures.is_empty(), "runs": outcomes.len(), "failures": failures })
}

fn report(arguments: &Arguments, outcomes: &[(u64, Outcome)]) {
    let (mut good, mut accepted, mut stored, mut rounds, mut hash) = (0_u64, 0, 0, 0, 0_u64);
    let (mut take_overs, mut joined, mut mirrored, mut repeated) = (0, 0, 0, 0);
    for (seed, outcome) in outcomes {
        match outcome {
            Ok(report) => {
                good += 1;
                accepted += report.accepted;
                stored += report.stored;
                take_overs += report.take_overs;
                joined += report.joined;
                mirrored += report.mirrored;
                repeated += report.repeated;
                rounds += report.rounds;
                hash = hash.wrapping_add(sheaf_swarm::dice::mix(seed ^ report.hash));
                if arguments.seed.is_some() {
                    print(&format!("{}seed {seed}: good, {report:?}\n", report.log));
                }
            }
            Err(failure) => print(&format!("{failure}\n\n")),
        }
    }
    let failed: Vec<u64> =
        outcomes.iter().filter(|(_, outcome)| outcome.is_err()).map(|(seed, _)| *seed).collect();
    let took_over = match take_overs + joined {
        0 => String::new(),
        _ => format!("; {take_overs} take-overs, {joined} replicas joined"),
    };
    let took_over = match mirrored {
        0 => took_over,
        _ => format!("{took_over}; {mirrored} mirrors took over, {repeated} messages sent by both"),
    };
    print(&format!(
        "{} runs of the drivers: {} failed {failed:?}; {good} good, {accepted} triggers accepted, {stored} stored{took_over}; \
         {rounds} rounds; hash {hash:016x}\n",
        outcomes.len(),
        failed.len(),
    ));
}
