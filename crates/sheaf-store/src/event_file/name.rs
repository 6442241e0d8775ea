//! The names of event files.

use sheaf_wire::event_file::EXTENSION;
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::fmt;

/// What the name of an event file says: `run000001_bu0_s18c3a5d2e4f60718_0000.sheaf` is part 0 of what session
/// `18c3a5d2e4f60718` of builder 0 wrote in run 1. Names sort by run, node, session and part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// The run.
    pub run: RunNumber,
    /// The writing node.
    pub node: NodeId,
    /// Its session.
    pub session: SessionId,
    /// Which file of the session, from 0.
    pub part: u32,
}

impl FileName {
    /// Reads a file's name; `None` for a name of another shape.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
        let mut words = stem.split('_');
        let run = words.next()?.strip_prefix("run")?.parse().ok()?;
        let node = parse_node(words.next()?)?;
        let session = u64::from_str_radix(words.next()?.strip_prefix('s')?, 16).ok()?;
        let part = words.next()?.parse().ok()?;
        let parsed = Self { run: RunNumber(run), node, session: SessionId(session), part };
        // One name per file: a leading plus or other padding is another file.
        (words.next().is_none() && parsed.to_string() == name).then_some(parsed)
    }
}

/// Reads the default name of a node, as [`NodeId`] prints it.
pub(crate) fn parse_node(name: &str) -> Option<NodeId> {
    let node = if name == "evm" {
        NodeId::MANAGER
    } else if let Some(index) = name.strip_prefix("ru") {
        NodeId::readout(index.parse().ok()?)
    } else {
        NodeId::builder(name.strip_prefix("bu")?.parse().ok()?)
    };
    (node.to_string() == name).then_some(node)
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run{:06}_{}_s{:016x}_{:04}.{EXTENSION}", self.run.0, self.node, self.session.0, self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_round_trip(run: u32, index: u16, session: u64, part: u32) {
            let name = FileName {
                run: RunNumber(run),
                node: NodeId::builder(index),
                session: SessionId(session),
                part,
            };
            prop_assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn any_text_is_a_name_or_not(text in ".*") {
            if let Some(name) = FileName::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    fn the_name_looks_as_documented() {
        let name = FileName::parse("run000001_bu0_s18c3a5d2e4f60718_0000.sheaf").unwrap();
        assert_eq!((name.run, name.node, name.part), (RunNumber(1), NodeId::builder(0), 0));
        assert_eq!(FileName::parse("run1_bu0_s18c3a5d2e4f60718_0000.sheaf"), None);
        assert_eq!(FileName::parse("source-3.sfrag"), None);
    }
}
