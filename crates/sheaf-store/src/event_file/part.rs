//! A file that is being written.

use super::pending::append_all;
use super::storage::PartFile;
use sheaf_wire::checksum::crc32c_append;
use sheaf_wire::event_file::{IndexEntryBytes, emit_index};
use sheaf_wire::{EventId, Timestamp};
use std::io::{self, IoSlice};
use zerocopy::IntoBytes;

/// Number of index entries whose memory is allocated from the start: 2 MiB, the index of a file with the default number
/// of events.
const TOUCHED_INDEX_ENTRIES: u64 = 1 << 17;

/// Returns an empty index whose memory is already mapped, so that a running system does not grow with the events of a
/// file.
fn touched_index(events: u64) -> Vec<IndexEntryBytes> {
    let entries = usize::try_from(events.min(TOUCHED_INDEX_ENTRIES)).unwrap_or(0);
    let mut index = vec![IndexEntryBytes::new(EventId(u64::MAX), u64::MAX); entries];
    index.clear();
    index
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Part<F> {
    pub(super) file: F,
    /// Bytes up to the end of the last whole event; when closed, of the file.
    pub(super) end: u64,
    /// The file header, metadata and run records, until they are in the file.
    header: Vec<u8>,
    /// Whether index and footer are in the file, so that it only has to be made durable.
    pub(super) closed: bool,
    /// Whether a failed write may have left bytes after `end`.
    dirty: bool,
    pub(super) index: Vec<IndexEntryBytes>,
    /// The index of its run records.
    records: Vec<IndexEntryBytes>,
    /// CRC-32C of the bytes up to `end`; unknown once a write has failed, because it is not known how far it got.
    pub(super) checksum: Option<u32>,
    /// Durable length of the file, with the checksum up to there.
    durable: (u64, Option<u32>),
    /// Whether making it durable has failed since: the operating system may have dropped the data written since then.
    doubtful: bool,
    /// When it was first seen to have events.
    pub(super) begun: Option<Timestamp>,
}

impl<F: PartFile> Part<F> {
    /// Creates an empty file that begins with `header`, in which `records` are the run records, for about `events` events.
    pub(super) fn new(file: F, header: Vec<u8>, records: Vec<IndexEntryBytes>, events: u64) -> Self {
        Self {
            file,
            end: 0,
            header,
            closed: false,
            dirty: false,
            index: touched_index(events),
            records,
            checksum: Some(0),
            durable: (0, Some(0)),
            doubtful: false,
            begun: None,
        }
    }

    /// Returns the number of its run records.
    pub(super) fn records(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns the offset of the next event, after the file's header.
    pub(super) fn next_end(&self) -> u64 {
        self.end + self.header.len() as u64
    }

    /// The checksum up to there, as far as it is known.
    pub(super) fn next_checksum(&self) -> u32 {
        crc32c_append(self.checksum.unwrap_or(0), &self.header)
    }

    /// Cuts off `bytes` behind the last whole event, of one that is given up; at the latest before the next write.
    pub(super) fn cut(&mut self, bytes: u64) {
        self.dirty |= bytes > 0;
        let _ = self.clean();
    }

    /// Prepares the file for the next event: removes the remains of a failed write, and writes the header. Returns the
    /// number of header bytes written.
    pub(super) fn prepare(&mut self) -> io::Result<u64> {
        self.clean()?;
        let header = std::mem::take(&mut self.header);
        let (bytes, _, error) = append_all(&mut self.file, &mut [IoSlice::new(&header)]);
        if error.is_some() {
            self.header = header;
            return self.settle(bytes, error).map(|()| 0);
        }
        self.checksum = self.checksum.map(|checksum| crc32c_append(checksum, &header));
        self.end += bytes;
        Ok(bytes)
    }

    /// Truncates the remains of a failed write after the last whole event.
    fn clean(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.truncate(self.end)?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Records a write that left `partial_bytes` after `end`. If they cannot be truncated now, they are truncated
    /// before the next write.
    pub(super) fn settle(&mut self, partial_bytes: u64, error: Option<io::Error>) -> io::Result<()> {
        let Some(error) = error else { return Ok(()) };
        self.checksum = None;
        self.cut(partial_bytes);
        Err(error)
    }

    /// Makes everything up to `end` durable. If that failed before, data that may have been dropped are written again
    /// first: Linux reports a page that it could not write once, then treats it as written, and the next attempt
    /// succeeds.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.clean()?;
        if self.doubtful {
            let (from, checksum) = self.durable;
            let again = self.file.write_again(from..self.end, checksum.unwrap_or(0))?;
            // Without both checksums, the expected content is unknown.
            if checksum.is_none() || self.checksum != Some(again) {
                let what = format!("it failed before, and data written after byte {from} were lost");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        self.doubtful = true;
        self.file.sync()?;
        self.doubtful = false;
        self.durable = (self.end, self.checksum);
        Ok(())
    }

    /// Writes a run record, `content` in the layout of the file, behind all that is written. The header must have been written.
    pub(super) fn append_record(&mut self, number: u64, content: &[u8]) -> io::Result<()> {
        self.clean()?;
        let (bytes, _, error) = append_all(&mut self.file, &mut [IoSlice::new(content)]);
        self.settle(bytes, error)?;
        self.checksum = self.checksum.map(|checksum| crc32c_append(checksum, content));
        self.records.push(IndexEntryBytes::of_record(number, self.end));
        self.end += bytes;
        Ok(())
    }

    /// Writes index and footer, and returns their number of bytes.
    pub(super) fn close(&mut self) -> io::Result<u64> {
        let (header, footer) = emit_index(&self.index, &self.records, self.end);
        let pieces = [header.as_bytes(), self.index.as_bytes(), self.records.as_bytes(), footer.as_bytes()];
        let checksum = self
            .checksum
            .map(|checksum| pieces.iter().fold(checksum, |sum, piece| crc32c_append(sum, piece)));
        let (bytes, _, error) = append_all(&mut self.file, &mut pieces.map(IoSlice::new));
        self.settle(bytes, error)?;
        self.checksum = checksum;
        self.end += bytes;
        self.closed = true;
        self.file.trim();
        Ok(bytes)
    }
}
