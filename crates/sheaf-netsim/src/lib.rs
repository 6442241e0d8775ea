//! Switching networks in simulated time: predicts the event-building performance of a network before it is bought.
//!
//! A [`Scenario`] completely describes a run: topology, switching, routes, endpoints, traffic, faults and length. Three
//! fidelities check one another: closed formulas, messages that hold links and buffers (event driven), and flits (clock
//! driven, the reference). Endpoints are traffic patterns or the unchanged machines of `sheaf-protocol`.
//!
//! | module | holds |
//! |---|---|
//! | `units` | picoseconds and link rates |
//! | `scenario` | description of a run, as plain data |
//! | `network` | endpoints, switches and directed links |
//! | `topology`, `numbering` | from a wiring as plain data to a network |
//! | `routing` | choice among several paths of a message |
//! | `analytic` | closed formulas: bounds, and exact results where theory has them |
//! | `engine` | the simulation engines |
//! | `cross` | one scenario in every fidelity, with a check whether they agree |
//! | `faults` | faults and repairs |
//! | `meter` | throughput, latencies, waiting, buffers: measured during a run |
//! | `dice` | random numbers from the seed |
//! | `traffic` | messages with their senders, receivers and times: the one interface between engines and endpoints |
//! | `run` | a scenario, its engine, its report |
//! | `speed` | the simulator's own speed |
//! | `report` | results of a run |
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
