//! Setup of a farm, and its report.

use super::{FilterMaker, LauncherOptions, ListenError, ListenSetup, PlacingOptions};
use crate::filter::FilterFailure;
use crate::judging::WorkerTimes;
use sheaf_protocol::farm::{DispatcherConfig, FarmCounts, Seat};
use sheaf_shm::door::DoorError;
use sheaf_wire::farm::Welcome;
use std::path::PathBuf;

/// Setup of a farm.
pub struct FarmSetup {
    /// Configuration of its dispatcher.
    pub dispatcher: DispatcherConfig,
    /// Workers that are threads of this process: their number, and the maker of their filters.
    pub threads: Option<(u16, FilterMaker)>,
    /// A door for workers that are processes.
    pub door: Option<DoorSetup>,
    /// Listener for processors of other hosts.
    pub listen: Option<ListenSetup>,
}

/// A door for processes.
pub struct DoorSetup {
    /// Path of its socket, which does not exist yet.
    pub path: PathBuf,
    /// Welcome that joining processes receive.
    pub welcome: Welcome,
    /// Sources of an event, at most.
    pub sources: usize,
    /// The memory into which payload is copied that other processes cannot read where it is.
    pub placing: PlacingOptions,
    /// The processes that the farm starts itself.
    pub launcher: Option<LauncherOptions>,
}

/// Error when setting up a farm.
#[derive(Debug, thiserror::Error)]
pub enum FarmError {
    /// Its door.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// Processors of other hosts.
    #[error("processors cannot join over the network: {0}")]
    Listen(#[from] ListenError),
    /// Its memory.
    #[error("there is no memory to share with the farm's processes")]
    Memory(#[source] std::io::Error),
    /// A filter.
    #[error("the filter cannot be made: {0}")]
    Filter(FilterFailure),
    /// A thread.
    #[error("a worker cannot be started")]
    Thread(#[source] std::io::Error),
}

/// Report of a farm, for the summary of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FarmReport {
    /// Counters of its dispatcher.
    pub counts: FarmCounts,
    /// Times of its workers by place and life, including those of processes that died.
    pub workers: Vec<(Seat, WorkerTimes)>,
    /// Processes that were started again after their end.
    pub restarts: u64,
    /// Number of refused processors, at the Unix socket and over the network.
    pub callers_refused: u64,
    /// Counts of the filters of its threads, each for itself.
    pub filter: Vec<(&'static str, u64)>,
}
