//! Messages: sent, received, and the credit for them.

use super::endpoint::LibfabricEndpoint;
use super::incoming::{Message, Next, Violation};
use super::link::{Link, Peer, Ready, Remote, Stuck};
use super::memory::Buffer;
use super::port::Done;
use super::settings::RESERVE;
use super::wire::{HEADER_BYTES, Header, Kind};
use bytes::Bytes;
use sheaf_transport::DownReason;
use std::collections::VecDeque;

/// Maximum size of a message that is copied out of its buffer, so that a small frame that is kept does not hold a large
/// buffer.
const COPY_BYTES: usize = 1024;

/// Maximum number of reads of the completion queue in one round.
const READS_PER_ROUND: usize = 8;

impl LibfabricEndpoint {
    /// Handles the operations that the provider has completed, a bounded number, and posts buffers again.
    pub(super) fn advance(&mut self) {
        for _ in 0..READS_PER_ROUND {
            let mut finished = std::mem::take(&mut self.finished);
            // An error of the queue itself is one of no operation. Links end by their own errors, or with the TCP side.
            let _ = self.port.done(&mut finished);
            let full = finished.len();
            for done in finished.drain(..) {
                match done {
                    Done::Received { buffer, bytes } => self.received(buffer, bytes),
                    Done::NotReceived { buffer } => self.repost(buffer),
                    Done::Sent { buffer, result } => self.sent(buffer, result.is_ok()),
                }
            }
            self.finished = finished;
            if full == 0 {
                break;
            }
        }
        self.post();
    }

    /// Returns a receive buffer without a peer to the provider.
    fn repost(&mut self, buffer: Buffer) {
        if let Err((buffer, _)) = self.port.receive(buffer) {
            self.free.push(buffer);
            self.spare_unposted += 1;
        }
    }

    /// Posts receives, as far as there are buffers, and grants credit for them.
    pub(super) fn post(&mut self) {
        self.memory.collect(&mut self.free);
        while self.spare_unposted > 0 {
            if !self.post_one() {
                return;
            }
            self.spare_unposted -= 1;
        }
        for place in 0..self.peers.len() {
            while self.peers[place].unposted > 0 {
                if !self.post_one() {
                    self.stats.memory_exhausted += u64::from(self.free.is_empty());
                    return;
                }
                let peer = &mut self.peers[place];
                peer.unposted -= 1;
                peer.link.iter_mut().for_each(|link| link.granted += 1);
            }
        }
    }

    fn post_one(&mut self) -> bool {
        let Some(buffer) = self.free.pop() else { return false };
        match self.port.receive(buffer) {
            Ok(()) => true,
            Err((buffer, _)) => {
                self.free.push(buffer);
                false
            }
        }
    }

    /// A message was sent, or could not be.
    fn sent(&mut self, buffer: Buffer, ok: bool) {
        let sender = self.senders[buffer.place()].take();
        self.unused.push(buffer);
        let Some((place, token)) = sender else { return };
        let Some(link) = self.peers[place].link.as_mut().filter(|link| link.token == token) else { return };
        link.in_flight -= 1;
        if !ok {
            self.end_and_begin_again(place, DownReason::Lost);
        } else if link.probing {
            self.bring_up(place);
        }
    }

    /// A message came.
    fn received(&mut self, buffer: Buffer, bytes: usize) {
        let header = Header::read(self.memory.read(&buffer, bytes));
        let place = header.and_then(|header| {
            let of_token = |peer: &Peer| peer.link.as_ref().is_some_and(|it| it.token == header.token);
            self.peers.iter().position(of_token)
        });
        let (Some(header), Some(place)) = (header, place) else {
            // Of a link that is over, or no message of ours.
            return self.repost(buffer);
        };
        let peer = &mut self.peers[place];
        let Some(link) = &mut peer.link else { return self.repost(buffer) };
        link.outgoing.granted = link.outgoing.granted.max(header.granted);
        if header.kind == Kind::Credit {
            return self.repost(buffer);
        }
        peer.held += 1;
        let body = if bytes <= COPY_BYTES {
            let copy = Bytes::copy_from_slice(&self.memory.read(&buffer, bytes)[HEADER_BYTES..]);
            self.stats.bytes_copied += copy.len() as u64;
            self.free.push(buffer);
            copy
        } else {
            self.memory.lend(buffer, bytes).slice(HEADER_BYTES..)
        };
        let message = Message { kind: header.kind, body };
        let taken = link.incoming.accept(header.number, link.granted, message);
        if taken.and_then(|()| self.take_frames(place)).is_err() {
            peer_violated(self, place);
        }
    }

    /// Takes the messages whose turn it is.
    fn take_frames(&mut self, place: usize) -> Result<(), Violation> {
        let bound = self.settings.max_frame_bytes.as_usize();
        let peer = &mut self.peers[place];
        // Nothing may be handed out before the link is announced.
        let Some(link) = peer.link.as_mut().filter(|link| link.is_up) else { return Ok(()) };
        while let Some(next) = link.incoming.next()? {
            match next {
                Next::Frame(frame) => {
                    peer.ready_bytes += frame.bytes();
                    let messages = std::mem::take(&mut link.parts_held) + 1;
                    peer.ready.push_back(Ready::Frame(frame, messages));
                }
                // The credit for a part goes back at once, so that a frame may be larger than the window; but not while
                // much waits for the node already.
                Next::Part if peer.ready_bytes < bound => {
                    peer.held -= 1;
                    peer.unposted += 1;
                }
                Next::Part => link.parts_held += 1,
            }
        }
        if peer.ready.is_empty() && link.parts_held > 0 {
            let parts = std::mem::take(&mut link.parts_held);
            peer.give_back(parts);
        }
        Ok(())
    }

    /// Takes the messages that arrived before the link was announced.
    pub(super) fn take_early(&mut self, place: usize) {
        if self.take_frames(place).is_err() {
            peer_violated(self, place);
        }
    }

    pub(super) fn flush_links(&mut self) {
        for place in 0..self.peers.len() {
            self.give_back_parts(place);
            while self.send_next(place) {}
            self.tell_credit(place);
            self.answer_farewell(place);
        }
    }

    /// Returns credit of parts that was held back while much waited for the node.
    fn give_back_parts(&mut self, place: usize) {
        let peer = &mut self.peers[place];
        let Some(link) = &mut peer.link else { return };
        if link.parts_held > 0 && peer.ready.is_empty() {
            let parts = std::mem::take(&mut link.parts_held);
            peer.give_back(parts);
        }
    }

    /// Sends one message of a link. Returns `false` if there is none, or no room for it.
    fn send_next(&mut self, place: usize) -> bool {
        let peer = &mut self.peers[place];
        let Some(link) = &mut peer.link else { return false };
        let Some(remote) = link.remote.filter(|_| link.is_up) else { return false };
        if let Some(stuck) = link.stuck.take() {
            return self.push(place, remote, stuck);
        }
        if !link.outgoing.may_send() || link.in_flight >= self.sends {
            return false;
        }
        let Some(mut buffer) = self.unused.pop() else { return false };
        let most = self.memory.buffer_bytes().min(remote.message_bytes);
        let number = link.outgoing.next;
        let room = &mut self.memory.write(&mut buffer)[HEADER_BYTES..most];
        let Some(part) = link.outgoing.take(room, self.port.sends_in_place() - 1) else {
            self.unused.push(buffer);
            return false;
        };
        self.stats.bytes_copied += part.payload_copied as u64;
        if part.ends_frame && std::mem::take(&mut peer.refused) {
            self.room_made = true;
        }
        let stuck =
            Stuck { buffer, kind: part.kind, number, bytes: HEADER_BYTES + part.bytes, pieces: part.pieces };
        self.push(place, remote, stuck)
    }

    /// Gives a message to the provider, with the latest of credit. `false` if it has no room.
    fn push(&mut self, place: usize, remote: Remote, mut stuck: Stuck) -> bool {
        let Some(link) = &mut self.peers[place].link else { return false };
        let granted = link.granted;
        let header = Header { token: remote.token, number: stuck.number, granted, kind: stuck.kind };
        header.emit(self.memory.write(&mut stuck.buffer));
        let Stuck { buffer, kind, number, bytes, pieces } = stuck;
        let at = buffer.place();
        match self.port.send(buffer, bytes, pieces, remote.address) {
            Ok(()) => {
                self.senders[at] = Some((place, link.token));
                link.in_flight += 1;
                link.announced = granted;
                self.stats.writes += 1;
                true
            }
            Err((buffer, pieces, fault)) => {
                if fault.is_again() && kind != Kind::Credit {
                    link.stuck = Some(Stuck { buffer, kind, number, bytes, pieces });
                } else {
                    self.unused.push(buffer);
                }
                if !fault.is_again() {
                    self.end_and_begin_again(place, DownReason::Lost);
                }
                false
            }
        }
    }

    /// Announces credit to a peer, unless a message is sent there anyway; and in any case with the first message of a
    /// link.
    fn tell_credit(&mut self, place: usize) {
        let window = self.window;
        let Some(link) = &self.peers[place].link else { return };
        let Some(remote) = link.remote else { return };
        if link.probing || link.is_up && !link.owes_credit(window) || link.in_flight >= self.sends + RESERVE {
            return;
        }
        if let Some(buffer) = self.unused.pop() {
            let (kind, number, pieces) = (Kind::Credit, 0, VecDeque::new());
            let is_sent =
                self.push(place, remote, Stuck { buffer, kind, number, bytes: HEADER_BYTES, pieces });
            self.peers[place].link.iter_mut().for_each(|link| link.probing = is_sent && !link.is_up);
        }
    }
}

fn peer_violated(endpoint: &mut LibfabricEndpoint, place: usize) {
    endpoint.stats.links_violated += 1;
    endpoint.end_and_begin_again(place, DownReason::Violated);
}

impl Link {
    /// Frames that wait, and the messages of this link that hold a buffer which was not handed out.
    pub(super) fn not_sent(&self) -> u64 {
        (self.outgoing.frames() + usize::from(self.stuck.is_some())) as u64
    }
}
