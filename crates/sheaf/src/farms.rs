//! The farm of a builder unit, from the configuration.

use crate::assemble::Plan;
use crate::filters;
use anyhow::Context;
use sheaf_node::farm::{DoorSetup, FarmSetup, FilterMaker, LauncherOptions, PlacingOptions};
use sheaf_node::processor::{DOOR_EXTENSION, Welcome};
use sheaf_protocol::Identity;
use sheaf_protocol::farm::ConverterConfig;
use sheaf_transport::shm::Arena;
use sheaf_wire::{NodeId, Role};
use std::path::{Path, PathBuf};

/// Processors that may join a builder unit beside those that it starts.
const PROCESSORS_MOST: u16 = 256;

/// Where a builder unit's door is.
fn door_path(me: &Identity, directory: Option<&Path>) -> PathBuf {
    let temporary = || std::env::temp_dir().join(format!("sheaf-run{}-{}", me.run, std::process::id()));
    match directory {
        Some(directory) => directory.join(format!("{}.{DOOR_EXTENSION}", me.node)),
        None => temporary().with_extension(format!("{}.{DOOR_EXTENSION}", me.node)),
    }
}

impl Plan {
    /// The farm of a builder unit, where it has one. Its door is in the run's directory, if that has one.
    pub(crate) fn farm(&self, me: &Identity, directory: Option<&Path>) -> Option<FarmSetup> {
        let filter = &self.config.filter;
        if !filter.has_farm() {
            return None;
        }
        let joining = if filter.has_door() { PROCESSORS_MOST } else { 0 };
        let converter = ConverterConfig {
            events: self.config.builder.slots,
            seats: filter.workers.saturating_add(joining),
            ahead: filter.ahead,
            time_limit: filter.time_limit,
            retries: filter.retries,
            patience: filter.patience,
        };
        let (config, run) = (self.config.clone(), me.run);
        let make: FilterMaker =
            Box::new(move || filters::open(&config, run).map_err(|error| crate::describe(&error)));
        let threads = (filter.workers > 0 && !filter.processes).then_some((filter.workers, make));
        let door = filter.has_door().then(|| DoorSetup {
            path: door_path(me, directory),
            welcome: Welcome {
                run: me.run,
                node: me.node,
                tags: filter.tags.clone(),
                configuration: self.config.to_toml(),
            },
            sources: self.of_role(Role::Readout).map(|node| node.sources.len()).sum(),
            placing: PlacingOptions {
                memory: self.config.builder.memory,
                max_fragment: self.config.max_fragment(),
            },
            launcher: filter.processes.then(|| LauncherOptions {
                count: filter.workers,
                launch: crate::processor::launcher(filter),
            }),
        });
        Some(FarmSetup { converter, threads, door })
    }

    /// The memory that the sources of a node write into, where that must be memory that other processes can read.
    pub(crate) fn farm_arena(&self, node: NodeId) -> anyhow::Result<Option<Arena>> {
        let own =
            self.node(node).filter(|node| self.config.filter.has_door() && node.id.role == Role::Readout);
        let Some(own) = own else { return Ok(None) };
        let bytes = self.source_bytes(own);
        let arena = Arena::new(&format!("sheaf.{node}"), bytes, self.config.transport.huge_pages);
        Ok(Some(arena.with_context(|| format!("cannot make {bytes} of shared memory for {node}"))?))
    }
}
