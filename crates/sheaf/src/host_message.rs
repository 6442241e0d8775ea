//! Messages between a run and the process that looks after its nodes on another host.
//!
//! The run gives orders, the process on the host reports. Both are JSON. They go over the link to the agent of that host, which passes them
//! on: to its process over standard input, and back from standard output. There, each is a frame: its length, what becomes of it when
//! there is no room, and the JSON.

use crate::node_process::{Life, ProcessEnd};
use crate::steered::NodeRequest;
use serde::{Deserialize, Serialize};
use sheaf_store::run::CodeRecord;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;

/// Longest message, in bytes: a configuration, or the manifest of a run.
pub(crate) const LONGEST: usize = 16 << 20;

/// An order of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostOrder {
    /// Asks the agent about its host. Nothing else is wanted.
    Describe,
    /// First order for a run: prepare the nodes of this host.
    Prepare(Box<HostRun>),
    /// Prepare this run, which is to follow the present one without a gap. The nodes are asked when this is ready.
    PrepareNext(Box<HostRun>),
    /// The run that was prepared begins: nodes that are started from now on are started in it. `following` is the run in which the nodes have
    /// met, and the first event of this one.
    Begin { run: u32, following: (u32, u64) },
    /// Start the process of a node, for the first time or again. `start` is the number of the start, which its end has too.
    Start { node: String, start: u32 },
    /// Send a signal, by its number, to the process of a node.
    Signal { node: String, signal: i32 },
    /// Pass a request to a node.
    Request { node: String, request: NodeRequest },
    /// The nodes have ended their part in a run, and this is its manifest, as JSON: close the part of the run on this host. `is_last` is whether
    /// the nodes are to end as well, because they do not go on with another run.
    Close { run: u32, manifest: String, is_last: bool },
    /// There is no such run: remove what was prepared for it. `is_last` as above.
    Abandon { run: u32, is_last: bool },
}

/// A run, as a host has to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostRun {
    /// Name and version of the software that makes the run.
    pub(crate) software: String,
    pub(crate) number: u32,
    /// When it was created, in nanoseconds since 1970.
    pub(crate) created_ns: u64,
    /// Host and number of the process that makes the run.
    pub(crate) host: String,
    pub(crate) process: u32,
    /// The configuration in force.
    pub(crate) configuration: String,
    /// Names of the nodes that this host starts.
    pub(crate) nodes: Vec<String>,
    /// Digits of the key by which nodes know each other, where the configuration names none.
    pub(crate) key: Option<String>,
    /// Whether somebody wants the metrics of the nodes.
    pub(crate) metrics: bool,
    /// Whether a controller steers the event manager.
    pub(crate) is_steered: bool,
    /// Whether the run is in progress, and the host comes back to it.
    pub(crate) is_back: bool,
    /// Whether the nodes may go on with a run that follows without a gap.
    #[serde(default)]
    pub(crate) goes_on: bool,
    /// The run in which the nodes have met, and the first event of this one, if it is one that follows.
    #[serde(default)]
    pub(crate) following: Option<(u32, u64)>,
}

/// A report of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostReport {
    /// Answer of the agent to [`HostOrder::Describe`].
    Described { software: String, host: String },
    /// The agent has started a process for the run.
    Taken,
    /// Everything is prepared for a run.
    Ready(HostReady),
    /// The run that is to follow cannot be prepared here. The present one goes on.
    NotPrepared { run: u32, why: String },
    /// The nodes cannot be started here.
    Refused(String),
    /// A record of a node, without its separator.
    Record { node: String, record: String },
    /// A message of the process that looks after the nodes, as a line of the log.
    Message(String),
    /// The process of a node handles signals.
    HandlesSignals { node: String },
    /// The process of a node has ended that had this number of the start; `text` is what it has printed besides records.
    Ended { node: String, start: u32, end: ProcessEnd, text: String },
    /// Signs of life of the processes.
    Lives(Vec<(String, Life)>),
    /// The run must end, because the disk is nearly full.
    NoSpace { run: u32, why: String },
    /// The part of the run on this host is closed; its manifest as JSON, if it has one of its own.
    Closed { run: u32, part: Option<String> },
    /// It could not be closed.
    NotClosed { run: u32, why: String },
    /// The process that looked after the nodes has ended.
    Gone(String),
}

/// A host that has prepared its nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostReady {
    /// Number of the run. An agent that does not know runs without a gap gives none.
    #[serde(default)]
    pub(crate) run: Option<u32>,
    pub(crate) host: String,
    /// Directory of the run on this host, if anything is written.
    pub(crate) directory: Option<PathBuf>,
    /// Whether that is the directory of the run itself, on a disk of several hosts.
    pub(crate) is_shared: bool,
    /// The code that the run loads there.
    pub(crate) code: Vec<CodeRecord>,
}

impl HostReport {
    /// Returns whether it may be lost where the link is slow or cut: metrics and signs of life come again.
    pub(crate) fn may_be_lost(&self) -> bool {
        match self {
            Self::Record { record, .. } => record.starts_with("{\"values\""),
            Self::Lives(_) => true,
            _ => false,
        }
    }
}

/// Bytes in front of a message: its length in little-endian order, and whether it may be lost.
const HEAD: usize = 5;

/// Writes a message as a frame.
pub(crate) fn write_frame(to: &mut impl Write, message: &[u8], may_be_lost: bool) -> io::Result<()> {
    let length = u32::try_from(message.len()).ok().filter(|_| message.len() <= LONGEST);
    let Some(length) = length else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the message is too long"));
    };
    let mut frame = Vec::with_capacity(HEAD + message.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.push(u8::from(may_be_lost));
    frame.extend_from_slice(message);
    to.write_all(&frame)?;
    to.flush()
}

/// Reads a message and whether it may be lost; `None` at the end.
pub(crate) fn read_frame(from: &mut impl Read) -> io::Result<Option<(Vec<u8>, bool)>> {
    let mut head = [0; HEAD];
    let mut read = 0;
    while read < HEAD {
        match from.read(&mut head[read..]) {
            Ok(0) if read == 0 => return Ok(None),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [a, b, c, d, may_be_lost] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > LONGEST {
        return Err(io::Error::new(ErrorKind::InvalidData, "the message is too long"));
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message)?;
    Ok(Some((message, may_be_lost != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_a_cut_one_is_an_error() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, b"one", false).expect("memory takes everything");
        write_frame(&mut pipe, b"", true).expect("memory takes everything");
        let mut from = &pipe[..];
        assert_eq!(read_frame(&mut from).expect("it is whole"), Some((b"one".to_vec(), false)));
        assert_eq!(read_frame(&mut from).expect("it is whole"), Some((Vec::new(), true)));
        assert_eq!(read_frame(&mut from).expect("the end is none"), None);
        for cut in [1, HEAD, HEAD + 2] {
            assert!(read_frame(&mut &pipe[..cut]).is_err(), "{cut}");
        }
        let longest = u32::MAX.to_le_bytes();
        assert!(read_frame(&mut [&longest[..], &[0]].concat().as_slice()).is_err(), "memory is bounded");
    }

    #[test]
    fn only_values_and_signs_of_life_may_be_lost() {
        let record = |record: &crate::relay::Record| HostReport::Record {
            node: "bu0".into(),
            record: serde_json::to_string(record).expect("a record is JSON"),
        };
        assert!(record(&crate::relay::Record::Values { at_ns: 1, values: vec![2] }).may_be_lost());
        assert!(!record(&crate::relay::Record::Series(Vec::new())).may_be_lost());
        assert!(!record(&crate::relay::Record::NodeEnded).may_be_lost());
        assert!(HostReport::Lives(Vec::new()).may_be_lost());
        assert!(!HostReport::Closed { run: 1, part: None }.may_be_lost());
    }
}
