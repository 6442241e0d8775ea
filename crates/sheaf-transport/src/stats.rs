//! Counters of an endpoint.

use crate::{Refusal, TlsProblem};

macro_rules! stats {
    ($($(#[$doc:meta])+ $field:ident,)*) => {
        /// Counters of one endpoint, all links together, since it was made. A counter that a transport has no use for
        /// stays zero.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LinkStats { $($(#[$doc])+ pub $field: u64,)* }

        impl LinkStats {
            /// Every counter with its name, in a fixed order: for metrics and tables.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }

        impl LinkStats {
            /// Returns the counts since an earlier moment.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }

        impl std::ops::AddAssign for LinkStats {
            fn add_assign(&mut self, other: Self) { $(self.$field += other.$field;)* }
        }
    };
}

impl LinkStats {
    /// Counts a link that was refused.
    pub fn count_refusal(&mut self, reason: Refusal) {
        self.links_refused += 1;
        match reason {
            Refusal::WrongKey
            | Refusal::NoProof
            | Refusal::KeyOnOneSide
            | Refusal::Tls(TlsProblem::WrongNode) => self.links_unproven += 1,
            Refusal::InUse => self.links_in_use += 1,
            _ => {}
        }
    }
}

stats! {
    /// Frames that `send` accepted.
    frames_sent,
    /// Their bytes, head and payload.
    bytes_sent,
    /// Frames that `poll` handed out.
    frames_received,
    /// Their bytes, head and payload.
    bytes_received,
    /// Accepted frames that are known not to have left this process when their link went down.
    frames_lost,
    /// Frames refused because a queue was full.
    refused_full,
    /// Frames refused because the peer was not connected.
    refused_not_connected,
    /// Frames refused because the node is not a peer.
    refused_unknown_peer,
    /// Frames refused because they are larger than the link takes.
    refused_too_large,
    /// System calls, all kinds.
    system_calls,
    /// System calls that wrote to the network.
    writes,
    /// System calls that read from the network.
    reads,
    /// Times that `wait` went to sleep.
    sleeps,
    /// Times that a sleep ended because of an event instead of its timeout.
    wake_ups,
    /// Links that came up.
    links_up,
    /// Links that went down.
    links_down,
    /// Rails that joined a link that was up, or came back to it.
    rails_up,
    /// Rails that a link lost while it continued.
    rails_down,
    /// Frames that were moved to another rail, because theirs was lost.
    frames_repeated,
    /// Frames that had arrived before on another rail.
    frames_repeated_in_vain,
    /// Connections that this endpoint initiated.
    connects_begun,
    /// Connections that could not be made.
    connects_failed,
    /// Connections refused, by this side or the other, before a link came up.
    links_refused,
    /// Of these, connections whose peer did not prove that it has the key of the run, or has a certificate of another
    /// node.
    links_unproven,
    /// Of the refused connections, those that asked for the place of a live link.
    links_in_use,
    /// Connections cut because the peer violated the framing.
    links_violated,
    /// Connections that could not be accepted for lack of file descriptors or memory; tried again later.
    accepts_failed,
    /// Times that reading stopped, or a frame was refused, because the transport's memory was used up.
    memory_exhausted,
    /// Bytes that were copied once more inside this process: received ones and, into shared memory, sent ones.
    bytes_copied,
    /// Datagrams of data that were sent.
    datagrams_sent,
    /// Datagrams of data that arrived, each once.
    datagrams_received,
    /// Datagrams that counted as lost; their content was retransmitted.
    datagrams_lost,
    /// Bytes of frames that were retransmitted.
    bytes_repeated,
    /// Datagrams that arrived a second time.
    datagrams_duplicate,
    /// Bytes of frames that arrived a second time.
    bytes_in_vain,
    /// Datagrams of another session of a peer, or of another run, dropped.
    datagrams_stale,
    /// Datagrams with a wrong checksum, dropped.
    datagrams_damaged,
    /// Invalid datagrams, dropped.
    datagrams_malformed,
    /// Datagrams beyond the window granted to a peer, dropped.
    datagrams_beyond_window,
    /// Datagrams of nodes that are not peers, or from another address than the peer's, dropped.
    datagrams_of_strangers,
    /// Datagrams dropped on purpose, see `Dropping`.
    datagrams_dropped,
    /// Acknowledgement reports sent.
    reports_sent,
    /// Times that a rail was probed because it was silent.
    probes,
    /// Datagrams in a version of the frame that this program does not know, dropped.
    datagrams_of_other_versions,
    /// Frames shorter than their length field, or truncated by the kernel, dropped.
    datagrams_truncated,
    /// Datagrams for another node, dropped: a switch that does not know a node's port sends to all.
    datagrams_misdirected,
    /// Datagrams that arrived on another rail than they were sent on, dropped: two rails in one network, or crossed
    /// cables.
    datagrams_crossed,
    /// Datagrams not sent because the peer's address was unknown and had been requested shortly before.
    datagrams_unaddressed,
    /// Datagrams that the kernel dropped because this node did not take them in time.
    datagrams_overrun,
}
