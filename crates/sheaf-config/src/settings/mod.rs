//! The tables of the file. Each knob is defined here and nowhere else.

mod affinity;
mod agents;
mod building;
mod consumers;
mod control;
mod database;
mod described;
mod flow;
mod free_running;
mod hits;
mod hook;
mod lab;
mod log;
mod monitor;
mod network;
mod node;
mod numbering;
mod object_store;
mod output;
mod partition;
mod preprocessing;
mod programs;
mod requirement;
mod run;
mod shaping;
mod source;
mod trace;
mod value;
mod windows;

pub use affinity::{Affinity, MemoryPolicy};
pub use agents::Agents;
pub use building::{Building, StepFilterKind, TriggerClass};
pub use consumers::Consumers;
pub use control::Control;
pub use database::Database;
pub use described::{Counted, Described, PacketProtocol};
pub use flow::{Builder, Incomplete, IncompletePolicy, Manager, Protection, Readout};
pub use free_running::{FramePacing, FreeRunning};
pub use hits::{HitDecoder, Hits};
pub use hook::{Hook, HookTransition};
pub use lab::{Lab, LabHead, LabPlacement, Measure};
pub use log::{Log, LogFormat};
pub use monitor::Monitor;
pub use network::{Congestion, EthernetBackend, LibfabricProvider, Protocol, Tls, Transport, TransportKind};
pub use node::Node;
pub use numbering::{Check, CheckField, ShiftAction};
pub use object_store::{ObjectCheck, ObjectStore};
pub use output::{Output, OutputCompression, OutputFormat, OutputKind, Stream, Sync, Tag};
pub use partition::Partition;
pub use preprocessing::Preprocessing;
pub use programs::{Program, Restart, SourceCommand, SourceLibrary};
pub use requirement::{LossAction, Requirement};
pub use run::{
    Access, Filter, FilterKind, Run, Trigger, TriggerCommand, TriggerLibrary, TriggerMode, TriggerNetwork,
    TriggerProtocol,
};
pub use shaping::{Shaping, ShapingPolicy};
pub use source::{
    BuildBy, CardClock, Content, Emulated, Feed, FrontEnd, HitTimes, Pacing, Replay, SizeModel, Source,
    SourceGroup, SourceKind, Timed,
};
pub use trace::Trace;
pub use value::{AgeFrom, SlowValue};
pub use windows::Windows;

/// The longest accepted time of a timeout.
pub(crate) const HOUR: sheaf_wire::Nanos = sheaf_wire::Nanos::from_secs(3_600);
/// Bounds of lists and counts that make no sense beyond, so that a slip of the finger is noticed.
pub(crate) const MAX_SOURCES: u64 = 65_536;
/// The most readout units, and the most builder units.
pub(crate) const MAX_NODES: u64 = 4_096;
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const TIB: u64 = 1 << 40;
/// The largest integer that a TOML file can hold.
pub(crate) const MAX_INTEGER: u64 = i64::MAX as u64;
