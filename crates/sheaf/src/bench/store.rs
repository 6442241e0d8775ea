//! `store`: accepted events on a disk, compared with plain writes.

use super::arguments::StoreArguments;
use super::report::{Curve, Picture, Report, Scanned, column};
use super::scan::Scan;
use anyhow::Context;
use serde_json::{Map, json};
use sheaf_bench::store::{Load, Policy, measure as measure_store};
use std::path::Path;

pub(super) fn measure(arguments: &StoreArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    let directory = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = directory.join(format!("sheaf-bench-store-{}", std::process::id()));
    std::fs::create_dir(&scratch).with_context(|| format!("cannot write into {}", directory.display()))?;
    let report = measure_in(&scratch, &directory, arguments, scan);
    let removed = std::fs::remove_dir_all(&scratch);
    let report = report?;
    removed.with_context(|| format!("cannot remove {}", scratch.display()))?;
    Ok(report)
}

fn measure_in(
    scratch: &Path,
    directory: &Path,
    arguments: &StoreArguments,
    scan: &Scan<'_>,
) -> anyhow::Result<Report> {
    let policies: Vec<Policy> = match arguments.sync.as_slice() {
        [] => Policy::ALL.to_vec(),
        asked => asked.to_vec(),
    };
    let (fragments, megabytes, repeat) = (arguments.fragments, arguments.megabytes, arguments.repeat);
    let scanning = scan.over(policies.len(), Scanned::Size, &arguments.size, repeat);
    let mut curves = Vec::new();
    for policy in policies {
        let points = scanning.curve(policy.name(), |size| {
            let load = Load { fragments, fragment_bytes: size, total_bytes: megabytes * 1_000_000 };
            let stored = measure_store(scratch, policy, load)?;
            let mut figures = vec![
                ("bytes_per_second", stored.bytes_per_second),
                ("plain_bytes_per_second", stored.plain_bytes_per_second),
                ("fraction_of_plain", stored.bytes_per_second / stored.plain_bytes_per_second),
                ("read_bytes_per_second", stored.read_bytes_per_second),
                ("events_per_second", stored.events_per_second),
            ];
            if let Some(dd) = stored.dd_bytes_per_second {
                figures
                    .extend([("dd_bytes_per_second", dd), ("fraction_of_dd", stored.bytes_per_second / dd)]);
            }
            Ok(Some(figures))
        })?;
        curves.push(Curve::new(policy.name(), json!({ "sync": policy }), points));
    }
    let mut settings = Map::new();
    settings.insert("directory".into(), json!(directory));
    settings.insert("fragments".into(), json!(fragments));
    settings.insert("megabytes".into(), json!(megabytes));
    settings.insert("repetitions".into(), json!(repeat));
    Ok(Report {
        bench: "store",
        title: format!("store: events of {fragments} fragments into {}", directory.display()),
        subtitle: format!(
            "beside plain writes of as many bytes, in turn; medians of {repeat} x {megabytes} MB"
        ),
        settings,
        scanned: Scanned::Size,
        curves,
        left_out: Vec::new(),
        interrupted: scan.is_stopped(),
        columns: vec![
            column("bytes_per_second", "MB/s", 1e6, 0),
            column("plain_bytes_per_second", "plain MB/s", 1e6, 0),
            column("fraction_of_plain", "% of plain", 0.01, 0),
            column("dd_bytes_per_second", "dd MB/s", 1e6, 0),
            column("fraction_of_dd", "% of dd", 0.01, 0),
            column("read_bytes_per_second", "read MB/s", 1e6, 0),
            column("events_per_second", "events/s", 1.0, 0),
        ],
        picture: Picture {
            figure: "bytes_per_second",
            label: "written",
            factor: 1.0,
            unit: "B/s",
            size: "fragment size",
            is_time: false,
        },
    })
}
