use super::{unbuffered, unbuffered_asymptote};
use proptest::prelude::*;

#[test]
fn full_load_leaves_what_patels_arithmetic_says() {
    for (radix, stages, expected) in [
        (4, 1, 0.684),
        (4, 2, 0.528),
        (8, 1, 0.656),
        (8, 2, 0.496),
        (8, 3, 0.401),
        (8, 4, 0.337),
        (8, 6, 0.257),
        (16, 1, 0.644),
        (16, 2, 0.482),
        (2, 8, 0.300),
    ] {
        let value = unbuffered(radix, stages, 1.0);
        assert!(
            (value - expected).abs() < 0.0006,
            "{radix} x {radix}, {stages} layers: {value}, not {expected}"
        );
    }
}

#[test]
fn the_asymptote_comes_closer_with_every_ten_layers() {
    let mut last = f64::INFINITY;
    for stages in (10..=200).step_by(10) {
        let exact = unbuffered(2, stages, 1.0);
        let apart = (unbuffered_asymptote(2, stages, 1.0) / exact - 1.0).abs();
        assert!(apart < last, "{stages} layers: {apart}, before {last}");
        last = apart;
    }
    assert!(last < 0.03, "{last}");
}

proptest! {
    #[test]
    fn every_layer_loses_something_and_never_everything(radix in 2_u32..32, stages in 0_u32..10, load in 0.01_f64..=1.0) {
        let before = unbuffered(radix, stages, load);
        let after = unbuffered(radix, stages + 1, load);
        prop_assert!(after < before && after > 0.0);
    }
}
