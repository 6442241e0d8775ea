mod pulses;

use super::frame_writer::{RecordNumbers, largest_numbers};
use super::*;
use crate::described::Mark;
use crate::described::field::{ByteOrder, Field, Width};
use crate::timed::{
    CardNumber, FeedConfig, HitDescription, HitRecords, HitTimes, RecordKinds, SliceSource, TimeFields,
};
use crate::{Source, SourcePoll};
use proptest::prelude::*;
use sheaf_buffer::Pool;
use sheaf_time::{Moment, SliceConfig};
use sheaf_wire::{Hit, Nanos, TimeUnit, Timestamp};
use std::sync::Arc;

const SLICE: Picos = Picos(70_000_000);

pub(super) fn feed(card: SourceId) -> FeedConfig {
    FeedConfig {
        card,
        tick: ExactNanos::from_nanos(10),
        drift: ClockDrift::ZERO,
        offset: ExactNanos::ZERO,
        bits: None,
        pulses: None,
        times: HitTimes::Counter,
        tolerance: Picos::from_nanos(100_000_000),
        held_hits: 1 << 20,
        slices: SliceConfig {
            length: SLICE,
            before: Picos::ZERO,
            after: Picos::ZERO,
            max_items: 10_000,
            max_empty: u64::MAX,
        },
    }
}

fn field(offset: usize, bits: u32, order: ByteOrder) -> Field {
    Field::new(offset, Width::of_bits(bits).unwrap(), order)
}

/// Frames with everything that a layout may have: a kind and a channel in one number, a coarse and a fine time.
fn rich() -> HitDescription {
    HitDescription {
        magic: vec![Mark { offset: 0, bytes: b"HT".to_vec() }],
        card: CardNumber::In(field(2, 16, ByteOrder::Little)),
        packet_number: Some(field(4, 24, ByteOrder::Big)),
        header_bytes: 9,
        record_bytes: 13,
        kinds: Some(RecordKinds {
            field: Field { shift: 12, ..field(0, 16, ByteOrder::Big) },
            hits: vec![5, 2],
            markers: vec![3],
            pulses: Vec::new(),
            resets: Vec::new(),
        }),
        time: TimeFields {
            base: None,
            coarse: Field { mask: 0x3ff_ffff, ..field(4, 32, ByteOrder::Big) },
            fine: Some(Field { mask: 0xf0, shift: 4, ..field(8, 8, ByteOrder::Big) }),
        },
        channel: Some(Field { mask: 0xfff, ..field(0, 16, ByteOrder::Big) }),
        value: Some(field(2, 16, ByteOrder::Little)),
        extra: Some(field(9, 24, ByteOrder::Little)).map(|field| Field { mask: 0xff, ..field }),
    }
}

/// Frames whose times count from a time in their header.
fn with_base() -> HitDescription {
    HitDescription {
        time: TimeFields {
            base: Some(field(7, 40, ByteOrder::Big)),
            coarse: field(4, 24, ByteOrder::Little),
            fine: None,
        },
        header_bytes: 12,
        kinds: None,
        channel: Some(field(0, 16, ByteOrder::Big)),
        ..rich()
    }
}

fn detector(seed: u64, sources: u32) -> DetectorConfig {
    DetectorConfig {
        seed,
        sources: (0..sources).map(|source| SourceId(source * 3 + 1)).collect(),
        channels: 100,
        max_value: 999,
        noise_hz: 400_000.0,
        flash: FlashConfig { rate_hz: 5_000.0, sources: 2, hits: 3, jitter: Picos(40_000_000) },
        frame: Picos(100_000_000),
        disorder: Picos(30_000_000),
    }
}

/// Returns the hits of a source in the first frames, at their true times, in order of time.
fn truth(detector: &Detector, source: SourceId, frames: u64) -> Vec<Hit> {
    let view = detector::SourceView::new(detector, source).unwrap();
    let mut all = Vec::new();
    for frame in 0..frames {
        let mut hits = Vec::new();
        view.frame(detector, frame, &mut hits);
        all.extend(hits.iter().map(|hit| Hit {
            time_ps: (detector.begin(frame) + hit.after_begin).0,
            channel: hit.channel,
            value: hit.value,
            extra: hit.extra,
        }));
    }
    all.sort_by_key(|hit| hit.time_ps);
    all
}

/// Returns the hits in the slices of a source, which are checked.
fn sliced(source: &mut dyn Source) -> Vec<Hit> {
    let (mut all, mut next) = (Vec::new(), 0);
    loop {
        match source.poll(Timestamp::ZERO) {
            SourcePoll::Fragment(slice) => {
                assert_eq!(slice.event.0, next, "each slice once, in order");
                next += 1;
                for hit in sheaf_wire::hit::hits(&slice.payload).unwrap() {
                    assert_eq!(hit.time_ps / SLICE.0, slice.event.0);
                    all.push(hit);
                }
            }
            SourcePoll::Ended => break,
            SourcePoll::NotBefore(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(all.is_sorted_by_key(|hit| hit.time_ps));
    all
}

fn numbers(hits: &[Hit]) -> Vec<(u32, u16, u16)> {
    let mut numbers: Vec<_> = hits.iter().map(|hit| (hit.channel, hit.value, hit.extra)).collect();
    numbers.sort_unstable();
    numbers
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    Rich,
    WithBase,
    OfSheaf,
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(128))]

    /// Whatever drift, offset, roll-over and disorder: each hit of the truth comes out of its time slice, at most a tick before its true
    /// time.
    #[test]
    fn each_hit_comes_out_at_its_true_time(
        layout in prop::sample::select(vec![Layout::Rich, Layout::WithBase, Layout::OfSheaf]),
        seed in any::<u64>(),
        place in 0..5_u32,
        (numerator, denominator) in (1_000..30_000_i64, 1..300_i64),
        ppm in -300..300_i32,
        offset_us in -800..700_i64,
        from_fragments in any::<bool>(),
        disorder_frames in 0..5_u32,
        frames in 1..80_u64,
    ) {
        let config = DetectorConfig {
            flash: FlashConfig { sources: 3, ..detector(seed, 5).flash },
            ..detector(seed, 5)
        };
        let detector = Arc::new(Detector::new(config).unwrap());
        let layout = match layout {
            Layout::Rich => rich(),
            Layout::WithBase => with_base(),
            Layout::OfSheaf => HitDescription::of_sheaf(),
        };
        let tick: ExactNanos = format!("{numerator}/{denominator} ns").parse().unwrap();
        let tick_ps = numerator as f64 / denominator as f64 * 1e3 / (1.0 + f64::from(ppm) * 1e-6);
        // A counter starts again every 1.6 to 3.2 ms, so that most runs have several laps.
        let lap_ticks = 1.6e9 / tick_ps;
        let bits = (layout.time.base.is_none()).then_some((lap_ticks.log2().ceil() as u32).min(30));
        let source = SourceId(place * 3 + 1);
        let times = match from_fragments {
            true => HitTimes::Fragment { zero: Timestamp(1_000), unit: TimeUnit::NANOSECOND },
            false => HitTimes::Counter,
        };
        let (drift, offset) = (ClockDrift::from_ppm(ppm), ExactNanos::from_nanos(offset_us * 1_000 + 7));
        let feed = FeedConfig { tick, drift, offset, bits, times, ..feed(source) };
        let frames_of = FrameSourceConfig { frames: Some(frames), disorder_frames, pace: FramePace::FullSpeed };
        let clock = EmulatedClock::new(&feed).unwrap();
        let of_first_fragment = clock.from_fragment(Moment::ZERO).unwrap().1.reset;
        let reset = if from_fragments { Moment::ZERO + of_first_fragment } else { clock.reset() };
        let layout = Arc::new(layout);
        let frame_source = FrameSource::new(Arc::clone(&detector), Arc::clone(&layout), &feed, frames_of).unwrap();
        prop_assert!(frame_source.keeps_data());
        let decoder = Box::new(HitRecords::new(layout).unwrap());
        let last = feed.slices.number(detector.begin(frames + 1));
        let pool = Pool::new(160_000, 8);
        let mut slices = SliceSource::new(Box::new(frame_source), decoder, &feed, Some((0, last)), pool).unwrap();
        let found = sliced(&mut slices);

        let mut expected = truth(&detector, source, frames);
        expected.retain(|hit| Moment(hit.time_ps) >= reset);
        let books = slices.stats().timed.unwrap();
        prop_assert_eq!((books.hits_off_timeline, books.markers_off_timeline), (0, 0));
        prop_assert_eq!(found.len(), expected.len(), "{:?}", books);
        prop_assert_eq!(books.hits_in_slices, expected.len() as u64);
        prop_assert_eq!((books.packets_lost, books.packets_repeated, books.slices.late), (0, 0, 0));
        for (found, expected) in found.iter().zip(&expected) {
            let early = expected.time_ps.checked_sub(found.time_ps);
            prop_assert!(early.is_some_and(|early| (early as f64) < tick_ps * (1.0 + 1e-9) + 1.0), "{:?} {:?}", found, expected);
        }
        prop_assert_eq!(numbers(&found), numbers(&expected));
    }

    #[test]
    fn a_frame_is_read_as_it_was_written(
        card in 0..65_536_u32,
        number in 0..1_u64 << 24,
        begin in 0..1_u64 << 29,
        hits in prop::collection::vec((0..1_u64 << 24, 0..4_096_u32, any::<u16>(), 0..256_u16), 0..40),
        is_with_base in any::<bool>(),
        is_long in any::<bool>(),
    ) {
        use crate::timed::{Decoder, Packet, Reading};
        let mut layout = if is_with_base { with_base() } else { rich() };
        // A record of more than 16 bytes is written in another way.
        layout.record_bytes += 4 * usize::from(is_long);
        let layout = Arc::new(layout);
        let mut writer = FrameWriter::new(Arc::clone(&layout), layout.time.bits(), 1 << 23).unwrap();
        let mut frame = bytes::BytesMut::new();
        writer.begin(SourceId(card), number, begin, &mut frame);
        let written = hits.iter().map(|&(after, channel, value, extra)| {
            (begin + after, RecordNumbers { channel, value, extra })
        });
        writer.hits(written, hits.len(), &mut frame);
        let mut decoder = HitRecords::new(layout).unwrap();
        let head = decoder.head(&frame).unwrap();
        prop_assert_eq!((head.card, head.number), (SourceId(card), number));
        let mut found = Vec::new();
        let packet =
            Packet { source: SourceId(card), event: sheaf_wire::EventId(0), time: Timestamp::ZERO, bytes: &frame };
        decoder.read(&packet, &mut |reading| found.push(reading)).unwrap();
        let mut expected: Vec<_> = hits
            .iter()
            .map(|&(after, channel, value, extra)| Reading::Hit { time: begin + after, channel, value, extra })
            .collect();
        if !is_with_base {
            expected.insert(0, Reading::Marker { time: begin });
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn each_flash_is_seen_by_so_many_sources_and_frames_have_its_hits_and_the_noise() {
    const FRAMES: u64 = 2_000;
    let detector = Detector::new(detector(5, 7)).unwrap();
    let DetectorConfig { frame, max_value, channels, .. } = *detector.config();
    let (mut flashes, mut hits, mut last) = (0_u64, 0, Moment::ZERO);
    for number in 0..FRAMES {
        for flash in detector.flashes(number) {
            assert!(flash.time >= last && detector.begin(number) <= flash.time);
            assert!(flash.time < detector.begin(number + 1));
            last = flash.time;
            let seen: Vec<_> = detector.hits_of(&flash).collect();
            assert_eq!(seen.len(), 2);
            for (source, of_source) in seen {
                assert!(detector.sees(detector.place(source).unwrap(), &flash));
                assert_eq!(of_source.len(), 3);
                let delays = of_source.iter().map(|hit| hit.time_ps - flash.time.0);
                assert!(delays.max().unwrap() <= 40_000_000);
                hits += of_source.len();
                for hit in &of_source {
                    assert!(truth(&detector, source, number + 1).contains(hit));
                    assert!(hit.value > max_value / 4 && hit.value <= max_value && hit.channel < channels);
                }
            }
            flashes += 1;
        }
        if flashes > 20 {
            break;
        }
    }
    assert_eq!(hits as u64, flashes * 6);
    let seconds = FRAMES as f64 * frame.0 as f64 * 1e-12;
    let flashes = (0..FRAMES).map(|number| detector.flashes(number).count()).sum::<usize>() as f64;
    assert!((flashes - 5_000.0 * seconds).abs() < 5.0 * (5_000.0 * seconds).sqrt(), "{flashes}");
    let noise = truth(&detector, SourceId(4), FRAMES).iter().filter(|hit| hit.extra == 0).count() as f64;
    assert!((noise - 4e5 * seconds).abs() < 5.0 * (4e5 * seconds).sqrt(), "{noise}");
}

#[test]
fn live_frames_come_when_they_are_over_and_the_oldest_are_lost_when_nobody_takes_them() {
    let detector = Arc::new(Detector::new(detector(5, 2)).unwrap());
    let pace = FramePace::Live { buffer_frames: 3 };
    let config = FrameSourceConfig { frames: Some(20), disorder_frames: 0, pace };
    let layout = Arc::new(rich());
    let mut source = FrameSource::new(detector, layout, &feed(SourceId(1)), config).unwrap();
    assert!(!source.keeps_data());
    let start = Timestamp(5_000);
    let at = |frames: u64| start + Nanos(frames * 100_000);
    let mut poll = |now| match source.poll(now) {
        SourcePoll::Fragment(frame) => Ok(frame.event.0),
        SourcePoll::NotBefore(due) => Err(due),
        other => panic!("{other:?}"),
    };
    assert_eq!(poll(start), Err(at(1)));
    assert_eq!(poll(at(2)), Ok(0));
    assert_eq!(poll(at(2)), Ok(1));
    assert_eq!(poll(at(2)), Err(at(3)));
    assert_eq!(poll(at(9)), Ok(6), "2 to 5 are lost");
    assert_eq!([poll(at(9)), poll(at(9)), poll(at(9))], [Ok(7), Ok(8), Err(at(10))]);
    assert_eq!([poll(at(1_000)), poll(at(1_000)), poll(at(1_000))], [Ok(17), Ok(18), Ok(19)]);
    assert_eq!(source.poll(at(1_000)), SourcePoll::Ended);
    assert_eq!(source.stats().timed.unwrap().packets_dropped, 4 + 8);
    assert_eq!(source.stats().fragments, 8);
}

#[test]
fn what_cannot_be_emulated_is_refused_with_a_reason() {
    let refused = |change: &dyn Fn(&mut DetectorConfig, &mut HitDescription, &mut FeedConfig), says: &str| {
        let (mut config, mut layout, mut feed) = (detector(1, 4), rich(), feed(SourceId(4)));
        change(&mut config, &mut layout, &mut feed);
        let frames = FrameSourceConfig { frames: None, disorder_frames: 0, pace: FramePace::FullSpeed };
        let made = Detector::new(config)
            .and_then(|detector| FrameSource::new(Arc::new(detector), Arc::new(layout), &feed, frames));
        match made {
            Ok(_) => assert_eq!(says, "", "it is not refused"),
            Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{error}"),
        }
    };
    refused(&|_, _, _| (), "");
    refused(&|config, _, _| config.noise_hz = f64::NAN, "must be a number from 0");
    refused(&|config, _, _| config.noise_hz = 1e12, "has about 100000001 hits");
    refused(&|config, _, _| config.frame = Picos(5), "from 1 us to");
    refused(&|config, _, _| config.disorder = Picos(200_000_000), "a disorder of 200.000 us is longer");
    refused(&|config, _, _| config.flash.sources = 5, "5 sources see a flash, but there are 4");
    refused(&|config, _, _| config.channels = 4_097, "a channel has 12 bits in a frame, and needs 13");
    refused(&|_, _, feed| feed.card = SourceId(2), "source 2 is not a source");
    refused(&|_, layout, _| layout.value = layout.channel, "the fields channel and value share bits");
    refused(
        &|_, layout, _| layout.card = CardNumber::In(field(1, 8, ByteOrder::Big)),
        "magic and card share",
    );
    refused(&|_, _, feed| feed.bits = Some(31), "the counter has 30 bits in a frame, and needs 31");
    refused(&|_, _, feed| feed.bits = Some(12), "starts again every 40.960 us");
    refused(
        &|_, _, feed| feed.offset = ExactNanos::from_nanos(-20_000_000_000),
        "starts again every 10737.418 ms",
    );
    refused(
        &|config, layout, feed| {
            (layout.kinds, config.noise_hz, feed.bits) = (None, 1_000.0, Some(20));
        },
        "too few to notice",
    );
    refused(&|_, layout, _| *layout = with_base(), "");
    refused(
        &|_, layout, feed| (*layout, feed.tick) = (with_base(), ExactNanos::from_picos(1)),
        "after `base` has 24 bits",
    );
    refused(&|_, layout, feed| (*layout, feed.bits) = (with_base(), Some(39)), "a counter of 39 bits");
    refused(&|_, _, feed| feed.tick = "1/1000000000000000 ns".parse().unwrap(), "cannot be emulated");
    let none = largest_numbers(&HitDescription { channel: None, value: None, extra: None, ..rich() });
    assert_eq!(none, RecordNumbers::default());
}
