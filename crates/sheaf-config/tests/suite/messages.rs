//! The text of every kind of error, character by character.

mod conflicts;
mod described;
mod events;
mod mirrors;
mod nodes;
mod streams;
mod timed;

use sheaf_config::{Config, ConfigErrors, ErrorKind, Origin, TransportKind};
use std::path::Path;

/// The rendered errors must be `expected`, and their kinds `kinds`.
#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T, ConfigErrors>, kinds: &[ErrorKind], expected: &str) {
    let errors = result.expect_err("this configuration is wrong");
    let found: Vec<ErrorKind> = errors.errors().iter().map(|error| error.kind).collect();
    assert_eq!(errors.to_string(), expected.trim_start_matches('\n').trim_end(), "as rendered:\n{errors}");
    assert_eq!(found, kinds);
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, "run.toml")
}

#[test]
fn an_unreadable_file() {
    let errors = Config::load(Path::new("no/such/file.toml")).unwrap_err();
    let error = &errors.errors()[0];
    assert_eq!(error.kind, ErrorKind::Unreadable);
    assert_eq!(error.origin, Origin::File("no/such/file.toml".into()));
    let text = errors.to_string();
    assert!(text.starts_with("error: the configuration cannot be read: "), "{text}");
    let end = "\n  --> no/such/file.toml\n   = help: give the path of a configuration file (TOML); `docs/reference/configuration.md` lists all keys";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_file_larger_than_any_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.toml");
    std::fs::write(&path, vec![b'#'; (16 << 20) + 1]).unwrap();
    let expected = format!(
        "error: the file has more than 16777216 bytes\n  --> {}\n   = help: no configuration is this large; is this the right file?",
        path.display()
    );
    says(Config::load(&path), &[ErrorKind::TooLarge], &expected);
}

#[test]
fn a_file_that_is_not_utf_8() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("latin.toml");
    std::fs::write(&path, b"[run]\n# caf\xe9\nnumber = 1\n").unwrap();
    let errors = Config::load(&path).unwrap_err();
    let expected = format!(
        "error: byte 11 of the file, 0xe9, is not UTF-8
  --> {}:2:6
   |
 2 | # caf\u{fffd}
   |      ^
   = help: save the file as UTF-8",
        path.display()
    );
    says::<()>(Err(errors), &[ErrorKind::NotUtf8], &expected);
}

#[test]
fn text_that_is_not_toml() {
    let text = "[run]\nnumber = 3\nnumber = 4\n[readout]\ncount = 0\n";
    says(
        parse(text),
        &[ErrorKind::Syntax, ErrorKind::BadValue],
        "
error: this is not TOML: duplicate key
  --> run.toml:3:1
   |
 3 | number = 4
   | ^^^^^^
   = help: keep one of them

error: `readout.count` is 0
  --> run.toml:5:9
   |
 5 | count = 0
   |         ^
   = help: it must be an integer from 1 to 4096",
    );
    says(
        parse("[run]\noutput = \"runs\n"),
        &[ErrorKind::Syntax],
        "
error: this is not TOML: invalid basic string, expected `\"`
  --> run.toml:2:15
   |
 2 | output = \"runs
   |               ^
   = help: a table is `[name]`, a value is `key = value`, text is in double quotes",
    );
}

#[test]
fn a_mistake_before_an_error_of_syntax_is_told_and_what_follows_is_not_guessed() {
    let text = "[readout]\ncuont = 3\n[builder\nslots = 1\n";
    says(
        parse(text),
        &[ErrorKind::Unknown, ErrorKind::Syntax],
        "
error: there is no key `cuont` in [readout]
  --> run.toml:2:1
   |
 2 | cuont = 3
   | ^^^^^
   = help: did you mean `count`?

error: this is not TOML: unclosed table, expected `]`
  --> run.toml:3:9
   |
 3 | [builder
   |         ^
   = help: a table is `[name]`, a value is `key = value`, text is in double quotes",
    );
}

#[test]
fn unknown_tables_and_keys() {
    let text = "count = 3\n[readot]\n[readout]\nmerge_timeot_ms = 5\nslots = 3\nx = 1\n[source.replai]\n[[node]]\n\
                name = \"evm\"\nrole = \"manager\"\nadress = \"a:1\"\n";
    says(
        parse(text),
        &[ErrorKind::Unknown; 7],
        "
error: there is no key `count` outside of tables
  --> run.toml:1:1
   |
 1 | count = 3
   | ^^^^^
   = help: `count` is a key of [source], [readout], [builder]

error: there is no table [readot]
  --> run.toml:2:2
   |
 2 | [readot]
   |  ^^^^^^
   = help: did you mean [readout]?

error: there is no key `merge_timeot_ms` in [readout]
  --> run.toml:4:1
   |
 4 | merge_timeot_ms = 5
   | ^^^^^^^^^^^^^^^
   = help: did you mean `merge_timeout_ms`?

error: there is no key `slots` in [readout]
  --> run.toml:5:1
   |
 5 | slots = 3
   | ^^^^^
   = help: `slots` is a key of [builder]

error: there is no key `x` in [readout]
  --> run.toml:6:1
   |
 6 | x = 1
   | ^
   = help: known are `count`, `buffer_bytes`, `buffer_events`, `max_fragment_bytes`, `merge_timeout_ms`, `orphan_timeout_ms`, `protect`, `suspect_after_ms`, `mirror_lag_ms`

error: there is no table [source.replai]
  --> run.toml:7:9
   |
 7 | [source.replai]
   |         ^^^^^^
   = help: did you mean [source.replay]?

error: there is no key `adress` in [[node]]
  --> run.toml:11:1
   |
11 | adress = \"a:1\"
   | ^^^^^^
   = help: did you mean `address`?",
    );
}

#[test]
fn a_key_that_has_no_unit_or_another_one_is_named_with_its_values() {
    let text = "[source.timed]\ntick_ps = 22_500\nslice = 1\n[clocks.far]\ncards = [1]\ntick = 25\noffset = \"40 MHz\"\n";
    says(
        parse(text),
        &[ErrorKind::Unknown, ErrorKind::Unknown, ErrorKind::WrongType, ErrorKind::BadValue],
        "
error: there is no key `tick_ps` in [source.timed]
  --> run.toml:2:1
   |
 2 | tick_ps = 22_500
   | ^^^^^^^
   = help: write `tick`; it must be a period of at most 1 s such as \"25 ns\", \"25/16 ns\" or \"1562.5 ps\", or a rate such as \"40 MHz\" or \"400/9 MHz\"

error: there is no key `slice` in [source.timed]
  --> run.toml:3:1
   |
 3 | slice = 1
   | ^^^^^
   = help: write `slice_us`; it must be a number of microseconds from 1 to 3600000000

error: `clocks.far.tick` is an integer
  --> run.toml:6:8
   |
 6 | tick = 25
   |        ^^
   = help: it must be a period of at most 1 s such as \"25 ns\", \"25/16 ns\" or \"1562.5 ps\", or a rate such as \"40 MHz\" or \"400/9 MHz\"

error: `clocks.far.offset` is \"40 MHz\"
  --> run.toml:7:10
   |
 7 | offset = \"40 MHz\"
   |          ^^^^^^^^
   = help: it must be a time such as \"-350 ns\", \"1562.5 ps\" or \"25/16 ns\", at most 200 years",
    );
}

#[test]
fn values_of_the_wrong_type() {
    let text =
        "readout = 3\nnode = [1]\n[run]\nnumber = \"one\"\nevents = 1.5\n[builder]\n  check_content = 1\n";
    says(
        parse(text),
        &[ErrorKind::WrongType; 5],
        "
error: `readout` is an integer, not a table
  --> run.toml:1:1
   |
 1 | readout = 3
   | ^^^^^^^
   = help: write a line `[readout]` and its keys below it

error: `node[0]` is an integer, not a table
  --> run.toml:2:9
   |
 2 | node = [1]
   |         ^
   = help: write a line `[[node]]` for each node and its keys below it

error: `run.number` is a string
  --> run.toml:4:10
   |
 4 | number = \"one\"
   |          ^^^^^
   = help: it must be an integer from 0 to 4294967295

error: `run.events` is a decimal number
  --> run.toml:5:10
   |
 5 | events = 1.5
   |          ^^^
   = help: it must be 0, or an integer from 1 to 9223372036854775807

error: `builder.check_content` is an integer
  --> run.toml:7:19
   |
 7 |   check_content = 1
   |                   ^
   = help: it must be true or false",
    );
}

#[test]
fn values_that_are_not_accepted() {
    let text = "[run]\noutput = \"\"\nduration_s = -1\nnumber = 99999999999999999999999999\n[trigger]\nmode = \"fre\"\n\
                rate_hz = inf\n[source]\noptional = [1, \"9-3\"]\n[builder]\nmemory_bytes = 0x10\n";
    says(
        parse(text),
        &[ErrorKind::BadValue; 7],
        "
error: `run.output` is \"\"
  --> run.toml:2:10
   |
 2 | output = \"\"
   |          ^^
   = help: it must be a path in UTF-8 that is not empty

error: `run.duration_s` is -1
  --> run.toml:3:14
   |
 3 | duration_s = -1
   |              ^^
   = help: it must be 0, or a number of seconds from 0.000000001 to 8640000

error: `run.number` is 99999999999999999999999999
  --> run.toml:4:10
   |
 4 | number = 99999999999999999999999999
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^
   = help: it must be an integer from 0 to 4294967295

error: `trigger.mode` is \"fre\"
  --> run.toml:6:8
   |
 6 | mode = \"fre\"
   |        ^^^^^
   = help: it must be \"free\", \"fixed\", \"poisson\", \"source\", \"seen\", \"network\", \"command\" or \"library\"

error: `trigger.rate_hz` is inf
  --> run.toml:7:11
   |
 7 | rate_hz = inf
   |           ^^^
   = help: it must be a number from 0.001 to 1000000000

error: `source.optional` is [1, \"9-3\"]
  --> run.toml:9:12
   |
 9 | optional = [1, \"9-3\"]
   |            ^^^^^^^^^^
   = help: it must be a list like [1, 0x2100, \"10-19\", \"NAME\", \"@FILE\"] or a text like \"1-454, 70000-70010, !17\" of sources from 0 to 4294967295, each at most once, at most 65536 of them; what `!` takes out must be in it

error: `builder.memory_bytes` is 0x10
  --> run.toml:11:16
   |
11 | memory_bytes = 0x10
   |                ^^^^
   = help: it must be an integer from 1048576 (1 MiB) to 1099511627776 (1 TiB)",
    );
}

/// A rate without a mode is refused instead of running at another rate.
#[test]
fn a_rate_without_a_mode_that_has_one() {
    let text = parse("[trigger]\nrate_hz = 500.0\n").unwrap_err().to_string();
    assert!(text.contains("run.toml:2:11") && text.contains("write `mode = \"fixed\"`"), "{text}");
}

#[test]
fn keys_that_are_needed() {
    says(
        parse("[trigger]\nmode = \"poisson\"\n[source]\nkind = \"emulated\"\n[[node]]\nname = \"evm\"\n"),
        &[ErrorKind::Missing, ErrorKind::Missing],
        "
error: `trigger.mode` is \"poisson\", but `trigger.rate_hz` is not set
  --> run.toml:2:8
   |
 2 | mode = \"poisson\"
   |        ^^^^^^^^^
   = help: write the rate, such as `rate_hz = 1000.0`

error: `node[0]` has no `role`
  --> run.toml:5:1
   |
 5 | [[node]]
   | ^^^^^^^^
   = help: each [[node]] needs a `name` and a `role`",
    );
    says(
        parse(
            "[trigger]\nmode = \"source\"\n[source]\nkind = \"replay\"\n[source.replay]\npacing = \"fixed\"\n",
        ),
        &[ErrorKind::Missing, ErrorKind::Missing, ErrorKind::Missing],
        "
error: `trigger.mode` is \"source\", but `trigger.source` is not set
  --> run.toml:2:8
   |
 2 | mode = \"source\"
   |        ^^^^^^^^
   = help: write the id of the reference source, such as `source = 0`

error: `source.kind` is \"replay\", but `source.replay.directory` is not set
  --> run.toml:4:8
   |
 4 | kind = \"replay\"
   |        ^^^^^^^^
   = help: set it in [source.replay], or use --replay DIR

error: `source.replay.pacing` is \"fixed\", but `source.replay.rate_hz` is not set
  --> run.toml:6:10
   |
 6 | pacing = \"fixed\"
   |          ^^^^^^^
   = help: write the rate, such as `rate_hz = 1000.0`",
    );
}

#[test]
fn time_slices_need_a_file_or_an_address_and_cards() {
    says(
        parse("[source]\nkind = \"capture\"\n[source.timed]\nslice_us = 10.0\nafter_us = 161.0\n"),
        &[ErrorKind::Missing, ErrorKind::Conflict],
        "
error: `source.kind` is \"capture\", but `source.timed.file` is not set
  --> run.toml:2:8
   |
 2 | kind = \"capture\"
   |        ^^^^^^^^^
   = help: write the path of the pcap or pcapng file

error: the overlaps of a time slice together exceed 16 slices
  --> run.toml:5:12
   |
 5 | after_us = 161.0
   |            ^^^^^
   = help: make the slices longer or the overlaps shorter",
    );
    says(
        parse("[source]\nkind = \"packets\"\n[readout]\ncount = 2\n"),
        &[ErrorKind::Missing, ErrorKind::Missing, ErrorKind::Conflict],
        "
error: `source.kind` is \"packets\", but `source.timed.listen` is not set
  --> run.toml:2:8
   |
 2 | kind = \"packets\"
   |        ^^^^^^^^^
   = help: write the address that receives the packets, such as `listen = \"0.0.0.0:6006\"`

error: `source.kind` is \"packets\", but `source.timed.cards` is not set
  --> run.toml:2:8
   |
 2 | kind = \"packets\"
   |        ^^^^^^^^^
   = help: write the numbers of the cards, such as `cards = [1, 2]`

error: 2 readout units of one host cannot share a socket
  --> run.toml:4:9
   |
 4 | count = 2
   |         ^
   = help: one readout unit reads all sources that send to an address",
    );
}

#[test]
fn a_node_is_not_called_like_a_directory_or_an_option() {
    for name in [".", "..", ".hidden", "-v", "_x", "a/b", ""] {
        let text = format!("[[node]]\nname = \"{name}\"\nrole = \"manager\"\n");
        let error = Config::parse(&text, "x.toml").unwrap_err().to_string();
        assert!(error.contains("the first a letter or digit"), "{name}: {error}");
    }
}

#[test]
fn a_misspelt_key_is_not_reported_as_missing_too() {
    says(
        parse("[source]\nkind = \"replay\"\n[source.replay]\ndirektory = \"streams\"\n"),
        &[ErrorKind::Unknown],
        "
error: there is no key `direktory` in [source.replay]
  --> run.toml:4:1
   |
 4 | direktory = \"streams\"
   | ^^^^^^^^^
   = help: did you mean `directory`?",
    );
}

#[test]
fn sources_that_are_nowhere_or_twice() {
    let nodes = "[[node]]\nname = \"evm\"\nrole = \"manager\"\n[[node]]\nname = \"bu0\"\nrole = \"builder\"\n\
                 [[node]]\nname = \"ru0\"\nrole = \"readout\"\nsources = [\"0-3\"]\n\
                 [[node]]\nname = \"ru1\"\nrole = \"readout\"\nsources = [3, 4]\n";
    says(
        parse(&format!("[source]\ncount = 6\n{nodes}")),
        &[ErrorKind::Sources, ErrorKind::Sources],
        "
error: `source.count` is 6, but the readout units list 5 sources
  --> run.toml:2:9
   |
 2 | count = 6
   |         ^
   = help: remove the count, or make the two agree

error: source 3 is read by \"ru0\" and by \"ru1\"
  --> run.toml:16:11
   |
16 | sources = [3, 4]
   |           ^^^^^^
   = help: a source must be read by exactly one readout unit",
    );
    says(
        parse("[trigger]\nmode = \"source\"\nsource = 99\n[source]\noptional = [7]\n"),
        &[ErrorKind::Sources, ErrorKind::Sources],
        "
error: the reference source 99 does not exist
  --> run.toml:3:10
   |
 3 | source = 99
   |          ^^
   = help: there are 4 sources, from 0 to 3

error: the optional source 7 does not exist
  --> run.toml:5:12
   |
 5 | optional = [7]
   |            ^^^
   = help: there are 4 sources, from 0 to 3",
    );
}

#[test]
fn what_the_command_line_makes_wrong_names_the_flag() {
    let result = Config::parse_with("[readout]\ncount = 3\n[source]\ncount = 3\n", "run.toml", |config| {
        config.readout.count = 5;
    });
    says(
        result,
        &[ErrorKind::Sources],
        "
error: there are fewer sources, 3, than readout units, 5
  --> --readouts on the command line
   = help: a readout unit needs at least one source; with `source.count = 0` each has one",
    );
}

#[test]
fn what_a_program_makes_wrong_names_key_and_flag() {
    let mut config = Config::default();
    config.readout.count = 0;
    config.trigger.seed = u64::MAX;
    says(
        config.validate(),
        &[ErrorKind::BadValue, ErrorKind::BadValue],
        "
error: `trigger.seed` is 18446744073709551615
  --> trigger.seed
   = help: it must be an integer from 0 to 9223372036854775807

error: `readout.count` is 0
  --> readout.count (flag --readouts)
   = help: it must be an integer from 1 to 4096",
    );
}

#[test]
fn long_lines_strange_characters_and_windows_line_ends_are_shown_so_that_the_mark_fits() {
    let text = format!("[run]\r\n\tnumber = \"{}\"\r\noverwrite = {}0\r\n", "é".repeat(200), " ".repeat(300));
    let dots = "é".repeat(99);
    let expected = format!(
        "
error: `run.number` is a string
  --> run.toml:2:11
   |
 2 |  number = \"{dots}
   |           {}
   = help: it must be an integer from 0 to 4294967295

error: `run.overwrite` is an integer
  --> run.toml:3:313
   |
 3 | {}0
   | {}^
   = help: it must be true or false",
        "^".repeat(100),
        " ".repeat(60),
        " ".repeat(60),
    );
    says(parse(&text), &[ErrorKind::WrongType, ErrorKind::WrongType], &expected);
}

#[test]
fn of_very_many_errors_the_first_are_shown_and_the_rest_counted() {
    let text: String = (0..300).map(|index| format!("unknown{index} = 1\n")).collect();
    let errors = parse(&text).unwrap_err();
    assert_eq!(errors.errors().len(), 50);
    assert_eq!(errors.errors()[0].line(), Some(1));
    assert!(errors.to_string().ends_with("\n\nerror: 250 more errors are not shown"));

    // Each of them is in a very long line: locating all of them would take minutes.
    let text = format!("run = {{{}}}\n", "number = 1,".repeat(80_000));
    let errors = parse(&text).unwrap_err();
    assert_eq!(errors.errors().len(), 50);
    assert!(errors.errors().iter().all(|error| error.line() == Some(1) && error.to_string().len() < 1_000));
    assert!(errors.to_string().ends_with("\n\nerror: 79949 more errors are not shown"), "{errors}");
}

#[test]
fn formats_of_output_that_cannot_be() {
    let text = "[output]
format = \"hdf5\"
compression = \"deflate\"
compression_level = 12
";
    let errors = parse(text).unwrap_err();
    let found: Vec<_> = errors.errors().iter().map(|error| error.found.as_str()).collect();
    assert_eq!(found, ["`output.compression_level` is 12"]);
    let store = "[object_store]\nendpoint = \"https://x.org\"\nbucket = \"b\"\n";
    for format in ["sheaf", "hdf5"] {
        let stream = format!("[streams.physics]\nformat = \"{format}\"\nsync = \"uploaded\"\n");
        let config = parse(&format!("[output]\nformat = \"hdf5\"\n{stream}{store}")).unwrap();
        assert_eq!(parse(&config.to_toml()).unwrap(), config);
    }
}
