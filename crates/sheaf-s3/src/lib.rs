//! Closed event files in an S3-compatible object store.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | which store, which bucket, how |
//! | [`client`] | one request each: put, parts, head, get, delete |
//! | [`transfer`] | a file to an object: in one request or in parts, and verified |
//! | [`uploader`] | threads that do so for a run, and try again for as long as it takes |
//! | [`error`] | what may go wrong, and whether it is worth trying again soon |
//!
//! Requests are signed by `rusty-s3` and sent by `ureq`; nothing else here knows HTTP. The crate does not know runs, streams or
//! what is in a file; which file goes where is said by the command, and when an event counts as stored by `sheaf-store`.

#![forbid(unsafe_code)]

pub mod client;
pub mod error;
pub mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transfer;
pub mod uploader;

pub use client::Client;
pub use error::ObjectError;
pub use settings::{Secrets, Settings, Verification};
pub use uploader::Uploader;

#[cfg(test)]
mod tests;
