//! Runs of which this directory has a part: the files of other nodes are on other hosts.

use super::PartReport;
use crate::run::{Manifest, SessionRecord};
use sheaf_wire::{NodeId, SessionId};

/// Returns the parts of a run that are elsewhere: those of sessions whose files are on another host, and of which none `is_here`.
pub(super) fn elsewhere(manifest: &Manifest, is_here: impl Fn(NodeId, SessionId) -> bool) -> Vec<PartReport> {
    let mut parts: Vec<PartReport> = Vec::new();
    for record in manifest.sessions.iter().filter(|record| record.events() > 0) {
        let SessionRecord { node, session, .. } = *record;
        let Some(host) = manifest.elsewhere(node).filter(|_| !is_here(node, session)) else { continue };
        let known =
            parts.iter_mut().find(|part| (&part.host, &part.directory) == (&host.host, &host.directory));
        let name = node.to_string();
        match known {
            Some(part) => {
                part.events += record.events();
                if !part.nodes.contains(&name) {
                    part.nodes.push(name);
                }
            }
            None => parts.push(PartReport {
                host: host.host.clone(),
                directory: host.directory.clone(),
                nodes: vec![name],
                events: record.events(),
            }),
        }
    }
    parts
}
