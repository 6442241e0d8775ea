//! Messages that a client keeps until their fragments are accepted.

use bytes::Bytes;
use sheaf_wire::ByteCount;
use sheaf_wire::feed::renumber_fragments;
use std::collections::VecDeque;

/// A message of fragments.
#[derive(Clone, Debug)]
pub(super) struct KeptMessage {
    /// Sequence number of its first fragment.
    first: u64,
    pub(super) fragments: u64,
    /// Their payload.
    pub(super) bytes: ByteCount,
    pub(super) content: Bytes,
}

/// Messages of one source, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    messages: VecDeque<KeptMessage>,
}

impl Kept {
    pub(super) fn push(&mut self, first: u64, fragments: u64, bytes: ByteCount, content: Bytes) {
        self.messages.push_back(KeptMessage { first, fragments, bytes, content });
    }

    /// Forgets messages whose fragments are all among the first `accepted`.
    pub(super) fn forget(&mut self, accepted: u64) {
        while self.messages.front().is_some_and(|message| message.first + message.fragments <= accepted) {
            self.messages.pop_front();
        }
    }

    /// Returns the sequence number behind the last fragment, or 0.
    pub(super) fn end(&self) -> u64 {
        self.messages.back().map_or(0, |message| message.first + message.fragments)
    }

    /// Returns whether all messages were sent, where `sent` fragments were.
    pub(super) fn is_sent(&self, sent: u64) -> bool {
        self.end() <= sent
    }

    /// Returns the message to send next, where `sent` fragments were.
    pub(super) fn unsent(&self, sent: u64) -> Option<&KeptMessage> {
        self.messages.iter().find(|message| message.first >= sent)
    }

    /// Numbers all fragments from 0 on, for a session of the readout unit that has received none.
    pub(super) fn renumber(&mut self) {
        let mut next = 0;
        for message in &mut self.messages {
            message.first = next;
            let mut content = message.content.to_vec();
            renumber_fragments(&mut content, next);
            message.content = content.into();
            next += message.fragments;
        }
    }

    /// Forgets all: they belong to a run that has ended.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }
}
