//! Settings of windows that depend on each other.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::{FilterKind, ShapingPolicy, TriggerMode};

impl Checker<'_> {
    /// Settings of windows of hits.
    pub(super) fn windows(&mut self) {
        let Config { source, trigger, shaping, building, windows, filter, .. } = self.config;
        if !source.is_windowed() {
            return;
        }
        let key = "source.build_by";
        let mut fail = |other: &'static str, found: String, right: &str| {
            self.fail(ErrorKind::Conflict, &[key, other], found, right);
        };
        if matches!(trigger.mode, TriggerMode::Free | TriggerMode::Source | TriggerMode::Seen) {
            let found = format!(
                "`{key}` is \"window\", but triggers of `trigger.mode` \"{}\" have no times of their own",
                trigger.mode
            );
            let right = "write who gives the triggers: `mode` in [trigger] is \"network\", \"command\" or \"library\"; \"fixed\" \
                         or \"poisson\" emulate them";
            fail("trigger.mode", found, right);
        }
        if shaping.policy == ShapingPolicy::Push {
            let found = format!("`{key}` is \"window\", but `shaping.policy` is \"push\"");
            let right = "with \"push\", readout units send without a request; use another policy";
            fail("shaping.policy", found, right);
        }
        if !building.first_step.is_empty() {
            let found = format!("`{key}` is \"window\", but events are built in steps");
            fail("building.first_step", found, "remove `first_step`");
        }
        if filter.kind == FilterKind::Coincidence {
            let found = format!(
                "`{key}` is \"window\", but `filter.kind` is \"coincidence\", which takes time slices"
            );
            let right = "use a filter of your own, or build by time";
            fail("filter.kind", found, right);
        }
        if source.timed.before.0 > 0 || source.timed.after.0 > 0 {
            let found = format!("`{key}` is \"window\", but time slices overlap");
            let right = "remove `before_us` and `after_us` in [source.timed]: a window may begin in one slice and end in another";
            fail("source.timed.before_us", found, right);
        }
        if windows.before.0 == 0 && windows.after.0 == 0 {
            let found = "windows have no length: `windows.before_us` and `windows.after_us` are 0".to_owned();
            fail("windows.after_us", found, "set one of them");
        }
    }
}
