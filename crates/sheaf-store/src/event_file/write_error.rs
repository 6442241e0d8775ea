//! Reasons why events are not written.

use sheaf_wire::event_file::FileFormatError;
use std::io;
use std::path::PathBuf;

/// Reason why an event was not accepted or accepted events were not written. The file ends with its last whole event,
/// and the call can be repeated: nothing is written twice.
#[derive(Debug, thiserror::Error)]
pub enum EventWriteError {
    /// The directory of the files could not be made.
    #[error("cannot create directory {path}: {error}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The next file could not be made.
    #[error("cannot create event file {path}: {error}")]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Writing failed.
    #[error("cannot write event file {path} after byte {offset}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// End of its last whole event.
        offset: u64,
        /// The error of the operating system; [`io::ErrorKind::StorageFull`] for a full disk.
        #[source]
        error: io::Error,
    },
    /// Making the file durable failed: data written since the last success may be lost if the machine dies. The next
    /// attempt reads these data back and writes them again. It succeeds only if they are unchanged.
    #[error("cannot make event file {path} durable: {error}")]
    Sync {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The metadata or an event do not fit the format.
    #[error("event file {path} cannot hold this: {error}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The value that does not fit.
        #[source]
        error: FileFormatError,
    },
    /// A file was closed and the list of closed files could not be written.
    #[error("cannot write {path}, the list of closed files: {error}")]
    List {
        /// The list.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The writer is finished.
    #[error("the writer of event file {path} is finished and accepts no more events")]
    Finished {
        /// The last file.
        path: PathBuf,
    },
}
