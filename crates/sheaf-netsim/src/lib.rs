//! Switching networks in simulated time: what a network makes of event building before it is bought.
//!
//! A [`Scenario`] says everything that a run is made of: topology, switching, routes, endpoints, traffic, faults and
//! length. Three fidelities stand behind it and check one another: closed formulas, messages that hold links and
//! buffers (event driven), and flits (clock driven, the reference). Endpoints are traffic patterns or the machines of
//! `sheaf-protocol`, unchanged.
//!
//! | module | holds |
//! |---|---|
//! | `units` | picoseconds and link rates |
//! | `scenario` | what a run is made of, as plain data |
//! | `network` | endpoints, switches and directed links |
//! | `topology`, `numbering` | from a wiring as plain data to a network |
//! | `routing` | which of several ways a message takes |
//! | `analytic` | closed formulas: bounds, and exact results where theory has them |
//! | `engine` | who simulates |
//! | `cross` | one scenario in every fidelity, and whether they agree |
//! | `faults` | what breaks, and when it heals |
//! | `meter` | throughput, latencies, waiting, buffers: measured while a run goes on |
//! | `dice` | chance, from the seed |
//! | `traffic` | who sends what to whom, and when: the one interface between engines and endpoints |
//! | `run` | a scenario, its engine, its report |
//! | `speed` | the simulator's own speed |
//! | `report` | what a run tells |
//!
//! Same scenario and seed: the same report, bit for bit. The crate starts no thread and reads no clock; sweeps and
//! their threads belong to its callers.

#![forbid(unsafe_code)]

pub mod analytic;
pub mod cross;
pub mod dice;
pub mod engine;
pub mod faults;
pub mod meter;
pub mod network;
pub mod numbering;
pub mod report;
pub mod routing;
pub mod run;
pub mod scenario;
pub mod speed;
pub mod topology;
pub mod traffic;
pub mod units;

pub use report::Report;
pub use run::{RunError, run};
pub use scenario::Scenario;
