//! Checks across several knobs: values that need each other, times in the right order, bounds that are large enough.
//!
//! Each check names the keys that it reads. A check is skipped if one of its keys was already refused: the result would
//! depend on a value that is not in the file.

mod memory;
mod mirrors;
mod pulses;
mod standby;
mod supervisor;
mod timed;
mod windows;

use crate::error::{ConfigError, ErrorKind};
use crate::knob::Section;
use crate::origins::Origins;
use crate::settings::{
    FilterKind, IncompletePolicy, Pacing, PacketProtocol, ShapingPolicy, SizeModel, SourceKind,
    TransportKind, TriggerMode, TriggerProtocol,
};
use crate::text::shorten;
use crate::{Config, Purpose};
use sheaf_wire::{ByteCount, Nanos};

/// Collects the problems of a configuration.
pub(crate) struct Checker<'a> {
    pub(crate) config: &'a Config,
    pub(crate) origins: &'a Origins<'a>,
    pub(crate) errors: Vec<ConfigError>,
}

/// All that is wrong with the values of a configuration.
pub(crate) fn check(config: &Config, origins: &Origins<'_>, purpose: Purpose<'_>) -> Vec<ConfigError> {
    let mut checker = Checker { config, origins, errors: Vec::new() };
    checker.ranges();
    // A value out of its limits makes the comparisons below meaningless.
    if checker.errors.is_empty() {
        checker.trigger();
        checker.fragment_sizes();
        checker.source_kind();
        checker.replay();
        checker.timed();
        checker.windows();
        checker.hits();
        checker.pulses();
        checker.source_ids();
        checker.time_base();
        checker.hit_decoder();
        checker.groups();
        checker.shared_socket();
        checker.described();
        checker.programs();
        checker.library();
        checker.runs();
        checker.filter();
        checker.farm();
        checker.timeouts();
        checker.tls();
        checker.remote_page();
        checker.memory();
        checker.shaping();
        checker.streams();
        checker.uploads();
        checker.formats();
        checker.building();
        checker.preprocessing();
        checker.clocks();
        checker.tags();
        checker.check_fields();
        checker.hooks();
        checker.values();
        checker.agents();
        checker.standby();
        checker.mirrors();
        checker.nodes(purpose);
        if checker.errors.is_empty() {
            checker.partitions();
        }
    }
    checker.errors
}

impl Checker<'_> {
    /// Reports a problem with `keys`, the first of which is what it is about, unless one of them is wrong in itself.
    pub(crate) fn fail(&mut self, kind: ErrorKind, keys: &[&str], found: String, right: impl Into<String>) {
        if keys.iter().any(|key| self.origins.is_broken(key)) {
            return;
        }
        self.errors.push(ConfigError {
            kind,
            key: keys.first().copied().unwrap_or_default().to_owned(),
            found,
            right: right.into(),
            origin: self.origins.find(keys),
        });
    }

    /// "`readout.count` is 4": a knob and its value as the file has it.
    fn shown(&self, key: &str) -> String {
        match self.written(key) {
            Some(value) => format!("`{key}` is {}", shorten(&value)),
            None => format!("`{key}` is not set"),
        }
    }

    fn written(&self, key: &str) -> Option<String> {
        let (section, knob) = self.config.knob(key)?;
        section.write(knob.key)
    }

    /// Every value within its limits. The values of a file are already; those of a program may not be.
    fn ranges(&mut self) {
        for section in self.config.sections() {
            self.section_ranges(section, section.path());
        }
        for (kind, name, table) in self.config.named_tables() {
            self.section_ranges(table, &format!("{kind}.{name}"));
        }
        for (index, node) in self.config.node.iter().enumerate() {
            self.section_ranges(node, &format!("node[{index}]"));
        }
    }

    fn section_ranges(&mut self, section: &dyn Section, path: &str) {
        for knob in section.knobs().iter().filter(|knob| !section.accepts(knob.key)) {
            let key = format!("{path}.{}", knob.key);
            let value = section.write(knob.key).unwrap_or_default();
            let found = format!("`{key}` is {}", shorten(&value));
            self.fail(ErrorKind::BadValue, &[&key], found, format!("it must be {}", (knob.expected)()));
        }
    }

    fn trigger(&mut self) {
        let trigger = &self.config.trigger;
        let mode = trigger.mode;
        if matches!(mode, TriggerMode::Fixed | TriggerMode::Poisson) && trigger.rate_hz.is_none() {
            let found = format!("`trigger.mode` is \"{mode}\", but `trigger.rate_hz` is not set");
            self.fail(
                ErrorKind::Missing,
                &["trigger.mode", "trigger.rate_hz"],
                found,
                "write the rate, such as `rate_hz = 1000.0`",
            );
        }
        if !matches!(mode, TriggerMode::Fixed | TriggerMode::Poisson)
            && let Some(rate) = trigger.rate_hz
        {
            self.fail(
                ErrorKind::Conflict,
                &["trigger.rate_hz", "trigger.mode"],
                format!("`trigger.rate_hz` is {rate:?}, but `trigger.mode` \"{mode}\" has no rate"),
                "write `mode = \"fixed\"` or `mode = \"poisson\"`, or remove `rate_hz`",
            );
        }
        if mode == TriggerMode::Source && trigger.source.is_none() {
            self.fail(
                ErrorKind::Missing,
                &["trigger.mode", "trigger.source"],
                "`trigger.mode` is \"source\", but `trigger.source` is not set".into(),
                "write the id of the reference source, such as `source = 0`",
            );
        }
        self.trigger_command();
        self.trigger_library();
        if mode.has_supervisor() {
            self.trigger_network();
        } else if let Some(source) = trigger.network.payload_source {
            self.fail(
                ErrorKind::Conflict,
                &["trigger.network.payload_source", "trigger.mode"],
                format!("source {source} has the payloads of triggers, but `trigger.mode` is \"{mode}\""),
                "write `mode = \"network\"`, or remove `payload_source`",
            );
        }
        let kind = self.config.source.kind;
        let ids_are_in_the_data = self.config.source.has_own_ids();
        let has_supervisor = mode.has_supervisor() && kind.is_fed();
        if ids_are_in_the_data && !has_supervisor && !matches!(mode, TriggerMode::Source | TriggerMode::Seen)
        {
            self.fail(
                ErrorKind::Conflict,
                &["trigger.mode", "source.kind"],
                format!("`trigger.mode` is \"{mode}\", but the data has its own event ids"),
                format!("with `source.kind = \"{kind}\"` the mode is \"seen\" or \"source\""),
            );
        }
    }

    fn fragment_sizes(&mut self) {
        let emulated = &self.config.source.emulated;
        if !self.config.source.emulates_events() {
            return;
        }
        let mean = "source.emulated.mean_bytes";
        let minimum = "source.emulated.minimum_bytes";
        let maximum = "source.emulated.maximum_bytes";
        if emulated.minimum > emulated.mean {
            let found = format!("{}, more than the mean, {}", self.shown(minimum), emulated.mean.0);
            self.fail(ErrorKind::Conflict, &[minimum, mean], found, "the minimum must not exceed the mean");
        }
        if emulated.maximum.is_some_and(|maximum| maximum < emulated.mean) {
            let found = format!("{}, less than the mean, {}", self.shown(maximum), emulated.mean.0);
            self.fail(
                ErrorKind::Conflict,
                &[maximum, mean],
                found,
                "the maximum must be 0 or at least the mean",
            );
        }
        if emulated.size == SizeModel::LogNormal && emulated.mean == ByteCount::ZERO {
            self.fail(
                ErrorKind::Conflict,
                &[mean, "source.emulated.size"],
                format!("`{mean}` is 0, which cannot be the mean of a log-normal distribution"),
                "with `size = \"lognormal\"` the mean must be at least 1; for empty fragments use `size = \"fixed\"`",
            );
        }
    }

    /// Rejects tables of other sources in a file that selects no kind: its run would be of emulated sources.
    fn source_kind(&mut self) {
        let is_selected = self.origins.is_in_file("source.kind");
        if is_selected || self.config.source.kind != SourceKind::Emulated {
            return;
        }
        // [source.feed] and [source.command] also apply to triggers.
        let tables = [
            ("source.replay", "replay"),
            ("source.library", "library"),
            ("source.stream", "stream"),
            ("source.timed", "packets"),
        ];
        for (table, kind) in tables {
            if let Some(key) = self.origins.first_of(table).map(str::to_owned) {
                let found =
                    format!("`{key}` is set, but `source.kind` is not: the sources would be emulated");
                let right = format!("add `kind = \"{kind}\"` to [source], or remove [{table}]");
                self.fail(ErrorKind::Missing, &[&key, "source.kind"], found, right);
            }
        }
    }

    fn replay(&mut self) {
        let replay = &self.config.source.replay;
        if self.config.source.kind != SourceKind::Replay {
            return;
        }
        if replay.directory.is_none() {
            self.fail(
                ErrorKind::Missing,
                &["source.kind", "source.replay.directory"],
                "`source.kind` is \"replay\", but `source.replay.directory` is not set".into(),
                "set it in [source.replay], or use --replay DIR",
            );
        }
        if replay.pacing == Pacing::Fixed && replay.rate_hz.is_none() {
            self.fail(
                ErrorKind::Missing,
                &["source.replay.pacing", "source.replay.rate_hz"],
                "`source.replay.pacing` is \"fixed\", but `source.replay.rate_hz` is not set".into(),
                "write the rate, such as `rate_hz = 1000.0`",
            );
        }
    }

    /// Rejects consecutive runs with code that a process cannot load anew: a library stays loaded once it was loaded
    /// from a path.
    fn runs(&mut self) {
        let run = &self.config.run;
        if run.runs != Some(1) && !run.copy_code {
            self.fail(
                ErrorKind::Conflict,
                &["run.runs", "run.copy_code"],
                "`run.copy_code` is false, but there may be several runs".into(),
                "set `run.copy_code = true`: the filter of one run could stay loaded in the next",
            );
        }
    }

    fn filter(&mut self) {
        let filter = &self.config.filter;
        let right = match filter.kind {
            FilterKind::Library => "write the path of the library, such as `path = \"./libmy_filter.so\"`",
            FilterKind::Python => "write the path of the file, such as `path = \"./my_filter.py\"`",
            _ => return,
        };
        if filter.path.is_none() {
            let found = format!("`filter.kind` is \"{}\", but `filter.path` is not set", filter.kind);
            self.fail(ErrorKind::Missing, &["filter.kind", "filter.path"], found, right);
        }
        if filter.kind == FilterKind::Python && !filter.has_door() && filter.listen.is_none() {
            self.fail(
                ErrorKind::Conflict,
                &["filter.kind", "filter.processes", "filter.workers", "filter.door"],
                "`filter.kind` is \"python\", but there are no worker processes".into(),
                "write `processes = true` and their number, such as `workers = 2`; for processors that join by themselves write `door = true`, or `listen = \"0.0.0.0:7100\"` for those of other hosts",
            );
        }
    }

    fn farm(&mut self) {
        let filter = &self.config.filter;
        if filter.processes && filter.workers == Some(0) {
            self.fail(
                ErrorKind::Conflict,
                &["filter.processes", "filter.workers"],
                "`filter.processes` is true, but `filter.workers` is 0".into(),
                "write their number, such as `workers = 4`; for processors that join by themselves write `door = true`",
            );
        }
    }

    /// One socket for all packets of a host.
    fn shared_socket(&mut self) {
        let Config { source, readout, node, .. } = self.config;
        if source.kind.shares_socket() && node.is_empty() && readout.count > 1 {
            let found = format!("{} readout units of one host cannot share a socket", readout.count);
            let right = "one readout unit reads all sources that send to an address";
            self.fail(ErrorKind::Conflict, &["readout.count", "source.kind"], found, right);
        }
    }

    fn described(&mut self) {
        let stream = &self.config.source.stream;
        if self.config.source.kind != SourceKind::Stream {
            return;
        }
        let needed = [
            (
                "source.stream.listen",
                stream.listen.is_none() && stream.connect.is_empty(),
                "write the address that receives the packets, such as `listen = \"0.0.0.0:6006\"`",
            ),
            (
                "source.stream.event",
                stream.event.is_none(),
                "write where the event number is, such as `event = \"u32 at 0\"`",
            ),
        ];
        self.need(("source.kind", "stream"), needed);
        if self.config.numbered_sources().len() > 1 && stream.source.is_none() && self.config.node.is_empty()
        {
            let found = "there are several sources, but `source.stream.source` is not set".into();
            let right =
                "write where the source id is, such as `source = \"u8 at 4\"`, or set `source.count = 1`";
            self.fail(ErrorKind::Missing, &["source.count", "source.stream.source"], found, right);
        }
        self.described_stream();
        if stream.several && stream.length.is_none() {
            let found = "`source.stream.several` is true, but `source.stream.length` is not set".into();
            let right = "write where the length is, such as `length = \"u16 at 4\"`: it tells where the next fragment begins";
            self.fail(ErrorKind::Missing, &["source.stream.several", "source.stream.length"], found, right);
        }
        if stream.part.is_some() && stream.last.is_none() {
            let found = "`source.stream.part` is set, but `source.stream.last` is not".into();
            let right = "write what marks the last part, such as `last = \"u8 at 6 & 0x80\"`";
            self.fail(ErrorKind::Missing, &["source.stream.part", "source.stream.last"], found, right);
        }
    }

    /// Reports the keys that are missing although a key has a value that needs them, each with an example.
    fn need<const N: usize>(&mut self, (by, value): (&str, &str), needed: [(&str, bool, &str); N]) {
        for (key, _, right) in needed.into_iter().filter(|(_, is_missing, _)| *is_missing) {
            let found = format!("`{by}` is \"{value}\", but `{key}` is not set");
            self.fail(ErrorKind::Missing, &[by, key], found, right);
        }
    }

    /// Settings of described packets over TCP.
    fn described_stream(&mut self) {
        let stream = &self.config.source.stream;
        let is_tcp = stream.protocol == PacketProtocol::Tcp;
        if !stream.connect.is_empty() && stream.listen.is_some() {
            let found = "`source.stream.listen` and `source.stream.connect` are both set".into();
            let right = "choose whether front ends connect to the run, or the run to them";
            let keys = ["source.stream.connect", "source.stream.listen"];
            self.fail(ErrorKind::Conflict, &keys, found, right);
        }
        if !is_tcp && !stream.connect.is_empty() {
            let found = "`source.stream.connect` is set, but packets come over UDP".into();
            let right = "write `protocol = \"tcp\"`";
            let keys = ["source.stream.connect", "source.stream.protocol"];
            self.fail(ErrorKind::Conflict, &keys, found, right);
        }
        if is_tcp && stream.packet_length.is_none() && (stream.length.is_none() || stream.several) {
            let found = "packets come over TCP, but nothing tells where they end".into();
            let right = "write where the length of the packet is, such as `packet_length = \"u16 at 2\"`; `length` is enough if a packet has one fragment";
            let keys = ["source.stream.protocol", "source.stream.packet_length"];
            self.fail(ErrorKind::Missing, &keys, found, right);
        }
        if stream.end_on_close && stream.listen.is_some() && stream.connections == 0 {
            let found =
                "`source.stream.end_on_close` is true, but `source.stream.connections` is not set".into();
            let right = "write how many front ends connect, such as `connections = 1`";
            let keys = ["source.stream.end_on_close", "source.stream.connections"];
            self.fail(ErrorKind::Missing, &keys, found, right);
        }
    }

    /// Reports that the time `shorter` is not below the time `longer`.
    pub(crate) fn in_order(&mut self, shorter: (&str, Nanos), longer: (&str, Nanos), why: &str) {
        if shorter.1 < longer.1 {
            return;
        }
        let longer_value = self.written(longer.0).unwrap_or_default();
        let found = format!("{}, and `{}` is {longer_value}", self.shown(shorter.0), longer.0);
        let right = format!("`{}` must be less than `{}`: {why}", shorter.0, longer.0);
        self.fail(ErrorKind::Conflict, &[shorter.0, longer.0], found, right);
    }

    /// Returns whether programs or devices of other hosts connect at a port that uses TLS, whatever the transport of the nodes.
    fn has_port_with_tls(&self) -> bool {
        let Config { filter, source, trigger, .. } = &self.config;
        let has_triggers = trigger.mode.has_supervisor() && trigger.network.protocol == TriggerProtocol::Tcp;
        filter.listen.is_some() || source.feed.listen.is_some() || has_triggers
    }

    fn tls(&mut self) {
        let tls = &self.config.transport.tls;
        let files = [
            ("transport.tls.certificate", tls.certificate.is_some()),
            ("transport.tls.key", tls.key.is_some()),
            ("transport.tls.authority", tls.authority.is_some()),
        ];
        let right = "TLS needs all three: the node's certificate, its key, and the authority; set none of them for no TLS";
        self.all_or_none(&files, right);
        let kind = self.config.transport.kind;
        if tls.files().is_some() && !kind.uses_tcp() && !self.has_port_with_tls() {
            let found = format!("`transport.tls.certificate` is set, but `transport.kind` is \"{kind}\"");
            let right = "TLS works with `tcp` and `mixed`, and for `filter.listen`, `source.feed.listen` and triggers over TCP; remove `transport.tls` for other kinds";
            self.fail(ErrorKind::Conflict, &["transport.tls.certificate", "transport.kind"], found, right);
        }
    }

    fn remote_page(&mut self) {
        let remote = &self.config.monitor.remote;
        let parts = [
            ("monitor.remote.listen", remote.listen.is_some()),
            ("monitor.remote.certificate", remote.certificate.is_some()),
            ("monitor.remote.key", remote.key.is_some()),
        ];
        self.all_or_none(&parts, "a page for other hosts needs all three; set none of them for no such page");
    }

    /// Reports knobs that are set while others are not that they need.
    fn all_or_none(&mut self, knobs: &[(&str, bool)], right: &str) {
        let first = |wanted| knobs.iter().find(|(_, is_set)| *is_set == wanted);
        if let (Some((given, _)), Some((missing, _))) = (first(true), first(false)) {
            let found = format!("`{given}` is set, but `{missing}` is not");
            self.fail(ErrorKind::Conflict, &[given, missing], found, right);
        }
    }

    fn timeouts(&mut self) {
        let Config { readout, builder, manager, protocol, incomplete, .. } = self.config;
        let merge = ("readout.merge_timeout_ms", readout.merge_timeout);
        let event = ("builder.event_timeout_ms", builder.event_timeout);
        let retry = ("builder.request_retry_ms", builder.request_retry);
        let heartbeat = ("protocol.heartbeat_ms", protocol.heartbeat);
        let retransmit = ("protocol.retransmit_ms", protocol.retransmit);
        let acknowledge = ("protocol.acknowledge_ms", protocol.acknowledge);
        let peer = ("manager.peer_timeout_ms", manager.peer_timeout);
        let silence = ("manager.silence_timeout_ms", manager.silence_timeout);
        let why = "a connected node must be given more time than a disconnected one";
        self.in_order(peer, silence, why);
        if incomplete.policy != IncompletePolicy::Wait {
            let why =
                "a readout unit must give up a silent source before its builder unit gives up the event";
            self.in_order(merge, event, why);
            let why = "a lost request must be repeated before the builder unit gives up the event";
            self.in_order(retry, event, why);
            if let Some(orphan) = readout.orphan_timeout.filter(|_| self.config.has_orphans()) {
                let why = "fragments must be kept longer than the wait for others of their event";
                self.in_order(merge, ("readout.orphan_timeout_ms", orphan), why);
            }
        }
        if let Some(duration) = self.config.run.duration.filter(|_| self.config.run.warm_up > Nanos::ZERO) {
            let warm_up = ("run.warm_up_ms", self.config.run.warm_up);
            self.in_order(warm_up, ("run.duration_s", duration), "nothing would be left to measure");
        }
        self.in_order(heartbeat, peer, "a live node must be heard before it is given up");
        self.in_order(retransmit, peer, "a lost message must be repeated before its peer is given up");
        let Config { transport, .. } = self.config;
        if transport.retry_min > transport.retry_max {
            let longest = ("transport.retry_max_ms", transport.retry_max);
            self.in_order(
                ("transport.retry_min_ms", transport.retry_min),
                longest,
                "the pause doubles up to this limit",
            );
        }
        self.in_order(acknowledge, retransmit, "otherwise every message is sent twice");
    }

    fn shaping(&mut self) {
        let Config { shaping, protocol, transport, .. } = self.config;
        if shaping.synchronised && shaping.policy != ShapingPolicy::Barrel {
            self.fail(
                ErrorKind::Conflict,
                &["shaping.synchronised", "shaping.policy"],
                format!("`shaping.synchronised` is true, but `shaping.policy` is \"{}\"", shaping.policy),
                "only time slots can be synchronised: write `policy = \"barrel\"`, or remove `synchronised`",
            );
        }
        if shaping.policy != ShapingPolicy::Barrel {
            return;
        }
        if shaping.synchronised && shaping.line_rate.is_none() {
            self.fail(
                ErrorKind::Missing,
                &["shaping.synchronised", "shaping.line_rate_bits"],
                "`shaping.synchronised` is true, but `shaping.line_rate_bits` is not set".into(),
                "the length of slots follows from the line rate; set it, such as `line_rate_bits = 1_000_000_000`",
            );
        }
        if !transport.kind.sends_datagrams() {
            let (messages, what) = match shaping.synchronised {
                true => (
                    2,
                    "two messages of `protocol.message_bytes`, of which one must fit a slot for which it is late",
                ),
                false => (1, "a message of `protocol.message_bytes`, which goes in one slot"),
            };
            let key = &["protocol.message_bytes", "shaping.policy", "transport.kind"];
            self.holds("shaping.block_bytes", shaping.block, messages * protocol.message.0, what, key);
        }
    }

    /// A transport that reaches nodes in other processes.
    pub(crate) fn reaches_other_processes(&mut self) {
        if self.config.transport.kind == TransportKind::Memory {
            self.fail(
                ErrorKind::Conflict,
                &["transport.kind"],
                "`transport.kind` is \"memory\", which works only within one process".into(),
                "nodes started one by one need `kind = \"tcp\"`, `\"udp\"`, `\"ethernet\"`, `\"shm\"` on one host, `\"mixed\"` or `\"libfabric\"`",
            );
        }
    }
}
