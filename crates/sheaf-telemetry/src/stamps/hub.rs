//! The stamps of all nodes of a process.

use super::Stamper;
use crate::ring::Ring;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The stamps of all nodes of a process.
///
/// Nodes are added under a lock, when they begin; threads that stamp never take it.
#[derive(Clone, Debug, Default)]
pub struct StampHub {
    nodes: Arc<Mutex<BTreeMap<String, Arc<NodeStamps>>>>,
}

/// The stamps and remarks of a node, for readers.
#[derive(Debug)]
pub struct NodeStamps {
    /// Name of the node.
    pub name: String,
    /// Meanings of details.
    pub labels: StampLabels,
    /// Its stamps.
    pub stamps: Arc<Ring<2>>,
    /// Its remarks.
    pub remarks: Arc<Ring<4>>,
}

/// Meanings of the details of a node's stamps.
#[derive(Clone, Debug, Default)]
pub struct StampLabels {
    /// Names of readout units, by index.
    pub readouts: Vec<String>,
    /// Names of builder units, by index.
    pub builders: Vec<String>,
    /// Ids of the sources of a readout unit, in its order.
    pub sources: Vec<u32>,
}

impl StampHub {
    /// Adds a node, or one that begins again.
    #[must_use]
    pub fn add(&self, name: &str, labels: StampLabels) -> Stamper {
        let stamper = Stamper::new();
        let (stamps, remarks) = (stamper.stamps.ring(), stamper.remarks.ring());
        let node = NodeStamps { name: name.to_owned(), labels, stamps, remarks };
        self.nodes().insert(name.to_owned(), Arc::new(node));
        stamper
    }

    /// Returns the nodes, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<NodeStamps>> {
        self.nodes().values().cloned().collect()
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<String, Arc<NodeStamps>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
