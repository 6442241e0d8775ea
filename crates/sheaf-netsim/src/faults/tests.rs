use super::*;
use crate::scenario::{LinkModel, Numbering, Topology};
use crate::topology::compile;
use crate::units::Rate;
use proptest::prelude::*;

/// Two endpoints on one switch: links 0 and 1 lead in, 2 and 3 out.
fn network() -> Network {
    let link = LinkModel {
        rate: Rate::from_gigabits(10),
        delay: Picos::ZERO,
        frame_overhead: 0,
        frame_payload: None,
    };
    compile(&Topology::Crossbar { ports: 2 }, &Numbering::Identity, &link, 1).unwrap()
}

fn fault(from: u64, until: Option<u64>, what: FaultKind) -> Fault {
    Fault { from: Picos(from), until: until.map(Picos), what }
}

fn faults(plan: &[Fault]) -> Faults {
    Faults::new(plan, &network(), 1).unwrap()
}

#[test]
fn a_dead_link_is_dead_from_its_start_until_its_end() {
    let mut faults = faults(&[fault(10, Some(20), FaultKind::LinkDead(2))]);
    assert!(faults.is_quiet() && !faults.is_dead(LinkId(2)));
    assert_eq!(faults.next_change(), Some(Picos(10)));
    assert!(!faults.advance(Picos(9)));
    assert!(faults.advance(Picos(10)));
    assert!(faults.is_dead(LinkId(2)) && !faults.is_dead(LinkId(1)) && !faults.is_quiet());
    assert!(faults.advance(Picos(25)));
    assert!(faults.is_quiet() && !faults.is_dead(LinkId(2)));
    assert_eq!(faults.next_change(), None);
}

#[test]
fn a_dead_switch_takes_all_its_links_with_it() {
    let faults = faults(&[fault(0, None, FaultKind::SwitchDead(0))]);
    assert!((0..4).all(|link| faults.is_dead(LinkId(link))), "a fault from the start holds at once");
}

#[test]
fn faults_that_overlap_do_not_heal_one_another() {
    let mut faults = faults(&[
        fault(0, Some(20), FaultKind::LinkDead(1)),
        fault(10, Some(30), FaultKind::LinkDead(1)),
        fault(0, Some(20), FaultKind::SlowReceiver { endpoint: 1, factor: 0.5 }),
        fault(0, Some(30), FaultKind::SlowReceiver { endpoint: 1, factor: 0.25 }),
    ]);
    assert_eq!(faults.receiving_time(EndpointId(1), Picos(100)), Picos(800));
    faults.advance(Picos(20));
    assert!(faults.is_dead(LinkId(1)));
    assert_eq!(faults.receiving_time(EndpointId(1), Picos(100)), Picos(400));
    assert_eq!(faults.receiving_time(EndpointId(0), Picos(100)), Picos(100));
    faults.advance(Picos(30));
    assert!(faults.is_quiet());
    assert_eq!(faults.receiving_time(EndpointId(1), Picos(100)), Picos(100));
}

#[test]
fn frames_are_lost_as_often_as_planned() {
    let mut faults =
        faults(&[fault(0, None, FaultKind::FrameLoss(0.1)), fault(0, None, FaultKind::FrameLoss(0.2))]);
    let lost = (0..100_000).filter(|_| faults.loses_frame()).count();
    // 1 - 0.9 * 0.8 = 0.28, and five standard deviations of 100,000 throws are 0.007.
    assert!((27_300..=28_700).contains(&lost), "{lost} of 100,000");
}

#[test]
fn what_the_network_does_not_have_cannot_break() {
    let refused = |what| Faults::new(&[fault(0, None, what)], &network(), 1).unwrap_err().to_string();
    assert_eq!(
        refused(FaultKind::LinkDead(4)),
        "fault 0 is about link 4, but this network has 4 of them: right is 0 to 3"
    );
    assert!(refused(FaultKind::SwitchDead(1)).contains("switch 1"));
    assert!(refused(FaultKind::SlowReceiver { endpoint: 2, factor: 0.5 }).contains("endpoint 2"));
    assert!(refused(FaultKind::HostDead(2)).contains("endpoint 2"));
    assert!(refused(FaultKind::SlowReceiver { endpoint: 1, factor: 0.0 }).contains("greater than 0"));
    assert!(refused(FaultKind::FrameLoss(f64::NAN)).contains("from 0 to 1"));
    let backwards = Faults::new(&[fault(5, Some(5), FaultKind::LinkDead(0))], &network(), 1).unwrap_err();
    assert!(backwards.to_string().contains("later than the start"));
}

proptest! {
    #[test]
    fn a_link_is_dead_exactly_while_one_of_its_faults_lasts(
        spans in prop::collection::vec((0u64..50, 1u64..50, 0u32..4), 0..6),
        steps in prop::collection::vec(0u64..20, 1..20),
    ) {
        let plan: Vec<_> = spans
            .iter()
            .map(|&(from, length, link)| fault(from, Some(from + length), FaultKind::LinkDead(link)))
            .collect();
        let mut faults = faults(&plan);
        let mut now = 0;
        for step in steps {
            now += step;
            faults.advance(Picos(now));
            for link in 0..4 {
                let expected = spans.iter().any(|&(from, length, which)| {
                    which == link && (from..from + length).contains(&now)
                });
                prop_assert_eq!(faults.is_dead(LinkId(link)), expected);
            }
        }
    }
}
