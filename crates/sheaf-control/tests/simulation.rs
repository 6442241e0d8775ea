//! Run control from seeds: a controller, processes of runs and operators, with everything between them going wrong.
//!
//! A seed decides when nodes come up, die or freeze, when the link breaks, when the controller dies (also between writing down and doing)
//! and comes back, when operators give which command, and whether they get the answer. Checked in each step: at most one run has a
//! process, a request has at most one effect, a command is recorded once, with one run, rows of a table begin in order, and none that is done begins again. Checked at the end, when nothing goes wrong any more: every operation has ended, and
//! a stop has ended the run within its limits, a sequence that is resumed comes to its end, and each row that is done has exactly one
//! run that was good and complete.

mod simulation {
    pub(crate) mod process;
    pub(crate) mod reached;
    pub(crate) mod recorded;
    pub(crate) mod rng;
    pub(crate) mod tables;
    pub(crate) mod world;
}

use simulation::reached::Reached;
use simulation::world::World;

const SEEDS: u64 = 500;

#[test]
fn one_run_at_a_time_one_effect_of_a_request_and_an_end_of_everything() {
    let mut reached = Reached::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.run();
        reached.add(&world.reached);
    }
    println!("{reached:?}");
    reached.check();
}

/// The same seed is the same run, so a failure can be looked at again.
#[test]
fn a_seed_decides_everything() {
    for seed in 0..50 {
        let log = |seed| {
            let mut world = World::new(seed);
            world.run();
            world.log
        };
        assert_eq!(log(seed), log(seed), "seed {seed}");
    }
}
