use super::{EXACT_PORTS, saturation, saturation_limit};

/// Karol, Hluchyj and Morgan 1987, table I.
const KAROL: [f64; 8] = [1.0, 0.7500, 0.6825, 0.6553, 0.6399, 0.6302, 0.6234, 0.6184];

#[test]
fn small_switches_have_the_values_of_the_1987_table() {
    for (index, expected) in KAROL.into_iter().enumerate() {
        let ports = u32::try_from(index).unwrap() + 1;
        let value = saturation(ports, 1).unwrap();
        assert!((value - expected).abs() < 0.6e-4, "{ports} ports: {value}, expected {expected}");
    }
}

#[test]
fn a_switch_of_two_ports_sends_exactly_three_quarters() {
    assert!((saturation(2, 1).unwrap() - 0.75).abs() < 1e-12);
}

#[test]
fn more_ports_make_it_worse_down_to_two_minus_the_root_of_two() {
    let values: Vec<f64> = (1..=EXACT_PORTS).map(|ports| saturation(ports, 1).unwrap()).collect();
    assert!(values.windows(2).all(|pair| pair[1] < pair[0]), "{values:?}");
    assert!(values.iter().all(|&value| value > saturation_limit(1)));
}

#[test]
fn outputs_that_take_several_messages_reach_the_simulated_values() {
    for (speed_up, four, sixteen, limit) in [
        (1, 0.655, 0.602, 0.5858),
        (2, 0.944, 0.900, 0.885),
        (3, 0.996, 0.982, 0.976),
        (4, 1.0, 0.997, 0.996),
    ] {
        assert!((saturation(4, speed_up).unwrap() - four).abs() < 0.001, "4 ports, speed-up {speed_up}");
        assert!((saturation(16, speed_up).unwrap() - sixteen).abs() < 0.001, "16 ports, speed-up {speed_up}");
        assert!((saturation_limit(speed_up) - limit).abs() < 0.001, "many ports, speed-up {speed_up}");
    }
}

#[test]
fn outputs_that_take_everything_waste_nothing() {
    for ports in 1..=6 {
        assert!((saturation(ports, ports).unwrap() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn what_has_no_closed_value_has_none() {
    assert_eq!(saturation(0, 1), None);
    assert_eq!(saturation(4, 0), None);
    assert_eq!(saturation(EXACT_PORTS + 1, 1), None);
}
