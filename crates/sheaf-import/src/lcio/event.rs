//! Events: header, and collections of generic objects.

use super::cursor::Cursor;
use super::error::{Parsed, SlcioError, SlcioProblem};
use super::sio::{Block, Record, RecordReader};
use std::io::Read;

const HEADER_RECORD: &str = "LCEventHeader";
const HEADER_BLOCK: &str = "EventHeader";
const EVENT_RECORD: &str = "LCEvent";
const GENERIC_OBJECT: &str = "LCGenericObject";
const MAJOR_VERSION: u32 = 2;

/// An event never has more collections; raw data have one, reconstructed events some hundred.
pub const MAX_COLLECTIONS: u32 = 10_000;

/// Bit 31 of a collection's flags: all objects have the same size, which is written once.
const FLAG_FIXED_SIZE: u32 = 1 << 31;

/// An event: its header, and the record that holds its collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LcioEvent {
    /// Run number.
    pub run: i32,
    /// Event number.
    pub number: i32,
    /// The time stamp, in nanoseconds since 1970 by LCIO's convention; SDHCAL's software writes seconds.
    pub time: i64,
    /// The detector's name.
    pub detector: String,
    /// Name and type of each collection.
    pub collections: Vec<(String, String)>,
    record: Record,
}

/// Reads the events of an LCIO file, one after the other.
#[derive(Debug)]
pub struct EventReader<R> {
    records: RecordReader<R>,
}

impl<R: Read> EventReader<R> {
    /// Reads from `input`, which is at the start of a file. Give a buffered reader.
    pub fn new(input: R) -> Self {
        Self { records: RecordReader::new(input) }
    }

    /// The next event, or `None` at the end of the file. A header without an event after it is passed over, as LCIO's
    /// own reader does: the file of a run that was stopped hard may end so.
    ///
    /// # Errors
    /// A [`SlcioError`]; reading cannot go on after it.
    pub fn next_event(&mut self) -> Result<Option<LcioEvent>, SlcioError> {
        let mut header = None;
        loop {
            let record = self.records.next_record(|name| name == HEADER_RECORD || name == EVENT_RECORD)?;
            let Some(record) = record else {
                return Ok(None);
            };
            if record.name == HEADER_RECORD {
                header = Some(record);
                continue;
            }
            let header = header.ok_or_else(|| SlcioProblem::NoEventHeader.at(record.offset))?;
            let offset = header.offset;
            return parse_header(&header, record).map(Some).map_err(|problem| problem.at(offset));
        }
    }
}

fn parse_header(header: &Record, record: Record) -> Parsed<LcioEvent> {
    let block = header.block(HEADER_BLOCK)?;
    check_version(&block)?;
    let mut cursor = Cursor::new(block.body);
    let run = cursor.i32("run number")?;
    let number = cursor.i32("event number")?;
    let time = cursor.i64("time stamp")?;
    let detector = cursor.string("detector name")?.to_owned();
    let count = cursor.u32("number of collections")?;
    if count > MAX_COLLECTIONS {
        return Err(SlcioProblem::TooManyCollections { count, limit: MAX_COLLECTIONS });
    }
    let mut collections = Vec::new();
    for _ in 0..count {
        let name = cursor.string("collection name")?.to_owned();
        collections.push((name, cursor.string("collection type")?.to_owned()));
    }
    Ok(LcioEvent { run, number, time, detector, collections, record })
}

impl LcioEvent {
    /// The generic objects of the collection `name`, or `None` where the event has no such collection of that type.
    ///
    /// # Errors
    /// A [`SlcioError`] where the collection should be there and is not, or is damaged.
    pub fn generic_objects(&self, name: &str) -> Result<Option<GenericObjects<'_>>, SlcioError> {
        let announced = |(found, kind): &(String, String)| found == name && kind == GENERIC_OBJECT;
        if !self.collections.iter().any(announced) {
            return Ok(None);
        }
        let objects = self.record.block(name).and_then(|block| {
            check_version(&block)?;
            GenericObjects::parse(block.body, self.record.offset)
        });
        objects.map(Some).map_err(|problem| problem.at(self.record.offset))
    }
}

fn check_version(block: &Block<'_>) -> Parsed<()> {
    if block.version >> 16 != MAJOR_VERSION {
        return Err(SlcioProblem::Version {
            block: block.name.to_owned(),
            major: (block.version >> 16) as u16,
            minor: (block.version & 0xffff) as u16,
        });
    }
    Ok(())
}

/// A generic object: a list of numbers of each of three types, here as the big-endian bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenericObject<'a> {
    /// 32-bit integers.
    pub ints: &'a [u8],
    /// 32-bit floats.
    pub floats: &'a [u8],
    /// 64-bit floats.
    pub doubles: &'a [u8],
}

/// Number of values of an object.
#[derive(Clone, Copy, Debug)]
struct Counts {
    ints: u64,
    floats: u64,
    doubles: u64,
}

/// The objects of a collection, in their order; ends after the first problem.
#[derive(Clone, Debug)]
pub struct GenericObjects<'a> {
    cursor: Cursor<'a>,
    left: u32,
    /// Their common size, if they have one.
    fixed: Option<Counts>,
    record_offset: u64,
}

impl<'a> GenericObjects<'a> {
    fn parse(body: &'a [u8], record_offset: u64) -> Parsed<Self> {
        let mut cursor = Cursor::new(body);
        let flags = cursor.u32("collection flags")?;
        skip_parameters(&mut cursor)?;
        let fixed = if flags & FLAG_FIXED_SIZE != 0 { Some(read_counts(&mut cursor)?) } else { None };
        let left = cursor.u32("number of objects")?;
        Ok(Self { cursor, left, fixed, record_offset })
    }

    /// Number of objects left, by the collection's own count.
    #[must_use]
    pub fn announced(&self) -> u32 {
        self.left
    }

    fn read_object(&mut self) -> Parsed<GenericObject<'a>> {
        let counts = match self.fixed {
            Some(counts) => counts,
            None => read_counts(&mut self.cursor)?,
        };
        let object = GenericObject {
            ints: self.cursor.take("integers of an object", 4 * counts.ints)?,
            floats: self.cursor.take("floats of an object", 4 * counts.floats)?,
            doubles: self.cursor.take("doubles of an object", 8 * counts.doubles)?,
        };
        self.cursor.u32("pointer tag of an object")?;
        if self.left == 0 && self.cursor.remaining() > 0 {
            return Err(SlcioProblem::BadLength {
                what: "length of the collection behind its last object",
                expected: 0,
                found: self.cursor.remaining(),
            });
        }
        Ok(object)
    }
}

impl<'a> Iterator for GenericObjects<'a> {
    type Item = Result<GenericObject<'a>, SlcioError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let object = self.read_object().map_err(|problem| problem.at(self.record_offset));
        if object.is_err() {
            self.left = 0;
        }
        Some(object)
    }
}

fn read_counts(cursor: &mut Cursor<'_>) -> Parsed<Counts> {
    Ok(Counts {
        ints: u64::from(cursor.u32("number of integers")?),
        floats: u64::from(cursor.u32("number of floats")?),
        doubles: u64::from(cursor.u32("number of doubles")?),
    })
}

/// Passes over a collection's parameters: maps to lists of integers, floats and strings.
fn skip_parameters(cursor: &mut Cursor<'_>) -> Parsed<()> {
    for strings in [false, false, true] {
        for _ in 0..cursor.u32("number of parameters")? {
            cursor.string("parameter name")?;
            let values = cursor.u32("number of parameter values")?;
            if strings {
                for _ in 0..values {
                    cursor.string("parameter")?;
                }
            } else {
                cursor.take("parameter", 4 * u64::from(values))?;
            }
        }
    }
    Ok(())
}
