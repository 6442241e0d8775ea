//! Transports as their users meet them: the conformance suite for each, and real sockets, processes and limits.
//!
//! One program, so that the workspace links one more and not a dozen. A test that changes its process runs in a process of its own
//! (`alone`).

#![allow(clippy::unwrap_used, reason = "a test stops where its arrangement fails")]

mod alone;
mod certificates;
#[cfg(all(feature = "libfabric", target_os = "linux"))]
mod libfabric;
mod memory;
#[cfg(target_os = "linux")]
mod mixed;
#[cfg(target_os = "linux")]
mod shm;
#[cfg(target_os = "linux")]
mod shm_descriptors;
#[cfg(target_os = "linux")]
mod shm_processes;
mod tcp;
mod tcp_descriptors;
mod tcp_guests;
mod tcp_key;
mod tcp_rails;
mod tcp_tls;
mod tcp_wire;
