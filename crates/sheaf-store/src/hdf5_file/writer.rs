//! Writes events into columns.

use super::column::{self, Column};
use super::records;
use super::{Compression, FORMAT, Result5, VERSION};
use crate::event_file::{FileHeader, Metadata, RunRecord, StoredEvent};
use bytes::Bytes;
use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{File, Group};
use sheaf_wire::{RunNumber, TimeBase, TimeUnit};
use std::path::Path;

/// The columns of a file.
pub(crate) struct Writer {
    events: Events,
    fragments: Fragments,
    missing: Missing,
    file: File,
    compression: Compression,
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
    processed: Column<u8>,
    mark: Column<u32>,
    payload_offsets: Column<u64>,
    payloads: Column<u8>,
}

struct Missing {
    source: Column<u32>,
    reason: Column<u8>,
}

impl Writer {
    /// An empty file at `path`, where none is.
    pub(crate) fn create(path: &Path, about: &About, compression: Compression) -> Result5<Self> {
        let file = File::create_excl(path)?;
        about.write(&file)?;
        let group = |name: &str| file.create_group(name).map(|group| ColumnGroup { group, compression });
        let (events, fragments, missing) = (group("events")?, group("fragments")?, group("missing")?);
        let time = time_column(about.time_base);
        Ok(Self {
            events: Events {
                id: events.column("id")?,
                time: events.column(time)?,
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
                time: fragments.column(time)?,
                checksum: fragments.column("crc32c")?,
                processed: fragments.column("processed")?,
                mark: fragments.column("number_mark")?,
                payload_offsets: fragments.offsets("payload_offsets")?,
                payloads: fragments.column("payloads")?,
            },
            missing: Missing { source: missing.column("source")?, reason: missing.column("reason")? },
            file,
            compression,
        })
    }

    /// Adds an event.
    pub(crate) fn add(
        &mut self,
        StoredEvent { event, verdict, sequence }: &StoredEvent<Bytes>,
    ) -> Result5<()> {
        for fragment in &event.fragments {
            let columns = &mut self.fragments;
            columns.source.push(fragment.source.0)?;
            columns.time.push(fragment.time.0)?;
            // The reader has compared it, and files always have it.
            columns.checksum.push(fragment.checksum.unwrap_or_default())?;
            columns.processed.push(u8::from(fragment.processed))?;
            columns.mark.push(fragment.mark.to_flags())?;
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

    /// Writes the rest and the run records of the file, and closes it.
    pub(crate) fn finish(self, run_records: &[RunRecord]) -> Result5<()> {
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
        let Fragments { source, time, checksum, processed, mark, payload_offsets, payloads } = self.fragments;
        for column in [time, payload_offsets] {
            column.finish()?;
        }
        for column in [source, checksum, mark, self.missing.source] {
            column.finish()?;
        }
        for column in [incomplete, verdicts, processed, payloads, self.missing.reason] {
            column.finish()?;
        }
        records::write(&self.file, run_records, self.compression)?;
        self.file.close()
    }
}

/// A group of columns with one compression.
struct ColumnGroup {
    group: Group,
    compression: Compression,
}

impl ColumnGroup {
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

/// The metadata of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// Of a single event file: whose it is.
    pub(crate) header: Option<FileHeader>,
    pub(crate) run: Option<RunNumber>,
    /// Unit and epoch of times, if they are stated.
    pub(crate) time_base: Option<TimeBase>,
    /// A JSON object.
    pub(crate) metadata: String,
    /// The names of the filter's tags.
    pub(crate) tags: Vec<String>,
}

impl About {
    /// Writes the attributes of the file.
    fn write(&self, file: &File) -> Result5<()> {
        let text = |name: &str, value: &str| -> Result5<()> {
            file.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value))
        };
        let number = |name: &str, value: u64| file.new_attr::<u64>().create(name)?.write_scalar(&value);
        text("format", FORMAT)?;
        file.new_attr::<u32>().create("version")?.write_scalar(&VERSION)?;
        if let Some(run) = self.run {
            file.new_attr::<u32>().create("run")?.write_scalar(&run.0)?;
        }
        if let Some(TimeBase { unit, epoch }) = self.time_base {
            let (numerator, denominator) = unit.fraction();
            number("time_unit_numerator", u64::from(numerator))?;
            number("time_unit_denominator", u64::from(denominator))?;
            if let Some(epoch) = epoch {
                file.new_attr::<i64>().create("epoch_ns")?.write_scalar(&epoch.nanos())?;
            }
        }
        if let Some(header) = &self.header {
            text("node", &header.node.to_string())?;
            number("session", header.session.0)?;
            number("part", u64::from(header.part))?;
            number("created_ns", header.created.0)?;
        }
        text("metadata", &self.metadata)?;
        text("software", Metadata::parse(&self.metadata).software.as_deref().unwrap_or_default())?;
        let names: Vec<_> = self.tags.iter().map(|name| unicode(name)).collect();
        file.new_attr::<VarLenUnicode>().shape(names.len()).create("tags")?.write_raw(&names)
    }
}

/// Returns the name of the columns of times: with the unit if it is a nanosecond.
pub(crate) fn time_column(base: Option<TimeBase>) -> &'static str {
    match base {
        Some(base) if base.unit != TimeUnit::NANOSECOND => "time",
        _ => "time_ns",
    }
}

/// Text as HDF5 holds it, which ends at a NUL.
fn unicode(text: &str) -> VarLenUnicode {
    let text = text.split('\0').next().unwrap_or_default();
    text.parse().unwrap_or_default()
}
