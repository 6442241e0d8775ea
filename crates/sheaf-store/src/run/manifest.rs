//! The manifest of a run: `run.json` beside its event files.

use crate::event_file::{ClosedFile, parse_node};
use crate::hexadecimal;
use crate::kind::MANIFEST_NAME;
use crate::regular;
use crate::whole_file::write_whole;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{NodeId, RunNumber, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The last entry of the file: the CRC-32C of all its bytes, with zeros in place of these digits.
const CHECKSUM: &str = "\"manifest_crc32c\": \"";

const CHECKSUM_DIGITS: usize = 8;

const FORMAT: &str = "sheaf-run";
/// The version of the manifest, and the only one that is read.
pub const MANIFEST_VERSION: u32 = 1;

/// The metadata of a run directory. In JSON, nodes are names (`"bu0"`), sessions are hexadecimal text as in
/// the names of the files, and times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `"sheaf-run"`.
    format: String,
    /// The version of the manifest's shape.
    version: u32,
    /// The run.
    #[serde(with = "run_number")]
    pub run: RunNumber,
    /// The software that made the run, with its version.
    pub software: String,
    /// When the run was created.
    #[serde(rename = "created_ns", with = "timestamp")]
    pub created: Timestamp,
    /// Time when the run was closed; `None` before. Until then the counts below are not final.
    #[serde(rename = "ended_ns", with = "optional_timestamp")]
    pub ended: Option<Timestamp>,
    /// Why it ended, and whether all is well; `None` before, and in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndRecord>,
    /// The sessions of builders, or of output nodes, that stored events.
    pub sessions: Vec<SessionRecord>,
    /// The closed files of these sessions, where the files are in this directory and no one writes them any more.
    #[serde(default)]
    pub files: Vec<ClosedFile>,
    /// Objects of files that were removed when their sessions were sealed and that may still be in the object store,
    /// because the upload was incomplete. By file name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_objects: Vec<String>,
    /// The run's ledger. Its `stored`, if present, is the number of events in the directory.
    pub ledger: serde_json::Value,
    /// The text of the configuration that made the run.
    pub configuration: String,
    /// The name of that configuration: that of its file, without the extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_name: Option<String>,
    /// Where the configuration comes from, if the run was started like an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_from: Option<ConfigurationOrigin>,
    /// The hosts on which parts of the run are, if it is spread over several. The first is that of the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostRecord>,
    /// Which of these hosts, from 0, has the part that this manifest was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// The libraries and scripts that the run loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<CodeRecord>,
    /// The file of histograms that consumers published, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histograms: Option<HistogramsRecord>,
    /// The row of a sequence of run control that the run was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceRecord>,
    /// The hooks that were called for the run, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// The values from outside during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueRecord>,
    /// The commands that were given for the run, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandRecord>,
    /// Number of further commands that are not listed, because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub commands_left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A command that somebody gave for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// When it was given.
    #[serde(rename = "time_ns", with = "timestamp")]
    pub time: Timestamp,
    /// Who gave it.
    pub by: String,
    /// Where it came from, such as `page`, `hook logbook` or `SIGTERM`; `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Name of the command.
    pub command: String,
    /// Its object, such as a source or a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Comment of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Result: `done`, `failed` or `superseded`; `None` if it was not known when the run was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Result in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When the result was known.
    #[serde(
        rename = "ended_ns",
        default,
        skip_serializing_if = "Option::is_none",
        with = "optional_timestamp"
    )]
    pub ended: Option<Timestamp>,
}

/// A value from outside, such as a voltage, during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueRecord {
    /// Its name.
    pub name: String,
    /// Its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The value when the run began, or the first one after that. `None`, as all of these, if it was never known.
    pub first: Option<f64>,
    /// The last value.
    pub last: Option<f64>,
    /// The lowest value.
    pub minimum: Option<f64>,
    /// The highest value.
    pub maximum: Option<f64>,
    /// Mean over the time in which the value was known.
    pub mean: Option<f64>,
    /// Number of readings during the run.
    pub readings: u64,
    /// Time for which the value was not known, in milliseconds.
    pub unknown_ms: u64,
}

/// A host on which a part of a run is: the files of some of its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its name.
    pub host: String,
    /// Address of the agent that has started the nodes; `None` on the host where the run was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Directory of the part there.
    pub directory: PathBuf,
    /// The nodes whose files are there.
    #[serde(with = "nodes")]
    pub nodes: Vec<NodeId>,
}

/// The file of histograms in the directory of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramsRecord {
    /// Its name.
    pub file: String,
    /// Number of histograms.
    pub histograms: u64,
    /// Its size.
    pub bytes: u64,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRecord {
    /// Reason: `duration`, `events`, `end_of_sources`, `signal`, `disk_space`, `requirement`, `shift`, `supervisor` or `failure`.
    pub reason: String,
    /// Details for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether the books balanced and nothing was lost.
    pub good: bool,
    /// Accepted events that were lost.
    pub lost: u64,
}

/// Origin of a configuration that was used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationOrigin {
    /// The run whose configuration it was.
    pub run: u32,
    /// Its name, if it was used by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version, with a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A row of a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRecord {
    /// Name of the sequence.
    pub name: String,
    /// Number of the row, from 1.
    pub row: u32,
    /// Settings of the row, by key.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
}

/// A call of a hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookRecord {
    /// Name of its table in the configuration.
    pub name: String,
    /// Transition: `before_start`, `after_start`, `before_stop` or `after_stop`.
    pub transition: String,
    /// Time that it took, in seconds.
    pub seconds: f64,
    /// Whether it ended with exit status 0.
    pub good: bool,
    /// End in words: `exit status: 0`.
    pub status: String,
}

/// A library or script that the run loaded, as it was when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRecord {
    /// The table of the configuration that names it: `filter`, `building` or `preprocessing`.
    pub table: String,
    /// Path of the manifest.
    pub path: PathBuf,
    /// The copy that was loaded, from the run's directory on; `None` where that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<PathBuf>,
    /// Its size.
    pub bytes: u64,
    /// The CRC-32C of all its bytes.
    #[serde(with = "hexadecimal")]
    pub crc32c: u32,
}

/// Events of a session that count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The builder, or the output node.
    #[serde(with = "node")]
    pub node: NodeId,
    /// Its session.
    #[serde(with = "session")]
    pub session: SessionId,
    /// Number of its events, in writing order, that belong to the run, except those that are [void](Self::void).
    pub committed: u64,
    /// Of these, the numbers of events that do not count: the first and the last of each gap, ascending. Their builder
    /// died before it had reported that an output node has them, or had given them to another meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub void: Vec<[u64; 2]>,
    /// Whether its files were truncated there.
    pub sealed: bool,
}

impl SessionRecord {
    /// Returns whether the event with this sequence number in the session counts.
    #[must_use]
    pub fn counts(&self, sequence: u64) -> bool {
        let gap = self.void.partition_point(|[_, last]| *last < sequence);
        sequence < self.committed && self.void.get(gap).is_none_or(|[first, _]| sequence < *first)
    }

    /// Returns the number of its events that belong to the run.
    #[must_use]
    pub fn events(&self) -> u64 {
        let void = self.void.iter().map(|[first, last]| last.saturating_sub(*first).saturating_add(1));
        self.committed.saturating_sub(void.fold(0, u64::saturating_add))
    }
}

/// Error when reading or writing a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The operating system refused to read it.
    #[error("cannot read manifest {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The operating system refused to write it.
    #[error("cannot write manifest {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// It is not JSON of the right shape.
    #[error("manifest {path} is invalid: {error}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The problem, and where.
        #[source]
        error: serde_json::Error,
    },
    /// It is of another version.
    #[error(
        "manifest {path} is `{format}` version {version}, this release reads `{FORMAT}` version {MANIFEST_VERSION}; read the run with the release of \
         sheaf that made it, or a later one"
    )]
    WrongVersion {
        /// The file.
        path: PathBuf,
        /// Format that it names.
        format: String,
        /// Its version.
        version: u32,
    },
}

impl Manifest {
    /// The manifest of a run that begins.
    #[must_use]
    pub fn new(run: RunNumber, software: &str, created: Timestamp, configuration: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: MANIFEST_VERSION,
            run,
            software: software.to_owned(),
            created,
            ended: None,
            end: None,
            sessions: Vec::new(),
            files: Vec::new(),
            removed_objects: Vec::new(),
            ledger: serde_json::Value::Null,
            configuration: configuration.to_owned(),
            configuration_name: None,
            configuration_from: None,
            hosts: Vec::new(),
            part: None,
            code: Vec::new(),
            histograms: None,
            sequence: None,
            hooks: Vec::new(),
            values: Vec::new(),
            commands: Vec::new(),
            commands_left_out: 0,
        }
    }

    /// Reads the manifest of a run directory; returns `None` if there is none.
    ///
    /// # Errors
    /// A [`ManifestError`] if it cannot be read or is invalid.
    pub fn read(directory: &Path) -> Result<Option<Self>, ManifestError> {
        let path = directory.join(MANIFEST_NAME);
        let text = match regular::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ManifestError::Read { path, error }),
        };
        let manifest: Self = match serde_json::from_slice(&text) {
            Ok(manifest) => manifest,
            Err(error) => return Err(ManifestError::Shape { path, error }),
        };
        if manifest.format != FORMAT || manifest.version != MANIFEST_VERSION {
            return Err(ManifestError::WrongVersion {
                path,
                format: manifest.format,
                version: manifest.version,
            });
        }
        Ok(Some(manifest))
    }

    /// Returns whether the manifest in a run directory is unchanged byte for byte since it was written; `None` if it
    /// has no checksum.
    ///
    /// # Errors
    /// [`ManifestError::Read`]
    pub fn is_intact(directory: &Path) -> Result<Option<bool>, ManifestError> {
        let path = directory.join(MANIFEST_NAME);
        let mut text = fs::read(&path).map_err(|error| ManifestError::Read { path, error })?;
        Ok(take_checksum(&mut text).map(|found| found == digits(&text).as_bytes()))
    }

    /// The file: JSON, with its own checksum at the end.
    fn to_file(&self) -> io::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Checked<'a> {
            #[serde(flatten)]
            manifest: &'a Manifest,
            manifest_crc32c: &'static str,
        }
        let mut text = serde_json::to_vec_pretty(&Checked { manifest: self, manifest_crc32c: "00000000" })?;
        text.push(b'\n');
        let sum = digits(&text);
        let at = checksum_at(&text).expect("the text was made with it");
        text[at..at + CHECKSUM_DIGITS].copy_from_slice(sum.as_bytes());
        Ok(text)
    }

    /// Writes the manifest into a run directory, in place of the existing one: a reader sees the old one or the new
    /// one, even after a crash.
    ///
    /// # Errors
    /// [`ManifestError::Write`]; the old one is then unchanged.
    pub fn write(&self, directory: &Path) -> Result<(), ManifestError> {
        let path = directory.join(MANIFEST_NAME);
        let written = self.to_file().and_then(|text| write_whole(&path, &text));
        written.map_err(|error| ManifestError::Write { path, error })
    }

    /// Takes over the files of another part of the run, and the sessions that only that part knows.
    pub fn take_part(&mut self, part: Self) {
        let unknown = part.sessions.into_iter().filter(|record| {
            !self.sessions.iter().any(|known| (known.node, known.session) == (record.node, record.session))
        });
        let unknown: Vec<_> = unknown.collect();
        self.sessions.extend(unknown);
        self.sessions.sort_by_key(|record| (record.node, record.session));
        self.files.extend(part.files);
    }

    /// Returns the host that has the files of a node, if they are in another part of the run than this one.
    #[must_use]
    pub fn elsewhere(&self, node: NodeId) -> Option<&HostRecord> {
        let (place, host) = self.hosts.iter().enumerate().find(|(_, host)| host.nodes.contains(&node))?;
        (self.part.is_some_and(|part| part != place)).then_some(host)
    }

    /// Returns the record of a session.
    #[must_use]
    pub fn session(&self, node: NodeId, session: SessionId) -> Option<&SessionRecord> {
        self.sessions.iter().find(|record| (record.node, record.session) == (node, session))
    }
}

fn digits(text: &[u8]) -> String {
    format!("{:08x}", crc32c(text))
}

/// Returns the offset of the checksum's digits.
fn checksum_at(text: &[u8]) -> Option<usize> {
    let key = CHECKSUM.as_bytes();
    let at = text.windows(key.len()).rposition(|window| window == key)? + key.len();
    (text.len() >= at + CHECKSUM_DIGITS).then_some(at)
}

/// Replaces the digits of the checksum by zeros, and gives them.
fn take_checksum(text: &mut [u8]) -> Option<[u8; CHECKSUM_DIGITS]> {
    let at = checksum_at(text)?;
    let place = text.get_mut(at..at + CHECKSUM_DIGITS)?;
    let found = <[u8; CHECKSUM_DIGITS]>::try_from(&*place).ok();
    place.fill(b'0');
    found
}

mod run_number {
    use super::{Deserialize, Deserializer, RunNumber, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(run: &RunNumber, to: S) -> Result<S::Ok, S::Error> {
        run.0.serialize(to)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RunNumber, D::Error> {
        u32::deserialize(from).map(RunNumber)
    }
}

mod timestamp {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        time.0.serialize(to)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(from).map(Timestamp)
    }
}

mod optional_timestamp {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    pub(super) fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(to)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Option::<u64>::deserialize(from).map(|time| time.map(Timestamp))
    }
}

mod node {
    use super::{Deserialize, Deserializer, NodeId, Serializer, parse_node};
    use serde::de::Error as _;

    pub(super) fn serialize<S: Serializer>(node: &NodeId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(node)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<NodeId, D::Error> {
        let name = String::deserialize(from)?;
        parse_node(&name)
            .ok_or_else(|| D::Error::custom(format_args!("`{name}` is not a node, such as `bu0`")))
    }
}

mod nodes {
    use super::{Deserialize, Deserializer, NodeId, Serializer, parse_node};
    use serde::de::Error as _;

    pub(super) fn serialize<S: Serializer>(nodes: &[NodeId], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(nodes.iter().map(ToString::to_string))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NodeId>, D::Error> {
        let parse = |name: String| {
            parse_node(&name)
                .ok_or_else(|| D::Error::custom(format_args!("`{name}` is not a node, such as `bu0`")))
        };
        Vec::<String>::deserialize(from)?.into_iter().map(parse).collect()
    }
}

mod session {
    use super::{Deserialize, Deserializer, Serializer, SessionId};
    use serde::de::Error as _;

    pub(super) fn serialize<S: Serializer>(session: &SessionId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:016x}", session.0))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SessionId, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16)
            .map(SessionId)
            .map_err(|_| D::Error::custom(format_args!("`{text}` is not a session of 16 hexadecimal digits")))
    }
}
