//! Maps a node to its index in a list, by two array look-ups.

use sheaf_wire::NodeId;

/// Index of each node in a list of peers.
#[derive(Debug, Default)]
pub struct PeerIndex {
    /// By role code, then by the node's index: the place in the list plus one, or zero.
    places: Vec<Vec<u32>>,
}

impl PeerIndex {
    /// The places of `peers`.
    ///
    /// # Errors
    /// The first that stands there twice.
    pub fn new(peers: impl IntoIterator<Item = NodeId>) -> Result<Self, NodeId> {
        let mut index = Self::default();
        for (place, peer) in peers.into_iter().enumerate() {
            let (role, number) = (peer.role as usize, usize::from(peer.index));
            if index.places.len() <= role {
                index.places.resize_with(role + 1, Vec::new);
            }
            let row = &mut index.places[role];
            if row.len() <= number {
                row.resize(number + 1, 0);
            }
            if row[number] != 0 {
                return Err(peer);
            }
            // At most 2^16 nodes of each of a few roles.
            row[number] = place as u32 + 1;
        }
        Ok(index)
    }

    /// The place of `peer` in the list.
    #[must_use]
    #[inline]
    pub fn place(&self, peer: NodeId) -> Option<usize> {
        let row = self.places.get(peer.role as usize)?;
        let place = *row.get(usize::from(peer.index))?;
        place.checked_sub(1).map(|place| place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_found_at_its_place_and_strangers_are_not() {
        let peers = [NodeId::builder(7), NodeId::MANAGER, NodeId::readout(0), NodeId::readout(65_535)];
        let index = PeerIndex::new(peers).unwrap();
        for (place, peer) in peers.into_iter().enumerate() {
            assert_eq!(index.place(peer), Some(place));
        }
        assert_eq!(index.place(NodeId::builder(6)), None);
        assert_eq!(index.place(NodeId::builder(8)), None);
        assert_eq!(index.place(NodeId::readout(1)), None);
    }

    #[test]
    fn a_peer_that_is_named_twice_is_an_error() {
        let twice = PeerIndex::new([NodeId::MANAGER, NodeId::readout(3), NodeId::readout(3)]);
        assert_eq!(twice.unwrap_err(), NodeId::readout(3));
    }
}
