//! Contents of all segments of a spool.

use crate::gathering::SpoolBlock;
use sheaf_wire::HitInterval;
use sheaf_wire::spool_file::{IndexBlock, IndexSource, SegmentHeader};
use sheaf_wire::{RunNumber, SessionId, SourceId};
use std::collections::BTreeMap;

/// Contents of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentContent {
    /// Its header.
    pub header: SegmentHeader,
    /// Its metadata, a JSON object.
    pub metadata: String,
    /// Blocks in order.
    pub blocks: Vec<IndexBlock>,
    /// Sources and their parts.
    pub sources: BTreeMap<SourceId, IndexSource>,
    /// From the begin of the first interval of a source to the end of the last one; `None` without blocks.
    pub interval: Option<HitInterval>,
    /// Size of the file, without an index that is not there yet.
    pub bytes: u64,
}

impl SegmentContent {
    /// A segment without blocks, of this size.
    #[must_use]
    pub const fn new(header: SegmentHeader, metadata: String, bytes: u64) -> Self {
        Self { header, metadata, blocks: Vec::new(), sources: BTreeMap::new(), interval: None, bytes }
    }

    /// Adds a block of these sources at its offset.
    pub fn add(&mut self, block: IndexBlock, sources: &[(SourceId, HitInterval, u32)]) {
        self.interval = Some(self.interval.map_or(block.interval, |whole| whole.hull(block.interval)));
        self.blocks.push(block);
        for (source, interval, hits) in sources {
            let part = self.sources.entry(*source).or_insert(IndexSource {
                source: *source,
                blocks: 0,
                hits: 0,
                interval: *interval,
            });
            part.blocks += 1;
            part.hits += u64::from(*hits);
            part.interval = part.interval.hull(*interval);
        }
    }

    /// Number of hits.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.sources.values().map(|part| part.hits).sum()
    }

    /// Returns the name of its file.
    #[must_use]
    pub fn file_name(&self) -> String {
        file_name(self.header.number)
    }
}

/// Returns the name of the file of a segment.
#[must_use]
pub fn file_name(number: u64) -> String {
    format!("segment-{number:010}.{}", sheaf_wire::spool_file::EXTENSION)
}

/// Reads the name of the file of a segment; `None` for other files.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(sheaf_wire::spool_file::EXTENSION)?.strip_suffix('.')?;
    let number = stem.strip_prefix("segment-")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Part of a source in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPart {
    /// From the first held moment of the source to the last one. There may be gaps.
    pub interval: HitInterval,
    /// Number of hits.
    pub hits: u64,
}

/// Contents of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSession {
    /// The recording.
    pub session: SessionId,
    /// Its run.
    pub run: RunNumber,
    /// Metadata of its first held segment.
    pub metadata: String,
    /// Sources that were to be recorded, as the metadata have them.
    pub expected: Vec<SourceId>,
    /// Sources with a part.
    pub sources: BTreeMap<SourceId, HeldPart>,
    /// Whether its first segment was deleted.
    pub has_deleted: bool,
    /// Number of its segments.
    pub segments: u64,
    /// Bytes of its segments.
    pub bytes: u64,
}

/// Key of the list of sources in the metadata of segments.
pub const SOURCES_KEY: &str = "sources";

/// Returns the sources that metadata list.
fn expected(metadata: &str) -> Vec<SourceId> {
    let metadata: serde_json::Value = serde_json::from_str(metadata).unwrap_or_default();
    let listed = metadata[SOURCES_KEY].as_array().into_iter().flatten();
    listed.filter_map(|source| u32::try_from(source.as_u64()?).ok().map(SourceId)).collect()
}

impl HeldSession {
    /// Begins with the first segment.
    fn new(first: &SegmentContent) -> Self {
        let SegmentHeader { session, run, created, .. } = first.header;
        Self {
            session,
            run,
            metadata: first.metadata.clone(),
            expected: expected(&first.metadata),
            sources: BTreeMap::new(),
            // The first segment is made at the start of the recording, which is its session.
            has_deleted: created.0 != session.0,
            segments: 0,
            bytes: 0,
        }
    }

    fn add(&mut self, segment: &SegmentContent) {
        self.segments += 1;
        self.bytes += segment.bytes;
        for (source, part) in &segment.sources {
            self.add_part(*source, HeldPart { interval: part.interval, hits: part.hits });
        }
    }

    fn add_part(&mut self, source: SourceId, part: HeldPart) {
        let held = self.sources.entry(source).or_insert(HeldPart { interval: part.interval, hits: 0 });
        held.interval = held.interval.hull(part.interval);
        held.hits += part.hits;
    }
}

/// Contents of all segments of a spool, by their numbers, and the sums of each recording.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    segments: BTreeMap<u64, SegmentContent>,
    held: BTreeMap<SessionId, HeldSession>,
}

impl Catalog {
    /// Adds a segment, whose number is higher than those of others of its recording.
    pub fn insert(&mut self, segment: SegmentContent) {
        let held = self.held.entry(segment.header.session).or_insert_with(|| HeldSession::new(&segment));
        held.add(&segment);
        self.segments.insert(segment.header.number, segment);
    }

    /// Removes a segment.
    pub fn remove(&mut self, number: u64) {
        let Some(removed) = self.segments.remove(&number) else { return };
        let session = removed.header.session;
        self.held.remove(&session);
        let mut rest = self.segments.values().filter(|segment| segment.header.session == session).peekable();
        if let Some(first) = rest.peek() {
            let mut held = HeldSession::new(first);
            rest.for_each(|segment| held.add(segment));
            self.held.insert(session, held);
        }
    }

    /// Adds a block to a segment. Returns `false` if there is no such segment.
    pub fn add(&mut self, number: u64, offset: u64, block: &SpoolBlock) -> bool {
        let Some(segment) = self.segments.get_mut(&number) else { return false };
        let SpoolBlock { header, sources, bytes } = block;
        let entry =
            IndexBlock { offset, interval: header.interval, hits: header.hits, sources: header.sources };
        segment.add(entry, sources);
        segment.bytes = offset + bytes.len() as u64;
        if let Some(held) = self.held.get_mut(&segment.header.session) {
            held.bytes += bytes.len() as u64;
            for (source, interval, hits) in sources {
                held.add_part(*source, HeldPart { interval: *interval, hits: u64::from(*hits) });
            }
        }
        true
    }

    /// Returns a segment.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&SegmentContent> {
        self.segments.get(&number)
    }

    /// All segments, the oldest first.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &SegmentContent> {
        self.segments.values()
    }

    /// Returns the latest recording.
    #[must_use]
    pub fn latest(&self) -> Option<SessionId> {
        self.held.keys().next_back().copied()
    }

    /// All recordings, the oldest first.
    pub fn sessions(&self) -> impl Iterator<Item = &HeldSession> {
        self.held.values()
    }

    /// Returns the numbers of the segments of a recording that have a part of an interval.
    #[must_use]
    pub fn overlapping(&self, session: SessionId, window: HitInterval) -> Vec<u64> {
        let of_session = self.segments.values().filter(|segment| segment.header.session == session);
        let overlaps =
            |segment: &&SegmentContent| segment.interval.is_some_and(|whole| whole.common(window).is_some());
        of_session.filter(overlaps).map(|segment| segment.header.number).collect()
    }

    /// Returns the contents of a recording; `None` if there is none of its segments.
    #[must_use]
    pub fn held(&self, session: SessionId) -> Option<&HeldSession> {
        self.held.get(&session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_wire::Timestamp;

    /// Sums of a recording, made of all of its segments.
    fn summed(catalog: &Catalog, session: SessionId) -> Option<HeldSession> {
        let mut segments = catalog.segments().filter(|segment| segment.header.session == session).peekable();
        let mut held = HeldSession::new(segments.peek()?);
        segments.for_each(|segment| held.add(segment));
        Some(held)
    }

    proptest! {
        #[test]
        fn sums_are_those_of_all_segments_whatever_is_added_and_removed(
            steps in prop::collection::vec((0..4_u32, 0..3_u64, 1..3_u64, 0..50_u32), 1..60),
        ) {
            let (mut catalog, mut next) = (Catalog::default(), 1);
            for (what, at, session, hits) in steps {
                let latest = catalog.segments().next_back().map(|segment| segment.header);
                match (what, latest) {
                    (0, latest) => {
                        let session = SessionId(session.max(latest.map_or(0, |header| header.session.0)));
                        let header = SegmentHeader { run: RunNumber(1), number: next, session, created: Timestamp(session.0) };
                        catalog.insert(SegmentContent::new(header, r#"{"sources":[1,2]}"#.to_owned(), 64));
                        next += 1;
                    }
                    (1, Some(_)) => {
                        let oldest = catalog.segments().next().unwrap().header.number;
                        catalog.remove(oldest);
                    }
                    (_, Some(header)) => {
                        let interval = HitInterval { from_ps: 10 * at, until_ps: 10 * at + 10 };
                        let block = SpoolBlock {
                            header: sheaf_wire::spool_file::BlockHeader {
                                sources: 1, hits, sources_checksum: 0, interval, written: Timestamp(1),
                            },
                            sources: vec![(SourceId(at as u32), interval, hits)],
                            bytes: vec![0; 100],
                        };
                        let offset = catalog.get(header.number).unwrap().bytes;
                        prop_assert!(catalog.add(header.number, offset, &block));
                    }
                    (_, None) => {}
                }
                for session in [SessionId(1), SessionId(2)] {
                    prop_assert_eq!(catalog.held(session).cloned(), summed(&catalog, session));
                }
            }
        }
    }

    #[test]
    fn names_of_segments_are_read_back_and_others_are_not() {
        for number in [0, 7, 9_999_999_999, 10_000_000_000] {
            assert_eq!(parse_file_name(&file_name(number)), Some(number));
        }
        for name in ["segment-7.spool", "segment-0000000007.sfrag", "run.json", "segment-+000000007.spool"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
