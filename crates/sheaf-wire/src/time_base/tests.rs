use super::*;
use proptest::prelude::*;

/// Returns any time base, or none.
pub(crate) fn any_time_base() -> impl Strategy<Value = Option<TimeBase>> {
    proptest::option::of((1..=u32::MAX, 1..=u32::MAX, any::<Option<i64>>()).prop_map(
        |(numerator, denominator, epoch)| {
            let ratio = Ratio::new(i128::from(numerator), i128::from(denominator));
            let unit = TimeUnit::new(ExactNanos::from_ratio(ratio)).expect("32 bits");
            TimeBase { unit, epoch: epoch.map(UtcTime::from_nanos) }
        },
    ))
}

fn unit(text: &str) -> TimeUnit {
    TimeUnit::new(text.parse().unwrap()).unwrap()
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_709_251_199, "2024-02-29T23:59:59Z"),
        (1_767_225_600, "2026-01-01T00:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        let time = UtcTime::from_nanos(seconds * SECOND_NS);
        assert_eq!(time.to_string(), text);
        assert_eq!(text.parse(), Ok(time));
    }
    assert_eq!("2026-01-01T00:00:00.000000025Z".parse(), Ok(UtcTime::from_nanos(1_767_225_600_000_000_025)));
    for text in [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.0000000001Z",
        "2026-1-01T00:00:00Z",
        "2026-01-01T00:00Z",
        "1600-01-01T00:00:00Z",
        "2026-01-01T00:00:00+01:00",
        "2026-01-01T00:00:0+Z",
    ] {
        assert_eq!(text.parse::<UtcTime>(), Err(NotUtcTime), "{text}");
    }
}

#[test]
fn a_unit_has_numbers_of_32_bits() {
    assert_eq!(unit("25/16 ns").fraction(), (25, 16));
    assert_eq!(unit("1562.5 ps"), unit("25/16 ns"));
    assert_eq!(unit("1 fs").fraction(), (1, 1_000_000));
    assert_eq!(TimeUnit::new("1/4294967296 ns".parse().unwrap()), None);
    assert_eq!(TimeUnit::new(ExactNanos::ZERO), None);
    assert_eq!(TimeUnit::new("-1 ns".parse().unwrap()), None);
    assert_eq!(
        (unit("0.1 ns").nanos(29), unit("25/16 ns").nanos(3), unit("2 s").nanos(u64::MAX)),
        (2, 4, u64::MAX)
    );
}

#[test]
fn a_time_base_is_shown_with_its_epoch() {
    let epoch = "2026-01-01T00:00:00Z".parse().ok();
    assert_eq!(
        TimeBase { unit: unit("25/16 ns"), epoch }.to_string(),
        "1.5625 ns since 2026-01-01T00:00:00Z"
    );
    assert_eq!(TimeBase::NANOSECONDS.to_string(), "1 ns since an unknown time");
}

#[test]
fn units_that_are_zero_or_not_reduced_are_refused() {
    let good = TimeBase { unit: unit("25/16 ns"), epoch: None }.to_bytes();
    let with = |numerator: u32, denominator: u32| {
        TimeBase::from_bytes(&TimeBaseBytes {
            numerator: numerator.into(),
            denominator: denominator.into(),
            ..good
        })
    };
    assert_eq!(with(25, 16), Ok(TimeBase { unit: unit("25/16 ns"), epoch: None }));
    for (numerator, denominator) in [(0, 1), (1, 0), (2, 4), (0, 0)] {
        assert!(with(numerator, denominator).is_err(), "{numerator}/{denominator}");
    }
}

proptest! {
    #[test]
    fn a_time_base_comes_back_from_its_bytes(base in any_time_base()) {
        let base = base.unwrap_or(TimeBase::NANOSECONDS);
        prop_assert_eq!(TimeBase::from_bytes(&base.to_bytes()), Ok(base));
    }

    #[test]
    fn times_are_read_as_they_are_shown(nanos in -9_000_000_000_000_000_000..9_000_000_000_000_000_000_i64) {
        let time = UtcTime::from_nanos(nanos);
        prop_assert_eq!(time.to_string().parse(), Ok(time));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[-0-9T:.Zé]{0,40}") {
        let _ = text.parse::<UtcTime>();
    }
}

#[test]
fn times_of_the_system_count_units_since_the_epoch() {
    let now = Timestamp(1_767_225_600 * 1_000_000_000 + 150);
    let at = |unit_text: &str, epoch: Option<&str>| {
        let epoch = epoch.map(|text| text.parse().unwrap());
        TimeBase { unit: unit(unit_text), epoch }.at_system_time(now).0
    };
    assert_eq!(at("1 ns", None), now.0);
    assert_eq!(at("100 ns", None), now.0 / 100);
    assert_eq!(at("25/16 ns", Some("2026-01-01T00:00:00Z")), 96);
    assert_eq!(at("1 ns", Some("2026-01-01T00:00:01Z")), 0, "before the epoch");
    assert_eq!(at("1 ps", None), u64::MAX, "more than 64 bits");
    assert_eq!(at("1 ps", Some("2026-01-01T00:00:00Z")), 150_000);
}
