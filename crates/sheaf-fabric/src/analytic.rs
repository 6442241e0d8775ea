//! Closed formulas: bounds, and exact results where theory has them.
//!
//! | module | holds |
//! |---|---|
//! | `saturation` | one switch with queues at its inputs: Karol, Hluchyj and Morgan 1987, solved exactly |
//! | `banyan` | layers of small switches without buffers: Patel 1981, Kruskal and Snir 1983 |

pub mod banyan;
pub mod saturation;
