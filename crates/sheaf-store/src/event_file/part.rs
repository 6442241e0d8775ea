//! A file that is being written.

use super::pending::append_all;
use super::storage::PartFile;
use sheaf_wire::checksum::crc32c_append;
use sheaf_wire::event_file::{IndexEntryBytes, emit_index};
use sheaf_wire::{EventId, Timestamp};
use std::io::{self, IoSlice};
use zerocopy::IntoBytes;

/// So much of an index is in memory from the start: 2 MiB, that of a file of as many events as the configuration's default.
const TOUCHED_INDEX_ENTRIES: u64 = 1 << 17;

/// An empty index whose memory is there already, so that a running system does not grow with the events of a file.
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
    /// The file header and metadata, until they are in the file.
    header: Vec<u8>,
    /// Whether index and footer are in the file: then it only has to become durable.
    pub(super) closed: bool,
    /// Whether there may be bytes behind `end`, of a write that failed.
    dirty: bool,
    pub(super) index: Vec<IndexEntryBytes>,
    /// CRC-32C of the bytes up to `end`; unknown once a write has failed, because it is not known how far it got.
    pub(super) checksum: Option<u32>,
    /// Durable length of the file, with the checksum up to there.
    durable: (u64, Option<u32>),
    /// Whether making it durable failed since: what lies behind may be forgotten by the operating system.
    doubtful: bool,
    /// When it was first seen to have events.
    pub(super) begun: Option<Timestamp>,
}

impl<F: PartFile> Part<F> {
    /// An empty file that begins with `header`, for about so many events.
    pub(super) fn new(file: F, header: Vec<u8>, events: u64) -> Self {
        Self {
            file,
            end: 0,
            header,
            closed: false,
            dirty: false,
            index: touched_index(events),
            checksum: Some(0),
            durable: (0, Some(0)),
            doubtful: false,
            begun: None,
        }
    }

    /// Where the next event begins, once the file's header is there.
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

    /// Brings the file to where the next event belongs: without leftovers of a failed write, with a header. Says how
    /// many bytes of header were written.
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

    /// Cuts off what a failed write left behind the last whole event.
    fn clean(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.truncate(self.end)?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Takes note of a write that left `partial_bytes` behind `end`. What cannot be cut now is cut before the next
    /// write.
    pub(super) fn settle(&mut self, partial_bytes: u64, error: Option<io::Error>) -> io::Result<()> {
        let Some(error) = error else { return Ok(()) };
        self.checksum = None;
        self.cut(partial_bytes);
        Err(error)
    }

    /// Makes everything up to `end` durable. Where that failed before, what may have been forgotten is written again first: Linux
    /// reports a page that it could not write once, keeps it as if it were written, and calls the next attempt a success.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.clean()?;
        if self.doubtful {
            let (from, checksum) = self.durable;
            let again = self.file.write_again(from..self.end, checksum.unwrap_or(0))?;
            // Without both checksums it is not known what should be there.
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

    /// Writes index and footer, and says how many bytes.
    pub(super) fn close(&mut self) -> io::Result<u64> {
        let (header, footer) = emit_index(&self.index, self.end);
        let pieces = [header.as_bytes(), self.index.as_bytes(), footer.as_bytes()];
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
