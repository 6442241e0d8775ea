//! Search by event id: by the index, or by the headers in the file.

use super::{EventFileReader, HeaderStep, Step};
use crate::event_file::{EventDamage, EventReadError};
use bytes::Bytes;
use sheaf_wire::EventId;
use sheaf_wire::event_file::{EventHeader, StoredEvent};
use std::io::{Read, Seek};

/// Position of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPlace {
    pub(crate) event: EventId,
    pub(crate) offset: u64,
    /// Its number in the session.
    pub(crate) sequence: u64,
}

/// Positions of the events of a file.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) places: Vec<EventPlace>,
    /// Numbers and offsets of the run records whose headers are good.
    pub(crate) records: Vec<(u64, u64)>,
    /// End of the last whole event.
    pub(crate) end: u64,
    /// Places without a good header.
    pub(crate) damaged: u64,
}

impl<R: Read + Seek> EventFileReader<R> {
    /// Returns the event `id`, wherever it is in the file; the first, if several have that id. It uses the index, or a
    /// list made by scanning the file if there is no index or the index is wrong. Sequential reading continues where it
    /// was.
    ///
    /// # Errors
    /// An [`EventReadError`] if the event is damaged or the input fails.
    pub fn find(&mut self, id: EventId) -> Result<Option<StoredEvent<Bytes>>, EventReadError> {
        let back = (self.blocks.offset(), self.event_offset, self.counts);
        let passed = self.passed_records.len();
        let found = self.look_up(id);
        (self.event_offset, self.counts) = (back.1, back.2);
        self.passed_records.truncate(passed);
        self.seek(back.0)?;
        found
    }

    fn look_up(&mut self, id: EventId) -> Result<Option<StoredEvent<Bytes>>, EventReadError> {
        let mut scanned = false;
        if self.directory.is_none() {
            self.directory = Some(match self.index()? {
                Some(Ok(index)) => sorted(index),
                _ => {
                    scanned = true;
                    self.scan()?
                }
            });
        }
        loop {
            let directory = self.directory.as_deref().unwrap_or_default();
            let at = directory.partition_point(|(other, _)| *other < id);
            let offset = directory.get(at).filter(|(other, _)| *other == id).map(|(_, offset)| *offset);
            let Some(offset) = offset else { return Ok(None) };
            self.seek(offset)?;
            match self.read().map_err(|error| self.io_error(error))? {
                Step::Event(event) if event.event.id == id && self.event_offset == offset => {
                    return Ok(Some(event));
                }
                Step::Damaged(
                    damage @ (EventDamage::Entries { event, .. } | EventDamage::Payload { event, .. }),
                ) if event == id => {
                    return Err(self.damaged(damage));
                }
                _ if scanned => return Ok(None),
                // The index is wrong; the file itself is scanned.
                _ => {
                    self.directory = Some(self.scan()?);
                    scanned = true;
                }
            }
        }
    }

    /// Ids and offsets of all events whose headers are good, ascending.
    fn scan(&mut self) -> Result<Vec<(EventId, u64)>, EventReadError> {
        let places = self.scan_places(false)?.places;
        Ok(sorted(places.iter().map(|place| (place.event, place.offset)).collect()))
    }

    /// Returns the header of the event at `offset`, if there is one. Sequential reading continues where it was.
    pub(crate) fn header_at(&mut self, offset: u64) -> Result<Option<EventHeader>, EventReadError> {
        let back = self.blocks.offset();
        self.seek(offset)?;
        let header = self.header_here().map_err(|error| self.io_error(error))?;
        self.seek(back)?;
        Ok(header.ok())
    }

    /// Scans the positions of the events by their headers alone, in writing order. A damaged part counts as an event
    /// without id, with the sequence number after the previous one. Sequential reading continues where it was.
    pub(crate) fn scan_in_order(&mut self) -> Result<Scan, EventReadError> {
        let back = (self.blocks.offset(), self.event_offset);
        let scan = self.scan_places(true)?;
        self.event_offset = back.1;
        self.seek(back.0)?;
        Ok(scan)
    }

    fn scan_places(&mut self, with_damage: bool) -> Result<Scan, EventReadError> {
        let mut scan = Scan::default();
        self.seek(self.first_event)?;
        loop {
            let step = self.step_header().map_err(|error| self.io_error(error))?;
            let offset = self.event_offset;
            match step {
                HeaderStep::Record(header) => {
                    scan.records.push((header.number, offset));
                    self.leave_record(&header).map_err(|error| self.io_error(error))?;
                }
                HeaderStep::Event(header) => {
                    scan.places.push(EventPlace { event: header.id, offset, sequence: header.sequence });
                    self.seek(offset + header.total_bytes())?;
                }
                HeaderStep::Damaged(_) => {
                    scan.damaged += 1;
                    if with_damage {
                        let sequence = scan.places.last().map_or(0, |place| place.sequence.saturating_add(1));
                        scan.places.push(EventPlace { event: EventId(0), offset, sequence });
                    }
                }
                HeaderStep::End => {
                    scan.end = offset;
                    return Ok(scan);
                }
            }
        }
    }
}

fn sorted(mut list: Vec<(EventId, u64)>) -> Vec<(EventId, u64)> {
    list.sort_unstable();
    list
}
