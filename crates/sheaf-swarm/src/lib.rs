//! A deterministic cluster: the real roles of `sheaf-protocol` on a simulated network, with simulated sources and disks, under
//! injected faults, all determined by one seed. A checker verifies the books of every run.
//!
//! ```
//! use sheaf_swarm::Options;
//!
//! let report = sheaf_swarm::run(&Options::random(7)).expect("a run with random faults ends with balanced books");
//! assert!(report.ledger.is_balanced());
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`options`] | the complete description of a run: system, bounds, times, source defects, network, faults |
//! | [`swarm`] | random options from a seed |
//! | [`shrink`] | reduction of a failing run |
//! | [`table`] | how often each option is drawn, and the configuration keys that it represents |
//! | [`cluster`] | the cluster: its clock, its agenda, and the drivers of the roles |
//! | [`filter`] | decisions of filters and outputs on events |
//! | [`network`], [`source`], [`disk`] | the simulated surroundings of the roles |
//! | `supervisor_link` | the connection between a trigger supervisor and the event manager |
//! | [`steps`] | two-step building, and triggers that only some readout units answer: decisions and their consequences |
//! | [`check`] | conditions that must hold at every step and at the end |
//! | [`log`] | the run log: one line per occurrence, always hashed, written on demand |
//! | [`drivers`] | the real drivers of `sheaf-node`, in a simulated world |
//! | [`dice`] | random numbers |
//!
//! A run has two phases. Until [`Options::faults_until`] anything may fail. Then the network recovers, and all nodes that
//! return have returned, so that the run must end by itself within [`Options::converge_within`]. If it does not, the
//! failure describes the waiting nodes.
//!
//! The crate uses no threads, no clock and no randomness of the operating system (its binary runs many seeds on all
//! cores), and iterates over no hash map: the same seed and commit give the same run log, byte for byte.

#![forbid(unsafe_code)]

pub mod check;
pub mod cluster;
pub mod coverage;
pub mod dice;
pub mod disk;
pub mod drivers;
pub mod filter;
pub mod log;
pub mod network;
pub mod options;
pub mod payload;
pub mod shrink;
pub mod source;
pub mod steps;
mod supervisor_link;
pub mod swarm;
pub mod table;
pub mod violation;

pub use check::{Failure, Report};
pub use cluster::Cluster;
pub use options::Options;
pub use violation::Violation;

/// Runs a cluster from start to end and checks it.
///
/// # Errors
/// A [`Failure`] with the violated rules and the options of the run.
pub fn run(options: &Options) -> Result<Report, Box<Failure>> {
    Cluster::new(options.clone()).finish()
}

/// Runs a cluster as [`run`], and also returns the text of the run log.
pub fn run_with_log(options: &Options) -> (Result<Report, Box<Failure>>, String) {
    let mut cluster = Cluster::new(options.clone());
    cluster.keep_log();
    let result = cluster.run();
    (result, cluster.take_log())
}

#[cfg(test)]
mod tests;
