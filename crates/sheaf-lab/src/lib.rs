//! A switch in a laptop: hosts are network namespaces, cables are veth pairs, switches are bridges whose ports have a
//! line rate and a finite output buffer. Real Sheaf processes run on the hosts and are measured.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | the hosts, switches and cables of a scenario; no I/O |
//! | `script` | the same as commands of iproute2; no I/O |
//! | `tools` | runs these commands, and reports missing requirements |
//! | `owner` | owners of namespaces, and the remains of labs whose process has died |
//! | `network` | a network that exists, and is removed when it is dropped |
//! | `nodes` | the configuration of the run on that network, and its processes |
//! | `counters`, `sampler` | counters of ports, processors and nodes |
//! | `evidence` | whether the network was the limit |
//! | `measure` | one scenario, point by point |
//! | `result`, `plots` | results as text, JSON and plots |
//! | `library` | the scenarios that ship |
//! | `paper` | the documents' figures compared with ours |
//! | `buffer` | measurement of an output buffer from outside |
//!
//! The crate needs `CAP_NET_ADMIN`, `CAP_SYS_ADMIN` and iproute2, and reports if they are missing. It changes only
//! interfaces, routes and namespaces that it has made. It does not know what the nodes do: it starts a program, and
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
