//! Throughput of an emulated source, and the cost of its parts: `cargo bench -p sheaf-source`.
//!
//! One thread, fragments dropped in order while 64 are in use. Each figure is the median of five runs; a GB is 10^9
//! bytes. The emulator is to feed a readout unit of 2 million fragments per second from a fraction of a core, so
//! drawing a size should take less than 30 ns, and making and checking the pattern more than 10 GB/s each.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use bytes::BytesMut;
use sheaf_source::content::{self, Content};
use sheaf_source::emulator::{EmulatedSource, EmulatedTime, EmulatorConfig};
use sheaf_source::pacing::Pace;
use sheaf_source::random::{Draws, Purpose};
use sheaf_source::script::Defects;
use sheaf_source::size_model::{SizeConfig, SizeModel, SizeShape};
use sheaf_source::{Source, SourcePoll};
use sheaf_wire::{ByteCount, EventId, SourceId, Timestamp};
use std::collections::VecDeque;
use std::hint::black_box;
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
