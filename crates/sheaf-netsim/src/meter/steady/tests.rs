use super::{steady, t_95};
use crate::dice::{Dice, Purpose};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_warm_up_is_cut_and_the_error_covers_the_truth(seed: u64, transient in 20..150_usize) {
        let mut dice = Dice::new(seed, Purpose::Other(0), 0);
        let level = |index: usize| if index < transient { 0.2 } else { 0.6 };
        let series: Vec<f64> = (0..512).map(|index| level(index) + 0.02 * (dice.unit() - 0.5)).collect();
        let steady = steady(&series);
        prop_assert!(steady.cut >= transient, "{steady:?}");
        prop_assert!(steady.cut <= 256);
        // Three times the half width: six standard deviations.
        prop_assert!((steady.mean - 0.6).abs() < 3.0 * steady.half_width, "{steady:?}");
        prop_assert!(steady.half_width < 0.002);
    }

    #[test]
    fn any_series_has_a_mean_within_its_values(series in prop::collection::vec(0.0..1.0_f64, 1..600)) {
        let steady = steady(&series);
        prop_assert!((0.0..=1.0).contains(&steady.mean));
        prop_assert!(steady.cut <= series.len() / 2);
    }
}

#[test]
fn a_constant_series_is_steady_from_the_start() {
    let steady = steady(&[0.5; 300]);
    assert_eq!((steady.cut, steady.mean, steady.half_width), (0, 0.5, 0.0));
}

#[test]
fn students_factor_is_that_of_the_tables() {
    assert!((t_95(19) - 2.0930).abs() < 0.001);
    assert!((t_95(10) - 2.2281).abs() < 0.003);
}
