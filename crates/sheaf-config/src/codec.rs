//! Text of a knob's value in the file: parsing, limits, writing, and their description.
//!
//! A codec only reports *that* it refuses a value, and the reason. The caller knows file, line and key, and writes the
//! message.

mod exact;
mod field;
mod list;
mod number;
mod optional;
mod text;
mod time;
mod word;

pub(crate) use exact::{drift, exact_time, period, time_unit, utc_time};
pub use field::{Field, Mark};
pub(crate) use field::{field, mark_list};
pub(crate) use list::{id_list, id_range, source_id, source_list};
pub(crate) use number::{bit_rate, bytes, integer, real, show_bytes, signed, whole};
pub(crate) use optional::{maybe, zero_is_none};
pub(crate) use text::{
    address, address_list, command_line, database_url, interface_list, name, name_list, node_pattern_list,
    object_prefix, parameters, path, prose, quote, setting_list, symbol, tag_choice, tag_list, variable_list,
    web_address,
};
pub(crate) use time::{microseconds, milliseconds, seconds};
pub(crate) use word::{pick, switch, words};

use toml::de::DeValue;

/// Why a value was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is of another type.
    Type,
    /// It is of the right type but not accepted.
    Value,
}

/// Conversion between one knob's value and its text in the file.
pub(crate) trait Codec {
    /// The value as the struct holds it.
    type Value;
    /// The kind of value, for the reference page.
    fn type_name(&self) -> String;
    /// Limits alone, for the reference page; empty if the type implies them.
    fn limits(&self) -> String;
    /// Describes the accepted values; the words finish the sentence "this should be ...".
    fn expected(&self) -> String;
    /// Whether the value is a source or a list of sources, so that names may stand for them.
    fn names_sources(&self) -> bool {
        false
    }
    /// The value in a file.
    fn read(&self, value: &DeValue<'_>) -> Result<Self::Value, Refusal>;
    /// Whether a value is within the limits, for values that no file was read for.
    fn accepts(&self, value: &Self::Value) -> bool;
    /// The value as TOML, such that [`Codec::read`] gives it back; `None` where it is not set.
    fn write(&self, value: &Self::Value) -> Option<String>;
}

/// Returns `codec` with its type fixed, so that definitions need not repeat the type.
pub(crate) fn of<T, C: Codec<Value = T>>(codec: C) -> C {
    codec
}

#[cfg(test)]
mod tests;
