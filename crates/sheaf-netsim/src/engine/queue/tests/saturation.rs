//! Saturation under random traffic, against `reference/simulation.md`, sections 1.3 and 2.

use super::*;
use crate::engine::testing::{loosened, shortened};
use crate::scenario::DigitOrder;

fn delta(radix: u32, stages: u32) -> Topology {
    Topology::Delta { radix, stages, digits: DigitOrder::MostFirst }
}

fn cut_through(buffer_messages: u32) -> Switching {
    Switching::CutThrough { buffer_messages, credit_delay: Picos::ZERO }
}

fn store_and_forward(buffer_messages: u32) -> Switching {
    Switching::StoreAndForward { buffer_messages, credit_delay: Picos::ZERO }
}

/// Asserts that a run of `slots` slots has this efficiency, within `tolerance`.
#[track_caller]
fn expect(topology: Topology, switching: Switching, slots: u64, efficiency: f64, tolerance: f64) {
    let measured = run(&scenario(topology, switching), shortened(slots));
    let found = measured.efficiency;
    assert!(
        (found - efficiency).abs() < loosened(tolerance),
        "{found:.4} +- {:.4}, not {efficiency}",
        measured.efficiency_error
    );
}

#[test]
fn one_switch_saturates_where_theory_says() {
    // Karol, Hluchyj and Morgan 1987: the first message of each input blocks the others, however many fit.
    expect(delta(4, 1), cut_through(1), 20_000, 0.6553, 0.006);
    expect(delta(4, 1), cut_through(8), 20_000, 0.6553, 0.006);
    expect(delta(4, 1), store_and_forward(4), 20_000, 0.6553, 0.006);
}

#[test]
fn cut_through_with_a_buffer_of_one_message_is_a_slotted_buffered_network() {
    expect(delta(4, 2), cut_through(1), 20_000, 0.499, 0.006);
    expect(delta(8, 3), cut_through(1), 1_500, 0.377, 0.005);
}

#[test]
fn cut_through_gains_with_buffers_as_the_slotted_table_says() {
    for (buffer, efficiency) in [(2, 0.532), (4, 0.566), (8, 0.597), (16, 0.621)] {
        expect(delta(4, 2), cut_through(buffer), 15_000, efficiency, 0.008);
    }
    for (buffer, efficiency) in [(2, 0.426), (4, 0.475), (8, 0.520)] {
        expect(delta(8, 3), cut_through(buffer), 1_500, efficiency, 0.008);
    }
}

#[test]
fn networks_of_2x2_switches_saturate_as_the_slotted_tables_say() {
    // Room that is seen in the same slot, and four messages of it.
    for (stages, one, four) in [(1, 0.750, 0.751), (2, 0.603, 0.678), (4, 0.459, 0.611), (6, 0.388, 0.574)] {
        expect(delta(2, stages), cut_through(1), 4_000, one, 0.012);
        expect(delta(2, stages), cut_through(4), 4_000, four, 0.015);
    }
    // Store-and-forward with room for one message is the slotted network in which room can be used in the next slot
    // only: an input receives or sends, never both.
    for (stages, efficiency) in [(1, 0.500), (2, 0.374), (3, 0.302), (4, 0.258), (6, 0.210), (8, 0.182)] {
        expect(delta(2, stages), store_and_forward(1), 4_000, efficiency, 0.008);
    }
}

#[test]
fn store_and_forward_approaches_cut_through_as_buffers_grow() {
    expect(delta(4, 2), store_and_forward(2), 20_000, 0.509, 0.006);
    expect(delta(4, 2), store_and_forward(4), 20_000, 0.555, 0.006);
    // The prototype of the reference found .407 and .469; its arbiter is not documented, and changes this by .02 (.396
    // with priorities to .420 with first come, first served).
    expect(delta(8, 3), store_and_forward(2), 1_500, 0.404, 0.010);
    expect(delta(8, 3), store_and_forward(4), 1_500, 0.466, 0.010);
}

#[test]
fn late_credits_starve_small_buffers() {
    // With a buffer of one message and one slot until its room is known, a link is idle every other slot at least.
    let late = |buffer_messages| Switching::CutThrough { buffer_messages, credit_delay: SLOT };
    let starved = run(&scenario(delta(4, 1), late(1)), 5_000);
    assert!(starved.efficiency <= 0.5, "{}", starved.efficiency);
    expect(delta(4, 1), late(3), 20_000, 0.6553, 0.006);
}

#[test]
fn output_queues_carry_what_is_offered() {
    // A queue in front of each output that all inputs reach at once: nothing blocks, so that the capacity of the
    // busiest output is the only limit.
    let switching = Switching::OutputQueued { buffer_bytes: None, full: crate::scenario::WhenFull::Drop };
    let measured = run(&scenario(delta(8, 1), switching), 20_000);
    assert!(measured.efficiency > 0.98, "{}", measured.efficiency);
    assert_eq!(measured.messages.lost, 0);
    for load in [0.3, 0.6, 0.9] {
        let scenario = scenario(delta(8, 1), switching);
        let mut traffic = Random::new(SizeModel::Fixed(BYTES), load, RATE, 8, 1).unwrap();
        let (measured, _) = run_with(&scenario, &mut traffic, slots(50_000));
        assert!((measured.efficiency - load).abs() < 0.01, "{load}: {}", measured.efficiency);
    }
}
