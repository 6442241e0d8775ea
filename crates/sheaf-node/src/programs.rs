//! Programs of the user that feed sources or give triggers: started with their node, watched, and ended with the run.
//!
//! | module | holds |
//! |---|---|
//! | `keeper` | the thread that starts, restarts and ends the programs of a readout unit |
//! | [`guard`] | a process between the readout unit and a program, which ends the program when the readout unit dies |
//! | `output` | the output of a program, line by line, in a file and in the log of the run |
//! | `source` | a source that knows that its program will not come back |
//!
//! A program ends in four steps: the source protocol tells it that the run has ended; after `stop_timeout` its process group
//! gets SIGTERM, after the same time again SIGKILL; what is left of the group when the program has ended is killed. A readout
//! unit that dies closes the stream to its guards, which do the same from the second step on.

pub mod guard;
mod keeper;
mod output;
mod source;

use crate::restarts::RestartPolicy;
use keeper::Keeper;
use sheaf_source::Source;
use sheaf_wire::{Nanos, NodeId, SourceId};
use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use thiserror::Error;

/// A program that feeds sources or gives triggers.
#[derive(Clone, Debug)]
pub struct ProgramSetup {
    /// Name, for people.
    pub name: String,
    /// Sources that it feeds. None: it gives triggers, and works until the end of the run.
    pub sources: Vec<SourceId>,
    /// Whether the run does not start before it feeds them.
    pub awaited: bool,
    /// File for its output.
    pub log: Option<PathBuf>,
    /// Whether it is a process of Sheaf: its output has lines of [`count_line`], and it may end as [`REFUSED`].
    pub counts: bool,
}

/// Returns a line by which a process of Sheaf reports that something was counted `more` times since it last did.
#[must_use]
pub fn count_line(name: &str, more: u64) -> String {
    format!("{COUNT}{name} {more}")
}

/// Exit status of a process of Sheaf whose library has refused to be opened. If it was started for the first time, the reason is in the
/// configuration or the hardware, and it is not started again.
pub const REFUSED: u8 = 5;

/// Begin of a line with a count.
const COUNT: &str = "sheaf-count ";

/// Rules for restarts and ends of programs, and the bounds of their output.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRules {
    /// Restarts after failures; `None`: none.
    pub restarts: Option<RestartPolicy>,
    /// Time to end after the end of the run, and again after SIGTERM.
    pub stop_timeout: Nanos,
    /// Maximum size of the file with the output of a program.
    pub log_bytes: u64,
    /// Maximum number of lines of a program in the log per second.
    pub log_lines: u32,
}

/// A guard that was started, and with it the program.
#[derive(Debug)]
pub struct ProgramProcess {
    /// The stream to it, whose other end [`guard::guard`] has.
    pub stream: UnixStream,
    /// Its process.
    pub child: Option<Child>,
}

/// Starts a guard and with it the program with this index, whose output goes to the pipe.
pub type LaunchProgram = Box<dyn FnMut(usize, PipeWriter) -> io::Result<ProgramProcess> + Send>;

/// Reason why a program cannot be started.
#[derive(Debug, Error)]
#[error("program {name} cannot be started: {reason}")]
pub struct StartError {
    name: String,
    reason: String,
}

/// Account of one program at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// Number of times that it was started.
    pub starts: u64,
    /// Number of failures: ends with a status other than 0 or by a signal before the run had ended.
    pub failures: u64,
    /// Whether it failed and was not started again.
    pub given_up: bool,
    /// Whether it did not end with the run and was killed.
    pub killed: bool,
    /// Number of lines of its output.
    pub log_lines: u64,
    /// Of these, lines that its file has not: there was no room in it, or it could not be written.
    pub log_lines_dropped: u64,
    /// Its own counts, if it is a process of Sheaf.
    pub counts: BTreeMap<String, u64>,
}

/// Future of a program, for its sources.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outlook {
    /// It runs, or will be started again.
    Feeds,
    /// It has ended in good order.
    Finished,
    /// It is not started again, for this reason.
    GivenUp(String),
}

/// State that the keeper shares with the sources.
#[derive(Debug)]
struct Shared {
    programs: Mutex<Vec<ProgramState>>,
    bell: keeper::Bell,
}

#[derive(Clone, Debug)]
struct ProgramState {
    outlook: Outlook,
    /// Sources that have not ended, at least one for a program without sources.
    open_sources: usize,
    /// Whether the run was told that it cannot start.
    has_declined: bool,
}

impl Shared {
    fn with<T>(&self, program: usize, act: impl FnOnce(&mut ProgramState) -> T) -> T {
        act(&mut self.programs.lock().unwrap_or_else(PoisonError::into_inner)[program])
    }
}

/// View of the programs of a node.
#[derive(Clone, Debug)]
pub struct ProgramView(Arc<Shared>);

impl ProgramView {
    /// Returns whether all programs have ended, and none is started again.
    #[must_use]
    pub fn have_ended(&self) -> bool {
        let programs = self.0.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.iter().all(|program| program.outlook != Outlook::Feeds)
    }
}

/// The programs of a node.
#[derive(Debug)]
pub struct Programs {
    setups: Vec<ProgramSetup>,
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<Vec<ProgramReport>>>,
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.shared.bell.stop();
    }
}

impl Programs {
    /// Starts the programs of a node, whose thread is woken when one has ended for good.
    ///
    /// # Errors
    /// The first that cannot be started; the others are ended.
    pub fn start(
        node: NodeId,
        setups: Vec<ProgramSetup>,
        rules: ProgramRules,
        launch: LaunchProgram,
        waker: Waker,
    ) -> Result<Self, StartError> {
        let of_thread = |error: io::Error| StartError {
            name: setups.first().map(|setup| setup.name.clone()).unwrap_or_default(),
            reason: format!("cannot watch it: {error}"),
        };
        let state = |setup: &ProgramSetup| ProgramState {
            outlook: Outlook::Feeds,
            open_sources: setup.sources.len().max(1),
            has_declined: false,
        };
        let shared = Arc::new(Shared {
            programs: Mutex::new(setups.iter().map(state).collect()),
            bell: keeper::Bell::new().map_err(of_thread)?,
        });
        let mut keeper = Keeper::new(node, &setups, rules, launch, (shared.clone(), waker));
        keeper.start_all()?;
        let thread = std::thread::Builder::new().name(format!("{node}-programs"));
        let keeper = thread.spawn(move || keeper.run()).map_err(of_thread)?;
        Ok(Self { setups, shared, keeper: Some(keeper) })
    }

    /// Returns a source that these programs may feed as one that ends when its program has ended for good.
    #[must_use]
    pub fn watch(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        let of_source = |setup: &ProgramSetup| setup.sources.contains(&source.id());
        let program = self.setups.iter().position(of_source);
        Box::new(source::ProgramSource::new(source, program, &self.setups, self.shared.clone()))
    }

    /// Returns a view of the programs that outlives this value.
    #[must_use]
    pub fn view(&self) -> ProgramView {
        ProgramView(self.shared.clone())
    }

    /// Ends the programs, unless the end of the run has, and returns their accounts once all have ended.
    #[must_use]
    pub fn wait(mut self) -> Vec<ProgramReport> {
        self.shared.bell.stop();
        self.keeper.take().and_then(|keeper| keeper.join().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
