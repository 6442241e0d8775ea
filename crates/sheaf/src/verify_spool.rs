//! `sheaf verify` of a hit spool.

use crate::Verdict;
use crate::console::{count, plural};
use anyhow::Context;
use serde::Serialize;
use sheaf_spool::catalog::parse_file_name;
use sheaf_spool::segment::{SegmentDamage, is_recording, verify_segment};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Result of the check of a spool.
#[derive(Debug, Serialize)]
pub(crate) struct SpoolReport {
    path: PathBuf,
    ok: bool,
    /// Whether a process is recording into the spool.
    in_progress: bool,
    segments: u64,
    blocks: u64,
    hits: u64,
    problems: Vec<SegmentProblem>,
}

/// Defects of a segment.
#[derive(Debug, Serialize)]
struct SegmentProblem {
    file: PathBuf,
    /// It cannot be read at all.
    error: Option<String>,
    unfinished: bool,
    torn_bytes: u64,
    skipped_bytes: u64,
    damaged_blocks: u64,
}

/// Returns the segments in a directory, in order; none for any other path.
fn segments(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_segment = |path: &PathBuf| {
        path.file_name().is_some_and(|name| parse_file_name(&name.to_string_lossy()).is_some())
    };
    let mut segments: Vec<_> = entries.filter(is_segment).collect();
    segments.sort_by_key(|path| path.file_name().and_then(|name| parse_file_name(&name.to_string_lossy())));
    segments
}

/// Returns whether a path is the directory of a spool.
pub(crate) fn is_spool(path: &Path) -> bool {
    !segments(path).is_empty()
}

/// Reads all segments of a spool and checks all checksums.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn verify(path: &Path) -> anyhow::Result<(SpoolReport, Verdict)> {
    path.read_dir().with_context(|| format!("cannot read {}", path.display()))?;
    let in_progress = is_recording(path);
    let files = segments(path);
    let last = files.last().cloned();
    let mut report = SpoolReport {
        path: path.to_owned(),
        ok: true,
        in_progress,
        segments: files.len() as u64,
        blocks: 0,
        hits: 0,
        problems: Vec::new(),
    };
    for file in files {
        let checked = verify_segment(&file);
        let damage = match &checked {
            Ok((content, damage)) => {
                report.blocks += content.blocks.len() as u64;
                report.hits += content.blocks.iter().map(|block| u64::from(block.hits)).sum::<u64>();
                *damage
            }
            // It was deleted to make room.
            Err(_) if in_progress && !file.exists() => SegmentDamage::default(),
            Err(_) => SegmentDamage { unfinished: true, ..SegmentDamage::default() },
        };
        // The open segment ends wherever its writer is.
        let is_open = in_progress && last.as_ref() == Some(&file);
        let is_expected = damage
            == SegmentDamage { unfinished: true, torn_bytes: damage.torn_bytes, ..SegmentDamage::default() };
        if damage != SegmentDamage::default() && !(is_open && is_expected && checked.is_ok()) {
            report.problems.push(SegmentProblem {
                file,
                error: checked.err().map(|error| error.to_string()),
                unfinished: damage.unfinished,
                torn_bytes: damage.torn_bytes,
                skipped_bytes: damage.skipped_bytes,
                damaged_blocks: damage.damaged_blocks,
            });
        }
    }
    report.ok = report.problems.is_empty();
    let verdict = match (report.ok, in_progress) {
        (true, false) => Verdict::Good,
        (true, true) => Verdict::InProgress,
        (false, _) => Verdict::NotGood,
    };
    Ok((report, verdict))
}

/// Describes the result.
pub(crate) fn describe(report: &SpoolReport) -> String {
    let mut text = format!(
        "{}: hit spool, {}, {}, {}\n",
        report.path.display(),
        plural(report.segments, "segment"),
        plural(report.blocks, "block"),
        plural(report.hits, "hit")
    );
    // Writing to a string cannot fail.
    for problem in &report.problems {
        let _ = write!(text, "  {}: ", problem.file.display());
        if let Some(error) = &problem.error {
            let _ = writeln!(text, "{error}");
            continue;
        }
        let mut defects = Vec::new();
        if problem.unfinished {
            defects.push("not closed".to_owned());
        }
        if problem.damaged_blocks > 0 {
            defects.push(plural(problem.damaged_blocks, "damaged block"));
        }
        if problem.skipped_bytes > 0 {
            defects.push(format!("{} bytes in no block", count(problem.skipped_bytes)));
        }
        if problem.torn_bytes > 0 {
            defects.push(format!("{} bytes of an unfinished block at the end", count(problem.torn_bytes)));
        }
        let _ = writeln!(text, "{}", defects.join(", "));
    }
    let state = match (report.ok, report.in_progress) {
        (true, false) => "good: every checksum is right",
        (true, true) => "good so far: every checksum is right, and the recording is in progress",
        (false, _) => "NOT GOOD",
    };
    let _ = writeln!(text, "{state}");
    text
}
