//! Pages of the reference tell the truth: their tables have the fields of the layouts and all codes, their examples are
//! what encoding makes and what decoding understands.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

mod datagrams;
mod ethernet;
mod farm;
mod page;
mod protocol;
