//! Which keys are refused, and which are not.

use super::*;
use crate::Setting;
use crate::knob::Knob;
use crate::row_settings::Base;
use crate::tables::{NAMED, PATHS};
use std::path::PathBuf;

/// Tables whose keys always have an effect.
const WHOLE: &[&str] = &[
    "run",
    "incomplete",
    "manager",
    "monitor",
    "monitor.remote",
    "log",
    "control",
    "transport.tls",
    "protocol",
    "streams.NAME",
    "groups.NAME",
    "tags.NAME",
    "check_fields.NAME",
    "require.NAME",
    "hook.NAME",
    "partition.NAME",
];

/// Keys of the other tables that always have an effect, or one wherever their table has.
const ALWAYS: &[(&str, &[&str])] = &[
    ("trigger", &["mode", "queue_events", "type", "busy_file", "busy_command"]),
    ("triggers.NAME", &["type", "readouts"]),
    ("source", &["kind", "build_by", "map", "optional", "time_unit", "epoch", "memory_bytes", "block_bytes"]),
    (
        "readout",
        &["count", "buffer_bytes", "buffer_events", "max_fragment_bytes", "merge_timeout_ms", "protect"],
    ),
    ("preprocessing", &["path"]),
    (
        "builder",
        &[
            "count",
            "slots",
            "memory_bytes",
            "event_timeout_ms",
            "request_retry_ms",
            "report_events",
            "report_delay_us",
            "check_content",
        ],
    ),
    ("building", &["first_step"]),
    ("filter", &["kind", "tags", "workers", "processes", "door", "listen"]),
    ("output", &["kind", "nodes", "keep_free_bytes", "own_thread"]),
    ("database", &["url", "timeout_ms"]),
    ("consumers", &["open"]),
    ("trace", &["file_bytes"]),
    (
        "transport",
        &[
            "kind",
            "key_file",
            "queue_bytes",
            "queue_frames",
            "max_frame_bytes",
            "block_bytes",
            "rails",
            "send_buffer_bytes",
            "receive_buffer_bytes",
            "congestion",
            "connect_timeout_ms",
            "retry_min_ms",
            "retry_max_ms",
            "dead_peer_ms",
        ],
    ),
    ("shaping", &["policy", "line_rate_bits"]),
    (
        "affinity",
        &[
            "manager_cpu",
            "readout_cpu",
            "builder_cpu",
            "manager_priority",
            "readout_priority",
            "builder_priority",
            "manager_memory",
            "readout_memory",
            "builder_memory",
            "required",
        ],
    ),
    (
        "value.NAME",
        &[
            "unit",
            "read",
            "stale_ms",
            "stale_alarm",
            "warning_below",
            "warning_above",
            "error_below",
            "error_above",
            "for_ms",
            "remedy",
        ],
    ),
    ("node", &["name", "role", "address", "agent", "more_addresses", "sources", "cpu", "feed_index"]),
];

/// Words of the reference page that tell of a condition.
const CONDITIONAL: &[&str] = &[
    "With the kind",
    "With the filter",
    "With the policy",
    "Only for",
    "with the trigger modes",
    "if the content is checked",
];

/// Keys that tell of a condition on something else than their effect.
const OTHERWISE: &[&str] = &[
    // Some of what it does has a condition.
    "readout.merge_timeout_ms",
    // The addresses of nodes are compared with it whatever the transport.
    "transport.rails",
    // The checks of hooks refuse it.
    "hook.NAME.required",
];

/// Returns every table of the reference page with its keys.
fn tables() -> Vec<(&'static str, &'static [Knob])> {
    let config = Config::default();
    let knobs = |path| config.section(path).map(Section::knobs).unwrap_or_default();
    let plain = PATHS.iter().map(|path| (*path, knobs(path)));
    let named = NAMED.iter().map(|named| (named.header, named.table().knobs()));
    plain.chain(named).chain([(NODE, Node::default().knobs())]).collect()
}

fn has_condition(table: &str, key: &str) -> bool {
    let conditions = CONDITIONS.iter().copied().flatten().filter(|condition| condition.table == table);
    conditions.into_iter().any(|condition| condition.keys.is_empty() || condition.keys.contains(&key))
}

fn is_always_used(table: &str, key: &str) -> bool {
    let is_listed = |(path, keys): &(&str, &[&str])| *path == table && keys.contains(&key);
    WHOLE.contains(&table) || ALWAYS.iter().any(is_listed)
}

/// A new key is put on one of the two lists.
#[test]
fn every_key_always_has_an_effect_or_has_a_condition() {
    for (table, knobs) in tables() {
        for Knob { key, .. } in knobs {
            let (always, sometimes) = (is_always_used(table, key), has_condition(table, key));
            assert!(always != sometimes, "{table}.{key}: always: {always}, with a condition: {sometimes}");
        }
    }
}

#[test]
fn lists_have_keys_of_the_reference_page_only() {
    let of_conditions =
        CONDITIONS.iter().copied().flatten().map(|condition| (condition.table, condition.keys));
    let whole = WHOLE.iter().map(|table| (*table, &[] as &[&str]));
    for (table, keys) in ALWAYS.iter().copied().chain(of_conditions).chain(whole) {
        let knobs = tables().into_iter().find(|(path, _)| *path == table).expect(table).1;
        for key in keys {
            assert!(knobs.iter().any(|knob| knob.key == *key), "{table}.{key}");
        }
    }
}

#[test]
fn a_key_whose_description_has_a_condition_is_refused_without_it() {
    for (table, knobs) in tables() {
        for knob in knobs {
            let (full, meaning) = (format!("{table}.{}", knob.key), knob.paragraph());
            if CONDITIONAL.iter().any(|words| meaning.contains(words)) && !OTHERWISE.contains(&&*full) {
                assert!(has_condition(table, knob.key), "{full}: {meaning}");
            }
        }
    }
}

/// Returns a line that sets a key to another value than its default.
fn line(table: &str, knob: &Knob) -> String {
    let values = [
        "true",
        "false",
        "1",
        "2",
        "8",
        "100",
        "4096",
        "65536",
        "1_048_576",
        "20_000_000",
        "0.25",
        "0.5",
        "1.5",
        "[1]",
        "[\"a\"]",
        "[\"A=b\"]",
        "[\"daq0:7000\"]",
        "[\"00 at 0\"]",
        "\"x\"",
        "\"daq0:7000\"",
        "\"https://s3.example.org\"",
        "\"u32 at 8\"",
        "\"1 us\"",
        "\"1 ppm\"",
    ];
    let words: Vec<String> =
        (knob.limits)().split('`').map(str::to_owned).filter(|it| it.starts_with('"')).collect();
    let mut lines =
        values.into_iter().map(str::to_owned).chain(words).map(|value| format!("{} = {value}\n", knob.key));
    let is_other = |line: &String| {
        let text = format!("[{table}]\n{line}");
        let document = crate::document::read(&text, "run.toml", Files::Refuse);
        document.errors.is_empty() && document.config.values() != Config::default().values()
    };
    lines.find(is_other).unwrap_or_else(|| panic!("no value suits {table}.{}", knob.key))
}

/// The first error of a configuration, as its key, its text and its remedy.
fn first(text: &str) -> Option<(String, String, String)> {
    let errors = Config::parse(text, "run.toml").err()?;
    let first = errors.errors().first()?;
    assert_eq!(first.kind, ErrorKind::NoEffect, "{first} in\n{text}");
    Some((first.key.clone(), first.found.clone(), first.right.clone()))
}

/// All keys that have no effect beside the defaults, one by one.
#[test]
fn each_key_is_refused_where_the_defaults_leave_it_without_effect() {
    let defaults = Config::default();
    let mut refused = 0;
    for (table, knobs) in
        tables().into_iter().filter(|(table, _)| !table.ends_with(".NAME") && *table != NODE)
    {
        let section = defaults.section(table).expect(table);
        for knob in knobs {
            let full = format!("{table}.{}", knob.key);
            let conditions = Place::of(&full).conditions().collect::<Vec<_>>();
            if conditions.iter().all(|condition| condition.acts.holds(&defaults, section)) {
                continue;
            }
            let text = format!("[{table}]\n{}", line(table, knob));
            let errors = Config::parse(&text, "run.toml").expect_err(&text);
            let of_key = errors.errors().iter().find(|error| full.starts_with(&error.key)).expect(&text);
            // Some have said so before, in their own words.
            if of_key.kind == ErrorKind::NoEffect {
                assert!(of_key.found.contains("has no effect"), "{of_key}");
                assert!(of_key.right.starts_with("remove it, or "), "{of_key}");
                assert_eq!(of_key.line(), Some(2), "{of_key}");
                refused += 1;
            }
        }
    }
    assert!(refused > 130, "{refused}");
}

#[test]
fn the_message_names_the_key_the_reason_and_the_remedy() {
    let (key, found, right) = first("[filter]\nprescale = 10\n").expect("it is refused");
    assert_eq!(key, "filter.prescale");
    assert_eq!(found, "`filter.prescale` has no effect: `filter.kind` is \"accept-all\"");
    assert_eq!(right, "remove it, or write `kind = \"prescale\"`");
    let (_, found, _) = first("[object_store]\nquiet_ms = 100\n").expect("it is refused");
    let output = "`output.kind` is \"file\", and `output.sync` is \"flush\"";
    assert_eq!(
        found,
        format!("`object_store.quiet_ms` has no effect, nor has any key of [object_store]: {output}")
    );
    let (_, found, _) = first("[trigger]\nseed = 7\n").expect("it is refused");
    assert_eq!(
        found,
        "`trigger.seed` has no effect: `trigger.mode` is \"free\", and there is no table [triggers.NAME]"
    );
    let (key, found, _) = first("[value.hv]\nperiod_ms = 200\n").expect("it is refused");
    assert_eq!(
        (&*key, &*found),
        ("value.hv.period_ms", "`value.hv.period_ms` has no effect: `read` is not set")
    );
    let (key, found, _) = first("[programs.tlu]\ncommand = [\"tlu\"]\n").expect("it is refused");
    assert_eq!(key, "programs.tlu");
    assert_eq!(found, "`programs.tlu` has no effect: `source.kind` is \"emulated\"");
}

/// Conditions that hold by default.
#[test]
fn keys_are_refused_where_another_key_takes_their_effect() {
    for (text, key) in [
        ("[builder]\ncheck_content = true\nread_payload = true\n", "builder.read_payload"),
        ("[source]\nkind = \"feed\"\n[source.emulated]\nseed = 7\n", "source.emulated.seed"),
        ("[source]\nkind = \"feed\"\n[trigger]\nmode = \"seen\"\nfirst_event = 7\n", "trigger.first_event"),
        ("[output]\nkind = \"none\"\nrotate_events = 7\n", "output.rotate_events"),
        ("[consumers]\nopen = false\nqueue_events = 7\n", "consumers.queue_events"),
        ("[trace]\nfile_bytes = 0\nsample = 7\n", "trace.sample"),
        ("[source.emulated]\nsize = \"fixed\"\nrms_bytes = 7\n", "source.emulated.rms_bytes"),
        (
            "[source]\nkind = \"emulated\"\nbuild_by = \"time\"\n[source.timed]\nfront_end = \"hits\"\n[source.free_running]\nflash_hz = 0\nflash_hits = 7\n",
            "source.free_running.flash_hits",
        ),
    ] {
        assert_eq!(first(text).map(|(key, ..)| key).as_deref(), Some(key), "{text}");
    }
}

#[test]
fn one_key_speaks_for_a_table_without_effect() {
    let text = "[source]\nkind = \"emulated\"\n[source.feed]\nwait = false\nmax_clients = 7\n[programs.a]\ncommand = [\"a\"]\n";
    let errors = Config::parse(text, "run.toml").expect_err("two tables have no effect");
    let keys: Vec<_> = errors.errors().iter().map(|error| &*error.key).collect();
    assert_eq!(keys.len(), 2, "{errors}");
    assert!(keys[0].starts_with("source.feed.") && keys[1] == "programs.a", "{errors}");
}

/// The record of a run has all keys.
#[test]
fn defaults_are_never_refused() {
    let text = "[filter]\nprescale = 1\n[source.feed]\nwait = true\n";
    assert_eq!(Config::parse(text, "run.toml"), Ok(Config::default()));
    assert!(Config::parse(&Config::default().to_toml(), "run.toml").is_ok());
}

#[test]
fn flags_may_take_the_effect_of_keys_in_the_file_and_the_result_can_be_read_again() {
    let text = "[source.emulated]\nseed = 7\n[trigger]\nfirst_event = 7\n";
    let changed = Config::parse_with(text, "run.toml", |config| config.set_replay(PathBuf::from("data")));
    let changed = changed.expect("the flag is meant");
    assert_eq!(changed.source.emulated.seed, 7);
    let again = Config::parse(&changed.to_toml(), "again.toml").expect("what has no effect is left out");
    assert_eq!((again.source.emulated.seed, again.source.kind), (1, changed.source.kind));
    assert!(Config::parse(&changed.to_short_toml(), "again.toml").is_ok());
}

#[test]
fn a_file_may_have_keys_for_flags_on_top_of_it() {
    let text = "[shaping]\ncredit_bytes = 2048\n";
    let paced = |config: &mut Config| config.shaping.policy = crate::ShapingPolicy::Paced;
    assert!(Config::parse_with(text, "run.toml", paced).is_ok());
    assert!(Config::parse(text, "run.toml").is_err());
}

#[test]
fn settings_on_top_must_have_an_effect() {
    let base = Base::read("[filter]\nkind = \"prescale\"\nprescale = 3\n", ("run.toml", Files::Refuse));
    let base = base.expect("the file is right");
    let set = |key: &str, value: &str| Setting { key: key.into(), value: value.into() };
    assert!(base.with(&[set("filter.kind", "busy")], |_| {}).is_ok(), "the row is meant");
    let errors = base.with(&[set("filter.kind", "busy"), set("filter.prescale", "9")], |_| {});
    let errors = errors.expect_err("the prescale of this row has no effect");
    let keys: Vec<_> = errors.errors().iter().map(|error| (error.kind, &*error.key)).collect();
    assert_eq!(keys, [(ErrorKind::NoEffect, "filter.prescale")]);
    assert!(errors.to_string().contains("--set"), "{errors}");
}

/// A system of two partitions with these settings each.
fn with_partitions(text: &str, sets: [&str; 2]) -> String {
    let part = |index: usize| {
        format!("[partition.p{index}]\nnodes = [\"ru{index}\", \"bu{index}\"]\nset = [{}]\n", sets[index])
    };
    format!("{text}[readout]\ncount = 2\n[builder]\ncount = 2\n{}{}", part(0), part(1))
}

#[test]
fn a_key_may_have_its_effect_in_a_partition() {
    let text = "[filter]\nprescale = 3\n";
    let good = with_partitions(text, ["\"filter.kind=prescale\"", ""]);
    let whole = Config::parse(&good, "run.toml").expect("it acts in p0");
    assert_eq!(Config::parse(&whole.to_toml(), "again.toml"), Ok(whole));
    for partition in ["p0", "p1"] {
        let chosen = |config: &mut Config| config.run.partition = Some(partition.into());
        let part = Config::parse_with(&good, "run.toml", chosen).expect(partition);
        assert!(Config::parse(&part.to_toml(), "again.toml").is_ok(), "{partition}");
    }
    assert!(Config::parse(&with_partitions(text, ["", ""]), "run.toml").is_err());
}

#[test]
fn a_setting_of_a_partition_must_have_an_effect_there() {
    let text = with_partitions("", ["\"filter.prescale=3\"", "\"filter.kind=prescale\""]);
    let (key, found, _) = first(&text).expect("it acts in p1 only");
    assert_eq!(key, "partition.p0.set");
    assert!(found.starts_with("partition `p0`: `filter.prescale` has no effect"), "{found}");
}

#[test]
fn a_text_with_other_errors_is_not_judged() {
    let errors = Config::parse("[filter]\nkynd = \"prescale\"\nprescale = 3\n", "run.toml")
        .expect_err("a key is unknown");
    let kinds: Vec<_> = errors.errors().iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [ErrorKind::Unknown]);
}
