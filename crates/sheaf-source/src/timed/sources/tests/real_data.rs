//! The captures of RD51's readout, held against tables that were made without this project.

use super::*;
use sheaf_time::{CoincidenceConfig, Moment, Rule, coincidence};
use std::collections::BTreeMap;
use std::io::Read;

struct Set {
    name: &'static str,
    cards: &'static [u32],
    tick: Picos,
    /// Packets lost on each card.
    lost: u64,
    /// Clusters by a gap of 20 ticks, and those that all cards see.
    clusters: Option<(u64, u64)>,
}

const SETS: [Set; 3] = [
    Set { name: "example", cards: &[1, 2], tick: Picos(22_500), lost: 1, clusters: Some((4_028, 3_876)) },
    Set { name: "example_xyu", cards: &[6, 7], tick: Picos(25_000), lost: 0, clusters: Some((6_737, 6_433)) },
    Set { name: "example_rpc", cards: &[1, 2, 4, 5], tick: Picos(22_500), lost: 0, clusters: None },
];

fn data() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/vmm3a_srs");
    if !path.is_dir() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// The rows of a table, as numbers; other text is left out.
fn table(path: &Path) -> Vec<Vec<u64>> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let row = |line: &str| line.split(',').filter_map(|field| field.parse().ok()).collect();
    text.lines().skip(1).map(row).collect()
}

fn feed(set: &Set, card: u32) -> FeedConfig {
    FeedConfig {
        card: SourceId(card),
        tick: ExactNanos::from_picos(set.tick.0.cast_signed()),
        drift: ClockDrift::ZERO,
        // The clocks run for hours before a capture begins.
        offset: ExactNanos::ZERO,
        bits: None,
        pulses: None,
        times: crate::timed::HitTimes::Counter,
        tolerance: set.tick.times(300_000),
        held_hits: 200_000,
        slices: SliceConfig {
            length: Picos::from_nanos(100_000),
            before: set.tick.times(20),
            after: set.tick.times(4_000),
            max_items: 65_536,
            max_empty: 1 << 20,
        },
    }
}

fn sources(data: &Path, set: &Set) -> Vec<CaptureSource<sheaf_buffer::Heap>> {
    let path = data.join(format!("{}.pcapng", set.name));
    let extent = scan_capture(&path, &decoder, &[], &|card| feed(set, card.0)).unwrap();
    let cards: Vec<_> = set.cards.iter().map(|card| SourceId(*card)).collect();
    assert_eq!(extent.cards, cards);
    let open = |card: &SourceId| {
        let config = feed(set, card.0);
        CaptureSource::open(&path, decoder().unwrap(), &config, extent.slices, Pool::new(1 << 20, 64))
            .unwrap()
    };
    cards.iter().map(open).collect()
}

/// All slices of a source, each with its hits, that of the overlaps included.
fn play(source: &mut CaptureSource<sheaf_buffer::Heap>) -> BTreeMap<u64, Vec<Hit>> {
    let mut slices = BTreeMap::new();
    loop {
        match source.poll(Timestamp::ZERO) {
            SourcePoll::Fragment(fragment) => {
                let hits = sheaf_wire::hit::hits(&fragment.payload).unwrap().collect();
                assert!(slices.insert(fragment.event.0, hits).is_none(), "each slice once");
            }
            SourcePoll::NotBefore(_) => {}
            SourcePoll::Ended => return slices,
            SourcePoll::OutOfMemory => panic!("every fragment was dropped"),
            SourcePoll::Idle => panic!("a file does not wait"),
        }
    }
}

#[test]
fn every_packet_is_accounted_for_and_the_lost_ones_are_gaps() {
    let Some(data) = data() else { return };
    for set in &SETS {
        let packets = table(&data.join(format!("truth/truth_{}_packets.csv.gz", set.name)));
        for mut source in sources(&data, set) {
            play(&mut source);
            let books = source.stats().timed.unwrap();
            let card = u64::from(source.id().0);
            let own = packets.iter().filter(|row| row[2] == card).count() as u64;
            assert_eq!(books.packets, own, "{} card {card}", set.name);
            assert_eq!((books.packets_lost, books.gaps), (set.lost, set.lost), "{} card {card}", set.name);
            let seen = books.packets + books.packets_of_others + books.packets_unreadable;
            assert!(seen >= packets.len() as u64, "{}: {books:?}", set.name);
            assert_eq!(books.packets_torn + books.packets_repeated, 0, "{}: {books:?}", set.name);
            assert!(books.is_balanced() && books.hits_waiting == 0, "{}: {books:?}", set.name);
        }
    }
}

#[test]
fn every_hit_is_in_its_slice_with_the_time_and_charge_of_the_table() {
    let Some(data) = data() else { return };
    for set in &SETS {
        let rows = table(&data.join(format!("truth/truth_{}_hits.csv.gz", set.name)));
        for mut source in sources(&data, set) {
            let card = u64::from(source.id().0);
            let mut expected: Vec<_> = rows
                .iter()
                .filter(|row| row[1] == card)
                .map(|row| (row[0] * set.tick.0, row[2] * 64 + row[3], row[4]))
                .collect();
            let slices = feed(set, 0).slices;
            let mut got: Vec<_> = play(&mut source)
                .into_iter()
                .flat_map(|(number, hits)| {
                    hits.into_iter().filter(move |hit| slices.number(Moment(hit.time_ps)) == number)
                })
                .map(|hit| (hit.time_ps, u64::from(hit.channel), u64::from(hit.value)))
                .collect();
            expected.sort_unstable();
            got.sort_unstable();
            assert!(got == expected, "{} card {card}: {} and {} hits", set.name, got.len(), expected.len());
            let books = source.stats().timed.unwrap();
            assert_eq!((books.order.late, books.order.forced), (0, 0), "{} card {card}", set.name);
            assert_eq!(books.slices.left_out, 0);
        }
    }
}

#[test]
fn clusters_found_slice_by_slice_are_those_of_sorting_everything() {
    let Some(data) = data() else { return };
    for set in &SETS {
        let Some(expected) = set.clusters else { continue };
        let played: Vec<_> = sources(&data, set).iter_mut().map(play).collect();
        let config = CoincidenceConfig {
            rule: Rule::Gap(set.tick.times(20)),
            min_sources: set.cards.len(),
            max_items: 1 << 20,
        };
        let slices = feed(set, 0).slices;
        let mut found = coincidence::CoincidenceStats::default();
        assert!(played.windows(2).all(|pair| pair[0].keys().eq(pair[1].keys())), "all cards have all slices");
        for number in played[0].keys() {
            let of = |source: usize| {
                played[source][number].iter().map(move |hit| (source, Moment(hit.time_ps), *hit))
            };
            let mut items: Vec<_> = (0..played.len()).flat_map(of).collect();
            items.sort_by_key(|(source, at, _)| (*at, *source));
            let range = (slices.begin(*number), slices.begin(number + 1));
            let (_, stats) = coincidence::of_slice(config, &items, range, range.1 + slices.after);
            found += stats;
        }
        assert_eq!((found.clusters, found.coincidences), expected, "{}", set.name);
        assert_eq!((found.cut, found.truncated), (0, 0), "{}", set.name);
    }
}
