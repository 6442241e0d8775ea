//! Throughput of an emulated source, and the cost of its parts: `cargo bench -p sheaf-source`.
//!
//! One thread, fragments dropped in order while 64 are in use. Each figure is the median of five runs; a GB is 10^9
//! bytes. The emulator is to feed a readout unit of 2 million fragments per second from a fraction of a core, so
//! drawing a size should take less than 30 ns, and making and checking the pattern more than 10 GB/s each.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use bytes::BytesMut;
use sheaf_source::content::{self, Content};
use sheaf_source::described::field::{ByteOrder, Field, Width};
use sheaf_source::emulator::{EmulatedSource, EmulatedTime, EmulatorConfig};
use sheaf_source::free_running::{
    Detector, DetectorConfig, FlashConfig, FramePace, FrameSource, FrameSourceConfig,
};
use sheaf_source::pacing::Pace;
use sheaf_source::random::{Draws, Purpose};
use sheaf_source::script::Defects;
use sheaf_source::size_model::{SizeConfig, SizeModel, SizeShape};
use sheaf_source::timed::{CardNumber, FeedConfig, HitDescription, HitTimes, RecordKinds, TimeFields};
use sheaf_source::{Source, SourcePoll};
use sheaf_time::{Picos, SliceConfig};
use sheaf_wire::{ByteCount, ClockDrift, EventId, ExactNanos, SourceId, Timestamp};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const RUNS: usize = 5;
const FRAGMENTS: u64 = 400_000;
const FRAGMENTS_IN_USE: usize = 64;
const MEAN_BYTES: u64 = 2_000;

const FIXED: SizeShape = SizeShape::Fixed { size: ByteCount(MEAN_BYTES) };
const LOG_NORMAL: SizeShape =
    SizeShape::LogNormal { mean_bytes: MEAN_BYTES as f64, rms_bytes: MEAN_BYTES as f64 };

fn main() {
    sizes();
    contents();
    sources();
    frames();
}

/// The cost of drawing a size.
fn sizes() {
    println!("{:<16} {:>10}", "size model", "ns/draw");
    let shapes = [
        ("fixed", FIXED),
        ("log-normal", LOG_NORMAL),
        ("normal", SizeShape::Normal { mean_bytes: 2_000.0, rms_bytes: 600.0 }),
        ("minimum-peaked", SizeShape::MinimumPeaked { mean_bytes: 2_000.0, at_minimum: 0.6 }),
    ];
    for (name, shape) in shapes {
        let model = SizeModel::new(&size_config(shape)).expect("the shapes above are right");
        let draws = Draws::new(1, SourceId(1), Purpose::Size);
        let seconds = median_seconds(|| {
            let sizes = (0..FRAGMENTS).map(|event| model.size(&draws, EventId(event)).0);
            black_box(sizes.sum::<u64>());
        });
        println!("{name:<16} {:>10.1}", seconds * 1e9 / FRAGMENTS as f64);
    }
}

/// The cost of making and checking the pattern, in a buffer that stays in the cache.
fn contents() {
    println!("\n{:<16} {:>10} {:>10}", "pattern, bytes", "make GB/s", "check GB/s");
    for length in [200, 2_000, 20_000] {
        let mut buffer = BytesMut::with_capacity(length);
        let rounds = 400_000_000 / length as u64;
        let make = median_seconds(|| {
            for event in 0..rounds {
                buffer.clear();
                content::append(SourceId(1), EventId(event), length, &mut buffer);
                black_box(&buffer);
            }
        });
        let check = median_seconds(|| {
            for _ in 0..rounds {
                let found = content::check(SourceId(1), EventId(rounds - 1), black_box(&buffer));
                found.expect("the last pattern made is that of this event");
            }
        });
        let gigabytes = (rounds * length as u64) as f64 / 1e9;
        println!("{length:<16} {:>10.1} {:>10.1}", gigabytes / make, gigabytes / check);
    }
}

/// Whole sources.
fn sources() {
    println!("\n{:<12} {:<9} {:<9} {:>14} {:>8}", "size", "content", "checksum", "fragments/s", "GB/s");
    let contents = [("pattern", Content::Pattern), ("fill", Content::Fill(0x5a)), ("none", Content::None)];
    for (size, shape) in [("fixed", FIXED), ("log-normal", LOG_NORMAL)] {
        for (name, content) in contents {
            for checksum in [false, true] {
                let config = EmulatorConfig {
                    seed: 1,
                    first_event: EventId(0),
                    events: None,
                    size: size_config(shape),
                    content,
                    checksum,
                    time: EmulatedTime::Now,
                    pace: Pace::default(),
                    defects: Defects::default(),
                    fault: None,
                    block_size: ByteCount::kib(256),
                    max_blocks: 8,
                };
                let mut source =
                    EmulatedSource::new(SourceId(1), &config).expect("the configuration is right");
                let mut living = VecDeque::with_capacity(FRAGMENTS_IN_USE);
                let seconds = median_seconds(|| take(&mut source, &mut living));
                let stats = source.stats();
                let bytes = stats.bytes.0 as f64 * FRAGMENTS as f64 / stats.fragments as f64;
                println!(
                    "{size:<12} {name:<9} {:<9} {:>14.0} {:>8.2}",
                    if checksum { "yes" } else { "no" },
                    FRAGMENTS as f64 / seconds,
                    bytes / seconds / 1e9
                );
            }
        }
    }
}

/// Frames of hits: 12 bytes with a kind, a channel, a value and a counter of 40 bits, of a clock that drifts.
fn frames() {
    println!("\n{:<34} {:>10}", "frames of hits", "M hits/s");
    let noise = DetectorConfig {
        seed: 1,
        sources: (0..16).map(SourceId).collect(),
        channels: 64,
        max_value: 1_000,
        noise_hz: 1e6,
        flash: FlashConfig { rate_hz: 1_000.0, sources: 8, hits: 4, jitter: Picos(10_000) },
        frame: Picos(1_000_000_000),
        disorder: Picos::ZERO,
    };
    let flashes = FlashConfig { rate_hz: 100_000.0, ..noise.flash.clone() };
    for (name, detector) in [
        ("noise", noise.clone()),
        (
            "noise and as many hits of flashes",
            DetectorConfig { noise_hz: 2e5, flash: flashes, ..noise.clone() },
        ),
        ("noise, out of order by 10 us", DetectorConfig { disorder: Picos(10_000_000), ..noise.clone() }),
        ("noise in frames of 10 us", DetectorConfig { frame: Picos(10_000_000), ..noise }),
    ] {
        let detector = Arc::new(Detector::new(detector).expect("the detector is right"));
        let frames = 2_000_000_000_000 / detector.config().frame.0;
        let mut hits = 0;
        let seconds = median_seconds(|| hits = write_frames(&detector, frames));
        println!("{name:<34} {:>10.1}", hits as f64 / seconds / 1e6);
    }
}

/// Returns the number of hits in the frames of a source.
fn write_frames(detector: &Arc<Detector>, frames: u64) -> usize {
    const HEADER_BYTES: usize = 4;
    const RECORD_BYTES: usize = 12;
    let field =
        |offset, bits| Field::new(offset, Width::of_bits(bits).expect("whole bytes"), ByteOrder::Little);
    let layout = HitDescription {
        magic: Vec::new(),
        card: CardNumber::Always(SourceId(0)),
        packet_number: Some(field(0, 32)),
        header_bytes: HEADER_BYTES,
        record_bytes: RECORD_BYTES,
        kinds: Some(RecordKinds {
            field: field(0, 8),
            hits: vec![1],
            markers: vec![2],
            pulses: Vec::new(),
            resets: Vec::new(),
        }),
        time: TimeFields { base: None, coarse: field(4, 40), fine: None },
        channel: Some(field(1, 8)),
        value: Some(field(2, 16)),
        extra: None,
    };
    let feed = FeedConfig {
        card: SourceId(3),
        tick: "12.5 ns".parse().expect("it is a time"),
        drift: ClockDrift::from_ppm(7),
        offset: ExactNanos::from_nanos(-1_234_567),
        bits: None,
        pulses: None,
        times: HitTimes::Counter,
        tolerance: Picos::ZERO,
        held_hits: 0,
        slices: SliceConfig {
            length: Picos(1),
            before: Picos::ZERO,
            after: Picos::ZERO,
            max_items: 0,
            max_empty: 0,
        },
    };
    let config = FrameSourceConfig { frames: Some(frames), disorder_frames: 0, pace: FramePace::FullSpeed };
    let source = FrameSource::new(Arc::clone(detector), Arc::new(layout), &feed, config);
    let mut source = source.expect("the layout is right");
    let mut hits = 0;
    while let SourcePoll::Fragment(frame) = source.poll(Timestamp::ZERO) {
        hits += (frame.payload.len() - HEADER_BYTES) / RECORD_BYTES - 1;
    }
    hits
}

fn take(source: &mut EmulatedSource, living: &mut VecDeque<bytes::Bytes>) {
    for event in 0..FRAGMENTS {
        let SourcePoll::Fragment(fragment) = source.poll(Timestamp(event)) else {
            panic!("64 fragments in use fit two of eight blocks");
        };
        if living.len() == FRAGMENTS_IN_USE {
            living.pop_front();
        }
        living.push_back(fragment.payload);
    }
}

fn size_config(shape: SizeShape) -> SizeConfig {
    SizeConfig { shape, min: ByteCount(0), max: ByteCount::kib(64) }
}

fn median_seconds(mut run: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}
