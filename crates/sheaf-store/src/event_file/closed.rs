//! Description of a closed file.

use super::name::StreamName;
use crate::hexadecimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::str::FromStr;

/// A closed event file: its expected properties, for later verification. In JSON the checksum is text of 8 hexadecimal
/// digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedFile {
    /// The file's name, without directory.
    pub file: String,
    /// The stream that it is of.
    #[serde(with = "as_text")]
    pub stream: StreamName,
    /// Its events.
    pub events: u64,
    /// Its size.
    pub bytes: u64,
    /// The CRC-32C of all its bytes. `None` if a write failed and the writer lost count: to obtain it, read the
    /// file.
    #[serde(with = "hexadecimal::optional")]
    pub crc32c: Option<u32>,
    /// URL of a complete copy in an object store, such as `s3://bucket/run000001/...`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

mod as_text {
    use super::{Deserialize, Deserializer, FromStr, Serializer, StreamName};
    use serde::de::Error as _;

    pub(super) fn serialize<S: Serializer>(name: &StreamName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StreamName, D::Error> {
        StreamName::from_str(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}
