//! Pages of the reference and of the concepts tell the truth: their tables have the fields of the layouts and all codes, their examples are
//! what encoding makes and what decoding understands.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

mod datagrams;
mod ethernet;
mod farm;
mod ledger;
mod page;
mod protocol;
