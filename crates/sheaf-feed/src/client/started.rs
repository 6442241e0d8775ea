//! A client that a run has started.

use super::{ClientOptions, FeedError, SourceClient};
use crate::environment::{address, name, sources};

impl SourceClient {
    /// Connects to the readout unit that has started this program, for the sources that it is to feed. Fragments carry checksums
    /// and are kept until they are accepted.
    ///
    /// # Errors
    /// If no run has started this program, and as [`SourceClient::connect`].
    pub fn from_environment() -> Result<Self, FeedError> {
        let options = ClientOptions {
            sources: sources()?,
            name: name().unwrap_or_else(|| format!("process {}", std::process::id())),
            checksum: true,
            keep: true,
            ..ClientOptions::default()
        };
        Self::connect(&address()?, options)
    }
}
