//! Describes the content of an event file, a run directory, a fragment stream or a directory of fragment streams.
//! Damage is counted; `verify` lists it and verifies the checksum of every payload.

use crate::content_error::{ContentError, streams_in};
use crate::event_file::{RunRecord, StoredEvent};
use crate::fragment_stream::{Ending, StreamReader};
use crate::id_set::IdRange;
use crate::kind::{Kind, source_in_name};
use crate::run::{Manifest, OpenFile, RunReader};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use sheaf_wire::exclusion_record::{ExclusionRecord, latest_exclusions};
use sheaf_wire::shift_record::{ShiftRecord, latest};
use sheaf_wire::{Event, Fragment, SourceId, SourceNames, Tags, TimeBase, UtcTime};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of events or records that are shown.
const SHOWN: usize = 5;

/// Contents of a path.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// Path that was inspected.
    pub path: PathBuf,
    /// Kind of the contents.
    pub kind: Kind,
    /// The manifest of a run directory.
    pub manifest: Option<Manifest>,
    /// The files, in reading order.
    pub files: Vec<FileInfo>,
    /// Events; 0 for fragment streams.
    pub events: u64,
    /// Number of them that are marked incomplete.
    pub events_incomplete: u64,
    /// Events with fragments whose check values disagree.
    pub events_disagreeing: u64,
    /// Run records, by time.
    pub records: Vec<RecordInfo>,
    /// Sources whose event numbers were off, in the order in which this was found.
    pub shifts: Vec<ShiftInfo>,
    /// Ranges of events in which an operator has excluded sources, in the order in which they began.
    pub exclusions: Vec<ExclusionInfo>,
    /// Fragments.
    pub fragments: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// The payload sizes of events.
    pub event_bytes: Option<Sizes>,
    /// The payload sizes of fragments.
    pub fragment_bytes: Option<Sizes>,
    /// Number of events of each tag, in the order of the bits. An event with several tags counts in each.
    pub tags: Vec<TagInfo>,
    /// Bytes of the filter's payloads.
    pub verdict_bytes: u64,
    /// The sources, by id.
    pub sources: Vec<SourceInfo>,
    /// Names of these sources, by id; absent if they have none.
    #[serde(serialize_with = "names_by_id", skip_serializing_if = "SourceNames::is_empty")]
    pub source_names: SourceNames,
    /// The smallest and the largest event id, where there are ids.
    pub ids: Option<IdRange>,
    /// The earliest and the latest trigger time of events, or time of records, in units of the files.
    pub times: Option<TimeRange>,
    /// The same, if the unit is a nanosecond.
    pub times_ns: Option<TimeRange>,
    /// The first few events, or records, in reading order.
    pub first: Vec<Shown>,
    /// Places where something is damaged, and files that are not finished.
    pub defects: u64,
}

/// Writes names as an object with ids as keys.
pub(crate) fn names_by_id<S: Serializer>(names: &SourceNames, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(names.iter().map(|(source, name)| (source.0, name)))
}

/// A run record, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordInfo {
    /// Its number in the run.
    pub number: u64,
    /// The source.
    pub source: u32,
    /// Name of its kind.
    pub kind: &'static str,
    /// Its time, since 1970.
    pub time_ns: u64,
    /// Its name.
    pub name: String,
    /// Bytes of its content.
    pub bytes: u64,
}

impl RecordInfo {
    fn of(record: &RunRecord) -> Self {
        Self {
            number: record.number,
            source: record.source.0,
            kind: record.kind.name(),
            time_ns: record.time.0,
            name: record.name.clone(),
            bytes: record.content.len() as u64,
        }
    }
}

/// A source whose event numbers were off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShiftInfo {
    /// The source.
    pub source: u32,
    /// Name of the quantity by which it was recognised.
    pub quantity: String,
    /// First event with a fragment of another one.
    pub first_event: u64,
    /// Number of events by which its fragments are too early.
    pub shift: i64,
    /// First event with a fragment that was renumbered; `None`: not repaired.
    pub repaired_from_event: Option<u64>,
    /// Name of the reaction of the run.
    pub policy: &'static str,
}

impl ShiftInfo {
    fn of(shift: ShiftRecord) -> Self {
        Self {
            source: shift.source.0,
            quantity: shift.quantity,
            first_event: shift.first.0,
            shift: shift.shift,
            repaired_from_event: shift.repaired_from.map(|event| event.0),
            policy: shift.policy.name(),
        }
    }
}

/// A range of events in which a source was excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExclusionInfo {
    /// The source.
    pub source: u32,
    /// First event without it.
    pub first_event: u64,
    /// First event with it again; `None`: it was excluded to the end of the run.
    pub included_from_event: Option<u64>,
}

impl ExclusionInfo {
    fn of(exclusion: ExclusionRecord) -> Self {
        Self {
            source: exclusion.source.0,
            first_event: exclusion.first.0,
            included_from_event: exclusion.included_from.map(|event| event.0),
        }
    }
}

/// Number of events of a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TagInfo {
    /// Its name; `bit17` where the configuration gave it none.
    pub tag: String,
    /// In how many events.
    pub events: u64,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct FileInfo {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Contents of its header; `None` if it is damaged.
    pub header: Option<HeaderInfo>,
    /// The metadata: as JSON, or as text where it is not JSON.
    pub metadata: serde_json::Value,
    /// Whether it has its index and footer, or its trailer.
    pub finished: bool,
}

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum HeaderInfo {
    /// Of an event file.
    EventFile {
        /// The run.
        run: u32,
        /// The name of the writing node.
        node: String,
        /// Its session, in hexadecimal as in the file's name.
        session: String,
        /// Which file of the session.
        part: u32,
        /// When the session was opened, since 1970.
        created_ns: u64,
        /// Unit and epoch of times, if they are stated.
        time_base: Option<TimeBaseInfo>,
    },
    /// Of a fragment stream.
    FragmentStream {
        /// The run.
        run: u32,
        /// The source.
        source: u32,
        /// Whether records have event ids.
        has_events: bool,
        /// Whether records have times.
        has_times: bool,
        /// Unit and epoch of times, if they are stated.
        time_base: Option<TimeBaseInfo>,
    },
}

impl HeaderInfo {
    /// Returns unit and epoch of times, if they are stated.
    #[must_use]
    pub fn time_base(&self) -> Option<&TimeBaseInfo> {
        let (Self::EventFile { time_base, .. } | Self::FragmentStream { time_base, .. }) = self;
        time_base.as_ref()
    }
}

/// Unit and epoch of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeBaseInfo {
    /// The unit, for people.
    pub unit: String,
    /// The unit in nanoseconds: numerator and denominator, reduced.
    pub unit_ns: (u32, u32),
    /// Time 0, if it is known.
    pub epoch: Option<String>,
    /// Time 0 in nanoseconds since 1970-01-01 UTC, if it is known.
    pub epoch_ns: Option<i64>,
}

impl TimeBaseInfo {
    fn of(base: TimeBase) -> Self {
        Self {
            unit: base.unit.to_string(),
            unit_ns: base.unit.fraction(),
            epoch: base.epoch.map(|epoch| epoch.to_string()),
            epoch_ns: base.epoch.map(UtcTime::nanos),
        }
    }
}

/// The sizes of a number of things, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// The smallest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
}

/// One source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceInfo {
    /// Its id.
    pub source: u32,
    /// Fragments of it.
    pub fragments: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Fragments whose payload the readout unit's preprocessor made.
    pub processed: u64,
    /// Events that it is missing in.
    pub missing: u64,
    /// First and last event with a fragment of it. `None`: there is none, or its fragments have no event ids.
    pub ids: Option<IdRange>,
    /// Fragments whose check value disagrees with that of their event.
    pub disagreeing: u64,
    /// Fragments to which the readout unit gave another event number.
    pub renumbered: u64,
    /// First event with a fragment that disagrees.
    pub first_disagreeing: Option<u64>,
    /// First event with a renumbered fragment.
    pub first_renumbered: Option<u64>,
}

/// A range of times, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeRange {
    /// The earliest.
    pub first: u64,
    /// The latest.
    pub last: u64,
}

/// An event or a record of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Event id.
    pub event: u64,
    /// Trigger time, or the record's time, in units of the file.
    pub time: u64,
    /// The same, if the unit is a nanosecond.
    pub time_ns: Option<u64>,
    /// Fragments: 1 for a record.
    pub fragments: u64,
    /// Missing sources.
    pub missing: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Whether the event is marked incomplete.
    pub incomplete: bool,
}

/// Describes the content at `path`.
///
/// # Errors
/// A [`ContentError`] if it cannot be read.
pub fn inspect(path: &Path) -> Result<Inspection, ContentError> {
    let kind = Kind::of(path)?;
    let mut tally = Tally::default();
    let (mut files, mut manifest, mut names) = (Vec::new(), None, Vec::new());
    let (mut records, mut source_names) = (Vec::new(), SourceNames::default());
    match kind {
        Kind::EventFile | Kind::Run => {
            let mut reader = RunReader::open(path)?;
            reader.check_payloads(false);
            manifest = reader.manifest().cloned();
            for file in reader.files() {
                files.push(event_file_info(file)?);
            }
            records = reader.records()?;
            names = reader.tag_names().to_vec();
            source_names = reader.source_names();
            for event in reader {
                match event {
                    Ok(stored) => tally.stored(&stored),
                    Err(_) => tally.defects += 1,
                }
            }
        }
        Kind::FragmentStream => files.push(stream(path, &mut tally)?),
        Kind::StreamDirectory => {
            let list = streams_in(path)?;
            for file in list {
                files.push(stream(&file, &mut tally)?);
            }
        }
    }
    // Without one, times are nanoseconds.
    let bases = || files.iter().filter_map(|file| file.header.as_ref()?.time_base());
    let is_nanos = bases().all(|base| base.unit_ns == (1, 1));
    if !is_nanos {
        tally.first.iter_mut().for_each(|shown| shown.time_ns = None);
    }
    tally.defects += files.iter().filter(|file| !file.finished).count() as u64;
    Ok(Inspection {
        path: path.to_owned(),
        kind,
        manifest,
        files,
        events: tally.event_sizes.count,
        events_incomplete: tally.events_incomplete,
        events_disagreeing: tally.events_disagreeing,
        shifts: latest(&records).0.into_iter().map(ShiftInfo::of).collect(),
        exclusions: latest_exclusions(&records).0.into_iter().map(ExclusionInfo::of).collect(),
        records: records.iter().map(RecordInfo::of).collect(),
        fragments: tally.fragment_sizes.count,
        payload_bytes: tally.fragment_sizes.sum,
        event_bytes: tally.event_sizes.sizes(),
        fragment_bytes: tally.fragment_sizes.sizes(),
        tags: tally.tags(&names),
        verdict_bytes: tally.verdict_bytes,
        source_names: source_names.of(tally.sources.keys().map(|source| SourceId(*source))),
        sources: tally.sources.into_values().collect(),
        ids: tally.ids,
        times: tally.times,
        times_ns: tally.times.filter(|_| is_nanos),
        first: tally.first,
        defects: tally.defects,
    })
}

fn event_file_info(path: &Path) -> Result<FileInfo, ContentError> {
    let (reader, _) = OpenFile::open(path)?;
    Ok(FileInfo {
        path: path.to_owned(),
        bytes: reader.file_bytes(),
        header: reader.header().map(|header| HeaderInfo::EventFile {
            run: header.run.0,
            node: header.node.to_string(),
            session: format!("{:016x}", header.session.0),
            part: header.part,
            created_ns: header.created.0,
            time_base: header.time_base.map(TimeBaseInfo::of),
        }),
        metadata: metadata(reader.metadata()),
        finished: reader.is_finished(),
    })
}

fn stream(path: &Path, tally: &mut Tally) -> Result<FileInfo, ContentError> {
    let (mut reader, wrong) = StreamReader::open_damaged(path, source_in_name(path))?;
    reader.check_payloads(false);
    let header = *reader.header();
    for record in &mut reader {
        match record {
            Ok(fragment) => tally.record(&fragment, header.has_events, header.has_times),
            Err(_) => tally.defects += 1,
        }
    }
    Ok(FileInfo {
        path: path.to_owned(),
        bytes: reader.file_bytes(),
        header: wrong.is_none().then_some(HeaderInfo::FragmentStream {
            run: header.run.0,
            source: header.source.0,
            has_events: header.has_events,
            has_times: header.has_times,
            time_base: header.time_base.map(TimeBaseInfo::of),
        }),
        metadata: metadata(reader.metadata()),
        finished: reader.ending() == Some(Ending::Trailer),
    })
}

fn metadata(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[derive(Default)]
struct Tally {
    event_sizes: SizeTally,
    fragment_sizes: SizeTally,
    events_incomplete: u64,
    events_disagreeing: u64,
    sources: BTreeMap<u32, SourceInfo>,
    ids: Option<IdRange>,
    times: Option<TimeRange>,
    first: Vec<Shown>,
    /// Events by bit of their tags.
    tags: BTreeMap<u32, u64>,
    verdict_bytes: u64,
    defects: u64,
}

impl Tally {
    fn stored(&mut self, stored: &StoredEvent<Bytes>) {
        let tags = stored.verdict.tags;
        for bit in (0..64).filter(|bit| tags.0 >> bit & 1 == 1) {
            *self.tags.entry(bit).or_default() += 1;
        }
        self.verdict_bytes += stored.verdict.payload.len() as u64;
        self.event(&stored.event);
    }

    fn tags(&self, names: &[String]) -> Vec<TagInfo> {
        let info = |(bit, events): (&u32, &u64)| {
            let tag = Tags(1 << bit).names(names).map(|name| name.to_string()).collect();
            TagInfo { tag, events: *events }
        };
        self.tags.iter().map(info).collect()
    }

    fn event(&mut self, event: &Event<Bytes>) {
        let bytes = event.payload_bytes();
        self.event_sizes.add(bytes);
        self.events_incomplete += u64::from(event.incomplete);
        let disagrees = event.fragments.iter().any(|fragment| fragment.mark.disagrees());
        self.events_disagreeing += u64::from(disagrees);
        self.id(event.id.0);
        self.time(event.time.0);
        for fragment in &event.fragments {
            self.fragment(fragment);
            IdRange::widen(&mut self.source(fragment.source.0).ids, event.id.0);
        }
        for missing in &event.missing {
            self.source(missing.source.0).missing += 1;
        }
        self.show(Shown {
            event: event.id.0,
            time: event.time.0,
            time_ns: Some(event.time.0),
            fragments: event.fragments.len() as u64,
            missing: event.missing.len() as u64,
            bytes,
            incomplete: event.incomplete,
        });
    }

    fn record(&mut self, fragment: &Fragment<Bytes>, has_events: bool, has_times: bool) {
        self.fragment(fragment);
        if has_events {
            self.id(fragment.event.0);
            IdRange::widen(&mut self.source(fragment.source.0).ids, fragment.event.0);
        }
        if has_times {
            self.time(fragment.time.0);
        }
        self.show(Shown {
            event: fragment.event.0,
            time: fragment.time.0,
            time_ns: Some(fragment.time.0),
            fragments: 1,
            missing: 0,
            bytes: fragment.payload.len() as u64,
            incomplete: false,
        });
    }

    fn fragment(&mut self, fragment: &Fragment<Bytes>) {
        let bytes = fragment.payload.len() as u64;
        self.fragment_sizes.add(bytes);
        let source = self.source(fragment.source.0);
        source.fragments += 1;
        source.bytes += bytes;
        source.processed += u64::from(fragment.processed);
        let first =
            |before: Option<u64>| Some(before.map_or(fragment.event.0, |first| first.min(fragment.event.0)));
        if fragment.mark.disagrees() {
            source.disagreeing += 1;
            source.first_disagreeing = first(source.first_disagreeing);
        }
        if fragment.mark.is_renumbered() {
            source.renumbered += 1;
            source.first_renumbered = first(source.first_renumbered);
        }
    }

    fn source(&mut self, source: u32) -> &mut SourceInfo {
        let none = SourceInfo { source, ..SourceInfo::default() };
        self.sources.entry(source).or_insert(none)
    }

    fn id(&mut self, id: u64) {
        IdRange::widen(&mut self.ids, id);
    }

    fn time(&mut self, time: u64) {
        let times = self.times.get_or_insert(TimeRange { first: time, last: time });
        *times = TimeRange { first: times.first.min(time), last: times.last.max(time) };
    }

    fn show(&mut self, shown: Shown) {
        if self.first.len() < SHOWN {
            self.first.push(shown);
        }
    }
}

#[derive(Default)]
struct SizeTally {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl SizeTally {
    fn add(&mut self, bytes: u64) {
        self.min = if self.count == 0 { bytes } else { self.min.min(bytes) };
        self.max = self.max.max(bytes);
        self.count += 1;
        self.sum += bytes;
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean is quoted to a few digits")]
    fn sizes(&self) -> Option<Sizes> {
        (self.count > 0).then(|| Sizes {
            min: self.min,
            mean: self.sum as f64 / self.count as f64,
            max: self.max,
        })
    }
}

#[cfg(test)]
mod tests;
