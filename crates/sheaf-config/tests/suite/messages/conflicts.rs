//! Values that are good by themselves and cannot go together.

use super::*;

#[test]
fn values_that_cannot_go_together() {
    let text = "[trigger]\nmode = \"free\"\n[source]\nkind = \"replay\"\n[source.replay]\ndirectory = \"streams\"\n\
                [builder]\nevent_timeout_ms = 600\n[readout]\nmerge_timeout_ms = 700.5\n[manager]\nbatch_events = 1000\n";
    says(
        parse(text),
        &[ErrorKind::Conflict; 3],
        "
error: `trigger.mode` is \"free\", but the data has its own event ids
  --> run.toml:2:8
   |
 2 | mode = \"free\"
   |        ^^^^^^
   = help: with `source.kind = \"replay\"` the mode is \"seen\" or \"source\"

error: `readout.merge_timeout_ms` is 700.5, and `builder.event_timeout_ms` is 600
  --> run.toml:10:20
   |
10 | merge_timeout_ms = 700.5
   |                    ^^^^^
   = help: `readout.merge_timeout_ms` must be less than `builder.event_timeout_ms`: a readout unit must give up a \
         silent source before its builder unit gives up the event

error: `manager.batch_events` is 1000, more than `builder.slots`, 512
  --> run.toml:12:16
   |
12 | batch_events = 1000
   |                ^^^^
   = help: a batch must fit into the slots of a builder unit",
    );
}

#[test]
fn a_limit_of_requests_below_the_slots_of_a_builder_unit() {
    says(
        parse("[protocol]\nrequest_events = 100\n"),
        &[ErrorKind::Conflict],
        "
error: `protocol.request_events` is 100, less than `builder.slots`, 512
  --> run.toml:2:18
   |
 2 | request_events = 100
   |                  ^^^
   = help: a builder unit may request as many events at once as it has slots; readout units ignore those beyond the \
         limit",
    );
    assert!(parse("[protocol]\nrequest_events = 512\n").is_ok());
    assert!(
        parse("[protocol]\nrequest_events = 100\n[builder]\nslots = 100\n[manager]\nbatch_events = 50\n")
            .is_ok()
    );
}

#[test]
fn a_key_goes_with_every_transport() {
    for kind in TransportKind::ALL {
        let text = format!("[transport]\nkind = \"{kind}\"\nkey_file = \"run.key\"\n");
        let errors = parse(&text).map_or_else(|errors| errors.to_string(), |_| String::new());
        assert!(!errors.contains("key_file"), "{kind}: {errors}");
    }
}

#[test]
fn the_place_is_the_key_that_the_file_sets_not_the_default_it_collides_with() {
    says(
        parse("[manager]\npeer_timeout_ms = 200\n[protocol]\nretransmit_ms = 100\n"),
        &[ErrorKind::Conflict],
        "
error: `protocol.heartbeat_ms` is 200, and `manager.peer_timeout_ms` is 200
  --> run.toml:2:19
   |
 2 | peer_timeout_ms = 200
   |                   ^^^
   = help: `protocol.heartbeat_ms` must be less than `manager.peer_timeout_ms`: a live node must be heard before it is given up",
    );
}

#[test]
fn bounds_that_cannot_hold_what_they_must() {
    says(
        parse("[builder]\nmemory_bytes = 1048576\n[source.emulated]\nmean_bytes = 1000000\nsize = \"fixed\"\n"),
        &[ErrorKind::TooSmall],
        "
error: `builder.memory_bytes` is 1048576, less than an event of 4 fragments, one of them the largest, 4000000 bytes
  --> run.toml:2:16
   |
 2 | memory_bytes = 1048576
   |                ^^^^^^^
   = help: `builder.memory_bytes` must be at least 4000000",
    );
    says(
        parse("[transport]\nqueue_bytes = 65536\n"),
        &[ErrorKind::TooSmall],
        "
error: `transport.queue_bytes` is 65536, less than a frame of `transport.max_frame_bytes`, 16777216 bytes
  --> run.toml:2:15
   |
 2 | queue_bytes = 65536
   |               ^^^^^
   = help: `transport.queue_bytes` must be at least 16777216",
    );
}

#[test]
fn shaping_that_cannot_work_is_refused_with_what_would() {
    says(
        parse("[shaping]\nsynchronised = true\n"),
        &[ErrorKind::Conflict],
        "
error: `shaping.synchronised` is true, but `shaping.policy` is \"pull\"
  --> run.toml:2:16
   |
 2 | synchronised = true
   |                ^^^^
   = help: only time slots can be synchronised: write `policy = \"barrel\"`, or remove `synchronised`",
    );
    says(
        parse("[shaping]\npolicy = \"barrel\"\nsynchronised = true\nblock_bytes = 1048576\n"),
        &[ErrorKind::Missing],
        "
error: `shaping.synchronised` is true, but `shaping.line_rate_bits` is not set
  --> run.toml:3:16
   |
 3 | synchronised = true
   |                ^^^^
   = help: the length of slots follows from the line rate; set it, such as `line_rate_bits = 1_000_000_000`",
    );
    says(
        parse("[shaping]\npolicy = \"barrel\"\nblock_bytes = 65536\n[protocol]\nmessage_bytes = 131072\n"),
        &[ErrorKind::TooSmall],
        "
error: `shaping.block_bytes` is 65536, less than a message of `protocol.message_bytes`, which goes in one slot, 131072 bytes
  --> run.toml:3:15
   |
 3 | block_bytes = 65536
   |               ^^^^^
   = help: `shaping.block_bytes` must be at least 131072",
    );
}

#[test]
fn times_of_one_file_have_one_unit() {
    let stream = "[source]\nkind = \"stream\"\ntime_unit = \"0.1 ns\"\n[source.stream]\nlisten = \"a:1\"\nevent = \"u32 at 0\"\n";
    says(
        parse(stream),
        &[ErrorKind::Missing],
        "
error: `source.time_unit` is set, but `source.stream.time` is not: times of arrival are nanoseconds
  --> run.toml:3:13
   |
 3 | time_unit = \"0.1 ns\"
   |             ^^^^^^^^
   = help: write where the time is, such as `time = \"u64 at 8\"`, or remove the unit",
    );
    assert!(parse(&format!("{stream}time = \"u32 at 4\"\n")).is_ok());
    says(
        parse("[source]\nepoch = \"2026-01-01T00:00:00Z\"\n"),
        &[ErrorKind::Conflict],
        "
error: `source.epoch` is set, but `source.kind` is \"emulated\", whose times have their own meaning
  --> run.toml:2:9
   |
 2 | epoch = \"2026-01-01T00:00:00Z\"
   |         ^^^^^^^^^^^^^^^^^^^^^^
   = help: remove it: it is for programs, described streams and replays",
    );
}

#[test]
fn source_ids_are_for_sources_that_the_configuration_numbers() {
    let config =
        parse("[readout]\ncount = 2\n[source]\nids = \"3-5, 70000-70010, !4, !70002-70009\"\n").unwrap();
    let sources: Vec<Vec<u32>> = config
        .nodes()
        .unwrap()
        .iter()
        .filter(|node| node.id.role == sheaf_wire::Role::Readout)
        .map(|node| node.sources.iter().map(|source| source.0).collect())
        .collect();
    assert_eq!(sources.concat(), [3, 5, 70_000, 70_001, 70_010]);
    assert_eq!(sources.len(), 2);
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    for (text, key) in [
        ("[source]\nids = [1, 2]\ncount = 3\n", "`source.count` is 3"),
        (
            "[source]\nids = [1, 2]\n[[node]]\nname = \"evm\"\nrole = \"manager\"\n[[node]]\nname = \"ru\"\nrole = \"readout\"\nsources = [1]\n\
             [[node]]\nname = \"bu\"\nrole = \"builder\"\n",
            "other sources than the readout units list",
        ),
        ("[source]\nids = [1]\nkind = \"replay\"\nreplay = { directory = \"x\" }\n", "have ids of their own"),
    ] {
        let errors = parse(text).unwrap_err().to_string();
        assert!(errors.contains(key), "{errors}");
    }
}

#[test]
fn pulses_that_no_clock_can_follow() {
    let timed = "[source]\nkind = \"packets\"\n[source.timed]\nlisten = \"0.0.0.0:6006\"\ncards = [1]\nfront_end = \"described\"\n";
    let hits = "[source.hits]\nrecord_bytes = 9\ntime = \"u64 at 0\"\nkind = \"u8 at 8\"\n";
    says(
        parse(&format!(
            "{timed}{hits}pulse_kinds = [5]\n[clocks.far]\ncards = [1]\npulse_delay = \"1 us\"\n"
        )),
        &[ErrorKind::Missing; 2],
        "
error: `source.hits.pulse_kinds` is set, but `source.timed.pulse_period` is not
  --> run.toml:11:15
   |
11 | pulse_kinds = [5]
   |               ^^^
   = help: write the time between pulses, such as `pulse_period = \"1 s\"`

error: `clocks.far.pulse_delay` is set, but `source.timed.pulse_period` is not
  --> run.toml:14:15
   |
14 | pulse_delay = \"1 us\"
   |               ^^^^^^
   = help: write the time between pulses, or remove the delay",
    );
    says(
        parse(&format!("{timed}pulse_period = \"1 s\"\npulse_tolerance = \"0 ppm\"\n{hits}")),
        &[ErrorKind::Missing, ErrorKind::BadValue],
        "
error: `source.timed.pulse_period` is set, but `source.hits.pulse_kinds` is not
  --> run.toml:7:16
   |
 7 | pulse_period = \"1 s\"
   |                ^^^^^
   = help: write which kinds of records are pulses, such as `pulse_kinds = [5]`

error: `source.timed.pulse_tolerance` is 0 ppm
  --> run.toml:8:19
   |
 8 | pulse_tolerance = \"0 ppm\"
   |                   ^^^^^^^
   = help: write a deviation above 0, such as `\"100 ppm\"`",
    );
    let vmm3a = timed.replace("described", "vmm3a");
    says(
        parse(&format!("{vmm3a}pulse_period = \"1 s\"\n")),
        &[ErrorKind::Conflict],
        "
error: `source.timed.pulse_period` is set, but front ends of the kind \"vmm3a\" send no pulses
  --> run.toml:7:16
   |
 7 | pulse_period = \"1 s\"
   |                ^^^^^
   = help: remove it",
    );
}
