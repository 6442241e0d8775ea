//! The real drivers of `sheaf-node` in a simulated world: the same drivers that run on threads, with a simulated clock,
//! simulated links, sources, filters and disks, and processes that are frozen, starved, killed and restarted, all from one
//! seed.
//!
//! | module | holds |
//! |---|---|
//! | `options` | options of a run, and the families of random runs |
//! | `net` | endpoints, with connections and disconnections as a kernel reports them |
//! | `hardware` | sources and filters |
//! | `disk` | outputs that run full, fail and hang, on the node's thread or beside it |
//! | `order` | detection of frames that are sent out of order, or lost without being counted |
//! | `terms` | messages of the event manager that nodes take, by replica and term |
//! | `twins` | messages of readout units and their mirrors |
//! | `supervision` | a trigger supervisor and its connection |
//! | `workers` | workers of farms, whose verdicts take simulated time |
//! | `assembly` | drivers, assembled as the command does |
//! | `world` | scheduling of nodes, the duration of their rounds, and faults |
//! | `check` | invariants at the end; `causes`: losses that the injected faults explain |
//!
//! The cluster of roles ([`crate::cluster`]) is faster and has more network faults. The drivers show what it cannot: when
//! drivers give up, retry, seal and restart, and the fate of a node whose filter or disk blocks its thread for seconds.

mod assembly;
mod check;
mod disk;
mod hardware;
mod mirrors;
mod net;
mod options;
mod order;
mod replicas;
mod supervision;
mod terms;
mod twins;
mod workers;
mod world;

pub use check::{DriverFailure, DriverReport};
pub use options::{
    DiskOptions, DriverFault, DriverFaultKind, DriverOptions, Family, FilterOptions, LinkOptions, START,
    StepOptions, SupervisorOptions, UploadOptions,
};
pub use world::World;

/// Runs like [`run`], and also returns a log with a line for each sent and polled frame.
pub fn run_with_log(options: &DriverOptions) -> (Result<DriverReport, Box<DriverFailure>>, String) {
    World::new(options.clone()).run_with_log()
}

/// Runs the drivers from start to end and checks them.
///
/// # Errors
/// Returns the violated invariants.
pub fn run(options: &DriverOptions) -> Result<DriverReport, Box<DriverFailure>> {
    World::new(options.clone()).run()
}
