//! Names of nodes in the configuration, for people who do not know them by role and index.

use crate::plan::Plan;
use sheaf_node::NodeError;
use sheaf_node::telemetry::NodeNames;
use sheaf_node::worker::reasons;
use sheaf_wire::{Nanos, NodeId, Role};

impl Plan {
    /// The node's name in the configuration.
    pub(crate) fn name(&self, id: NodeId) -> String {
        self.node(id).map_or_else(|| id.to_string(), |node| node.name.clone())
    }

    /// Returns the node's name and, if different, its name in logs and files.
    pub(crate) fn full_name(&self, id: NodeId) -> String {
        let (name, id) = (self.name(id), id.to_string());
        if name == id { name } else { format!("{name} ({id})") }
    }

    /// Returns the names of all nodes.
    pub(crate) fn node_names(&self) -> NodeNames {
        let of_role = |role| self.of_role(role).map(|node| node.name.clone()).collect();
        NodeNames {
            manager: self.name(NodeId::MANAGER),
            has_standby: self.has_standby(),
            has_mirrors: self.has_mirrors(),
            readouts: of_role(Role::Readout),
            builders: of_role(Role::Builder),
            outputs: of_role(Role::Output),
        }
    }

    /// Explains why a node did not do all of its work, and what to check.
    pub(crate) fn explain(&self, error: &NodeError) -> String {
        match error {
            NodeError::StartFailed { absent, refused, requirement } => {
                let names: Vec<_> = absent.iter().map(|id| self.full_name(*id)).collect();
                let waited = self.config.manager.start_timeout;
                let needs = match requirement {
                    Some(name) => {
                        let required = self.config.requirements(&self.nodes);
                        let least = required.iter().find(|one| one.name == *name).map_or(0, |one| one.least);
                        format!("[require.{name}] needs {least} of its nodes")
                    }
                    None => "a run needs a readout unit and a builder unit".to_owned(),
                };
                format!(
                    "the run could not start: {} did not appear within {waited}; {needs}{}",
                    names.join(", "),
                    reasons(refused)
                )
            }
            NodeError::ManagerSilent { node, silence } => self.explain_silence(*node, *silence),
            NodeError::ManagerGone { node, absence } => self.explain_absence(*node, *absence),
            other => other.to_string(),
        }
    }

    fn explain_silence(&self, node: NodeId, silence: Nanos) -> String {
        format!(
            "{} has not heard of the event manager{} for {silence}; is it running, in the same run, and is this its \
             address?",
            self.full_name(node),
            self.place_of_manager()
        )
    }

    fn explain_absence(&self, node: NodeId, absence: Nanos) -> String {
        format!(
            "{} has had no connection to the event manager{} for {absence}; its process or its host has died, or the network \
             between the two",
            self.full_name(node),
            self.place_of_manager()
        )
    }

    fn place_of_manager(&self) -> String {
        let address = self.node(NodeId::MANAGER).and_then(|manager| manager.address.as_deref());
        address.map_or_else(String::new, |address| format!(" at {address}"))
    }
}
