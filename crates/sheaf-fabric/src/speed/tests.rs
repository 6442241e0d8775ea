use super::message_level;

#[test]
fn the_canonical_run_counts_its_messages_and_is_right() {
    let work = message_level(2, 2_000).unwrap();
    assert_eq!(work.ports, 64);
    assert!(work.messages >= 64 * 2_000);
    // Two stages of 8x8: the same network as a Clos network with routes by digits.
    assert!((0.438..0.450).contains(&work.report.efficiency), "{}", work.report.efficiency);
    assert!(work.report.checks.iter().all(|check| check.pass));
}
