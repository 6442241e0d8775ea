//! Evidence that a trigger supervisor shows, and how it connects.

use sheaf_key::{DoorProof, DoorPurposes, NoRandomness, RunKey};
use sheaf_protocol::trigger_link::ReceiverConfig;
use sheaf_protocol::trigger_link::datagram::DoorKey;
use sheaf_tcp::Tls;
use sheaf_wire::trigger_link::NONCE_BYTES;
use sheaf_wire::{Nanos, RunNumber, TimeBase};

/// Protocol below the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTransport {
    /// A connection over TCP.
    Tcp,
    /// Datagrams over UDP. A supervisor that is silent for this time counts as gone.
    Udp {
        /// The time.
        silence: Nanos,
    },
}

/// Evidence that a supervisor must show.
#[derive(Clone, Debug, Default)]
pub struct TriggerAccess {
    /// The key of the run, if it has one.
    pub key: Option<RunKey>,
    /// TLS configuration, if supervisors need a certificate.
    pub tls: Option<Tls>,
    /// For which of these names the certificate must be.
    pub names: Vec<String>,
}

/// Options of a door for a trigger supervisor.
#[derive(Clone, Debug)]
pub struct TriggerDoorOptions {
    /// Address at which it listens.
    pub listen: String,
    /// Protocol at this address.
    pub transport: TriggerTransport,
    /// Evidence that a supervisor must show.
    pub access: TriggerAccess,
    /// The run.
    pub run: RunNumber,
    /// Bounds and first id.
    pub receiver: ReceiverConfig,
    /// Unit and epoch of the times of triggers. A trigger without a time gets that of the system in this unit.
    pub time_base: TimeBase,
}

/// The key of a run at a door for datagrams. Its nonce is used up by the caller that answers it correctly, so that the answer proves
/// nothing again; until then all callers get the same one, and nothing is remembered of them.
#[derive(Debug)]
pub(super) struct MeetingKey {
    key: RunKey,
    door: DoorProof,
}

impl MeetingKey {
    pub(super) fn new(key: RunKey) -> Result<Self, NoRandomness> {
        Ok(Self { door: DoorProof::new(key.clone(), DoorPurposes::TRIGGERS)?, key })
    }
}

impl DoorKey for MeetingKey {
    fn challenge(&self) -> [u8; NONCE_BYTES] {
        self.door.challenge()
    }

    fn verify(&mut self, nonce: &[u8; NONCE_BYTES], proof: &[u8; NONCE_BYTES]) -> Option<[u8; NONCE_BYTES]> {
        let own = self.door.verify(nonce, proof)?;
        // Without a new nonce the answer would be valid again: then nobody is welcome.
        self.door = DoorProof::new(self.key.clone(), DoorPurposes::TRIGGERS).ok()?;
        Some(own)
    }
}
