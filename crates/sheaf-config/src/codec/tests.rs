use super::text::Text;
use super::*;
use sheaf_wire::{ClockDrift, ExactNanos, Nanos, SourceId};
use toml::de::DeTable;

/// Reads `text` as a value.
fn read<C: Codec>(codec: &C, text: &str) -> Result<C::Value, Refusal> {
    let line = format!("key = {text}\n");
    let table = DeTable::parse(&line).unwrap();
    codec.read(table.get_ref().get("key").unwrap().get_ref())
}

#[test]
fn integers_are_read_in_every_way_that_toml_writes_them_and_within_their_limits() {
    let codec = whole::<u16>(10, 70_000);
    for (text, number) in [("10", 10), ("+1_000", 1_000), ("0xffff", 65_535), ("0b1011", 11), ("0o17", 15)] {
        assert_eq!(read(&codec, text), Ok(number), "{text}");
    }
    // The last is within the limits but not in the type.
    for text in ["9", "-10", "70001", "99999999999999999999999999999999999999999999", "65536"] {
        assert_eq!(read(&codec, text), Err(Refusal::Value), "{text}");
    }
    for text in ["10.0", "\"10\"", "true", "[10]", "1979-05-27"] {
        assert_eq!(read(&codec, text), Err(Refusal::Type), "{text}");
    }
}

#[test]
fn times_are_read_to_the_nanosecond() {
    let codec = seconds(Nanos(1), Nanos::from_secs(8_640_000));
    let nanos = [
        ("8388672.624470635", 8_388_672_624_470_635),
        ("8388672.624470634", 8_388_672_624_470_634),
        ("0.000_000_001", 1),
        ("2", 2_000_000_000),
        ("1_0", 10_000_000_000),
        ("0x10", 16_000_000_000),
        ("1e-3", 1_000_000),
        ("+1.5", 1_500_000_000),
        ("0.0000000014", 1),
    ];
    for (text, nanos) in nanos {
        assert_eq!(read(&codec, text), Ok(Nanos(nanos)), "{text}");
    }
    for text in ["0", "-1", "-0.5", "8640000.000000001", "1e300", "inf", "nan", "99999999999999999999"] {
        assert_eq!(read(&codec, text), Err(Refusal::Value), "{text}");
    }
    assert_eq!(codec.write(&Nanos(8_388_672_624_470_635)).as_deref(), Some("8388672.624470635"));
    assert_eq!(codec.write(&Nanos::from_secs(100)).as_deref(), Some("100"));
    assert_eq!(milliseconds(Nanos(0), Nanos::MAX).write(&Nanos(1_500)).as_deref(), Some("0.0015"));
}

#[test]
fn periods_are_read_exactly_as_durations_or_rates() {
    let codec = period();
    let exact = |text: &str| Ok(text.parse::<ExactNanos>().unwrap());
    for (text, meant) in [
        ("25 ns", "25 ns"),
        ("25/16 ns", "1562.5 ps"),
        ("1562.5 ps", "25/16 ns"),
        ("400/9 MHz", "22.5 ns"),
        ("1 s", "1 s"),
    ] {
        let read = read(&codec, &quote(text));
        assert_eq!(read, exact(meant), "{text}");
        let written = codec.write(&read.unwrap()).unwrap();
        assert_eq!(self::read(&codec, &written), exact(meant), "{written}");
    }
    for text in ["0 ns", "-1 ns", "1.000001 s", "0 MHz", "0.9 Hz", "25", "1.5 ppm"] {
        assert_eq!(read(&codec, &quote(text)), Err(Refusal::Value), "{text}");
    }
    assert_eq!(read(&codec, "25"), Err(Refusal::Type), "without a unit");
}

#[test]
fn offsets_and_drifts_have_a_sign_and_a_bound() {
    let years = exact_time(200);
    assert_eq!(read(&years, "\"-350 ns\""), Ok(ExactNanos::from_nanos(-350)));
    assert_eq!(read(&years, "\"-6307200000.1 s\""), Err(Refusal::Value));
    assert!(read(&years, "\"-6307200000 s\"").is_ok());
    assert_eq!(read(&years, "\"40 MHz\""), Err(Refusal::Value), "a rate is no offset");
    assert_eq!(years.write(&ExactNanos::from_nanos(-350)).as_deref(), Some("\"-350 ns\""));
    assert_eq!(read(&drift(), "\"-10000 ppm\""), Ok(ClockDrift::from_ppm(-10_000)));
    assert_eq!(read(&drift(), "\"10000001 ppb\""), Err(Refusal::Value));
    assert_eq!(read(&drift(), "1.5"), Err(Refusal::Type));
    assert_eq!(drift().write(&ClockDrift::from_ppm(3)).as_deref(), Some("\"3 ppm\""));
}

#[test]
fn units_and_epochs_are_read_and_written() {
    let unit = read(&time_unit(), "\"1562.5 ps\"").unwrap();
    assert_eq!((unit.fraction(), time_unit().write(&unit).as_deref()), ((25, 16), Some("\"1.5625 ns\"")));
    for text in ["\"0 ns\"", "\"-1 ns\"", "\"1/4294967296 ns\"", "\"40 MHz\""] {
        assert_eq!(read(&time_unit(), text), Err(Refusal::Value), "{text}");
    }
    let epoch = read(&utc_time(), "\"2026-01-01T00:00:00.5Z\"").unwrap();
    assert_eq!(utc_time().write(&epoch).as_deref(), Some("\"2026-01-01T00:00:00.5Z\""));
    assert_eq!(read(&utc_time(), "\"2026-01-01\""), Err(Refusal::Value));
    assert_eq!(read(&utc_time(), "0"), Err(Refusal::Type));
}

#[test]
fn zero_is_none_only_where_zero_is_written() {
    let codec = zero_is_none(seconds(Nanos(5), Nanos::from_secs(1)));
    assert_eq!(read(&codec, "0"), Ok(None));
    assert_eq!(read(&codec, "0.0"), Ok(None));
    assert_eq!(read(&codec, "-0.0"), Ok(None));
    assert_eq!(read(&codec, "0.000000001"), Err(Refusal::Value), "below the minimum is not none");
    let codec = zero_is_none(whole::<u32>(5, 9));
    assert_eq!(read(&codec, "0"), Ok(None));
    assert_eq!(read(&codec, "7"), Ok(Some(7)));
    assert_eq!(read(&codec, "0.0"), Err(Refusal::Type));
    assert_eq!(read(&codec, "4"), Err(Refusal::Value));
}

#[test]
fn lists_take_numbers_and_ranges_and_refuse_what_is_twice_or_without_end() {
    let codec = id_list::<SourceId>(u64::from(u32::MAX));
    let ids = |numbers: &[u32]| Ok(numbers.iter().copied().map(SourceId).collect::<Vec<_>>());
    assert_eq!(read(&codec, "[]"), ids(&[]));
    assert_eq!(read(&codec, "[7, \"1-3\", \"4294967295\", \" 9 - 9 \"]"), ids(&[7, 1, 2, 3, u32::MAX, 9]));
    for text in [
        "[1, 1]",
        "[2, \"1-3\"]",
        "[\"3-1\"]",
        "[\"\"]",
        "[\"1-\"]",
        "[\"-1\"]",
        "[\"1-2-3\"]",
        "[\"+1\"]",
        "[-1]",
    ] {
        assert_eq!(read(&codec, text), Err(Refusal::Value), "{text}");
    }
    for text in
        ["[\"0-4294967295\"]", "[\"0-65536\"]", "[70000, \"0-65535\"]", "[\"0-99999999999999999999\"]"]
    {
        assert_eq!(read(&codec, text), Err(Refusal::Value), "too many: {text}");
    }
    assert_eq!(read(&codec, "[\"0-65535\"]").map(|list| list.len()), Ok(65_536));
    for text in ["3", "[1.5]", "[[1]]"] {
        assert_eq!(read(&codec, text), Err(Refusal::Type), "{text}");
    }
    assert_eq!(read(&codec, "\"5-8, 70000-70001 , !6\""), ids(&[5, 7, 8, 70_000, 70_001]));
    assert_eq!(read(&codec, "[\"!2-3\", \"1-4\", 9]"), ids(&[1, 4, 9]), "wherever it is written");
    for text in [
        "\"!1\"",
        "\"1-3, !4\"",
        "\"1-3, !2, !2\"",
        "\"1-3,\"",
        "\"1-3, !\"",
        "\"!!1, 1\"",
        "\"1, 1, !1\"",
        "\"\"",
    ] {
        assert_eq!(read(&codec, text), Err(Refusal::Value), "{text}");
    }
    let list: Vec<SourceId> = [3, 4, 5, 1, 9, 8].map(SourceId).to_vec();
    assert_eq!(codec.write(&list).as_deref(), Some("[\"3-5\", 1, 9, 8]"), "in the order of the list");
}

#[test]
fn addresses_are_host_and_port() {
    let codec = address();
    for text in
        ["a:1", "daq-0.example.org:65535", "127.0.0.1:7000", "[::1]:7000", "[fe80::1]:1", "[fe80::1%2]:1"]
    {
        assert!(codec.accepts(&text.to_owned()), "{text}");
    }
    for text in [
        "",
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a b:1",
        "::1:7000",
        "[::1:7000",
        "[a]:1",
        "a:+1",
        "a:1:2",
        "a/b:1",
    ] {
        assert!(!codec.accepts(&text.to_owned()), "{text}");
    }
}

#[test]
fn a_list_of_addresses_has_each_once() {
    let codec = address_list();
    let list = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(read(&codec, "[]"), Ok(list(&[])));
    let two = list(&["10.0.0.1:1", "[::1]:2"]);
    assert_eq!(read(&codec, "['10.0.0.1:1', '[::1]:2']"), Ok(two.clone()));
    assert_eq!(read(&codec, &codec.write(&two).unwrap()), Ok(two));
    for text in ["['a:1', 'a:1']", "['a']", "['a:0']"] {
        assert_eq!(read(&codec, text), Err(Refusal::Value), "{text}");
    }
    for text in ["'a:1'", "[1]"] {
        assert_eq!(read(&codec, text), Err(Refusal::Type), "{text}");
    }
}

#[test]
fn text_survives_quoting() {
    for text in ["plain", "with \"quotes\" and \\ and 'these'", "line\nbreak\ttab\r", "\u{0}\u{7f}é\u{1f600}"]
    {
        assert_eq!(read(&name_of_anything(), &quote(text)), Ok(text.to_owned()));
    }
}

fn name_of_anything() -> Text {
    Text { limits: "anything", accepts: |_| true }
}

#[test]
fn sizes_are_shown_as_people_say_them() {
    assert_eq!(show_bytes(0), "0");
    assert_eq!(show_bytes(1_000), "1000");
    assert_eq!(show_bytes(1_024), "1024 (1 KiB)");
    assert_eq!(show_bytes(3 << 30), "3221225472 (3 GiB)");
    assert_eq!(show_bytes(1 << 40), "1099511627776 (1 TiB)");
}
