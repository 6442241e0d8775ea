//! Settings of self-triggered front ends that depend on each other.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::{BuildBy, FilterKind, FreeRunning, FrontEnd, HitTimes, SourceKind};
use sheaf_wire::TimeUnit;
use std::collections::BTreeSet;

/// Maximum sum of the overlaps of a time slice, in slice lengths: `sheaf_time::slices::MOST_LENGTHS`.
const MOST_SLICE_LENGTHS: u64 = 16;

impl Checker<'_> {
    /// Settings of time slices.
    pub(super) fn timed(&mut self) {
        let Config { source, .. } = self.config;
        self.build_by();
        if !source.is_timed() {
            return;
        }
        let missing =
            |key: &str| format!("`source.kind` is \"{}\", but `source.timed.{key}` is not set", source.kind);
        if source.kind == SourceKind::Capture && source.timed.file.is_none() {
            let keys = ["source.kind", "source.timed.file"];
            self.fail(
                ErrorKind::Missing,
                &keys,
                missing("file"),
                "write the path of the pcap or pcapng file",
            );
        }
        if source.kind == SourceKind::Packets {
            let keys = ["source.kind", "source.timed.listen"];
            if source.timed.listen.is_none() {
                let right =
                    "write the address that receives the packets, such as `listen = \"0.0.0.0:6006\"`";
                self.fail(ErrorKind::Missing, &keys, missing("listen"), right);
            }
            if source.timed.cards.is_empty() && self.config.node.is_empty() {
                let right = "write the numbers of the cards, such as `cards = [1, 2]`";
                self.fail(
                    ErrorKind::Missing,
                    &["source.kind", "source.timed.cards"],
                    missing("cards"),
                    right,
                );
            }
        }
        if source.timed.times == HitTimes::Fragment && source.kind.is_timed() {
            let keys = ["source.timed.times", "source.build_by"];
            let found = "times of hits count from their fragment, but the hits come in packets".into();
            let right = "remove `times`; times in the header of a packet are `base` in [source.hits]";
            self.fail(ErrorKind::Conflict, &keys, found, right);
        }
        let most = MOST_SLICE_LENGTHS;
        if source.timed.before.0 + source.timed.after.0 > source.timed.slice.0.saturating_mul(most) {
            let keys = ["source.timed.after_us", "source.timed.before_us", "source.timed.slice_us"];
            let found = format!("the overlaps of a time slice together exceed {most} slices");
            self.fail(ErrorKind::Conflict, &keys, found, "make the slices longer or the overlaps shorter");
        }
    }

    /// Ids of sources.
    pub(super) fn source_ids(&mut self) {
        let Config { source, node, .. } = self.config;
        if source.ids.is_empty() {
            return;
        }
        let mut fail = |key: &'static str, found: String, right: &str| {
            self.fail(ErrorKind::Conflict, &["source.ids", key], found, right);
        };
        if !source.kind.is_numbered() {
            let found = format!(
                "`source.ids` is set, but sources of the kind \"{}\" have ids of their own",
                source.kind
            );
            fail(
                "source.kind",
                found,
                "remove it; a replay has `source.replay.expected`, and cards are in `source.timed.cards`",
            );
        } else if let Some(count) = source.count
            && u64::from(count) != source.ids.len() as u64
        {
            let found =
                format!("`source.count` is {count}, but `source.ids` has {} sources", source.ids.len());
            fail("source.count", found, "remove the count, or make the two agree");
        }
        let listed: BTreeSet<_> = node.iter().filter_map(|node| node.sources.as_ref()).flatten().collect();
        if !listed.is_empty() && listed != source.ids.iter().collect() {
            let found = "`source.ids` has other sources than the readout units list".to_owned();
            self.fail(ErrorKind::Conflict, &["source.ids"], found, "remove the ids, or make the two agree");
        }
    }

    /// Unit and epoch of times.
    pub(super) fn time_base(&mut self) {
        let source = &self.config.source;
        let kind = source.kind;
        let is_set =
            [("source.time_unit", source.time_unit.is_some()), ("source.epoch", source.epoch.is_some())];
        let has_other_times = kind == SourceKind::Emulated || (kind.is_timed() && !source.is_windowed());
        for (key, _) in is_set.into_iter().filter(|(_, is_set)| *is_set && has_other_times) {
            let found = format!(
                "`{key}` is set, but `source.kind` is \"{kind}\", whose times have their own meaning"
            );
            let right = "remove it: it is for programs, described streams and replays";
            self.fail(ErrorKind::Conflict, &[key, "source.kind"], found, right);
        }
        if has_other_times || source.time_unit.is_none_or(|unit| unit == TimeUnit::NANOSECOND) {
            return;
        }
        if kind == SourceKind::Stream && source.stream.time.is_none() {
            let found = "`source.time_unit` is set, but `source.stream.time` is not: times of arrival are nanoseconds".into();
            let right = "write where the time is, such as `time = \"u64 at 8\"`, or remove the unit";
            self.fail(ErrorKind::Missing, &["source.time_unit", "source.stream.time"], found, right);
        }
    }

    /// Whether fragments are built by number or by time.
    fn build_by(&mut self) {
        let Config { source, .. } = self.config;
        let (kind, by_time) = (source.kind, source.build_by != BuildBy::Number);
        let key = "source.build_by";
        if kind.is_timed() && !by_time {
            let found = format!("`{key}` is \"number\", but packets of hits have no event numbers");
            self.fail(ErrorKind::Conflict, &[key, "source.kind"], found, "remove it");
        }
        if let Some(frames) = self.origins.first_of("source.free_running").map(str::to_owned)
            && !source.emulates_hits()
            && source.free_running != FreeRunning::default()
        {
            let found = format!(
                "`{frames}` is set, but the sources are not emulated front ends without event numbers"
            );
            let right = "write `kind = \"emulated\"` and `build_by = \"time\"` in [source], or remove [source.free_running]";
            self.fail(ErrorKind::Conflict, &[&frames, key, "source.kind"], found, right);
        }
        if !by_time || kind.is_timed() {
            return;
        }
        if kind == SourceKind::Stream {
            let found = format!("`{key}` is \"{}\", but `source.kind` is \"{kind}\"", source.build_by);
            let right = "packets that hold hits have the kind `packets`; replayed, fed, polled and emulated fragments can be built by time";
            self.fail(ErrorKind::Conflict, &[key, "source.kind"], found, right);
            return;
        }
        if !self.origins.is_in_file("source.timed.front_end") {
            let found =
                format!("`{key}` is \"{}\", but `source.timed.front_end` is not set", source.build_by);
            let right = "write how fragments hold their hits, such as `front_end = \"described\"`, and describe them in [source.hits]";
            self.fail(ErrorKind::Missing, &[key, "source.timed.front_end"], found, right);
        }
        if kind == SourceKind::Emulated
            && !matches!(source.timed.front_end, FrontEnd::Described | FrontEnd::Hits)
            && self.origins.is_in_file("source.timed.front_end")
        {
            let found = format!("front ends of the kind \"{}\" are not emulated", source.timed.front_end);
            let right = "describe the frames (`front_end = \"described\"` and [source.hits]), or take hits of Sheaf (`\"hits\"`)";
            self.fail(ErrorKind::Conflict, &["source.timed.front_end", "source.kind"], found, right);
        }
        if kind == SourceKind::Replay && source.replay.loop_count != Some(1) {
            let keys = [key, "source.replay.loop_count"];
            let found = "a replay that is built by time plays its streams once".into();
            self.fail(ErrorKind::Conflict, &keys, found, "remove `loop_count`");
        }
        if source.timed.front_end == FrontEnd::Hits && source.timed.times == HitTimes::Fragment {
            let keys = ["source.timed.times", "source.timed.front_end"];
            let found = "hits of Sheaf have times since time 0 of the run, not since their fragment".into();
            self.fail(ErrorKind::Conflict, &keys, found, "remove `times`");
        }
    }

    /// Groups of sources.
    pub(super) fn groups(&mut self) {
        let Config { filter, groups, .. } = self.config;
        let count = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let most = groups.values().map(|group| group.sources.len()).max().unwrap_or(0);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        for (key, least, there, what) in [
            ("filter.min_groups", filter.min_groups, count, "groups"),
            (
                "filter.min_sources_in_group",
                filter.min_sources_in_group,
                most,
                "sources in the largest group",
            ),
        ] {
            if filter.kind == FilterKind::Coincidence && least > there {
                let found = format!("`{key}` is {least}, but there are {there} {what}");
                let right = "write the groups, such as `[groups.line-1]` with `sources = [\"1-18\"]`";
                self.fail(ErrorKind::Conflict, &[key], found, right);
            }
        }
    }

    /// Decoders in libraries.
    pub(super) fn hit_decoder(&mut self) {
        let Config { source, node, .. } = self.config;
        let (front_end, in_packets) = (source.timed.front_end, source.kind.is_timed());
        let right = match front_end {
            FrontEnd::Library => "write the path of the library, such as `path = \"libdecoder.so\"`",
            FrontEnd::Python => "write the path of the file, such as `path = \"decoder.py\"`",
            _ => return,
        };
        if !source.is_timed() {
            return;
        }
        if front_end == FrontEnd::Python && in_packets {
            let found = format!(
                "a function in Python cannot decode the packets of `source.kind = \"{}\"`",
                source.kind
            );
            let right = "describe the packets (`front_end = \"described\"`), write the decoder in C or Rust, or receive them in a program \
                         that feeds the run (`source.kind = \"feed\"`)";
            self.fail(ErrorKind::Conflict, &["source.timed.front_end", "source.kind"], found, right);
        }
        let path = ("source.decoder.path", source.decoder.path.is_none(), right);
        self.need(
            ("source.timed.front_end", if front_end == FrontEnd::Python { "python" } else { "library" }),
            [path],
        );
        if in_packets && source.hits.card.is_none() && (source.timed.cards.len() > 1 || !node.is_empty()) {
            let found = "there are several cards, but `source.hits.card` is not set".into();
            let right = "write where the number of the card is in a packet, such as `card = \"u8 at 4\"`";
            self.fail(ErrorKind::Missing, &["source.timed.cards", "source.hits.card"], found, right);
        }
    }

    /// Packets of hits that are described.
    pub(super) fn hits(&mut self) {
        let Config { source, node, .. } = self.config;
        if !source.is_timed() || source.timed.front_end != FrontEnd::Described {
            return;
        }
        let hits = &source.hits;
        let needed = [
            (
                "source.hits.record_bytes",
                hits.record.is_none(),
                "write the bytes of a record, such as `record_bytes = 12`",
            ),
            (
                "source.hits.time",
                hits.time.is_none(),
                "write where the time is, such as `time = \"u64le at 0\"`",
            ),
        ];
        self.need(("source.timed.front_end", "described"), needed);
        let kinds = [
            ("source.hits.hit_kinds", &hits.hit_kinds),
            ("source.hits.marker_kinds", &hits.marker_kinds),
            ("source.hits.pulse_kinds", &hits.pulse_kinds),
            ("source.hits.reset_kinds", &hits.reset_kinds),
        ];
        for (key, kinds) in kinds {
            if !kinds.is_empty() && hits.kind.is_none() {
                let found = format!("`{key}` is set, but `source.hits.kind` is not");
                let right = "write where the kind of a record is, such as `kind = \"u8 at 0 >> 6\"`";
                self.fail(ErrorKind::Missing, &[key, "source.hits.kind"], found, right);
            }
        }
        let in_packets = source.kind.is_timed();
        if in_packets && hits.card.is_none() && (source.timed.cards.len() > 1 || !node.is_empty()) {
            let found = "there are several cards, but `source.hits.card` is not set".into();
            let right = "write where the number of the card is, such as `card = \"u8 at 4\"`";
            self.fail(ErrorKind::Missing, &["source.timed.cards", "source.hits.card"], found, right);
        }
    }
}
