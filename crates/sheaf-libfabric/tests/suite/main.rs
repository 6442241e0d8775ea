//! Integration tests of libfabric.

#![cfg(all(feature = "libfabric", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test stops where its arrangement fails")]

mod conformance;
