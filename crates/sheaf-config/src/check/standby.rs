//! Checks of a standby of the event manager.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::TriggerMode;

impl Checker<'_> {
    pub(super) fn standby(&mut self) {
        let Config { manager, trigger, run, .. } = self.config;
        if manager.voters.is_multiple_of(2) {
            self.fail(
                ErrorKind::BadValue,
                &["manager.voters"],
                format!("`manager.voters` is {}", manager.voters),
                "it must be odd: 1, 3 or 5",
            );
        }
        if manager.standby == 0 {
            return;
        }
        if matches!(trigger.mode, TriggerMode::Network | TriggerMode::Command | TriggerMode::Library) {
            self.fail(
                ErrorKind::Conflict,
                &["manager.standby", "trigger.mode"],
                format!("`manager.standby` is 1, but `trigger.mode` is \"{}\"", trigger.mode),
                "remove one of them: a trigger supervisor knows one event manager only",
            );
        }
        if run.continuous {
            self.fail(
                ErrorKind::Conflict,
                &["manager.standby", "run.continuous"],
                "`manager.standby` is 1, but `run.continuous` is true".into(),
                "remove one of them: a run with a standby hands over to no other run",
            );
        }
    }
}
