//! Sources whose event numbers disagree with those of the others, in the summary.

use super::EarlyEnd;
use crate::console::count;
use crate::numbering::quantities;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use sheaf_config::ShiftAction;
use sheaf_node::report::RunReport;

/// Number of shifts that are described.
const SHIFTS_NAMED: usize = 4;

/// A source whose fragments are in other events than they belong to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShiftSummary {
    pub(crate) source: u32,
    /// The quantity that told, as `check_fields` names it.
    pub(crate) quantity: String,
    /// First event with a fragment of another one.
    pub(crate) first_event: u64,
    /// Number of events by which its fragments are too early: the number of triggers that the source has missed.
    pub(crate) shift: i64,
    /// First event with a fragment that was renumbered; `null`: not repaired.
    pub(crate) repaired_from_event: Option<u64>,
}

/// Returns the shifts of a run.
pub(crate) fn shifts(report: &RunReport, plan: &Plan) -> Vec<ShiftSummary> {
    let names = quantities(&plan.config);
    let summary = |shift: &sheaf_protocol::numbering::Shift| ShiftSummary {
        source: shift.source.0,
        quantity: names.get(usize::from(shift.quantity)).copied().unwrap_or_default().to_owned(),
        first_event: shift.first.0,
        shift: shift.shift,
        repaired_from_event: shift.repaired_from.map(|event| event.0),
    };
    report.shifts.iter().map(summary).collect()
}

/// Returns why a run ended early, if a shift ended it.
pub(crate) fn end_by_shift(shifts: &[ShiftSummary], plan: &Plan) -> Option<EarlyEnd> {
    let shift = shifts.first().filter(|_| plan.config.check.on_shift == ShiftAction::Stop)?;
    let why = format!("{shift}, and `check.on_shift` is \"stop\"");
    Some(EarlyEnd::new("shift", why))
}

/// Returns the cause of disagreements, and its remedy.
pub(super) fn cause_and_remedy(shifts: &[ShiftSummary]) -> (String, &'static str) {
    if shifts.is_empty() {
        return ("no source is off by the same number of events all the time".into(), REMEDY_OF_NOISE);
    }
    let named: Vec<_> = shifts.iter().take(SHIFTS_NAMED).map(ToString::to_string).collect();
    let more = match shifts.len().saturating_sub(SHIFTS_NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let is_repaired = shifts.iter().all(|shift| shift.repaired_from_event.is_some());
    let remedy = if is_repaired { REMEDY_OF_REPAIRED } else { REMEDY_OF_SHIFT };
    (format!("{}{more}", named.join("; ")), remedy)
}

const REMEDY_OF_NOISE: &str =
    "check `value`, `offset` and `tolerance` in `check_fields`; `sheaf inspect` names the sources";
const REMEDY_OF_REPAIRED: &str =
    "find out why the source missed the trigger; events before and after these are good";
const REMEDY_OF_SHIFT: &str = "reset the source's event counter before the next run, and find out why it missed the trigger; \
                               events before are good; `check.on_shift = \"repair\"` renumbers the source during the run";

impl std::fmt::Display for ShiftSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, shift, first_event, .. } = self;
        write!(f, "source {source} is off by {shift:+} from event {} on", count(*first_event))?;
        match self.repaired_from_event {
            Some(event) => write!(f, ", repaired from event {} on", count(event)),
            None => Ok(()),
        }
    }
}
