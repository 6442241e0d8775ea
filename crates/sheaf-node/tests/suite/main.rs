//! Nodes together, and endpoints over networks that lose.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails, fails its test; a test that is skipped says why"
)]

#[cfg(target_os = "linux")]
mod ethernet;
#[cfg(target_os = "linux")]
mod lossy;
mod small_world;
