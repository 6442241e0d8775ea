//! The supervisor's side of the trigger protocol over datagrams: between the messages of a [`Supervisor`] and datagrams.

use super::{Datagram, End, Novelty};
use crate::trigger_link::Supervisor;
use sheaf_wire::trigger_link::{FromManager, FromSupervisor, NONCE_BYTES};
use sheaf_wire::{Nanos, Timestamp};

/// Time after which a supervisor that hears nothing gives no triggers, because it may have missed busy. The event manager sends a head
/// every 50 ms.
const DEAF: Nanos = Nanos::from_millis(250);

/// See the [module](super) and the contract in the [crate documentation](crate). It has no events: the messages that arrive are returned.
#[derive(Debug)]
pub struct DatagramCaller {
    end: End<FromSupervisor>,
    name: String,
    answer: Option<([u8; NONCE_BYTES], [u8; NONCE_BYTES])>,
    heard_at: Timestamp,
    is_welcome: bool,
}

impl DatagramCaller {
    /// Creates the end of a connection. `link` is not zero, another one for each life of the supervisor, and cannot be guessed if the run
    /// has a key. `name` is that of the supervisor.
    #[must_use]
    pub fn new(now: Timestamp, link: u64, name: &str) -> Self {
        Self {
            end: End::new(link, 0, 0),
            name: name.to_owned(),
            answer: None,
            heard_at: now,
            is_welcome: false,
        }
    }

    /// Answers a challenge: the hello is repeated with a proof of the key.
    pub fn answer(&mut self, nonce: [u8; NONCE_BYTES], proof: [u8; NONCE_BYTES]) {
        self.answer = Some((nonce, proof));
    }

    /// Returns when the event manager was last heard, at first when the connection began.
    #[must_use]
    pub fn heard_at(&self) -> Timestamp {
        self.heard_at
    }

    /// Returns whether nothing has arrived for so long that busy may have been missed.
    #[must_use]
    pub fn is_deaf(&self, now: Timestamp) -> bool {
        now.since(self.heard_at) >= DEAF
    }

    /// Returns whether everything was acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.end.kept.is_none() && self.answer.is_none()
    }

    /// Takes a datagram. Returns the messages to handle, in order.
    pub fn handle_input(&mut self, now: Timestamp, datagram: Datagram<FromManager>) -> Vec<FromManager> {
        let Datagram { head, messages } = datagram;
        if head.link != self.end.link {
            return Vec::new();
        }
        self.heard_at = now;
        self.end.owes_acknowledgement = true;
        match self.end.receive(&head, !messages.is_empty()) {
            Novelty::New => {
                let is_welcome = |message: &FromManager| matches!(message, FromManager::Welcome { .. });
                self.is_welcome |= messages.iter().any(is_welcome);
                messages
            }
            // Overtaken by a state that replaces it.
            Novelty::Overtaken | Novelty::Empty | Novelty::Repeated => Vec::new(),
        }
    }

    /// Returns the next datagram.
    pub fn poll_transmit(
        &mut self,
        now: Timestamp,
        supervisor: &mut Supervisor,
    ) -> Option<Datagram<FromSupervisor>> {
        if let Some(repeated) = self.end.repeat(now) {
            return Some(repeated);
        }
        if self.end.kept.is_none() {
            let mut messages = Vec::new();
            if let Some((nonce, proof)) = self.answer.take() {
                messages.push(FromSupervisor::Answer { nonce, proof });
                messages.push(FromSupervisor::Hello { name: self.name.clone() });
            } else {
                messages.extend(supervisor.poll_transmit());
            }
            if !messages.is_empty() {
                return Some(self.end.send(now, messages));
            }
        }
        // Before the welcome there is no connection, and messages are acknowledged by the answer to them.
        let is_due = self.end.owes_acknowledgement && self.is_welcome;
        is_due.then(|| self.end.acknowledge(now))
    }

    /// Returns when [`Self::poll_transmit`] must be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.end.repeat_at()
    }
}
