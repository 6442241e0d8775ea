//! Front ends whose clocks follow pulses.

use super::*;
use sheaf_time::clock::PulseConfig;

const PULSE: u64 = 9;

/// Frames with pulses, which may reset the counter.
fn with_pulses(resets: bool) -> HitDescription {
    let mut layout = rich();
    if let Some(kinds) = &mut layout.kinds {
        kinds.pulses = vec![PULSE];
        kinds.resets = if resets { vec![PULSE] } else { Vec::new() };
    }
    layout
}

fn pulses(period_us: i64, delay_ns: i64) -> PulseConfig {
    PulseConfig {
        period: ExactNanos::from_nanos(period_us * 1_000),
        delay: ExactNanos::from_nanos(delay_ns),
        tolerance: ClockDrift::from_ppm(500),
    }
}

/// Returns the hits ordered by their numbers, and then by time.
fn by_numbers(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_unstable_by_key(|hit| (hit.channel, hit.value, hit.extra, hit.time_ps));
    hits
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    /// The reader knows neither the drift nor, within half a period, the offset: the pulses tell them.
    #[test]
    fn pulses_tell_drift_and_offset(
        seed in any::<u64>(),
        place in 0..5_u32,
        tick_ps in 4_000..60_000_i64,
        ppm in -300..300_i32,
        offset_us in -800..700_i64,
        (period_us, delay_ns) in (2_000..4_000_i64, -100_000..100_000_i64),
        resets in any::<bool>(),
        disorder_frames in 0..3_u32,
        frames in 1..120_u64,
    ) {
        let detector = Arc::new(Detector::new(detector(seed, 5)).unwrap());
        let layout = Arc::new(with_pulses(resets));
        let source = SourceId(place * 3 + 1);
        let feed = FeedConfig {
            tick: ExactNanos::from_picos(tick_ps),
            offset: ExactNanos::from_nanos(offset_us * 1_000),
            pulses: Some(pulses(period_us, delay_ns)),
            ..feed(source)
        };
        let emulated = FeedConfig { drift: ClockDrift::from_ppm(ppm), ..feed };
        let disorder_frames = if resets { 0 } else { disorder_frames };
        let config = FrameSourceConfig { frames: Some(frames), disorder_frames, pace: FramePace::FullSpeed };
        let frame_source = FrameSource::new(Arc::clone(&detector), Arc::clone(&layout), &emulated, config).unwrap();
        let first_seen = frame_source.first_seen();
        let decoder = Box::new(HitRecords::new(layout).unwrap());
        let last = feed.slices.number(detector.begin(frames + 1));
        let pool = Pool::new(160_000, 8);
        let mut slices = SliceSource::new(Box::new(frame_source), decoder, &feed, Some((0, last)), pool).unwrap();
        let found = sliced(&mut slices);

        let books = slices.stats().timed.unwrap();
        prop_assert_eq!((books.pulses_refused, books.hits_off_timeline, books.markers_off_timeline), (0, 0, 0));
        prop_assert_eq!(books.resets, if resets { books.pulses } else { 0 });
        let period = Picos(period_us.unsigned_abs() * 1_000_000);
        let expected = truth(&detector, source, frames);
        prop_assert_eq!(books.hits_untimed + found.len() as u64, books.hits + books.hits_untimed);
        // Hits of the first period have the nominal rate. Hits after a pulse may come before it, in an earlier frame or if frames are out of order.
        let disorder = detector.config().frame.times(u64::from(2 * disorder_frames)) + detector.config().flash.jitter;
        let second = first_seen + period + disorder;
        let is_sure = first_seen + disorder;
        let sure: Vec<Hit> = expected.iter().filter(|hit| Moment(hit.time_ps) >= is_sure).copied().collect();
        let of_rate = (period.0 as f64 * f64::from(ppm.abs()) * 1.1e-6) as u64;
        let (found, sure) = (by_numbers(found), by_numbers(sure));
        let mut candidates = found.iter();
        for hit in &sure {
            let allowed = if Moment(hit.time_ps) < second { of_rate } else { 0 } + 5 * tick_ps.unsigned_abs();
            let is_it = |found: &&Hit| {
                (found.channel, found.value, found.extra) == (hit.channel, hit.value, hit.extra)
                    && found.time_ps.abs_diff(hit.time_ps) <= allowed
            };
            prop_assert!(candidates.any(|found| is_it(&found)), "{:?} is not found: {:?}", hit, books);
        }
        let possible = expected.iter().filter(|hit| Moment(hit.time_ps) >= first_seen).count();
        prop_assert!(sure.len() <= found.len());
        prop_assert!(found.len() <= possible || disorder_frames > 0);
    }
}

#[test]
fn pulses_that_cannot_be_emulated_are_refused() {
    let refused = |layout: HitDescription, disorder_frames: u32, period: &str, says: &str| {
        let pulses = PulseConfig { period: period.parse().unwrap(), ..pulses(1_000, 0) };
        let feed = FeedConfig { pulses: Some(pulses), ..feed(SourceId(1)) };
        let config = FrameSourceConfig { frames: None, disorder_frames, pace: FramePace::FullSpeed };
        let detector = Arc::new(Detector::new(detector(1, 4)).unwrap());
        let error = FrameSource::new(detector, Arc::new(layout), &feed, config).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    };
    refused(rich(), 0, "1 ms", "their records have no kind of pulses");
    refused(with_pulses(true), 1, "1 ms", "frames come in any order");
    refused(with_pulses(false), 0, "1/10000000000 ns", "too many digits");
}
