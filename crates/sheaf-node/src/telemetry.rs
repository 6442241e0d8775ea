//! Publishes the metrics of nodes.
//!
//! Each node lists its series when it begins, and publishes their values when its [`worker`](crate::worker) asks for it: several times a
//! second, and once more at its end. Nothing here takes a lock, allocates or makes a system call after the start.

mod builder;
mod counts;
mod manager;
mod output;
mod readout;
mod shared;

pub(crate) use builder::{BuilderFigures, BuilderSeries};
pub(crate) use manager::{ManagerFigures, ManagerSeries, StandbyFigures};
pub(crate) use output::{OutputFigures, OutputSeries};
pub(crate) use readout::{ReadoutSeries, SourceFigures, SourceWatch};

use sheaf_telemetry::{Hub, Publisher, SeriesList};
use sheaf_wire::{ByteCount, Nanos, NodeId, Role};

/// Interval at which nodes publish.
pub(crate) const PERIOD: Nanos = Nanos::from_millis(100);

/// Maximum number of sources of a node that have series of their own, so that the number of series stays bounded.
pub const SOURCES: usize = 512;

/// Names under which the nodes of a run publish, by role and index.
#[derive(Clone, Debug)]
pub struct NodeNames {
    /// The event manager.
    pub manager: String,
    /// Whether there is a second event manager, which publishes under the same name.
    pub has_standby: bool,
    /// Whether readout units are to have mirrors.
    pub has_mirrors: bool,
    /// Readout units.
    pub readouts: Vec<String>,
    /// Builder units.
    pub builders: Vec<String>,
    /// Output nodes.
    pub outputs: Vec<String>,
}

impl Default for NodeNames {
    /// Returns the name of an event manager that knows no other names.
    fn default() -> Self {
        let manager = NodeId::MANAGER.to_string();
        Self {
            manager,
            has_standby: false,
            has_mirrors: false,
            readouts: Vec::new(),
            builders: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

impl NodeNames {
    /// Returns the name of a node; empty if it is not in the list.
    #[must_use]
    pub fn of(&self, node: NodeId) -> &str {
        let names = match node.role {
            Role::Manager => return &self.manager,
            Role::Readout => &self.readouts,
            Role::Builder => &self.builders,
            Role::Output => &self.outputs,
            Role::Mirror => return "",
        };
        names.get(usize::from(node.index)).map_or("", String::as_str)
    }
}

/// Limits of a bounded buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferLimits {
    /// Limit of the payload.
    pub bytes: ByteCount,
    /// Limit of the number of events.
    pub events: u64,
}

/// The series of a node, and where it publishes their values.
#[derive(Debug)]
pub(crate) struct Telemetry<S> {
    pub(crate) publisher: Publisher,
    pub(crate) series: S,
}

impl<S> Telemetry<S> {
    /// Lists the series of a node, whose publication is added to the hub.
    pub(crate) fn begin(hub: &Hub, node: &str, list: impl FnOnce(&mut SeriesList) -> S) -> Self {
        let mut series_list = SeriesList::default();
        let series = list(&mut series_list);
        let publisher = series_list.publish();
        hub.add(node, publisher.publication());
        Self { publisher, series }
    }
}
