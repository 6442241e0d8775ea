//! Deliberately planted bugs, one at a time, that the swarm must find. A simulation that passes is evidence only if it fails when it
//! should.
//!
//! | module | contents |
//! |---|---|
//! | `catalogue` | the list of bugs in `xtask/mutants` |
//! | `planting` | building all bugs into one program, in which each run selects one |
//! | `copy` | the copy of the workspace in which they are planted |
//! | `hunt` | runs of the swarm and their findings |

mod catalogue;
mod copy;
mod hunt;
mod planting;

use crate::problem::Problem;
use crate::workspace::{self, Packages};
use anyhow::{Result, ensure};
use catalogue::Mutant;
use copy::Copy;
use hunt::{Found, Hunter};
use std::time::Instant;

/// Minimum percentage of the bugs that must be found.
const FOUND_PERCENT: usize = 95;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MutantsArguments {
    /// Number of seeds to try against each bug.
    #[arg(long, value_name = "K", default_value_t = 10_000)]
    seeds: u64,
    /// Prefix of the names of bugs to plant. May be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Number of bugs to plant, spread evenly over the list.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// List the bugs.
    #[arg(long)]
    list: bool,
}

impl MutantsArguments {
    /// Returns the arguments for all bugs with all seeds.
    pub(crate) fn for_a_night() -> Self {
        Self { seeds: 10_000, only: Vec::new(), sample: None, list: false }
    }
}

#[derive(Debug)]
enum Fate {
    Found(Found),
    Survived,
    /// The swarm does not contain the code that the bug is in.
    OutOfReach,
    /// Message of the compiler.
    DoesNotCompile(String),
}

/// Returns a problem for each bug whose text is not in the code: planting it would have no effect.
pub(crate) fn problems() -> Result<Vec<Problem>> {
    Ok(planting::problems(workspace::root(), &catalogue::read(workspace::root())?))
}

/// `cargo xtask mutants`.
pub(crate) fn command(arguments: &MutantsArguments) -> Result<()> {
    let mutants = chosen(catalogue::read(workspace::root())?, arguments)?;
    if arguments.list {
        mutants.iter().for_each(|mutant| println!("{:<40} {}", mutant.name, mutant.bug));
        return Ok(());
    }
    let reachable = Packages::read()?.linked("sheaf-swarm");
    let is_reachable = |mutant: &Mutant| reachable.contains(copy::package(&mutant.file));
    let numbered: Vec<(u32, &Mutant)> = (1..).zip(&mutants).collect();
    let planted: Vec<_> = numbered.iter().copied().filter(|(_, mutant)| is_reachable(mutant)).collect();
    let directory = workspace::target_directory()?.join("mutants");
    let (swarm, refused) = Copy::new(&directory).build(&planted)?;
    let hunter = Hunter::new(swarm, arguments.seeds)?;
    for (count, found) in hunter.excused() {
        println!("excluded {count} seeds that fail without any bug; the first is {}", where_and_how(found));
    }
    let mut fates = Vec::with_capacity(mutants.len());
    for (number, mutant) in numbered {
        let began = Instant::now();
        let fate = match refused.get(&number) {
            Some(error) => Fate::DoesNotCompile(error.clone()),
            None if !is_reachable(mutant) => Fate::OutOfReach,
            None => hunter.hunt(number)?.map_or(Fate::Survived, Fate::Found),
        };
        println!("{:<40} {:>6.1} s  {}", mutant.name, began.elapsed().as_secs_f64(), said(&fate));
        fates.push(fate);
    }
    report(&mutants, &fates)?;
    ensure!(hunter.excused().next().is_none(), "the swarm fails without any planted bug");
    Ok(())
}

fn chosen(mut mutants: Vec<Mutant>, arguments: &MutantsArguments) -> Result<Vec<Mutant>> {
    if !arguments.only.is_empty() {
        mutants.retain(|mutant| arguments.only.iter().any(|name| mutant.name.starts_with(name)));
        ensure!(!mutants.is_empty(), "no planted bug has the name {}", arguments.only.join(", "));
    }
    let count = mutants.len();
    if let Some(sample) = arguments.sample.filter(|sample| (1..count).contains(sample)) {
        let is_taken = |index: usize| index * sample / count != (index + 1) * sample / count;
        let indexed = mutants.into_iter().enumerate();
        mutants = indexed.filter(|(index, _)| is_taken(*index)).map(|(_, mutant)| mutant).collect();
    }
    Ok(mutants)
}

fn said(fate: &Fate) -> String {
    match fate {
        Fate::Found(found) => format!("found by {}", where_and_how(found)),
        Fate::Survived => "SURVIVED".to_owned(),
        Fate::OutOfReach => "SURVIVED: the swarm does not contain this code".to_owned(),
        Fate::DoesNotCompile(error) => format!("DOES NOT COMPILE: {error}"),
    }
}

fn where_and_how(Found { kind, seed, how }: &Found) -> String {
    let seed = seed.map_or_else(|| "a seed".to_owned(), |seed| format!("seed {seed}"));
    format!("{seed} of the {kind}: {how}")
}

fn report(mutants: &[Mutant], fates: &[Fate]) -> Result<()> {
    let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
    let found = count(|fate| matches!(fate, Fate::Found(_)));
    let survived = count(|fate| matches!(fate, Fate::Survived | Fate::OutOfReach));
    let broken = count(|fate| matches!(fate, Fate::DoesNotCompile(_)));
    println!();
    for (mutant, fate) in mutants.iter().zip(fates).filter(|(_, fate)| !matches!(fate, Fate::Found(_))) {
        println!("{}: {}\n  {}\n  {}", mutant.name, said(fate), mutant.bug, mutant.file);
    }
    println!("\n{} planted bugs: {found} found, {survived} survived, {broken} do not compile", fates.len());
    ensure!(broken == 0, "{broken} planted bugs do not compile: fix them in {}", catalogue::FOLDER);
    ensure!(
        found * 100 >= fates.len() * FOUND_PERCENT,
        "the swarm found {found} of {} planted bugs, less than {FOUND_PERCENT} %",
        fates.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_the_list() {
        let mutant = |index: usize| Mutant {
            name: format!("bug-{index}"),
            file: String::new(),
            bug: String::new(),
            find: "a".to_owned(),
            replace: "b".to_owned(),
        };
        let arguments = MutantsArguments { sample: Some(4), ..MutantsArguments::for_a_night() };
        let taken = chosen((0..20).map(mutant).collect(), &arguments).expect("there are some");
        let names: Vec<&str> = taken.iter().map(|mutant| mutant.name.as_str()).collect();
        assert_eq!(names, ["bug-4", "bug-9", "bug-14", "bug-19"]);
    }
}
