//! A deterministic cluster: the real roles of `sheaf-protocol` on a simulated network, with simulated sources and
//! disks, under injected faults, all from one seed; and a checker that closes the books of every run.
//!
//! ```
//! use sheaf_swarm::Options;
//!
//! let report = sheaf_swarm::run(&Options::random(7)).expect("a run with random faults ends with balanced books");
//! assert!(report.ledger.is_balanced());
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | what a run is like: system, bounds, times, source defects, network, faults; nothing else decides |
//! | [`swarm`] | random options from a seed |
//! | [`shrink`] | a failing run becomes small |
//! | [`table`] | which options are drawn how often, and which knobs of the configuration they stand for |
//! | [`cluster`] | the cluster: its clock, what happens when, and the drivers of the roles |
//! | [`filter`] | decisions of filters and outputs on events |
//! | [`network`], [`source`], [`disk`] | what is simulated around the roles |
//! | [`steps`] | events in steps, triggers that not all answer: what is decided, and what follows |
//! | [`check`] | what must hold at every step and at the end |
//! | [`log`] | the run log: one line a happening, always hashed, written out on demand |
//! | [`drivers`] | the real drivers of `sheaf-node`, in a simulated world |
//! | [`dice`] | random numbers |
//!
//! A run has two phases. Until [`Options::faults_until`] anything may fail. Then the network heals, and nodes that
//! are to come back have come back, so that the run must end by itself within [`Options::converge_within`]; if it
//! does not, the failure says what waits for what.
//!
//! The crate has no threads, no clock and no randomness of the operating system (its binary runs many seeds on all
//! cores), and iterates over no hash map: the same seed and the same commit make the same run log, byte for byte.

#![forbid(unsafe_code)]

pub mod check;
pub mod cluster;
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
pub mod swarm;
pub mod table;

pub use check::{Failure, Report};
pub use cluster::Cluster;
pub use options::Options;

/// Runs a cluster from start to end and checks it.
///
/// # Errors
/// A [`Failure`] that says what did not hold, with the options that led to it.
pub fn run(options: &Options) -> Result<Report, Box<Failure>> {
    Cluster::new(options.clone()).finish()
}

/// As [`run`], and also returns the text of the run log.
pub fn run_with_log(options: &Options) -> (Result<Report, Box<Failure>>, String) {
    let mut cluster = Cluster::new(options.clone());
    cluster.keep_log();
    let result = cluster.run();
    (result, cluster.take_log())
}

#[cfg(test)]
mod tests;
