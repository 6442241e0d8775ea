//! `docs/concepts/ledger.md` names every reason, and states whether it is a loss.

use crate::page::{open, table};
use sheaf_wire::DropReason;

#[test]
fn every_reason_is_explained_and_counts_as_the_code_says() {
    let page = open("../concepts/ledger.md");
    let fragments = table(&page, "| reason of a fragment | counts as | it happens when | look at |");
    let events = table(&page, "| reason of an event | counts as | it happens when | look at |");
    let mut shown: Vec<_> = fragments.iter().chain(&events).map(|row| [row[0], row[1]]).collect();
    let name = |reason: &DropReason| format!("`{}`", reason.name());
    let known: Vec<_> = DropReason::ALL.iter().map(|it| (name(it), it.account().name())).collect();
    let mut known: Vec<_> = known.iter().map(|(name, account)| [name.as_str(), account]).collect();
    shown.sort_unstable();
    known.sort_unstable();
    assert_eq!(shown, known);
}
