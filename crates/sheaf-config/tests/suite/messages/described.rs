//! Errors in the description of packets.

use super::{parse, says};
use sheaf_config::{Config, ErrorKind};

#[test]
fn packets_are_described_by_fields() {
    says(
        parse("[source]\nkind = \"stream\"\n[source.stream]\nevent = \"u31 at 0\"\nseveral = true\n"),
        &[ErrorKind::Missing, ErrorKind::BadValue, ErrorKind::Missing],
        "
error: `source.kind` is \"stream\", but `source.stream.listen` is not set
  --> run.toml:2:8
   |
 2 | kind = \"stream\"
   |        ^^^^^^^^
   = help: write the address that receives the packets, such as `listen = \"0.0.0.0:6006\"`

error: `source.stream.event` is \"u31 at 0\"
  --> run.toml:4:9
   |
 4 | event = \"u31 at 0\"
   |         ^^^^^^^^^^
   = help: it must be a field such as \"u32 at 4\", \"u16le at 0 & 0x0fff >> 4\" or \"u8 at packet 7\", with 8, 16, 24, 32, 48 or 64 bits

error: `source.stream.several` is true, but `source.stream.length` is not set
  --> run.toml:5:11
   |
 5 | several = true
   |           ^^^^
   = help: write where the length is, such as `length = \"u16 at 4\"`: it tells where the next fragment begins",
    );
}

#[test]
fn described_streams_need_a_length_and_one_way_to_connect() {
    let stream = "[source]\nkind = \"stream\"\n[source.stream]\nprotocol = \"tcp\"\nevent = \"u32 at 0\"\n";
    says(
        parse(&format!("{stream}listen = \"a:1\"\nconnect = [\"b:2\"]\nend_on_close = true\n")),
        &[ErrorKind::Missing, ErrorKind::Conflict, ErrorKind::Missing],
        "
error: packets come over TCP, but nothing tells where they end
  --> run.toml:4:12
   |
 4 | protocol = \"tcp\"
   |            ^^^^^
   = help: write where the length of the packet is, such as `packet_length = \"u16 at 2\"`; `length` is enough if a packet has one fragment

error: `source.stream.listen` and `source.stream.connect` are both set
  --> run.toml:7:11
   |
 7 | connect = [\"b:2\"]
   |           ^^^^^^^
   = help: choose whether front ends connect to the run, or the run to them

error: `source.stream.end_on_close` is true, but `source.stream.connections` is not set
  --> run.toml:8:16
   |
 8 | end_on_close = true
   |                ^^^^
   = help: write how many front ends connect, such as `connections = 1`",
    );
}

#[test]
fn a_table_of_sources_that_no_kind_selects() {
    says(
        parse("[source]\n[source.replay]\npacing = \"recorded\"\ndirectory = \"night\"\n"),
        &[ErrorKind::Missing],
        r#"
error: `source.replay.pacing` is set, but `source.kind` is not: the sources would be emulated
  --> run.toml:3:10
   |
 3 | pacing = "recorded"
   |          ^^^^^^^^^^
   = help: add `kind = "replay"` to [source], or remove [source.replay]
"#,
    );
    let chosen = "[source]\nkind = \"emulated\"\n[source.replay]\npacing = \"recorded\"\n";
    says(
        parse(chosen),
        &[ErrorKind::NoEffect],
        r#"
error: `source.replay.pacing` has no effect, nor has any key of [source.replay]: `source.kind` is "emulated"
  --> run.toml:4:10
   |
 4 | pacing = "recorded"
   |          ^^^^^^^^^^
   = help: remove it, or write `kind = "replay"` in [source], or use --replay DIR
"#,
    );
    let replay = |config: &mut Config| config.set_replay("night".into());
    let by_flag = Config::parse_with("[source.replay]\npacing = \"recorded\"\n", "run.toml", replay);
    assert!(by_flag.is_ok(), "--replay selects the kind: {by_flag:?}");
}
