//! A switch in a laptop: hosts are network namespaces, cables are veth pairs, switches are bridges whose ports have a
//! line rate and a finite output buffer. Real Sheaf processes run on the hosts and are measured.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | which hosts, switches and cables a scenario means; no I/O |
//! | `script` | the same as commands of iproute2; no I/O |
//! | `tools` | running these commands, and what is missing where they cannot run |
//! | `owner` | whose a namespace is, and what was left by labs whose process is gone |
//! | `network` | a network that exists, and is removed when it is dropped |
//! | `nodes` | the configuration of the run on that network, and its processes |
//! | `counters`, `sampler` | what ports, processors and nodes have done so far |
//! | `evidence` | whether the network was the limit |
//! | `measure` | one scenario, point by point |
//! | `result`, `plots` | results as text, JSON and plots |
//! | `library` | the scenarios that ship |
//! | `paper` | the documents' figures beside ours |
//! | `buffer` | how large an output buffer is, found from outside |
//!
//! The crate needs `CAP_NET_ADMIN`, `CAP_SYS_ADMIN` and iproute2, and says so where they are not there. It touches no
//! interface, route or namespace that it has not made. It does not know what the nodes do: it starts a program, and
//! reads the JSON that this prints.

#![forbid(unsafe_code)]

pub mod buffer;
mod counters;
pub mod evidence;
pub mod library;
pub mod measure;
pub mod network;
mod nodes;
pub mod owner;
pub mod paper;
pub mod plan;
pub mod plots;
pub mod result;
mod sampler;
pub mod script;
pub mod tools;
