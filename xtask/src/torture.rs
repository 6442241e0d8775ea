//! Injects faults into real runs of the released command on this machine. In simulated clusters a seed determines everything; here
//! the operating system takes part: processes are killed and frozen, processors taken away, disks fill up or hang, strangers connect.
//!
//! Each case is a run with a fixed amount of work in its own directory. Faults occur at fractions of the work, not at instants, so
//! that a slow machine sees the same faults. Afterwards the promises of the documentation for that fault are checked: the exit
//! status, stored ids against triggered ids, the ledger against the files, no event twice, `sheaf verify`, no process or file left.
//! The directory of a failed case is kept.
//!
//! | module | contents |
//! |---|---|
//! | `cases` | the cases, by family |
//! | `trial` | one case under way |
//! | `system`, `run` | the configuration of its run; the run, monitored by its output |
//! | `books`, `records` | promises, and their comparison with the results of a run, or of the runs of a controller |
//! | `controller` | a controller that is killed and started again, and its clients |
//! | `machine`, `clients`, `process` | disks and processors to take away; strangers; processes and signals |
//! | `postgresql` | a server for the database of runs |
//! | `dice` | random choices determined by the seed |
//! | `tally` | counts over all cases |
//! | `growth` | memory and descriptors of processes over time |

mod books;
mod cases;
mod clients;
mod controller;
mod dice;
mod growth;
mod machine;
mod postgresql;
mod process;
mod records;
mod run;
mod system;
mod tally;
mod trial;

use crate::build::{self, Profile};
use crate::workspace;
use anyhow::{Context as _, Result, bail, ensure};
use cases::{Case, FAMILIES, Outcome};
use dice::Dice;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tally::Tally;
use trial::{Scale, Trial};

/// Fixed seed for CI, so that a change fails only for its own faults, not for an unlucky draw.
const SEED: u64 = 1;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TortureArguments {
    /// Duration of a nightly run: all cases are repeated with new seeds and faults of up to a minute. Default: the cases for
    /// every change, once, with faults of seconds.
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Number of kills and freezes: cases that kill or freeze processes are repeated in an order determined by the seed, at
    /// most for `--minutes` if given. Faults last seconds, unless `--full` is given.
    #[arg(long, value_name = "N")]
    faults: Option<u64>,
    /// Number of runs: the chosen cases are repeated in an order determined by the seed. Faults last seconds, unless `--full`
    /// is given.
    #[arg(long, value_name = "N", conflicts_with_all = ["minutes", "faults"])]
    runs: Option<u64>,
    /// First seed. Each round through the cases uses the next one.
    #[arg(long, value_name = "S", default_value_t = SEED)]
    seed: u64,
    /// Run only this case. May be repeated.
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,
    /// Run only the cases of this family.
    #[arg(long, value_name = "FAMILY", conflicts_with = "only")]
    family: Option<String>,
    /// Run one round with faults of up to a minute, as with `--minutes`.
    #[arg(long)]
    full: bool,
    /// Run only the case `soak`, with this many minutes of triggers at 10 kHz. Meaningful figures need an hour or more.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["minutes", "faults", "only", "full"])]
    soak: Option<u64>,
    /// Number of stops with a frozen node in the case `freeze-at-stop`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stops: Option<u64>,
    /// Number of times that one run follows another without a gap, in each case of the family `succession`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    switches: Option<u64>,
    /// Number of cases at a time, in a round through all cases. Most of them wait most of the time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["faults", "runs"])]
    jobs: u64,
    /// Path of the command to test. Default: `target/release/sheaf`, which is built.
    #[arg(long, value_name = "PATH")]
    sheaf: Option<PathBuf>,
    /// List the cases.
    #[arg(long)]
    list: bool,
}

impl TortureArguments {
    /// Returns the arguments for the cases of every change.
    pub(crate) fn for_every_change() -> Self {
        Self {
            minutes: None,
            faults: None,
            runs: None,
            seed: SEED,
            only: Vec::new(),
            family: None,
            full: false,
            soak: None,
            stops: None,
            switches: None,
            jobs: 1,
            sheaf: None,
            list: false,
        }
    }

    /// Returns the arguments for one case with another command than the release build.
    pub(crate) fn for_one_case(name: &str, sheaf: PathBuf) -> Self {
        Self { only: vec![name.to_owned()], sheaf: Some(sheaf), ..Self::for_every_change() }
    }

    /// Returns the same arguments for several cases at a time.
    pub(crate) fn with_jobs(self, jobs: u64) -> Self {
        Self { jobs, ..self }
    }

    /// Returns the arguments for a nightly run of this many minutes.
    pub(crate) fn for_a_night(minutes: u64, seed: u64) -> Self {
        Self { minutes: Some(minutes), seed, ..Self::for_every_change() }
    }

    /// Returns the arguments for this many kills and freezes.
    pub(crate) fn for_faults(faults: u64, seed: u64) -> Self {
        Self { faults: Some(faults), seed, ..Self::for_every_change() }
    }

    /// Returns the arguments for this many runs in which no process dies and something is slow.
    pub(crate) fn for_slowness(runs: u64, seed: u64) -> Self {
        let family = Some("slowness".to_owned());
        Self { runs: Some(runs), family, seed, ..Self::for_every_change() }
    }

    /// Returns the arguments for a soak of this many minutes.
    pub(crate) fn for_a_soak(minutes: u64, seed: u64) -> Self {
        Self { soak: Some(minutes), seed, ..Self::for_every_change() }
    }

    fn scale(&self) -> Scale {
        let is_long = self.minutes.is_some() && self.faults.is_none();
        if self.full || is_long { Scale::Full } else { Scale::Short }
    }
}

/// A case that was tried.
#[derive(Debug)]
struct Tried {
    family: &'static str,
    name: &'static str,
    seed: u64,
    seconds: f64,
    tally: Tally,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    Good,
    Skipped(String),
    /// Problems, and the directory of the run.
    Failed(Vec<String>, PathBuf),
}

/// `cargo xtask torture`.
pub(crate) fn command(arguments: &TortureArguments) -> Result<()> {
    let chosen = chosen(arguments)?;
    if arguments.list {
        chosen.iter().for_each(|(family, case)| println!("{family:<10} {}", case.name));
        return Ok(());
    }
    let sheaf = match &arguments.sheaf {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => build::sheaf(Profile::Release)?,
    };
    let directory = workspace::target_directory()?.join("torture");
    let end = arguments.minutes.map(|minutes| Instant::now() + Duration::from_mins(minutes));
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    let bench = TestBench { arguments, sheaf: &sheaf, directory: &directory };
    let tried = if arguments.faults.is_some() || arguments.runs.is_some() {
        bench.try_in_turn(&chosen, is_over)?
    } else {
        let mut tried = Vec::new();
        for seed in arguments.seed.. {
            tried.extend(bench.try_round(&chosen, seed, is_over)?);
            if end.is_none() || is_over() {
                break;
            }
        }
        tried
    };
    report(&tried, arguments.scale())
}

/// A case, behind its family.
type Chosen = (&'static str, &'static Case);

fn chosen(arguments: &TortureArguments) -> Result<Vec<Chosen>> {
    let all = || FAMILIES.iter().flat_map(|(family, cases)| cases.iter().map(move |case| (*family, case)));
    if let Some(unknown) = arguments.only.iter().find(|name| all().all(|(_, case)| case.name != **name)) {
        let known: Vec<_> = all().map(|(_, case)| case.name).collect();
        bail!("there is no case {unknown}; the cases are {}", known.join(", "));
    }
    if let Some(unknown) = arguments.family.as_ref().filter(|name| all().all(|(family, _)| family != **name))
    {
        let known: Vec<_> = FAMILIES.iter().map(|(family, _)| *family).collect();
        bail!("there is no family {unknown}; the families are {}", known.join(", "));
    }
    let is_wanted = |family: &str, case: &Case| match arguments.only.is_empty() {
        true if arguments.family.is_some() => arguments.family.as_deref() == Some(family),
        true if arguments.soak.is_some() => case.name == cases::SOAK,
        true if arguments.faults.is_some() => case.hits_processes(),
        true => arguments.list || case.for_every_change || arguments.scale() == Scale::Full,
        false => arguments.only.iter().any(|name| name == case.name),
    };
    Ok(all().filter(|(family, case)| is_wanted(family, case)).collect())
}

/// Settings that all cases share.
struct TestBench<'a> {
    arguments: &'a TortureArguments,
    /// The program.
    sheaf: &'a Path,
    /// Parent of the directories of the cases.
    directory: &'a Path,
}

impl TestBench<'_> {
    /// Tries cases in an order that the seed decides, until there were enough runs or faults.
    fn try_in_turn(&self, chosen: &[Chosen], is_over: impl Fn() -> bool) -> Result<Vec<Tried>> {
        let TortureArguments { seed, faults, runs, .. } = *self.arguments;
        let (mut order, mut tried) = (Dice::new(seed, "order"), Vec::<Tried>::new());
        for seed in seed.. {
            let had: u64 = tried.iter().map(|tried| tried.tally.faults()).sum();
            let is_done = faults.is_some_and(|wanted| had >= wanted)
                || runs.is_some_and(|wanted| tried.len() as u64 >= wanted);
            if is_done || is_over() {
                break;
            }
            tried.push(self.try_case(order.pick(chosen), seed)?);
        }
        Ok(tried)
    }

    /// Tries each case once, some of them at a time. No case begins once `is_over`.
    fn try_round(
        &self,
        chosen: &[Chosen],
        seed: u64,
        is_over: impl Fn() -> bool + Sync,
    ) -> Result<Vec<Tried>> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut tried = Vec::new();
            while !is_over()
                && let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed))
            {
                tried.push(self.try_case(*case, seed)?);
            }
            Ok(tried)
        };
        let parts: Vec<Result<Vec<Tried>>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.arguments.jobs).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().expect("a case does not panic")).collect()
        });
        let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// Tries one case in its own directory, which is removed if the case passes.
    fn try_case(&self, (family, case): Chosen, seed: u64) -> Result<Tried> {
        let mark = format!("{}-{}-{seed}", case.name, std::process::id());
        let directory = self.directory.join(&mark);
        std::fs::create_dir_all(directory.join("tmp")).with_context(|| directory.display().to_string())?;
        let mut trial = Trial {
            sheaf: self.sheaf.to_owned(),
            output: directory.join("runs"),
            directory: directory.clone(),
            mark,
            dice: Dice::new(seed, case.name),
            scale: self.arguments.scale(),
            soak_minutes: self.arguments.soak,
            stops: self.arguments.stops,
            switches: self.arguments.switches,
            notes: Vec::new(),
            problems: Vec::new(),
            tally: Tally::default(),
        };
        let began = Instant::now();
        let outcome = (case.work)(&mut trial);
        if outcome.is_err() {
            trial.kill_processes();
        }
        // Also after an error, so that nothing disturbs the next case.
        trial.collect_processes();
        let (seconds, tally) = (began.elapsed().as_secs_f64(), trial.tally);
        let verdict = match outcome {
            Ok(Outcome::Skipped(reason)) => Verdict::Skipped(reason),
            Ok(Outcome::Done) if trial.problems.is_empty() => Verdict::Good,
            Ok(Outcome::Done) => Verdict::Failed(trial.problems, directory.clone()),
            Err(error) => {
                trial.problems.push(format!("{error:#}"));
                Verdict::Failed(trial.problems, directory.clone())
            }
        };
        let word = match &verdict {
            Verdict::Good => "good",
            Verdict::Skipped(_) => "skipped",
            Verdict::Failed(..) => "FAILED",
        };
        println!("{:<28} seed {seed}: {word} in {seconds:.1} s; {}", case.name, trial.notes.join("; "));
        match &verdict {
            Verdict::Good => {}
            Verdict::Skipped(reason) => println!("    {reason}"),
            Verdict::Failed(problems, _) => problems.iter().for_each(|problem| println!("    {problem}")),
        }
        if !matches!(verdict, Verdict::Failed(..)) {
            std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
        }
        Ok(Tried { family, name: case.name, seed, seconds, tally, verdict })
    }
}

/// Prints a line for each case over all its seeds, their sum, and each failure with the command that repeats it.
fn report(tried: &[Tried], scale: Scale) -> Result<()> {
    println!(
        "\n{:<11}{:<28}{:>6}{:>6}{:>8}{:>7}{:>9}{:>6}{:>7}{:>9}",
        "family", "case", "runs", "good", "failed", "kills", "freezes", "lost", "twice", "seconds"
    );
    for (family, cases) in FAMILIES {
        for case in cases {
            let of_case: Vec<&Tried> = tried.iter().filter(|tried| tried.name == case.name).collect();
            if !of_case.is_empty() {
                print_row(family, case.name, &of_case);
            }
        }
    }
    print_row("all", "", &tried.iter().collect::<Vec<_>>());
    let skipped = tried.iter().filter(|tried| matches!(tried.verdict, Verdict::Skipped(_))).count();
    let full = if scale == Scale::Full { " --full" } else { "" };
    let mut failures = 0;
    for Tried { family, name, seed, verdict, .. } in tried {
        let Verdict::Failed(problems, directory) = verdict else { continue };
        failures += 1;
        println!("\n{family}: {name} failed; its directory is {}", directory.display());
        problems.iter().for_each(|problem| println!("  {problem}"));
        println!("  again: cargo xtask torture --only {name} --seed {seed}{full}");
    }
    println!("\n{} runs, {failures} failed, {skipped} skipped", tried.len());
    ensure!(failures == 0, "{failures} of {} runs did not end as documented", tried.len());
    Ok(())
}

/// Prints one line of the table.
fn print_row(family: &str, name: &str, tried: &[&Tried]) {
    let good = tried.iter().filter(|tried| matches!(tried.verdict, Verdict::Good)).count();
    let failed = tried.iter().filter(|tried| matches!(tried.verdict, Verdict::Failed(..))).count();
    let seconds: f64 = tried.iter().map(|tried| tried.seconds).sum();
    let mut sum = Tally::default();
    tried.iter().for_each(|tried| sum += tried.tally);
    let Tally { kills, freezes, lost, twice } = sum;
    let runs = tried.len();
    println!(
        "{family:<11}{name:<28}{runs:>6}{good:>6}{failed:>8}{kills:>7}{freezes:>9}{lost:>6}{twice:>7}{seconds:>9.1}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_unique_name_and_is_on_the_page() {
        let page = workspace::root().join("docs/concepts/simulation-testing.md");
        let page = std::fs::read_to_string(page).expect("there is the page");
        let mut names = BTreeSet::new();
        for case in FAMILIES.iter().flat_map(|(_, cases)| cases.iter()) {
            assert!(names.insert(case.name), "{} occurs twice", case.name);
            assert!(page.contains(&format!("`{}`", case.name)), "{} is not on the page", case.name);
        }
    }

    #[test]
    fn the_table_of_faults_names_cases_that_exist() {
        let page = workspace::root().join("docs/operating/what-may-fail.md");
        let page = std::fs::read_to_string(page).expect("there is the page");
        let rows = page.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once(" | "));
        let named: BTreeSet<_> = rows
            .filter(|(rest, _)| rest.matches(" | ").count() == 2)
            .flat_map(|(_, last)| last.split('`').skip(1).step_by(2))
            .collect();
        let cases: BTreeSet<_> =
            FAMILIES.iter().flat_map(|(_, cases)| cases.iter().map(|case| case.name)).collect();
        let unknown: Vec<_> = named.difference(&cases).collect();
        assert!(
            named.len() > 30 && unknown.is_empty(),
            "{} names, of which no case: {unknown:?}",
            named.len()
        );
    }

    #[test]
    fn faults_are_drawn_from_the_cases_that_kill_or_freeze() {
        let arguments = TortureArguments::for_faults(1_000, 7);
        let names: Vec<_> =
            chosen(&arguments).expect("there are some").iter().map(|(_, case)| case.name).collect();
        assert!(names.contains(&"kill-processor") && names.contains(&"freeze-manager"), "{names:?}");
        assert!(!names.contains(&"slow-filter"), "{names:?}");
    }

    #[test]
    fn a_family_has_all_of_its_cases() {
        let names: Vec<_> = chosen(&TortureArguments::for_slowness(500, 7))
            .expect("there is the family")
            .iter()
            .map(|(_, case)| case.name)
            .collect();
        assert!(names.contains(&"quota") && names.contains(&"slow-filter"), "{names:?}");
        assert!(!names.contains(&"kill-builder"), "{names:?}");
        let unknown = Some("luck".to_owned());
        let unknown = TortureArguments { family: unknown, ..TortureArguments::for_every_change() };
        let error = chosen(&unknown).expect_err("there is no such family");
        assert!(error.to_string().contains("endurance"), "{error}");
    }

    #[test]
    fn a_case_that_does_not_exist_is_refused() {
        let arguments =
            TortureArguments { only: vec!["kill-time".to_owned()], ..TortureArguments::for_every_change() };
        let error = chosen(&arguments).expect_err("there is no such case");
        assert!(error.to_string().contains("kill-builder"), "{error}");
    }
}
