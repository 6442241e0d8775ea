//! Run directories: the event files of all sessions of builders, or of output nodes, of a run, and the manifest `run.json`.
//!
//! A builder may die after it wrote events that it had not reported. The event manager assigns these to other builders,
//! and knows the number of each session's events that count: the first `committed`, by their sequence numbers. So each
//! event of a run is stored exactly once, even after crashes: [`seal_session`] truncates a session's files there, and
//! [`RunReader`] stops there if they are not sealed. The files of an output node hold events of several builders, so
//! that events that do not count may lie between those that do: the manifest lists them, and [`RunReader`] skips them.

mod directory;
mod error;
mod lists;
mod lock;
mod manifest;
mod open_file;
mod reader;
mod seal;

pub use crate::kind::MANIFEST_NAME;
pub use directory::{newest_of, runs_in};
pub use error::RunReadError;
#[cfg(feature = "hdf5")]
pub(crate) use lists::session_files;
pub use lists::{FileList, ListError, closed_files, list_name, remove_list};
pub(crate) use lists::{checksum_of, read_lists};
pub use lock::{Holder, LOCK_NAME, RunLock};
pub use manifest::{
    CodeRecord, CommandRecord, ConfigurationOrigin, EndRecord, HistogramsRecord, HookRecord, HostRecord,
    MANIFEST_VERSION, Manifest, ManifestError, SequenceRecord, SessionRecord, ValueRecord,
};
pub(crate) use open_file::{OpenFile, is_hdf5};
pub use reader::{RunCounts, RunReader};
pub(crate) use reader::{RunFile, RunPlan};
pub use seal::{SealError, SealReport, seal_session};

#[cfg(test)]
mod tests;
