use super::*;
use proptest::prelude::*;

/// Mean and standard deviation of `count` values.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

fn drawn(model: SizeModel, correlation: f64) -> FragmentSizes {
    FragmentSizes::drawn(model, correlation, 11).unwrap()
}

#[test]
fn every_model_has_the_mean_and_the_spread_that_it_says_at_any_correlation() {
    let cases = [
        (SizeModel::Fixed(2000), 2000.0, 0.0),
        (SizeModel::Uniform(1000, 3000), 2000.0, 577.6),
        (SizeModel::Exponential(2000.0), 2000.0, 2000.0),
        (SizeModel::LogNormal { mean: 2000.0, rms: 1000.0 }, 2000.0, 1000.0),
        (SizeModel::LogNormal { mean: 2000.0, rms: 2000.0 }, 2000.0, 2000.0),
        (SizeModel::Normal { mean: 2000.0, rms: 200.0 }, 2000.0, 200.0),
    ];
    for (model, mean, rms) in cases {
        for correlation in [0.0, 0.5] {
            let sizes = drawn(model, correlation);
            // Far more events than sources: effects common to the sources of one event must average out as well.
            let values: Vec<f64> = (0..100_000)
                .flat_map(|event| [0, 1].map(|source| f64::from(sizes.bytes(event, source))))
                .collect();
            let (found_mean, found_rms) = moments(&values);
            assert!((found_mean / mean - 1.0).abs() < 0.015, "{model:?}: mean {found_mean}");
            assert!((found_rms - rms).abs() <= 0.05 * rms, "{model:?}: rms {found_rms}");
            assert!((sizes.mean() - mean).abs() < 1e-9, "{model:?}");
        }
    }
}

#[test]
fn correlation_is_that_of_the_logarithms_and_one_makes_all_sources_alike() {
    let model = SizeModel::LogNormal { mean: 20_000.0, rms: 20_000.0 };
    for wanted in [0.0, 0.3, 0.8] {
        let sizes = drawn(model, wanted);
        let logs = |source: u32| -> Vec<f64> {
            (0..40_000).map(|event| f64::from(sizes.bytes(event, source)).ln()).collect()
        };
        let (first, second) = (logs(3), logs(4));
        let ((first_mean, first_rms), (second_mean, second_rms)) = (moments(&first), moments(&second));
        let products = first.iter().zip(&second).map(|(a, b)| (a - first_mean) * (b - second_mean));
        let found = products.sum::<f64>() / first.len() as f64 / first_rms / second_rms;
        assert!((found - wanted).abs() < 0.02, "wanted {wanted}, found {found}");
    }
    let same = drawn(model, 1.0);
    assert!((0..100).all(|event| (1..50).all(|source| same.bytes(event, source) == same.bytes(event, 0))));
}

#[test]
fn a_recording_is_played_as_it_was_and_then_again() {
    let sizes = FragmentSizes::recorded(vec![vec![10, 20], vec![0, 40]], 2).unwrap();
    let played: Vec<_> = (0..4).map(|event| [sizes.bytes(event, 0), sizes.bytes(event, 1)]).collect();
    assert_eq!(played, [[10, 20], [1, 40], [10, 20], [1, 40]]);
    assert!((sizes.mean() - 71.0 / 4.0).abs() < 1e-12);
    assert_eq!(FragmentSizes::recorded(vec![], 2).unwrap_err(), SizeError::NoEvents);
    let wrong = FragmentSizes::recorded(vec![vec![1, 2], vec![1]], 2).unwrap_err();
    assert_eq!(wrong, SizeError::Columns { event: 1, columns: 1, sources: 2 });
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let wrong = [
        SizeModel::Fixed(0),
        SizeModel::Uniform(0, 10),
        SizeModel::Uniform(10, 9),
        SizeModel::Exponential(f64::NAN),
        SizeModel::LogNormal { mean: 0.5, rms: 1.0 },
        SizeModel::Normal { mean: 100.0, rms: -1.0 },
        SizeModel::LogNormal { mean: 1e12, rms: f64::INFINITY },
    ];
    for model in wrong {
        assert!(FragmentSizes::drawn(model, 0.0, 1).is_err(), "{model:?}");
    }
    assert!(FragmentSizes::drawn(SizeModel::Fixed(1), 1.5, 1).is_err());
}

proptest! {
    #[test]
    fn a_size_is_a_function_of_seed_event_and_source(seed in any::<u64>(), event in any::<u64>(), source in any::<u32>()) {
        let model = SizeModel::LogNormal { mean: 1e6, rms: 1e7 };
        let once = FragmentSizes::drawn(model, 0.2, seed).unwrap().bytes(event, source);
        let again = FragmentSizes::drawn(model, 0.2, seed).unwrap().bytes(event, source);
        prop_assert_eq!(once, again);
        prop_assert!(once > 0);
    }
}
