//! The trigger protocol: messages between the event manager and a *trigger supervisor*, the device or program of the
//! experiment that decides which triggers are taken.
//!
//! The supervisor sends triggers. The event manager sends *busy* before its queue is full, so that triggers that are still
//! in flight find room. `docs/reference/trigger-protocol.md` has the sequence of messages, for authors of supervisors
//! without this library.
//!
//! A message is a [`HeadBytes`] and a body.
//!
//! | kind | from | body |
//! |---|---|---|
//! | 1 hello | supervisor | [`HelloBytes`], name |
//! | 2 triggers | supervisor | n x [`TriggerBytes`], each followed by its payload |
//! | 3 end | supervisor | [`EndBytes`] |
//! | 4 totals | supervisor | [`TotalsBytes`], n x [`BusyTimeBytes`] |
//! | 5 answer | supervisor | [`AnswerBytes`] |
//! | 16 welcome | event manager | [`WelcomeBytes`] |
//! | 17 busy | event manager | [`BusyBytes`] |
//! | 18 progress | event manager | [`ProgressBytes`] |
//! | 19 phase | event manager | [`PhaseBytes`] |
//! | 20 refused | event manager | [`RefusedBytes`], text |
//! | 21 account | event manager | [`AccountBytes`], n x [`BusyTimeBytes`] |
//! | 22 challenge | event manager | [`ChallengeBytes`] |
//! | 23 proof | event manager | [`ProofBytes`] |
//!
//! Over TCP messages follow each other. Over UDP a datagram is a [`DatagramHeadBytes`] and any number of whole messages.

mod codec;
mod datagram;
pub mod layout;

pub use crate::key_proof::{AnswerBytes, ChallengeBytes, ProofBytes};
pub use crate::parts::HeadBytes;
pub use codec::declared_length;
pub use datagram::{DatagramHead, MAGIC, Message, read_datagram};
pub use layout::{
    AccountBytes, BusyBytes, BusyTimeBytes, DatagramHeadBytes, EndBytes, HelloBytes, PhaseBytes,
    ProgressBytes, RefusedBytes, TotalsBytes, TriggerBytes, WelcomeBytes,
};

use crate::codes::codes;
use crate::{EventId, Nanos, NodeId, RunNumber, Timestamp, TriggerType};
use std::collections::BTreeMap;

/// Version of the protocol. Each side refuses all others.
pub const VERSION: u32 = 2;

/// Bytes of a message before its body.
pub const HEAD_BYTES: usize = crate::parts::HEAD_BYTES;

/// Maximum number of triggers in a message.
pub const MAX_TRIGGERS: usize = 4096;

/// Maximum length of a supervisor's name in bytes. Longer names are truncated.
pub const MAX_NAME_BYTES: usize = 64;

/// Maximum length of a reason in bytes. Longer reasons are truncated.
pub const MAX_REASON_BYTES: usize = 1024;

/// Maximum number of busy times in a message, so that it fits into a datagram. Those with further reasons are left out.
pub const MAX_BUSY_TIMES: usize = 2000;

/// Maximum payload of a trigger in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 16;

/// Maximum length of a message.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Bytes of a datagram before its messages.
pub const DATAGRAM_HEAD_BYTES: usize = size_of::<DatagramHeadBytes>();

/// Maximum length of a datagram: the largest over UDP and IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// Maximum payload of a trigger over UDP in bytes.
pub const MAX_DATAGRAM_PAYLOAD_BYTES: usize = 1 << 15;

/// Bytes of a nonce, and of a proof.
pub const NONCE_BYTES: usize = 32;

const _: () = assert!(
    HEAD_BYTES + size_of::<AccountBytes>() + MAX_BUSY_TIMES * size_of::<BusyTimeBytes>() <= MAX_MESSAGE_BYTES
        && HEAD_BYTES + MAX_TRIGGERS * size_of::<TriggerBytes>() <= MAX_MESSAGE_BYTES
        && HEAD_BYTES + size_of::<TriggerBytes>() + MAX_PAYLOAD_BYTES <= MAX_MESSAGE_BYTES
        && DATAGRAM_HEAD_BYTES
            + HEAD_BYTES
            + size_of::<AccountBytes>()
            + MAX_BUSY_TIMES * size_of::<BusyTimeBytes>()
            <= MAX_DATAGRAM_BYTES
        && DATAGRAM_HEAD_BYTES + HEAD_BYTES + size_of::<TriggerBytes>() + MAX_DATAGRAM_PAYLOAD_BYTES
            <= MAX_DATAGRAM_BYTES
);

codes! {
    /// Kind of a message.
    Kind {
        /// Supervisor, first: its version and name.
        Hello = 1, "hello";
        /// Supervisor: triggers.
        Triggers = 2, "triggers";
        /// Supervisor: no more triggers in this run.
        End = 3, "end";
        /// Supervisor, last: its own account.
        Totals = 4, "totals";
        /// Supervisor, to a challenge: its nonce and its proof.
        Answer = 5, "answer";
        /// Event manager, first: the run, and the id of the next trigger.
        Welcome = 16, "welcome";
        /// Event manager: whether triggers must be held back.
        Busy = 17, "busy";
        /// Event manager: number of triggers received and accepted.
        Progress = 18, "progress";
        /// Event manager: the run has entered another phase.
        Phase = 19, "phase";
        /// Event manager, last: reason for which it closes the connection.
        Refused = 20, "refused";
        /// Event manager, after the end of triggers: its account.
        Account = 21, "account";
        /// Event manager, first, if the run has a key: its nonce.
        Challenge = 22, "challenge";
        /// Event manager, to a correct answer: its proof.
        Proof = 23, "proof";
    }
}

codes! {
    /// Phase of a run, as supervisors see it.
    Phase {
        /// The run has not started: triggers are not taken.
        Waiting = 0, "waiting";
        /// Triggers are taken.
        Running = 1, "running";
        /// The run ends: the supervisor stops and sends the end of triggers.
        Stopping = 2, "stopping";
        /// Triggers are no longer taken.
        Ended = 3, "ended";
    }
}

codes! {
    /// Reason for busy.
    BusyCause {
        /// No builder unit is connected.
        NoBuilder = 1, "no_builder";
        /// A readout unit has never connected.
        NoReadout = 2, "no_readout";
        /// Builder units have no credit left: building or filtering is slower than the triggers.
        BuilderCredit = 3, "builder_credit";
        /// Builder units have no credit left, and the output of at least one of them is behind.
        Output = 4, "output";
        /// Builder units have credit, and the event manager is behind.
        EventManager = 5, "event_manager";
        /// The memory of a readout unit is nearly full.
        ReadoutMemory = 6, "readout_memory";
        /// The run is paused.
        Paused = 7, "paused";
        /// Nodes that the run requires are missing.
        TooFewNodes = 8, "too_few_nodes";
    }
}

codes! {
    /// Reason for which the event manager closes a connection.
    Refusal {
        /// The supervisor uses another version of the protocol.
        OtherVersion = 1, "other_version";
        /// Another supervisor is connected.
        SupervisorTaken = 2, "supervisor_taken";
        /// The message is invalid, or not allowed at this moment.
        InvalidMessage = 3, "invalid_message";
        /// The run has ended.
        RunEnded = 4, "run_ended";
        /// Too many connections wait to introduce themselves.
        TooManyConnections = 5, "too_many_connections";
        /// The payload of a trigger is larger than the run takes.
        PayloadTooLarge = 6, "payload_too_large";
        /// The supervisor has not proven that it has the key of the run.
        WrongKey = 7, "wrong_key";
        /// The connection is not secured by a certificate for a trigger supervisor.
        WrongCertificate = 8, "wrong_certificate";
        /// Over UDP: the supervisor is not connected, or was silent for too long.
        NotConnected = 9, "not_connected";
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OtherVersion => "the supervisor uses another version of the trigger protocol; use the same release of sheaf",
            Self::SupervisorTaken => "another trigger supervisor is connected",
            Self::InvalidMessage => "the supervisor sent an invalid message",
            Self::RunEnded => "the run has ended",
            Self::TooManyConnections => "too many connections have not introduced themselves",
            Self::PayloadTooLarge => "the payload of a trigger is larger than the run takes",
            Self::WrongKey => {
                "the supervisor did not prove that it has the key of the run; give it a copy of `transport.key_file`"
            }
            Self::WrongCertificate => {
                "the connection is not secured by a certificate for one of `trigger.network.guest_names`"
            }
            Self::NotConnected => "the supervisor is not connected, or was silent for too long",
        })
    }
}

/// Returns the number of triggers that may be in flight when busy is raised. `latency` is the maximum time of a message from
/// one side to the other, and `max_rate_hz` the maximum rate of triggers.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number of triggers in flight is positive and far below 2^53"
)]
pub fn reserve(latency: Nanos, max_rate_hz: f64) -> u64 {
    (2.0 * latency.0 as f64 * 1e-9 * max_rate_hz).ceil() as u64 + 1
}

/// A trigger of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The event.
    pub id: EventId,
    /// Time of the trigger on the supervisor's clock. Zero if it has none.
    pub time: Timestamp,
    /// Type of the trigger.
    pub kind: TriggerType,
    /// Trigger bits, whose meaning the supervisor defines.
    pub bits: u64,
    /// Data of the supervisor for the event, at most [`MAX_PAYLOAD_BYTES`].
    pub payload: Vec<u8>,
}

impl Trigger {
    /// Returns the number of bytes of the trigger in a message.
    #[must_use]
    pub fn message_bytes(&self) -> usize {
        size_of::<TriggerBytes>() + self.payload.len()
    }
}

/// Reason of a busy time: the cause, and the node that causes it if it is only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BusyReason {
    /// The cause.
    pub cause: BusyCause,
    /// The node.
    pub culprit: Option<NodeId>,
}

/// Busy time of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyTime {
    /// Number of intervals.
    pub intervals: u64,
    /// Sum of their lengths, on the clock of the side that gives the account.
    pub time: Nanos,
    /// Number of triggers vetoed in them. Known only to the supervisor.
    pub vetoed: u64,
}

/// Busy times by reason.
pub type BusyTimes = BTreeMap<BusyReason, BusyTime>;

/// Account of a supervisor. `offered` is the sum of `sent`, `own_vetoed` and the vetoed triggers of the busy times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Triggers that happened.
    pub offered: u64,
    /// Triggers that were sent.
    pub sent: u64,
    /// Triggers that the supervisor's own dead-time rules vetoed.
    pub own_vetoed: u64,
    /// Busy times.
    pub busy: BusyTimes,
}

/// Account of the event manager for one connection: `received` is the sum of the other numbers of triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedTriggers {
    /// Triggers received.
    pub received: u64,
    /// Triggers that became events.
    pub accepted: u64,
    /// Triggers for which there was no room.
    pub lost: u64,
    /// Triggers whose id was received before.
    pub repeated: u64,
    /// Triggers with an id below one received before that was not received itself.
    pub out_of_order: u64,
    /// Triggers that came before the start or after the end of the run.
    pub outside: u64,
    /// Busy times.
    pub busy: BusyTimes,
}

impl ReceivedTriggers {
    /// Returns whether each received trigger is in exactly one bin.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let Self { received, accepted, lost, repeated, out_of_order, outside, .. } = self;
        *received == accepted + lost + repeated + out_of_order + outside
    }
}

/// State of the busy signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Number of this message in the connection, from 1 on.
    pub sequence: u64,
    /// Reason to hold triggers back. `None` if they are taken.
    pub reason: Option<BusyReason>,
    /// When the room in a buffer passed the watermark, on the event manager's clock. Zero if unknown.
    pub at: Timestamp,
}

/// Message of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromSupervisor {
    /// Name of the supervisor.
    Hello {
        /// The name.
        name: String,
    },
    /// Triggers, in the order in which they happened.
    Triggers(Vec<Trigger>),
    /// No more triggers in this run.
    End {
        /// Number of triggers that were sent over this connection.
        sent: u64,
    },
    /// The supervisor's account.
    Totals(Totals),
    /// The answer to a challenge.
    Answer {
        /// The supervisor's nonce.
        nonce: [u8; NONCE_BYTES],
        /// Its proof that it has the key of the run.
        proof: [u8; NONCE_BYTES],
    },
}

/// Message of the event manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromManager {
    /// The run.
    Welcome {
        /// Number of the run.
        run: RunNumber,
        /// Phase of the run.
        phase: Phase,
        /// Id of the next trigger.
        next: EventId,
        /// Maximum payload of a trigger in bytes. Zero: the run takes no payload.
        max_payload: u32,
    },
    /// State of the busy signal.
    Busy(Busy),
    /// Number of triggers of this connection.
    Progress {
        /// Number of triggers received.
        received: u64,
        /// Number of triggers that became events.
        accepted: u64,
    },
    /// The run has entered this phase.
    Phase(Phase),
    /// The event manager closes the connection.
    Refused {
        /// Reason.
        refusal: Refusal,
        /// Reason as a text.
        text: String,
    },
    /// The event manager's account.
    Account(ReceivedTriggers),
    /// The event manager's nonce.
    Challenge([u8; NONCE_BYTES]),
    /// The event manager's proof that it has the key of the run.
    Proof([u8; NONCE_BYTES]),
}

#[doc(hidden)]
pub mod fuzz;

#[cfg(test)]
mod tests;
