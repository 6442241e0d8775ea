use super::{Islip, Ports};
use proptest::prelude::*;

/// A number of ports and which input has something for which output.
fn requests() -> impl Strategy<Value = (usize, Vec<bool>)> {
    (1_usize..100)
        .prop_flat_map(|ports| (Just(ports), proptest::collection::vec(any::<bool>(), ports * ports)))
}

proptest! {
    #[test]
    fn a_matching_uses_every_port_once_and_only_pairs_that_were_asked_for(
        (ports, wanted) in requests(), iterations in 1_u32..5
    ) {
        let mut islip = Islip::new(ports, iterations);
        for (cell, _) in wanted.iter().enumerate().filter(|&(_, &wants)| wants) {
            islip.wants(cell / ports, cell % ports);
        }
        let mut pairs = Vec::new();
        for _ in 0..3 {
            islip.matching(&mut pairs);
            let (mut inputs, mut outputs) = (vec![false; ports], vec![false; ports]);
            for &(input, output) in &pairs {
                prop_assert!(wanted[input * ports + output]);
                prop_assert!(!std::mem::replace(&mut inputs[input], true));
                prop_assert!(!std::mem::replace(&mut outputs[output], true));
            }
        }
    }

    #[test]
    fn as_many_iterations_as_ports_leave_no_pair_that_could_still_be_matched((ports, wanted) in requests()) {
        let mut islip = Islip::new(ports, u32::try_from(ports).unwrap());
        for (cell, _) in wanted.iter().enumerate().filter(|&(_, &wants)| wants) {
            islip.wants(cell / ports, cell % ports);
        }
        let mut pairs = Vec::new();
        islip.matching(&mut pairs);
        let taken = |find: &dyn Fn(&(usize, usize)) -> bool| pairs.iter().any(find);
        for cell in (0..ports * ports).filter(|&cell| wanted[cell]) {
            let (input, output) = (cell / ports, cell % ports);
            prop_assert!(taken(&|pair| pair.0 == input) || taken(&|pair| pair.1 == output));
        }
    }

    #[test]
    fn the_first_port_in_turn_is_found_across_words(
        members in proptest::collection::btree_set(0_usize..200, 0..20), from in 0_usize..200
    ) {
        let mut set = Ports::none(200);
        let mut all = Ports::none(200);
        members.iter().for_each(|&port| set.insert(port));
        (0..200).for_each(|port| all.insert(port));
        let expected = members.range(from..).chain(members.range(..from)).next().copied();
        prop_assert_eq!(set.first_from(from, &all), expected);
    }
}

#[test]
fn with_everything_asked_for_the_turns_fall_out_of_step_and_everybody_is_matched() {
    let ports = 16;
    let mut islip = Islip::new(ports, 1);
    for cell in 0..ports * ports {
        islip.wants(cell / ports, cell % ports);
    }
    let mut pairs = Vec::new();
    for _ in 0..ports {
        islip.matching(&mut pairs);
    }
    for _ in 0..ports {
        islip.matching(&mut pairs);
        assert_eq!(pairs.len(), ports);
    }
}
