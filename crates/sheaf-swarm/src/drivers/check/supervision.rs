//! Triggers of a supervisor: none is lost, and both sides agree.

use super::causes::Causes;
use crate::violation::{Violation, violation};
use sheaf_node::report::RunReport;

pub(super) fn check(
    report: &RunReport,
    (late, deaths): (u64, u64),
    causes: &Causes<'_>,
    violations: &mut Vec<Violation>,
) {
    let Some(link) = &report.trigger_link else {
        violations.push(violation!("the run has no account of its trigger supervisor"));
        return;
    };
    let triggers = &link.triggers;
    if !link.is_balanced() || triggers.accepted != report.ledger.received {
        violations.push(violation!("{} events, and the link has {triggers:?}", report.ledger.received));
    }
    let odd = triggers.lost + triggers.repeated + triggers.out_of_order + link.skipped + link.steps_back;
    if odd + link.undelivered > 0 || !link.differences.is_empty() {
        violations.push(violation!("the two sides of the trigger link differ: {link:?}"));
    }
    if deaths > 0 {
        return;
    }
    // While the process of the event manager is stopped, it sends no busy, and triggers wait in the connection.
    if late > 0 && !causes.stopped_the_manager() {
        violations.push(violation!("{late} triggers found no room"));
    }
    if triggers.outside > 0 && !causes.was_cut() {
        violations.push(violation!("{} triggers came too late for the run", triggers.outside));
    }
    let offered = link.supervisor.offered.saturating_sub(triggers.outside);
    let has_account = link.accounts == 1 || link.connections == 0;
    if !has_account || report.offered() != offered {
        violations.push(violation!(
            "{} triggers were offered, and the supervisor's {} accounts have {offered}",
            report.offered(),
            link.accounts
        ));
    }
}
