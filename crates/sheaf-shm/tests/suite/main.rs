//! Integration tests of shared memory: the conformance suite, and real processes and limits.

#![allow(clippy::unwrap_used, reason = "a test stops where its arrangement fails")]

mod conformance;
mod descriptors;
mod mixed;
mod processes;
