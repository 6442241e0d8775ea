//! Decision on a greeting, given the link that exists.
//!
//! A link that is alive keeps its place: a caller that greets as the same node meanwhile is refused, whatever its
//! session, and calls again. The link gives way when it is proven dead: the kernel has seen its end, or nothing came
//! over it for `dead_peer` after another caller asked for its place. Connected nodes are never silent for that long.

use super::endpoint::{Connection, TcpEndpoint};
use super::link::{Called, Guest};
use super::manner::Manner;
use sheaf_transport::Refusal;
use sheaf_transport::greeting::Greeting;
use sheaf_transport::session::is_too_far_ahead;
use std::time::Instant;

/// Relation of a connection to the present link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It begins another link.
    New,
    /// It is another rail of it.
    Joins,
    /// It was made for a link that has ended.
    Over,
    /// It asks for the place of a live link.
    InUse,
}

impl TcpEndpoint {
    /// Returns the place of `peer` if it may have a link here. `called` is the peer that this side called.
    pub(super) fn admit(&self, peer: &Greeting, called: Option<usize>) -> Result<usize, Refusal> {
        let unknown = Refusal::UnknownNode(peer.node.to_code());
        let place = self.index.place(peer.node).ok_or(unknown)?;
        match called {
            Some(meant) if meant != place => return Err(unknown),
            None if self.peers[place].is_called() => return Err(Refusal::BothInitiate),
            _ => {}
        }
        if peer.session < self.peers[place].last_session {
            return Err(Refusal::StaleSession(peer.session));
        }
        if is_too_far_ahead(peer.session) {
            return Err(Refusal::FutureSession(peer.session));
        }
        Ok(place)
    }

    /// Returns whether a caller's certificate, if there is one, is for the node of its greeting, or for a guest.
    pub(super) fn certificate_names(&self, slot: usize, guest: &Guest) -> bool {
        let tls = self.connections[slot].as_ref().and_then(|connection| connection.tls.as_deref());
        let names = match &self.manner {
            Manner::Host { names, .. } => names,
            Manner::Node | Manner::Guest => &self.peers[guest.place].names,
        };
        tls.is_none_or(|tls| tls.is_for_one_of(names))
    }

    /// Relation of a connection to the present link.
    pub(super) fn standing(&mut self, guest: &Guest, called: Option<Called>) -> Standing {
        let peer = &self.peers[guest.place];
        let same_session = guest.greeting.session == peer.last_session;
        let standing = match called {
            _ if self.settings.rails == 1 => Standing::New,
            Some(called) if called.epoch != peer.epoch => Standing::Over,
            Some(_) if same_session && peer.link.is_some() => Standing::Joins,
            Some(_) => Standing::New,
            None if !same_session || guest.epoch > peer.epoch => Standing::New,
            None if guest.epoch == peer.epoch && peer.link.is_some() => Standing::Joins,
            None => Standing::Over,
        };
        let gives_way = match standing {
            Standing::New => (0..self.settings.rails).all(|rail| self.gives_way(guest.place, rail)),
            Standing::Joins => self.gives_way(guest.place, guest.rail),
            Standing::Over | Standing::InUse => true,
        };
        if gives_way { standing } else { Standing::InUse }
    }

    /// Returns whether a rail of the existing link, if it is up, is proven dead. Asking begins the proof.
    fn gives_way(&mut self, place: usize, rail: usize) -> bool {
        let slot = self.peers[place].link.as_ref().and_then(|link| link.rails[rail]);
        let Some(connection) = slot.and_then(|slot| self.connections[slot].as_mut()) else { return true };
        let (end_in_sight, readable) = (connection.end_in_sight, connection.readable);
        let Some(rail) = Connection::rail(connection) else { return true };
        if end_in_sight || rail.broken {
            return true;
        }
        let now = Instant::now();
        // Bytes that were not read yet, or not for lack of memory, have arrived nevertheless.
        let has_received = std::mem::take(&mut rail.has_received) || readable || rail.starved;
        match rail.rival_since {
            Some(since) if !has_received => now.duration_since(since) >= self.settings.dead_peer.to_std(),
            _ => {
                rail.rival_since = Some(now);
                false
            }
        }
    }
}
