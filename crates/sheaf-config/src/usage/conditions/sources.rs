//! Conditions of triggers and sources.

use super::{WINDOWED, WINDOWS_REMEDY, finds_coincidences, follows_data, has_tls, is_decoded, when};
use crate::settings::{
    FramePacing, FrontEnd, HitTimes, Pacing, PacketProtocol, SizeModel, SourceKind, TriggerMode,
    TriggerProtocol,
};
use crate::usage::Condition;
use crate::usage::When::All;

const SUPERVISED: &str = "write `mode = \"network\"`, `\"command\"` or `\"library\"` in [trigger]";

pub(super) const TRIGGERS: &[Condition] = &[
    when(
        "trigger",
        &["rate_hz"],
        (&["trigger.mode"], All(|it| matches!(it.trigger.mode, TriggerMode::Fixed | TriggerMode::Poisson))),
        "write `mode = \"fixed\"` or `mode = \"poisson\"`",
    ),
    when(
        "trigger",
        &["source"],
        (&["trigger.mode"], All(|it| it.trigger.mode == TriggerMode::Source)),
        "write `mode = \"source\"`",
    ),
    when(
        "trigger",
        &["seed"],
        (
            &["trigger.mode", "triggers"],
            All(|it| it.trigger.mode == TriggerMode::Poisson || !it.triggers.is_empty()),
        ),
        "write `mode = \"poisson\"`, or a table [triggers.NAME] for each type of trigger",
    ),
    when(
        "trigger",
        &["first_event"],
        (
            &["trigger.mode", "source.kind"],
            All(|it| !follows_data(it) || it.source.kind == SourceKind::Emulated),
        ),
        "write a mode in which the event manager numbers the events, such as `mode = \"fixed\"`",
    ),
    when("trigger.network", &[], (&["trigger.mode"], All(|it| it.trigger.mode.has_supervisor())), SUPERVISED),
    when(
        "trigger.network",
        &["listen", "protocol", "guest_names", "silence_ms"],
        (&["trigger.mode"], All(|it| it.trigger.mode != TriggerMode::Library)),
        "write `mode = \"network\"` or `mode = \"command\"` in [trigger]",
    ),
    when(
        "trigger.network",
        &["guest_names"],
        (
            &["trigger.network.protocol", "transport.tls.certificate"],
            All(|it| it.trigger.network.protocol == TriggerProtocol::Tcp && has_tls(it)),
        ),
        "set the files of [transport.tls], and `protocol = \"tcp\"`",
    ),
    when(
        "trigger.network",
        &["silence_ms"],
        (&["trigger.network.protocol"], All(|it| it.trigger.network.protocol == TriggerProtocol::Udp)),
        "write `protocol = \"udp\"`",
    ),
    when(
        "trigger.network",
        &["payload_maximum_bytes"],
        (&["trigger.network.payload_source"], All(|it| it.trigger.network.payload_source.is_some())),
        "set `payload_source`",
    ),
    when(
        "trigger.command",
        &[],
        (&["trigger.mode"], All(|it| it.trigger.mode == TriggerMode::Command)),
        "write `mode = \"command\"` in [trigger]",
    ),
    when(
        "trigger.library",
        &[],
        (&["trigger.mode"], All(|it| it.trigger.mode == TriggerMode::Library)),
        "write `mode = \"library\"` in [trigger]",
    ),
    when(
        "triggers.NAME",
        &["weight"],
        (&["trigger.mode"], All(|it| !it.trigger.mode.has_supervisor())),
        "let the supervisor give triggers of this type more often",
    ),
    when("triggers.NAME", &["before_us", "after_us"], WINDOWED, WINDOWS_REMEDY),
];

pub(super) const SOURCES: &[Condition] = &[
    when(
        "source",
        &["count", "ids"],
        (&["source.kind"], All(|it| it.source.kind.is_numbered())),
        "choose the sources in the table of this kind of source",
    ),
    when(
        "source.replay",
        &[],
        (&["source.kind"], All(|it| it.source.kind == SourceKind::Replay)),
        "write `kind = \"replay\"` in [source], or use --replay DIR",
    ),
    when(
        "source.replay",
        &["rate_hz"],
        (&["source.replay.pacing"], All(|it| it.source.replay.pacing == Pacing::Fixed)),
        "write `pacing = \"fixed\"`",
    ),
    when(
        "source.replay",
        &["speed"],
        (&["source.replay.pacing"], All(|it| it.source.replay.pacing == Pacing::Recorded)),
        "write `pacing = \"recorded\"`",
    ),
    when(
        "source.feed",
        &[],
        (&["source.kind"], All(|it| it.source.is_fed() || it.trigger.network.payload_source.is_some())),
        "write `kind = \"feed\"` or `kind = \"command\"` in [source]",
    ),
    when(
        "source.feed",
        &["guest_names"],
        (
            &["source.feed.listen", "transport.tls.certificate"],
            All(|it| it.source.feed.listen.is_some() && has_tls(it)),
        ),
        "set `listen`, and the files of [transport.tls]",
    ),
    when(
        "source.command",
        &[],
        (
            &["source.kind", "trigger.mode"],
            All(|it| {
                let has_library = it.source.kind == SourceKind::Library && it.source.library.isolated;
                it.source.kind == SourceKind::Command || has_library || it.trigger.mode.starts_supervisor()
            }),
        ),
        "write `kind = \"command\"` in [source]",
    ),
    when(
        "programs.NAME",
        &[],
        (&["source.kind"], All(|it| it.source.kind == SourceKind::Command)),
        "write `kind = \"command\"` in [source]",
    ),
    when(
        "source.library",
        &[],
        (&["source.kind"], All(|it| it.source.kind == SourceKind::Library)),
        "write `kind = \"library\"` in [source]",
    ),
];

pub(super) const EMULATED: &[Condition] = &[
    when(
        "source.emulated",
        &[],
        (&["source.kind", "source.build_by"], All(|it| it.source.emulates_events())),
        "write `kind = \"emulated\"` and `build_by = \"number\"` in [source]",
    ),
    when(
        "source.emulated",
        &["rms_bytes"],
        (
            &["source.emulated.size"],
            All(|it| matches!(it.source.emulated.size, SizeModel::LogNormal | SizeModel::Normal)),
        ),
        "write `size = \"lognormal\"` or `size = \"normal\"`",
    ),
    when(
        "source.emulated",
        &["peak_share"],
        (&["source.emulated.size"], All(|it| it.source.emulated.size == SizeModel::MinimumPeaked)),
        "write `size = \"minimum-peaked\"`",
    ),
    when(
        "source.emulated",
        &["rate_hz"],
        (&["trigger.mode"], All(follows_data)),
        "write `rate_hz` and a mode such as `fixed` in [trigger]: the sources follow the triggers",
    ),
    when(
        "source.emulated",
        &["faulty_event", "faulty_triggers"],
        (&["source.emulated.faulty_source"], All(|it| it.source.emulated.faulty_source.is_some())),
        "set `faulty_source`",
    ),
    when(
        "source.free_running",
        &[],
        (&["source.kind", "source.build_by"], All(|it| it.source.emulates_hits())),
        "write `kind = \"emulated\"` and `build_by = \"time\"` in [source]",
    ),
    when(
        "source.free_running",
        &["flash_sources", "flash_hits", "flash_jitter_ps"],
        (&["source.free_running.flash_hz"], All(|it| it.source.free_running.flash_hz > 0.0)),
        "set `flash_hz`",
    ),
    when(
        "source.free_running",
        &["buffer_frames"],
        (&["source.free_running.pacing"], All(|it| it.source.free_running.pacing == FramePacing::Live)),
        "write `pacing = \"live\"`",
    ),
];

pub(super) const STREAM: &[Condition] = &[
    when(
        "source.stream",
        &[],
        (&["source.kind"], All(|it| it.source.kind == SourceKind::Stream)),
        "write `kind = \"stream\"` in [source]",
    ),
    when(
        "source.stream",
        &[
            "connect",
            "connections",
            "end_on_close",
            "packet_length",
            "packet_length_unit_bytes",
            "packet_length_counts_header",
            "max_packet_bytes",
            "marked_packet_bytes",
        ],
        (&["source.stream.protocol"], All(|it| it.source.stream.protocol == PacketProtocol::Tcp)),
        "write `protocol = \"tcp\"`",
    ),
    when(
        "source.stream",
        &["receive_buffer_bytes"],
        (&["source.stream.protocol"], All(|it| it.source.stream.protocol == PacketProtocol::Udp)),
        "write `protocol = \"udp\"`",
    ),
    when(
        "source.stream",
        &["connections"],
        (&["source.stream.listen"], All(|it| it.source.stream.listen.is_some())),
        "set `listen`",
    ),
    when(
        "source.stream",
        &["tick"],
        (&["source.stream.time"], All(|it| it.source.stream.time.is_some())),
        "set `time`",
    ),
    when(
        "source.stream",
        &["length_unit_bytes", "length_counts"],
        (&["source.stream.length"], All(|it| it.source.stream.length.is_some())),
        "set `length`",
    ),
    when(
        "source.stream",
        &["packet_length_unit_bytes", "packet_length_counts_header"],
        (&["source.stream.packet_length"], All(|it| it.source.stream.packet_length.is_some())),
        "set `packet_length`",
    ),
    when(
        "source.stream",
        &["waiting_packets", "wait_ms"],
        (&["source.stream.packet_number"], All(|it| it.source.stream.packet_number.is_some())),
        "set `packet_number`",
    ),
    when(
        "source.stream",
        &["open_fragments"],
        (&["source.stream.last"], All(|it| it.source.stream.last.is_some())),
        "set `last`",
    ),
    when(
        "source.stream",
        &["marked_packet_bytes"],
        (
            &["source.stream.keep_alive", "source.stream.reset"],
            All(|it| !it.source.stream.keep_alive.is_empty() || !it.source.stream.reset.is_empty()),
        ),
        "set `keep_alive` or `reset`",
    ),
];

pub(super) const HITS: &[Condition] = &[
    when(
        "source.timed",
        &[],
        // A replay of slices looks for coincidences in them.
        (
            &["source.kind", "source.build_by"],
            All(|it| it.source.is_timed() || it.source.kind == SourceKind::Replay && finds_coincidences(it)),
        ),
        "write `kind = \"packets\"`, `kind = \"capture\"` or `build_by = \"time\"` in [source]",
    ),
    when(
        "source.timed",
        &["file"],
        (&["source.kind"], All(|it| it.source.kind == SourceKind::Capture)),
        "write `kind = \"capture\"` in [source]",
    ),
    when(
        "source.timed",
        &["listen"],
        (&["source.kind"], All(|it| it.source.kind == SourceKind::Packets)),
        "write `kind = \"packets\"` in [source]",
    ),
    when(
        "source.timed",
        &["zero"],
        (&["source.timed.times"], All(|it| it.source.timed.times == HitTimes::Fragment)),
        "write `times = \"fragment\"`",
    ),
    when(
        "source.timed",
        &["pulse_tolerance"],
        (&["source.timed.pulse_period"], All(|it| it.source.timed.pulse_period.is_some())),
        "set `pulse_period`",
    ),
    when(
        "clocks.NAME",
        &[],
        (&["source.kind", "source.build_by"], All(|it| it.source.is_timed())),
        "write `kind = \"packets\"`, `kind = \"capture\"` or `build_by = \"time\"` in [source]",
    ),
    when(
        "source.hits",
        &[],
        (
            &["source.kind", "source.build_by", "source.timed.front_end"],
            All(|it| {
                it.source.is_timed() && (is_decoded(it) || it.source.timed.front_end == FrontEnd::Described)
            }),
        ),
        "write `front_end = \"described\"` in [source.timed], for sources that are built by time",
    ),
    when(
        "source.decoder",
        &[],
        (
            &["source.kind", "source.build_by", "source.timed.front_end"],
            All(|it| it.source.is_timed() && is_decoded(it)),
        ),
        "write `front_end = \"library\"` or `front_end = \"python\"` in [source.timed], for sources that are built by time",
    ),
    when(
        "source.decoder",
        &["symbol", "max_hits"],
        (&["source.timed.front_end"], All(|it| it.source.timed.front_end == FrontEnd::Library)),
        "write `front_end = \"library\"` in [source.timed]",
    ),
    when(
        "source.decoder",
        &["function", "python", "time_limit_s"],
        (&["source.timed.front_end"], All(|it| it.source.timed.front_end == FrontEnd::Python)),
        "write `front_end = \"python\"` in [source.timed]",
    ),
];
