//! All values: what is known of each, and its numbers over time and during a run.
//!
//! The book reads no clock: each call gets the time, in milliseconds of a clock that never goes back. Everything in it is bounded by the number of
//! declared values.

use super::declared::{DeclaredValue, ValueLimits};
use super::number;
use super::statistics::{Span, Statistics};
use crate::history::{History, RINGS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Readings of a sent value that are kept for the process of a run, which looks for them several times a second.
const RECENT: usize = 16;

/// Numbers of a trend, each of which is the mean over 10 s.
const TREND: usize = 60;

/// Time after which reading a file is said to hang.
const HANGS_MS: u64 = 2_000;

/// Reason why a value is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The configuration has no such value.
    Undeclared,
    /// It is read from a file, and nobody else sends it.
    FromFile,
    /// It is no finite number, or too large.
    NoNumber,
    /// It is older than the one that is known.
    Late,
    /// Its time is in the future.
    Future,
    /// The request has no form that is known.
    Invalid,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Undeclared, Self::FromFile, Self::NoNumber, Self::Late, Self::Future, Self::Invalid];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undeclared => "undeclared",
            Self::FromFile => "from_file",
            Self::NoNumber => "no_number",
            Self::Late => "late",
            Self::Future => "future",
            Self::Invalid => "invalid",
        }
    }

    /// Returns advice to whoever sends.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Undeclared => "declare it in the configuration, `[value.NAME]`, or correct the name",
            Self::FromFile => "remove `read` of this value from the configuration, or do not send it",
            Self::NoNumber => "send a number of at most 1e30, or null if it is not known",
            Self::Late => "two programs may send it, or one sends in another order than it reads",
            Self::Future => {
                "leave `time_ms` out, or synchronize the clock of the host that sends with this one"
            }
            Self::Invalid => "send {\"values\": {\"NAME\": NUMBER}}",
        }
    }
}

/// A value that a program sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offer<'a> {
    pub(crate) name: &'a str,
    /// `None`: the sender does not know it.
    pub(crate) value: Option<f64>,
    /// Age, in milliseconds.
    pub(crate) age: u64,
    /// Who sends it.
    pub(crate) by: Option<&'a str>,
}

/// State of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Freshness {
    Fresh,
    Stale,
    Unknown,
}

/// Position of a value relative to its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Good,
    Warning,
    Error,
}

impl ValueLimits {
    /// Returns the level of a value, and the limit that it has passed: whether the value is below, and the limit.
    pub(crate) fn judge(&self, value: f64) -> (Level, Option<(bool, f64)>) {
        let below = |limit: Option<f64>| limit.filter(|limit| value < *limit).map(|limit| (true, limit));
        let above = |limit: Option<f64>| limit.filter(|limit| value > *limit).map(|limit| (false, limit));
        let error = below(self.error_below).or_else(|| above(self.error_above));
        let warning = below(self.warning_below).or_else(|| above(self.warning_above));
        match (error, warning) {
            (Some(_), _) => (Level::Error, error),
            (None, Some(_)) => (Level::Warning, warning),
            (None, None) => (Level::Good, None),
        }
    }
}

/// A value at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ValueReport {
    pub(crate) name: String,
    pub(crate) unit: Option<String>,
    /// The last number; the present one if it is fresh.
    pub(crate) value: Option<f64>,
    pub(crate) state: Freshness,
    /// `None` unless it is fresh.
    pub(crate) level: Option<Level>,
    /// Age of the last number.
    pub(crate) age_ms: Option<u64>,
    /// Time for which it has not been fresh.
    pub(crate) missing_ms: u64,
    pub(crate) stale_ms: u64,
    /// File that it is read from.
    pub(crate) file: Option<String>,
    /// Who has sent it last.
    pub(crate) by: Option<String>,
    /// Reason why its file gives no number.
    pub(crate) problem: Option<String>,
    #[serde(flatten)]
    pub(crate) limits: ValueLimits,
    /// Number of readings so far.
    pub(crate) readings: u64,
    /// Means over 10 s of the last ten minutes, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) trend: Vec<Option<f32>>,
    #[serde(skip)]
    pub(crate) alarm: AlarmRule,
}

/// Part of the declaration that alarms need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AlarmRule {
    pub(crate) stale: bool,
    pub(crate) hold_ms: u64,
    pub(crate) remedy: Option<String>,
}

impl ValueReport {
    /// Returns the number, if it is the present one.
    pub(crate) fn fresh(&self) -> Option<f64> {
        self.value.filter(|_| self.state == Freshness::Fresh)
    }
}

/// Numbers of values by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ValueCounts {
    /// Values of the configuration.
    pub declared: usize,
    /// Those that are known.
    pub fresh: usize,
    /// Those whose last number is too old.
    pub stale: usize,
    /// Those that were never known, or are not known to their sender.
    pub unknown: usize,
}

impl ValueCounts {
    pub(crate) fn of(reports: &[ValueReport]) -> Self {
        let count = |state| reports.iter().filter(|report| report.state == state).count();
        Self {
            declared: reports.len(),
            fresh: count(Freshness::Fresh),
            stale: count(Freshness::Stale),
            unknown: count(Freshness::Unknown),
        }
    }
}

/// Numbers of a value during a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunValue {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Option<String>,
    /// First, last, lowest and highest value; `None` if it was never known.
    pub extremes: Option<[f64; 4]>,
    /// Mean over the time in which it was known.
    pub mean: Option<f64>,
    /// Readings that came during the run.
    pub readings: u64,
    /// Time for which it was not known.
    pub unknown: Duration,
}

/// A reading that a program has sent, for other processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SentReading {
    /// Number, in the order of arrival.
    pub(crate) number: u64,
    /// Unix time, in milliseconds.
    pub(crate) time_ms: u64,
    pub(crate) value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
}

/// Readings by name, in the order in which they arrived.
pub(crate) type SentReadings = BTreeMap<String, Vec<SentReading>>;

#[derive(Clone, Debug, PartialEq)]
struct Reading {
    /// `None`: its sender does not know it.
    value: Option<f64>,
    at: u64,
    by: Option<String>,
}

#[derive(Debug)]
struct Kept {
    declared: DeclaredValue,
    /// When it was declared.
    since: u64,
    latest: Option<Reading>,
    problem: Option<String>,
    /// When the reading of its file began that goes on.
    reading: Option<u64>,
    readings: u64,
    run: Option<Statistics>,
    /// Readings for other processes.
    recent: VecDeque<SentReading>,
    trend: Trend,
}

/// Rows of numbers of a value.
#[derive(Debug)]
struct Trend {
    history: History,
    /// Number of the first row, among those of the monitor.
    first: u64,
}

impl Kept {
    fn stale_ms(&self) -> u64 {
        milliseconds(self.declared.stale)
    }

    fn span(&self) -> Option<Span> {
        let Reading { value, at, .. } = self.latest.as_ref()?;
        Some(Span { value: (*value)?, from: *at, until: at + self.stale_ms() })
    }

    fn account(&mut self, now: u64) {
        let span = self.span();
        if let Some(run) = &mut self.run {
            run.account(now, span);
        }
    }

    fn fresh(&self, now: u64) -> Option<f64> {
        self.span().filter(|span| now < span.until).map(|span| span.value)
    }

    fn take(&mut self, now: u64, reading: Reading) {
        self.account(now);
        if let Some(value) = reading.value {
            self.readings += 1;
            if let Some(run) = &mut self.run {
                run.add(value);
            }
        }
        (self.problem, self.latest) = (None, Some(reading));
    }

    fn report(&self, now: u64) -> ValueReport {
        let DeclaredValue { name, unit, file, limits, .. } = &self.declared;
        let stale_ms = self.stale_ms();
        let span = self.span();
        let age = span.map(|span| now.saturating_sub(span.from));
        let state = match age {
            None => Freshness::Unknown,
            Some(age) if age < stale_ms => Freshness::Fresh,
            Some(_) => Freshness::Stale,
        };
        let hangs = self.reading.map(|began| now.saturating_sub(began)).filter(|time| *time >= HANGS_MS);
        let problem = hangs.map_or_else(
            || self.problem.clone(),
            |time| {
                Some(format!("reading the file has taken {} s so far: its file system hangs", time / 1_000))
            },
        );
        let missing_ms = match (state, &self.latest) {
            (Freshness::Fresh, _) => 0,
            (_, Some(Reading { at, value: None, .. })) => now.saturating_sub(*at),
            (_, Some(Reading { at, .. })) => now.saturating_sub(*at + stale_ms),
            (_, None) => now.saturating_sub(self.since),
        };
        ValueReport {
            name: name.clone(),
            unit: unit.clone(),
            value: span.map(|span| span.value),
            state,
            level: self.fresh(now).map(|value| limits.judge(value).0),
            age_ms: age,
            missing_ms,
            stale_ms,
            file: file.as_ref().map(|file| file.path.display().to_string()),
            by: self.latest.as_ref().and_then(|latest| latest.by.clone()),
            problem,
            limits: *limits,
            readings: self.readings,
            trend: Vec::new(),
            alarm: AlarmRule {
                stale: self.declared.stale_alarm,
                hold_ms: milliseconds(self.declared.hold),
                remedy: self.declared.remedy.clone(),
            },
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct ValueBook {
    values: BTreeMap<String, Kept>,
    refused: BTreeMap<Refusal, u64>,
    /// Number of the last reading that was sent.
    sent: u64,
    /// Number of rows of numbers that the monitor has taken.
    rows: u64,
    /// Whether a run is in progress.
    in_run: bool,
}

impl ValueBook {
    /// Takes a configuration. What is known of a value stays if it has the same file as before, or none as before.
    pub(crate) fn declare(&mut self, now: u64, unix_ms: u64, declared: Vec<DeclaredValue>) {
        let mut before = std::mem::take(&mut self.values);
        for declared in declared {
            let kept = before.remove(&declared.name);
            let same = kept.filter(|kept| {
                let path = |declared: &DeclaredValue| declared.file.as_ref().map(|file| file.path.clone());
                path(&kept.declared) == path(&declared)
            });
            let kept = match same {
                Some(kept) => Kept { declared, ..kept },
                None => Kept {
                    since: now,
                    latest: None,
                    problem: None,
                    reading: None,
                    readings: 0,
                    run: self.in_run.then(|| Statistics::begin(now, None)),
                    recent: VecDeque::new(),
                    trend: Trend { history: History::new(unix_ms, 1), first: self.rows },
                    declared,
                },
            };
            self.values.insert(kept.declared.name.clone(), kept);
        }
    }

    /// Takes a value that a program sends.
    pub(crate) fn take_sent(&mut self, now: u64, unix_ms: u64, offer: Offer<'_>) -> Result<(), Refusal> {
        let result = self.check(now, offer);
        match result {
            Ok(()) => {
                let Offer { name, value, age, by } = offer;
                let Some(kept) = self.values.get_mut(name) else { return Err(Refusal::Undeclared) };
                let by = by.map(str::to_owned);
                kept.take(now, Reading { value, at: now.saturating_sub(age), by: by.clone() });
                self.sent += 1;
                kept.recent.push_back(SentReading {
                    number: self.sent,
                    time_ms: unix_ms.saturating_sub(age),
                    value,
                    by,
                });
                kept.recent.drain(..kept.recent.len().saturating_sub(RECENT));
            }
            Err(refusal) => self.refuse(refusal),
        }
        result
    }

    fn check(&self, now: u64, offer: Offer<'_>) -> Result<(), Refusal> {
        let kept = self.values.get(offer.name).ok_or(Refusal::Undeclared)?;
        if kept.declared.file.is_some() {
            return Err(Refusal::FromFile);
        }
        if offer.value.is_some_and(|value| !number::is_taken(value)) {
            return Err(Refusal::NoNumber);
        }
        let is_late = kept.latest.as_ref().is_some_and(|latest| now.saturating_sub(offer.age) < latest.at);
        if is_late { Err(Refusal::Late) } else { Ok(()) }
    }

    /// Counts a refusal.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        *self.refused.entry(refusal).or_default() += 1;
    }

    /// Takes what another process has written down of values that programs have sent. `seen` is the number of the last reading that was taken before.
    /// Returns the new one.
    pub(crate) fn follow(&mut self, now: u64, unix_ms: u64, (seen, readings): (u64, &SentReadings)) -> u64 {
        let last = readings.values().flatten().map(|reading| reading.number).max().unwrap_or(0);
        // The file is gone and was begun anew.
        let seen = if last < seen { 0 } else { seen };
        for (name, readings) in readings {
            let Some(kept) = self.values.get_mut(name).filter(|kept| kept.declared.file.is_none()) else {
                continue;
            };
            // At the first look, only the present value counts: the others were there before this process.
            let skipped = if seen == 0 { readings.len().saturating_sub(1) } else { 0 };
            for reading in readings.iter().skip(skipped).filter(|reading| reading.number > seen) {
                if reading.value.is_some_and(|value| !number::is_taken(value)) {
                    continue;
                }
                let at = now.saturating_sub(unix_ms.saturating_sub(reading.time_ms));
                if kept.latest.as_ref().is_none_or(|latest| at >= latest.at) {
                    kept.take(now, Reading { value: reading.value, at, by: reading.by.clone() });
                }
            }
            kept.recent = readings.iter().rev().take(RECENT).rev().cloned().collect();
        }
        self.sent = self.sent.max(last);
        last
    }

    /// Returns the readings for other processes, and the number of the last one.
    pub(crate) fn sent(&self) -> (u64, SentReadings) {
        let sent = self.values.iter().filter(|(_, kept)| !kept.recent.is_empty());
        (self.sent, sent.map(|(name, kept)| (name.clone(), kept.recent.iter().cloned().collect())).collect())
    }

    pub(crate) fn last_sent(&self) -> u64 {
        self.sent
    }

    /// Notes that the reading of a file begins.
    pub(crate) fn begin_reading(&mut self, now: u64, name: &str) {
        if let Some(kept) = self.values.get_mut(name) {
            kept.reading = Some(now);
        }
    }

    /// Takes what a file has: a number of this age, or the reason why there is none. `None`: the same as before.
    pub(crate) fn end_reading(&mut self, now: u64, name: &str, read: Option<Result<(f64, u64), String>>) {
        let Some(kept) = self.values.get_mut(name) else { return };
        kept.reading = None;
        match read {
            Some(Ok((value, age))) => {
                kept.take(now, Reading { value: Some(value), at: now.saturating_sub(age), by: None });
            }
            Some(Err(problem)) => kept.problem = Some(problem),
            None => kept.problem = None,
        }
    }

    /// Begins the numbers of a run.
    pub(crate) fn begin_run(&mut self, now: u64) {
        self.in_run = true;
        for kept in self.values.values_mut() {
            kept.run = Some(Statistics::begin(now, kept.fresh(now)));
        }
    }

    /// Ends the numbers of a run, and returns them.
    pub(crate) fn end_run(&mut self, now: u64) -> Vec<RunValue> {
        self.in_run = false;
        let of_value = |(name, kept): (&String, &mut Kept)| {
            kept.account(now);
            let run = kept.run.take()?;
            Some(RunValue {
                name: name.clone(),
                unit: kept.declared.unit.clone(),
                extremes: run.extremes(),
                mean: run.mean(),
                readings: run.readings,
                unknown: Duration::from_millis(run.unknown()),
            })
        };
        self.values.iter_mut().filter_map(of_value).collect()
    }

    /// Returns all values as they are.
    pub(crate) fn reports(&self, now: u64) -> Vec<ValueReport> {
        self.values.values().map(|kept| kept.report(now)).collect()
    }

    /// Returns all values as they are, with their trends.
    pub(crate) fn reports_with_trends(&self, now: u64) -> Vec<ValueReport> {
        let with_trend = |kept: &Kept| {
            let trend = kept.trend.history.latest(RINGS[1].0, TREND, 10);
            ValueReport { trend, ..kept.report(now) }
        };
        self.values.values().map(with_trend).collect()
    }

    /// Returns the numbers of refusals by reason.
    pub(crate) fn refusals(&self) -> Vec<(Refusal, u64)> {
        Refusal::ALL.iter().map(|reason| (*reason, self.refused.get(reason).copied().unwrap_or(0))).collect()
    }

    /// Adds the row with this number to the numbers over time, after those that were missed.
    #[expect(clippy::cast_possible_truncation, reason = "a row has single precision")]
    pub(crate) fn add_row(&mut self, now: u64, row: u64) {
        self.rows = row + 1;
        for kept in self.values.values_mut() {
            let value = kept.fresh(now).map_or(f32::NAN, |value| value as f32);
            let row = row.saturating_sub(kept.trend.first);
            if row >= kept.trend.history.rows() {
                kept.trend.history.fill_up_to(row);
                kept.trend.history.push(&[value]);
            }
        }
    }

    /// Returns the numbers over time of a value in binary form. `None` if there is no such value; inside, if there is no such resolution.
    pub(crate) fn history(&self, name: &str, step_ms: u32) -> Option<Option<Vec<u8>>> {
        self.values.get(name).map(|kept| kept.trend.history.all(step_ms))
    }
}

#[cfg(test)]
#[path = "book/tests.rs"]
mod tests;
