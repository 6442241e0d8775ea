//! Recovery from loss over real networks: the conformance suite, with and without loss.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails, fails its test; a test that is skipped says why"
)]

mod ethernet;
mod udp;
