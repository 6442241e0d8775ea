//! A filter that finds coincidences in built time slices.

use crate::filter::{Filter, FilterFailure};
use bytes::Bytes;
use sheaf_time::coincidence::{CoincidenceStats, of_slice};
use sheaf_time::{CoincidenceConfig, Moment, SliceConfig};
use sheaf_wire::hit::hits;
use sheaf_wire::{Event, EventId, Hit, Verdict};

/// Wants the time slices in which a coincidence begins.
#[derive(Clone, Debug)]
pub struct CoincidenceFilter {
    config: CoincidenceConfig,
    slices: SliceConfig,
    /// The hits of the slice, with the places of their fragments in the event.
    hits: Vec<(usize, Moment, Hit)>,
    found: CoincidenceStats,
    /// Fragments that hold no hits.
    not_hits: u64,
}

impl CoincidenceFilter {
    /// A filter of slices that are cut like this.
    #[must_use]
    pub fn new(config: CoincidenceConfig, slices: SliceConfig) -> Self {
        Self { config, slices, hits: Vec::new(), found: CoincidenceStats::default(), not_hits: 0 }
    }
}

/// Describes a slice that was cut in another way, such as a replayed one. Its coincidences cannot be told from those of its neighbours.
fn other_slices(event: EventId, at: Moment, begin: Moment, end: Moment) -> FilterFailure {
    let micros = |moment: Moment| moment.0 / 1_000_000;
    FilterFailure(format!(
        "time slice {event} has a hit at {} us, and is from {} to {} us by the configuration: set `slice_us`, `before_us` and `after_us` of `[source.timed]` as they were when the slices were made",
        micros(at),
        micros(begin),
        micros(end)
    ))
}

impl Filter for CoincidenceFilter {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        self.hits.clear();
        for (place, fragment) in event.fragments.iter().enumerate() {
            match hits(&fragment.payload) {
                Ok(hits) => self.hits.extend(hits.map(|hit| (place, Moment(hit.time_ps), hit))),
                Err(_) => self.not_hits += 1,
            }
        }
        self.hits.sort_unstable_by_key(|(place, at, _)| (*at, *place));
        let range = (self.slices.begin(event.id.0), self.slices.begin(event.id.0.saturating_add(1)));
        let seen_to = range.1 + self.slices.after;
        let is_outside =
            |(_, at, _): &&(usize, Moment, Hit)| *at + self.slices.before < range.0 || *at >= seen_to;
        if let Some((_, at, _)) = [self.hits.first(), self.hits.last()].into_iter().flatten().find(is_outside)
        {
            return Err(other_slices(event.id, *at, range.0, seen_to));
        }
        let (clusters, stats) = of_slice(self.config, &self.hits, range, seen_to);
        self.found += stats;
        Ok(Verdict { accepted: !clusters.is_empty(), ..Verdict::reject() })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("clusters", self.found.clusters),
            ("coincidences", self.found.coincidences),
            ("clusters_truncated", self.found.truncated),
            ("fragments_without_hits", self.not_hits),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_time::{Picos, Rule};
    use sheaf_wire::{Fragment, NumberMark, SourceId, Timestamp, TriggerType};

    const SLICES: SliceConfig = SliceConfig {
        length: Picos(1000),
        before: Picos(20),
        after: Picos(100),
        max_items: 100,
        max_empty: 10,
    };

    fn event(id: u64, payloads: &[&[u64]]) -> Event<Bytes> {
        let payload = |times: &&[u64]| {
            let hit = |time_ps: &u64| Hit { time_ps: *time_ps, channel: 0, value: 0, extra: 0 }.to_bytes();
            Bytes::from(times.iter().flat_map(hit).collect::<Vec<u8>>())
        };
        let fragment = |(source, times)| Fragment {
            event: EventId(id),
            source: SourceId(source),
            time: Timestamp(id),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: payload(times),
        };
        Event {
            id: EventId(id),
            time: Timestamp(id),
            trigger_type: TriggerType(0),
            attempt: 1,
            incomplete: false,
            fragments: (0..).zip(payloads).map(fragment).collect(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_slice_is_wanted_if_a_coincidence_begins_in_it() {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 2, max_items: 100 };
        let mut filter = CoincidenceFilter::new(config, SLICES);
        assert!(filter.judge(&event(5, &[&[5_100, 5_995], &[5_200, 6_010]])).unwrap().accepted);
        assert!(
            !filter.judge(&event(6, &[&[5_995, 6_500], &[6_010, 6_600]])).unwrap().accepted,
            "that began in the slice before"
        );
        assert!(!filter.judge(&event(7, &[&[], &[]])).unwrap().accepted);
        let counters: Vec<u64> = filter.counters().into_iter().map(|(_, value)| value).collect();
        assert_eq!(counters, [5, 1, 0, 0]);
    }

    #[test]
    fn slices_of_another_length_are_a_failure() {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 2, max_items: 100 };
        let mut filter = CoincidenceFilter::new(config, SLICES);
        for times in [[4_979, 5_500], [5_500, 6_100]] {
            let failure = filter.judge(&event(5, &[&times, &[5_500]])).unwrap_err().to_string();
            assert!(failure.contains("time slice 5") && failure.contains("`slice_us`"), "{failure}");
        }
        assert!(filter.judge(&event(5, &[&[4_980, 6_099]])).is_ok());
    }

    #[test]
    fn payload_that_holds_no_hits_is_counted() {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 1, max_items: 100 };
        let mut filter = CoincidenceFilter::new(config, SLICES);
        let mut event = event(5, &[&[5_100]]);
        event.fragments[0].payload = Bytes::from_static(b"seven b");
        assert!(!filter.judge(&event).unwrap().accepted);
        assert_eq!(filter.counters()[3], ("fragments_without_hits", 1));
    }
}
