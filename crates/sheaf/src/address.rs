//! Addresses in configurations and on the command line.

use anyhow::Context as _;
use std::net::{SocketAddr, ToSocketAddrs as _};

/// Returns the first address of `host:port`.
pub(crate) fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    let unresolved = || format!("cannot resolve {address}");
    address.to_socket_addrs().with_context(unresolved)?.next().with_context(unresolved)
}
