//! Which nodes a run requires, by the patterns of the configuration.

use crate::check::Checker;
use crate::error::ErrorKind;
use crate::settings::{LossAction, Requirement, TriggerMode};
use crate::tables::REQUIRE;
use crate::{Config, NodeConfig};
use sheaf_wire::{NodeId, Role};

/// Nodes of which a run requires a minimum number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredNodes {
    /// Name of the table.
    pub name: String,
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// Minimum number of them.
    pub least: usize,
    /// Action when fewer are left.
    pub on_loss: LossAction,
}

impl Config {
    /// Returns the requirements of a run with these nodes.
    #[must_use]
    pub fn requirements(&self, nodes: &[NodeConfig]) -> Vec<RequiredNodes> {
        let required = |(name, table): (&String, &Requirement)| {
            let nodes: Vec<_> = named(table, nodes).map(|node| node.id).collect();
            let least = least(table, nodes.len());
            RequiredNodes { name: name.clone(), nodes, least, on_loss: table.on_loss }
        };
        self.require.iter().map(required).collect()
    }
}

/// Returns the number of nodes that a table requires of `count`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "there are at most 196,606 nodes"
)]
fn least(table: &Requirement, count: usize) -> usize {
    // A share such as 0.9 is a little more in binary, and 0.9 of 10 nodes are 9.
    let share = (table.share * count as f64 - 1e-9).ceil().max(0.0) as usize;
    share.max(table.least as usize)
}

fn named<'a>(table: &Requirement, nodes: &'a [NodeConfig]) -> impl Iterator<Item = &'a NodeConfig> {
    let is_named = |node: &&NodeConfig| {
        node.id.role != Role::Manager && table.nodes.iter().any(|pattern| matches(pattern, &node.name))
    };
    nodes.iter().filter(is_named)
}

/// Returns whether a name has the form of a pattern, in which `*` stands for any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place leaves most room for what follows.
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

impl Checker<'_> {
    /// Each requirement is about nodes that there are, and can be met.
    pub(crate) fn requirements(&mut self, nodes: &[NodeConfig]) {
        for (name, table) in &self.config.require {
            let path = format!("{REQUIRE}.{name}");
            let key = |knob: &str| format!("{path}.{knob}");
            let count = named(table, nodes).count();
            let stranger = table.nodes.iter().find(|pattern| {
                !nodes.iter().any(|node| node.id.role != Role::Manager && matches(pattern, &node.name))
            });
            if table.nodes.is_empty() {
                let found = format!("`{}` is not set", key("nodes"));
                let right = "name the nodes, such as `nodes = [\"ru*\"]`";
                self.fail(ErrorKind::Nodes, &[&key("nodes"), &path], found, right);
            } else if let Some(pattern) = stranger {
                let names: Vec<_> = nodes
                    .iter()
                    .filter(|node| node.id.role != Role::Manager)
                    .map(|node| &*node.name)
                    .collect();
                let found = format!("no node is named \"{pattern}\"");
                let right = format!("the nodes are {}", shortened(&names));
                self.fail(ErrorKind::Nodes, &[&key("nodes")], found, right);
            } else if least(table, count) > count {
                let found = format!("`{}` is {}, but {count} nodes are named", key("least"), table.least);
                self.fail(ErrorKind::Nodes, &[&key("least")], found, format!("write at most {count}"));
            }
            let mode = self.config.trigger.mode;
            if table.on_loss == LossAction::Pause && matches!(mode, TriggerMode::Source | TriggerMode::Seen) {
                let found = format!(
                    "`{}` is \"pause\", but a run whose data announce the triggers cannot be paused",
                    key("on_loss")
                );
                let right = "use \"continue\" or \"stop\"";
                self.fail(ErrorKind::Conflict, &[&key("on_loss"), "trigger.mode"], found, right);
            }
        }
    }
}

/// Names with commas between them, of which many are left out.
fn shortened(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_is_of_the_nodes_that_there_are() {
        let table = |share, least| Requirement { share, least, ..Requirement::default() };
        assert_eq!(least(&table(0.9, 1), 10), 9);
        assert_eq!(least(&table(0.9, 1), 11), 10);
        assert_eq!(least(&table(0.5, 4), 6), 4);
        assert_eq!(least(&table(1.0, 1), 500), 500);
        assert_eq!(least(&table(0.0, 0), 7), 0);
    }

    proptest! {
        /// A pattern matches what a search of all divisions finds.
        #[test]
        fn a_star_stands_for_any_characters(pattern in "[ab*]{0,6}", name in "[ab]{0,6}") {
            fn slow(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern.split_first(), name.split_first()) {
                    (None, _) => name.is_empty(),
                    (Some((b'*', rest)), _) => (0..=name.len()).any(|at| slow(rest, &name[at..])),
                    (Some((one, rest)), Some((other, more))) => one == other && slow(rest, more),
                    (Some(_), None) => false,
                }
            }
            prop_assert_eq!(matches(&pattern, &name), slow(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
