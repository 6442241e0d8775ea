//! The raw data of CALICE's SDHCAL calorimeter in LCIO files.
//!
//! Its data acquisition (XDAQ) wrote each readout as an LCIO event with a collection `RU_XDAQ`, an object per source:
//! 32-bit integers that are the source's buffer. So here
//!
//! * source is the id of the readout board (DIF), 1 to 255. What is not a DIF, in 2012 the trigger's block, gets
//!   65,536 x (1 + super-fragment) + block, which no DIF can have;
//! * event is the number of the readout as the source has it;
//! * time is the LCIO event's time stamp, in ns since 1970, one second fine: the same for all sources;
//! * payload is the object, little-endian as the front end's computer had it in memory.
//!
//! Two generations of the buffer are known, and told apart by their own lengths ([`Address::of`]):
//!
//! | word | 2014, 2015 | 2012 (an I2O message of XDAQ's event builder) |
//! |---|---|---|
//! | 0 | noise | upper half: words of the message |
//! | 1 | readout | I2O addresses, upper byte `ff` |
//! | 2, 3 | GTC, DTC | |
//! | 4 | DIF id | |
//! | 5 | bytes of the buffer, words 0 to 5 included | |
//! | 8 | | readout |
//! | 9, 10 | | blocks of this super-fragment; which of them this is |
//! | 14, 15 | | super-fragments of the event; which of them this is |
//! | 23 | | upper half: `b0` and DIF id, the beginning of the DIF's frame |
//!
//! In 2012 the block number is only the position of a DIF in its super-fragment, so the id of the DIF is used.

use crate::directory::StreamDirectory;
use crate::lcio::{EventReader, GenericObject, LcioEvent, SlcioError};
use crate::{Format, ImportError, ImportOptions, ImportReport};
use sheaf_wire::{EventId, Fragment, NumberMark, RunNumber, SourceId, Timestamp};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The collection that holds a readout.
const COLLECTION: &str = "RU_XDAQ";

/// Which source an object comes from, and of which readout it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    readout: EventId,
    source: SourceId,
}

pub(crate) fn import(
    files: &[PathBuf],
    directory: &Path,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    let first = first_run(files)?;
    let run = match options.run {
        Some(run) => run,
        None => run_number(&files[0], first)?,
    };
    let mut streams = StreamDirectory::create(directory, run, metadata(files), options.force)?;
    for path in files {
        let mut events = open(path)?;
        while let Some(event) = events.next_event().map_err(|error| slcio(path, error))? {
            same_run(&files[0], first, path, event.run)?;
            import_event(path, &event, &mut streams)?;
        }
        (options.progress)(&format!("{}: {} fragments so far", path.display(), streams.fragments()));
    }
    streams.finish(Format::Sdhcal)
}

/// Appends the fragments of one event; an event without the collection has none.
fn import_event(path: &Path, event: &LcioEvent, streams: &mut StreamDirectory) -> Result<(), ImportError> {
    let objects = event.generic_objects(COLLECTION).map_err(|error| slcio(path, error))?;
    let time = time_of(event.time);
    for (index, object) in objects.into_iter().flatten().enumerate() {
        let object = object.map_err(|error| slcio(path, error))?;
        let (address, payload) = fragment_of(&object).map_err(|problem| ImportError::Object {
            path: path.to_owned(),
            event: event.number,
            object: index,
            problem,
        })?;
        streams.append(&Fragment {
            event: address.readout,
            source: address.source,
            time,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: &payload[..],
        })?;
    }
    Ok(())
}

/// The run of all files, from the first readout of each: a mistake is noticed before anything is written.
fn first_run(files: &[PathBuf]) -> Result<i32, ImportError> {
    let mut first = None;
    for path in files {
        let run = first_readout(path)?;
        same_run(&files[0], *first.get_or_insert(run), path, run)?;
    }
    first.ok_or(ImportError::NoFiles)
}

fn first_readout(path: &Path) -> Result<i32, ImportError> {
    let mut events = open(path)?;
    while let Some(event) = events.next_event().map_err(|error| slcio(path, error))? {
        let objects = event.generic_objects(COLLECTION).map_err(|error| slcio(path, error))?;
        if objects.is_some() {
            return Ok(event.run);
        }
    }
    Err(ImportError::NoEvents { path: path.to_owned(), collection: COLLECTION })
}

fn same_run(first: &Path, first_run: i32, other: &Path, other_run: i32) -> Result<(), ImportError> {
    if first_run == other_run {
        return Ok(());
    }
    Err(ImportError::DifferentRuns { first: first.to_owned(), first_run, other: other.to_owned(), other_run })
}

fn run_number(path: &Path, run: i32) -> Result<RunNumber, ImportError> {
    u32::try_from(run).map(RunNumber).map_err(|_| ImportError::NegativeRun { path: path.to_owned(), run })
}

fn open(path: &Path) -> Result<EventReader<BufReader<File>>, ImportError> {
    let open = sheaf_store::regular::open(path);
    let file = open.map_err(|error| ImportError::Open { path: path.to_owned(), error })?;
    Ok(EventReader::new(BufReader::with_capacity(1 << 16, file)))
}

fn slcio(path: &Path, error: SlcioError) -> ImportError {
    ImportError::Slcio { path: path.to_owned(), error }
}

fn metadata(files: &[PathBuf]) -> String {
    let origin: Vec<_> =
        files.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy()).collect();
    serde_json::json!({
        "detector": "CALICE SDHCAL",
        "origin": origin,
        "importer": Format::Sdhcal.name(),
        "source": "DIF id; what is no DIF: 65536 x (1 + super-fragment) + block",
        "event": "readout number",
        "time": "time stamp of the LCIO event, ns since 1970, one second fine",
        "payload": "object of RU_XDAQ, 32-bit words, little-endian",
    })
    .to_string()
}

/// LCIO's time stamp as nanoseconds. It should hold nanoseconds, but SDHCAL's software wrote seconds: what would be
/// within a quarter of an hour of 1970 as nanoseconds is seconds.
fn time_of(stamp: i64) -> Timestamp {
    const SECONDS_BELOW: u64 = 1_000_000_000_000;
    let stamp = u64::try_from(stamp).unwrap_or(0);
    Timestamp(if stamp < SECONDS_BELOW { stamp.saturating_mul(1_000_000_000) } else { stamp })
}

/// Returns address and payload of an object, or its problem.
fn fragment_of(object: &GenericObject<'_>) -> Result<(Address, Vec<u8>), String> {
    if !object.floats.is_empty() || !object.doubles.is_empty() {
        return Err("holds floating-point numbers: SDHCAL's objects hold only integers".to_owned());
    }
    let (big_endian, _) = object.ints.as_chunks::<4>();
    let words: Vec<u32> = big_endian.iter().map(|word| u32::from_be_bytes(*word)).collect();
    let address = Address::of(&words).ok_or_else(|| {
        format!(
            "{} words with neither the layout of 2014 (word 5: bytes) nor that of 2012 (word 0: words)",
            words.len()
        )
    })?;
    Ok((address, words.iter().flat_map(|word| word.to_le_bytes()).collect()))
}

impl Address {
    /// The address in the words of an object, if one of the two layouts fits: each has a length that the object must
    /// have.
    fn of(words: &[u32]) -> Option<Self> {
        Self::of_i2o_message(words).or_else(|| Self::of_plain_buffer(words))
    }

    /// Layout of 2014 and 2015.
    fn of_plain_buffer(words: &[u32]) -> Option<Self> {
        let &[_noise, readout, _gtc, _dtc, dif, bytes, ..] = words else {
            return None;
        };
        let object_bytes = 4 * words.len() as u64;
        let padding = object_bytes.checked_sub(u64::from(bytes))?;
        (padding <= 4).then_some(Self { readout: EventId(u64::from(readout)), source: SourceId(dif) })
    }

    /// Layout of 2012.
    fn of_i2o_message(words: &[u32]) -> Option<Self> {
        let message: &[u32; 24] = words.first_chunk()?;
        if u64::from(message[0] >> 16) != words.len() as u64 || message[1] >> 24 != 0xff {
            return None;
        }
        let (readout, block, super_fragment) = (message[8], message[10], message[15]);
        let [.., frame, dif] = message[23].to_le_bytes();
        let source = match frame {
            0xb0 => u32::from(dif),
            _ => 65_536_u32.checked_mul(super_fragment.checked_add(1)?)?.checked_add(block)?,
        };
        Some(Self { readout: EventId(u64::from(readout)), source: SourceId(source) })
    }
}

/// Reads everything that can be read from `bytes` and counts the fragments.
pub(crate) fn count_fragments(bytes: &[u8]) -> u64 {
    count(EventReader::new(bytes))
}

fn count<R: Read>(mut events: EventReader<R>) -> u64 {
    let mut fragments = 0;
    while let Ok(Some(event)) = events.next_event() {
        let _ = time_of(event.time);
        let Ok(Some(objects)) = event.generic_objects(COLLECTION) else {
            continue;
        };
        for object in objects.flatten() {
            fragments += u64::from(fragment_of(&object).is_ok());
        }
    }
    fragments
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
