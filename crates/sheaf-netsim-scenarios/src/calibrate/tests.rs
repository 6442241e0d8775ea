use super::*;
use crate::measurements::parse;
use proptest::prelude::*;

/// Points that the model gives exactly, but for a relative error that changes from point to point.
fn points(overhead_ns: f64, rate: f64, sharing: f64, ports: &[u32], error: f64) -> Vec<Measurement> {
    let model = Model { overhead_seconds: overhead_ns / 1e9, rate, sharing };
    let mut points = Vec::new();
    for ports in ports {
        for power in 6..=20 {
            let mut point = Measurement {
                size_bytes: f64::from(1_u32 << power),
                bytes_per_second: 1.0,
                readouts: *ports,
                builders: *ports,
            };
            let sign = if points.len() % 2 == 0 { 1.0 } else { -1.0 };
            point.bytes_per_second = model.bytes_per_second(&point) * (1.0 + sign * error);
            points.push(point);
        }
    }
    points
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    #[test]
    fn parameters_that_made_the_points_are_found(
        overhead in 50.0..20_000.0_f64,
        rate in 1e8..2e10_f64,
        sharing in 0.05..0.95_f64,
    ) {
        let found = calibrate(&points(overhead, rate, sharing, &[1, 2, 4, 8], 0.0)).unwrap();
        prop_assert!((found.overhead_ns.value / overhead - 1.0).abs() < 1e-3, "{found:?}");
        prop_assert!((found.rate_bytes_per_second.value / rate - 1.0).abs() < 1e-3, "{found:?}");
        prop_assert!((found.sharing.unwrap().value - sharing).abs() < 1e-3, "{found:?}");
        prop_assert!(found.held_out_error < 1e-3);
    }
}

#[test]
fn intervals_hold_the_truth_where_points_have_errors() {
    let found = calibrate(&points(2700.0, 149e6, 0.3, &[1, 2, 4], 0.03)).unwrap();
    for (interval, truth) in
        [(found.overhead_ns, 2700.0), (found.rate_bytes_per_second, 149e6), (found.sharing.unwrap(), 0.3)]
    {
        assert!(interval.low < truth && truth < interval.high, "{interval:?} does not hold {truth}");
        assert!(interval.high / interval.low < 1.5, "{interval:?} says nothing");
    }
    assert!((0.02..0.04).contains(&found.held_out_error), "{}", found.held_out_error);
}

#[test]
fn sharing_is_not_made_up_where_all_points_have_the_same_ports() {
    let found = calibrate(&points(1000.0, 1e9, 0.0, &[4], 0.01)).unwrap();
    assert_eq!(found.sharing, None);
    assert!((found.overhead_ns.value / 1000.0 - 1.0).abs() < 0.05);
}

#[test]
fn a_third_of_the_points_is_held_out_and_told() {
    let found = calibrate(&points(1000.0, 1e9, 0.2, &[1, 2], 0.0)).unwrap();
    assert_eq!(found.points.iter().filter(|point| point.held_out).count(), 10);
    assert_eq!(found.to_string().matches("held out").count(), 11, "each of them, and the sum");
}

#[test]
fn too_few_points_and_one_size_are_refused() {
    let few = &points(1000.0, 1e9, 0.2, &[1], 0.0)[..4];
    assert!(calibrate(few).unwrap_err().to_string().starts_with("4 measured points are too few; at least 5"));
    assert!(calibrate(&[]).unwrap_err().to_string().starts_with("0 measured points"));
    let one = vec![points(1000.0, 1e9, 0.2, &[1], 0.0)[3]; 8];
    assert!(calibrate(&one).unwrap_err().to_string().contains("several sizes"));
}

#[test]
fn measurements_are_a_list_or_an_object_with_points() {
    let path = Path::new("m.json");
    let list =
        r#"[{"size_bytes": 64, "bytes_per_second": 1e6, "readouts": 2, "builders": 3, "spread": 0.1}]"#;
    let object = format!(r#"{{"machine": "x", "points": {list}}}"#);
    let expected = Measurement { size_bytes: 64.0, bytes_per_second: 1e6, readouts: 2, builders: 3 };
    assert_eq!(parse(list, path).unwrap(), [expected]);
    assert_eq!(parse(&object, path).unwrap(), [expected]);
    for (text, message) in [
        ("{", "m.json has no measurements"),
        ("[{\"bytes_per_second\": 3}]", "point 0 of m.json: there is no `size_bytes`"),
        ("[{\"size_bytes\": 0, \"bytes_per_second\": 3}]", "`size_bytes` must be a positive number"),
        ("[{\"size_bytes\": 1, \"bytes_per_second\": 3, \"builders\": 0}]", "must be at least 1"),
    ] {
        let error = parse(text, path).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn a_calibration_is_read_as_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.json");
    let found = calibrate(&points(1000.0, 1e9, 0.2, &[1, 2], 0.0)).unwrap();
    std::fs::write(&path, serde_json::to_string(&found).unwrap()).unwrap();
    let read = Calibration::load(&path).unwrap();
    assert!((read.overhead_ns.value - found.overhead_ns.value).abs() < 1e-6);
    std::fs::write(&path, "{}").unwrap();
    assert!(Calibration::load(&path).unwrap_err().to_string().contains("`sheaf sim calibrate` writes one"));
}
