//! The real drivers of `sheaf-node` in a simulated world: the same agents that run on threads, with a simulated clock, simulated
//! links, sources, filters and disks, and processes that are frozen, starved, killed and started again, all from one seed.
//!
//! | module | holds |
//! |---|---|
//! | `options` | what a run is like, and the families of random runs |
//! | `net` | endpoints, whose peers go up and down as a kernel would say it |
//! | `hardware` | sources and filters |
//! | `disk` | outputs that run full, fail and hang, on the node's thread or beside it |
//! | `order` | frames that leave in the wrong order, or are lost unbooked |
//! | `workers` | workers of farms, whose judging takes simulated time |
//! | `assembly` | agents, put together as the command does |
//! | `world` | whose turn it is, how long it takes, and what happens to nodes |
//! | `check` | what must hold at the end; `causes`: what of it the injected faults explain |
//!
//! The cluster of roles ([`crate::cluster`]) is faster and knows more faults of the network; here is what it cannot see: when
//! drivers give up, try again, seal, restart, and what becomes of a node whose thread is with its filter or its disk for seconds.

mod assembly;
mod check;
mod disk;
mod hardware;
mod net;
mod options;
mod order;
mod workers;
mod world;

pub use check::{DriverFailure, DriverReport};
pub use options::{
    DiskOptions, DriverFault, DriverFaultKind, DriverOptions, Family, FilterOptions, LinkOptions, START,
    StepOptions,
};
pub use world::World;

/// As [`run`], and also returns every frame that was sent and polled, a line each.
pub fn run_with_log(options: &DriverOptions) -> (Result<DriverReport, Box<DriverFailure>>, String) {
    World::new(options.clone()).run_with_log()
}

/// Runs the drivers from start to end and checks them.
///
/// # Errors
/// Broken promises.
pub fn run(options: &DriverOptions) -> Result<DriverReport, Box<DriverFailure>> {
    World::new(options.clone()).run()
}
