use super::*;
use num_bigint::BigInt;
use num_rational::Ratio;
use proptest::prelude::*;

fn clock(bits: u32, tick_ps: i64, offset_ps: i64) -> Clock {
    let (tick, offset) = (ExactNanos::from_picos(tick_ps), ExactNanos::from_picos(offset_ps));
    Clock::new(ClockConfig { tick, drift: ClockDrift::ZERO, bits, offset }).unwrap()
}

fn nanos(text: &str) -> ExactNanos {
    ExactNanos::parse_period(text).unwrap()
}

#[test]
fn time_continues_when_a_counter_rolls_over() {
    let mut clock = clock(8, 22_500, 0);
    let ticks = [250, 255, 3, 130].map(|reading| clock.read(reading).unwrap().0 / 22_500);
    assert_eq!(ticks, [250, 255, 259, 386]);
}

#[test]
fn a_late_reading_from_before_the_roll_over_is_in_the_previous_lap() {
    let mut clock = clock(8, 1, 0);
    let ticks = [255, 3, 254, 4].map(|reading| clock.read(reading).unwrap().0);
    assert_eq!(ticks, [255, 259, 254, 260]);
}

#[test]
fn an_offset_shifts_a_clock_and_readings_before_the_timeline_are_refused() {
    let mut clock = clock(16, 1_000, -5_000);
    assert_eq!(clock.read(7), Ok(Moment(2_000)));
    assert_eq!(clock.read(4), Err(ClockError::OffTimeline { reading: 4, lap: 0 }));
    assert_eq!(clock.read(65_536), Err(ClockError::TooLarge { reading: 65_536, bits: 16 }));
    assert_eq!(clock.read(8), Ok(Moment(3_000)), "refused readings change nothing");
}

#[test]
fn invalid_configurations_are_refused() {
    let tick = nanos("1 ps");
    let config = ClockConfig { tick, drift: ClockDrift::ZERO, bits: 0, offset: ExactNanos::ZERO };
    assert_eq!(Clock::new(config).unwrap_err(), ClockError::Width(0));
    assert_eq!(Clock::new(ClockConfig { bits: 65, ..config }).unwrap_err(), ClockError::Width(65));
    for tick in [ExactNanos::ZERO, ExactNanos::from_nanos(-1)] {
        let standing = ClockConfig { bits: 64, tick, ..config };
        assert_eq!(Clock::new(standing).unwrap_err(), ClockError::NoTick(tick));
    }
    let (tick, offset) = (nanos("1/4611686018427387847 ns"), nanos("1/4611686018427387761 ns"));
    let too_fine = ClockConfig { bits: 64, tick, offset, ..config };
    assert!(matches!(Clock::new(too_fine), Err(ClockError::TooFine { .. })));
}

#[test]
fn ticks_that_are_no_whole_picoseconds_do_not_drift_from_the_truth_over_a_hundred_days() {
    let config =
        ClockConfig { tick: nanos("25/16 ns"), drift: ClockDrift::ZERO, bits: 64, offset: ExactNanos::ZERO };
    let mut clock = Clock::new(config).unwrap();
    let ticks = 100 * 86_400 * 640_000_000_u64;
    assert_eq!(clock.read(ticks), Ok(Moment(100 * 86_400 * 1_000_000_000_000)));
    assert_eq!(clock.read(ticks + 1), Ok(Moment(100 * 86_400 * 1_000_000_000_000 + 1_562)));
    assert_eq!(clock.read(ticks + 2), Ok(Moment(100 * 86_400 * 1_000_000_000_000 + 3_125)));
}

#[test]
fn a_drift_is_corrected_exactly() {
    // A clock of 10 MHz that is fast by 3 ppm, for a day.
    let drift = "3 ppm".parse().unwrap();
    let mut clock =
        Clock::new(ClockConfig { tick: nanos("10 MHz"), drift, bits: 40, offset: ExactNanos::ZERO }).unwrap();
    let day = 86_400_u64;
    assert_eq!(clock.read(day * 10_000_030), Ok(Moment(day * 1_000_000_000_000)));
}

#[test]
fn readings_since_an_epoch_long_ago_fit_with_an_offset() {
    // Units of 0.1 ns since 1970, for a run that began in 2026.
    let begin = 1_767_225_600_u64;
    let offset = "-1767225600 s".parse().unwrap();
    let config = ClockConfig { tick: nanos("0.1 ns"), drift: ClockDrift::ZERO, bits: 64, offset };
    let mut clock = Clock::new(config).unwrap();
    assert_eq!(clock.read(begin * 10_000_000_000 + 7), Ok(Moment(700)));
}

proptest! {
    #[test]
    fn steps_below_half_the_range_in_either_direction_are_followed(
        bits in 4..=63_u32,
        steps in prop::collection::vec((0..1000_u64, 0..400_u64), 1..200),
    ) {
        let range = 1_u128 << bits;
        let mut clock = clock(bits, 1, 0);
        let mut forward = 0_u128;
        for (ahead, back) in steps {
            // Forward by up to a quarter of the range, and a late reading by less than that.
            forward += range / 4 * u128::from(ahead) / 1000;
            let truth = forward.saturating_sub(range / 4 * u128::from(back) / 1000);
            let Ok(expected) = u64::try_from(truth) else { break };
            let reading = u64::try_from(truth % range).unwrap();
            prop_assert_eq!(clock.read(reading).unwrap(), Moment(expected));
            prop_assert!(clock.read(u64::try_from(forward % range).unwrap()).is_ok() || forward > u128::from(u64::MAX));
        }
    }

    #[test]
    fn no_reading_makes_a_clock_panic(
        bits in 1..=64_u32,
        tick in 1..=i64::MAX,
        offset in any::<i64>(),
        readings in prop::collection::vec(any::<u64>(), 0..100),
    ) {
        let mut clock = clock(bits, tick, offset);
        for reading in readings {
            let _ = clock.read(reading);
            let _ = clock.read(reading & (u64::MAX >> (64 - bits)));
        }
    }

    #[test]
    fn moments_are_those_of_big_integers_and_never_go_back(
        tick in (1..=1_000_000_u64, prop_oneof![1..=1_000_u64, 1..=1_000_000_u64]),
        ppb in -1_000_000..1_000_000_i64,
        offset in (any::<i32>(), 1..1_000_u64),
        readings in prop::collection::vec(prop_oneof![any::<u64>(), 0..1_000_000_u64, u64::MAX - 1_000..=u64::MAX], 1..50),
    ) {
        let ratio = |numerator: i64, denominator: u64| Ratio::new(i128::from(numerator), i128::from(denominator));
        let config = ClockConfig {
            tick: ExactNanos::from_ratio(ratio(tick.0 as i64, tick.1)),
            drift: ClockDrift::from_ratio(ratio(ppb, 1_000_000_000)),
            bits: 64,
            offset: ExactNanos::from_ratio(ratio(i64::from(offset.0), offset.1)),
        };
        // Picoseconds: (1000 * tick * 10^9 / (10^9 + ppb)) * reading + 1000 * offset, over the common denominator.
        let of_tick = BigInt::from(tick.1) * (1_000_000_000 + ppb);
        let of_offset = BigInt::from(offset.1);
        let mut readings = readings;
        readings.sort_unstable();
        let mut last = None;
        for reading in readings {
            // A clock of its own: the readings are all in lap 0.
            let mut clock = Clock::new(config).unwrap();
            let numerator = BigInt::from(1_000_000_000_000_u64) * tick.0 * reading * &of_offset
                + BigInt::from(1_000) * offset.0 * &of_tick;
            let denominator = &of_tick * &of_offset;
            let expected = (numerator >= BigInt::ZERO).then(|| numerator / denominator).and_then(|ps| u64::try_from(ps).ok());
            let moment = clock.read(reading).ok();
            prop_assert_eq!(moment, expected.map(Moment), "reading {}", reading);
            prop_assert!(moment.is_none() || last <= moment, "{:?} after {:?}", moment, last);
            last = moment.or(last);
        }
    }
}

/// Pulses each second, without delay.
const PULSES: PulseConfig = PulseConfig {
    period: ExactNanos::from_nanos(1_000_000_000),
    delay: ExactNanos::ZERO,
    tolerance: ClockDrift::ZERO,
};

fn following(config: ClockConfig, delay: &str, tolerance_ppm: i32) -> Clock {
    let delay = delay.parse().unwrap();
    Clock::following(config, PulseConfig { delay, tolerance: ClockDrift::from_ppm(tolerance_ppm), ..PULSES })
        .unwrap()
}

/// A counter of 10 MHz.
fn ten_megahertz(bits: u32) -> ClockConfig {
    ClockConfig { tick: nanos("10 MHz"), drift: ClockDrift::ZERO, bits, offset: ExactNanos::ZERO }
}

const SECOND_PS: u64 = 1_000_000_000_000;

#[test]
fn pulses_set_time_and_rate_of_a_clock() {
    let mut clock = following(ten_megahertz(64), "350 ns", 100);
    assert_eq!(clock.read(5), Err(ClockError::NoPulse(5)));
    // It is the pulse of second 2, although the configured offset makes it 2.3 s. The counter is fast by 20 ppm.
    assert_eq!(clock.pulse(23_000_000), Ok(Moment(2 * SECOND_PS + 350_000)));
    assert_eq!(clock.read(23_000_010), Ok(Moment(2 * SECOND_PS + 350_000 + 1_000_000)));
    assert_eq!(clock.pulse(33_000_200), Ok(Moment(3 * SECOND_PS + 350_000)));
    assert_eq!(
        clock.read(38_000_300),
        Ok(Moment(3 * SECOND_PS + SECOND_PS / 2 + 350_000)),
        "the measured rate"
    );
    assert_eq!(clock.read(28_000_100), Ok(Moment(2 * SECOND_PS + SECOND_PS / 2 + 350_000)), "a late reading");
    assert_eq!(clock.pulse(63_000_800), Ok(Moment(6 * SECOND_PS + 350_000)), "pulses may be missing");
}

#[test]
fn pulses_at_another_time_are_refused() {
    let mut clock = following(ten_megahertz(64), "0 s", 100);
    assert_eq!(clock.pulse(0), Ok(Moment::ZERO));
    let unexpected = PulseError::Unexpected { read: Moment(SECOND_PS + 200_000_000), due: Moment(SECOND_PS) };
    assert_eq!(clock.pulse(10_002_000), Err(unexpected), "200 ppm");
    assert_eq!(clock.pulse(0), Err(PulseError::NotLater(Moment::ZERO)));
    assert_eq!(clock.pulse(10_001_002), Ok(Moment(SECOND_PS)), "100 ppm and the ticks of two readings");
    assert_eq!(clock.pulse(10_001_002), Err(PulseError::NotLater(Moment(SECOND_PS))));
    let mut early =
        following(ClockConfig { offset: "-1 us".parse().unwrap(), ..ten_megahertz(64) }, "0 s", 100);
    assert_eq!(early.pulse(5), Ok(Moment::ZERO), "500 ns before time 0, by its offset");
    assert_eq!(early.read(6), Ok(Moment(100_000)));
    assert_eq!(super::Clock::new(ten_megahertz(64)).unwrap().pulse(0), Err(PulseError::NoPeriod));
    let standing = PulseConfig { period: ExactNanos::ZERO, ..PULSES };
    let refused = Clock::following(ten_megahertz(64), standing).unwrap_err();
    assert_eq!(refused, ClockError::NoPeriod(ExactNanos::ZERO));
}

#[test]
fn a_reset_continues_from_the_last_reading() {
    let mut clock = clock(16, 1_000, 0);
    assert_eq!(clock.read(40_000), Ok(Moment(40_000_000)));
    clock.reset(40_010).unwrap();
    assert_eq!(clock.read(5), Ok(Moment(40_015_000)));
    assert_eq!(clock.read(30_000), Ok(Moment(70_010_000)));
    assert_eq!(clock.read(60_000), Ok(Moment(100_010_000)));
    assert_eq!(clock.read(3), Ok(Moment((40_010 + 65_536 + 3) * 1_000)), "it rolls over as well");
    assert_eq!(clock.reset(1 << 16), Err(ClockError::TooLarge { reading: 1 << 16, bits: 16 }));
}

proptest! {
    /// A counter of any width whose rate wanders, which is reset now and then, in which pulses are missing: its readings are at most a few
    /// ticks, and the wandering of a period, from the truth.
    #[test]
    fn a_clock_that_follows_pulses_stays_with_the_truth(
        bits in 26..=64_u32,
        first_ppm in -80..80_i64,
        steps in prop::collection::vec((-1..=1_i64, 1..4_u32, any::<bool>(), prop::collection::vec(0..1_000_u64, 0..5)), 1..30),
    ) {
        let mut clock = following(ten_megahertz(bits), "0 s", 200);
        // The counter had a reading at time 0; counts are in millionths of a tick.
        let (mut ppm, mut counted, mut reset, mut second) = (first_ppm, 0_i128, 0_i128, 0_u64);
        let tick = 1_000_000_i128;
        let reading = |counted: i128, reset: i128| ((counted / tick - reset) as u128 % (1_u128 << bits)) as u64;
        prop_assert_eq!(clock.pulse(0), Ok(Moment::ZERO));
        let mut is_first = true;
        for (wander, periods, resets, hits) in steps {
            for period in 0..periods {
                let rate = 10_000_000 * (1_000_000 + i128::from(ppm));
                for per_mille in &hits {
                    let at = counted + rate * i128::from(*per_mille) / 1_000;
                    let truth = second * SECOND_PS + per_mille * SECOND_PS / 1_000;
                    let read = clock.read(reading(at, reset)).unwrap();
                    // Before the second pulse, the rate is not known.
                    let allowed_ppm = if is_first { 100 } else { 2 * u64::from(period + 1) };
                    let allowed = allowed_ppm * 1_000_000 * u64::from(period + 1) + 400_000;
                    prop_assert!(read.0.abs_diff(truth) <= allowed, "{} ps off", read.0.abs_diff(truth));
                }
                counted += rate;
                second += 1;
            }
            prop_assert_eq!(clock.pulse(reading(counted, reset)), Ok(Moment(second * SECOND_PS)));
            if resets {
                clock.reset(reading(counted, reset)).unwrap();
                reset = counted / tick;
            }
            ppm += wander;
            is_first = false;
        }
    }
}
