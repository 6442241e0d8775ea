//! Errors in settings of building by time.

use super::{parse, says};
use sheaf_config::ErrorKind;

#[test]
fn fragments_that_are_built_by_time_need_to_be_decoded() {
    says(
        parse("[source]\nkind = \"feed\"\nbuild_by = \"time\"\n"),
        &[ErrorKind::Missing],
        "
error: `source.build_by` is \"time\", but `source.timed.front_end` is not set
  --> run.toml:3:12
   |
 3 | build_by = \"time\"
   |            ^^^^^^
   = help: write how fragments hold their hits, such as `front_end = \"described\"`, and describe them in [source.hits]",
    );
}

#[test]
fn what_cannot_be_built_by_time_says_what_can() {
    says(
        parse("[source]\nkind = \"stream\"\nbuild_by = \"time\"\n[source.stream]\nlisten = \"localhost:1\"\nevent = \"u32 at 0\"\n"),
        &[ErrorKind::Conflict],
        "
error: `source.build_by` is \"time\", but `source.kind` is \"stream\"
  --> run.toml:3:12
   |
 3 | build_by = \"time\"
   |            ^^^^^^
   = help: packets that hold hits have the kind `packets`; replayed, fed, polled and emulated fragments can be built by time",
    );
    says(
        parse(
            "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"a\"\nloop_count = 2\n\
             [source.timed]\nfront_end = \"hits\"\ntimes = \"fragment\"\n",
        ),
        &[ErrorKind::Conflict, ErrorKind::Conflict],
        "
error: a replay that is built by time plays its streams once
  --> run.toml:3:12
   |
 3 | build_by = \"time\"
   |            ^^^^^^
   = help: remove `loop_count`

error: hits of Sheaf have times since time 0 of the run, not since their fragment
  --> run.toml:9:9
   |
 9 | times = \"fragment\"
   |         ^^^^^^^^^^
   = help: remove `times`",
    );
}

#[test]
fn packets_have_no_numbers_to_build_by_and_no_fragment_to_count_from() {
    says(
        parse(
            "[source]\nkind = \"capture\"\nbuild_by = \"number\"\n[source.timed]\nfile = \"a.pcap\"\ntimes = \"fragment\"\n",
        ),
        &[ErrorKind::Conflict, ErrorKind::Conflict],
        "
error: `source.build_by` is \"number\", but packets of hits have no event numbers
  --> run.toml:3:12
   |
 3 | build_by = \"number\"
   |            ^^^^^^^^
   = help: remove it

error: times of hits count from their fragment, but the hits come in packets
  --> run.toml:6:9
   |
 6 | times = \"fragment\"
   |         ^^^^^^^^^^
   = help: remove `times`; times in the header of a packet are `base` in [source.hits]",
    );
    let replay = "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"a\"\n";
    parse(&format!("{replay}[source.timed]\nfront_end = \"vmm3a\"\n")).expect("packets of cards in a stream");
}

#[test]
fn emulated_front_ends_have_hits_that_are_described() {
    let time = "[source]\nkind = \"emulated\"\nbuild_by = \"time\"\n";
    parse(&format!("{time}[source.timed]\nfront_end = \"hits\"\n")).expect("hits of Sheaf");
    says(
        parse(&format!("{time}[source.timed]\nfront_end = \"vmm3a\"\n")),
        &[ErrorKind::Conflict],
        "
error: front ends of the kind \"vmm3a\" are not emulated
  --> run.toml:5:13
   |
 5 | front_end = \"vmm3a\"
   |             ^^^^^^^
   = help: describe the frames (`front_end = \"described\"` and [source.hits]), or take hits of Sheaf (`\"hits\"`)",
    );
    says(
        parse("[source]\nkind = \"emulated\"\n[source.free_running]\nflash_hz = 5\n"),
        &[ErrorKind::Conflict],
        "
error: `source.free_running.flash_hz` is set, but the sources are not emulated front ends without event numbers
  --> run.toml:4:12
   |
 4 | flash_hz = 5
   |            ^
   = help: write `kind = \"emulated\"` and `build_by = \"time\"` in [source], or remove [source.free_running]",
    );
}
