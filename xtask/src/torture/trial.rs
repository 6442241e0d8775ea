//! One case with one seed: its directories, the actions taken, and the problems found.

use super::dice::Dice;
use super::process;
use super::tally::Tally;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for leftover processes to end: they may be closing a file.
const LEFT_OVER_MAX: Duration = Duration::from_mins(2);

/// Scale of the duration of faults and of the amount of work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Seconds, for every change.
    Short,
    /// Up to a minute, for a night.
    Full,
}

/// A case in progress.
#[derive(Debug)]
pub(super) struct Trial {
    /// The command under test.
    pub(super) sheaf: PathBuf,
    /// Directory of the case.
    pub(super) directory: PathBuf,
    /// Directory in which the run's directory is created.
    pub(super) output: PathBuf,
    /// Mark of its processes.
    pub(super) mark: String,
    pub(super) dice: Dice,
    pub(super) scale: Scale,
    /// Minutes of triggers of a soak, if given.
    pub(super) soak_minutes: Option<u64>,
    /// Number of stops of a case about them, if given.
    pub(super) stops: Option<u64>,
    /// Number of times that one run follows another in cases about that, if given.
    pub(super) switches: Option<u64>,
    /// Actions, in order.
    pub(super) notes: Vec<String>,
    /// Broken promises.
    pub(super) problems: Vec<String>,
    pub(super) tally: Tally,
}

impl Trial {
    /// Records an action.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Records a process that was killed at a percentage of the work.
    pub(super) fn note_kill(&mut self, who: &str, percent: u64) {
        self.tally.kills += 1;
        self.note(format!("killed {who} at {percent} %"));
    }

    /// Records a problem.
    pub(super) fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    /// Returns one of two numbers, depending on the scale.
    pub(super) fn by_scale(&self, short: u64, full: u64) -> u64 {
        if self.scale == Scale::Short { short } else { full }
    }

    /// Draws the moment of a fault, as a percentage of the work.
    pub(super) fn moment(&mut self) -> u64 {
        self.dice.between(5, 80)
    }

    /// Draws the moments of this many faults, in order.
    pub(super) fn moments(&mut self, count: u64) -> Vec<u64> {
        let mut moments: Vec<u64> = (0..count).map(|_| self.moment()).collect();
        moments.sort_unstable();
        moments
    }

    /// Draws the duration of a freeze: from a second to longer than any node's patience.
    pub(super) fn freeze_time(&mut self) -> Duration {
        let longest = self.by_scale(6_000, 60_000);
        Duration::from_millis(self.dice.magnitude(1_000, longest))
    }

    /// Stops processes for a while. On a slow machine the run may have ended before; then there is nothing to stop.
    pub(super) fn freeze(&mut self, who: &str, processes: &[u32], time: Duration) {
        self.note(format!("froze {who} for {:.1} s", time.as_secs_f64()));
        let hit: Vec<u32> =
            processes.iter().copied().filter(|id| process::signal(*id, "STOP").is_ok()).collect();
        if hit.is_empty() {
            self.note("which had ended before");
            return;
        }
        self.tally.freezes += hit.len() as u64;
        std::thread::sleep(time);
        for id in hit {
            // A process may have been killed for its silence. The books show the consequences.
            let _ = process::signal(id, "CONT");
        }
    }

    /// Kills all processes of the case.
    pub(super) fn kill_processes(&self) {
        for process in process::marked(&self.mark) {
            // It may end by itself at this moment.
            let _ = process::signal(process.id, "KILL");
        }
    }

    /// Waits until no process of the case is left. Those that remain are killed; each is a problem.
    pub(super) fn collect_processes(&mut self) {
        let began = Instant::now();
        let mut left = process::marked(&self.mark);
        while !left.is_empty() && began.elapsed() < LEFT_OVER_MAX {
            std::thread::sleep(Duration::from_millis(20));
            left = process::marked(&self.mark);
        }
        for process in left {
            self.problem(format!("process {} is left: {}", process.id, process.arguments.join(" ")));
            let _ = process::signal(process.id, "KILL");
        }
    }
}
