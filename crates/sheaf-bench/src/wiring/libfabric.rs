//! Endpoints over libfabric, whose providers `shm` and `tcp` need no special hardware.

use super::{RUN, SESSION, Transport, failed, max_frame, node, queue, tcp_peers};
use crate::job::{BenchError, Job};
use sheaf_libfabric::{LibfabricEndpoint, LibfabricOptions, LibfabricSettings};
use sheaf_transport::Endpoint;
use std::net::TcpListener;

/// The endpoint of a node; nodes meet over TCP.
pub(super) fn endpoint(
    job: &Job,
    sends: bool,
    index: u16,
    listener: Option<TcpListener>,
    addresses: &[String],
) -> Result<Box<dyn Endpoint>, BenchError> {
    let node = node(sends, index);
    let (provider, source) = match job.transport {
        Transport::LibfabricShm => ("shm", None),
        _ => ("tcp", Some("127.0.0.1".to_owned())),
    };
    let options = LibfabricOptions {
        node,
        run: RUN,
        session: SESSION,
        listener,
        peers: tcp_peers(job, sends, addresses),
        provider: provider.to_owned(),
        source,
        settings: LibfabricSettings {
            max_frame_bytes: max_frame(job),
            queue_bytes: queue(job),
            ..LibfabricSettings::default()
        },
    };
    Ok(Box::new(LibfabricEndpoint::new(options).map_err(|error| failed(job, node, error))?))
}
