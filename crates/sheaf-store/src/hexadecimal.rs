//! Checksums in JSON: text of 8 hexadecimal digits. For `#[serde(with = "...")]`.

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(checksum: &u32, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{checksum:08x}"))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    parse(&String::deserialize(from)?)
}

fn parse<E: serde::de::Error>(text: &str) -> Result<u32, E> {
    u32::from_str_radix(text, 16)
        .map_err(|_| E::custom(format_args!("`{text}` is not a checksum of 8 hexadecimal digits")))
}

/// Of checksums that may not be known: `null`.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Serializer, parse};

    pub(crate) fn serialize<S: Serializer>(checksum: &Option<u32>, to: S) -> Result<S::Ok, S::Error> {
        match checksum {
            Some(checksum) => super::serialize(checksum, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
        Option::<String>::deserialize(from)?.map(|text| parse(&text)).transpose()
    }
}
