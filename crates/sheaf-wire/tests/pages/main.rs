//! Pages of the reference and of the concepts agree with the code: their tables have the fields of the layouts and all codes, and their
//! examples equal the encoder's output and can be decoded.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

mod datagrams;
mod ethernet;
mod farm;
mod ledger;
mod page;
mod protocol;
mod source_protocol;
mod spool;
mod trigger_protocol;
