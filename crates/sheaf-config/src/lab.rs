//! Scenarios of the virtual switch lab: the tables `[lab]` and `[measure]` beside the configuration of a run, and lists in
//! place of values.

use crate::check::{Checker, check};
use crate::document::{Document, read_lab};
use crate::error::{ConfigError, ConfigErrors, ErrorKind, Origin};
use crate::files::Files;
use crate::lab_tables::{LabTables, Sweep};
use crate::origins::Origins;
use crate::settings::{Lab, Measure, OutputKind, SourceKind, TransportKind};
use crate::{Config, Purpose, read_file};
use sheaf_wire::{ByteRate, Nanos, RunNumber};
use std::collections::BTreeMap;
use std::path::Path;

/// More points than this would take a day.
const MAX_POINTS: usize = 1_000;

/// Bytes that a packet takes on the wire beside its own: head, checksum, preamble, gap.
const ETHERNET_OVERHEAD: u64 = 38;

/// A scenario of the lab, understood: all points of its sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct LabFile {
    /// Name of the scenario.
    pub name: String,
    /// Purpose of the scenario; empty where the file gives none.
    pub about: String,
    /// The swept keys, in the order of the file.
    pub sweeps: Vec<LabSweep>,
    /// Points to be measured; the last sweep varies fastest. Never empty.
    pub points: Vec<LabPoint>,
}

/// A key that has a list in place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabSweep {
    /// The key with its table: `lab.port_buffer_bytes`.
    pub key: String,
    /// The values as the file has them, without quotes.
    pub values: Vec<String>,
}

/// One point of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabPoint {
    /// The swept keys in the order of the file, and their values here.
    pub settings: Vec<(String, String)>,
    /// The network.
    pub lab: Lab,
    /// Actions during the measurement, and its sampling.
    pub measure: Measure,
    /// The run.
    pub config: Config,
}

impl LabFile {
    /// Reads a file. `change` makes the changes that the command line asks for, at every point, before it is checked.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the file.
    pub fn load(path: &Path, change: impl Fn(&mut LabPoint)) -> Result<Self, ConfigErrors> {
        let bytes = read_file(path)?;
        let file = path.display().to_string();
        let stem = path.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy());
        Self::from_bytes(&bytes, &file, &stem, change)
    }

    /// Reads the bytes of a file, which says something at least.
    fn from_bytes(
        bytes: &[u8],
        file: &str,
        stem: &str,
        change: impl Fn(&mut LabPoint),
    ) -> Result<Self, ConfigErrors> {
        match std::str::from_utf8(bytes) {
            Ok(text) if text.lines().all(is_blank) => {
                let error = ConfigError {
                    kind: ErrorKind::Missing,
                    key: String::new(),
                    found: "the scenario is empty".to_owned(),
                    right: "at least the table [lab]; `sheaf lab list` names the scenarios that ship"
                        .to_owned(),
                    origin: Origin::File(file.into()),
                };
                Err(ConfigErrors::or(vec![error], ()).expect_err("one error was given"))
            }
            Ok(text) => Self::parse(text, file, stem, change),
            // The reader of configurations has the message for it.
            Err(_) => Config::from_bytes(bytes, (file, Files::Refuse), |_| {}, Purpose::Run)
                .map(|_| unreachable!("not UTF-8")),
        }
    }

    /// Reads the text of a file. `file` is its name in messages, `name` that of the scenario where the text gives none.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the text.
    pub fn parse(
        text: &str,
        file: &str,
        name: &str,
        change: impl Fn(&mut LabPoint),
    ) -> Result<Self, ConfigErrors> {
        let document = read_lab(text, file, LabTables::default());
        if !document.errors.is_empty() {
            return Err(ConfigErrors::or_more(document.errors, document.more, ())
                .expect_err("a list of errors that is not empty is an error"));
        }
        let tables = document.lab.unwrap_or_default();
        let mut sweeps = tables.sweeps;
        sweeps.sort_by_key(|sweep| sweep.at.start);
        let total = sweeps.iter().fold(1_usize, |total, sweep| total.saturating_mul(sweep.values.len()));
        if total > MAX_POINTS {
            let error = ConfigError {
                kind: ErrorKind::TooLarge,
                key: sweeps[0].key.clone(),
                found: format!("the lists of this file make {total} points"),
                right: format!("at most {MAX_POINTS}: shorter lists, or several files"),
                origin: document.origins.find(&[&sweeps[0].key]),
            };
            return Err(ConfigErrors::or(vec![error], ()).expect_err("one error was given"));
        }
        let mut errors = Vec::new();
        let mut points = Vec::with_capacity(total);
        for index in 0..total {
            let (point, wrong) = point(text, file, &sweeps, index, &change);
            // Points that differ in something else find the same wrong.
            for error in wrong {
                if !errors.contains(&error) {
                    errors.push(error);
                }
            }
            points.push(point);
        }
        let file = Self {
            name: tables.head.name.unwrap_or_else(|| name.to_owned()),
            about: tables.head.about.unwrap_or_default(),
            sweeps: sweeps.into_iter().map(|Sweep { key, values, .. }| LabSweep { key, values }).collect(),
            points,
        };
        ConfigErrors::or(errors, file)
    }
}

/// Returns whether a line says nothing: it is empty or a comment.
fn is_blank(line: &str) -> bool {
    line.trim_start().is_empty() || line.trim_start().starts_with('#')
}

/// Returns point number `index` and its problems.
fn point(
    text: &str,
    file: &str,
    sweeps: &[Sweep],
    mut index: usize,
    change: impl Fn(&mut LabPoint),
) -> (LabPoint, Vec<ConfigError>) {
    let mut choice = BTreeMap::new();
    for sweep in sweeps.iter().rev() {
        choice.insert(sweep.key.clone(), index % sweep.values.len());
        index /= sweep.values.len();
    }
    let setting = |sweep: &Sweep| (sweep.key.clone(), sweep.values[choice[&sweep.key]].clone());
    let settings = sweeps.iter().map(setting).collect();
    let tables = LabTables { choice, ..LabTables::default() };
    let Document { mut config, origins, errors, lab, .. } = read_lab(text, file, tables);
    let tables = lab.unwrap_or_default();
    config.follow(&origins);
    follow(&mut config, &tables.lab, &origins);
    let mut point = LabPoint { settings, lab: tables.lab, measure: tables.measure, config };
    change(&mut point);
    let mut wrong = errors;
    wrong.extend(check(&point.config, &origins, Purpose::Run));
    if wrong.is_empty() {
        let mut checker = Checker { config: &point.config, origins: &origins, errors: Vec::new() };
        checker.lab(&point.lab, &point.measure);
        wrong = checker.errors;
    }
    (point, wrong)
}

/// Fills in defaults of the lab where the file sets nothing.
fn follow(config: &mut Config, lab: &Lab, origins: &Origins<'_>) {
    if let Some(units) = lab.units {
        (config.readout.count, config.builder.count) = (units, units);
    }
    if !origins.is_in_file("transport.kind") {
        config.transport.kind = TransportKind::Tcp;
    }
    if !origins.is_in_file("transport.rails") {
        config.transport.rails = lab.rails;
    }
    if !origins.is_in_file("transport.mtu_bytes") {
        config.transport.mtu = lab.mtu;
    }
    if config.transport.kind.sends_datagrams() && !origins.is_in_file("shaping.line_rate_bits") {
        // No line rate has fractions of a bit per second.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
        let bits = (lab.rate_mbps * 1e6).round() as u64;
        config.shaping.line_rate = ByteRate::from_bits(bits);
    }
    if !origins.is_in_file("output.kind") {
        config.output.kind = OutputKind::None;
    }
    if config.run.number == RunNumber(0) {
        config.run.number = RunNumber(1);
    }
}

impl Checker<'_> {
    /// Checks that the lab can create the network, and that its settings go together.
    fn lab(&mut self, lab: &Lab, measure: &Measure) {
        let config = self.config;
        if lab.units.is_some() {
            for key in ["readout.count", "builder.count"] {
                if self.origins.is_in_file(key) {
                    let found = format!("both `lab.units` and `{key}` set the number of units");
                    self.fail(ErrorKind::Conflict, &[key, "lab.units"], found, "leave one of them out");
                }
            }
        }
        if !config.node.is_empty() {
            let found = "the file lists nodes with [[node]]".to_owned();
            let right = "remove them: the lab creates the hosts; `lab.units` is their number";
            self.fail(ErrorKind::Conflict, &["node[0]"], found, right);
        }
        self.lab_run();
        if config.transport.kind.sends_datagrams() && config.transport.mtu > lab.mtu {
            let found =
                format!("`transport.mtu_bytes` is {}, and `lab.mtu_bytes` {}", config.transport.mtu, lab.mtu);
            let right = "remove the former: datagrams are then as large as the lab's packets";
            self.fail(ErrorKind::Conflict, &["transport.mtu_bytes", "lab.mtu_bytes"], found, right);
        }
        let packet = u64::from(lab.mtu) + ETHERNET_OVERHEAD;
        if lab.port_buffer.0 < 2 * packet {
            let found = format!("`lab.port_buffer_bytes` is {}, less than two packets", lab.port_buffer.0);
            let right = format!("with `lab.mtu_bytes = {}` at least {}", lab.mtu, 2 * packet);
            self.fail(ErrorKind::TooSmall, &["lab.port_buffer_bytes", "lab.mtu_bytes"], found, right);
        }
        if lab.leaves == 1 && (lab.spines > 1 || lab.uplink_mbps.is_some()) {
            let key = if lab.spines > 1 { "lab.spines" } else { "lab.uplink_mbps" };
            let found = format!("`{key}` has no effect with one switch");
            self.fail(ErrorKind::Conflict, &[key], found, "set `lab.leaves` to 2 or more, or leave it out");
        }
        if let Some(slow) = measure.slow_builder {
            if slow >= config.builder.count {
                let found =
                    format!("`measure.slow_builder` is {slow}, of {} builder units", config.builder.count);
                let keys = &["measure.slow_builder", "lab.units", "builder.count"];
                self.fail(ErrorKind::BadValue, keys, found, "they are counted from 0");
            }
            if measure.slow_until <= measure.slow_from {
                let found = "`measure.slow_until_s` is not after `measure.slow_from_s`".to_owned();
                let keys = &["measure.slow_until_s", "measure.slow_from_s", "measure.slow_builder"];
                self.fail(ErrorKind::Conflict, keys, found, "the slow period must end after it begins");
            }
        }
    }

    /// Runs that the lab can make: emulated, over its network, with an end.
    fn lab_run(&mut self) {
        let config = self.config;
        let kind = config.transport.kind;
        if !kind.crosses_hosts_alone() {
            let found = format!("`transport.kind` is \"{kind}\", which does not use the lab's network");
            let right = "use \"tcp\" or another kind that connects hosts";
            self.fail(ErrorKind::Conflict, &["transport.kind"], found, right);
        }
        if config.output.kind == OutputKind::File {
            let found = "`output.kind` is \"file\"".to_owned();
            let right = "remove it: the lab measures networks, and a disk would disturb the measurement";
            self.fail(ErrorKind::Conflict, &["output.kind"], found, right);
        }
        if config.source.kind == SourceKind::Replay {
            let found = "`source.kind` is \"replay\"".to_owned();
            let right = "remove it: the lab emulates sources; set their sizes with `source.emulated.size`";
            self.fail(ErrorKind::Conflict, &["source.kind"], found, right);
        }
        if config.run.duration.is_none_or(|duration| duration == Nanos::ZERO) && config.run.events.is_none() {
            let found = "the run has no end".to_owned();
            self.fail(
                ErrorKind::Missing,
                &["run.duration_s"],
                found,
                "set `run.duration_s`, or `run.events`",
            );
        }
    }
}

#[cfg(test)]
mod tests;
