//! Endpoints over UDP with recovery from loss.

use super::{RUN, SESSION, failed, max_frame, node, queue};
use crate::job::{BenchError, Job};
use sheaf_datagram::lossy::{self, LossyOptions, LossySettings};
use sheaf_datagram::udp::{UdpOptions, UdpPeer, UdpPort, UdpSettings};
use sheaf_protocol::Identity;
use sheaf_transport::Endpoint;
use sheaf_wire::{ByteCount, NodeId};
use std::net::{SocketAddr, UdpSocket};

/// The frames of a network for data: jumbo frames.
const MTU_BYTES: usize = 9_000;

/// The endpoint of a node. Receivers have the sockets that senders know; they learn the senders' addresses from what these
/// send.
pub(super) fn endpoint(
    job: &Job,
    sends: bool,
    index: u16,
    socket: Option<UdpSocket>,
    addresses: &[String],
) -> Result<Box<dyn Endpoint>, BenchError> {
    let me = node(sends, index);
    let socket = socket.map_or_else(|| UdpSocket::bind("127.0.0.1:0"), Ok);
    let socket =
        socket.map_err(|source| BenchError::System { what: "open a socket on 127.0.0.1", source })?;
    let known = |(node, address): (NodeId, &String)| -> Result<UdpPeer, BenchError> {
        let address: SocketAddr = address.parse().map_err(|error| failed(job, me, error))?;
        Ok(UdpPeer { node, addresses: vec![address] })
    };
    let peers: Vec<UdpPeer> = if sends {
        job.receiver_nodes().zip(addresses).map(known).collect::<Result<_, _>>()?
    } else {
        job.sender_nodes().map(|node| UdpPeer { node, addresses: Vec::new() }).collect()
    };
    let nodes = peers.iter().map(|peer| peer.node).collect();
    let settings = UdpSettings { mtu_bytes: MTU_BYTES, ..UdpSettings::default() };
    let port = UdpPort::new(UdpOptions { node: me, sockets: vec![socket], peers, settings })
        .map_err(|error| failed(job, me, error))?;
    let defaults = LossySettings::default();
    let max_frame_bytes = max_frame(job);
    let settings = LossySettings {
        max_frame_bytes,
        queue_frames: 16_384,
        queue_bytes: queue(job),
        window_bytes: ByteCount(2 * queue(job).0),
        block_bytes: ByteCount(defaults.block_bytes.0.max(2 * max_frame_bytes.0)),
        ..defaults
    };
    let options = LossyOptions::unshaped(Identity { node: me, run: RUN, session: SESSION }, nodes, settings);
    lossy::over(Box::new(port), options).map_err(|error| failed(job, me, error))
}
