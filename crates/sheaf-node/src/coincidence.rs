//! A filter that finds coincidences in built time slices.

use crate::filter::{Filter, FilterFailure};
use bytes::Bytes;
use sheaf_time::coincidence::{CoincidenceStats, of_slice};
use sheaf_time::{Cluster, CoincidenceConfig, Moment, Picos, SliceConfig};
use sheaf_wire::hit::hits;
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use sheaf_wire::window::{WINDOW_BYTES, Window};
use sheaf_wire::{Event, EventId, Hit, SourceId, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Conditions of a cluster, beyond the number of its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterConditions {
    /// Minimum number of hits.
    pub min_hits: usize,
    /// Minimum sum of the measured values.
    pub min_sum: u64,
    /// Groups of sources that belong together, such as a line of modules, or a module and its neighbours. They may overlap.
    pub groups: Vec<BTreeSet<SourceId>>,
    /// Minimum number of groups with a hit.
    pub min_groups: usize,
    /// Minimum number of different sources in at least one group; 0: no such condition.
    pub min_sources_in_group: usize,
}

/// Time around a cluster that belongs to its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Margins {
    /// Before the first hit.
    pub before: Picos,
    /// After the last hit.
    pub after: Picos,
}

/// Accepts the time slices in which a coincidence begins. The payload of the verdict is the windows of the coincidences; windows that
/// overlap are one.
#[derive(Clone, Debug)]
pub struct CoincidenceFilter {
    config: CoincidenceConfig,
    slices: SliceConfig,
    conditions: ClusterConditions,
    margins: Margins,
    /// Sources whose hits count; all if there are none.
    sources: BTreeSet<SourceId>,
    /// The groups of each source, by their place in the conditions.
    groups: BTreeMap<SourceId, Vec<usize>>,
    /// The hits of the slice, with the places of their fragments in the event.
    hits: Vec<(usize, Moment, Hit)>,
    found: CoincidenceStats,
    /// Coincidences that met the conditions, and their windows.
    accepted: u64,
    windows: u64,
    /// Windows that have no room in the payload of their event.
    windows_left_out: u64,
    /// Fragments that hold no hits.
    not_hits: u64,
}

impl CoincidenceFilter {
    /// Returns a filter of slices that are cut like this.
    #[must_use]
    pub fn new(
        config: CoincidenceConfig,
        slices: SliceConfig,
        conditions: ClusterConditions,
        margins: Margins,
    ) -> Self {
        let mut groups: BTreeMap<SourceId, Vec<usize>> = BTreeMap::new();
        for (place, group) in conditions.groups.iter().enumerate() {
            group.iter().for_each(|source| groups.entry(*source).or_default().push(place));
        }
        Self {
            config,
            slices,
            conditions,
            margins,
            sources: BTreeSet::new(),
            groups,
            hits: Vec::new(),
            found: CoincidenceStats::default(),
            accepted: 0,
            windows: 0,
            windows_left_out: 0,
            not_hits: 0,
        }
    }

    /// Counts hits of these sources only. Other fragments are not read.
    #[must_use]
    pub fn of(self, sources: impl IntoIterator<Item = SourceId>) -> Self {
        Self { sources: sources.into_iter().collect(), ..self }
    }

    /// Finds the coincidences that begin in a slice. Returns their windows in order of time, none of which overlap.
    ///
    /// # Errors
    /// If the slice was cut in another way.
    pub fn find(&mut self, event: &Event<Bytes>) -> Result<Vec<Window>, FilterFailure> {
        self.hits.clear();
        let counts = |source: SourceId| self.sources.is_empty() || self.sources.contains(&source);
        for (place, fragment) in event.fragments.iter().enumerate().filter(|(_, it)| counts(it.source)) {
            match hits(&fragment.payload) {
                Ok(hits) => self.hits.extend(hits.map(|hit| (place, Moment(hit.time_ps), hit))),
                Err(_) => self.not_hits += 1,
            }
        }
        // The hits of a source are in order: a stable sort merges the sources.
        self.hits.sort_by_key(|(place, at, _)| (*at, *place));
        let range = (self.slices.begin(event.id.0), self.slices.begin(event.id.0.saturating_add(1)));
        let seen_to = range.1 + self.slices.after;
        let is_outside =
            |(_, at, _): &&(usize, Moment, Hit)| *at + self.slices.before < range.0 || *at >= seen_to;
        if let Some((_, at, _)) = [self.hits.first(), self.hits.last()].into_iter().flatten().find(is_outside)
        {
            return Err(other_slices(event.id, *at, range.0, seen_to));
        }
        let (mut clusters, stats) = of_slice(self.config, &self.hits, range, seen_to);
        self.found += stats;
        clusters.retain(|cluster| self.meets(cluster, event));
        self.accepted += clusters.len() as u64;
        Ok(self.windows(&clusters))
    }

    /// Returns whether a cluster of an event meets the conditions.
    fn meets(&self, cluster: &Cluster<Hit>, event: &Event<Bytes>) -> bool {
        let ClusterConditions { min_hits, min_sum, ref groups, min_groups, min_sources_in_group } =
            self.conditions;
        if cluster.items.len() < min_hits {
            return false;
        }
        if min_sum > 0 && cluster.items.iter().map(|(_, _, hit)| u64::from(hit.value)).sum::<u64>() < min_sum
        {
            return false;
        }
        if min_groups == 0 && min_sources_in_group == 0 {
            return true;
        }
        let places: BTreeSet<usize> = cluster.items.iter().map(|(place, ..)| *place).collect();
        let mut sources_of_groups = vec![0_usize; groups.len()];
        for place in places {
            let of_source = event.fragments.get(place).and_then(|fragment| self.groups.get(&fragment.source));
            of_source.into_iter().flatten().for_each(|group| sources_of_groups[*group] += 1);
        }
        let seen = sources_of_groups.iter().filter(|sources| **sources > 0).count();
        let most = sources_of_groups.iter().copied().max().unwrap_or(0);
        seen >= min_groups && most >= min_sources_in_group
    }

    /// Returns the windows of clusters, which are in order of time. Windows that overlap or touch are one.
    fn windows(&self, clusters: &[Cluster<Hit>]) -> Vec<Window> {
        let mut windows: Vec<(Window, BTreeSet<usize>)> = Vec::new();
        for cluster in clusters {
            let (begin, end) =
                (cluster.begin() - self.margins.before, cluster.end() + self.margins.after + Picos(1));
            let sources = cluster.items.iter().map(|(place, ..)| *place);
            let hits = u32::try_from(cluster.items.len()).unwrap_or(u32::MAX);
            match windows.last_mut() {
                Some((last, of_last)) if begin.0 <= last.end_ps => {
                    last.end_ps = last.end_ps.max(end.0);
                    last.hits = last.hits.saturating_add(hits);
                    of_last.extend(sources);
                }
                _ => {
                    let first_ps = cluster.begin().0;
                    let window = Window { begin_ps: begin.0, end_ps: end.0, first_ps, hits, sources: 0 };
                    windows.push((window, sources.collect()));
                }
            }
        }
        let count = |(window, sources): (Window, BTreeSet<usize>)| Window {
            sources: u32::try_from(sources.len()).unwrap_or(u32::MAX),
            ..window
        };
        windows.into_iter().map(count).collect()
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
        let windows = self.find(event)?;
        if windows.is_empty() {
            return Ok(Verdict::reject());
        }
        let stored = windows.len().min(MAX_VERDICT_PAYLOAD_BYTES / WINDOW_BYTES);
        self.windows += windows.len() as u64;
        self.windows_left_out += (windows.len() - stored) as u64;
        let payload: Vec<u8> = windows[..stored].iter().flat_map(|window| window.to_bytes()).collect();
        Ok(Verdict::accept().with_payload(payload))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("clusters", self.found.clusters),
            ("coincidences", self.accepted),
            ("windows", self.windows),
            ("windows_left_out", self.windows_left_out),
            ("clusters_truncated", self.found.truncated),
            ("fragments_without_hits", self.not_hits),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::slice as event;
    use sheaf_time::Rule;
    use sheaf_wire::window::windows;

    const SLICES: SliceConfig = SliceConfig {
        length: Picos(1000),
        before: Picos(20),
        after: Picos(100),
        max_items: 100,
        max_empty: 10,
    };

    #[test]
    fn a_slice_is_wanted_if_a_coincidence_begins_in_it() {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 2, max_items: 100 };
        let mut filter =
            CoincidenceFilter::new(config, SLICES, ClusterConditions::default(), Margins::default());
        assert!(filter.judge(&event(5, &[&[5_100, 5_995], &[5_200, 6_010]])).unwrap().accepted);
        assert!(
            !filter.judge(&event(6, &[&[5_995, 6_500], &[6_010, 6_600]])).unwrap().accepted,
            "that began in the slice before"
        );
        assert!(!filter.judge(&event(7, &[&[], &[]])).unwrap().accepted);
        let counters: Vec<u64> = filter.counters().into_iter().map(|(_, value)| value).collect();
        assert_eq!(counters, [5, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn slices_of_another_length_are_a_failure() {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 2, max_items: 100 };
        let mut filter =
            CoincidenceFilter::new(config, SLICES, ClusterConditions::default(), Margins::default());
        for times in [[4_979, 5_500], [5_500, 6_100]] {
            let failure = filter.judge(&event(5, &[&times, &[5_500]])).unwrap_err().to_string();
            assert!(failure.contains("time slice 5") && failure.contains("`slice_us`"), "{failure}");
        }
        assert!(filter.judge(&event(5, &[&[4_980, 6_099]])).is_ok());
    }

    #[test]
    fn payload_that_holds_no_hits_is_counted() {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 1, max_items: 100 };
        let mut filter =
            CoincidenceFilter::new(config, SLICES, ClusterConditions::default(), Margins::default());
        let mut event = event(5, &[&[5_100]]);
        event.fragments[0].payload = Bytes::from_static(b"seven b");
        assert!(!filter.judge(&event).unwrap().accepted);
        assert!(filter.counters().contains(&("fragments_without_hits", 1)));
    }

    /// Returns the windows of a slice of four sources, each hit with the value 10.
    fn found(conditions: &ClusterConditions, margins: Margins, payloads: &[&[u64]]) -> Vec<Window> {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 1, max_items: 100 };
        let mut filter = CoincidenceFilter::new(config, SLICES, conditions.clone(), margins);
        let mut event = event(5, payloads);
        for fragment in &mut event.fragments {
            let hits = hits(&fragment.payload).unwrap().map(|hit| Hit { value: 10, ..hit }.to_bytes());
            fragment.payload = hits.flatten().collect::<Vec<u8>>().into();
        }
        let verdict = filter.judge(&event).unwrap();
        assert_eq!(verdict.accepted, !verdict.payload.is_empty());
        windows(&verdict.payload).unwrap().collect()
    }

    fn window(begin_ps: u64, end_ps: u64, first_ps: u64, hits: u32, sources: u32) -> Window {
        Window { begin_ps, end_ps, first_ps, hits, sources }
    }

    #[test]
    fn windows_have_their_margins_and_are_one_where_they_overlap() {
        let payloads: &[&[u64]] = &[&[5_100, 5_300, 5_400], &[5_110, 5_330], &[5_900]];
        let none = ClusterConditions::default();
        let exact = found(&none, Margins::default(), payloads);
        let expected = [
            window(5_100, 5_111, 5_100, 2, 2),
            window(5_300, 5_301, 5_300, 1, 1),
            window(5_330, 5_331, 5_330, 1, 1),
            window(5_400, 5_401, 5_400, 1, 1),
            window(5_900, 5_901, 5_900, 1, 1),
        ];
        assert_eq!(exact, expected);
        let wide = found(&none, Margins { before: Picos(30), after: Picos(39) }, payloads);
        let expected = [
            window(5_070, 5_150, 5_100, 2, 2),
            // 5,400 begins 30 earlier, where the window of 5,330 ends.
            window(5_270, 5_440, 5_300, 3, 2),
            window(5_870, 5_940, 5_900, 1, 1),
        ];
        assert_eq!(wide, expected, "they may begin before the slice and end after it");
    }

    #[test]
    fn clusters_meet_conditions_of_hits_sums_and_groups() {
        // Three clusters: sources 0, 1; sources 0, 2, 2; source 3 four times.
        let payloads: &[&[u64]] =
            &[&[5_100, 5_300], &[5_110], &[5_310, 5_311], &[5_500, 5_501, 5_502, 5_503]];
        let first = |conditions: ClusterConditions| -> Vec<u64> {
            found(&conditions, Margins::default(), payloads).iter().map(|window| window.first_ps).collect()
        };
        let default = ClusterConditions::default;
        assert_eq!(first(ClusterConditions { min_hits: 3, ..default() }), [5_300, 5_500]);
        assert_eq!(first(ClusterConditions { min_sum: 31, ..default() }), [5_500]);
        let group = |sources: &[u32]| sources.iter().copied().map(SourceId).collect();
        let groups = vec![group(&[0, 1]), group(&[2, 3]), group(&[0, 2])];
        let with = |min_groups, min_sources_in_group| {
            first(ClusterConditions { groups: groups.clone(), min_groups, min_sources_in_group, ..default() })
        };
        assert_eq!(with(3, 0), [5_300], "0 is in two groups, 2 as well");
        assert_eq!(with(2, 0), [5_100, 5_300]);
        assert_eq!(with(0, 2), [5_100, 5_300], "0 and 1 are neighbours, 0 and 2 as well; 3 is alone");
        assert_eq!(with(1, 3), [0; 0]);
    }
}
