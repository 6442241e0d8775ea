//! The configuration of a run: a TOML file, validated completely before anything starts.
//!
//! One file serves a laptop (`sheaf run`, all roles in one process) and a cluster (`sheaf node CONFIG ru0`). Without a
//! file, or with an empty one, the embedded default applies: [`Config::default`].
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the tables of the file as structs; each knob is defined once, with type, default, unit, limits, description |
//! | `knob` | the macros that make struct, default, parser, range check and reference page of one definition |
//! | `codec` | formats of values in the file: integers, times, sizes, words, lists |
//! | `tables` | the list of tables |
//! | `source_map`, `source_lists`, `files` | names of sources, and lists of sources, in other files |
//! | `row_settings`, `run_table` | settings on top of a file, and tables of runs with such settings |
//! | `csv` | lines and cells of comma-separated values |
//! | `text`, `document` | from text to values, with lines and columns |
//! | `origins` | origin of each value: file, flag, default |
//! | `building` | valid building steps and trigger types |
//! | `check` | constraints across knobs |
//! | `usage` | keys that have no effect with the other values |
//! | `lab` | scenarios of the virtual switch lab: a network and its measurements, added to a configuration |
//! | `streams` | assignment of tags to streams |
//! | `nodes` | the nodes and the sources of each |
//! | `partition` | parts of the system that have runs of their own |
//! | `feeding` | sockets at which programs feed sources |
//! | `error`, `suggest` | errors with position and suggested correction |
//! | `reference` | the reference page, generated |
//!
//! ```
//! use sheaf_config::Config;
//!
//! // Flags of the command line override the file before anything is checked.
//! let config = Config::parse_with("[readout]\ncount = 2\n", "run.toml", |config| config.builder.count = 3)?;
//! let names: Vec<String> = config.nodes()?.into_iter().map(|node| node.name).collect();
//! assert_eq!(names, ["evm", "ru0", "ru1", "bu0", "bu1", "bu2"]);
//!
//! let errors = Config::parse("[readout]\ncuont = 2\n", "run.toml").unwrap_err();
//! assert_eq!(errors.errors()[0].line(), Some(2));
//! assert_eq!(errors.errors()[0].right, "did you mean `count`?");
//! # Ok::<(), sheaf_config::ConfigErrors>(())
//! ```
//!
//! Only this crate knows the file format. It opens no socket and creates no directory. The users of the replay and output
//! directories check that they exist.

#![forbid(unsafe_code)]

mod agents;
mod building;
mod check;
mod choice;
mod codec;
mod csv;
mod document;
mod error;
mod feeding;
mod files;
mod hooks;
mod knob;
mod lab;
mod lab_tables;
mod nodes;
mod numbering;
mod origins;
mod partition;
mod programs;
mod reference;
mod requirements;
mod row_settings;
mod run_table;
mod secrets;
mod settings;
mod slow_values;
mod source_lists;
mod source_map;
mod streams;
mod suggest;
mod tables;
mod text;
mod usage;

/// Format of error messages about any TOML file of Sheaf. Scenarios of the simulator are not configurations, but their
/// errors are reported in the same way.
pub mod diagnose {
    pub use crate::suggest::nearest;
    pub use crate::text::{Text, shorten};
}

pub use codec::{Field, Mark};
pub use error::{ConfigError, ConfigErrors, ErrorKind, Origin, TextPlace};
pub use feeding::{FeedAddressError, FeedPlace, feed_place_at};
pub use lab::{LabFile, LabPoint, LabSweep};
pub use nodes::{NodeConfig, host_of};
pub use partition::PartitionParts;
pub use programs::ProgramStart;
pub use reference::{lab_reference_page, reference_page};
pub use requirements::RequiredNodes;
pub use row_settings::Setting;
pub use run_table::RunTable;
#[doc(hidden)]
pub use run_table::fuzz_run_table;
pub use settings::{
    Access, Affinity, AgeFrom, Agents, BuildBy, Builder, Building, CardClock, Check, CheckField, Congestion,
    Consumers, Content, Control, Counted, Database, Described, Emulated, EthernetBackend, Feed, Filter,
    FilterKind, FramePacing, FreeRunning, FrontEnd, HitDecoder, HitTimes, Hits, Hook, HookTransition,
    Incomplete, IncompletePolicy, Lab, LabHead, LabPlacement, LibfabricProvider, Log, LogFormat, LossAction,
    Manager, Measure, MemoryPolicy, Monitor, Node, ObjectCheck, ObjectStore, Output, OutputCompression,
    OutputFormat, OutputKind, Pacing, PacketProtocol, Partition, Preprocessing, Program, Protection,
    Protocol, Readout, Replay, Requirement, Restart, Run, Shaping, ShapingPolicy, ShiftAction, SizeModel,
    SlowValue, Source, SourceCommand, SourceGroup, SourceKind, SourceLibrary, StepFilterKind, Stream, Sync,
    Tag, Timed, Tls, Trace, Transport, TransportKind, Trigger, TriggerClass, TriggerCommand, TriggerLibrary,
    TriggerMode, TriggerNetwork, TriggerProtocol, Windows,
};
#[doc(hidden)]
pub use source_lists::fuzz_source_map;
pub use source_lists::{SourceListError, expand_source_list, source_range};

use document::Document;
use files::Files;
use knob::{Knob, Section};
use origins::Origins;
use row_settings::Draft;
use sheaf_wire::{ByteCount, Nanos, Role, SourceId, SourceNames};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use text::Text;
use thiserror::Error;
use usage::Views;

/// The configuration of a run: the values of a file, and defaults for all others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Name, directory and end of the run.
    pub run: Run,
    /// Trigger that starts events in the event manager.
    pub trigger: Trigger,
    /// The sources.
    pub source: Source,
    /// Readout units.
    pub readout: Readout,
    /// Windows of hits around the times of triggers.
    pub windows: Windows,
    /// Processing of fragments in readout units before they leave.
    pub preprocessing: Preprocessing,
    /// Builder units.
    pub builder: Builder,
    /// Policy for incomplete events.
    pub incomplete: Incomplete,
    /// The event manager.
    pub manager: Manager,
    /// Event building in steps.
    pub building: Building,
    /// Comparison of the event numbers of sources.
    pub check: Check,
    /// Filter that decides whether a built event is stored.
    pub filter: Filter,
    /// Where accepted events go.
    pub output: Output,
    /// Where uploaded files go.
    pub object_store: ObjectStore,
    /// Index of runs.
    pub database: Database,
    /// Who may look on.
    pub consumers: Consumers,
    /// The page and the metrics of the run.
    pub monitor: Monitor,
    /// Traces of single events.
    pub trace: Trace,
    /// The log of the run.
    pub log: Log,
    /// Run control.
    pub control: Control,
    /// Agents, which start nodes on other hosts.
    pub agents: Agents,
    /// Transport of the messages.
    pub transport: Transport,
    /// Message sizes and timeouts.
    pub protocol: Protocol,
    /// Traffic shaping: keeps readout units from sending a builder unit more than its link carries.
    pub shaping: Shaping,
    /// Where threads run, how urgently, and which memory they take.
    pub affinity: Affinity,
    /// The streams of accepted events, by name.
    pub streams: BTreeMap<String, Stream>,
    /// The types of triggers, by name.
    pub triggers: BTreeMap<String, TriggerClass>,
    /// The clocks of self-triggered cards, by name.
    pub clocks: BTreeMap<String, CardClock>,
    /// Groups of sources for coincidences, by name.
    pub groups: BTreeMap<String, SourceGroup>,
    /// Names of sources, from `[source.names]` and the source map.
    pub names: SourceNames,
    /// Settings of tags, by their names.
    pub tags: BTreeMap<String, Tag>,
    /// Programs that feed sources and that Sheaf starts, by name.
    pub programs: BTreeMap<String, Program>,
    /// Check values of sources, by name.
    pub check_fields: BTreeMap<String, CheckField>,
    /// Nodes that the run requires, by name of the requirement.
    pub require: BTreeMap<String, Requirement>,
    /// Commands before and after transitions of the run, by name.
    pub hooks: BTreeMap<String, Hook>,
    /// Values from outside of the run, by name.
    pub values: BTreeMap<String, SlowValue>,
    /// Parts of the system that have runs of their own, by name. Empty in the configuration of such a part.
    pub partitions: BTreeMap<String, Partition>,
    /// Nodes listed one by one. If empty, they are generated from `readout.count`, `builder.count` and `output.nodes`.
    pub node: Vec<Node>,
}

/// Purpose for which a configuration is read.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// All roles, started together on one machine.
    Run,
    /// The node with this name, started alone.
    Node(&'a str),
}

/// Keys of names of sources.
const NAMING: [&str; 2] = [source_map::KEY, tables::SOURCE_NAMES];

/// Begin of the path of a node, before its index.
const NODE_PATH: &str = "node[";

/// No configuration is larger: 16 MiB, which hold lists and names of 65,536 sources. Nor are files with these.
const MAX_FILE_BYTES: u64 = 16 << 20;

impl Config {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the file.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        Self::load_with(path, |_| {})
    }

    /// Reads a file, lets `change` make the changes that the command line asks for, and validates the result. What
    /// `change` makes wrong is reported with its flag, the rest with its place in the file; what it makes right is.
    ///
    /// # Errors
    /// All that is wrong with the result.
    pub fn load_with(path: &Path, change: impl Fn(&mut Self)) -> Result<Self, ConfigErrors> {
        let bytes = read_file(path)?;
        Self::from_bytes(&bytes, (&path.display().to_string(), Files::Read), change, Purpose::Run)
    }

    /// Returns whether a file sets a knob, by the full key of the knob, itself or for this partition. A file that cannot be read sets none.
    #[must_use]
    pub fn sets(path: &Path, key: &str, partition: Option<&str>) -> bool {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let Document { config, origins, .. } = document::read(&text, "", Files::Read);
        let partition = partition.or(config.run.partition.as_deref());
        origins.is_in_file(key) || partition.is_some_and(|partition| config.partition_sets(partition, key))
    }

    /// Reads and validates a file for the node `name`, which is started alone: on top of what [`Config::load`] asks for,
    /// the node is listed, all nodes have addresses, and the transport reaches other hosts.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the file.
    pub fn load_for_node(path: &Path, name: &str) -> Result<Self, ConfigErrors> {
        Self::load_for_node_with(path, name, |_| {})
    }

    /// As [`Config::load_for_node`], with a change before it is validated.
    ///
    /// # Errors
    /// All that is wrong with the result.
    pub fn load_for_node_with(
        path: &Path,
        name: &str,
        change: impl Fn(&mut Self),
    ) -> Result<Self, ConfigErrors> {
        let bytes = read_file(path)?;
        Self::from_bytes(&bytes, (&path.display().to_string(), Files::Read), change, Purpose::Node(name))
    }

    /// Reads and validates the text of a file. `file` is its name in messages. Other files are not read: a text with a source map or a
    /// list of sources in a file is refused.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the text.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigErrors> {
        Self::parse_with(text, file, |_| {})
    }

    /// As [`Config::load_with`], from a text.
    ///
    /// # Errors
    /// All that is wrong with the result.
    pub fn parse_with(text: &str, file: &str, change: impl Fn(&mut Self)) -> Result<Self, ConfigErrors> {
        Self::from_text(text, (file, Files::Refuse), change, Purpose::Run)
    }

    /// As [`Config::load_for_node`], from a text.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the text.
    pub fn parse_for_node(text: &str, file: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::from_text(text, (file, Files::Refuse), |_| {}, Purpose::Node(name))
    }

    /// Checks a configuration that a program has made or changed.
    ///
    /// # Errors
    /// All that is wrong with it, by key and flag: there is no file to point into.
    pub fn validate(&self) -> Result<(), ConfigErrors> {
        ConfigErrors::or(check::check(self, &Origins::none(), Purpose::Run), ())
    }

    /// Takes the sources from the fragment streams in `directory`. Where triggers were made as fast as credit allows
    /// (the default), there is now one for every event id in the data.
    pub fn set_replay(&mut self, directory: PathBuf) {
        self.source.kind = SourceKind::Replay;
        self.source.replay.directory = Some(directory);
        if self.trigger.mode == TriggerMode::Free {
            self.trigger.mode = TriggerMode::Seen;
        }
    }

    /// The largest fragment that a readout unit takes: `readout.max_fragment_bytes`, or what follows from the buffer and
    /// the largest frame, some of which is for the head.
    #[must_use]
    pub fn max_fragment(&self) -> ByteCount {
        self.readout.max_fragment.unwrap_or_else(|| self.readout.buffer.min(self.frame_payload()))
    }

    /// The payload that the largest frame carries: some of it is for the head.
    #[must_use]
    pub fn frame_payload(&self) -> ByteCount {
        let frame = self.transport.max_frame.0;
        ByteCount(frame - frame / 16)
    }

    /// The complete configuration as a file: every knob with its value, but those that are not set and have no
    /// default, and those that have no effect. Reading it gives this configuration again.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.write_toml(&BTreeMap::new())
    }

    /// The configuration as a file, without the knobs that have their default.
    #[must_use]
    pub fn to_short_toml(&self) -> String {
        let mut defaults = Self::default().values();
        // These two have to be written where others are that need them.
        defaults.remove("source.kind");
        if self.source.build_by != BuildBy::Number {
            defaults.remove("source.timed.front_end");
        }
        self.write_toml(&defaults)
    }

    /// Writes a file without knobs that have the value of `defaults`, and without tables that would be empty.
    fn write_toml(&self, defaults: &BTreeMap<String, String>) -> String {
        let mut text = String::new();
        let views = Views::of(self);
        for (path, section) in
            self.every_table().into_iter().filter(|(path, table)| views.has_use_of(path, *table))
        {
            let line = |knob: &Knob| {
                let value = section.write(knob.key)?;
                let key = format!("{path}.{}", knob.key);
                let is_default = defaults.get(&key) == Some(&value);
                // A reader would refuse what flags on top of the file have left without effect.
                (!is_default && views.acts(&key, section)).then(|| format!("{} = {value}\n", knob.key))
            };
            let lines: String = section.knobs().iter().filter_map(line).collect();
            if lines.is_empty() && !defaults.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            let header =
                if path.starts_with(NODE_PATH) { "[[node]]".to_owned() } else { format!("[{path}]") };
            text.push_str(&format!("{header}\n{lines}"));
        }
        if !self.names.is_empty() {
            text.push_str(&format!("\n[{}]\n", tables::SOURCE_NAMES));
            for (source, name) in self.names.iter() {
                text.push_str(&format!("{source} = {}\n", codec::quote(name)));
            }
        }
        text
    }

    /// Returns every value by its full key, as a file has it: `readout.count`, `check_fields.tlu.value`, `node[0].name`. Keys that are
    /// not set and have no default are absent.
    #[must_use]
    pub fn values(&self) -> BTreeMap<String, String> {
        let values = |(path, section): (String, &dyn Section)| {
            let value = |knob: &Knob| Some((format!("{path}.{}", knob.key), section.write(knob.key)?));
            section.knobs().iter().filter_map(value).collect::<Vec<_>>()
        };
        self.every_table().into_iter().flat_map(values).collect()
    }

    /// All tables with their paths, in the order of a file.
    fn every_table(&self) -> Vec<(String, &dyn Section)> {
        let named =
            self.named_tables().map(|(kind, name, table)| (format!("{kind}.{}", quoted_key(name)), table));
        let nodes = self.node.iter().enumerate();
        self.sections()
            .map(|section| (section.path().to_owned(), section))
            .chain(named)
            .chain(nodes.map(|(index, node)| (format!("{NODE_PATH}{index}]"), node as &dyn Section)))
            .collect()
    }

    fn from_bytes(
        bytes: &[u8],
        (file, files): (&str, Files),
        change: impl Fn(&mut Self),
        purpose: Purpose<'_>,
    ) -> Result<Self, ConfigErrors> {
        let error = match std::str::from_utf8(bytes) {
            Ok(text) => return Self::from_text(text, (file, files), change, purpose),
            Err(error) => error,
        };
        let start = error.valid_up_to();
        let text = String::from_utf8_lossy(bytes);
        let errors = vec![ConfigError {
            kind: ErrorKind::NotUtf8,
            key: String::new(),
            found: format!("byte {start} of the file, {:#04x}, is not UTF-8", bytes[start]),
            right: "save the file as UTF-8".into(),
            // The conversion does not change the text before this byte.
            origin: Text::new(file, &text).origin(&(start..start)),
        }];
        ConfigErrors::or(errors, Self::default())
    }

    fn from_text(
        text: &str,
        (file, files): (&str, Files),
        change: impl Fn(&mut Self),
        purpose: Purpose<'_>,
    ) -> Result<Self, ConfigErrors> {
        let Document { config, origins, mut errors, more, is_toml, lab: _ } =
            document::read(text, file, files);
        // A text that is not TOML is read only in part; checks of the whole would report wrong errors.
        let purpose = is_toml.then_some(purpose);
        let (config, wrong) = Draft { config, origins, files }.settle(&[], &change, purpose);
        // What a broken text says of other keys is not known.
        let is_broken = !errors.is_empty();
        errors.extend(wrong.into_iter().filter(|error| !is_broken || error.kind != ErrorKind::NoEffect));
        // A problem with a name says it itself.
        for error in errors.iter_mut().filter(|error| !NAMING.contains(&error.key.as_str())) {
            error.found = config.names.annotate(&error.found).into_owned();
        }
        ConfigErrors::or_more(errors, more, config)
    }

    /// Derives the values of omitted knobs from the knobs in the file.
    fn follow(&mut self, origins: &Origins<'_>) {
        let listed = |role| self.node.iter().filter(|node| node.role == role).count();
        let (readouts, builders) = (listed(Role::Readout), listed(Role::Builder));
        let outputs = listed(Role::Output);
        if readouts > 0 && !origins.is_in_file("readout.count") {
            self.readout.count = u16::try_from(readouts).unwrap_or(u16::MAX);
        }
        if builders > 0 && !origins.is_in_file("builder.count") {
            self.builder.count = u16::try_from(builders).unwrap_or(u16::MAX);
        }
        if outputs > 0 && !origins.is_in_file("output.nodes") {
            self.output.nodes = u16::try_from(outputs).unwrap_or(u16::MAX);
        }
        let kind = self.source.kind;
        if kind.is_timed() && !origins.is_in_file("source.build_by") {
            self.source.build_by = BuildBy::Time;
        }
        if self.source.is_windowed() {
            // Windows are cut out of slices: an overlap would only be left out again.
            for (key, overlap) in [
                ("source.timed.before_us", &mut self.source.timed.before),
                ("source.timed.after_us", &mut self.source.timed.after),
            ] {
                if !origins.is_in_file(key) {
                    *overlap = Nanos::ZERO;
                }
            }
        }
        if self.source.has_own_ids() && !origins.is_in_file("trigger.mode") {
            self.trigger.mode = TriggerMode::Seen;
        }
        if self.source.has_own_ids() && !origins.is_in_file("run.duration_s") {
            self.run.duration = None;
        }
        if self.trigger.mode.has_supervisor() && !origins.is_in_file("run.duration_s") {
            self.run.duration = None;
        }
        if kind.shares_socket() && readouts == 0 && !origins.is_in_file("readout.count") {
            self.readout.count = 1;
        }
    }

    /// Returns whether fragments may come of events that are never requested: where neither the event manager nor its triggers decide which
    /// events there are.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        let mode = self.trigger.mode;
        matches!(mode, TriggerMode::Source | TriggerMode::Seen) || mode.has_supervisor()
    }

    /// Returns whether a source keeps its hits, and gives windows of them on request: all sources of a run that is built by window, and those
    /// behind a first step that finds windows.
    #[must_use]
    pub fn gives_windows(&self, source: SourceId) -> bool {
        let is_found = self.building.finds_windows() && !self.building.first_step.contains(&source);
        self.source.is_windowed() || is_found
    }

    /// Builds all sources by time, in one step, if some of them give windows of their hits.
    pub fn give_up_windows(&mut self) {
        if self.source.is_windowed() {
            self.source.build_by = BuildBy::Time;
        }
        if self.building.finds_windows() {
            self.building = Building::default();
        }
    }

    /// Records in `origins` the knobs of `changed` that differ from this configuration.
    fn find_changes(&self, changed: &Self, origins: &mut Origins<'_>) {
        for (old, new) in self.sections().zip(changed.sections()) {
            for knob in old.knobs().iter().filter(|knob| old.write(knob.key) != new.write(knob.key)) {
                origins.set_by_program(format!("{}.{}", old.path(), knob.key), knob.flag);
            }
        }
    }
}

/// A key of a table as it is written: in quotes where it is not a bare word.
fn quoted_key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { codec::quote(name) }
}

/// The bytes of a file of reasonable size.
fn read_file(path: &Path) -> Result<Vec<u8>, ConfigErrors> {
    let (kind, found, right) = match files::regular(path) {
        Err(error) => {
            let right = "give the path of a configuration file (TOML); `docs/reference/configuration.md` lists all keys";
            (ErrorKind::Unreadable, format!("the configuration cannot be read: {error}"), right)
        }
        Ok(bytes) if bytes.len() as u64 > MAX_FILE_BYTES => {
            let found = format!("the file has more than {MAX_FILE_BYTES} bytes");
            (ErrorKind::TooLarge, found, "no configuration is this large; is this the right file?")
        }
        Ok(bytes) => return Ok(bytes),
    };
    let origin = Origin::File(path.display().to_string().into());
    let error = ConfigError { kind, key: String::new(), found, right: right.into(), origin };
    ConfigErrors::or(vec![error], Vec::new())
}

/// Reads any bytes as a configuration; for fuzzing. Panics if reading or writing breaks a promise.
#[doc(hidden)]
pub fn fuzz_config(bytes: &[u8]) {
    match Config::from_bytes(bytes, ("fuzz.toml", Files::Refuse), |_| {}, Purpose::Run) {
        Ok(config) => {
            for text in [config.to_toml(), config.to_short_toml()] {
                let again = Config::parse(&text, "written.toml");
                assert_eq!(again.as_ref(), Ok(&config), "what is written reads as the same");
            }
        }
        Err(errors) => {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            for error in errors.errors() {
                assert!(error.line().is_none_or(|line| (1..=lines).contains(&line)), "{error}");
                assert!(!error.right.is_empty() && !error.found.is_empty());
            }
            assert!(!errors.to_string().is_empty());
        }
    }
}

/// A word that no value of a choice has, on a command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{word}\" is not one of {known}")]
pub struct UnknownWord {
    word: String,
    known: String,
}

impl UnknownWord {
    pub(crate) fn of<T: choice::Choice>(word: &str) -> Self {
        Self { word: word.to_owned(), known: codec::words::<T>() }
    }
}
