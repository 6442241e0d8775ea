//! Checks of mirrors of readout units.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::{BuildBy, Protection, ShapingPolicy, ShiftAction, SourceKind, TransportKind};

impl Checker<'_> {
    /// Checks that mirrors can do what their readout units do.
    pub(super) fn mirrors(&mut self) {
        let Config { readout, source, run, transport, shaping, check, .. } = self.config;
        if readout.protect != Protection::Mirror {
            return;
        }
        let kind = transport.kind;
        if !matches!(kind, TransportKind::Tcp | TransportKind::Shm | TransportKind::Mixed) {
            self.no_mirror(
                "transport.kind",
                format!("`transport.kind` is \"{kind}\""),
                "choose \"tcp\", \"shm\" or \"mixed\"; with `sheaf run`, add `--processes`",
            );
        }
        if source.kind != SourceKind::Emulated {
            self.no_mirror(
                "source.kind",
                format!("`source.kind` is \"{}\"", source.kind),
                "mirrors go on with emulated fragments only",
            );
        }
        if source.build_by != BuildBy::Number {
            self.no_mirror(
                "source.build_by",
                format!("`source.build_by` is \"{}\"", source.build_by),
                "mirrors go on with fragments that have event numbers only",
            );
        }
        if source.emulated.faulty_source.is_some() {
            let found = "an emulated source misses triggers".to_owned();
            self.no_mirror("source.emulated.faulty_source", found, "a mirror would not miss them");
        }
        if self.config.preprocessing.path.is_some() {
            let found = "readout units process fragments".to_owned();
            self.no_mirror("preprocessing.path", found, "mirrors process none");
        }
        if shaping.policy == ShapingPolicy::Barrel {
            let found = "`shaping.policy` is \"barrel\"".to_owned();
            self.no_mirror("shaping.policy", found, "mirrors have no time slots; choose another policy");
        }
        if check.on_shift == ShiftAction::Repair {
            let found = "`check.on_shift` is \"repair\"".to_owned();
            self.no_mirror("check.on_shift", found, "mirrors renumber no fragments; choose another action");
        }
        if self.config.trigger.network.payload_source.is_some() {
            let found = "payloads of triggers are a source".to_owned();
            self.no_mirror("trigger.network.payload_source", found, "mirrors do not receive them");
        }
        if run.continuous {
            let found = "`run.continuous` is true".to_owned();
            self.no_mirror("run.continuous", found, "a run with mirrors hands over to no other run");
        }
    }

    fn no_mirror(&mut self, key: &str, found: String, right: &str) {
        let found = format!("`readout.protect` is \"mirror\", but {found}");
        self.fail(ErrorKind::Conflict, &["readout.protect", key], found, right);
    }
}
