//! The stream of inputs from the active replica to the other one.

use super::joining::Invitation;
use crate::channel::{Channel, ChannelTimes};
use sheaf_wire::message::{Body, Input};
use sheaf_wire::{Nanos, NodeId, Payload, SessionId, Timestamp};

/// Number of messages with inputs that may be on their way. Further inputs wait for one larger message.
const MESSAGES_ON_THE_WAY: usize = 4;

/// Number of inputs that are sent at once, even if as many messages are on their way.
const INPUTS_AT_ONCE: usize = 1_024;

/// Maximum number of inputs that wait for a replica while it is sent a snapshot.
const MOST_INPUTS: usize = 1 << 20;

/// See the [module documentation](self). A standby has it for its channel alone.
#[derive(Debug)]
pub(super) struct InputStream<P> {
    pub(super) channel: Channel<P>,
    /// Session of the replica to which the inputs go.
    pub(super) partner: Option<SessionId>,
    /// The snapshot that comes first, for a replica that joins.
    invitation: Option<Invitation>,
    /// Inputs that were not sent yet.
    batch: Vec<Input<P>>,
    /// Number of messages with inputs that were given to the channel.
    pushed: u64,
}

impl<P: Payload> InputStream<P> {
    pub(super) fn new(other: NodeId, times: ChannelTimes) -> Self {
        let channel = Channel::new(other, times);
        Self { channel, partner: None, invitation: None, batch: Vec::new(), pushed: 0 }
    }

    /// Adds an input.
    pub(super) fn push(&mut self, input: Input<P>) {
        self.batch.push(input);
    }

    /// Sends what may be sent: pieces of the snapshot first. If enough messages are on their way, inputs wait, and then go in one.
    pub(super) fn send(&mut self, manager: Option<SessionId>) {
        if self.partner.is_none() || self.partner != self.channel.peer_session() {
            return;
        }
        if let (Some(invitation), Some(manager)) = (&mut self.invitation, manager) {
            while self.channel.unsettled().count() < MESSAGES_ON_THE_WAY
                && let Some(piece) = invitation.next_piece(manager, self.pushed + 1)
            {
                self.channel.push(Body::Inputs(vec![piece]));
                self.pushed += 1;
            }
            if invitation.has_pieces() {
                return;
            }
        }
        let on_the_way = self.channel.unsettled().count();
        let is_due = on_the_way < MESSAGES_ON_THE_WAY || self.batch.len() >= INPUTS_AT_ONCE;
        if !self.batch.is_empty() && is_due && self.channel.is_open() {
            self.channel.push(Body::Inputs(std::mem::take(&mut self.batch)));
            self.pushed += 1;
        }
    }

    /// Returns the number of messages with inputs that the other replica has.
    pub(super) fn acknowledged(&self) -> u64 {
        self.pushed - self.channel.unsettled().count() as u64
    }

    /// Returns the number of such messages with which it has all inputs so far.
    pub(super) fn needed(&self) -> u64 {
        self.pushed + u64::from(!self.batch.is_empty())
    }

    /// Returns whether more inputs wait than may wait.
    pub(super) fn is_overfull(&self) -> bool {
        self.batch.len() >= MOST_INPUTS
    }

    /// Begins anew with another session of the other replica, and a snapshot.
    pub(super) fn invite(&mut self, now: Timestamp, session: SessionId) {
        self.stop();
        self.partner = Some(session);
        self.invitation = Some(Invitation::new(now, self.acknowledged()));
    }

    /// Returns the invitation, until the other replica has the whole snapshot.
    pub(super) fn invitation(&mut self) -> Option<&mut Invitation> {
        self.invitation.as_mut()
    }

    /// Returns whether the snapshot is still to be made.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.invitation.as_ref().is_some_and(Invitation::wants_snapshot)
    }

    /// Returns when the replica that joins has been without progress for too long.
    pub(super) fn late_at(&self, lag: Nanos) -> Option<Timestamp> {
        self.invitation.as_ref().map(|invitation| invitation.late_at(lag))
    }

    /// Takes note of the messages that the other replica has. Returns whether it has just got the whole snapshot.
    pub(super) fn completes_invitation(&mut self, now: Timestamp) -> bool {
        let acknowledged = self.acknowledged();
        let invitation = self.invitation.as_mut();
        let is_complete = invitation.is_some_and(|invitation| invitation.note_progress(now, acknowledged));
        if is_complete {
            self.invitation = None;
        }
        is_complete
    }

    /// Ends the stream. Returns the latest session of the other replica: what it was sent is void.
    pub(super) fn stop(&mut self) -> Option<SessionId> {
        let latest = self.partner.take().max(self.channel.peer_session());
        self.invitation = None;
        self.batch = Vec::new();
        self.channel.reset();
        latest
    }
}
