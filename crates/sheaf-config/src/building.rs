//! Checks of steps and trigger types against the rest of the configuration.

use crate::ErrorKind;
use crate::check::Checker;
use crate::settings::{ShapingPolicy, StepFilterKind, TriggerMode};
use crate::tables::{CLOCKS, TAGS, TRIGGERS};
use sheaf_wire::ByteCount;
use std::collections::BTreeMap;

impl Checker<'_> {
    pub(crate) fn building(&mut self) {
        let (building, shaping) = (&self.config.building, &self.config.shaping);
        let in_steps = !building.first_step.is_empty();
        if in_steps && shaping.policy == ShapingPolicy::Push {
            self.fail(
                ErrorKind::Conflict,
                &["building.first_step", "shaping.policy"],
                "`building.first_step` is set, but `shaping.policy` is \"push\"".into(),
                "with \"push\", readout units send all fragments at once; use another policy",
            );
        }
        if !in_steps && building.filter != StepFilterKind::All {
            self.fail(
                ErrorKind::Conflict,
                &["building.filter", "building.first_step"],
                format!("`building.filter` is \"{}\", but `building.first_step` has no sources", building.filter),
                "write the sources that it judges, such as `first_step = [0]`; [filter] judges complete events",
            );
        }
        if building.filter == StepFilterKind::Coincidence && !self.config.source.is_timed() {
            self.fail(
                ErrorKind::Conflict,
                &["building.filter", "source.build_by"],
                "`building.filter` is \"coincidence\", but fragments are built by number".into(),
                "write `build_by = \"time\"` in [source], so that fragments are time slices",
            );
        }
        if building.windows && building.filter != StepFilterKind::Library {
            self.fail(
                ErrorKind::Conflict,
                &["building.windows", "building.filter"],
                format!("`building.windows` is true, but `building.filter` is \"{}\"", building.filter),
                "remove `windows`: the filter \"coincidence\" always requests windows, and only a library may do it, too",
            );
        } else if building.windows && !self.config.source.is_timed() {
            self.fail(
                ErrorKind::Conflict,
                &["building.windows", "source.build_by"],
                "`building.windows` is true, but fragments are built by number".into(),
                "write `build_by = \"time\"` in [source], so that the step filter gets time slices",
            );
        }
        if building.filter == StepFilterKind::Library && building.path.is_none() {
            self.fail(
                ErrorKind::Missing,
                &["building.filter", "building.path"],
                "`building.filter` is \"library\", but `building.path` is not set".into(),
                "write the path of the library, such as `path = \"./libmy_regions.so\"`",
            );
        }
        self.trigger_classes();
    }

    /// Results that may be larger than their fragments need memory.
    pub(crate) fn preprocessing(&mut self) {
        let preprocessing = &self.config.preprocessing;
        if preprocessing.extra > ByteCount::ZERO {
            let keys = &["preprocessing.extra_bytes"];
            let what = "eight results of `preprocessing.extra_bytes` alone";
            let least = preprocessing.extra.0.saturating_mul(8);
            self.holds("preprocessing.memory_bytes", preprocessing.memory, least, what, keys);
        }
    }

    /// A card has one clock.
    pub(crate) fn clocks(&mut self) {
        let mut seen = BTreeMap::new();
        for (name, clock) in &self.config.clocks {
            let key = format!("{CLOCKS}.{name}.cards");
            for card in &clock.cards {
                if let Some(other) = seen.insert(*card, name).filter(|other| *other != name) {
                    let found = format!("`{key}` names card {card}, as [{CLOCKS}.{other}] does");
                    self.fail(ErrorKind::Conflict, &[&key], found, "each card has one clock");
                }
            }
        }
    }

    /// Checks that settings for tags name tags that exist.
    pub(crate) fn tags(&mut self) {
        for name in self.config.tags.keys() {
            self.is_named(&format!("{TAGS}.{name}"), name);
        }
    }

    fn trigger_classes(&mut self) {
        let classes = &self.config.triggers;
        if classes.is_empty() || self.origins.is_broken(TRIGGERS) {
            return;
        }
        let mode = self.config.trigger.mode;
        if matches!(mode, TriggerMode::Source | TriggerMode::Seen) {
            self.fail(
                ErrorKind::Conflict,
                &[TRIGGERS, "trigger.mode"],
                format!("there are types of triggers, but `trigger.mode` is \"{mode}\""),
                "events that are announced by the data have one type, `trigger.type`; remove the tables",
            );
        }
        let by_window = self.config.source.is_windowed();
        if mode.has_supervisor() && !by_window {
            self.fail(
                ErrorKind::Conflict,
                &[TRIGGERS, "trigger.mode"],
                format!("there are types of triggers, but `trigger.mode` is \"{mode}\""),
                "the trigger supervisor gives each trigger its type; remove the tables",
            );
        }
        if self.config.shaping.policy == ShapingPolicy::Push {
            self.fail(
                ErrorKind::Conflict,
                &[TRIGGERS, "shaping.policy"],
                "there are types of triggers, but `shaping.policy` is \"push\"".into(),
                "with \"push\", readout units send for every trigger; use another policy",
            );
        }
        if classes.values().all(|class| class.weight == 0) {
            let right = "give at least one type a weight, such as `weight = 1`";
            self.fail(
                ErrorKind::Conflict,
                &[TRIGGERS],
                "every type of trigger has the weight 0".into(),
                right,
            );
        }
        let mut seen = BTreeMap::new();
        for (name, class) in classes {
            if !by_window && (class.before.is_some() || class.after.is_some()) {
                let key = format!("{TRIGGERS}.{name}.before_us");
                let found =
                    format!("[{TRIGGERS}.{name}] has a window, but `source.build_by` is not \"window\"");
                self.fail(ErrorKind::Conflict, &[&key, "source.build_by"], found, "remove it");
            }
            let key = format!("{TRIGGERS}.{name}.type");
            let kind = class.trigger_type;
            if let Some(other) = seen.insert(kind, name) {
                let found = format!("`{key}` is {kind}, as that of [{TRIGGERS}.{other}]");
                self.fail(ErrorKind::Conflict, &[&key], found, "each type once");
            }
            let count = self.config.readout.count;
            if let Some(stranger) = class.readouts.iter().find(|readout| **readout >= count) {
                let key = format!("{TRIGGERS}.{name}.readouts");
                let found = format!("`{key}` names readout unit {stranger}, but there are {count}");
                let right = format!("readout units are numbered from 0 to {}", count - 1);
                self.fail(ErrorKind::Conflict, &[&key, "readout.count"], found, right);
            }
        }
    }
}
