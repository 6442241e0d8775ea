//! Reading from and writing to links that are up, and how they end.

use super::blocks::READ_BYTES;
use super::deframer::Item;
use super::endpoint::{Connection, Link, Stage, TcpEndpoint};
use super::socket;
use crate::{DownReason, Event};
use std::io::ErrorKind;
use std::net::Shutdown;
use std::time::Instant;

impl Connection {
    fn link(&mut self) -> Option<&mut Link> {
        match &mut self.stage {
            Stage::Up(link) => Some(link),
            Stage::Connecting { .. } | Stage::Greeting { .. } => None,
        }
    }
}

impl Link {
    /// Whether the peer's end of the stream must not end the link: both sides are closing, the peer is done first, and
    /// still reads what we have for it.
    fn half_closed(&self, closing: bool) -> bool {
        closing && self.peer_is_done && !self.we_are_done && !self.broken
    }
}

impl TcpEndpoint {
    /// One read; its frames are handed out next.
    pub(super) fn read_frames(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Connection { stream, stage: Stage::Up(link), readable, end_in_sight, .. } = connection else {
            return;
        };
        let mut asked = 0;
        let read = link.deframer.fill(&mut self.blocks, |room| {
            asked = room.len().min(READ_BYTES);
            socket::receive(stream, &mut room[..asked])
        });
        let Some(read) = read else {
            self.stats.memory_exhausted += u64::from(!link.starved);
            link.starved = true;
            return;
        };
        link.starved = false;
        self.stats.system_calls += 1;
        self.stats.reads += 1;
        match read {
            Ok(0) if link.half_closed(self.closing) => (*readable, *end_in_sight) = (false, false),
            Ok(0) => self.stream_ended(slot),
            Ok(bytes) => {
                // Less than was asked for: the kernel has no more, and will say when it has.
                *readable = bytes == asked || *end_in_sight;
                self.turn = Some(slot);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => {
                    *readable = false;
                    link.deframer.rest(&mut self.blocks);
                }
                ErrorKind::Interrupted => link.deframer.rest(&mut self.blocks),
                _ => self.stream_ended(slot),
            },
        }
    }

    /// The next of the frames that the last read brought; at their end the turn is over.
    pub(super) fn next_frame(&mut self, slot: usize) -> Option<Event> {
        let Some(link) = self.connections[slot].as_mut().and_then(Connection::link) else {
            self.turn = None;
            return None;
        };
        match link.deframer.next(&mut self.blocks) {
            Ok(Some(Item::Frame(frame))) => {
                self.stats.frames_received += 1;
                self.stats.bytes_received += frame.bytes() as u64;
                let from = self.peers[link.peer].node;
                return Some(Event::Received { from, frame });
            }
            Ok(Some(Item::Goodbye)) => {
                link.peer_is_done = true;
                // While closing, what we have for the peer is still written: it may be closing, too, and reading.
                if !self.closing || link.we_are_done {
                    self.end(slot, DownReason::Closed);
                }
            }
            Ok(None) => {
                link.deframer.rest(&mut self.blocks);
                self.turn = None;
            }
            Err(_) => {
                self.stats.links_violated += 1;
                self.end(slot, DownReason::Violated);
            }
        }
        None
    }

    fn stream_ended(&mut self, slot: usize) {
        let in_good_order = self.connections[slot]
            .as_mut()
            .and_then(Connection::link)
            .is_some_and(|link| link.peer_is_done || link.we_are_done);
        self.end(slot, if in_good_order { DownReason::Closed } else { DownReason::Lost });
    }

    /// Writes what waits, until the kernel's buffer is full.
    pub(super) fn write(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Connection { stream, stage: Stage::Up(link), writable, .. } = connection else {
            return;
        };
        while *writable && !link.outbox.is_empty() {
            let (pieces, offered) = link.outbox.gather();
            let sent = socket::send(stream, &pieces);
            drop(pieces);
            self.stats.system_calls += 1;
            self.stats.writes += 1;
            match sent {
                Ok(bytes) => {
                    if link.outbox.advance(bytes) {
                        self.room_made |= std::mem::take(&mut link.refused);
                    }
                    // The kernel will say when there is room worth a write.
                    *writable = bytes == offered;
                }
                Err(error) => {
                    *writable = false;
                    if error.kind() != ErrorKind::WouldBlock {
                        // What had arrived before the connection broke is read first; then reading finds the end.
                        link.broken = true;
                        connection.readable = true;
                        connection.end_in_sight = true;
                        return;
                    }
                }
            }
        }
        if self.closing && link.outbox.is_empty() && !link.we_are_done {
            link.we_are_done = true;
            // Fails only if the connection is broken, which reading finds.
            let _ = stream.shutdown(Shutdown::Write);
            if link.peer_is_done {
                self.end(slot, DownReason::Closed);
            }
        }
    }

    /// Takes a link down.
    pub(super) fn end(&mut self, slot: usize, reason: DownReason) {
        if self.turn == Some(slot) {
            self.turn = None;
        }
        let Some(connection) = self.release(slot) else {
            return;
        };
        let Stage::Up(link) = connection.stage else {
            return;
        };
        self.stats.links_down += 1;
        self.stats.frames_lost += link.outbox.frames();
        link.deframer.abandon(&mut self.blocks);
        let peer = &mut self.peers[link.peer];
        peer.link = None;
        self.happened.push_back(Event::PeerDown { peer: peer.node, reason });
        self.rest(link.peer, Instant::now());
    }

    /// Begins to close: nothing new comes up, and every link gets a goodbye behind what waits.
    pub(super) fn say_goodbye(&mut self) {
        self.closing = true;
        self.listener = None;
        for slot in 0..self.connections.len() {
            match self.connections[slot].as_mut().map(|connection| &mut connection.stage) {
                Some(Stage::Up(link)) => link.outbox.push_goodbye(),
                Some(Stage::Connecting { .. } | Stage::Greeting { .. }) => drop(self.release(slot)),
                None => {}
            }
        }
    }

    /// Ends what is left of the links.
    pub(super) fn give_up_links(&mut self) {
        for place in 0..self.peers.len() {
            if let Some(slot) = self.peers[place].link {
                self.stream_ended(slot);
            }
        }
    }
}
