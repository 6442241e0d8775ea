//! Libraries and scripts of a run.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A library or script of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Code {
    pub(crate) table: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// CRC-32C, in hexadecimal digits.
    pub(crate) crc32c: String,
}

impl Code {
    pub(super) fn of(record: sheaf_store::run::CodeRecord) -> Self {
        Self {
            table: record.table,
            path: record.path,
            bytes: record.bytes,
            crc32c: format!("{:08x}", record.crc32c),
        }
    }
}
