//! Answers to requests for windows.

use crate::catalog::{Catalog, HeldPart, HeldSession, file_name, parse_file_name};
use crate::segment::{SegmentDamage, SegmentError, block_bytes, read_at, read_segment};
use sheaf_store::regular;
use sheaf_telemetry::log_as;
use sheaf_wire::HitInterval;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::hit::{HIT_BYTES, HitBytes};
use sheaf_wire::spool_file::{BLOCK_HEADER_BYTES, BlockHeader, BlockSource, IndexBlock};
use sheaf_wire::spool_link::{GapReason, WindowDone, WindowPart, WindowRequest, has_source};
use sheaf_wire::{SessionId, SourceId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use zerocopy::{FromBytes, IntoBytes};

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowAnswer<'a> {
    /// All hits of a source in an interval, one after another in order of time. Intervals of a source come in order.
    Hits(WindowPart, &'a [u8]),
    /// An interval of a source that the spool does not have.
    Gap(WindowPart, GapReason),
}

/// A recording in progress.
#[derive(Debug)]
pub(crate) struct Live {
    session: SessionId,
    sources: Vec<SourceId>,
    is_over: AtomicBool,
}

impl Live {
    pub(crate) fn new(session: SessionId, sources: &[SourceId]) -> Self {
        Self { session, sources: sources.to_vec(), is_over: AtomicBool::new(false) }
    }
}

/// The segments of a spool, for reading.
#[derive(Clone, Debug)]
pub struct Archive {
    directory: PathBuf,
    catalog: Arc<RwLock<Catalog>>,
    /// The recording that is in progress.
    live: Option<Arc<Live>>,
}

impl Archive {
    /// Reads what the segments of a directory have. Returns the defects of segments, by their paths.
    ///
    /// # Errors
    /// A [`SegmentError`] if the directory cannot be read. Files that are no segments, and segments that are deleted meanwhile,
    /// are left out.
    pub fn open(directory: &Path) -> Result<(Self, Vec<(PathBuf, SegmentDamage)>), SegmentError> {
        let mut catalog = Catalog::default();
        let mut damages = Vec::new();
        for (path, _) in segment_files(directory)? {
            match read_segment(&path) {
                Ok((content, damage)) => {
                    catalog.insert(content);
                    if damage != SegmentDamage::default() {
                        damages.push((path, damage));
                    }
                }
                Err(SegmentError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => log_as!(SPOOL_INCOMPLETE; "{error}; it is left out"),
            }
        }
        Ok((Self::new(directory, Arc::new(RwLock::new(catalog)), None), damages))
    }

    /// Reads the segments of a catalog, to which the recording `live` adds.
    pub(crate) fn new(directory: &Path, catalog: Arc<RwLock<Catalog>>, live: Option<Live>) -> Self {
        Self { directory: directory.to_owned(), catalog, live: live.map(Arc::new) }
    }

    /// Records that the recording in progress has ended.
    pub(crate) fn end(&self) {
        if let Some(live) = &self.live {
            live.is_over.store(true, Ordering::Release);
        }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the latest recording.
    #[must_use]
    pub fn latest(&self) -> Option<SessionId> {
        self.live_session().or_else(|| self.read().latest())
    }

    /// Returns what a recording has.
    #[must_use]
    pub fn held(&self, session: SessionId) -> Option<HeldSession> {
        self.read().held(session).cloned()
    }

    /// Returns the contents of all recordings, the oldest first.
    #[must_use]
    pub fn sessions(&self) -> Vec<HeldSession> {
        self.read().sessions().cloned().collect()
    }

    fn live_session(&self) -> Option<SessionId> {
        self.live.as_ref().map(|live| live.session)
    }

    /// Gives all parts of the answer to a request to `take`, and returns the end of the answer.
    ///
    /// # Errors
    /// An error of `take`, or of reading segments.
    pub fn answer(
        &self,
        request: &WindowRequest,
        take: &mut dyn FnMut(WindowAnswer<'_>) -> io::Result<()>,
    ) -> io::Result<WindowDone> {
        let session = request.session.or_else(|| self.latest()).unwrap_or(SessionId(0));
        let mut answering =
            Answering { request, covered: BTreeMap::new(), damaged: Vec::new(), hits: 0, gaps: 0 };
        let segments = self.read().overlapping(session, request.window);
        for number in segments {
            // A copy: reading files does not hold up the writer.
            let blocks: Vec<IndexBlock> = match self.read().get(number) {
                Some(segment) => {
                    let overlaps = |block: &&IndexBlock| block.interval.common(request.window).is_some();
                    segment.blocks.iter().filter(overlaps).copied().collect()
                }
                None => continue,
            };
            let file = match regular::open(&self.directory.join(file_name(number))) {
                Ok(file) => file,
                // It was deleted to make room: its part is a gap.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for block in &blocks {
                answering.block(&file, block, take)?;
            }
        }
        // Afterwards: what was deleted meanwhile is known.
        let is_going_on =
            |live: &&Arc<Live>| live.session == session && !live.is_over.load(Ordering::Acquire);
        let live = self.live.as_ref().filter(is_going_on).map(|live| &live.sources[..]);
        let gaps = answering.find_gaps(self.read().held(session), live);
        for (part, reason) in gaps {
            answering.gaps += 1;
            take(WindowAnswer::Gap(part, reason))?;
        }
        Ok(WindowDone { number: request.number, gaps: answering.gaps, hits: answering.hits, session })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the files of segments in a directory with their numbers, in order.
pub(crate) fn segment_files(directory: &Path) -> Result<Vec<(PathBuf, u64)>, SegmentError> {
    let io = |error| SegmentError::Io { path: directory.to_owned(), error };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(number) = parse_file_name(&name) {
            files.push((path, number));
        }
    }
    files.sort_by_key(|(_, number)| *number);
    Ok(files)
}

/// An answer that is being made.
struct Answering<'a> {
    request: &'a WindowRequest,
    /// Intervals of each source of which hits were given, or gaps.
    covered: BTreeMap<SourceId, Vec<HitInterval>>,
    /// Intervals of blocks of which even the sources are unknown.
    damaged: Vec<HitInterval>,
    hits: u64,
    gaps: u32,
}

impl Answering<'_> {
    /// Gives the hits of a block.
    fn block(
        &mut self,
        file: &File,
        block: &IndexBlock,
        take: &mut dyn FnMut(WindowAnswer<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        // Lengths are compared with the file before memory is allocated for them: it may have been cut off.
        let is_whole = block.offset.saturating_add(block_bytes(block)) <= file.metadata()?.len();
        let sources = if is_whole { read_sources(file, block)? } else { None };
        let Some(sources) = sources else {
            self.damaged.push(block.interval);
            return Ok(());
        };
        let mut start = block.offset + (BLOCK_HEADER_BYTES + sources.len() * size_of_entry()) as u64;
        let mut wanted = Vec::new();
        for source in sources {
            let bytes = source.hits as usize * HIT_BYTES;
            let common = source.interval.common(self.request.window);
            if let Some(common) = common.filter(|_| has_source(&self.request.sources, source.source)) {
                wanted.push((source, common, start..start + bytes as u64));
            }
            start += bytes as u64;
        }
        let Some(first) = wanted.first().map(|(.., place)| place.start) else { return Ok(()) };
        let last = wanted.last().map_or(first, |(.., place)| place.end);
        let sum: u64 = wanted.iter().map(|(.., place)| place.end - place.start).sum();
        // One read, unless most of it would be of other sources.
        let together = (2 * sum >= last - first).then(|| read_range(file, first..last)).transpose()?;
        for (source, common, place) in wanted {
            let own;
            let hits = match &together {
                Some(all) => {
                    let range = (place.start - first) as usize..(place.end - first) as usize;
                    all.get(range).unwrap_or_default()
                }
                None => {
                    own = read_range(file, place)?;
                    &own
                }
            };
            self.source(&source, common, hits, take)?;
        }
        Ok(())
    }

    /// Gives the hits of a source of a block in an interval.
    fn source(
        &mut self,
        source: &BlockSource,
        interval: HitInterval,
        hits: &[u8],
        take: &mut dyn FnMut(WindowAnswer<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.covered.entry(source.source).or_default().push(interval);
        let part = WindowPart { number: self.request.number, source: source.source, interval };
        let is_good = hits.len() == source.hits as usize * HIT_BYTES && crc32c(hits) == source.checksum;
        let Some(hits) = <[HitBytes]>::ref_from_bytes(hits).ok().filter(|_| is_good) else {
            self.gaps += 1;
            return take(WindowAnswer::Gap(part, GapReason::Damaged));
        };
        let from = hits.partition_point(|hit| hit.time_ps.get() < interval.from_ps);
        let until = hits.partition_point(|hit| hit.time_ps.get() < interval.until_ps);
        let hits = &hits[from..until.max(from)];
        self.hits += hits.len() as u64;
        take(WindowAnswer::Hits(part, hits.as_bytes()))
    }

    /// Returns the gaps of all sources. `live` are the sources of the recording if it is in progress.
    fn find_gaps(
        &self,
        held: Option<&HeldSession>,
        live: Option<&[SourceId]>,
    ) -> Vec<(WindowPart, GapReason)> {
        let mut sources: BTreeMap<SourceId, Option<HeldPart>> = BTreeMap::new();
        let expected = live.or_else(|| Some(&held?.expected)).unwrap_or_default();
        // A range names sources that may not exist; a number names one that is expected.
        let named = self.request.sources.iter().filter(|range| range.start() == range.end());
        sources.extend(named.map(|range| (SourceId(*range.start()), None)));
        let is_asked = |source: &SourceId| has_source(&self.request.sources, *source);
        sources.extend(expected.iter().filter(|source| is_asked(source)).map(|source| (*source, None)));
        let known = held.into_iter().flat_map(|held| &held.sources).filter(|(source, _)| is_asked(source));
        sources.extend(known.map(|(source, part)| (*source, Some(*part))));
        let mut gaps = Vec::new();
        for (source, part) in sources {
            let covered = self.covered.get(&source).map_or(&[][..], Vec::as_slice);
            for hole in holes(self.request.window, covered) {
                let is_awaited = live.is_some_and(|live| part.is_some() || live.contains(&source));
                for (interval, reason) in self.reasons(hole, part, held, is_awaited) {
                    gaps.push((WindowPart { number: self.request.number, source, interval }, reason));
                }
            }
        }
        gaps
    }

    /// Divides an interval that is not held by the reason.
    fn reasons(
        &self,
        hole: HitInterval,
        part: Option<HeldPart>,
        held: Option<&HeldSession>,
        is_awaited: bool,
    ) -> Vec<(HitInterval, GapReason)> {
        let Some(HeldPart { interval: known, .. }) = part else {
            let reason = if is_awaited { GapReason::Awaited } else { GapReason::UnknownSource };
            return vec![(hole, reason)];
        };
        let has_deleted = held.is_some_and(|held| held.has_deleted);
        let before = if has_deleted { GapReason::Deleted } else { GapReason::NotRecorded };
        let after = if is_awaited { GapReason::Awaited } else { GapReason::Ended };
        let is_damaged = self.damaged.iter().any(|block| block.common(hole).is_some());
        let within = if is_damaged { GapReason::Damaged } else { GapReason::Lost };
        let parts = [
            (HitInterval { from_ps: 0, until_ps: known.from_ps }, before),
            (known, within),
            (HitInterval { from_ps: known.until_ps, until_ps: u64::MAX }, after),
        ];
        let common = |(of_reason, reason): (HitInterval, GapReason)| Some((of_reason.common(hole)?, reason));
        parts.into_iter().filter_map(common).collect()
    }
}

const fn size_of_entry() -> usize {
    sheaf_wire::spool_file::BLOCK_SOURCE_BYTES
}

/// Reads the sources of a block; `None` if they are damaged.
fn read_sources(file: &File, block: &IndexBlock) -> io::Result<Option<Vec<BlockSource>>> {
    let bytes = BLOCK_HEADER_BYTES + block.sources as usize * size_of_entry();
    let bytes = read_at(file, block.offset, bytes)?;
    let parsed = BlockHeader::parse(&bytes).and_then(|header| {
        let sources = header.parse_sources(&bytes[BLOCK_HEADER_BYTES..])?;
        Ok((header, sources))
    });
    let as_indexed = |header: &BlockHeader| {
        (header.hits, header.sources, header.interval) == (block.hits, block.sources, block.interval)
    };
    Ok(parsed.ok().filter(|(header, _)| as_indexed(header)).map(|(_, sources)| sources))
}

fn read_range(file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    read_at(file, range.start, usize::try_from(range.end - range.start).unwrap_or(usize::MAX))
}

/// Returns the parts of a window that are in none of some intervals.
pub(crate) fn holes(window: HitInterval, covered: &[HitInterval]) -> Vec<HitInterval> {
    let mut sorted = covered.to_vec();
    sorted.sort_unstable();
    let mut holes = Vec::new();
    let mut from_ps = window.from_ps;
    for interval in sorted {
        if interval.from_ps > from_ps {
            holes.push(HitInterval { from_ps, until_ps: interval.from_ps.min(window.until_ps) });
        }
        from_ps = from_ps.max(interval.until_ps);
    }
    if from_ps < window.until_ps {
        holes.push(HitInterval { from_ps, until_ps: window.until_ps });
    }
    holes.retain(|hole| hole.from_ps < hole.until_ps);
    holes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holes_are_what_no_interval_covers(
            from_ps in 0..50_u64, length in 0..50_u64, covered in prop::collection::vec((0..100_u64, 0..20_u64), 0..8),
        ) {
            let window = HitInterval { from_ps, until_ps: from_ps + length };
            let covered: Vec<_> =
                covered.into_iter().map(|(from_ps, length)| HitInterval { from_ps, until_ps: from_ps + length }).collect();
            let holes = holes(window, &covered);
            for time in 0..130 {
                let is_hole = window.contains(time) && !covered.iter().any(|interval| interval.contains(time));
                prop_assert_eq!(holes.iter().filter(|hole| hole.contains(time)).count(), usize::from(is_hole), "{}", time);
            }
        }
    }
}
