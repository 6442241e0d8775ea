//! Bounds on results that are larger than their fragments.

use super::made::Made;
use bytes::Bytes;
use sheaf_wire::message::SuperFragments;
use sheaf_wire::{ByteCount, Fragment, SuperFragment};

/// Maximum size of results. The bounds apply to results that have grown; raw fragments keep to their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Number of bytes by which a result may exceed its fragment.
    pub extra: ByteCount,
    /// A result that is larger than its fragment is not larger than this.
    pub fragment: ByteCount,
    /// Maximum total size of an event's fragments if some have grown: the capacity of a frame.
    pub event: ByteCount,
    /// Maximum payload of a message of a grown answer. An answer that exceeds it is sent in several messages, each of
    /// at most this size or of one event.
    pub message: ByteCount,
}

impl Growth {
    /// Returns the room for the result of a fragment with a given number of bytes.
    pub(super) fn room(&self, bytes: usize) -> usize {
        let most = self.fragment.as_usize();
        bytes.saturating_add(self.extra.as_usize()).min(most).max(bytes)
    }

    /// Discards the results of events that have become too large for a frame. Returns the number of fragments
    /// concerned.
    pub(super) fn bound_events(
        &self,
        entries: &[SuperFragment],
        fragments: &[Fragment<Bytes>],
        made: &mut [Made],
    ) -> u64 {
        if self.extra == ByteCount::ZERO {
            return 0;
        }
        let mut taken_back = 0;
        let (mut fragments, mut made) = (fragments, made);
        for entry in entries.iter().flat_map(|entry| entry.events().map(move |_| entry)) {
            let count = usize::from(entry.fragments).min(made.len()).min(fragments.len());
            let (its_fragments, rest) = fragments.split_at(count);
            let (its_made, later) = std::mem::take(&mut made).split_at_mut(count);
            (fragments, made) = (rest, later);
            let before: u64 = its_fragments.iter().map(bytes_of).sum();
            let after: u64 =
                its_fragments.iter().zip(&*its_made).map(|(raw, made)| bytes_after(raw, made)).sum();
            if after > before.max(self.event.0) {
                for made in its_made.iter_mut().filter(|made| matches!(made, Made::New { .. })) {
                    *made = Made::TooLarge;
                    taken_back += 1;
                }
            }
        }
        taken_back
    }

    /// Divides an answer between events, where it has grown beyond a message.
    pub(super) fn divide(&self, parts: SuperFragments<Bytes>) -> Vec<SuperFragments<Bytes>> {
        let total: u64 = parts.fragments.iter().map(bytes_of).sum();
        if self.extra == ByteCount::ZERO || total <= self.message.0 {
            return vec![parts];
        }
        let (mut fragments, mut missing) = (parts.fragments.into_iter(), parts.missing.into_iter());
        let (mut divided, mut bytes) = (vec![SuperFragments::default()], 0);
        let events = parts.entries.into_iter();
        for entry in
            events.flat_map(|run| run.events().map(move |event| SuperFragment { event, count: 1, ..run }))
        {
            let its: Vec<_> = fragments.by_ref().take(usize::from(entry.fragments)).collect();
            let more: u64 = its.iter().map(bytes_of).sum();
            if bytes > 0 && bytes + more > self.message.0 {
                divided.push(SuperFragments::default());
                bytes = 0;
            }
            bytes += more;
            if let Some(last) = divided.last_mut() {
                last.fragments.extend(its);
                last.missing.extend(missing.by_ref().take(usize::from(entry.missing)));
                last.push_entry(entry);
            }
        }
        divided
    }
}

fn bytes_of(fragment: &Fragment<Bytes>) -> u64 {
    fragment.payload.len() as u64
}

fn bytes_after(raw: &Fragment<Bytes>, made: &Made) -> u64 {
    match made {
        Made::New { payload, .. } => payload.len() as u64,
        _ => bytes_of(raw),
    }
}
