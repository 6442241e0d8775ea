//! Run numbers from PostgreSQL: one sequence for all hosts. A few numbers are kept in reserve, so that runs begin while it is down.
//!
//! The reserve is a file beside the runs that only grows: `+12;` when a number is taken into the reserve, `-12;` before a run uses it. A line
//! that a crash has cut has no `;` and does not count, so that no number comes back: a number that is lost is left out.

use super::Access;
use anyhow::{Context as _, bail};
use sheaf_telemetry::log_as;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;

/// Name of the file of the reserve.
const NAME: &str = "runs.numbers";

/// Numbers that are left in reserve after the database was reached.
const RESERVE: u32 = 10;

/// Returns a number that nobody else has or gets, for a run in `runs`, which has numbers up to `highest`.
pub(crate) fn next(access: &Access, runs: &Path, highest: u32) -> anyhow::Result<u32> {
    let take = |count: u32| {
        let taken =
            access.within_limit(move |database| Ok(database.take_numbers(highest.into(), u64::from(count))?));
        let first = u32::try_from(taken?).ok().filter(|first| first.checked_add(count).is_some());
        first.context("all run numbers are taken")
    };
    next_of(&runs.join(NAME), highest, take)
        .with_context(|| format!("cannot take a run number from {}", access.url()))
}

/// Returns the lowest number of the reserve above `highest`, so that the numbers in a directory ascend. Before, the reserve is filled by `take`,
/// which takes so many from the sequence and returns the first.
fn next_of(path: &Path, highest: u32, take: impl FnOnce(u32) -> anyhow::Result<u32>) -> anyhow::Result<u32> {
    let mut reserve = Reserve::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    reserve.numbers.retain(|number| *number > highest);
    let missing = (RESERVE + 1).saturating_sub(u32::try_from(reserve.numbers.len())?);
    let (mut lines, mut problem) = (String::new(), None);
    match take(missing) {
        Ok(first) => {
            for number in first..first + missing {
                lines.push_str(&format!("+{number};\n"));
                reserve.numbers.insert(number);
            }
        }
        Err(error) => problem = Some(format!("{error:#}")),
    }
    let Some(number) = reserve.numbers.first().copied() else {
        bail!(
            "{}; {} has no numbers in reserve: set run.number, or wait for the database",
            problem.unwrap_or_default(),
            path.display()
        );
    };
    if let Some(problem) = problem {
        let left = reserve.numbers.len();
        log_as!(NUMBER_FROM_RESERVE; "run {number} has one of {left} numbers in reserve: {problem}");
    }
    lines.push_str(&format!("-{number};\n"));
    reserve.append(&lines).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(number)
}

/// The numbers in reserve, locked for others.
struct Reserve {
    file: File,
    numbers: BTreeSet<u32>,
}

impl Reserve {
    fn open(path: &Path) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut numbers = BTreeSet::new();
        for line in text.lines().filter_map(|line| line.strip_suffix(';')) {
            match (line.strip_prefix('+'), line.strip_prefix('-')) {
                (Some(kept), _) => numbers.extend(kept.parse::<u32>().ok()),
                (_, Some(used)) => {
                    used.parse().ok().map(|used: u32| numbers.remove(&used));
                }
                _ => {}
            }
        }
        Ok(Self { file, numbers })
    }

    /// Adds lines, on the disk when it returns. A line break goes first: the last line may be cut.
    fn append(&mut self, lines: &str) -> std::io::Result<()> {
        self.file.write_all(format!("\n{lines}").as_bytes())?;
        self.file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    proptest! {
        /// Two controllers with reserves of their own; the database is down at any moment, and a crash cuts what was written for a number
        /// that had not been handed out yet.
        #[test]
        fn no_number_is_given_twice(
            steps in prop::collection::vec((0_usize..2, any::<bool>(), 0_usize..40, 0_u32..5), 1..60)
        ) {
            let place = tempfile::tempdir().unwrap();
            let paths = [place.path().join("a"), place.path().join("b")];
            let (mut last, mut highest, mut given) = (0_u32, [0_u32; 2], BTreeSet::new());
            for (controller, is_up, cut, by_hand) in steps {
                let path = &paths[controller];
                // Somebody has set a number by hand, now and then.
                let above = highest[controller] + u32::from(by_hand == 0);
                let before = fs::read(path).unwrap_or_default().len();
                let number = next_of(path, above, |count| {
                    if !is_up {
                        bail!("down");
                    }
                    let first = last.max(above) + 1;
                    last = first + count - 1;
                    Ok(first)
                });
                let after = fs::read(path).unwrap_or_default();
                if before + cut < after.len() {
                    // It died while it wrote: nobody got the number.
                    fs::write(path, &after[..before + cut]).unwrap();
                } else if let Ok(number) = number {
                    prop_assert!(given.insert(number), "{} was given twice", number);
                    prop_assert!(number > above);
                    highest[controller] = number;
                } else {
                    prop_assert!(!is_up);
                }
            }
        }
    }

    #[test]
    fn a_reserve_lasts_for_ten_runs_and_then_says_so() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(NAME);
        let all = |count| {
            assert_eq!(count, 11);
            Ok(21)
        };
        assert_eq!(next_of(&path, 0, all).unwrap(), 21);
        let down = || next_of(&path, 0, |_| bail!("nobody listens"));
        let numbers: Vec<_> = (0..10).map(|_| down().unwrap()).collect();
        assert_eq!(numbers, (22..=31).collect::<Vec<_>>());
        let error = down().unwrap_err().to_string();
        assert!(error.contains("nobody listens") && error.contains("set run.number"), "{error}");
    }
}
