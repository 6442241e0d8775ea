//! Errors of transfers to an object store.

use sheaf_wire::ByteCount;
use std::io;
use std::path::PathBuf;

/// Error of the object store. No text contains a signature.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The environment lacks the credentials.
    #[error("the environment variable {variable} is not set, which the object store needs")]
    Credentials {
        /// Its name.
        variable: &'static str,
    },
    /// The store cannot be addressed that way.
    #[error(
        "`{endpoint}` is not the address of an object store: {error}; an example is https://s3.example.org"
    )]
    Endpoint {
        /// Endpoint that was given.
        endpoint: String,
        /// Description of the error.
        error: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A file differs from what was written.
    #[error("{path} differs from what was written: its CRC-32C is {found:08x}, it was {expected:08x}")]
    Changed {
        /// The file.
        path: PathBuf,
        /// Checksum that its writer computed.
        expected: u32,
        /// Checksum of the bytes read.
        found: u32,
    },
    /// The store was not reached, or the connection ended.
    #[error("{request}: {error}")]
    Connection {
        /// Method and address.
        request: String,
        /// Error of the client.
        error: String,
    },
    /// The store returned an error.
    #[error("{request}: the object store says {status} {code}: {message}")]
    Refused {
        /// Method and address.
        request: String,
        /// The status of HTTP.
        status: u16,
        /// The store's own error code.
        code: String,
        /// And its explanation.
        message: String,
    },
    /// The store's answer is incomplete.
    #[error("{request}: the object store's answer has no {missing}")]
    Answer {
        /// Method and address.
        request: String,
        /// Element that is missing.
        missing: &'static str,
    },
    /// The object differs from the data that were sent.
    #[error("object {key} differs from the data sent: it has {found}, expected {expected}")]
    Different {
        /// The object.
        key: String,
        /// Its size or checksum.
        found: String,
        /// Expected value.
        expected: String,
    },
    /// The store keeps no checksum.
    #[error(
        "the object store keeps no CRC-32C of object {key}; set `object_store.verify` to \"read\" to have objects read back"
    )]
    NoChecksum {
        /// The object.
        key: String,
    },
    /// The file is larger than an object may be.
    #[error("{path} has {bytes} bytes, more than 10,000 parts of 5 GiB")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: ByteCount,
    },
    /// The work was ended.
    #[error("the upload of {key} was abandoned because the run ends")]
    Ended {
        /// The object.
        key: String,
    },
}

impl ObjectError {
    /// Returns whether this error may be temporary, as far as known: a network or a store that is down or busy. Other
    /// errors need a correction.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || matches!(status, 408 | 429),
            _ => false,
        }
    }
}
