//! Fragments that a program writes where they are sent from. Through shared memory, that is the ring itself: the client copies no
//! payload.

use super::{FeedError, KeptMessage, LOOK, SourceClient};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::feed::{FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, FragmentHead, FragmentsHead};
use sheaf_wire::{ByteCount, EventId, Timestamp};

/// Length of a message of several fragments, where the run and the ring have that much room. A message holds at least one fragment, whatever its
/// size.
const MESSAGE_BYTES: usize = 256 << 10;

/// A message that is being written.
#[derive(Debug)]
pub(super) struct Draft {
    source: usize,
    /// Number of fragments that were committed.
    fragments: u32,
    /// Bytes so far: the head of the message, and committed fragments with their heads.
    length: usize,
    /// Longest message for which there is room.
    room: usize,
    /// Payload bytes that are reserved behind the committed fragments.
    reserved: Option<usize>,
}

impl Draft {
    fn payload(&self) -> ByteCount {
        ByteCount((self.length - FRAGMENTS_HEAD_BYTES - self.fragments as usize * FRAGMENT_HEAD_BYTES) as u64)
    }

    /// Returns whether it has committed fragments that were not sent.
    pub(super) fn has_fragments(&self) -> bool {
        self.fragments > 0
    }
}

impl SourceClient {
    /// Reserves `bytes` for the payload of a fragment of the source with this index, and waits while there is no room. The payload is
    /// written there and [committed](Self::commit). On the same host this memory is shared with the readout unit, and the payload is
    /// not copied by the client; it has no alignment, and undefined content.
    ///
    /// A client has one reservation at a time. Any other call but [`Self::commit`] and [`Self::commit_more`] gives it up.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn reserve(&mut self, source: usize, bytes: usize) -> Result<&mut [u8], FeedError> {
        while !self.make_room(source, bytes)? {
            self.wait(LOOK)?;
        }
        Ok(self.reserved())
    }

    /// Reserves room as [`Self::reserve`], or returns `None` if there is none.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn try_reserve(&mut self, source: usize, bytes: usize) -> Result<Option<&mut [u8]>, FeedError> {
        Ok(if self.make_room(source, bytes)? { Some(self.reserved()) } else { None })
    }

    /// Sends a fragment whose payload is the first `bytes` of the reserved room, together with those that wait for it.
    ///
    /// # Errors
    /// If nothing, or less, is reserved. The reservation then stays as it is.
    pub fn commit(&mut self, event: EventId, time: Timestamp, bytes: usize) -> Result<(), FeedError> {
        self.commit_more(event, time, bytes)?;
        self.send_draft();
        Ok(())
    }

    /// Commits a fragment as [`Self::commit`], and lets it wait for the next ones, which are sent in the same message. The message is
    /// sent when it is full, and by any call but this one and a reservation for the same source.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_more(&mut self, event: EventId, time: Timestamp, bytes: usize) -> Result<(), FeedError> {
        let draft = self.draft.as_ref().and_then(|draft| Some((draft.length, draft.reserved?)));
        let Some((at, reserved)) = draft else { return Err(FeedError::NothingReserved) };
        if bytes > reserved {
            return Err(FeedError::BeyondReserved { length: bytes, reserved });
        }
        let checksum = self.options.checksum;
        let (head, payload) =
            self.draft_bytes(at, FRAGMENT_HEAD_BYTES + bytes).split_at_mut(FRAGMENT_HEAD_BYTES);
        let checksum = checksum.then(|| crc32c(payload));
        // A fragment is at most as long as its field allows.
        head.copy_from_slice(&FragmentHead { event, time, length: bytes as u32, checksum }.emit());
        if let Some(draft) = &mut self.draft {
            (draft.reserved, draft.fragments) = (None, draft.fragments + 1);
            draft.length += FRAGMENT_HEAD_BYTES + bytes;
        }
        Ok(())
    }

    /// Reserves room in the message that is being written, else in a new one. Returns `false` if there is none now.
    fn make_room(&mut self, source: usize, bytes: usize) -> Result<bool, FeedError> {
        if !self.draft_has_room(source, bytes) {
            // This sends the message so far.
            self.exchange()?;
            self.check(source, bytes)?;
            if !self.kept.is_sent(source, self.machine.sent(source).0) || !self.begin_draft(source, bytes) {
                return Ok(false);
            }
        }
        if let Some(draft) = &mut self.draft {
            draft.reserved = Some(bytes);
            if !self.link.as_ref().is_some_and(super::Link::is_shared) {
                self.message.resize(draft.length + FRAGMENT_HEAD_BYTES + bytes, 0);
            }
        }
        Ok(true)
    }

    fn draft_has_room(&self, source: usize, bytes: usize) -> bool {
        let credit = self.machine.credit(source);
        self.draft.as_ref().is_some_and(|draft| {
            draft.source == source
                && draft.length + FRAGMENT_HEAD_BYTES + bytes <= draft.room
                && u64::from(draft.fragments) < credit.fragments
                && draft.payload().0 + bytes as u64 <= credit.bytes.0
        })
    }

    /// Begins a message with room for one fragment at least. Returns `false` if there is none now.
    fn begin_draft(&mut self, source: usize, bytes: usize) -> bool {
        let (credit, longest) = (self.machine.credit(source), self.longest_message());
        let least = FRAGMENTS_HEAD_BYTES + FRAGMENT_HEAD_BYTES + bytes;
        let Some(link) = &mut self.link else { return false };
        if least > longest || credit.fragments == 0 || credit.bytes.0 < bytes as u64 {
            return false;
        }
        let wanted = least.max(MESSAGE_BYTES.min(longest));
        let room = loop {
            let fits = |room: &usize| !link.is_shared() || link.begin(*room);
            match [wanted, least].into_iter().find(fits) {
                Some(room) => break room,
                None if self.kept.make_room(link) => {}
                None => return false,
            }
        };
        let length = FRAGMENTS_HEAD_BYTES;
        self.draft = Some(Draft { source, fragments: 0, length, room, reserved: None });
        true
    }

    /// Returns the reserved room.
    fn reserved(&mut self) -> &mut [u8] {
        let draft = self.draft.as_ref();
        let (at, bytes) = draft.map_or((0, 0), |draft| (draft.length, draft.reserved.unwrap_or(0)));
        &mut self.draft_bytes(at, FRAGMENT_HEAD_BYTES + bytes)[FRAGMENT_HEAD_BYTES..]
    }

    /// Returns bytes of the message that is being written.
    fn draft_bytes(&mut self, at: usize, length: usize) -> &mut [u8] {
        let end = at + length;
        match &mut self.link {
            Some(link) if link.is_shared() => &mut link.content(end)[at..],
            _ => &mut self.message[at..end],
        }
    }

    /// Sends the message that is being written, if it has fragments, and gives up what is reserved.
    pub(super) fn send_draft(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        if !draft.has_fragments() {
            self.message.clear();
            return;
        }
        let (first, id) = (self.machine.sent(draft.source).0, self.machine.sources()[draft.source]);
        let head = FragmentsHead { source: id, count: draft.fragments, first };
        // A message is at most as long as its field allows.
        let head = head.emit(draft.length as u32);
        self.draft_bytes(0, FRAGMENTS_HEAD_BYTES).copy_from_slice(&head);
        let (fragments, bytes) = (u64::from(draft.fragments), draft.payload());
        let about = KeptMessage { first, fragments, bytes };
        let Some(link) = &mut self.link else { return };
        if link.is_shared() {
            let record = link.finish(draft.length);
            if self.options.keep {
                self.kept.push_in_ring(draft.source, about, record, link);
            }
        } else {
            self.message.truncate(draft.length);
            let message = self.message.split().freeze();
            let sent = link.send(&message);
            if self.options.keep || !sent {
                self.kept.push(draft.source, about, message);
            }
            if !sent {
                // It is sent as soon as there is room, before any other fragment of the source.
                return;
            }
        }
        self.machine.handle_sent(draft.source, fragments, bytes);
    }
}

impl Drop for SourceClient {
    fn drop(&mut self) {
        self.send_draft();
    }
}
