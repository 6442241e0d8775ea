//! `sheaf ctl scan`: makes the table of a scan over values, and starts it.

use super::Desk;
use super::sequence::BeginArguments;
use crate::Verdict;
use crate::print::print;
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use sheaf_control::sequence::ROWS;
use sheaf_wire::Nanos;

/// Most digits behind the decimal point of a range.
const DIGITS: usize = 9;

#[derive(Debug, Args)]
pub(super) struct ScanArguments {
    /// Settings and their values: `KEY=a,b,c` or `KEY=from:to:step`. Several make every combination; the last one varies fastest.
    #[arg(value_name = "KEY=VALUES", required = true)]
    axes: Vec<String>,
    /// End each run after this many triggers.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// End each run after this time.
    #[arg(long, value_name = "SECONDS", value_parser = crate::arguments::parse_seconds)]
    duration: Option<Nanos>,
    /// Number of times that the whole scan is made.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    /// Comment for the records of the runs; `{KEY}` stands for the value.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Print the table instead of starting it.
    #[arg(long)]
    table: bool,
    /// Name of the sequence.
    #[arg(long, value_name = "NAME", default_value = "scan")]
    name: String,
    #[command(flatten)]
    begin: BeginArguments,
}

/// A setting and its values.
struct Axis {
    key: String,
    values: Vec<String>,
}

impl ScanArguments {
    pub(super) fn is_table(&self) -> bool {
        self.table
    }

    pub(super) fn print_table(&self) -> anyhow::Result<Verdict> {
        print(&self.text()?)?;
        Ok(Verdict::Good)
    }

    /// Returns the table.
    fn text(&self) -> anyhow::Result<String> {
        let mut axes = self.axes.iter().map(|axis| Axis::parse(axis)).collect::<anyhow::Result<Vec<_>>>()?;
        let fixed = |key: &str, value: String| Axis { key: key.to_owned(), values: vec![value] };
        axes.extend(self.events.map(|events| fixed("run.events", events.to_string())));
        let duration = self.duration.filter(|duration| *duration > Nanos::ZERO);
        axes.extend(duration.map(|duration| fixed("run.duration_s", duration.as_secs_f64().to_string())));
        let values = axes.iter().map(|axis| axis.values.len());
        let points = values.fold(1, usize::saturating_mul);
        let repeat = usize::try_from(self.repeat).unwrap_or(usize::MAX);
        let rows = points.saturating_mul(repeat);
        ensure!(rows <= ROWS, "the scan has {rows} runs, and at most {ROWS} are possible; give fewer values");
        let mut head: Vec<_> = axes.iter().map(|axis| cell(&axis.key)).collect();
        head.extend(self.comment.iter().map(|_| "comment".to_owned()));
        let mut text = head.join(",") + "\n";
        for point in (0..repeat).flat_map(|_| 0..points) {
            let (mut rest, mut values) = (point, Vec::new());
            for axis in axes.iter().rev() {
                values.push(axis.values[rest % axis.values.len()].as_str());
                rest /= axis.values.len();
            }
            values.reverse();
            let mut cells: Vec<_> = values.iter().map(|value| cell(value)).collect();
            cells.extend(self.comment.as_ref().map(|comment| {
                let named = axes.iter().zip(&values);
                cell(&named.fold(comment.clone(), |text, (axis, value)| {
                    text.replace(&format!("{{{}}}", axis.key), value)
                }))
            }));
            text += &(cells.join(",") + "\n");
        }
        Ok(text)
    }
}

impl Desk {
    pub(super) fn scan(&self, arguments: &ScanArguments) -> anyhow::Result<Verdict> {
        self.begin_sequence(&arguments.name, &arguments.text()?, &arguments.begin)
    }
}

/// Returns a cell of a table, in quotes if it needs them.
fn cell(text: &str) -> String {
    let is_plain = !text.contains([',', '"', '#', '\n', '\r']) && text.trim() == text;
    if is_plain {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
    }
}

impl Axis {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let split = text.split_once('=').filter(|(key, values)| !key.trim().is_empty() && !values.is_empty());
        let Some((key, values)) = split else {
            bail!(
                "`{text}` has no values; write KEY=a,b,c or KEY=from:to:step, such as `filter.busy_us=0:100:20`"
            );
        };
        let ends: Vec<_> = values.split(':').collect();
        let values = match ends[..] {
            [from, to, step] if ends.iter().all(|end| decimal(end).is_some()) => range(from, to, step)
                .with_context(|| format!("`{values}` is not a range; write from:to:step with a step above 0, and at most {ROWS} values"))?,
            _ => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        ensure!(values.iter().all(|value| !value.is_empty()), "`{text}` has an empty value; remove it");
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

/// Returns a decimal number as a whole number and the number of its digits behind the point.
fn decimal(text: &str) -> Option<(i64, usize)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.trim_start_matches('-');
    let is_number =
        !digits.is_empty() && [digits, fraction].concat().bytes().all(|byte| byte.is_ascii_digit());
    let places = fraction.len();
    let number = [whole, fraction].concat().parse().ok()?;
    (is_number && places <= DIGITS && whole.len() <= 9).then_some((number, places))
}

/// Returns the numbers from one to another, both included, exactly as decimals.
fn range(from: &str, to: &str, step: &str) -> Option<Vec<String>> {
    let ends = [decimal(from)?, decimal(to)?, decimal(step)?];
    let places = ends.iter().map(|(_, places)| *places).max()?;
    let scaled = |(number, own): (i64, usize)| number * 10_i64.pow(u32::try_from(places - own).unwrap_or(0));
    let [from, to, step] = ends.map(scaled);
    let count = usize::try_from((to - from).checked_div(step)?).ok()? + 1;
    if step <= 0 || to < from || count > ROWS {
        return None;
    }
    let shown = |number: i64| {
        let (sign, number) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
        let unit = 10_u64.pow(u32::try_from(places).unwrap_or(0));
        match places {
            0 => format!("{sign}{number}"),
            _ => format!("{sign}{}.{:0places$}", number / unit, number % unit),
        }
    };
    Some((from..=to).step_by(usize::try_from(step).ok()?).map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).expect(text).values
    }

    #[test]
    fn ranges_are_exact_and_include_both_ends() {
        assert_eq!(values("a=10:16:2"), ["10", "12", "14", "16"]);
        assert_eq!(values("a=0:0.3:0.1"), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(values("a=-1.5:1:1.25"), ["-1.50", "-0.25", "1.00"]);
        assert_eq!(values("a=x, y"), ["x", "y"]);
        assert_eq!(values("a=host:70:x"), ["host:70:x"]);
        for wrong in ["a", "=1", "a=", "a=1,,2", "a=3:1:1", "a=1:2:0", "a=0:99999:1"] {
            assert!(Axis::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_scan_is_every_combination_with_its_comment() {
        let arguments = ScanArguments {
            axes: vec!["a.b=1,2".into(), "c.d=x,y z".into()],
            events: Some(5),
            duration: None,
            repeat: 1,
            comment: Some("b {a.b}, d".into()),
            table: true,
            name: "scan".into(),
            begin: BeginArguments::default(),
        };
        assert_eq!(
            arguments.text().expect("it is small"),
            "a.b,c.d,run.events,comment\n1,x,5,\"b 1, d\"\n1,y z,5,\"b 1, d\"\n2,x,5,\"b 2, d\"\n2,y z,5,\"b 2, d\"\n"
        );
        assert!(ScanArguments { repeat: 9_999, ..arguments }.text().is_err());
    }
}
