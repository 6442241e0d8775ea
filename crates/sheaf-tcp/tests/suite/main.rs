//! Integration tests of TCP: the conformance suite, and real sockets, processes and limits.

#![allow(clippy::unwrap_used, reason = "a test stops where its arrangement fails")]

mod certificates;
mod conformance;
mod descriptors;
mod guests;
mod key;
mod nodes;
mod rails;
mod tls;
mod wire;
