use super::*;
use proptest::prelude::*;

fn nanos(numerator: i128, denominator: i128) -> ExactNanos {
    ExactNanos::from_ratio(Ratio::new(numerator, denominator))
}

#[test]
fn durations_are_read_exactly_in_every_unit() {
    let read = [
        ("25 ns", nanos(25, 1)),
        ("25ns", nanos(25, 1)),
        ("25/16 ns", nanos(25, 16)),
        ("1562.5 ps", nanos(25, 16)),
        ("0.1 ns", nanos(1, 10)),
        ("1/0.78 ns", nanos(50, 39)),
        ("  -1_000.5  /  3 us ", nanos(-1_000_500, 3)),
        ("+1 fs", nanos(1, 1_000_000)),
        ("-1767225600.000000000001 s", nanos(-1_767_225_600_000_000_000_001, 1_000)),
        ("0 ns", ExactNanos::ZERO),
    ];
    for (text, expected) in read {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    for text in [
        "",
        "ns",
        "25",
        "25 n",
        "25 Ns",
        "1/0 ns",
        "1/2/3 ns",
        "1/-2 ns",
        ". ns",
        "1. ns",
        ".5 ns",
        "1e3 ns",
        "_ ns",
        "--1 ns",
        "1 2 ns",
        "40 MHz",
        "9".repeat(50).as_str(),
        &format!("{} s", "9".repeat(40)),
        &format!("0.{}1 fs", "0".repeat(40)),
        "25 ns 1",
    ] {
        assert_eq!(text.parse::<ExactNanos>(), Err(ExactError::Duration), "{text}");
    }
}

#[test]
fn a_period_may_be_a_rate() {
    let period = ExactNanos::parse_period;
    assert_eq!(period("40 MHz"), Ok(nanos(25, 1)));
    assert_eq!(period("400/9 MHz"), Ok(nanos(45, 2)));
    assert_eq!(period("0.78 GHz"), Ok(nanos(50, 39)));
    assert_eq!(period("1 Hz"), Ok(nanos(1_000_000_000, 1)));
    assert_eq!(period("22.5 ns"), Ok(nanos(45, 2)));
    assert_eq!(period("0 MHz"), Err(ExactError::Period));
    assert_eq!(period("40 mhz"), Err(ExactError::Period));
}

#[test]
fn durations_are_shown_in_the_unit_that_fits() {
    let shown = [
        (nanos(25, 1), "25 ns"),
        (nanos(25_000, 1), "25 us"),
        (nanos(25, 16), "1.5625 ns"),
        (nanos(-45, 2), "-22.5 ns"),
        (nanos(1, 10), "100 ps"),
        (nanos(-1, 2), "-500 ps"),
        (nanos(7, 2_000), "3.5 ps"),
        (nanos(400, 9), "400/9 ns"),
        (nanos(1, 9), "1/9 ns"),
        (ExactNanos::ZERO, "0 ns"),
        (nanos(60_000_000_000, 1), "60 s"),
    ];
    for (duration, text) in shown {
        assert_eq!(duration.to_string(), text);
    }
}

#[test]
fn a_fast_clock_has_short_ticks() {
    let drift: ClockDrift = "1 ppm".parse().unwrap();
    assert_eq!(drift.tick(nanos(1_000_001, 1_000)), Some(nanos(1_000, 1)));
    assert_eq!("-20 ppb".parse::<ClockDrift>().unwrap().to_string(), "-0.02 ppm");
    assert_eq!("1/3 ppm".parse::<ClockDrift>().unwrap().to_string(), "1/3 ppm");
    assert_eq!(ClockDrift::ZERO.tick(nanos(25, 16)), Some(nanos(25, 16)));
    assert_eq!("-1000000 ppm".parse::<ClockDrift>().unwrap().tick(nanos(1, 1)), None, "it stands still");
    for text in ["1", "1 ns", "ppm", "1 %"] {
        assert_eq!(text.parse::<ClockDrift>(), Err(ExactError::Drift), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_shown_is_read_again(numerator in any::<i64>(), denominator in 1..=i64::MAX, small in 1..10_000_i64) {
        for denominator in [denominator, small, 1, 16, 1_000] {
            let duration = nanos(i128::from(numerator), i128::from(denominator));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
        let drift = ClockDrift::from_ratio(Ratio::new(i128::from(numerator), i128::from(small) * 1_000_000));
        prop_assert_eq!(drift.to_string().parse(), Ok(drift));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,40}", digits in "[-+0-9._/ ]{0,60}(ns|ps|s|MHz|ppm|ppb)") {
        for text in [text, digits] {
            let _ = text.parse::<ExactNanos>();
            let _ = text.parse::<ClockDrift>();
            let _ = ExactNanos::parse_period(&text);
        }
    }
}
