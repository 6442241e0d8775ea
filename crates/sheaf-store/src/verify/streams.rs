//! Fragment streams.

use super::{FileReport, VerifyReport};
use crate::content_error::{ContentError, streams_in};
use crate::fragment_stream::{Ending, StreamReadError, StreamReader};
use crate::id_set::IdSet;
use crate::kind::{Kind, source_in_name};
use sheaf_wire::SourceId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) fn verify(path: &Path, kind: Kind) -> Result<VerifyReport, ContentError> {
    let mut report = VerifyReport::new(path, kind);
    let files = match kind {
        Kind::StreamDirectory => streams_in(path)?,
        _ => vec![path.to_owned()],
    };
    let mut all = IdSet::default();
    let mut sources: BTreeMap<SourceId, (IdSet, PathBuf)> = BTreeMap::new();
    for file in files {
        let (source, ids) = stream(&mut report, &file)?;
        let Some(ids) = ids else { continue };
        all.merge(&ids);
        if let Some((_, other)) = sources.insert(source, (ids, file.clone())) {
            let what = format!("source {source} has another stream, {}", other.display());
            report.problem(&file, 0, what);
        }
    }
    report.events = all.len();
    report.set_ids(&all);
    let missing = sources.iter().filter(|(_, (ids, _))| ids.len() < all.len());
    let missing = missing.map(|(source, (ids, _))| ((source.0, "no_record"), all.len() - ids.len()));
    report.set_missing(&missing.collect());
    report.events_incomplete = all.len() - in_every_stream(&sources).len();
    Ok(report)
}

/// Returns the ids that every source has.
fn in_every_stream(sources: &BTreeMap<SourceId, (IdSet, PathBuf)>) -> IdSet {
    let mut sets = sources.values().map(|(ids, _)| ids);
    let mut common = sets.next().cloned().unwrap_or_default();
    sets.for_each(|ids| common.retain_common(ids));
    common
}

/// Verifies one stream; returns its source and, if it has event ids, their set.
fn stream(report: &mut VerifyReport, file: &Path) -> Result<(SourceId, Option<IdSet>), ContentError> {
    let (mut reader, wrong) = StreamReader::open_damaged(file, source_in_name(file))?;
    if let Some(error) = wrong {
        report.problem(file, 0, error.to_string());
    }
    let mut ids = IdSet::default();
    while let Some(item) = reader.next() {
        match item {
            Ok(fragment) => {
                report.fragments += 1;
                report.payload_bytes += fragment.payload.len() as u64;
                if reader.header().has_events && !ids.insert(fragment.event) {
                    report.duplicates += 1;
                    let what = format!("event {} occurs twice", fragment.event);
                    report.problem(file, reader.record_offset(), what);
                }
            }
            Err(StreamReadError::Damaged { offset, damage, .. }) => {
                report.problem(file, offset, damage.to_string());
            }
            Err(StreamReadError::Io { offset, error, .. }) => {
                report.problem(file, offset, format!("cannot read on: {error}"));
            }
        }
    }
    if let Some(Ending::Unfinished { offset, partial_bytes }) = reader.ending() {
        let what = format!(
            "stream is not finished: {partial_bytes} bytes follow the last whole record, and no trailer"
        );
        report.problem(file, offset, what);
    }
    report.files.push(FileReport {
        path: file.to_owned(),
        bytes: reader.file_bytes(),
        items: reader.counts().records,
        finished: reader.ending() == Some(Ending::Trailer),
    });
    let header = *reader.header();
    Ok((header.source, header.has_events.then_some(ids)))
}
