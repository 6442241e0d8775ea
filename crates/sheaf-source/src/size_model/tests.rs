use super::*;
use crate::random::Purpose;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use sheaf_wire::SourceId;

const DRAWS: u64 = 100_000;

/// Any model of each shape, with bounds that bite in some.
fn configs() -> impl Strategy<Value = SizeConfig> {
    let shape = (0..4_u8, 0.05..1.5_f64, 0.0..0.95_f64);
    (0..2_000_u64, 1..20_000_u64, 0..200_000_u64, shape).prop_map(
        |(min, above, beyond, (kind, spread, share))| {
            let mean = min + above;
            let mean_bytes = mean as f64;
            let shape = match kind {
                0 => SizeShape::Fixed { size: ByteCount(mean) },
                1 => SizeShape::LogNormal { mean_bytes, rms_bytes: spread * mean_bytes },
                2 => SizeShape::Normal { mean_bytes, rms_bytes: spread * mean_bytes },
                _ => SizeShape::MinimumPeaked { mean_bytes, at_minimum: share },
            };
            SizeConfig { shape, min: ByteCount(min), max: ByteCount(mean + beyond) }
        },
    )
}

proptest! {
    #[test]
    fn sizes_keep_within_their_bounds_and_grow_with_the_probability(
        config in configs(), a in 1e-16..1.0_f64, b in 1e-16..1.0_f64,
    ) {
        let model = SizeModel::new(&config).unwrap();
        for of in [SizeModel::quantile, SizeModel::drawn] {
            let (low, high) = (of(&model, a.min(b)), of(&model, a.max(b)));
            prop_assert!(config.min <= low && low <= high && high <= config.max, "{low} {high}");
        }
    }

    #[test]
    fn a_drawn_size_is_the_quantile_but_for_its_last_digits(
        mean in 100.0..1e6_f64, spread in 0.01..4.0_f64, log_normal: bool, probability in 1e-6..1.0_f64,
    ) {
        let (mean_bytes, rms_bytes) = (mean, spread * mean);
        let shape = if log_normal {
            SizeShape::LogNormal { mean_bytes, rms_bytes }
        } else {
            SizeShape::Normal { mean_bytes, rms_bytes }
        };
        let config = SizeConfig { shape, min: ByteCount(0), max: MAX_SIZE };
        let model = SizeModel::new(&config).unwrap();
        let (exact, drawn) = (model.exact(probability), model.drawn(probability).0 as f64);
        // A normal's error is one of its spread; and sizes are rounded to whole bytes.
        let scale = if log_normal { exact } else { exact.max(rms_bytes) };
        prop_assert!((drawn - exact).abs() <= 3e-4 * scale + 0.5, "{drawn} for {exact}");
    }

    #[test]
    fn a_size_depends_on_seed_source_and_event_alone(
        config in configs(), seed: u64, source: u32, events in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let model = SizeModel::new(&config).unwrap();
        let draws = Draws::new(seed, SourceId(source), Purpose::Size);
        let forward: Vec<_> = events.iter().map(|event| model.size(&draws, EventId(*event))).collect();
        // Another model and other draws of the same origin, asked in another order.
        let model = SizeModel::new(&config).unwrap();
        let draws = Draws::new(seed, SourceId(source), Purpose::Size);
        let mut backward: Vec<_> = events.iter().rev().map(|event| model.size(&draws, EventId(*event))).collect();
        backward.reverse();
        prop_assert_eq!(forward, backward);
    }

    #[test]
    fn configurations_are_refused_or_work(
        kind in 0..4_u8, a in any::<f64>(), b in any::<f64>(), min: u64, max: u64, at in 1e-16..1.0_f64,
    ) {
        let shape = match kind {
            0 => SizeShape::Fixed { size: ByteCount(min.wrapping_add(max)) },
            1 => SizeShape::LogNormal { mean_bytes: a, rms_bytes: b },
            2 => SizeShape::Normal { mean_bytes: a, rms_bytes: b },
            _ => SizeShape::MinimumPeaked { mean_bytes: a, at_minimum: b },
        };
        for (min, max) in [(min, max), (min % (1 << 30), 1 << 30)] {
            let config = SizeConfig { shape, min: ByteCount(min), max: ByteCount(max) };
            if let Ok(model) = SizeModel::new(&config) {
                let size = model.quantile(at);
                prop_assert!(config.min <= size && size <= config.max);
            }
        }
    }
}

/// The same cases every time, and as many: a statistical test that may fail by chance is no test.
#[test]
fn measured_mean_and_rms_are_the_computed_ones() {
    let mut runner =
        TestRunner::new(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() });
    for case in 0..48 {
        let config = configs().new_tree(&mut runner).unwrap().current();
        let model = SizeModel::new(&config).unwrap();
        let measured = Measured::of(&model, case, case as u32);
        let expected = model.moments();
        // Five standard errors, and the effect of rounding to whole bytes.
        let mean_error = 5.0 * measured.mean_error() + 0.5;
        assert!((measured.mean - expected.mean_bytes).abs() < mean_error, "{measured:?} {expected:?}");
        let rms_error = 5.0 * measured.rms_error() + 0.5;
        assert!((measured.rms - expected.rms_bytes).abs() < rms_error, "{measured:?} {expected:?}");
    }
}

#[test]
fn without_bounds_the_moments_are_the_configured_ones() {
    for rms_bytes in [200.0, 2_000.0, 3_000.0] {
        let moments = model(SizeShape::LogNormal { mean_bytes: 2_000.0, rms_bytes }, 0).moments();
        assert!((moments.mean_bytes - 2_000.0).abs() < 0.1, "{moments:?}");
        assert!((moments.rms_bytes - rms_bytes).abs() < 1.0, "{moments:?}");
    }
    let moments = model(SizeShape::Normal { mean_bytes: 2_000.0, rms_bytes: 400.0 }, 0).moments();
    assert!((moments.mean_bytes - 2_000.0).abs() < 0.01 && (moments.rms_bytes - 400.0).abs() < 0.01);
    let moments = model(SizeShape::MinimumPeaked { mean_bytes: 200.0, at_minimum: 0.6 }, 56).moments();
    assert!((moments.mean_bytes - 200.0).abs() < 1e-6, "{moments:?}");
}

#[test]
fn a_cut_normal_has_nothing_piled_up_at_its_minimum() {
    let model = model(SizeShape::Normal { mean_bytes: 1_000.0, rms_bytes: 1_000.0 }, 500);
    let draws = Draws::new(1, SourceId(1), Purpose::Size);
    let at_minimum = (0..DRAWS).filter(|event| model.size(&draws, EventId(*event)) == ByteCount(500)).count();
    // If sizes were set to the minimum, the 31 % below it would all be here.
    assert!(at_minimum < 200, "{at_minimum}");
}

#[test]
fn a_peaked_model_is_at_its_minimum_as_often_as_it_says() {
    let model = model(SizeShape::MinimumPeaked { mean_bytes: 5_000.0, at_minimum: 0.6 }, 56);
    let draws = Draws::new(1, SourceId(1), Purpose::Size);
    let at_minimum =
        (0..DRAWS).filter(|event| model.size(&draws, EventId(*event)) == ByteCount(56)).count() as f64;
    let share = at_minimum / DRAWS as f64;
    assert!((share - 0.6).abs() < 5.0 * (0.24 / DRAWS as f64).sqrt(), "{share}");
}

/// The table of `docs/concepts/sources.md`: run with `--nocapture` to print it anew.
#[test]
fn the_table_in_the_documentation_is_what_is_measured() {
    let shapes = [
        ("fixed", SizeShape::Fixed { size: ByteCount(2_000) }, 0),
        ("log-normal", SizeShape::LogNormal { mean_bytes: 2_000.0, rms_bytes: 2_000.0 }, 0),
        ("log-normal", SizeShape::LogNormal { mean_bytes: 2_000.0, rms_bytes: 500.0 }, 0),
        ("normal", SizeShape::Normal { mean_bytes: 2_000.0, rms_bytes: 400.0 }, 0),
        ("normal", SizeShape::Normal { mean_bytes: 2_000.0, rms_bytes: 800.0 }, 0),
        ("normal", SizeShape::Normal { mean_bytes: 2_000.0, rms_bytes: 800.0 }, 1_000),
        ("minimum-peaked", SizeShape::MinimumPeaked { mean_bytes: 200.0, at_minimum: 0.6 }, 56),
    ];
    let rows: Vec<String> = shapes
        .iter()
        .map(|(name, shape, min)| {
            let model = model(*shape, *min);
            let (expected, measured) = (model.moments(), Measured::of(&model, 1, 1));
            format!(
                "| {name} | {} | {min} | {:.1} | {:.1} | {:.1} | {:.1} |",
                describe(shape),
                expected.mean_bytes,
                measured.mean,
                expected.rms_bytes,
                measured.rms
            )
        })
        .collect();
    println!("{}", rows.join("\n"));
    let documentation = include_str!("../../../../docs/concepts/sources.md");
    for row in rows {
        assert!(documentation.contains(&row), "the documentation lacks: {row}");
    }
}

#[test]
fn contradictions_are_refused_with_their_reason() {
    let refuse = |shape, min, max| {
        let config = SizeConfig { shape, min: ByteCount(min), max: ByteCount(max) };
        SizeModel::new(&config).unwrap_err().to_string()
    };
    let fixed = SizeShape::Fixed { size: ByteCount(10) };
    assert_eq!(refuse(fixed, 5, 4), "smallest fragment size 5 B is above the largest, 4 B");
    assert_eq!(refuse(fixed, 0, 9), "fragment size 10 B is outside the bounds 0 B to 9 B");
    assert!(refuse(fixed, 0, u64::MAX).contains("above the limit"));
    let zero = SizeShape::LogNormal { mean_bytes: 0.0, rms_bytes: 1.0 };
    assert!(refuse(zero, 0, 9).contains("mean above 0"));
    let nan = SizeShape::LogNormal { mean_bytes: f64::NAN, rms_bytes: 1.0 };
    assert!(refuse(nan, 0, 9).contains("outside the bounds"));
    let negative = SizeShape::Normal { mean_bytes: 5.0, rms_bytes: -1.0 };
    assert!(refuse(negative, 0, 9).contains("-1 B"));
    let share = SizeShape::MinimumPeaked { mean_bytes: 5.0, at_minimum: 1.0 };
    assert!(refuse(share, 0, 9).contains("below 1"));
}

/// A model with a lower bound and an upper one that is out of the way.
fn model(shape: SizeShape, min: u64) -> SizeModel {
    SizeModel::new(&SizeConfig { shape, min: ByteCount(min), max: ByteCount::mib(1) }).unwrap()
}

fn describe(shape: &SizeShape) -> String {
    match shape {
        SizeShape::Fixed { size } => format!("size {}", size.0),
        SizeShape::LogNormal { mean_bytes, rms_bytes } | SizeShape::Normal { mean_bytes, rms_bytes } => {
            format!("mean {mean_bytes}, rms {rms_bytes}")
        }
        SizeShape::MinimumPeaked { mean_bytes, at_minimum } => {
            format!("mean {mean_bytes}, at minimum {at_minimum}")
        }
    }
}

/// Statistics of a sample of [`DRAWS`] sizes.
#[derive(Debug)]
struct Measured {
    mean: f64,
    rms: f64,
    /// The fourth moment about the mean.
    fourth: f64,
}

impl Measured {
    fn of(model: &SizeModel, seed: u64, source: u32) -> Self {
        let draws = Draws::new(seed, SourceId(source), Purpose::Size);
        let sizes: Vec<f64> = (0..DRAWS).map(|event| model.size(&draws, EventId(event)).0 as f64).collect();
        let average =
            |value: &dyn Fn(f64) -> f64| sizes.iter().map(|size| value(*size)).sum::<f64>() / DRAWS as f64;
        let mean = average(&|size| size);
        let variance = average(&|size| (size - mean).powi(2));
        Self { mean, rms: variance.sqrt(), fourth: average(&|size| (size - mean).powi(4)) }
    }

    fn mean_error(&self) -> f64 {
        self.rms / (DRAWS as f64).sqrt()
    }

    /// From the variance of the sample variance, which is (fourth - rms^4) / n.
    fn rms_error(&self) -> f64 {
        let variance_error = ((self.fourth - self.rms.powi(4)).max(0.0) / DRAWS as f64).sqrt();
        if self.rms > 0.0 { variance_error / (2.0 * self.rms) } else { 0.0 }
    }
}
