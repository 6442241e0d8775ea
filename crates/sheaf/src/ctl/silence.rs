//! `sheaf ctl silence`: suppresses the notices of alarms for a time.

use super::Desk;
use crate::Verdict;
use crate::print::{print, print_json};
use crate::records::utc;
use crate::values::number_of_units;
use clap::Args;
use serde_json::{Value, json};
use sheaf_wire::Nanos;

#[derive(Debug, Args)]
pub(super) struct SilenceArguments {
    /// Code of the alarms: `dead-time`, `source-silent`, ...
    #[arg(value_name = "CODE")]
    code: String,
    /// Only alarms with this culprit: a node, a source or a reason.
    #[arg(long, value_name = "NAME")]
    culprit: Option<String>,
    /// Time for which it lasts: `30m`, `8h`, `2d`, at most a week.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "1h")]
    time: Nanos,
    /// Why, for those who come after you.
    #[arg(long, value_name = "TEXT")]
    why: String,
}

#[derive(Debug, Args)]
pub(super) struct UnsilenceArguments {
    /// Number of the silence.
    #[arg(value_name = "SILENCE")]
    pub(super) id: u64,
}

impl Desk {
    /// Begins a silence. A silence of the same alarms takes the place of the first, so it may be asked for again.
    pub(super) fn silence(&self, arguments: &SilenceArguments) -> anyhow::Result<Verdict> {
        let SilenceArguments { code, culprit, time, why } = arguments;
        let body = json!({ "code": code, "culprit": culprit, "duration_ms": time.0 / 1_000_000, "why": why });
        let answer = self.client.post("/api/v1/silences", &body)?;
        if self.json {
            print_json(&answer["silence"])?;
        } else {
            print(&describe(&json!([answer["silence"]])))?;
        }
        Ok(Verdict::Good)
    }
}

/// Parses a time with its unit.
fn parse_time(text: &str) -> Result<Nanos, String> {
    let time = |(number, seconds): (u64, u64)| Nanos::from_secs(number.saturating_mul(seconds));
    number_of_units(text)
        .map(time)
        .ok_or_else(|| "give a whole number with its unit: `45s`, `30m`, `8h` or `2d`".to_owned())
}

/// Returns silences, a line for each.
pub(super) fn describe(silences: &Value) -> String {
    let mut lines = String::new();
    for silence in silences.as_array().into_iter().flatten() {
        let text = |key: &str| silence[key].as_str().unwrap_or_default();
        let of = silence["culprit"].as_str().map(|culprit| format!(" of {culprit}")).unwrap_or_default();
        let until = utc(silence["until_ms"].as_u64().unwrap_or(0) * 1_000_000);
        let id = silence["id"].as_u64().unwrap_or(0);
        let (code, by, why) = (text("code"), text("by"), text("why"));
        lines += &format!("silence {id:<2} {code}{of} until {until} by {by}: {why}\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("45s", 45), ("30m", 1_800), ("8h", 28_800), ("2d", 172_800)] {
            assert_eq!(parse_time(text), Ok(Nanos::from_secs(seconds)), "{text}");
        }
        for text in ["", "30", "m", "1.5h", "-1h", "h1", "1 h"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!(parse_time("18446744073709551615d"), Ok(Nanos::MAX));
    }

    #[test]
    fn a_silence_is_described_with_its_end_and_its_reason() {
        let silences = json!([
            { "id": 2, "code": "dead-time", "culprit": "bu1", "by": "alice", "why": "its disk", "until_ms": 1_780_000_000_000_u64 },
            { "id": 13, "code": "loss", "culprit": null, "by": "bob", "why": "a test", "until_ms": 1_780_000_000_000_u64 }
        ]);
        let until = utc(1_780_000_000_000 * 1_000_000);
        assert_eq!(
            describe(&silences),
            format!(
                "silence 2  dead-time of bu1 until {until} by alice: its disk\nsilence 13 loss until {until} by bob: a test\n"
            )
        );
    }
}
