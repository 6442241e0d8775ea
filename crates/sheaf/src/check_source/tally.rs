//! Accounts of what a source sends.

use crate::listening::Arrived;
use sheaf_wire::{EventId, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of the first payload that are shown.
const SHOWN_BYTES: usize = 32;

/// Account of one source.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) fragments: u64,
    pub(super) bytes: u64,
    pub(super) sizes: Spread,
    pub(super) first_event: Option<u64>,
    pub(super) greatest: Option<u64>,
    last_event: Option<u64>,
    pub(super) gaps: u64,
    pub(super) missing: u64,
    pub(super) out_of_order: u64,
    pub(super) repeated: u64,
    pub(super) has_times: bool,
    last_time: Option<Timestamp>,
    pub(super) own_differences: Spread,
    pub(super) times_back: u64,
    last_arrival: Option<Timestamp>,
    pub(super) arrivals: Spread,
    pub(super) first_payload: String,
}

impl Tally {
    /// Takes note of a fragment. `event` is its event id, if it has one.
    pub(super) fn take(&mut self, event: Option<EventId>, arrived: &Arrived<'_>) {
        if self.fragments == 0 {
            self.first_payload = hex(arrived.payload);
        }
        self.fragments += 1;
        self.bytes += arrived.payload.len() as u64;
        self.sizes.add(arrived.payload.len() as u64);
        if let Some(EventId(event)) = event {
            self.take_event(event);
        }
        if let Some(last) = self.last_arrival.replace(arrived.now) {
            self.arrivals.add(arrived.now.since(last).0);
        }
        self.has_times |= arrived.time != Timestamp::ZERO;
        match self.last_time.replace(arrived.time) {
            Some(last) if arrived.time < last => self.times_back += 1,
            Some(last) => self.own_differences.add(arrived.time.since(last).0),
            None => {}
        }
    }

    fn take_event(&mut self, event: u64) {
        self.first_event.get_or_insert(event);
        match self.greatest {
            Some(greatest) if event <= greatest => {
                self.out_of_order += 1;
                self.repeated += u64::from(self.last_event == Some(event));
            }
            Some(greatest) => {
                let missing = event - greatest - 1;
                self.gaps += u64::from(missing > 0);
                self.missing += missing;
                self.greatest = Some(event);
            }
            None => self.greatest = Some(event),
        }
        self.last_event = Some(event);
    }
}

/// Returns the first bytes, as hexadecimal numbers.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(SHOWN_BYTES) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x} ");
    }
    match bytes.len() {
        0 => "none".to_owned(),
        length if length > SHOWN_BYTES => text + "...",
        _ => text.trim_end().to_owned(),
    }
}

/// Values and how often each came. Values from 1,024 on are rounded down by at most a 512th part, so that memory is bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    counts: BTreeMap<u64, u64>,
    total: u64,
    bounds: Option<(u64, u64)>,
}

impl Spread {
    pub(super) fn add(&mut self, value: u64) {
        let (least, most) = self.bounds.unwrap_or((value, value));
        self.bounds = Some((least.min(value), most.max(value)));
        let spare = (64 - value.leading_zeros()).saturating_sub(10);
        *self.counts.entry(value >> spare << spare).or_default() += 1;
        self.total += 1;
    }

    pub(super) fn min(&self) -> Option<u64> {
        self.bounds.map(|(least, _)| least)
    }

    pub(super) fn max(&self) -> Option<u64> {
        self.bounds.map(|(_, most)| most)
    }

    pub(super) fn median(&self) -> Option<u64> {
        let mut before = 0;
        let (least, _) = self.bounds?;
        let found = self.counts.iter().find(|(_, count)| {
            before += **count;
            2 * before >= self.total
        });
        found.map(|(value, _)| (*value).max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::SourceId;

    fn tally(fragments: &[(u64, u64, &[u8])]) -> Tally {
        let mut tally = Tally::default();
        for (at, (event, time, payload)) in fragments.iter().enumerate() {
            let (event, time) = (EventId(*event), Timestamp(*time));
            let now = Timestamp(at as u64 * 7);
            tally.take(Some(event), &Arrived { source: SourceId(1), event, time, now, payload });
        }
        tally
    }

    #[test]
    fn gaps_disorder_and_times_are_counted() {
        let tally = tally(&[
            (5, 100, &[1, 2, 255]),
            (6, 110, &[]),
            (9, 130, &[0; 40]),
            (9, 130, &[0; 40]),
            (7, 90, &[0; 40]),
            (10, 150, &[0; 40]),
        ]);
        assert_eq!((tally.fragments, tally.bytes), (6, 163));
        assert_eq!((tally.first_event, tally.greatest), (Some(5), Some(10)));
        assert_eq!((tally.gaps, tally.missing), (1, 2));
        assert_eq!((tally.out_of_order, tally.repeated), (2, 1));
        assert_eq!((tally.has_times, tally.times_back), (true, 1));
        assert_eq!((tally.own_differences.min(), tally.own_differences.max()), (Some(0), Some(60)));
        assert_eq!(tally.arrivals.median(), Some(7));
        assert_eq!(
            (tally.sizes.min(), tally.sizes.median(), tally.sizes.max()),
            (Some(0), Some(40), Some(40))
        );
        assert_eq!(tally.first_payload, "01 02 ff");
        assert_eq!(hex(&[0xab; 33]), format!("{}...", "ab ".repeat(32)));
    }

    #[test]
    fn many_values_need_little_memory_and_their_median_is_close() {
        let mut spread = Spread::default();
        (0..100_000).for_each(|value| spread.add(value * 1_000_003));
        let exact = 50_000_u64 * 1_000_003;
        let median = spread.median().expect("there are values");
        assert!(median <= exact && exact - median <= exact / 256, "{median}");
        assert!(spread.counts.len() < 64 * 512);
        assert_eq!((spread.min(), spread.max()), (Some(0), Some(99_999 * 1_000_003)));
    }
}
