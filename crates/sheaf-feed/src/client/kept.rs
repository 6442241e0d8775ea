//! Messages that a client keeps until their fragments are accepted.
//!
//! Over a network, a client keeps a copy of each message. Through shared memory the message stays where it was written: the ring
//! is not overwritten before its fragments are accepted, and is copied only when the connection ends or the ring must go on
//! without it.

use super::link::Link;
use bytes::Bytes;
use sheaf_shm::door::SentRecord;
use sheaf_wire::ByteCount;
use sheaf_wire::feed::renumber_fragments;
use std::collections::VecDeque;

/// A message of fragments.
#[derive(Clone, Debug)]
pub(super) struct KeptMessage {
    /// Sequence number of its first fragment.
    pub(super) first: u64,
    pub(super) fragments: u64,
    /// Their payload.
    pub(super) bytes: ByteCount,
}

#[derive(Clone, Debug)]
enum Content {
    /// In the ring of the connection.
    InRing(SentRecord),
    Copied(Bytes),
}

/// Messages of all sources of a client.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    sources: Vec<VecDeque<(KeptMessage, Content)>>,
    /// Source, number of the fragment behind the last, and record of the messages in the ring, in its order.
    in_ring: VecDeque<(usize, u64, SentRecord)>,
}

impl Kept {
    pub(super) fn new(sources: usize) -> Self {
        Self { sources: vec![VecDeque::new(); sources], in_ring: VecDeque::new() }
    }

    /// Keeps a copy of a message.
    pub(super) fn push(&mut self, source: usize, message: KeptMessage, content: Bytes) {
        self.sources[source].push_back((message, Content::Copied(content)));
    }

    /// Keeps a message in the ring of the connection.
    pub(super) fn push_in_ring(
        &mut self,
        source: usize,
        message: KeptMessage,
        record: SentRecord,
        link: &mut Link,
    ) {
        self.in_ring.push_back((source, message.first + message.fragments, record));
        self.sources[source].push_back((message, Content::InRing(record)));
        if self.in_ring.len() == 1 {
            link.keep_from(Some(record));
        }
    }

    /// Forgets messages of a source whose fragments are all among the first `accepted`.
    pub(super) fn forget(&mut self, source: usize, accepted: u64) {
        let messages = &mut self.sources[source];
        while messages.front().is_some_and(|(message, _)| message.first + message.fragments <= accepted) {
            messages.pop_front();
        }
    }

    /// Gives the ring back what is forgotten.
    pub(super) fn release(&mut self, link: &mut Link) {
        let before = self.in_ring.len();
        while let Some((source, end, _)) = self.in_ring.front()
            && self.sources[*source].front().is_none_or(|(message, _)| message.first >= *end)
        {
            self.in_ring.pop_front();
        }
        if self.in_ring.len() < before {
            link.keep_from(self.in_ring.front().map(|(.., record)| *record));
        }
    }

    /// Makes room in the ring: copies the oldest message there, if the readout unit has taken it. Returns whether it did.
    pub(super) fn make_room(&mut self, link: &mut Link) -> bool {
        let is_taken = self.in_ring.front().is_some_and(|(.., record)| link.is_taken(*record));
        if is_taken {
            self.copy_oldest(link);
            link.keep_from(self.in_ring.front().map(|(.., record)| *record));
        }
        is_taken
    }

    /// Copies all messages in the ring, whose connection has ended.
    pub(super) fn leave(&mut self, link: &Link) {
        while self.copy_oldest(link) {}
    }

    fn copy_oldest(&mut self, link: &Link) -> bool {
        let Some((source, end, record)) = self.in_ring.pop_front() else { return false };
        let messages = &mut self.sources[source];
        let place = messages.partition_point(|(message, _)| message.first + message.fragments < end);
        if let Some((_, content)) = messages.get_mut(place)
            && matches!(content, Content::InRing(of) if *of == record)
        {
            *content = Content::Copied(link.copy_of(record));
        }
        true
    }

    /// Returns the sequence number behind the last fragment of a source, or 0.
    pub(super) fn end(&self, source: usize) -> u64 {
        self.sources[source].back().map_or(0, |(message, _)| message.first + message.fragments)
    }

    /// Returns whether all messages of a source were sent, where `sent` fragments were.
    pub(super) fn is_sent(&self, source: usize, sent: u64) -> bool {
        self.end(source) <= sent
    }

    /// Returns the message of a source to send next, where `sent` fragments were.
    pub(super) fn unsent(&self, source: usize, sent: u64) -> Option<(&KeptMessage, &Bytes)> {
        if self.is_sent(source, sent) {
            return None;
        }
        self.sources[source].iter().find(|(message, _)| message.first >= sent).and_then(
            |(message, content)| {
                match content {
                    Content::Copied(content) => Some((message, content)),
                    // It was sent through this ring.
                    Content::InRing(_) => None,
                }
            },
        )
    }

    /// Numbers all fragments from 0 on, for a session of the readout unit that has received none. No message is in a ring then.
    pub(super) fn renumber(&mut self) {
        for messages in &mut self.sources {
            let mut next = 0;
            for (message, content) in messages {
                message.first = next;
                if let Content::Copied(content) = content {
                    let mut renumbered = content.to_vec();
                    renumber_fragments(&mut renumbered, next);
                    *content = renumbered.into();
                }
                next += message.fragments;
            }
        }
    }

    /// Forgets all: they belong to a run that has ended.
    pub(super) fn clear(&mut self) {
        self.sources.iter_mut().for_each(VecDeque::clear);
    }
}
