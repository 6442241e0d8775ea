//! Scenarios, sweeps, calibration and prediction for the switching-network simulator.
//!
//! `sheaf-fabric` simulates one scenario; this crate reads scenario files, runs their sweeps on all processors, and
//! makes tables, JSON and plots of the reports.
//!
//! | module | holds |
//! |---|---|
//! | `scenario` | the file format: keys, errors with line and key, sweeps |

#![forbid(unsafe_code)]

pub mod scenario;
