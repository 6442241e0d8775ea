//! The C interface: the header, and programs that are compiled with it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop where it cannot go on; one that is skipped says why"
)]

mod common;
mod header;
mod joining;
mod programs;
