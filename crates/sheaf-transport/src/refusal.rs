//! Reasons for which links are refused.

use sheaf_wire::{RunNumber, SessionId};

/// Reason why a link was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The peer does not use Sheaf's framing.
    #[error("peer does not speak this transport's framing (wrong magic)")]
    WrongMagic,
    /// Another version of the framing.
    #[error(
        "peer speaks version {0} of the framing; run the same release, with one number of rails, on all nodes"
    )]
    WrongVersion(u16),
    /// A node of another run.
    #[error("peer is of run {0}")]
    WrongRun(RunNumber),
    /// A node that the configuration does not name as a peer, or another than the one that was called.
    #[error("node code {0:#010x} is not a peer that is expected here; check the configuration's addresses")]
    UnknownNode(u32),
    /// An earlier life of a node of which a later one is known.
    #[error("session {0} of the peer is older than the one last seen")]
    StaleSession(SessionId),
    /// A session that lies further ahead than clocks of two hosts differ: once accepted, it would shut out the node itself.
    #[error(
        "session {0} of the peer lies more than a day ahead of this host's clock; a session is the time at which a node \
         started, in nanoseconds since 1970: set the clocks of both hosts"
    )]
    FutureSession(SessionId),
    /// The node has a link that is alive.
    #[error(
        "the node has a live link already, and keeps it; if the node was started twice, end one of the two, else the link \
         is replaced as soon as it is proven dead"
    )]
    InUse,
    /// The peer calls this node although this node is configured to call the peer.
    #[error("both nodes are configured to initiate the connection; exactly one must be")]
    BothInitiate,
    /// A field of the greeting has a value without meaning.
    #[error("peer's greeting is malformed")]
    Malformed,
    /// The peer's links have another number of connections.
    #[error("peer has links of another number of rails; all nodes need the same `transport.rails`")]
    WrongRails,
    /// There are as many guests as may be.
    #[error("the maximum number of guests has been reached")]
    NoRoom,
    /// One of the two has the key of the run, and the other has none.
    #[error(
        "one of the two nodes has the key of the run and the other has none; give both the same `transport.key_file` (a processor: \
         `--key`; a program that feeds sources: `key`, in C `key_file`)"
    )]
    KeyOnOneSide,
    /// The peer did not prove that it has the key of the run.
    #[error(
        "peer has another key than this node, or is a stranger; give all nodes copies of one file as `transport.key_file`"
    )]
    WrongKey,
    /// The peer hung up where it had to prove that it has the key of the run.
    #[error(
        "peer hung up before it proved that it has the key of the run: it ended at that moment, has another key, or is a stranger; if it \
         does so again, give all nodes copies of one file as `transport.key_file`"
    )]
    NoProof,
    /// The peer sends through another provider of libfabric.
    #[error("peer uses another provider of libfabric; all nodes need the same `transport.provider`")]
    WrongProvider,
    /// The peer's datagrams have another size.
    #[error("peer uses datagrams of another size; all nodes need the same `transport.mtu_bytes`")]
    WrongDatagramBytes,
    /// Small datagrams reach the peer, those of full size do not.
    #[error(
        "datagrams of {bytes} bytes do not reach the peer by rail {rail}, smaller ones do; raise the MTU of every interface and \
         switch on the way, or lower `transport.mtu_bytes`"
    )]
    NarrowPath {
        /// The rail.
        rail: usize,
        /// The size.
        bytes: usize,
    },
    /// The connection could not be made secure.
    #[error("{0}")]
    Tls(TlsProblem),
    /// No greeting came in time.
    #[error("no greeting arrived in time")]
    NoGreeting,
    /// The peer refused this node and gave a reason that this release does not know.
    #[error("peer refused the connection with the unknown code {0}")]
    Other(u16),
}

/// Reason why a connection could not be made secure. "This node" is the one that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// The peer's certificate is not of an authority that this node trusts.
    #[error(
        "peer's certificate was signed by none of the authorities in `transport.tls.authority`; give all nodes \
         certificates of one authority"
    )]
    UnknownAuthority,
    /// The peer's certificate is not valid any more.
    #[error("peer's certificate has expired; issue a new one, or set this host's clock")]
    Expired,
    /// The peer's certificate is not valid yet.
    #[error("peer's certificate is not valid yet; set the clocks of both hosts")]
    NotValidYet,
    /// The peer's certificate is for other hosts than the one that was called.
    #[error(
        "peer's certificate is not for the host in its address; name that host, or its IP address, among the \
         certificate's subject alternative names"
    )]
    WrongName,
    /// The certificate is of another node than the one in its holder's greeting.
    #[error(
        "the caller's certificate is not of the node that it says it is; name the node, or the host in its address, among the \
         certificate's subject alternative names (of a processor that joins: one of `filter.guest_names`; of a program that feeds sources: \
         one of `source.feed.guest_names`)"
    )]
    WrongNode,
    /// The peer has none.
    #[error("peer presented no certificate; set `transport.tls` on all nodes")]
    NoCertificate,
    /// There is something else about the peer's certificate.
    #[error("peer's certificate cannot be used; issue one with `openssl` as docs/howto/tls.md shows")]
    BadCertificate,
    /// The peer does not speak TLS.
    #[error("peer does not speak TLS and this node does; set `transport.tls` on all nodes or on none")]
    PeerHasNone,
    /// The peer speaks TLS and this node does not.
    #[error(
        "peer speaks TLS and this node does not; set `transport.tls` on all nodes or on none (a program that feeds sources: \
         `tls`, in C `tls_certificate` and its key and authority)"
    )]
    OnlyPeerHas,
    /// The peer does not trust the authority of this node's certificate.
    #[error(
        "peer does not know the authority of this node's certificate; give all nodes certificates of one authority"
    )]
    UnknownThere,
    /// To the peer, this node's certificate has expired.
    #[error("this node's certificate has expired, says the peer; issue a new one, or set the peer's clock")]
    ExpiredThere,
    /// The peer refuses this node for another reason.
    #[error("peer refused this node's certificate or the connection; its own log says why")]
    RefusedThere,
    /// Anything else.
    #[error("TLS handshake failed; run the same release on all nodes")]
    Failed,
}
