//! One host: all nodes here, each in a process of its own.

use crate::plan::PlannedCommand;
use crate::{Launch, LaunchPlan};

impl Launch {
    /// Plans a run of all nodes on this host, also of those that agents start on others.
    #[must_use]
    pub fn local(&self) -> LaunchPlan {
        let words = [&*self.program, "run", &self.file, "--local", "--processes"];
        let words: Vec<_> = words.into_iter().chain(self.run_flags.iter().map(String::as_str)).collect();
        let purpose = "run all nodes on this host, each in a process of its own";
        LaunchPlan { commands: vec![PlannedCommand::new(purpose, &words)], ..LaunchPlan::default() }
    }
}
