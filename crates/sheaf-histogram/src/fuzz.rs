//! The parsers of this crate as a function of any bytes, and seeds for fuzzing.

use crate::{
    Axis, Histogram, HistogramKind, HistogramRecord, HistogramStore, HistogramSummary, Publication, Sketch,
    StoreLimits, compare,
};

/// Number of histograms of a record that are compared: all pairs of many would take minutes.
const COMPARED: usize = 8;

/// Gives bytes to every parser. They must return for any.
pub fn fuzz_histograms(bytes: &[u8]) {
    if let Ok(publication) = Publication::parse(bytes) {
        let mut store = HistogramStore::new(1, StoreLimits::default());
        let taken = store.take("fuzz", publication.clone(), 1);
        let again = store.take("fuzz", publication, 2);
        assert_eq!(taken.is_ok(), again.is_ok(), "a publication that is repeated is no other one");
        let record = HistogramRecord::parse(&store.record(3, false).to_bytes());
        assert!(record.is_ok(), "a record that was written can be read: {record:?}");
    }
    if let Ok(record) = HistogramRecord::parse(bytes) {
        for one in record.histograms.iter().take(COMPARED) {
            let _ = HistogramSummary::of(one);
            for other in record.histograms.iter().take(COMPARED) {
                let _ = compare(&one.histogram, &other.histogram);
                let _ = Sketch::of(&one.histogram, 64, Some(&other.histogram));
            }
        }
    }
}

/// Returns publications and records of every kind of histogram.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let kinds = [HistogramKind::Line, HistogramKind::Map, HistogramKind::Profile];
    let all: Vec<_> =
        kinds.iter().flat_map(|kind| [false, true].map(|weighted| example(*kind, weighted))).collect();
    let mut seeds = Vec::new();
    let publication = |histograms: &[Histogram], is_final: bool| {
        let sent = Publication {
            session: "0af3".to_owned(),
            sequence: 7,
            is_final,
            histograms: histograms.to_vec(),
        };
        serde_json::to_vec(&sent).unwrap_or_default()
    };
    for histogram in &all {
        let name = format!("publication-{}", histogram.name);
        seeds.push((name, publication(std::slice::from_ref(histogram), false)));
    }
    seeds.push(("publication-last".to_owned(), publication(&[], true)));
    let mut store = HistogramStore::new(7, StoreLimits::default());
    let sent = Publication { session: "0af3".to_owned(), sequence: 1, is_final: false, histograms: all };
    if store.take("example", sent, 1_780_000_000_000).is_ok() {
        seeds.push(("record".to_owned(), store.record(1_780_000_000_000, true).to_bytes()));
    }
    seeds
}

/// Makes a histogram with a few bins, and more entries than a comparison needs.
fn example(kind: HistogramKind, weighted: bool) -> Histogram {
    let axis = |bins, title: &str| Axis { bins, low: -1.5, high: 40.0, title: title.to_owned() };
    let axes = match kind {
        HistogramKind::Map => vec![axis(3, "channel"), axis(2, "source")],
        HistogramKind::Line | HistogramKind::Profile => vec![axis(4, "ADC counts")],
    };
    let cells: usize = axes.iter().map(Axis::cells).product();
    let list = |scale: f64, is_there: bool| {
        let value = |(_, cell): (usize, u32)| scale * f64::from(cell % 5);
        if is_there { (0..cells).zip(0_u32..).map(value).collect() } else { Vec::new() }
    };
    let is_profile = kind == HistogramKind::Profile;
    let suffix = if weighted { "-weighted" } else { "" };
    Histogram {
        name: format!("{}{suffix}", kind.name()),
        kind,
        title: "Example".to_owned(),
        axes,
        value_title: if is_profile { "gain".to_owned() } else { String::new() },
        source: weighted.then_some(3),
        entries: 100,
        nan: u64::from(weighted),
        contents: list(10.0, true),
        squares: list(12.5, weighted),
        sums: list(11.0, is_profile),
        sums2: list(13.0, is_profile),
        moments: if kind == HistogramKind::Map { vec![9.0, 1.0, 2.0, 3.0, 4.0] } else { vec![9.0, 1.5, 2.0] },
    }
}
