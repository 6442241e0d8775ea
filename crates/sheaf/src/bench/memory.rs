//! `memory`: memory operations of the processors.

use super::arguments::MemoryArguments;
use super::report::{Curve, Picture, Report, Scanned, column};
use super::scan::Scan;
use serde_json::{Map, json};
use sheaf_bench::memory::{self, Operation};
use sheaf_bench::{cpu, handover};
use std::time::Duration;

const SECONDS: f64 = 0.2;

/// Operation that threads perform.
#[derive(Clone, Copy)]
enum Kind {
    /// Each processor on its own.
    Apart(Operation),
    /// In pairs: one writes what the other reads.
    Handover,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Apart(operation) => operation.name(),
            Self::Handover => "handover",
        }
    }
}

/// Returns the operations that this number of threads can perform.
fn kinds(threads: usize) -> impl Iterator<Item = (Kind, usize)> {
    let pairs = (threads >= 2).then_some((Kind::Handover, threads - threads % 2));
    Operation::ALL.into_iter().map(move |operation| (Kind::Apart(operation), threads)).chain(pairs)
}

pub(super) fn measure(arguments: &MemoryArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    let sizes: Vec<u64> = arguments.scan.sizes(64, 1 << 20, 4).into_iter().map(|size| size.max(1)).collect();
    let seconds = arguments.scan.seconds.unwrap_or(SECONDS);
    let span = Duration::from_secs_f64(seconds);
    let processors = cpu::usable().len().max(1);
    let default = if processors > 1 { vec![1, 2] } else { vec![1] };
    let threads: Vec<usize> = match arguments.threads.as_slice() {
        [] => default,
        asked => asked.iter().map(|count| usize::from(*count)).collect(),
    };
    let repeat = arguments.scan.repeat;
    let kinds: Vec<(Kind, usize)> = threads.iter().flat_map(|&threads| kinds(threads)).collect();
    let scanning = scan.over(kinds.len(), Scanned::Size, &sizes, repeat);
    let mut curves = Vec::new();
    for (kind, threads) in kinds {
        let plural = if threads == 1 { "" } else { "s" };
        let name = format!("{}, {threads} thread{plural}", kind.name());
        let points = scanning.curve(&name, |size| {
            let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
            let (block, set) = (bytes(size), bytes(arguments.working_set.max(size)));
            let rate = match kind {
                Kind::Apart(operation) => memory::measure(operation, block, threads, set, span),
                Kind::Handover => handover::measure(block, threads / 2, set, span),
            };
            #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
            let blocks = rate / size as f64;
            Ok(Some(vec![("bytes_per_second", rate), ("blocks_per_second", blocks)]))
        })?;
        let about = json!({ "operation": kind.name(), "threads": threads });
        curves.push(Curve::new(name, about, points).fitted("blocks_per_second", |rate| 1e9 / rate));
    }
    let mut settings = Map::new();
    settings.insert("seconds".into(), json!(seconds));
    settings.insert("repetitions".into(), json!(repeat));
    settings.insert("working_set_bytes".into(), json!(arguments.working_set));
    let set = super::table::size(arguments.working_set);
    Ok(Report {
        bench: "memory",
        title: "memory".to_owned(),
        subtitle: format!("{set} for each thread and direction; medians of {repeat} x {seconds} s"),
        settings,
        scanned: Scanned::Size,
        curves,
        left_out: Vec::new(),
        interrupted: scan.is_stopped(),
        columns: vec![
            column("bytes_per_second", "GB/s", 1e9, 2),
            column("blocks_per_second", "million/s", 1e6, 3),
        ],
        picture: Picture {
            figure: "bytes_per_second",
            label: "throughput",
            factor: 1.0,
            unit: "B/s",
            size: "block size",
            is_time: false,
        },
    })
}
