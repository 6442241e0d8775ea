//! Processing of events: steps, preprocessing, clocks, tags.

use super::*;
use sheaf_wire::SourceId;

#[test]
fn steps_and_types_of_triggers_that_cannot_be() {
    let text = "[readout]
count = 2
[trigger]
mode = \"seen\"
[shaping]
policy = \"push\"
[building]
first_step = [1]
[triggers.a]
type = 3
weight = 0
readouts = [0, 2]
[triggers.b]
type = 3
weight = 0
";
    let errors = parse(text).unwrap_err();
    let mut found: Vec<_> = errors.errors().iter().map(|error| error.found.clone()).collect();
    found.sort_unstable();
    let mut expected = [
        "`building.first_step` is set, but `shaping.policy` is \"push\"",
        "there are types of triggers, but `trigger.mode` is \"seen\"",
        "there are types of triggers, but `shaping.policy` is \"push\"",
        "every type of trigger has the weight 0",
        "`triggers.b.type` is 3, as that of [triggers.a]",
        "`triggers.a.readouts` names readout unit 2, but there are 2",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    let errors = parse("[building]\nfilter = \"activity\"\n").unwrap_err();
    assert_eq!(errors.errors()[0].line(), Some(2));
    assert_eq!(
        errors.errors()[0].found,
        "`building.filter` is \"activity\", but `building.first_step` has no sources"
    );
}

#[test]
fn windows_of_a_step_filter_need_a_library_and_time_slices() {
    let found = |text: &str| -> Vec<String> {
        parse(text).unwrap_err().errors().iter().map(|error| error.found.clone()).collect()
    };
    let library =
        "[building]\nfirst_step = [1]\nfilter = \"library\"\npath = \"libmine.so\"\nwindows = true\n";
    assert_eq!(found(library), ["`building.windows` is true, but fragments are built by number"]);
    let by_time = "[source]\nkind = \"emulated\"\nbuild_by = \"time\"\n[source.timed]\nfront_end = \"described\"\ntick = \"1 ns\"\n\
                   [source.hits]\nrecord_bytes = 8\ntime = \"u32 at 0\"\n";
    let coincidence = library.replace("\"library\"", "\"coincidence\"");
    assert_eq!(
        found(&format!("{by_time}{coincidence}")),
        ["`building.windows` is true, but `building.filter` is \"coincidence\""]
    );
    let config = parse(&format!("{by_time}{library}")).unwrap();
    assert!(config.gives_windows(SourceId(0)) && !config.gives_windows(SourceId(1)));
    let mut spooled = config.clone();
    spooled.give_up_windows();
    assert!(!spooled.gives_windows(SourceId(0)));
    let config = parse(&format!("{by_time}{}", library.replace("windows = true\n", ""))).unwrap();
    assert!(!config.gives_windows(SourceId(0)), "whole slices of listed sources are requested");
}

#[test]
fn preprocessing_clocks_and_tags_that_cannot_be() {
    let text = "[preprocessing]
path = \"libzero.so\"
[building]
first_step = [1]
filter = \"library\"
[filter]
tags = [\"muon\"]
[tags.muno]
prescale = 2
[clocks.near]
cards = [1, \"4-6\"]
[clocks.far]
cards = [5]
offset = \"-3 ps\"
bits = 65
";
    let errors = parse(text).unwrap_err();
    let mut found: Vec<_> = errors.errors().iter().map(|error| error.found.clone()).collect();
    found.sort_unstable();
    let mut expected = [
        "`building.filter` is \"library\", but `building.path` is not set",
        "`tags.muno` has \"muno\", which is not in `filter.tags`",
        "`clocks.near.cards` names card 5, as [clocks.far] does",
        "`clocks.far.bits` is 65",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn clocks_and_tags_are_read_and_written() {
    let text = "[source]\nkind = \"emulated\"\nbuild_by = \"time\"\n[source.timed]\nfront_end = \"hits\"\n[filter]\ntags = [\"muon\"]\n[tags.muon]\nprescale = 7\n[clocks.far]\ncards = [5]\noffset = \"-3.5 ps\"\ndrift = \"1/3 ppm\"\n";
    let config = parse(text).unwrap();
    assert_eq!(
        (config.tags["muon"].prescale, config.clocks["far"].offset.to_string()),
        (7, "-3.5 ps".to_owned())
    );
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
}
