//! Events to test with, and a disk in memory that fills up.

use crate::event_file::{PartFile, Storage, StoredEvent};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_wire::{
    Event, EventId, Fragment, MissingReason, MissingSource, NumberMark, SourceId, Tags, Timestamp,
    TriggerType, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// A complete event with payloads of these sizes from sources 0, 1, ...
pub(crate) fn event(id: u64, sizes: &[usize]) -> Event<Bytes> {
    let fragments = sizes.iter().enumerate().map(|(source, bytes)| Fragment {
        event: EventId(id),
        source: SourceId(source as u32),
        time: Timestamp(1_000 * id + source as u64),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: (0..*bytes).map(|at| (at as u64 * 7 + id + source as u64) as u8).collect(),
    });
    Event {
        id: EventId(id),
        time: Timestamp(1_000 * id),
        trigger_type: TriggerType(1),
        attempt: 1,
        incomplete: false,
        fragments: fragments.collect(),
        missing: vec![],
    }
}

/// Returns the verdict of the tests on an event: tags and a payload that follow from its id.
pub(crate) fn verdict(event: &Event<Bytes>) -> Verdict {
    let id = event.id.0;
    let payload: Bytes = (0..id % 6).map(|at| (id + at) as u8).collect();
    Verdict::accept().with_tags(Tags(id.wrapping_mul(sheaf_wire::mix::GOLDEN_GAMMA))).with_payload(payload)
}

/// The event, which must have been stored with [`verdict`].
pub(crate) fn bare(stored: StoredEvent<Bytes>) -> Event<Bytes> {
    assert_eq!(stored.verdict, verdict(&stored.event));
    stored.event
}

/// Four small events: with and without fragments, missing sources, and payload that looks like an event.
pub(crate) fn small_events() -> Vec<Event<Bytes>> {
    let missing = |source, reason| MissingSource { source: SourceId(source), reason };
    let mut events = vec![event(10, &[3, 0]), event(11, &[]), event(13, &[12]), event(12, &[5, 1])];
    events[1].missing = vec![missing(0, MissingReason::SourceSilent), missing(1, MissingReason::ReadoutLost)];
    events[1].incomplete = true;
    events[2].fragments[0].payload = Bytes::from_static(b"EVNTEVNTINDX");
    events[3].missing = vec![missing(9, MissingReason::SourceEnded)];
    events
}

/// Up to `most` arbitrary events; ids may repeat.
pub(crate) fn events(most: usize) -> impl Strategy<Value = Vec<Event<Bytes>>> {
    prop::collection::vec(any_event(), 0..=most)
}

fn any_event() -> impl Strategy<Value = Event<Bytes>> {
    let size = prop_oneof![4 => 0..80_usize, 1 => 1000..3000_usize];
    let payload = size.prop_flat_map(|size| prop::collection::vec(any::<u8>(), size));
    let fragments = prop::collection::btree_map(any::<u32>(), (any::<u64>(), payload), 0..4);
    let missing =
        prop::collection::btree_map(any::<u32>(), prop::sample::select(&MissingReason::ALL[..]), 0..3);
    let numbers = (0..30_u64, any::<u64>(), any::<u16>(), any::<u16>(), any::<bool>());
    (numbers, fragments, missing).prop_map(
        |((id, time, trigger, attempt, incomplete), fragments, missing)| {
            let fragments = fragments.into_iter().map(|(source, (time, payload))| Fragment {
                event: EventId(id),
                source: SourceId(source),
                time: Timestamp(time),
                checksum: None,
                processed: source % 3 == 1,
                mark: NumberMark::renumbered(i64::from(source % 4) - 1),
                payload: Bytes::from(payload),
            });
            let missing = missing
                .into_iter()
                .map(|(source, reason)| MissingSource { source: SourceId(source), reason });
            Event {
                id: EventId(id),
                time: Timestamp(time),
                trigger_type: TriggerType(trigger),
                attempt,
                incomplete,
                fragments: fragments.collect(),
                missing: missing.collect(),
            }
        },
    )
}

/// A disk in memory with a given capacity. Handles share it.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    capacity: u64,
    truncate_fails: bool,
    sync_fails: bool,
    syncs: u64,
    name_syncs: u64,
    files: BTreeMap<String, Vec<u8>>,
    /// Contents after a power cut, and the range of each file that was not synchronised yet.
    durable: BTreeMap<String, (Vec<u8>, Range<usize>)>,
    /// Start addresses in memory of the slices that were written.
    addresses: BTreeSet<usize>,
}

impl Disk {
    pub(crate) fn new(capacity: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            capacity,
            truncate_fails: false,
            sync_fails: false,
            syncs: 0,
            name_syncs: 0,
            files: BTreeMap::new(),
            durable: BTreeMap::new(),
            addresses: BTreeSet::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.state().capacity
    }

    pub(crate) fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    pub(crate) fn fail_truncate(&self, fails: bool) {
        self.state().truncate_fails = fails;
    }

    pub(crate) fn fail_sync(&self, fails: bool) {
        self.state().sync_fails = fails;
    }

    /// Changes a byte of every file, behind everybody's back.
    pub(crate) fn spoil(&self, at: usize) {
        self.state().files.values_mut().for_each(|file| file[at] ^= 1);
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    pub(crate) fn name_syncs(&self) -> u64 {
        self.state().name_syncs
    }

    pub(crate) fn written_from(&self, address: usize) -> bool {
        self.state().addresses.contains(&address)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes()
    }

    /// Returns the files after a power cut.
    pub(crate) fn durable_files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        state.durable.iter().map(|(name, (bytes, _))| (name.clone(), bytes.clone())).collect()
    }

    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.state().files.clone()
    }
}

impl State {
    /// Takes note that bytes from `from` on are not durable.
    fn touch(&mut self, name: &str, from: usize) {
        let end = self.files.get(name).map_or(0, Vec::len);
        let (_, dirty) = self.durable.entry(name.to_owned()).or_default();
        *dirty = if dirty.start >= dirty.end { from..end } else { dirty.start.min(from)..end };
    }

    fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.len() as u64).sum()
    }
}

#[derive(Debug)]
pub(crate) struct DiskFile {
    disk: Disk,
    name: String,
}

impl Storage for Disk {
    type File = DiskFile;

    fn create(&mut self, name: &str) -> io::Result<DiskFile> {
        let mut state = self.state();
        if state.files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.files.insert(name.to_owned(), Vec::new());
        Ok(DiskFile { disk: self.clone(), name: name.to_owned() })
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.state().name_syncs += 1;
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("disk").join(name)
    }
}

impl PartFile for DiskFile {
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let room = state.capacity.saturating_sub(state.bytes()) as usize;
        let mut written = 0;
        let from = state.files[&self.name].len();
        for slice in slices {
            let bytes = slice.len().min(room - written);
            state.addresses.insert(slice.as_ptr() as usize);
            let file = state.files.get_mut(&self.name).unwrap();
            file.extend_from_slice(&slice[..bytes]);
            written += bytes;
        }
        state.touch(&self.name, from);
        match written {
            0 => Err(ErrorKind::StorageFull.into()),
            written => Ok(written),
        }
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.truncate_fails {
            return Err(ErrorKind::StorageFull.into());
        }
        state.files.get_mut(&self.name).unwrap().truncate(bytes as usize);
        state.touch(&self.name, bytes as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        let state = &mut *state;
        let (durable, dirty) = state.durable.entry(self.name.clone()).or_default();
        let dirty = std::mem::take(dirty);
        if state.sync_fails {
            // As on Linux: data that could not be written count as clean from now on.
            return Err(ErrorKind::Other.into());
        }
        let file = &state.files[&self.name];
        durable.resize(file.len(), 0);
        let dirty = dirty.start.min(file.len())..dirty.end.min(file.len());
        durable[dirty.clone()].copy_from_slice(&file[dirty]);
        state.syncs += 1;
        Ok(())
    }

    fn write_again(&mut self, range: Range<u64>, checksum: u32) -> io::Result<u32> {
        let mut state = self.disk.state();
        let bytes = range.start as usize..range.end as usize;
        let checksum = sheaf_wire::checksum::crc32c_append(checksum, &state.files[&self.name][bytes.clone()]);
        state.touch(&self.name, bytes.start);
        Ok(checksum)
    }
}
