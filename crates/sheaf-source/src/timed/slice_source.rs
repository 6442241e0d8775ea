//! Fragments of any source, cut by time.

use super::decode::Decoder;
use super::feed::{FeedBooks, FeedConfig, SliceFeed};
use super::sources::{DecoderMaker, SliceWriter, TimedSourceError};
use crate::{Batch, BatchEnd, Source, SourceEvent, SourcePoll, SourceStats, StreamSet};
use bytes::Bytes;
use sheaf_buffer::{Memory, Pool};
use sheaf_store::fragment_stream::{StreamReadError, StreamReader};
use sheaf_time::Slice;
use sheaf_wire::{Hit, SourceId, Timestamp};

/// Fragments that one poll takes at most, so that a source does not hold the thread of its readout unit.
const FRAGMENTS_A_POLL: usize = 64;

/// A source whose fragments hold hits: its events are time slices of them.
///
/// Fragments are decoded when they are taken from the source, and hits wait here until their slice is complete. A fragment is acknowledged
/// to the program that feeds the source as soon as its hits are in the books.
pub struct SliceSource<M: Memory> {
    inner: Box<dyn Source>,
    batch: Batch,
    feed: SliceFeed,
    writer: SliceWriter<M>,
    /// The first slice that is not written, and the last slice of all sources, if they are known.
    next: Option<u64>,
    last: Option<u64>,
    state: State,
}

/// State of the source whose fragments are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There may be more fragments.
    Running,
    /// It has ended. Its slices have not.
    Ended,
    /// The run has ended.
    Stopped,
}

/// Returns the first and the last slice in which any source of a recording saw something: (0, 0) if none did. Reads all streams. Damage
/// is no error here: the sources report it.
///
/// # Errors
/// If a stream cannot be read.
pub fn scan_streams(
    set: &StreamSet,
    decoder: DecoderMaker<'_>,
    config: &dyn Fn(SourceId) -> FeedConfig,
) -> Result<(u64, u64), TimedSourceError> {
    let mut range: Option<(u64, u64)> = None;
    for stream in set.streams() {
        let mut feed = SliceFeed::new(decoder()?, config(stream.source))?;
        let mut note = |feed: &mut SliceFeed| {
            for Slice { number, .. } in
                std::iter::from_fn(|| feed.poll()).filter(|slice| !slice.items.is_empty())
            {
                let (first, last) = range.unwrap_or((number, number));
                range = Some((first.min(number), last.max(number)));
            }
        };
        let mut reader = StreamReader::open(&stream.path)?;
        for record in &mut reader {
            match record {
                Ok(fragment) => feed.fragment(fragment.event, fragment.time, &fragment.payload),
                Err(StreamReadError::Damaged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            note(&mut feed);
        }
        feed.finish();
        note(&mut feed);
    }
    Ok(range.unwrap_or((0, 0)))
}

impl<M: Memory> SliceSource<M> {
    /// Cuts the fragments of `source`. If `slices` is given, these are its first and last slice, as those of all sources of the
    /// run; otherwise the first is that of its first hit, and it gives slices until the source ends.
    ///
    /// # Errors
    /// A [`TimedSourceError`].
    pub fn new(
        source: Box<dyn Source>,
        decoder: Box<dyn Decoder>,
        config: &FeedConfig,
        slices: Option<(u64, u64)>,
        pool: Pool<M>,
    ) -> Result<Self, TimedSourceError> {
        let mut feed = SliceFeed::new(decoder, *config)?;
        if let Some((first, _)) = slices {
            feed.begin_with(first);
        }
        Ok(Self {
            inner: source,
            batch: Batch::default(),
            feed,
            writer: SliceWriter::new(config, pool)?,
            next: slices.map(|(first, _)| first),
            last: slices.map(|(_, last)| last),
            state: State::Running,
        })
    }

    /// Takes fragments until there is a slice. Returns what the source said instead, if there is none.
    fn read(&mut self, now: Timestamp) -> Result<Slice<Hit>, SourcePoll> {
        if let Some(slice) = self.feed.poll() {
            return Ok(slice);
        }
        if self.state == State::Ended {
            // After its last hit, slices are empty, up to the last slice of all sources.
            let next = self.next.or_else(|| self.feed.next_slice());
            let rest = next.zip(self.last).filter(|(next, last)| next <= last);
            return rest.map(|(next, _)| Slice::empty(next)).ok_or(SourcePoll::Ended);
        }
        let end = self.inner.poll_batch(now, FRAGMENTS_A_POLL, &mut self.batch);
        let taken = self.batch.fragments.len();
        for fragment in self.batch.fragments.drain(..) {
            let from = fragment.payload.offset as usize;
            let payload = &self.batch.payload[from..from + fragment.payload.length as usize];
            self.feed.fragment(fragment.event, fragment.time, payload);
        }
        // The memory of its source is free again.
        self.batch.payload = Bytes::new();
        self.inner.handle_accepted(taken);
        if end == BatchEnd::Ended {
            self.state = State::Ended;
            self.feed.finish();
            // The source was there, without hits, to the last time that it has told.
            self.last = self.last.or_else(|| self.feed.last_whole());
        }
        self.feed.poll().ok_or(match end {
            BatchEnd::NotBefore(at) => SourcePoll::NotBefore(at),
            BatchEnd::Idle if taken == 0 => SourcePoll::Idle,
            BatchEnd::OutOfMemory if taken == 0 => SourcePoll::OutOfMemory,
            _ => SourcePoll::NotBefore(now),
        })
    }
}

impl<M: Memory> Source for SliceSource<M> {
    fn id(&self) -> SourceId {
        self.feed.card()
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.state == State::Stopped {
            return SourcePoll::Ended;
        }
        match self.writer.take_waiting().map_or_else(|| self.read(now), Ok) {
            Ok(slice) => {
                self.next = slice.number.checked_add(1);
                self.writer.write(slice)
            }
            Err(nothing) => nothing,
        }
    }

    crate::forward_to_source!(inner);

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.inner.poll_event()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.inner.prepare_to_sleep()
    }

    fn stop(&mut self) {
        self.state = State::Stopped;
        self.inner.stop();
    }

    fn stats(&self) -> SourceStats {
        let SourceStats { fragments, bytes, out_of_memory, timed, .. } = self.writer.stats(self.feed.books());
        let mut stats = self.inner.stats();
        let failure =
            self.feed.last_failure().map(|failure| format!("a fragment cannot be decoded: {failure}"));
        stats.last_error = stats.last_error.or(failure);
        // Fragments that were lost before they came here are in the books of the others.
        let undecoded = std::mem::take(&mut stats.undecoded);
        let packets_dropped = stats.timed.map_or(0, |books| books.packets_dropped);
        let timed = timed.map(|books| FeedBooks {
            packets_undecoded: books.packets_undecoded + undecoded,
            packets_dropped: books.packets_dropped + packets_dropped,
            ..books
        });
        SourceStats { fragments, bytes, out_of_memory, timed, ..stats }
    }
}

#[cfg(test)]
mod tests;
