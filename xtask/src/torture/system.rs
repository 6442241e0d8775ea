//! The system that a case runs: a configuration, written as text because only one crate knows more of it.

use std::collections::BTreeMap;
use std::path::Path;

/// A run with a fixed amount of work. What is not said here has its default.
#[derive(Clone, Debug)]
pub(super) struct System {
    /// Each role in a process of its own.
    pub(super) processes: bool,
    /// `transport.kind`.
    pub(super) transport: &'static str,
    pub(super) readouts: u64,
    pub(super) builders: u64,
    pub(super) outputs: u64,
    /// Number of triggers that end the run.
    pub(super) events: u64,
    /// Triggers a second; 0: as many as the system takes.
    pub(super) rate_hz: u64,
    /// Payload of each of an event's fragments, one for each readout unit.
    pub(super) fragment_bytes: u64,
    /// One event in this many is stored; the filter rejects the others.
    pub(super) kept_one_in: u64,
    /// More lines of tables, by the table's name.
    more: BTreeMap<&'static str, Vec<String>>,
}

/// Header of an event and of a fragment in an event file.
const EVENT_BYTES: u64 = 72;
const FRAGMENT_BYTES: u64 = 24;

impl System {
    /// Two readout units and two builder units in processes of their own, some seconds of events at a moderate rate.
    pub(super) fn new(events: u64) -> Self {
        Self {
            processes: true,
            transport: "tcp",
            readouts: 2,
            builders: 2,
            outputs: 0,
            events,
            rate_hz: 4_000,
            fragment_bytes: 500,
            kept_one_in: 1,
            more: BTreeMap::new(),
        }
    }

    /// Adds `key = value` to a table.
    pub(super) fn set(&mut self, table: &'static str, line: impl Into<String>) -> &mut Self {
        self.more.entry(table).or_default().push(line.into());
        self
    }

    /// Bytes in the event files once all events have ended, but for the files' own headers.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.events / self.kept_one_in
            * (EVENT_BYTES + self.readouts * (FRAGMENT_BYTES + self.fragment_bytes))
    }

    /// The configuration, for events below the directory `output`.
    pub(super) fn to_toml(&self, output: &Path) -> String {
        let mut tables = self.more.clone();
        let mut set = |table, line: String| tables.entry(table).or_default().insert(0, line);
        set("run", format!("output = {:?}\nduration_s = 0\nevents = {}", output, self.events));
        set("readout", format!("count = {}", self.readouts));
        set("builder", format!("count = {}\ncheck_content = true", self.builders));
        // Full disks are a fault of their own here, and small ones.
        set("output", format!("nodes = {}\nkeep_free_bytes = 0", self.outputs));
        set("transport", format!("kind = {:?}", self.transport));
        set("source.emulated", format!("size = \"fixed\"\nmean_bytes = {}", self.fragment_bytes));
        if self.kept_one_in > 1 {
            set("filter", format!("kind = \"prescale\"\nprescale = {}", self.kept_one_in));
        }
        if self.rate_hz > 0 {
            set("trigger", format!("mode = \"fixed\"\nrate_hz = {}", self.rate_hz));
        }
        let table = |(name, lines): (&&str, &Vec<String>)| format!("[{name}]\n{}\n", lines.join("\n"));
        tables.iter().map(table).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command's own reader of configurations accepts the configuration that the cases rely on.
    #[test]
    fn the_configuration_of_a_case_is_accepted() {
        let mut system = System::new(100);
        system.outputs = 1;
        system.set("filter", "workers = 2\nprocesses = true").set("builder", "slots = 64");
        let text = system.to_toml(Path::new("runs"));
        let config = sheaf_config::Config::parse(&text, "case.toml");
        let config = config.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(config.run.events, Some(100));
        assert_eq!(config.builder.slots, 64);
    }
}
