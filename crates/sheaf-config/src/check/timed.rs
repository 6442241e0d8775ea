//! Settings of self-triggered front ends that depend on each other.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::{FrontEnd, SourceKind};
use sheaf_wire::TimeUnit;
use std::collections::BTreeSet;

/// Maximum sum of the overlaps of a time slice, in slice lengths: `sheaf_time::slices::MOST_LENGTHS`.
const MOST_SLICE_LENGTHS: u64 = 16;

impl Checker<'_> {
    /// Settings of time slices.
    pub(super) fn timed(&mut self) {
        let Config { source, .. } = self.config;
        if !source.kind.is_timed() {
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
        let has_other_times = kind == SourceKind::Emulated || kind.is_timed();
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

    /// Packets of hits that are described.
    pub(super) fn hits(&mut self) {
        let Config { source, node, .. } = self.config;
        if !source.kind.is_timed() || source.timed.front_end != FrontEnd::Described {
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
        let kinds =
            [("source.hits.hit_kinds", &hits.hit_kinds), ("source.hits.marker_kinds", &hits.marker_kinds)];
        for (key, kinds) in kinds {
            if !kinds.is_empty() && hits.kind.is_none() {
                let found = format!("`{key}` is set, but `source.hits.kind` is not");
                let right = "write where the kind of a record is, such as `kind = \"u8 at 0 >> 6\"`";
                self.fail(ErrorKind::Missing, &[key, "source.hits.kind"], found, right);
            }
        }
        if hits.card.is_none() && (source.timed.cards.len() > 1 || !node.is_empty()) {
            let found = "there are several cards, but `source.hits.card` is not set".into();
            let right = "write where the number of the card is, such as `card = \"u8 at 4\"`";
            self.fail(ErrorKind::Missing, &["source.timed.cards", "source.hits.card"], found, right);
        }
    }
}
