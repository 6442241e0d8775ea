//! The SIO container: records, and blocks in them.

use super::cursor::{Cursor, padding};
use super::error::{Parsed, SlcioError, SlcioProblem};
use flate2::bufread::ZlibDecoder;
use std::io::{self, Read};
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A record is never longer, neither as stored nor unpacked. The largest raw-data events are of some ten megabytes.
pub const MAX_RECORD_BYTES: u64 = 256 << 20;

/// The name of a record or block is never longer; LCIO's own are of at most 16 bytes, collections' of some 50.
pub const MAX_NAME_BYTES: u64 = 4096;

/// Deflate cannot do better than 258 bytes from two bits; a claim beyond that is damage.
const MAX_COMPRESSION: u64 = 1032;

const RECORD_MARKER: u32 = 0xabad_cafe;
const BLOCK_MARKER: u32 = 0xdead_beef;
const OPTION_COMPRESSED: u32 = 1;

/// The start of a record, 24 bytes; its name and padding follow.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RecordHeaderBytes {
    /// Offset 0: bytes of the header, name and padding included.
    header_bytes: U32,
    /// Offset 4: `abadcafe`.
    marker: U32,
    /// Offset 8: bit 0: the data are compressed with zlib.
    options: U32,
    /// Offset 12: bytes of the data in the file, without the padding of compressed data.
    stored_bytes: U32,
    /// Offset 16: bytes of the data when unpacked.
    unpacked_bytes: U32,
    /// Offset 20: bytes of the name, without padding.
    name_bytes: U32,
}

/// The start of a block, 16 bytes; its name, padding and body follow.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BlockHeaderBytes {
    /// Offset 0: bytes of the block, this header, name and padding included.
    block_bytes: U32,
    /// Offset 4: `deadbeef`.
    marker: U32,
    /// Offset 8: LCIO's version, major in the upper half, minor in the lower.
    version: U32,
    /// Offset 12: bytes of the name, without padding.
    name_bytes: U32,
}

/// A record, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where in the file it begins.
    pub offset: u64,
    /// Its name.
    pub name: String,
    /// Its data: blocks.
    pub data: Vec<u8>,
}

/// A block of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Its name.
    pub name: &'a str,
    /// LCIO's version, major in the upper half, minor in the lower.
    pub version: u32,
    /// Its content.
    pub body: &'a [u8],
}

/// Reads the records of a stream, one after the other.
#[derive(Debug)]
pub struct RecordReader<R> {
    input: R,
    offset: u64,
}

impl<R: Read> RecordReader<R> {
    /// Reads from `input`, which is at the start of a file. Give a buffered reader.
    pub fn new(input: R) -> Self {
        Self { input, offset: 0 }
    }

    /// The next record whose name is `wanted`, or `None` at the end of the file. Others are passed over without unpacking.
    ///
    /// # Errors
    /// A [`SlcioError`]; reading cannot go on after it.
    pub fn next_record(&mut self, wanted: impl Fn(&str) -> bool) -> Result<Option<Record>, SlcioError> {
        loop {
            let offset = self.offset;
            match self.read_record(&wanted).map_err(|problem| problem.at(offset))? {
                Step::Record(name, data) => return Ok(Some(Record { offset, name, data })),
                Step::Skipped => {}
                Step::End => return Ok(None),
            }
        }
    }

    fn read_record(&mut self, wanted: &impl Fn(&str) -> bool) -> Parsed<Step> {
        let bytes = self.read(size_of::<RecordHeaderBytes>() as u64)?;
        if bytes.is_empty() {
            return Ok(Step::End);
        }
        let header = view::<RecordHeaderBytes>("record header", &bytes)?;
        check_marker("record", RECORD_MARKER, header.marker)?;
        let name = self.read_name(&header)?;
        let stored_bytes = u64::from(header.stored_bytes.get());
        check_size("record", stored_bytes)?;
        let compressed = header.options.get() & OPTION_COMPRESSED != 0;
        if wanted(&name) {
            let stored = self.read_exact("record data", stored_bytes)?;
            self.skip_padding(stored_bytes)?;
            let unpacked_bytes = u64::from(header.unpacked_bytes.get());
            let data = if compressed { unpack(&stored, unpacked_bytes)? } else { stored };
            Ok(Step::Record(name, data))
        } else {
            self.skip(stored_bytes)?;
            self.skip_padding(stored_bytes)?;
            Ok(Step::Skipped)
        }
    }

    fn read_name(&mut self, header: &RecordHeaderBytes) -> Parsed<String> {
        let name_bytes = u64::from(header.name_bytes.get());
        check_name(name_bytes)?;
        let expected = size_of::<RecordHeaderBytes>() as u64 + name_bytes + padding(name_bytes);
        check_length("length of the record header", expected, u64::from(header.header_bytes.get()))?;
        let mut name = self.read_exact("record name", name_bytes + padding(name_bytes))?;
        name.truncate(usize::try_from(name_bytes).unwrap_or(usize::MAX));
        String::from_utf8(name).map_err(|_| SlcioProblem::NotText { what: "record name" })
    }

    /// Reads at most `count` bytes; fewer at the end of the file. Memory grows with the bytes read, not with `count`.
    fn read(&mut self, count: u64) -> Parsed<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(count).read_to_end(&mut bytes);
        read.map_err(SlcioProblem::Io)?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    fn read_exact(&mut self, what: &'static str, count: u64) -> Parsed<Vec<u8>> {
        let bytes = self.read(count)?;
        check_there(what, count, bytes.len() as u64)?;
        Ok(bytes)
    }

    fn skip(&mut self, count: u64) -> Parsed<()> {
        let skipped =
            io::copy(&mut self.input.by_ref().take(count), &mut io::sink()).map_err(SlcioProblem::Io)?;
        self.offset += skipped;
        check_there("record data", count, skipped)
    }

    /// The last record's padding may be missing: nothing is lost with it.
    fn skip_padding(&mut self, length: u64) -> Parsed<()> {
        self.read(padding(length)).map(drop)
    }
}

enum Step {
    Record(String, Vec<u8>),
    Skipped,
    End,
}

/// Unpacks zlib data that claim to become `unpacked_bytes`; never makes more than that.
fn unpack(stored: &[u8], unpacked_bytes: u64) -> Parsed<Vec<u8>> {
    check_size("unpacked record", unpacked_bytes)?;
    let possible = (stored.len() as u64).saturating_mul(MAX_COMPRESSION);
    if unpacked_bytes > possible {
        return Err(SlcioProblem::Truncated {
            what: "unpacked record",
            need: unpacked_bytes,
            have: possible,
        });
    }
    let mut data = Vec::new();
    // One byte more than claimed shows that the claim is wrong.
    let read = ZlibDecoder::new(stored).take(unpacked_bytes + 1).read_to_end(&mut data);
    read.map_err(SlcioProblem::Zlib)?;
    check_length("length of the unpacked record", data.len() as u64, unpacked_bytes)?;
    Ok(data)
}

impl Record {
    /// The record's blocks.
    #[must_use]
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks { cursor: Cursor::new(&self.data) }
    }

    /// Returns the block `name`.
    ///
    /// # Errors
    /// [`SlcioProblem::MissingBlock`], or the error of a block before it.
    pub fn block(&self, name: &str) -> Parsed<Block<'_>> {
        for block in self.blocks() {
            let block = block?;
            if block.name == name {
                return Ok(block);
            }
        }
        Err(SlcioProblem::MissingBlock { block: name.to_owned() })
    }
}

/// The blocks of a record, in their order; ends after the first problem.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Parsed<Block<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.remaining() == 0 {
            return None;
        }
        let block = read_block(&mut self.cursor);
        if block.is_err() {
            self.cursor = Cursor::new(&[]);
        }
        Some(block)
    }
}

fn read_block<'a>(cursor: &mut Cursor<'a>) -> Parsed<Block<'a>> {
    const HEADER: u64 = size_of::<BlockHeaderBytes>() as u64;
    let header = view::<BlockHeaderBytes>("block header", cursor.take("block header", HEADER)?)?;
    check_marker("block", BLOCK_MARKER, header.marker)?;
    let name_bytes = u64::from(header.name_bytes.get());
    check_name(name_bytes)?;
    let head = HEADER + name_bytes + padding(name_bytes);
    let block_bytes = u64::from(header.block_bytes.get());
    let Some(body_bytes) = block_bytes.checked_sub(head) else {
        return Err(SlcioProblem::BadLength {
            what: "length of a block",
            expected: head,
            found: block_bytes,
        });
    };
    let name = cursor.take("block name", name_bytes)?;
    cursor.take("block name", padding(name_bytes))?;
    let name = std::str::from_utf8(name).map_err(|_| SlcioProblem::NotText { what: "block name" })?;
    let body = cursor.take("block", body_bytes)?;
    Ok(Block { name, version: header.version.get(), body })
}

fn view<T: FromBytes + KnownLayout + Immutable + Unaligned + Copy>(
    what: &'static str,
    bytes: &[u8],
) -> Parsed<T> {
    T::read_from_bytes(bytes).map_err(|_| SlcioProblem::Truncated {
        what,
        need: size_of::<T>() as u64,
        have: bytes.len() as u64,
    })
}

fn check_there(what: &'static str, need: u64, have: u64) -> Parsed<()> {
    if have < need {
        return Err(SlcioProblem::Truncated { what, need, have });
    }
    Ok(())
}

fn check_marker(what: &'static str, expected: u32, found: U32) -> Parsed<()> {
    let found = found.get();
    if found != expected {
        return Err(SlcioProblem::BadMarker { what, expected, found });
    }
    Ok(())
}

fn check_length(what: &'static str, expected: u64, found: u64) -> Parsed<()> {
    if found != expected {
        return Err(SlcioProblem::BadLength { what, expected, found });
    }
    Ok(())
}

fn check_size(what: &'static str, bytes: u64) -> Parsed<()> {
    if bytes > MAX_RECORD_BYTES {
        return Err(SlcioProblem::TooLarge { what, bytes, limit: MAX_RECORD_BYTES });
    }
    Ok(())
}

fn check_name(bytes: u64) -> Parsed<()> {
    if bytes > MAX_NAME_BYTES {
        return Err(SlcioProblem::TooLarge { what: "name", bytes, limit: MAX_NAME_BYTES });
    }
    Ok(())
}
