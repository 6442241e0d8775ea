//! Run records in columns. A file without run records has none of these columns.

use super::column::{Element, write_whole};
use super::read_column::Column;
use super::{Compression, ReadFault, Result5};
use crate::event_file::{FileFormatError, FileRecords, RecordKind, RunRecord};
use hdf5_metno::File;
use sheaf_wire::checksum::{crc32c, crc32c_append};
use sheaf_wire::event_file::{MAX_RECORD_BYTES, MAX_RECORD_NAME_BYTES};
use sheaf_wire::{SourceId, Timestamp};

const GROUP: &str = "run_records";

/// Writes the columns of all run records of a file.
pub(super) fn write(file: &File, records: &[RunRecord], compression: Compression) -> Result5<()> {
    if records.is_empty() {
        return Ok(());
    }
    let group = file.create_group(GROUP)?;
    write_whole(&group, "kind", compression, &each(records, |record| record.kind as u8))?;
    write_whole(&group, "source", compression, &each(records, |record| record.source.0))?;
    write_whole(&group, "time_ns", compression, &each(records, |record| record.time.0))?;
    write_whole(&group, "number", compression, &each(records, |record| record.number))?;
    write_whole(&group, "crc32c", compression, &each(records, checksum_of))?;
    for (offsets, bytes, of) in [
        ("name_offsets", "names", (|record| record.name.as_bytes()) as fn(&RunRecord) -> &[u8]),
        ("content_offsets", "contents", |record| &record.content),
    ] {
        let (mut ends, mut all) = (vec![0], Vec::new());
        for record in records {
            all.extend_from_slice(of(record));
            ends.push(all.len() as u64);
        }
        write_whole(&group, offsets, compression, &ends)?;
        write_whole(&group, bytes, compression, &all)?;
    }
    Ok(())
}

fn each<T: Element>(records: &[RunRecord], of: impl Fn(&RunRecord) -> T) -> Vec<T> {
    records.iter().map(of).collect()
}

/// Checksum of the name and the content, as in an event file.
fn checksum_of(record: &RunRecord) -> u32 {
    crc32c_append(crc32c(record.name.as_bytes()), &record.content)
}

/// The columns of the run records of a file.
pub(super) struct RecordColumns {
    kind: Column,
    source: Column,
    time: Column,
    number: Column,
    checksum: Column,
    name_offsets: Column,
    names: Column,
    content_offsets: Column,
    contents: Column,
}

impl RecordColumns {
    /// Opens the columns; `None` if the file has no run records.
    pub(super) fn open(file: &File) -> Result5<Option<Self>> {
        if !file.link_exists(GROUP) {
            return Ok(None);
        }
        let column = |name: &str| Column::open(file, &format!("{GROUP}/{name}"));
        Ok(Some(Self {
            kind: column("kind")?,
            source: column("source")?,
            time: column("time_ns")?,
            number: column("number")?,
            checksum: column("crc32c")?,
            name_offsets: column("name_offsets")?,
            names: column("names")?,
            content_offsets: column("content_offsets")?,
            contents: column("contents")?,
        }))
    }

    /// Returns the number of run records.
    pub(super) fn len(&self) -> u64 {
        self.number.len()
    }

    /// Reads all run records.
    pub(super) fn read(&self) -> Result<FileRecords, ReadFault> {
        let mut records = FileRecords::default();
        for place in 0..self.len() {
            match self.record(place)? {
                Ok(record) => records.good.push(record),
                Err(error) => records.damaged.push((place, error)),
            }
        }
        Ok(records)
    }

    fn record(&self, place: u64) -> Result<Result<RunRecord, FileFormatError>, ReadFault> {
        const WHAT: &str = "run record";
        let bad = |field, value| Ok(Err(FileFormatError::BadValue { what: WHAT, field, value }));
        let kind = self.kind.one::<u8>(place)?;
        let Some(kind) = RecordKind::from_code(kind) else { return bad("kind", kind.into()) };
        let names = self.name_offsets.offsets(place..place + 1, self.names.len())?;
        let contents = self.content_offsets.offsets(place..place + 1, self.contents.len())?;
        let (name, content) = (names[0]..names[1], contents[0]..contents[1]);
        if name.end - name.start > MAX_RECORD_NAME_BYTES as u64 {
            return bad("name_offsets", name.end);
        }
        if content.end - content.start > MAX_RECORD_BYTES as u64 {
            return bad("content_offsets", content.end);
        }
        let Ok(name) = String::from_utf8(self.names.read(name.clone())?) else {
            return bad("names", name.start);
        };
        let record = RunRecord {
            number: self.number.one(place)?,
            source: SourceId(self.source.one(place)?),
            kind,
            time: Timestamp(self.time.one(place)?),
            name,
            content: self.contents.read::<u8>(content)?.into(),
        };
        let (declared, computed) = (self.checksum.one(place)?, checksum_of(&record));
        if declared != computed {
            return Ok(Err(FileFormatError::WrongChecksum { what: WHAT, declared, computed }));
        }
        Ok(Ok(record))
    }
}
