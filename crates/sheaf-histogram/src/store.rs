//! The histograms of a run, by publisher, within limits.
//!
//! A publisher sends whole snapshots, so that a lost or repeated one changes nothing. Each publisher is kept apart while it works: the
//! histogram of the run is the sum of its newest snapshots. When a publisher has ended, or a new one needs its place, its share is added to
//! that of former publishers.

use crate::histogram::{Histogram, is_name};
use crate::publication::{Publication, Receipt, Refusal, RefusalReason};
use crate::record::{HistogramRecord, PublisherRecord, RecordedHistogram};
use std::collections::{BTreeMap, VecDeque};

/// Number of sessions that are known to have ended.
const ENDED: usize = 4_096;

/// Limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Number of histograms.
    pub histograms: usize,
    /// Number of publishers at the same time.
    pub publishers: usize,
    /// Bytes of all shares of all histograms, as [`Histogram::bytes`] counts them.
    pub bytes: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { histograms: 1_000, publishers: 64, bytes: 8 << 20 }
    }
}

/// The histograms of a run, by publisher, within limits.
#[derive(Clone, Debug)]
pub struct HistogramStore {
    run: u32,
    limits: StoreLimits,
    sessions: BTreeMap<String, Session>,
    entries: BTreeMap<String, Entry>,
    /// Sessions that have ended, with their last numbers.
    ended: VecDeque<(String, u64)>,
    bytes: u64,
    taken: u64,
    stale: u64,
    refused: BTreeMap<RefusalReason, u64>,
    /// Grows with each change.
    revision: u64,
}

#[derive(Clone, Debug)]
struct Session {
    publisher: String,
    sequence: u64,
    updated_ms: u64,
}

/// The shares of one histogram. It has one at least.
#[derive(Clone, Debug, Default)]
struct Entry {
    shares: BTreeMap<String, Share>,
    former: Option<Histogram>,
    updated_ms: u64,
}

#[derive(Clone, Debug)]
struct Share {
    sequence: u64,
    histogram: Histogram,
}

impl Entry {
    fn any(&self) -> Option<&Histogram> {
        self.former.as_ref().or_else(|| self.shares.values().map(|share| &share.histogram).next())
    }

    /// Returns the sum of all shares, always in the same order.
    fn sum(&self) -> Option<Histogram> {
        let mut all = self.former.iter().chain(self.shares.values().map(|share| &share.histogram));
        let mut sum = all.next()?.clone();
        all.for_each(|share| sum.add(share));
        Some(sum)
    }
}

impl HistogramStore {
    /// Makes an empty store for a run.
    #[must_use]
    pub fn new(run: u32, limits: StoreLimits) -> Self {
        Self {
            run,
            limits,
            sessions: BTreeMap::new(),
            entries: BTreeMap::new(),
            ended: VecDeque::new(),
            bytes: 0,
            taken: 0,
            stale: 0,
            refused: BTreeMap::new(),
            revision: 0,
        }
    }

    /// Takes a publication. Each of its histograms is taken or refused by itself.
    ///
    /// # Errors
    /// If the whole publication is refused.
    pub fn take(
        &mut self,
        publisher: &str,
        publication: Publication,
        now_ms: u64,
    ) -> Result<Receipt, Refusal> {
        let Publication { session, sequence, is_final, histograms } = publication;
        if let Some((_, last)) = self.ended.iter().find(|(ended, _)| *ended == session) {
            if sequence > *last {
                return Err(self.refuse(RefusalReason::SessionEnded, None, || {
                    format!("the session {session} has published its last")
                }));
            }
            let stale = u32::try_from(histograms.len()).unwrap_or(u32::MAX);
            self.stale += u64::from(stale);
            return Ok(Receipt { stale, ..Receipt::default() });
        }
        self.meet(publisher, &session)?;
        let mut receipt = Receipt::default();
        for histogram in histograms {
            match self.take_share(&session, sequence, histogram, now_ms) {
                Ok(true) => receipt.taken += 1,
                Ok(false) => receipt.stale += 1,
                Err(refusal) => receipt.refused.push(refusal),
            }
        }
        self.taken += u64::from(receipt.taken);
        self.stale += u64::from(receipt.stale);
        self.revision += 1;
        let known = Session { publisher: publisher.to_owned(), sequence, updated_ms: now_ms };
        let known = self
            .sessions
            .entry(session.clone())
            .and_modify(|known| {
                known.sequence = known.sequence.max(sequence);
                known.updated_ms = now_ms;
            })
            .or_insert(known);
        let last = known.sequence;
        // One that is older than others is late, and they are still to be counted by their own numbers.
        if is_final && sequence == last {
            self.retire(&session);
        }
        Ok(receipt)
    }

    /// Counts and returns a refusal of bytes that are no publication.
    pub fn note_invalid(&mut self, refusal: &Refusal) {
        *self.refused.entry(refusal.reason).or_default() += 1;
        self.revision += 1;
    }

    /// Checks whether a session can publish. One more than the limit takes the place of nobody: it is refused.
    fn meet(&mut self, publisher: &str, session: &str) -> Result<(), Refusal> {
        if !is_name(publisher) {
            return Err(self.refuse(RefusalReason::Invalid, None, || {
                "the name of a publisher has other characters than letters, digits, `_`, `-` and `.`, or is too long".to_owned()
            }));
        }
        let most = self.limits.publishers;
        if !self.sessions.contains_key(session) && self.sessions.len() >= most {
            return Err(self.refuse(RefusalReason::TooManyPublishers, None, || {
                format!("{most} publishers are at work, which is the limit of a run")
            }));
        }
        Ok(())
    }

    /// Takes the share of a session in a histogram. Returns whether it is newer than the known one.
    fn take_share(
        &mut self,
        session: &str,
        sequence: u64,
        histogram: Histogram,
        now_ms: u64,
    ) -> Result<bool, Refusal> {
        // A name that is refused can be of any length.
        let name: String = histogram.name.chars().take(crate::MAX_NAME).collect();
        if let Err(error) = histogram.check() {
            return Err(self.refuse(RefusalReason::Invalid, Some(&name), || format!("`{name}`: {error}")));
        }
        let entry = self.entries.get(&name);
        let share = entry.and_then(|entry| entry.shares.get(session));
        if share.is_some_and(|share| share.sequence >= sequence) {
            return Ok(false);
        }
        if entry.and_then(Entry::any).is_some_and(|known| !known.has_bins_of(&histogram)) {
            return Err(self.refuse(RefusalReason::OtherBins, Some(&name), || {
                format!("`{name}` is the name of another histogram of this run, of another kind or with other bins")
            }));
        }
        let most = self.limits.histograms;
        if entry.is_none() && self.entries.len() >= most {
            return Err(self.refuse(RefusalReason::TooManyHistograms, Some(&name), || {
                format!("`{name}`: the run has {most} histograms, which is its limit")
            }));
        }
        let before = share.map_or(0, |share| share.histogram.bytes());
        let bytes = self.bytes - before + histogram.bytes();
        let limit = self.limits.bytes;
        // One that has a place may change within it, but for weights that it did not have.
        if bytes > limit && histogram.bytes() > before {
            return Err(self.refuse(RefusalReason::TooManyBytes, Some(&name), || {
                format!("`{name}`: the histograms of the run would take {bytes} bytes, more than `monitor.histogram_bytes` = {limit}")
            }));
        }
        self.bytes = bytes;
        let entry = self.entries.entry(name).or_default();
        entry.updated_ms = now_ms;
        entry.shares.insert(session.to_owned(), Share { sequence, histogram });
        Ok(true)
    }

    fn refuse(
        &mut self,
        reason: RefusalReason,
        name: Option<&str>,
        text: impl FnOnce() -> String,
    ) -> Refusal {
        *self.refused.entry(reason).or_default() += 1;
        self.revision += 1;
        Refusal { name: name.map(str::to_owned), reason, text: text() }
    }

    /// Adds the shares of a session to those of former publishers.
    fn retire(&mut self, session: &str) {
        let Some(known) = self.sessions.remove(session) else { return };
        for entry in self.entries.values_mut() {
            let Some(share) = entry.shares.remove(session) else { continue };
            let share = share.histogram;
            let former = entry.former.as_ref().map_or(0, Histogram::bytes);
            self.bytes -= share.bytes() + former;
            match &mut entry.former {
                Some(former) => former.add(&share),
                None => entry.former = Some(share),
            }
            self.bytes += entry.former.as_ref().map_or(0, Histogram::bytes);
        }
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back((session.to_owned(), known.sequence));
    }

    /// Returns a number that grows with each change.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the bytes of all shares.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of histograms.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no histogram.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether a publisher that has published since `since_ms` has not published its last.
    #[must_use]
    pub fn is_awaited(&self, since_ms: u64) -> bool {
        self.sessions.values().any(|session| session.updated_ms >= since_ms)
    }

    /// Returns the record of the run as it is now. `complete` says that no more is taken.
    #[must_use]
    pub fn record(&self, now_ms: u64, complete: bool) -> HistogramRecord {
        let recorded = |entry: &Entry| {
            let publishers = entry.shares.len() + usize::from(entry.former.is_some());
            // A publisher that says nothing about a histogram confirms it.
            let sessions = entry.shares.keys().filter_map(|session| self.sessions.get(session));
            let updated_ms = sessions.map(|session| session.updated_ms).fold(entry.updated_ms, u64::max);
            Some(RecordedHistogram { histogram: entry.sum()?, publishers, updated_ms })
        };
        let publisher = |session: &Session| PublisherRecord {
            name: session.publisher.clone(),
            updated_ms: session.updated_ms,
        };
        HistogramRecord {
            format: HistogramRecord::FORMAT.to_owned(),
            version: HistogramRecord::VERSION,
            run: self.run,
            written_ms: now_ms,
            complete,
            publishers: self.sessions.values().map(publisher).collect(),
            taken: self.taken,
            stale: self.stale,
            refused: self.refused.clone(),
            histograms: self.entries.values().filter_map(recorded).collect(),
        }
    }
}
