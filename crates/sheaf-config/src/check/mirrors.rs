//! Checks of mirrors of readout units.

use super::Checker;
use crate::error::ErrorKind;
use crate::settings::Protection;

impl Checker<'_> {
    /// Refuses mirrors, which no run can have yet.
    pub(super) fn mirrors(&mut self) {
        if self.config.readout.protect == Protection::Mirror {
            let found = "`readout.protect` is \"mirror\"".to_owned();
            self.fail(
                ErrorKind::Conflict,
                &["readout.protect"],
                found,
                "this release has no mirrors; remove it",
            );
        }
    }
}
