//! Checks of the ledger in a manifest.

use serde_json::{Value, json};
use sheaf_wire::exclusion_record::ExclusionRecord;
use sheaf_wire::shift_record::ShiftRecord;

/// Returns the relations of a ledger that do not hold although it claims to balance; a ledger that does not claim so
/// lists its own problems. Empty if a run has no ledger.
pub(super) fn problems(ledger: &Value) -> Vec<String> {
    let balanced = ledger.get("balanced").and_then(Value::as_bool);
    let listed = ledger.get("problems").and_then(Value::as_array).map_or(0, Vec::len);
    match balanced {
        None => Vec::new(),
        Some(false) if listed > 0 => Vec::new(),
        Some(false) => vec!["the ledger does not balance, and gives no reason".to_owned()],
        Some(true) => {
            let listed = (listed > 0).then(|| format!("the ledger balances, but lists {listed} problems"));
            SUMS.iter().filter_map(|sum| sum.problem(ledger)).chain(listed).collect()
        }
    }
}

/// Returns the contradiction between a balanced ledger and the number of fragments in the files. Fragments of a readout
/// unit that died are in files but in no account; the manifest of such a run contains the number of such units.
pub(super) fn fragments_problem(ledger: &Value, there: u64) -> Option<String> {
    let number = |path| ledger.pointer(path).and_then(Value::as_u64);
    let booked = number("/fragments/stored").filter(|_| ledger["balanced"] == true)?;
    let is_exact = number("/fragments/restarted_readouts") == Some(0);
    let is_right = if is_exact { booked == there } else { booked <= there };
    (!is_right).then(|| format!("the ledger has {booked} fragments stored, but {there} were found"))
}

/// Returns the contradictions between the shifts in a ledger and those in the files. A run whose values were not compared has none.
pub(super) fn shift_problems(ledger: &Value, found: &[ShiftRecord]) -> Vec<String> {
    let Some(listed) = ledger.get("shifts").and_then(Value::as_array) else { return Vec::new() };
    record_problems("shift", listed, &found.iter().map(booked_shift).collect::<Vec<_>>())
}

/// Returns the contradictions between the exclusions in a ledger and those in the files. In a ledger without a list there are none.
pub(super) fn exclusion_problems(ledger: &Value, found: &[ExclusionRecord]) -> Vec<String> {
    let listed = ledger.get("exclusions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    record_problems("exclusion", listed, &found.iter().map(booked_exclusion).collect::<Vec<_>>())
}

/// Returns the contradictions between what a ledger lists and the run records of the files about it, which are `booked` as ledgers have them.
fn record_problems(what: &str, listed: &[Value], booked: &[Value]) -> Vec<String> {
    let missing = listed.iter().filter(|item| !booked.contains(item));
    let missing = missing.map(|item| format!("no file has a record of the {what} {item} of the ledger"));
    let unknown = booked.iter().filter(|item| !listed.contains(item));
    let unknown =
        unknown.map(|item| format!("files have a record of the {what} {item}, which is not in the ledger"));
    missing.chain(unknown).collect()
}

/// Returns an exclusion as ledgers have it.
fn booked_exclusion(exclusion: &ExclusionRecord) -> Value {
    json!({
        "source": exclusion.source.0,
        "first_event": exclusion.first.0,
        "included_from_event": exclusion.included_from.map(|event| event.0),
    })
}

/// Returns a shift as ledgers have it.
fn booked_shift(shift: &ShiftRecord) -> Value {
    json!({
        "source": shift.source.0,
        "quantity": shift.quantity,
        "first_event": shift.first.0,
        "shift": shift.shift,
        "repaired_from_event": shift.repaired_from.map(|event| event.0),
    })
}

/// A number that is the sum of others.
struct Sum {
    total: &'static str,
    /// Numbers, or tables of numbers of which all count.
    parts: &'static [&'static str],
}

const SUMS: &[Sum] = &[
    Sum { total: "/offered", parts: &["/triggers", "/vetoed"] },
    Sum { total: "/triggers", parts: &["/stored", "/rejected", "/dropped"] },
    Sum {
        total: "/fragments/received",
        parts: &["/fragments/stored", "/fragments/rejected", "/fragments/dropped"],
    },
    Sum { total: "/time/run_ns", parts: &["/time/live_ns", "/time/dead_ns"] },
    // Nothing is in flight in a run that has ended.
    Sum { total: "/in_flight", parts: &[] },
    Sum { total: "/fragments/in_flight", parts: &[] },
];

impl Sum {
    fn problem(&self, ledger: &Value) -> Option<String> {
        let number = |path: &&'static str| -> Result<u64, &'static str> {
            ledger.pointer(path).and_then(total_of).ok_or(*path)
        };
        let sum = self.parts.iter().map(number).try_fold(0_u64, |sum, part| Ok(sum.saturating_add(part?)));
        let name = |path: &str| path.trim_start_matches('/').replace('/', ".");
        match (number(&self.total), sum) {
            (Err(path), _) | (_, Err(path)) => Some(format!("the ledger has no number `{}`", name(path))),
            (Ok(total), Ok(sum)) if total == sum => None,
            (Ok(total), Ok(_)) if self.parts.is_empty() => {
                Some(format!("the ledger balances, but `{}` is {total}", name(self.total)))
            }
            (Ok(total), Ok(sum)) => {
                let parts: Vec<_> = self.parts.iter().map(|part| format!("`{}`", name(part))).collect();
                let (name, parts) = (name(self.total), parts.join(", "));
                Some(format!("the ledger has {total} for `{name}`, but the sum of {parts} is {sum}"))
            }
        }
    }
}

/// A count, or the sum of a table of counts.
fn total_of(value: &Value) -> Option<u64> {
    match value {
        Value::Object(counts) => {
            counts.values().map(Value::as_u64).try_fold(0_u64, |sum, count| sum.checked_add(count?))
        }
        _ => value.as_u64(),
    }
}
