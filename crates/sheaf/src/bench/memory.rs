//! `memory`: what the processors do with memory.

use super::arguments::MemoryArguments;
use super::report::{Curve, Picture, Report, Scanned, column};
use super::scan::Scan;
use serde_json::{Map, json};
use sheaf_bench::cpu;
use sheaf_bench::memory::{Operation, WORKING_SET_BYTES, measure as measure_memory};
use std::time::Duration;

const SECONDS: f64 = 0.2;

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
    let progress = scan.progress(threads.len() * Operation::ALL.len() * sizes.len() * repeat as usize);
    let mut curves = Vec::new();
    for &threads in &threads {
        for operation in Operation::ALL {
            let plural = if threads == 1 { "" } else { "s" };
            let name = format!("{}, {threads} thread{plural}", operation.name());
            let points = scan.curve(&name, Scanned::Size, &sizes, repeat, &progress, |size| {
                let block = usize::try_from(size).unwrap_or(usize::MAX);
                let rate = measure_memory(operation, block, threads, WORKING_SET_BYTES.max(block), span);
                #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
                let blocks = rate / size as f64;
                Ok(Some(vec![("bytes_per_second", rate), ("blocks_per_second", blocks)]))
            })?;
            let about = json!({ "operation": operation, "threads": threads });
            curves.push(Curve::new(name, about, points).fitted("blocks_per_second", |rate| 1e9 / rate));
        }
    }
    let mut settings = Map::new();
    settings.insert("seconds".into(), json!(seconds));
    settings.insert("repetitions".into(), json!(repeat));
    settings.insert("working_set_bytes".into(), json!(WORKING_SET_BYTES));
    let set = WORKING_SET_BYTES >> 20;
    Ok(Report {
        bench: "memory",
        title: "memory".to_owned(),
        subtitle: format!("{set} MiB for each thread and direction; medians of {repeat} x {seconds} s"),
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
