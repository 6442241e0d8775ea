//! Scenarios, sweeps, calibration and prediction for the switching-network simulator.
//!
//! `sheaf-netsim` simulates one scenario; this crate reads scenario files, runs their sweeps on all processors, and
//! makes tables, JSON and plots of the reports.
//!
//! | module | holds |
//! |---|---|
//! | `scenario` | the file format: keys, errors with line and key, sweeps |
//! | `library` | the scenarios that ship |
//! | `sweep` | all points on all processors, results in a fixed order |
//! | `result` | what a sweep gave: averaged over seeds, and as JSON |
//! | `table` | the same as text |
//! | `plots` | the same as pictures |
//! | `measurements`, `calibrate`, `fit` | what a measured small system says about its hosts |
//! | `model` | the paper model: ports, messages and bytes of a described detector |
//! | `paper` | the figures of theory and documents beside ours |
//! | `predict` | what such hosts would do in a large system, as a band |

#![forbid(unsafe_code)]

pub mod calibrate;
mod fit;
pub mod library;
pub mod measurements;
pub mod model;
pub mod paper;
pub mod plots;
pub mod predict;
pub mod result;
pub mod scenario;
pub mod sweep;
pub mod table;
#[cfg(test)]
mod testing;
