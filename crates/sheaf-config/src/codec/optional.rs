//! Values that need not be there.

use super::number::number;
use super::{Codec, Refusal};
use toml::de::DeValue;

/// A value for which 0 in the file means "none".
pub(crate) fn zero_is_none<C: Codec>(inner: C) -> ZeroIsNone<C> {
    ZeroIsNone(inner)
}

/// See [`zero_is_none`].
pub(crate) struct ZeroIsNone<C>(C);

impl<C: Codec> Codec for ZeroIsNone<C> {
    type Value = Option<C::Value>;

    fn type_name(&self) -> String {
        self.0.type_name()
    }

    fn limits(&self) -> String {
        format!("0, or {}", self.0.limits())
    }

    fn expected(&self) -> String {
        format!("0, or {}", self.0.expected())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Self::Value, Refusal> {
        if number(value) == Ok(0.0) && (value.is_integer() || self.0.type_name() == "number") {
            return Ok(None);
        }
        self.0.read(value).map(Some)
    }

    fn accepts(&self, value: &Self::Value) -> bool {
        value.as_ref().is_none_or(|value| self.0.accepts(value))
    }

    fn write(&self, value: &Self::Value) -> Option<String> {
        match value {
            Some(value) => self.0.write(value),
            None => Some("0".into()),
        }
    }
}

/// A value that may be left out and has no default.
pub(crate) fn maybe<C: Codec>(inner: C) -> Maybe<C> {
    Maybe(inner)
}

/// See [`maybe`].
pub(crate) struct Maybe<C>(C);

impl<C: Codec> Codec for Maybe<C> {
    type Value = Option<C::Value>;

    fn type_name(&self) -> String {
        self.0.type_name()
    }

    fn limits(&self) -> String {
        self.0.limits()
    }

    fn expected(&self) -> String {
        self.0.expected()
    }

    fn names_sources(&self) -> bool {
        self.0.names_sources()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Self::Value, Refusal> {
        self.0.read(value).map(Some)
    }

    fn accepts(&self, value: &Self::Value) -> bool {
        value.as_ref().is_none_or(|value| self.0.accepts(value))
    }

    fn write(&self, value: &Self::Value) -> Option<String> {
        value.as_ref().and_then(|value| self.0.write(value))
    }
}
