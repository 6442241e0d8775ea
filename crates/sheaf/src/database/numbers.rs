//! Run numbers from PostgreSQL: one sequence for all hosts. A few numbers are kept in reserve, so that runs begin while it is down.
//!
//! The reserve is a file beside the runs that only grows: `+12;` when a number is taken into the reserve, `-12;` before a run uses it. A line
//! that a crash has cut has no `;` and does not count, so that no number comes back: a number that is lost is left out.

use super::Access;
use anyhow::{Context as _, bail};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;

/// Name of the file of the reserve.
const NAME: &str = "runs.numbers";

/// Numbers that a reserve has after the database was reached.
const RESERVE: usize = 10;

/// Returns a number that nobody else has or gets, for a run in `runs`. From the database it is also above `highest`.
pub(crate) fn next(access: &Access, runs: &Path, highest: u32) -> anyhow::Result<u32> {
    let path = runs.join(NAME);
    let take = |count: u64| {
        let taken = access.within_limit(move |database| Ok(database.take_numbers(highest.into(), count)?));
        let first = taken?;
        let last = u32::try_from(first + count - 1).context("all run numbers are taken")?;
        anyhow::Ok(last + 1 - u32::try_from(count)?)
    };
    next_of(&path, take).with_context(|| format!("cannot take a run number from {}", access.url()))
}

/// Returns the next number of `take`, which takes so many from the sequence, or of the reserve in a file.
fn next_of(path: &Path, take: impl FnOnce(u64) -> anyhow::Result<u32>) -> anyhow::Result<u32> {
    let mut reserve = Reserve::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let missing = RESERVE.saturating_sub(reserve.numbers.len());
    let written = match take(1 + missing as u64) {
        Ok(number) => {
            // Without the reserve a run can begin; a later run keeps one.
            let kept = (1..=missing).filter_map(|more| number.checked_add(u32::try_from(more).ok()?));
            if let Err(error) = reserve.append(&kept.map(|kept| format!("+{kept};\n")).collect::<String>()) {
                log::warn!("cannot keep run numbers in reserve in {}: {error}", path.display());
            }
            return Ok(number);
        }
        Err(error) => match reserve.numbers.first() {
            None => bail!(
                "{}; there are no numbers in reserve in {}: set run.number, or wait for the database",
                crate::describe(&error),
                path.display()
            ),
            Some(number) => {
                let number = *number;
                log::warn!(
                    "run number {number} is one of {} in reserve: {}",
                    reserve.numbers.len(),
                    crate::describe(&error)
                );
                reserve.append(&format!("-{number};\n")).map(|()| number)
            }
        },
    };
    written.with_context(|| format!("cannot write {}", path.display()))
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
        /// Two controllers with reserves of their own; the database is down at any moment, and a crash cuts the file anywhere after what
        /// was written for a number that had not been handed out yet.
        #[test]
        fn no_number_is_given_twice(steps in prop::collection::vec((0_usize..2, any::<bool>(), 0_usize..40), 1..60)) {
            let place = tempfile::tempdir().unwrap();
            let paths = [place.path().join("a"), place.path().join("b")];
            let mut last = 0_u32;
            let mut given = BTreeSet::new();
            for (controller, is_up, cut) in steps {
                let path = &paths[controller];
                let before = fs::read(path).unwrap_or_default().len();
                let number = next_of(path, |count| {
                    if !is_up {
                        bail!("down");
                    }
                    let first = last + 1;
                    last += u32::try_from(count).unwrap();
                    Ok(first)
                });
                let after = fs::read(path).unwrap();
                if cut < 8 && before + cut < after.len() {
                    // It died while it wrote: nobody got the number.
                    fs::write(path, &after[..before + cut]).unwrap();
                } else if let Ok(number) = number {
                    prop_assert!(given.insert(number), "{number} was given twice");
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
        assert_eq!(
            next_of(&path, |count| {
                assert_eq!(count, 11);
                Ok(21)
            })
            .unwrap(),
            21
        );
        let down = || next_of(&path, |_| bail!("nobody listens"));
        let numbers: Vec<_> = (0..10).map(|_| down().unwrap()).collect();
        assert_eq!(numbers, (22..=31).collect::<Vec<_>>());
        let error = down().unwrap_err().to_string();
        assert!(error.contains("nobody listens") && error.contains("set run.number"), "{error}");
    }
}
