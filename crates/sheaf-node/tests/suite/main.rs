//! Nodes together.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails, fails its test; a test that is skipped says why"
)]

mod small_world;
