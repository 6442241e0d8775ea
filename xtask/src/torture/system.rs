//! The system that a case runs: a configuration, written as text because only `sheaf-config` knows its structure.

use std::collections::BTreeMap;
use std::path::Path;

/// A run with a fixed amount of work. Other settings have their defaults.
#[derive(Clone, Debug)]
pub(super) struct System {
    /// Whether each role runs in its own process.
    pub(super) processes: bool,
    /// `transport.kind`.
    pub(super) transport: &'static str,
    pub(super) readouts: u64,
    pub(super) builders: u64,
    pub(super) outputs: u64,
    /// Number of triggers that end the run.
    pub(super) events: u64,
    /// Trigger rate; 0 for as many as the system accepts.
    pub(super) rate_hz: u64,
    /// Payload of each fragment. Each readout unit has one fragment of each event.
    pub(super) fragment_bytes: u64,
    /// One event in this many is stored; the filter rejects the others.
    pub(super) kept_one_in: u64,
    /// Additional lines of tables, by the table's name.
    more: BTreeMap<&'static str, Vec<String>>,
}

/// Header of an event and of a fragment in an event file.
const EVENT_BYTES: u64 = 72;
const FRAGMENT_BYTES: u64 = 24;

impl System {
    /// Returns a system of two readout units and two builder units in separate processes, at a moderate trigger rate.
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

    /// Returns the size of the event files once all events have ended, without file headers.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.events / self.kept_one_in
            * (EVENT_BYTES + self.readouts * (FRAGMENT_BYTES + self.fragment_bytes))
    }

    /// Returns the configuration, with events stored below the directory `output`.
    pub(super) fn to_toml(&self, output: &Path) -> String {
        let mut tables = self.more.clone();
        let mut set = |table, line: String| tables.entry(table).or_default().insert(0, line);
        set("run", format!("output = {:?}\nduration_s = 0\nevents = {}", output, self.events));
        set("readout", format!("count = {}", self.readouts));
        set("builder", format!("count = {}\ncheck_content = true", self.builders));
        // Disks are small here, and full disks are a separate fault.
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

    /// The configuration of the cases is accepted by the command's parser.
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
