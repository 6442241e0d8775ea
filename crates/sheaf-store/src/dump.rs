//! One line per fragment, per event, or per run record, as CSV: to compare built events with their input, and to examine
//! verdicts and records, with any tool.

use crate::content_error::{ContentError, streams_in};
use crate::event_file::{RunRecord, StoredEvent};
use crate::fragment_stream::StreamReader;
use crate::kind::{Kind, source_in_name};
use crate::run::RunReader;
use bytes::Bytes;
use serde::Serialize;
use sheaf_wire::shift_record::ShiftRecord;
use sheaf_wire::{Fragment, SourceNames, TimeBase, TimeUnit};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The first line.
pub const CSV_HEADER: &str = "event,source,time_ns,bytes,crc32";

/// The first line of [`dump_with_names`].
pub const CSV_HEADER_WITH_NAMES: &str = "event,source,time_ns,bytes,crc32,source_name";

/// The first line of [`dump_verdicts`].
pub const VERDICTS_HEADER: &str =
    "event,time_ns,type,incomplete,fragments,missing,bytes,tags,verdict,processed,disagreeing";

/// The first line of [`dump_records`].
pub const RECORDS_HEADER: &str =
    "kind,source,time_ns,name,bytes,content,first_event,shift,repaired_from_event";

/// The output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DumpSummary {
    /// Lines, without the header: one per good fragment, event, or run record.
    pub lines: u64,
    /// Number of damaged records in the input, which are missing in the output. `verify` lists them.
    pub damaged: u64,
    /// The first of them.
    pub first_damage: Option<String>,
}

/// Reason why printing stopped.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The contents of the path cannot be read.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// There are fragment streams and no events.
    #[error("{path} holds fragments of single sources, not events with verdicts")]
    NoEvents {
        /// Path to dump.
        path: PathBuf,
    },
    /// The times of the streams have different meanings.
    #[error(
        "the streams in {path} state different time bases, so that their times cannot be in one column; dump them one by one (`sheaf inspect` shows the time bases)"
    )]
    TimeBases {
        /// Directory to dump.
        path: PathBuf,
    },
    /// The output cannot be written.
    #[error("cannot write the lines: {0}")]
    Output(#[source] io::Error),
}

/// Prints [`CSV_HEADER`] and one line per fragment at `path` to `out`, unbuffered: events in the order of [`RunReader`]
/// with their fragments in file order, streams by name with their records in file order. `crc32` is the IEEE CRC-32 of
/// the payload, as in zip and zlib, in 8 hexadecimal digits; the files themselves use another checksum.
///
/// # Errors
/// A [`DumpError`] if a file cannot be read at all, or the output cannot be written. Damaged records are counted, and
/// printing continues.
pub fn dump(path: &Path, out: &mut dyn Write) -> Result<DumpSummary, DumpError> {
    dump_fragments(path, out, false)
}

/// As [`dump`], with a column `source_name` at the end: the name of the source in quotes, empty if the run has none for it.
///
/// # Errors
/// As [`dump`].
pub fn dump_with_names(path: &Path, out: &mut dyn Write) -> Result<DumpSummary, DumpError> {
    dump_fragments(path, out, true)
}

fn dump_fragments(path: &Path, out: &mut dyn Write, with_names: bool) -> Result<DumpSummary, DumpError> {
    let columns = if with_names { CSV_HEADER_WITH_NAMES } else { CSV_HEADER };
    let mut names = with_names.then(SourceNames::default);
    let kind = Kind::of(path).map_err(ContentError::from)?;
    let mut summary = DumpSummary::default();
    match kind {
        Kind::EventFile | Kind::Run => {
            let reader = RunReader::open(path).map_err(ContentError::from)?;
            header(out, columns, reader.time_base())?;
            names.iter_mut().for_each(|names| *names = reader.source_names());
            for event in reader {
                match event {
                    Ok(event) => {
                        for fragment in &event.event.fragments {
                            line(out, &mut summary, fragment, names.as_ref())?;
                        }
                    }
                    Err(error) => summary.damage(&error),
                }
            }
        }
        Kind::FragmentStream => {
            header(out, columns, time_base_of(path)?)?;
            stream(path, out, &mut summary, names.as_ref())?;
        }
        Kind::StreamDirectory => {
            let streams = streams_in(path)?;
            let bases = streams.iter().map(|file| time_base_of(file)).collect::<Result<Vec<_>, _>>()?;
            let first = bases.iter().flatten().next().copied();
            let is_other = |base: &&Option<TimeBase>| {
                base.unwrap_or(TimeBase::NANOSECONDS) != first.unwrap_or(TimeBase::NANOSECONDS)
            };
            if bases.iter().any(|base| is_other(&base)) {
                return Err(DumpError::TimeBases { path: path.to_owned() });
            }
            header(out, columns, first)?;
            for file in streams {
                stream(&file, out, &mut summary, names.as_ref())?;
            }
        }
    }
    Ok(summary)
}

/// Prints the names of the columns. That of times is `time_ns` if they are nanoseconds, otherwise `time`.
fn header(out: &mut dyn Write, columns: &str, base: Option<TimeBase>) -> Result<(), DumpError> {
    let is_nanos = base.is_none_or(|base| base.unit == TimeUnit::NANOSECOND);
    let columns = if is_nanos { columns.to_owned() } else { columns.replace("time_ns", "time") };
    writeln!(out, "{columns}").map_err(DumpError::Output)
}

/// Returns unit and epoch of the times of a stream, if it states them.
fn time_base_of(file: &Path) -> Result<Option<TimeBase>, DumpError> {
    let (reader, _) = StreamReader::open_damaged(file, source_in_name(file)).map_err(ContentError::from)?;
    Ok(reader.header().time_base)
}

/// Prints [`VERDICTS_HEADER`] and one line per event of the run or event file at `path` to `out`, unbuffered, in the
/// order of [`RunReader`]: the numbers of fragments and of missing sources, the payload bytes of the fragments, the
/// names of the tags joined by `+`, the filter's payload in hexadecimal digits, the number of fragments processed by a readout
/// unit, and the sources whose check values disagree, each with its difference, joined by `;`: `3:+1;7:-2`.
///
/// # Errors
/// A [`DumpError`] if `path` is not a run, a file cannot be read at all, or the output cannot be written. Damaged
/// records are counted, and printing continues.
pub fn dump_verdicts(path: &Path, out: &mut dyn Write) -> Result<DumpSummary, DumpError> {
    if !matches!(Kind::of(path).map_err(ContentError::from)?, Kind::EventFile | Kind::Run) {
        return Err(DumpError::NoEvents { path: path.to_owned() });
    }
    let mut summary = DumpSummary::default();
    let reader = RunReader::open(path).map_err(ContentError::from)?;
    header(out, VERDICTS_HEADER, reader.time_base())?;
    let names = reader.tag_names().to_vec();
    for stored in reader {
        match stored {
            Ok(stored) => verdict_line(out, &mut summary, &names, &stored).map_err(DumpError::Output)?,
            Err(error) => summary.damage(&error),
        }
    }
    Ok(summary)
}

/// Prints [`RECORDS_HEADER`] and one line per run record of the run or event file at `path` to `out`, unbuffered, by time: the
/// content in hexadecimal digits, and for records of shifts what they say. Events are not read.
///
/// # Errors
/// A [`DumpError`] if `path` is not a run, a file cannot be read at all, or the output cannot be written.
pub fn dump_records(path: &Path, out: &mut dyn Write) -> Result<DumpSummary, DumpError> {
    if !matches!(Kind::of(path).map_err(ContentError::from)?, Kind::EventFile | Kind::Run) {
        return Err(DumpError::NoEvents { path: path.to_owned() });
    }
    let mut summary = DumpSummary::default();
    writeln!(out, "{RECORDS_HEADER}").map_err(DumpError::Output)?;
    let records = RunReader::open(path).and_then(|reader| reader.records()).map_err(ContentError::from)?;
    for record in records {
        summary.lines += 1;
        record_line(out, &record).map_err(DumpError::Output)?;
    }
    Ok(summary)
}

fn record_line(out: &mut dyn Write, record: &RunRecord) -> io::Result<()> {
    let RunRecord { source, kind, time, name, content, .. } = record;
    // As CSV has it: text in quotes, quotes in it doubled.
    let name = name.replace('"', "\"\"");
    write!(out, "{},{source},{},\"{name}\",{},", kind.name(), time.0, content.len())?;
    for byte in content {
        write!(out, "{byte:02x}")?;
    }
    match ShiftRecord::parse(record) {
        Ok(ShiftRecord { first, shift, repaired_from, .. }) => {
            write!(out, ",{first},{shift:+},")?;
            repaired_from.map_or(Ok(()), |event| write!(out, "{event}"))?;
        }
        Err(_) => write!(out, ",,,")?,
    }
    writeln!(out)
}

fn verdict_line(
    out: &mut dyn Write,
    summary: &mut DumpSummary,
    names: &[String],
    StoredEvent { event, verdict, .. }: &StoredEvent<Bytes>,
) -> io::Result<()> {
    summary.lines += 1;
    let (id, time, kind, incomplete) =
        (event.id, event.time.0, event.trigger_type.0, u8::from(event.incomplete));
    let (fragments, missing) = (event.fragments.len(), event.missing.len());
    write!(out, "{id},{time},{kind},{incomplete},{fragments},{missing},{},", event.payload_bytes())?;
    for (place, name) in verdict.tags.names(names).enumerate() {
        let plus = if place > 0 { "+" } else { "" };
        write!(out, "{plus}{name}")?;
    }
    out.write_all(b",")?;
    for byte in &verdict.payload {
        write!(out, "{byte:02x}")?;
    }
    let processed = event.fragments.iter().filter(|fragment| fragment.processed).count();
    write!(out, ",{processed},")?;
    let differences = event.fragments.iter().filter_map(|it| Some((it.source, it.mark.difference()?)));
    for (place, (source, difference)) in differences.enumerate() {
        let separator = if place > 0 { ";" } else { "" };
        write!(out, "{separator}{source}:{difference:+}")?;
    }
    writeln!(out)
}

fn stream(
    file: &Path,
    out: &mut dyn Write,
    summary: &mut DumpSummary,
    names: Option<&SourceNames>,
) -> Result<(), DumpError> {
    let (reader, wrong) =
        StreamReader::open_damaged(file, source_in_name(file)).map_err(ContentError::from)?;
    if let Some(error) = wrong {
        summary.damage(&format_args!("header of {}: {error}", file.display()));
    }
    for record in reader {
        match record {
            Ok(fragment) => line(out, summary, &fragment, names)?,
            Err(error) => summary.damage(&error),
        }
    }
    Ok(())
}

fn line(
    out: &mut dyn Write,
    summary: &mut DumpSummary,
    fragment: &Fragment<Bytes>,
    names: Option<&SourceNames>,
) -> Result<(), DumpError> {
    summary.lines += 1;
    let Fragment { event, source, time, payload, .. } = fragment;
    let write = |out: &mut dyn Write| {
        write!(out, "{event},{source},{},{},{:08x}", time.0, payload.len(), crc32fast::hash(payload))?;
        match names.map(|names| names.get(*source).unwrap_or_default()) {
            Some(name) => writeln!(out, ",\"{}\"", name.replace('"', "\"\"")),
            None => writeln!(out),
        }
    };
    write(out).map_err(DumpError::Output)
}

impl DumpSummary {
    fn damage(&mut self, what: &impl ToString) {
        self.damaged += 1;
        self.first_damage.get_or_insert_with(|| what.to_string());
    }
}

#[cfg(test)]
mod tests;
