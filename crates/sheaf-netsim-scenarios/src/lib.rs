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
//! | `result` | results of a sweep: averaged over seeds, and as JSON |
//! | `table` | results as text |
//! | `plots` | results as plots |
//! | `measurements`, `calibrate`, `fit` | properties of hosts from measurements of a small system |
//! | `model` | the paper model: ports, messages and bytes of a described detector |
//! | `paper` | published figures compared with simulated ones |
//! | `predict` | prediction of a large system with such hosts, as a band |

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
