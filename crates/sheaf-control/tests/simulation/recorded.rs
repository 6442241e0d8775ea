//! The commands in the records of runs.

use super::world::World;
use sheaf_control::link::Launch;
use sheaf_control::record::{CommandLog, Goal};
use sheaf_control::saved::Saved;
use std::collections::{BTreeMap, BTreeSet};

/// Operations in the records so far, each with the launch of its run: none before there is one.
#[derive(Debug, Default)]
pub(super) struct Recorded(BTreeMap<u64, Option<Launch>>);

impl Recorded {
    /// Looks at what the controller has written down, and at the log of a run that has ended. An operation is in the record of one run,
    /// once, and has a result when that run is over.
    pub(super) fn look(&mut self, disk: &Saved, ended: Option<&(Launch, CommandLog)>, seed: u64) {
        self.look_at(None, &disk.early, seed);
        if let Some(run) = &disk.run {
            self.look_at(Some(run.launch), &run.commands, seed);
        }
        if let Some((launch, log)) = ended {
            self.look_at(Some(*launch), log, seed);
            let open = |goal: &Goal| matches!(goal, Goal::Operation(_));
            let open = log.commands.iter().find(|command| command.end.is_none() && open(&command.goal));
            assert_eq!(open, None, "seed {seed}: a command has no result");
        }
    }

    fn look_at(&mut self, launch: Option<Launch>, log: &CommandLog, seed: u64) {
        let mut here = BTreeSet::new();
        for command in &log.commands {
            let Goal::Operation(id) = command.goal else { continue };
            assert!(here.insert(id), "seed {seed}: operation {id} is recorded twice");
            let known = self.0.entry(id).or_default();
            assert!(known.is_none() || launch == *known, "seed {seed}: operation {id} is in two records");
            *known = launch;
        }
    }
}

impl World {
    /// Every request that was accepted is in a record.
    pub(super) fn check_records(&self) {
        for (name, operation) in &self.operations {
            assert!(
                self.recorded.0.contains_key(operation),
                "seed {}: {name} is in no record: {:#?}",
                self.seed,
                self.log
            );
        }
    }
}
