//! Errors of a preprocessor in a separate process.

use sheaf_filter::FilterFailure;
use std::io;

/// Reason why a preprocessor in a separate process has no result.
#[derive(Debug, thiserror::Error)]
pub enum IsolatedError {
    /// The process cannot be started.
    #[error("cannot start its process: {0}")]
    Launch(io::Error),
    /// The process violates the format before it is ready, or ends.
    #[error("its process did not become ready: {0}")]
    NotReady(WorkerStreamError),
    /// The process cannot make its preprocessor.
    #[error(transparent)]
    Refused(#[from] FilterFailure),
    /// There is no process, and it is too early to start another.
    #[error("its process has ended, and another is started soon")]
    Pausing,
    /// The process was ended because it deviated.
    #[error("its process was ended: {0}")]
    Ended(WorkerStreamError),
}

/// Error of the stream between a readout unit and the process of a preprocessor.
#[derive(Debug, thiserror::Error)]
pub enum WorkerStreamError {
    /// The other side was silent for too long.
    #[error("it did not answer in time")]
    Late,
    /// The other side has closed the stream.
    #[error("it has died")]
    Died,
    /// Any other error of the operating system.
    #[error(transparent)]
    Io(io::Error),
    /// A message has no valid form.
    #[error("it sent an invalid answer: {status}, {bytes} bytes")]
    InvalidAnswer {
        /// Status of the answer.
        status: u32,
        /// Announced length of the answer.
        bytes: usize,
    },
    /// A request exceeds the largest fragment.
    #[error("a fragment of {fragment} bytes with room for {room}; at most {largest} are allowed")]
    FragmentTooLarge {
        /// Bytes of the fragment.
        fragment: usize,
        /// Bytes that the result may have.
        room: usize,
        /// Largest fragment and room.
        largest: usize,
    },
}

impl From<io::Error> for WorkerStreamError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                Self::Died
            }
            _ => Self::Io(error),
        }
    }
}
