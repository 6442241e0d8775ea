//! Traces of single events: which stage of an event took how long on which node.
//!
//! | module | holds |
//! |---|---|
//! | `model` | a trace, as it is in files |
//! | `collector` | the thread that takes them, and writes the traces of remarkable events |
//! | `local` | stamps of the nodes of a process whose collector is in another one |
//! | `limit` | the traces that begin in a second |
//! | `open` | traces of events that have not ended, or whose last stamps are not here |
//! | `trace_file` | files of traces: bounded writers, and readers that follow a file |
//! | `spans` | intervals between stamps |
//! | `waterfall`, `length` | the spans of an event as text, and their durations |
//! | `otlp` | the spans of an event for OpenTelemetry |
//!
//! Nodes stamp all events and make remarks about those that are slow, incomplete, dropped or quarantined
//! ([`sheaf_telemetry::stamps`]). Nobody knows beforehand which events these will be, so the collector keeps all stamps for some seconds
//! and looks for those of an event after the remark.

mod collector;
mod length;
mod limit;
mod local;
mod model;
mod open;
pub mod otlp;
mod spans;
mod trace_file;
mod waterfall;

pub use collector::{Ask, Collector, CollectorNews, CollectorOptions};
pub use local::LocalStamps;
pub use model::{LeftOut, MissingPart, Trace, TraceEnd, TraceHeader, TraceStamp};
pub use spans::{Span, spans};
pub use trace_file::{TRACE_NAME, TraceReader, merge};
pub use waterfall::waterfall;
