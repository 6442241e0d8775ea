//! Metrics and messages of a run. Each is declared once. Metrics are published by the thread that knows them, and read by any other.
//!
//! | module | holds |
//! |---|---|
//! | [`metric`] | definition of a metric: name, kind, unit, labels, meaning |
//! | [`catalog`] | every metric of Sheaf |
//! | [`publication`] | the memory through which a thread publishes the values of its series |
//! | [`buckets`] | histograms of durations |
//! | [`hub`] | the publications of a process, and snapshots of all of them |
//! | [`ring`] | the memory through which a thread publishes a sequence of entries |
//! | [`stamps`] | when events passed the stages of a node, for traces |
//! | [`message`] | how messages for people are declared, logged and counted |
//! | [`codes`] | the code of every message |
//! | `muted` | work without messages for people |
//!
//! A *series* is a metric with values for its labels, such as `sheaf_event_drops_total{node="evm",reason="stopped"}`. A thread lists
//! its series once and then publishes all their values together, a few times a second. Publishing takes no lock, allocates nothing and
//! makes no system call, and readers cannot hold it up. A reader always gets values that were published together, so that books balance
//! in every snapshot.
//!
//! Everything that shows a run, such as its metrics, its page and its progress line, reads the same snapshot. The crate knows neither
//! the roles nor how snapshots are shown or transferred.

#![forbid(unsafe_code)]

pub mod buckets;
pub mod catalog;
pub mod codes;
pub mod hub;
pub mod message;
pub mod metric;
mod muted;
pub mod publication;
pub mod ring;
pub mod stamps;

pub use hub::{Hub, NodeSnapshot, Snapshot};
/// For [`log_as!`].
#[doc(hidden)]
pub use log;
pub use message::{Code, Severity, TALLY, Tally};
pub use metric::{Kind, Metric, Unit};
pub use muted::{is_muted, muted};
pub use publication::{Publication, Publisher, Series, SeriesId, SeriesList};
