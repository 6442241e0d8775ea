//! Reading from and writing to links that are up, and how they end.

use super::blocks::READ_BYTES;
use super::deframer::Item;
use super::endpoint::{self, Connection, Stage, TcpEndpoint};
#[cfg(target_os = "linux")]
use super::kernel;
use super::link::{Link, Rail, Taken};
use super::outbox::BYTES_PER_WRITE;
use super::socket;
use sheaf_transport::{DownReason, Event, Frame};
use std::io::ErrorKind;
use std::net::Shutdown;
use std::time::Instant;

impl TcpEndpoint {
    /// One read; its frames are handed out next.
    pub(super) fn read_frames(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Connection { stream, tls, stage: Stage::Up(rail), readable, end_in_sight, .. } = connection
        else {
            return;
        };
        let link = self.peers[rail.peer].link.as_ref();
        rail.deframer.use_own_memory(link.is_some_and(Link::is_waiting));
        let mut asked = 0;
        let read = rail.deframer.fill(&mut self.blocks, |room| {
            asked = room.len().min(READ_BYTES);
            match tls {
                Some(tls) => tls.receive(stream, &mut room[..asked]),
                None => socket::receive(stream, &mut room[..asked]),
            }
        });
        let Some(read) = read else {
            self.stats.memory_exhausted += u64::from(!rail.starved);
            rail.starved = true;
            return;
        };
        rail.starved = false;
        self.stats.system_calls += 1;
        self.stats.reads += 1;
        match read {
            Ok(0) if link.is_some_and(|link| link.half_closed(self.closing, rail.broken)) => {
                (*readable, *end_in_sight) = (false, false);
            }
            Ok(0) => self.stream_ended(slot),
            Ok(bytes) => {
                rail.has_received = true;
                // A short read: the kernel has no more, and will signal new data.
                *readable = match tls {
                    Some(tls) => tls.has_more() || *end_in_sight,
                    None => bytes == asked || *end_in_sight,
                };
                self.turn = Some(slot);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => {
                    *readable = false;
                    rail.deframer.rest(&mut self.blocks);
                }
                ErrorKind::Interrupted => rail.deframer.rest(&mut self.blocks),
                _ => self.stream_ended(slot),
            },
        }
    }

    /// The next of the frames that the last read brought, or that it let go; at their end the turn is over.
    pub(super) fn next_frame(&mut self, slot: usize) -> Option<Event> {
        let Some(rail) = self.connections[slot].as_mut().and_then(Connection::rail) else {
            self.turn = None;
            return None;
        };
        let place = rail.peer;
        let Some(link) = self.peers[place].link.as_mut() else {
            self.turn = None;
            return None;
        };
        if let Some(order) = &mut link.order
            && let Some(frame) = order.incoming.pop()
        {
            return Some(self.received(place, frame));
        }
        match rail.deframer.next(&mut self.blocks) {
            Ok(Some(Item::Frame(frame))) => match &mut link.order {
                None => return Some(self.received(place, frame)),
                Some(order) => match order.take(frame) {
                    Ok(Taken::Held) => {}
                    Ok(Taken::InVain) => self.stats.frames_repeated_in_vain += 1,
                    Ok(Taken::Acknowledged(more_room)) => {
                        self.room_made |= more_room && std::mem::take(&mut link.refused);
                    }
                    Ok(Taken::Farewell) => self.peer_said_goodbye(place),
                    Err(_) => self.violated(place),
                },
            },
            Ok(Some(Item::Goodbye)) if link.order.is_none() => self.peer_said_goodbye(place),
            Ok(Some(Item::Goodbye)) => self.violated(place),
            Ok(None) => {
                rail.deframer.rest(&mut self.blocks);
                self.turn = None;
            }
            Err(_) => self.violated(place),
        }
        None
    }

    fn peer_said_goodbye(&mut self, place: usize) {
        let Some(link) = &mut self.peers[place].link else {
            return;
        };
        link.peer_is_done = true;
        // While closing, our data for the peer are still written: it may be closing, too, and reading.
        if !self.closing || link.we_are_done {
            self.end(place, DownReason::Closed);
        }
    }

    fn received(&mut self, place: usize, frame: Frame) -> Event {
        self.stats.frames_received += 1;
        self.stats.bytes_received += frame.bytes() as u64;
        Event::Received { from: self.peers[place].node, frame }
    }

    fn violated(&mut self, place: usize) {
        self.stats.links_violated += 1;
        self.end(place, DownReason::Violated);
    }

    /// Ends the connections to machines that do not answer.
    pub(super) fn end_unanswered(&mut self) {
        #[cfg(target_os = "linux")]
        for slot in 0..self.connections.len() {
            let limit = self.settings.silent_machine.to_std();
            let is_silent = |connection: &Connection| {
                matches!(connection.stage, Stage::Up(_))
                    && kernel::unanswered_for(&connection.stream).is_some_and(|time| time >= limit)
            };
            if self.connections[slot].as_ref().is_some_and(is_silent) {
                self.stream_ended(slot);
            }
        }
    }

    /// The end of one connection: of its link, if it was the last.
    fn stream_ended(&mut self, slot: usize) {
        let Some(rail) = self.connections[slot].as_mut().and_then(Connection::rail) else {
            return;
        };
        let (place, number) = (rail.peer, rail.rail);
        let Some(link) = &self.peers[place].link else {
            return;
        };
        if link.slots().any(|other| other != slot) {
            return self.lose_rail(place, number);
        }
        let reason = if link.ends_in_good_order() { DownReason::Closed } else { DownReason::Lost };
        self.end(place, reason);
    }

    /// Continues without a rail: the others take over its frames.
    pub(super) fn lose_rail(&mut self, place: usize, number: usize) {
        let Some(link) = &mut self.peers[place].link else {
            return;
        };
        let Some(slot) = link.rails[number].take() else {
            return;
        };
        if let Some(order) = &mut link.order {
            self.stats.frames_repeated += order.outgoing.rail_lost(number);
            order.incoming.tell_again();
        }
        self.stats.rails_down += 1;
        self.drop_rail(slot);
        self.rest(place, number, Instant::now());
    }

    /// Drops a connection that was a link's. How many frames of its own queue are lost with it.
    fn drop_rail(&mut self, slot: usize) -> u64 {
        if self.turn == Some(slot) {
            self.turn = None;
        }
        let Some(Connection { stage: Stage::Up(rail), .. }) = self.release(slot) else {
            return 0;
        };
        let Rail { outbox, deframer, .. } = *rail;
        deframer.abandon(&mut self.blocks);
        outbox.frames()
    }

    /// Passes the frames of a link to its connections, and lets them write.
    pub(super) fn flush_link(&mut self, place: usize) {
        let Some(link) = &mut self.peers[place].link else {
            return;
        };
        if link.order.is_none() {
            if let Some(slot) = link.only_rail() {
                self.write(slot);
            }
            return;
        }
        let rails = link.rails.len();
        link.turn = (link.turn + 1) % rails;
        let turn = link.turn;
        self.acknowledge(place);
        self.prepare_goodbye(place);
        for step in 0..rails {
            let slot = self.peers[place].link.as_ref().and_then(|link| link.rails[(turn + step) % rails]);
            if let Some(slot) = slot {
                self.write(slot);
            }
        }
    }

    /// Acknowledges what has arrived, on a rail that has room.
    fn acknowledge(&mut self, place: usize) {
        let Some(link) = &mut self.peers[place].link else {
            return;
        };
        let Some(order) = &mut link.order else {
            return;
        };
        let Some(up_to) = order.incoming.due() else {
            return;
        };
        let rails = link.rails.len();
        for step in 0..rails {
            let slot = link.rails[(link.turn + step) % rails];
            let connection = slot.and_then(|slot| self.connections[slot].as_mut());
            if let Some(Connection { stage: Stage::Up(rail), writable: true, .. }) = connection {
                rail.outbox.push_acknowledgement(up_to);
                order.incoming.note_reported(up_to);
                return;
            }
        }
    }

    /// While closing: the goodbye goes behind everything, and on every rail, when all that was sent is acknowledged.
    fn prepare_goodbye(&mut self, place: usize) {
        let Some(link) = self.peers[place].link.as_mut().filter(|_| self.closing) else {
            return;
        };
        let all_arrived = link.order.as_ref().is_none_or(|order| order.outgoing.is_empty());
        if link.goodbye_is_queued || !all_arrived {
            return;
        }
        link.goodbye_is_queued = true;
        for slot in link.rails.iter().flatten() {
            match self.connections[*slot].as_mut().and_then(Connection::rail) {
                Some(rail) if link.order.is_some() => rail.outbox.push_farewell(),
                Some(rail) => rail.outbox.push_goodbye(),
                None => {}
            }
        }
    }

    /// Writes the queued bytes, until the kernel's buffer is full.
    fn write(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Connection { stream, tls, stage: Stage::Up(rail), writable, .. } = connection else {
            return;
        };
        let place = rail.peer;
        let Some(link) = &mut self.peers[place].link else {
            return;
        };
        while *writable {
            load(link, rail);
            if rail.outbox.is_empty() && !tls.as_ref().is_some_and(|tls| tls.has_unsent()) {
                break;
            }
            let (pieces, offered) = rail.outbox.gather();
            let sent = endpoint::send(stream, tls.as_deref_mut(), &pieces);
            drop(pieces);
            self.stats.system_calls += 1;
            self.stats.writes += 1;
            match sent {
                Ok(bytes) => {
                    if rail.outbox.advance(bytes) && link.order.is_none() {
                        self.room_made |= std::mem::take(&mut link.refused);
                    }
                    // The kernel will signal when there is enough room for a write.
                    *writable = bytes == offered;
                }
                Err(error) => {
                    *writable = false;
                    if error.kind() != ErrorKind::WouldBlock {
                        // Data that arrived before the connection broke are read first; then reading finds the end.
                        rail.broken = true;
                        connection.readable = true;
                        connection.end_in_sight = true;
                        return;
                    }
                }
            }
        }
        let unsent = tls.as_ref().is_some_and(|tls| tls.has_unsent());
        if link.goodbye_is_queued && rail.outbox.is_empty() && !unsent && !link.we_are_done {
            link.we_are_done = true;
            if link.order.is_none() {
                if let Some(tls) = tls {
                    tls.end(stream);
                }
                // Fails only if the connection is broken, which reading finds.
                let _ = stream.shutdown(Shutdown::Write);
            }
            if link.peer_is_done {
                self.end(place, DownReason::Closed);
            }
        }
    }

    /// Takes a link down.
    pub(super) fn end(&mut self, place: usize, reason: DownReason) {
        let peer = &mut self.peers[place];
        let Some(link) = peer.link.take() else {
            return;
        };
        let node = peer.node;
        if peer.is_called() {
            peer.epoch = peer.epoch.wrapping_add(1);
        }
        self.stats.links_down += 1;
        for slot in link.slots() {
            let own = self.drop_rail(slot);
            self.stats.frames_lost += if link.order.is_none() { own } else { 0 };
        }
        self.stats.frames_lost += link.order.as_ref().map_or(0, |order| order.outgoing.frames());
        self.happened.push_back(Event::PeerDown { peer: node, reason });
        let now = Instant::now();
        (0..link.rails.len()).for_each(|rail| self.rest(place, rail, now));
    }

    /// Begins to close: no link comes up any more, and every link gets a goodbye after its queued frames.
    pub(super) fn say_goodbye(&mut self) {
        self.closing = true;
        self.listeners.clear();
        for slot in 0..self.connections.len() {
            let stage = self.connections[slot].as_ref().map(|connection| &connection.stage);
            if let Some(Stage::Connecting { .. } | Stage::Greeting { .. } | Stage::Proving { .. }) = stage {
                drop(self.release(slot));
            }
        }
        (0..self.peers.len()).for_each(|place| self.prepare_goodbye(place));
    }

    /// Ends the remaining links.
    pub(super) fn give_up_links(&mut self) {
        for place in 0..self.peers.len() {
            if let Some(link) = &self.peers[place].link {
                let reason = if link.ends_in_good_order() { DownReason::Closed } else { DownReason::Lost };
                self.end(place, reason);
            }
        }
    }
}

/// Gives a rail of several as much as one write takes: rails take frames whenever they can write, so that a slow rail
/// gets less.
fn load(link: &mut Link, rail: &mut Rail) {
    let Some(order) = &mut link.order else {
        return;
    };
    while rail.outbox.bytes() < BYTES_PER_WRITE {
        let Some((number, frame, bytes)) = order.outgoing.next(rail.rail) else {
            return;
        };
        rail.outbox.push_numbered(number, frame, bytes);
    }
}
