//! Two runs side by side.

use super::code::Code;
use super::record::Record;
use crate::histograms;
use serde::Serialize;
use sheaf_histogram::{Histogram, HistogramComparison, HistogramRecord, compare};
use sheaf_store::run::ValueRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Keys that differ between any two runs.
const OF_EVERY_RUN: [&str; 1] = ["run.number"];

/// Differences of two runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) runs: [u32; 2],
    #[serde(flatten)]
    pub(crate) differences: Differences,
    /// Versions of the software, if they differ.
    pub(crate) software: Option<[String; 2]>,
    /// Numbers of both runs.
    pub(crate) numbers: Vec<Number>,
    /// Values from outside of either run, by name.
    pub(crate) values: Vec<ComparedValue>,
    /// Histograms of either run, by name.
    pub(crate) histograms: Vec<ComparedHistogram>,
}

/// A histogram of either run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ComparedHistogram {
    pub(crate) name: String,
    /// Entries in both; `null` where a run does not have it.
    pub(crate) entries: [Option<u64>; 2],
    pub(crate) comparison: Option<HistogramComparison>,
    /// Reason why it is not compared.
    pub(crate) not_compared: Option<String>,
}

/// A value from outside of either run; `null` where a run does not have it, or did not know it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ComparedValue {
    pub(crate) name: String,
    pub(crate) unit: Option<String>,
    pub(crate) mean: [Option<f64>; 2],
    pub(crate) minimum: [Option<f64>; 2],
    pub(crate) maximum: [Option<f64>; 2],
}

/// A number of both runs; `null` where a run does not have it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Number {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) values: [Option<f64>; 2],
}

/// Differences of two configurations.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Differences {
    /// Settings that differ, by key; `null` where one does not have it.
    pub(crate) settings: BTreeMap<String, [Option<String>; 2]>,
    /// Code that differs, by table of the configuration.
    pub(crate) code: BTreeMap<String, [Option<Code>; 2]>,
}

impl Differences {
    pub(super) fn of([one, other]: [(&BTreeMap<String, String>, &[Code]); 2]) -> Self {
        let mut settings = differences(one.0, other.0);
        settings.retain(|key, _| !OF_EVERY_RUN.contains(&key.as_str()));
        let by_table = |code: &[Code]| -> BTreeMap<String, Code> {
            code.iter().map(|code| (code.table.clone(), code.clone())).collect()
        };
        Self { settings, code: differences(&by_table(one.1), &by_table(other.1)) }
    }
}

impl Comparison {
    pub(super) fn of(before: &Record, after: &Record) -> Self {
        let software =
            (before.software != after.software).then(|| [before.software.clone(), after.software.clone()]);
        Self {
            runs: [before.run, after.run],
            differences: Differences::of([(&before.settings, &before.code), (&after.settings, &after.code)]),
            software,
            numbers: numbers(before, after),
            values: values([before, after]),
            histograms: Vec::new(),
        }
    }

    /// Adds the comparison of their histograms.
    pub(super) fn with_histograms(mut self, runs: [&Record; 2]) -> anyhow::Result<Self> {
        let [before, after] = runs.map(|record| histograms::read(&record.directory));
        let (before, after) = (before?, after?);
        let by_name = |record: &Option<HistogramRecord>| -> BTreeMap<String, Histogram> {
            let all = record.iter().flat_map(|record| &record.histograms).map(|one| one.histogram.clone());
            all.map(|histogram| (histogram.name.clone(), histogram)).collect()
        };
        let [before, after] = [by_name(&before), by_name(&after)];
        let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let compared = |name: &String| ComparedHistogram::of(name, [before.get(name), after.get(name)]);
        self.histograms = names.into_iter().map(compared).collect();
        Ok(self)
    }
}

impl ComparedHistogram {
    fn of(name: &str, histograms: [Option<&Histogram>; 2]) -> Self {
        let entries = histograms.map(|histogram| histogram.map(|histogram| histogram.entries));
        let result = match histograms {
            [Some(before), Some(after)] => {
                compare(before, after).map_err(|difference| difference.to_string())
            }
            _ => Err("one of the runs does not have it".to_owned()),
        };
        let (comparison, not_compared) = match result {
            Ok(comparison) => (Some(comparison), None),
            Err(text) => (None, Some(text)),
        };
        Self { name: name.to_owned(), entries, comparison, not_compared }
    }
}

/// Returns the keys whose values differ, with both values.
fn differences<T: Clone + PartialEq>(
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
) -> BTreeMap<String, [Option<T>; 2]> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let both = keys.into_iter().map(|key| (key.clone(), [before.get(key).cloned(), after.get(key).cloned()]));
    both.filter(|(_, [one, other])| one != other).collect()
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn numbers(before: &Record, after: &Record) -> Vec<Number> {
    let number = |name: &str, unit, of: &dyn Fn(&Record) -> Option<f64>| Number {
        name: name.to_owned(),
        unit,
        values: [of(before), of(after)],
    };
    let ledger = |of: fn(&crate::summary::LedgerSummary) -> u64| {
        move |record: &Record| record.ledger.as_ref().map(|ledger| of(ledger) as f64)
    };
    let seconds =
        |record: &Record| Some(record.ledger.as_ref()?.time.run_ns as f64 / 1e9).filter(|time| *time > 0.0);
    let rate = |record: &Record| Some(record.ledger.as_ref()?.triggers as f64 / seconds(record)?);
    let mut numbers = vec![
        number("time of triggers", "s", &seconds),
        number("triggers", "", &ledger(|ledger| ledger.triggers)),
        number("rate", "1/s", &rate),
        number("stored", "", &ledger(|ledger| ledger.stored)),
        number("rejected", "", &ledger(|ledger| ledger.rejected)),
        number("lost", "", &|record| Some(record.lost() as f64)),
        number("dead time", "%", &|record| Some(100.0 * record.dead_fraction()?)),
        number("size", "B", &|record| Some(record.bytes() as f64)),
    ];
    for cause in causes(before).union(&causes(after)) {
        let of_cause = |record: &Record| {
            let dead = record.ledger.as_ref()?.time.dead_ns.get(cause).copied().unwrap_or(0);
            Some(dead as f64 / 1e9)
        };
        numbers.push(number(&format!("dead time: {cause}"), "s", &of_cause));
    }
    numbers
}

/// Returns the values from outside of either run, side by side.
fn values(runs: [&Record; 2]) -> Vec<ComparedValue> {
    let names: BTreeSet<_> = runs.iter().flat_map(|run| run.values.iter().map(|value| &value.name)).collect();
    let compared = |name: &String| {
        let found = runs.map(|run| run.values.iter().find(|value| value.name == *name));
        let number = |of: fn(&ValueRecord) -> Option<f64>| found.map(|value| value.and_then(of));
        ComparedValue {
            name: name.clone(),
            unit: found.iter().rev().flatten().find_map(|value| value.unit.clone()),
            mean: number(|value| value.mean),
            minimum: number(|value| value.minimum),
            maximum: number(|value| value.maximum),
        }
    };
    names.into_iter().map(compared).collect()
}

fn causes(record: &Record) -> BTreeSet<String> {
    record.ledger.iter().flat_map(|ledger| ledger.time.dead_ns.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_returned_with_both_values() {
        let map = |entries: &[(&str, u32)]| {
            entries.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
        };
        let found = differences(&map(&[("a", 1), ("b", 2), ("c", 3)]), &map(&[("b", 2), ("c", 4), ("d", 5)]));
        let expected = [("a", [Some(1), None]), ("c", [Some(3), Some(4)]), ("d", [None, Some(5)])];
        assert_eq!(found, expected.map(|(key, values)| (key.to_owned(), values)).into());
    }
}
