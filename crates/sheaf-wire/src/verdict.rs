//! Verdict of a filter on an event: whether it is wanted, tags that give the reasons, and a payload that is kept with
//! it.

use bytes::Bytes;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The most bytes that a filter may give along with an event: 1 MiB.
pub const MAX_VERDICT_PAYLOAD_BYTES: usize = 1 << 20;

/// A set of up to 63 tags that the configuration names, and one that Sheaf itself gives.
///
/// Bit `i` is the `i`-th name of `[filter] tags`, from 0. Files have the names in their metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags(pub u64);

impl Tags {
    /// No tag.
    pub const NONE: Self = Self(0);
    /// Every tag.
    pub const ALL: Self = Self(u64::MAX);
    /// The filter gave no verdict (it crashed, ran out of time or returned an invalid result): the event is stored as
    /// it was built, for later inspection.
    pub const QUARANTINED: Self = Self(1 << 63);
    /// The name of [`Tags::QUARANTINED`]. The configuration gives it to no other tag.
    pub const QUARANTINED_NAME: &str = "quarantined";
    /// Maximum number of tags that the configuration may name.
    pub const MAX_NAMED: usize = 63;

    /// The tag number `index`, from 0; `None` beyond the last that can be named.
    #[must_use]
    pub const fn named(index: usize) -> Option<Self> {
        if index < Self::MAX_NAMED { Some(Self(1 << index)) } else { None }
    }

    /// The tag that is called `name`, where `names` are those of the configuration.
    #[must_use]
    pub fn by_name<S: AsRef<str>>(name: &str, names: &[S]) -> Option<Self> {
        if name == Self::QUARANTINED_NAME {
            return Some(Self::QUARANTINED);
        }
        names.iter().position(|other| other.as_ref() == name).and_then(Self::named)
    }

    /// Returns whether there is no tag.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all tags of `other` are in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the two have a tag in common.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The names of the tags, where `names` are those of the configuration: in the order of their bits. A tag without
    /// a name is `bit17`.
    pub fn names<'a, S: AsRef<str>>(self, names: &'a [S]) -> impl Iterator<Item = TagName<'a>> {
        (0..64).filter(move |bit| self.0 >> bit & 1 == 1).map(move |bit| {
            if Self(1 << bit) == Self::QUARANTINED {
                return TagName::Named(Self::QUARANTINED_NAME);
            }
            names.get(bit as usize).map_or(TagName::Bit(bit), |name| TagName::Named(name.as_ref()))
        })
    }
}

impl BitOr for Tags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Tags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The name of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagName<'a> {
    /// By its name.
    Named(&'a str),
    /// By its bit: the configuration has no name for it.
    Bit(u8),
}

impl fmt::Display for TagName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Bit(bit) => write!(f, "bit{bit}"),
        }
    }
}

/// Verdict of a filter on an event.
///
/// ```
/// use sheaf_wire::verdict::{Tags, Verdict};
///
/// let verdict = Verdict::accept().with_tags(Tags(0b1)).with_payload(42_u32.to_le_bytes().to_vec());
/// assert!(verdict.accepted && !Verdict::reject().accepted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the event is to be stored.
    pub accepted: bool,
    /// Reasons and destinations.
    pub tags: Tags,
    /// Payload of the filter, at most [`MAX_VERDICT_PAYLOAD_BYTES`]. It is stored with the event.
    pub payload: Bytes,
}

impl Verdict {
    /// The event is to be stored.
    #[must_use]
    pub const fn accept() -> Self {
        Self { accepted: true, tags: Tags::NONE, payload: Bytes::new() }
    }

    /// The event is not wanted.
    #[must_use]
    pub const fn reject() -> Self {
        Self { accepted: false, tags: Tags::NONE, payload: Bytes::new() }
    }

    /// Returns the verdict on an event that the filter could not judge: stored as it was built, tagged
    /// [`Tags::QUARANTINED`].
    #[must_use]
    pub const fn quarantine() -> Self {
        Self { accepted: true, tags: Tags::QUARANTINED, payload: Bytes::new() }
    }

    /// The same with these tags.
    #[must_use]
    pub fn with_tags(self, tags: Tags) -> Self {
        Self { tags, ..self }
    }

    /// The same with this payload.
    #[must_use]
    pub fn with_payload(self, payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), ..self }
    }
}

/// Reason why a filter has no verdict on an event, or cannot be made, in words for the operator. An event without a
/// verdict is not lost: it is stored as it was built and tagged [`Tags::QUARANTINED`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterFailure(pub String);

impl FilterFailure {
    /// A failure for this reason.
    #[must_use]
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

#[cfg(test)]
mod tests;
