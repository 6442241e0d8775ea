//! The run records of an event file.

use super::{EventFileReader, FileRecords};
use crate::event_file::EventReadError;
use bytes::Bytes;
use sheaf_wire::event_file::{FileFormatError, RECORD_HEADER_BYTES, RunRecord};
use std::io::{self, Read, Seek};

impl<R: Read + Seek> EventFileReader<R> {
    /// Returns the run records of the file, without reading events: by the index, or by scanning the headers in the file if
    /// there is no index or the index is wrong. Sequential reading continues where it was.
    ///
    /// # Errors
    /// [`EventReadError::Io`] from the input.
    pub fn records(&mut self) -> Result<FileRecords, EventReadError> {
        let back = self.blocks.offset();
        let by_index = match self.whole_index()? {
            Some(Ok(index)) => Some(self.read_records(&index.records)?),
            _ => None,
        };
        let records = match by_index.filter(|records| records.damaged.is_empty()) {
            Some(records) => records,
            None => {
                let places = self.scan_in_order()?.records;
                self.read_records(&places)?
            }
        };
        self.seek(back)?;
        Ok(records)
    }

    fn read_records(&mut self, places: &[(u64, u64)]) -> Result<FileRecords, EventReadError> {
        let mut records = FileRecords::default();
        let mut end = self.first_event;
        for (number, offset) in places.iter().copied() {
            if offset < end {
                // An index that names a record many times must not fill the memory.
                let (what, field) = ("index", "offset");
                records.damaged.push((offset, FileFormatError::BadValue { what, field, value: offset }));
                continue;
            }
            self.seek(offset)?;
            match self.read_record(number).map_err(|error| self.io_error(error))? {
                Ok(record) => {
                    end = offset + record.bytes();
                    records.good.push(record);
                }
                Err(error) => records.damaged.push((offset, error)),
            }
        }
        Ok(records)
    }

    /// Reads the run record `number` at the current position.
    fn read_record(&mut self, number: u64) -> io::Result<Result<RunRecord, FileFormatError>> {
        let left = self.limit.saturating_sub(self.blocks.offset());
        let header = match self.record_here()? {
            Ok(header) if header.number == number && header.total_bytes() <= left => header,
            Ok(header) => {
                let (what, value) = ("record header", header.number);
                return Ok(Err(FileFormatError::BadValue { what, field: "number", value }));
            }
            Err(error) => return Ok(Err(error)),
        };
        if !self.blocks.ensure(header.total_bytes())? {
            let (need, have) = (header.total_bytes(), self.blocks.remaining());
            return Ok(Err(FileFormatError::Truncated { what: "run record", need, have }));
        }
        // A copy, so that a record does not keep a block with events in memory.
        let whole = &self.blocks.window()[..header.total_bytes() as usize];
        Ok(header.parse_record(&Bytes::copy_from_slice(&whole[RECORD_HEADER_BYTES..])))
    }
}
