//! Runs as HDF5 files, for analysis: flat columns, ragged data as one long column with offsets.
//!
//! `docs/reference/hdf5.md` has the layout. The file is written beside its place and moved there when it is whole: what
//! has the name is whole. Event files stay what a run is stored in, see `docs/decisions/0039-hdf5.md`.

mod column;

use crate::event_file::{Metadata, StoredEvent, StreamName};
use crate::run::{RunReadError, RunReader};
use bytes::Bytes;
use column::Column;
use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{File, Group};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The value of the attribute `format`.
pub const FORMAT: &str = "sheaf-hdf5";
/// The value of the attribute `version`.
pub const VERSION: u32 = 1;

/// How the columns are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not.
    #[default]
    None,
    /// With deflate (gzip), 1 to 9: every HDF5 library reads it.
    Deflate(u8),
    /// With Zstandard, 1 to 22: libhdf5 needs the plugin of filter 32015 to write and to read it.
    Zstd(u8),
}

/// The number under which the HDF Group has registered Zstandard.
const ZSTD_FILTER: i32 = 32015;

/// Why a run could not be written as HDF5.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read at all.
    #[error(transparent)]
    Read(#[from] RunReadError),
    /// There is a file of that name.
    #[error("{path} is there already; choose another name or remove it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// libhdf5 lacks the filter.
    #[error(
        "libhdf5 finds no zstd filter (number {ZSTD_FILTER}); set HDF5_PLUGIN_PATH to the directory of its plugin, or use deflate"
    )]
    NoZstd,
    /// libhdf5 refused.
    #[error("cannot write {path}: {error}")]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// What libhdf5 says.
        error: String,
    },
    /// The operating system refused.
    #[error("cannot write {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        error: io::Error,
    },
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportSummary {
    /// Events.
    pub events: u64,
    /// Fragments.
    pub fragments: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Places where the run is damaged; what they cost is not in the file.
    pub damaged: u64,
    /// The first of them.
    pub first_damage: Option<String>,
}

/// Writes the events of the run or event file at `source`, or those of one stream, into the HDF5 file `target`, which
/// must not exist.
///
/// # Errors
/// An [`ExportError`]; nothing is then at `target`.
pub fn export(
    source: &Path,
    stream: Option<&StreamName>,
    target: &Path,
    compression: Compression,
) -> Result<ExportSummary, ExportError> {
    if target.exists() {
        return Err(ExportError::Exists { path: target.to_owned() });
    }
    let zstd = hdf5_metno::filters::Filter::user(ZSTD_FILTER, &[]);
    if matches!(compression, Compression::Zstd(_)) && !zstd.is_available() {
        return Err(ExportError::NoZstd);
    }
    let mut reader = RunReader::open(source)?;
    if let Some(stream) = stream {
        reader = reader.only(stream);
    }
    let draft = target.with_extension("h5.draft");
    let written = write(reader, &draft, compression);
    let moved = written.and_then(|summary| {
        let synced = fs::File::open(&draft).and_then(|file| file.sync_all());
        let moved = synced.and_then(|()| fs::rename(&draft, target));
        moved.map(|()| summary).map_err(|error| ExportError::Io { path: target.to_owned(), error })
    });
    if moved.is_err() {
        // The draft is worth nothing; why there is none is told.
        let _ = fs::remove_file(&draft);
    }
    moved
}

fn write(reader: RunReader, draft: &Path, compression: Compression) -> Result<ExportSummary, ExportError> {
    let failed =
        |error: hdf5_metno::Error| ExportError::Hdf5 { path: draft.to_owned(), error: error.to_string() };
    let mut summary = ExportSummary::default();
    let mut writer = Writer::create(draft, &reader, compression).map_err(failed)?;
    for stored in reader {
        match stored {
            Ok(stored) => {
                writer.add(&stored).map_err(failed)?;
                summary.events += 1;
                summary.fragments += stored.event.fragments.len() as u64;
                summary.payload_bytes += stored.event.payload_bytes();
            }
            Err(error) => {
                summary.damaged += 1;
                summary.first_damage.get_or_insert_with(|| error.to_string());
            }
        }
    }
    writer.finish().map_err(failed)?;
    Ok(summary)
}

type Result5<T> = hdf5_metno::Result<T>;

/// The columns of a file.
struct Writer {
    events: Events,
    fragments: Fragments,
    missing: Missing,
    file: File,
}

struct Events {
    id: Column<u64>,
    time: Column<u64>,
    trigger_type: Column<u16>,
    attempt: Column<u16>,
    incomplete: Column<u8>,
    tags: Column<u64>,
    sequence: Column<u64>,
    fragment_offsets: Column<u64>,
    missing_offsets: Column<u64>,
    verdict_offsets: Column<u64>,
    verdicts: Column<u8>,
}

struct Fragments {
    source: Column<u32>,
    time: Column<u64>,
    checksum: Column<u32>,
    payload_offsets: Column<u64>,
    payloads: Column<u8>,
}

struct Missing {
    source: Column<u32>,
    reason: Column<u8>,
}

impl Writer {
    fn create(path: &Path, reader: &RunReader, compression: Compression) -> Result5<Self> {
        let file = File::create_excl(path)?;
        describe(&file, reader)?;
        let group = |name: &str| file.create_group(name).map(|group| Place { group, compression });
        let (events, fragments, missing) = (group("events")?, group("fragments")?, group("missing")?);
        Ok(Self {
            events: Events {
                id: events.column("id")?,
                time: events.column("time_ns")?,
                trigger_type: events.column("trigger_type")?,
                attempt: events.column("attempt")?,
                incomplete: events.column("incomplete")?,
                tags: events.column("tags")?,
                sequence: events.column("sequence")?,
                fragment_offsets: events.offsets("fragment_offsets")?,
                missing_offsets: events.offsets("missing_offsets")?,
                verdict_offsets: events.offsets("verdict_offsets")?,
                verdicts: events.column("verdicts")?,
            },
            fragments: Fragments {
                source: fragments.column("source")?,
                time: fragments.column("time_ns")?,
                checksum: fragments.column("crc32c")?,
                payload_offsets: fragments.offsets("payload_offsets")?,
                payloads: fragments.column("payloads")?,
            },
            missing: Missing { source: missing.column("source")?, reason: missing.column("reason")? },
            file,
        })
    }

    fn add(&mut self, StoredEvent { event, verdict, sequence }: &StoredEvent<Bytes>) -> Result5<()> {
        for fragment in &event.fragments {
            let columns = &mut self.fragments;
            columns.source.push(fragment.source.0)?;
            columns.time.push(fragment.time.0)?;
            // The reader has compared it, and files always have it.
            columns.checksum.push(fragment.checksum.unwrap_or_default())?;
            columns.payloads.extend(&fragment.payload)?;
            columns.payload_offsets.push(columns.payloads.len())?;
        }
        for missing in &event.missing {
            self.missing.source.push(missing.source.0)?;
            self.missing.reason.push(missing.reason.code())?;
        }
        let columns = &mut self.events;
        columns.id.push(event.id.0)?;
        columns.time.push(event.time.0)?;
        columns.trigger_type.push(event.trigger_type.0)?;
        columns.attempt.push(event.attempt)?;
        columns.incomplete.push(u8::from(event.incomplete))?;
        columns.tags.push(verdict.tags.0)?;
        columns.sequence.push(*sequence)?;
        columns.verdicts.extend(&verdict.payload)?;
        columns.verdict_offsets.push(columns.verdicts.len())?;
        columns.fragment_offsets.push(self.fragments.source.len())?;
        columns.missing_offsets.push(self.missing.source.len())
    }

    fn finish(self) -> Result5<()> {
        let Events {
            id,
            time,
            trigger_type,
            attempt,
            incomplete,
            tags,
            sequence,
            fragment_offsets,
            missing_offsets,
            verdict_offsets,
            verdicts,
        } = self.events;
        for column in [id, time, tags, sequence, fragment_offsets, missing_offsets, verdict_offsets] {
            column.finish()?;
        }
        for column in [trigger_type, attempt] {
            column.finish()?;
        }
        let Fragments { source, time, checksum, payload_offsets, payloads } = self.fragments;
        for column in [time, payload_offsets] {
            column.finish()?;
        }
        for column in [source, checksum, self.missing.source] {
            column.finish()?;
        }
        for column in [incomplete, verdicts, payloads, self.missing.reason] {
            column.finish()?;
        }
        self.file.close()
    }
}

/// Where columns are made, and how they are compressed.
struct Place {
    group: Group,
    compression: Compression,
}

impl Place {
    fn column<T: column::Element>(&self, name: &str) -> Result5<Column<T>> {
        Column::create(&self.group, name, self.compression)
    }

    /// A column of offsets, which begins with zero and so has one entry more than there are things.
    fn offsets(&self, name: &str) -> Result5<Column<u64>> {
        let mut column = self.column(name)?;
        column.push(0_u64)?;
        Ok(column)
    }
}

/// The attributes of the file.
fn describe(file: &File, reader: &RunReader) -> Result5<()> {
    let text = |name: &str, value: &str| -> Result5<()> {
        file.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value))
    };
    text("format", FORMAT)?;
    file.new_attr::<u32>().create("version")?.write_scalar(&VERSION)?;
    if let Some(header) = reader.first_header() {
        file.new_attr::<u32>().create("run")?.write_scalar(&header.run.0)?;
    }
    let metadata = reader.first_metadata();
    text("metadata", metadata)?;
    text("software", Metadata::parse(metadata).software.as_deref().unwrap_or_default())?;
    let names: Vec<_> = reader.tag_names().iter().map(|name| unicode(name)).collect();
    file.new_attr::<VarLenUnicode>().shape(names.len()).create("tags")?.write_raw(&names)
}

/// Text as HDF5 holds it, which ends at a NUL.
fn unicode(text: &str) -> VarLenUnicode {
    let text = text.split('\0').next().unwrap_or_default();
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests;
