use super::*;
use proptest::prelude::*;

fn clock(bits: u32, tick_ps: u64, offset_ps: i64) -> Clock {
    Clock::new(ClockConfig { tick: Picos(tick_ps), bits, offset_ps }).unwrap()
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
    let config = ClockConfig { tick: Picos(1), bits: 0, offset_ps: 0 };
    assert_eq!(Clock::new(config).unwrap_err(), ClockError::Width(0));
    assert_eq!(Clock::new(ClockConfig { bits: 65, ..config }).unwrap_err(), ClockError::Width(65));
    let standing = ClockConfig { bits: 64, tick: Picos::ZERO, ..config };
    assert_eq!(Clock::new(standing).unwrap_err(), ClockError::NoTick);
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
        tick in 1..=u64::MAX,
        offset in any::<i64>(),
        readings in prop::collection::vec(any::<u64>(), 0..100),
    ) {
        let mut clock = clock(bits, tick, offset);
        for reading in readings {
            let _ = clock.read(reading);
            let _ = clock.read(reading & (u64::MAX >> (64 - bits)));
        }
    }
}
