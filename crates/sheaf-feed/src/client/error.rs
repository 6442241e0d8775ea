//! Reasons why a client cannot go on.

use crate::environment::EnvironmentError;
use sheaf_key::KeyError;
use sheaf_protocol::feed::ClientError;
use sheaf_shm::door::VisitError;
use sheaf_tcp::{GuestError, TlsError};
use sheaf_wire::feed::Refusal;
use sheaf_wire::run_record::{MAX_RECORD_NAME_BYTES, RecordAnswer, RecordKind};
use sheaf_wire::{ByteCount, RunNumber, SourceId};
use std::time::Duration;

/// Longest time that a client waits for a source that another client feeds: the readout unit of a busy machine learns late that the
/// process before this one has died.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Reason why a client cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The readout unit has accepted the connection and does not answer.
    #[error("the readout unit does not answer; is its process stopped?")]
    NoAnswer,
    /// The connection ended.
    #[error("the readout unit has closed the connection")]
    Closed,
    /// The readout unit refused the client.
    #[error("the readout unit has refused this program{}: {text}", about(*.of))]
    Refused {
        /// Reason.
        refusal: Refusal,
        /// The source in question.
        of: Option<SourceId>,
        /// The reason for people.
        text: String,
    },
    /// The run has ended: nothing more is accepted.
    #[error("run {0} has ended")]
    RunEnded(RunNumber),
    /// The fragment is larger than the configuration of the run allows.
    #[error(
        "a fragment of {length} is larger than the run allows ({most}); raise `readout.max_fragment_bytes`"
    )]
    TooLarge {
        /// Its size.
        length: ByteCount,
        /// The limit.
        most: ByteCount,
    },
    /// A fragment was committed, and no room was reserved for it.
    #[error("no room is reserved for this fragment")]
    NothingReserved,
    /// A fragment was committed that is longer than the room that was reserved for it.
    #[error("a fragment of {length} bytes was committed, and {reserved} bytes are reserved for it")]
    BeyondReserved {
        /// Its size in bytes.
        length: usize,
        /// The reserved room in bytes.
        reserved: usize,
    },
    /// The run has not taken a run record.
    #[error("a run record of source {of} was refused: {answer}")]
    NotRecorded {
        /// The source.
        of: SourceId,
        /// Reason.
        answer: RecordAnswer,
    },
    /// Programs send no run records of this kind.
    #[error("a program cannot send run records of the kind `{}`", .0.name())]
    RecordKind(RecordKind),
    /// The run record is too large.
    #[error("a run record of {length} is larger than this connection carries ({most}); divide it")]
    RecordTooLarge {
        /// Size of its content.
        length: ByteCount,
        /// The limit.
        most: ByteCount,
    },
    /// The name of a run record is too long.
    #[error("the name of a run record has {length} bytes; at most {MAX_RECORD_NAME_BYTES} are allowed")]
    RecordName {
        /// Its length in bytes.
        length: usize,
    },
    /// The source has ended in this run.
    #[error("source {0} has ended in this run")]
    SourceEnded(SourceId),
    /// The readout unit violates the protocol.
    #[error(transparent)]
    Protocol(#[from] ClientError),
    /// A message of the readout unit is invalid.
    #[error("the readout unit sent an invalid message: {0}")]
    Message(#[from] sheaf_wire::message::DecodeError),
    /// The socket on this host.
    #[error(transparent)]
    Link(#[from] VisitError),
    /// The link over the network.
    #[error(transparent)]
    Network(#[from] GuestError),
    /// The readout unit is neither on this host nor at its address in the network.
    #[error("{socket}; over the network: {network}")]
    Nowhere {
        /// Result at the socket.
        socket: VisitError,
        /// Result over the network.
        network: GuestError,
    },
    /// Its own certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The key of the run.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No run has started this program.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

impl FeedError {
    /// Returns whether the readout unit is absent and may come: the call can be repeated.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Closed
                | Self::Link(VisitError::NobodyThere { .. } | VisitError::Closed)
                | Self::Network(GuestError::NobodyThere { .. })
                | Self::Nowhere { .. }
        )
    }

    /// Returns the time for which a call that failed so is worth repeating, with this patience: none if the error is final.
    ///
    /// A source that another client feeds is worth a minute at most. The readout unit of a busy machine may not have noticed yet
    /// that the process before this one has died, or that its own connection has ended.
    #[must_use]
    pub fn worth_repeating(&self, patience: Duration) -> Duration {
        match self {
            Self::Refused { refusal: Refusal::SourceTaken, .. } => patience.min(TAKEN_TIMEOUT),
            error if error.is_absence() => patience,
            _ => Duration::ZERO,
        }
    }
}

fn about(source: Option<SourceId>) -> String {
    source.map_or_else(String::new, |source| format!(" for source {source}"))
}
