use super::{flit_level, message_level, packet_level};

#[test]
fn the_canonical_run_counts_its_messages_and_is_right() {
    let work = message_level(2, 2_000).unwrap();
    assert_eq!(work.ports, 64);
    assert!(work.messages >= 64 * 2_000);
    // Two stages of 8x8: the same network as a Clos network with routes by digits.
    assert!((0.438..0.450).contains(&work.report.efficiency), "{}", work.report.efficiency);
    assert!(work.report.checks.iter().all(|check| check.pass));
}

#[test]
fn the_canonical_run_of_flits_counts_its_cycles_and_is_right() {
    let work = flit_level(2, 60_000).unwrap();
    assert_eq!((work.ports, work.cycles), (64, 60_000));
    assert!((0.435..0.455).contains(&work.report.efficiency), "{}", work.report.efficiency);
    assert!(work.report.checks.iter().all(|check| check.pass));
}

#[test]
fn the_canonical_run_of_frames_counts_them_and_is_right() {
    let work = packet_level(1_000).unwrap();
    assert_eq!(work.ports, 500);
    assert!(work.messages >= 500 * 1_000);
    assert!((0.93..0.96).contains(&work.report.efficiency), "{}", work.report.efficiency);
    assert!(work.report.checks.iter().all(|check| check.pass), "{:?}", work.report.checks);
}
