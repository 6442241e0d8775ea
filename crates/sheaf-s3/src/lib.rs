//! Closed event files in an S3-compatible object store.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | store, bucket and options |
//! | [`client`] | one request each: put, parts, head, get, delete |
//! | [`transfer`] | uploads a file to an object, in one request or in parts, and verifies it |
//! | [`uploader`] | threads that upload the files of a run, and retry without limit |
//! | [`error`] | errors, and whether a retry may soon succeed |
//!
//! Requests are signed by `rusty-s3` and sent by `ureq`; nothing else here knows HTTP. The crate does not know runs,
//! streams or the content of files; the command selects the destination of each file, and `sheaf-store` decides when an
//! event counts as stored.

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
