//! Which object store, and how it is used.

use crate::error::ObjectError;
use sheaf_wire::{ByteCount, Nanos};
use std::fmt;
use std::path::PathBuf;

/// Method of verifying that an object equals the uploaded data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// The store is asked for the size and the CRC-32C of the object, which it keeps as metadata.
    #[default]
    Checksum,
    /// The object is read back and its CRC-32C is computed here: for stores that do not keep this checksum.
    Read,
}

/// Which object store, and how it is used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URL of the store, such as `https://s3.example.org:9000`.
    pub endpoint: String,
    /// The bucket, which exists.
    pub bucket: String,
    /// Prefix of the names of all objects, without a slash at either end; may be empty.
    pub prefix: String,
    /// The region that requests are signed for.
    pub region: String,
    /// Whether the bucket is a part of the path instead of the host name.
    pub path_style: bool,
    /// A larger file is sent in parts of this size. Each connection has one in memory.
    pub part: ByteCount,
    /// Number of files that are uploaded at a time.
    pub connections: usize,
    /// Timeout of a request.
    pub timeout: Nanos,
    /// Verification of uploads.
    pub verification: Verification,
    /// Certificates of the authorities that are trusted, in PEM; where it is not given, those that browsers trust.
    pub authorities: Option<PathBuf>,
}

/// Credentials. Printed without the secret.
#[derive(Clone)]
pub struct Secrets {
    pub(crate) key: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

impl Secrets {
    /// Makes credentials from an access key and its secret.
    pub fn new(key: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { key: key.into(), secret: secret.into(), token: None }
    }

    /// From `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where it is set, `AWS_SESSION_TOKEN`.
    ///
    /// # Errors
    /// [`ObjectError::Credentials`] with the name of the variable that is not set.
    pub fn from_environment() -> Result<Self, ObjectError> {
        let variable = |name: &'static str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.is_empty())
                .ok_or(ObjectError::Credentials { variable: name })
        };
        let mut secrets = Self::new(variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?);
        secrets.token = variable("AWS_SESSION_TOKEN").ok();
        Ok(secrets)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("key", &self.key).finish_non_exhaustive()
    }
}
