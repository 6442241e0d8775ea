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
            Refusal::WrongKey | Refusal::KeyOnOneSide | Refusal::Tls(TlsProblem::WrongNode) => {
                self.links_unproven += 1
            }
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
    /// Times that a sleep ended because something was there, not because its time was over.
    wake_ups,
    /// Links that came up.
    links_up,
    /// Links that went down.
    links_down,
    /// Rails that joined a link that was up, or came back to it.
    rails_up,
    /// Rails that a link lost and did without.
    rails_down,
    /// Frames that were given to another rail, because that which they were given to was lost.
    frames_repeated,
    /// Frames that had arrived before on another rail.
    frames_repeated_in_vain,
    /// Connections that this endpoint began.
    connects_begun,
    /// Connections that could not be made.
    connects_failed,
    /// Connections refused, by this side or the other, before a link came up.
    links_refused,
    /// Of these, connections whose other end did not prove that it has the key of the run, or that its certificate is of the node
    /// that it says it is.
    links_unproven,
    /// Of the refused connections, those that asked for the place of a link that is alive.
    links_in_use,
    /// Connections cut because the peer broke the framing.
    links_violated,
    /// Connections that could not be accepted for want of file descriptors or memory; tried again later.
    accepts_failed,
    /// Times that reading stopped, or a frame was refused, because the transport's memory was used up.
    memory_exhausted,
    /// Bytes that were copied once more inside this process: received ones and, into shared memory, sent ones.
    bytes_copied,
    /// Datagrams of data that were sent.
    datagrams_sent,
    /// Datagrams of data that arrived, each once.
    datagrams_received,
    /// Datagrams that were taken for lost; what was in them was sent again.
    datagrams_lost,
    /// Bytes of frames that were sent again.
    bytes_repeated,
    /// Datagrams that arrived a second time.
    datagrams_duplicate,
    /// Bytes of frames that arrived a second time.
    bytes_in_vain,
    /// Datagrams of another life of a peer, or of another run, dropped.
    datagrams_stale,
    /// Datagrams that did not arrive as they were sent, dropped.
    datagrams_damaged,
    /// Datagrams that are none, or say what cannot be, dropped.
    datagrams_malformed,
    /// Datagrams beyond what was granted to a peer, dropped.
    datagrams_beyond_window,
    /// Datagrams of nodes that are not peers, or from where the peer is not, dropped.
    datagrams_of_strangers,
    /// Datagrams dropped on purpose, see `Dropping`.
    datagrams_dropped,
    /// Reports of what arrived, sent.
    reports_sent,
    /// Times that a rail was probed because nothing was heard.
    probes,
    /// Datagrams in a version of the frame that this program does not know, dropped.
    datagrams_of_other_versions,
    /// Frames shorter than they say, or cut off by the kernel, dropped.
    datagrams_truncated,
    /// Datagrams for another node, dropped: a switch that does not know a node's port sends to all.
    datagrams_misdirected,
    /// Datagrams that came by another rail than they were sent by, dropped: two rails in one network, or cables crossed.
    datagrams_crossed,
    /// Datagrams not sent because the peer's address was not known, and had been asked for just before.
    datagrams_unaddressed,
    /// Datagrams that the kernel dropped because this node did not take them in time.
    datagrams_overrun,
}
