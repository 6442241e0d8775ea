//! Closed formulas: bounds, and exact results where theory has them.
//!
//! | module | holds |
//! |---|---|
//! | `saturation` | one switch with queues at its inputs: Karol, Hluchyj and Morgan 1987, solved exactly |
//! | `banyan` | layers of small switches without buffers: Patel 1981, Kruskal and Snir 1983 |
//! | `load` | the load of each link, and which permutations conflict with themselves |
//! | `bound` | all of these for one scenario: upper bounds, and exact values |

pub mod banyan;
pub mod bound;
pub mod load;
pub mod saturation;

pub use bound::{Bound, bound, exact};
