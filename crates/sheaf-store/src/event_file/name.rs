//! The names of event files.

use sheaf_wire::event_file::EXTENSION;
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::fmt;
use std::str::FromStr;

/// Extension of an HDF5 file made from an event file.
pub(crate) const HDF5_EXTENSION: &str = "h5";

/// The name of a stream of accepted events: 1 to 32 lower-case letters, digits and hyphens, the first a letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Box<str>);

/// The problem with the name of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a stream name; a name has 1 to 32 lower-case letters, digits and hyphens, the first a letter"
)]
pub struct WrongStreamName(pub String);

impl StreamName {
    /// The stream of events that no other takes.
    pub const DEFAULT: &str = "default";
    /// The longest name, in characters.
    pub const MAX_CHARS: usize = 32;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the stream of events that no other stream takes.
    #[must_use]
    pub fn is_default(&self) -> bool {
        &*self.0 == Self::DEFAULT
    }
}

impl Default for StreamName {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl FromStr for StreamName {
    type Err = WrongStreamName;

    fn from_str(name: &str) -> Result<Self, WrongStreamName> {
        let right = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let first = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if first && name.len() <= Self::MAX_CHARS && name.bytes().all(right) {
            Ok(Self(name.into()))
        } else {
            Err(WrongStreamName(name.chars().take(2 * Self::MAX_CHARS).collect()))
        }
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name of an event file of a builder or of an output node (`out0`). `run000001_bu0_s18c3a5d2e4f60718_0000.sheaf` is
/// part 0 of the stream `default` of session `18c3a5d2e4f60718` of builder 0 in run 1, and
/// `run000001_bu0_s18c3a5d2e4f60718_physics_0000.sheaf` that of the stream `physics`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// The run.
    pub run: RunNumber,
    /// The writing node.
    pub node: NodeId,
    /// Its session.
    pub session: SessionId,
    /// The stream.
    pub stream: StreamName,
    /// Which file of the session and the stream, from 0.
    pub part: u32,
}

impl FileName {
    /// Reads a file's name; `None` for a name of another shape.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::parse_with(name, EXTENSION)
    }

    /// As [`FileName::parse`], of a file with another extension.
    pub(crate) fn parse_with(name: &str, extension: &str) -> Option<Self> {
        let stem = name.strip_suffix(extension)?.strip_suffix('.')?;
        let (owner, rest) = SessionName::take(stem)?;
        let (stream, part) = match rest.split_once('_') {
            Some((stream, part)) => {
                (stream.parse().ok().filter(|name: &StreamName| !name.is_default())?, part)
            }
            None => (StreamName::default(), rest),
        };
        let part = part.parse().ok()?;
        let parsed = Self { run: owner.run, node: owner.node, session: owner.session, stream, part };
        // One name per file: a leading plus or other padding is another file.
        (parsed.stem() == stem).then_some(parsed)
    }

    /// The name without its extension.
    #[must_use]
    pub fn stem(&self) -> String {
        let owner = self.owner();
        if self.stream.is_default() {
            format!("{owner}_{:04}", self.part)
        } else {
            format!("{owner}_{}_{:04}", self.stream, self.part)
        }
    }

    /// As [`FileName::parse`], of an event file or of the HDF5 file that was made of it.
    #[must_use]
    pub fn parse_either(name: &str) -> Option<Self> {
        Self::parse(name).or_else(|| Self::parse_hdf5(name))
    }

    /// As [`FileName::parse`], of the HDF5 file that was made of an event file.
    pub(crate) fn parse_hdf5(name: &str) -> Option<Self> {
        Self::parse_with(name, HDF5_EXTENSION)
    }

    /// The name of the HDF5 file that is made of it.
    #[must_use]
    pub fn hdf5(&self) -> String {
        format!("{}.{HDF5_EXTENSION}", self.stem())
    }

    /// Whose file it is.
    #[must_use]
    pub fn owner(&self) -> SessionName {
        SessionName { run: self.run, node: self.node, session: self.session }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{EXTENSION}", self.stem())
    }
}

/// A session of a builder in a run, as the names of its files begin: `run000001_bu0_s18c3a5d2e4f60718`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionName {
    /// The run.
    pub run: RunNumber,
    /// The writing node.
    pub node: NodeId,
    /// Its session.
    pub session: SessionId,
}

impl SessionName {
    /// Reads a session's name; `None` for a name of another shape.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::take(&format!("{name}_")).map(|(owner, _)| owner).filter(|owner| owner.to_string() == name)
    }

    /// Reads a session's name and an underscore, and returns the rest.
    fn take(text: &str) -> Option<(Self, &str)> {
        let mut words = text.splitn(4, '_');
        let run = words.next()?.strip_prefix("run")?.parse().ok()?;
        let node = parse_node(words.next()?)?;
        let session = u64::from_str_radix(words.next()?.strip_prefix('s')?, 16).ok()?;
        Some((Self { run: RunNumber(run), node, session: SessionId(session) }, words.next()?))
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run{:06}_{}_s{:016x}", self.run.0, self.node, self.session.0)
    }
}

/// Reads the default name of a node, as [`NodeId`] prints it.
pub(crate) fn parse_node(name: &str) -> Option<NodeId> {
    let node = if name == "evm" {
        NodeId::MANAGER
    } else if let Some(index) = name.strip_prefix("ru") {
        NodeId::readout(index.parse().ok()?)
    } else if let Some(index) = name.strip_prefix("out") {
        NodeId::output(index.parse().ok()?)
    } else {
        NodeId::builder(name.strip_prefix("bu")?.parse().ok()?)
    };
    (node.to_string() == name).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_round_trip(run: u32, index: u16, is_output: bool, session: u64, part: u32, stream in "[a-z][a-z0-9-]{0,31}") {
            let name = FileName {
                run: RunNumber(run),
                node: if is_output { NodeId::output(index) } else { NodeId::builder(index) },
                session: SessionId(session),
                stream: stream.parse().unwrap(),
                part,
            };
            prop_assert_eq!(SessionName::parse(&name.owner().to_string()), Some(name.owner()));
            prop_assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn any_text_is_a_name_or_not(text in ".*") {
            if let Some(name) = FileName::parse(&text) {
                prop_assert_eq!(name.to_string(), text.clone());
            }
            if let Ok(name) = text.parse::<StreamName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    fn the_name_looks_as_documented() {
        let name = FileName::parse("run000001_bu0_s18c3a5d2e4f60718_0000.sheaf").unwrap();
        assert_eq!((name.run, name.node, name.part), (RunNumber(1), NodeId::builder(0), 0));
        assert!(name.stream.is_default());
        let name = FileName::parse("run000001_bu0_s18c3a5d2e4f60718_physics_0012.sheaf").unwrap();
        assert_eq!((name.stream.as_str(), name.part), ("physics", 12));
        assert_eq!(FileName::parse("run000001_bu0_s18c3a5d2e4f60718_default_0000.sheaf"), None);
        assert_eq!(FileName::parse("run1_bu0_s18c3a5d2e4f60718_0000.sheaf"), None);
        assert_eq!(FileName::parse("source-3.sfrag"), None);
    }

    #[test]
    fn a_name_of_a_stream_is_safe_in_the_name_of_a_file() {
        for wrong in ["", "Physics", "7up", "a_b", "a/b", "..", "-a", &"a".repeat(33)] {
            assert!(wrong.parse::<StreamName>().is_err(), "{wrong}");
        }
    }
}
