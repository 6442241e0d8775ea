use super::{Options, SlottedError, names, run};
use crate::analytic::banyan::unbuffered;
use crate::analytic::saturation::{saturation, saturation_limit};
use crate::engine::Limit;
use crate::engine::testing::{Uniform, crossbar, delta, loosened, measured, meter, network, shortened};
use crate::meter::Measured;
use crate::network::Network;
use crate::scenario::{Arbiter, InputQueue, Routes, RunLength, SizeModel, Switching, Topology};
use crate::units::Picos;

const SLOT: Picos = Picos::from_nanos(1);

/// A run of a number of slots.
#[derive(Clone, Copy)]
struct Case {
    options: Options,
    slots: u64,
}

fn case(switching: Switching, slots: u64) -> Case {
    let options =
        Options { slot: SLOT, switching, arbiter: Arbiter::Random, routes: Routes::Random, seed: 1 };
    Case { options, slots }
}

fn simulate(network: &Network, case: Case, mut traffic: Uniform) -> Measured {
    let mut meter = meter(network, names(network, &case.options, 1));
    let limit = Limit::new(RunLength::Time(Picos(case.slots * SLOT.0)), 1);
    let course = run(network, &case.options, limit, &mut traffic, &mut meter).unwrap();
    assert!(!course.stuck);
    measured(meter, course.end)
}

/// Efficiency where every sender always has a message.
fn saturated(network: &Network, case: Case) -> f64 {
    let case = Case { slots: shortened(case.slots), ..case };
    let traffic = Uniform::saturated(SizeModel::Fixed(1), network.endpoints(), case.options.seed);
    simulate(network, case, traffic).efficiency
}

fn input_queued(queue: InputQueue, speed_up: u32) -> Switching {
    Switching::InputQueued { queue, buffer_messages: None, speed_up }
}

/// Number of slots after which a switch with `ports` ports has sent enough for an error of some 0.0005.
fn slots(ports: u32) -> u64 {
    (1_500_000 / u64::from(ports)).max(4_000)
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value}, expected {expected} +- {tolerance}");
}

/// The same for a figure of [`saturated`].
#[track_caller]
fn about(value: f64, expected: f64, tolerance: f64) {
    near(value, expected, loosened(tolerance));
}

#[test]
fn first_in_first_out_saturates_where_karol_says() {
    for ports in [1, 2, 3, 4, 5, 6, 7, 8, 16] {
        let value = saturated(&crossbar(ports), case(input_queued(InputQueue::Fifo, 1), slots(ports)));
        about(value, saturation(ports, 1).unwrap(), 0.002);
    }
}

#[test]
fn many_inputs_saturate_at_two_minus_the_root_of_two() {
    let value = saturated(&crossbar(512), case(input_queued(InputQueue::Fifo, 1), slots(512)));
    about(value, 0.586, 0.002);
    assert!(value > saturation_limit(1) - 0.001);
}

#[test]
fn saturation_does_not_depend_on_who_goes_first() {
    let sound = case(input_queued(InputQueue::Fifo, 1), slots(8));
    for arbiter in [Arbiter::Random, Arbiter::RoundRobin, Arbiter::FirstCome, Arbiter::Priority] {
        let case = Case { options: Options { arbiter, ..sound.options }, ..sound };
        about(saturated(&crossbar(8), case), saturation(8, 1).unwrap(), 0.002);
    }
}

#[test]
fn looking_further_into_the_queue_helps_as_hluchyj_and_karol_found() {
    for (ports, values) in [
        (4, [0.655, 0.757, 0.810, 0.845, 0.868, 0.887, 0.900, 0.911]),
        (16, [0.602, 0.710, 0.768, 0.804, 0.830, 0.849, 0.864, 0.876]),
    ] {
        for (window, expected) in (1..).zip(values) {
            let case = case(input_queued(InputQueue::Window(window), 1), slots(ports) / 2);
            about(saturated(&crossbar(ports), case), expected, 0.004);
        }
    }
}

#[test]
fn outputs_that_take_several_messages_help_as_the_formula_says() {
    for (ports, values) in [(4, [0.655, 0.944, 0.996, 1.0]), (16, [0.602, 0.900, 0.982, 0.997])] {
        for (speed_up, expected) in (1..).zip(values) {
            let case = case(input_queued(InputQueue::Fifo, speed_up), slots(ports) / 2);
            let value = saturated(&crossbar(ports), case);
            about(value, expected, 0.003);
            about(value, saturation(ports, speed_up).unwrap(), 0.003);
        }
    }
    // More speed-up than two needs longer runs: the queues of nearly full outputs fill slowly.
    about(saturated(&crossbar(512), case(input_queued(InputQueue::Fifo, 2), 4_000)), 0.885, 0.003);
}

#[test]
fn virtual_output_queues_carry_nearly_all_of_a_load_of_99_percent() {
    for (ports, iterations) in [(4, 1), (16, 1), (16, 4), (32, 2)] {
        let network = crossbar(ports);
        let case = case(input_queued(InputQueue::VirtualOutput(iterations), 1), 60_000);
        let traffic = Uniform::bernoulli(0.99, SLOT, network.endpoints(), 3);
        let value = simulate(&network, case, traffic).efficiency;
        assert!((0.99 * 0.988..=0.992).contains(&value), "{ports} ports, {iterations} iterations: {value}");
    }
}

#[test]
fn twice_the_speed_makes_virtual_output_queues_as_quick_as_output_queues() {
    let network = crossbar(16);
    let mean_wait = |speed_up: u32| {
        let case = case(input_queued(InputQueue::VirtualOutput(4), speed_up), 20_000);
        let traffic = Uniform::bernoulli(0.9, SLOT, network.endpoints(), 3);
        simulate(&network, case, traffic).message_latency.unwrap().mean / SLOT.0 as f64
    };
    // Karol, Hluchyj and Morgan 1987: an output queue makes a message wait (N - 1) / N * p / (2 (1 - p)) slots on
    // average; one more is its own.
    let ideal = 15.0 / 16.0 * 0.9 / (2.0 * 0.1) + 1.0;
    let (plain, combined) = (mean_wait(1), mean_wait(2));
    assert!(combined < 1.1 * ideal, "{combined}, an output queue has {ideal}");
    assert!(combined > 0.9 * ideal, "{combined}, an output queue has {ideal}");
    assert!(plain > 1.5 * ideal, "{plain}, an output queue has {ideal}");
}

#[test]
fn without_buffers_what_is_left_is_what_patel_says() {
    for (radix, stages) in [(4, 1), (4, 2), (8, 3), (2, 4)] {
        let network = delta(radix, stages);
        let case = case(Switching::Unbuffered, slots(radix.pow(stages)));
        about(saturated(&network, case), unbuffered(radix, stages, 1.0), 0.003);
    }
}

#[test]
fn without_buffers_what_is_not_delivered_is_lost_layer_by_layer() {
    let network = delta(4, 2);
    let case = case(Switching::Unbuffered, 20_000);
    let measured = simulate(&network, case, Uniform::saturated(SizeModel::Fixed(1), 16, 1));
    assert_eq!(measured.messages.in_flight, 0);
    let offered = measured.messages.offered as f64;
    let lost = |layer: usize| measured.losses[layer].messages as f64 / offered;
    near(lost(0), 1.0 - unbuffered(4, 1, 1.0), 0.003);
    near(lost(1), unbuffered(4, 1, 1.0) - unbuffered(4, 2, 1.0), 0.003);
}

/// Saturated throughput of a delta network with buffers of `buffer_messages` messages at each input of each layer.
fn buffered(radix: u32, stages: u32, buffer_messages: u32) -> f64 {
    let ports = radix.pow(stages);
    saturated(&delta(radix, stages), case(Switching::SlottedBuffered { buffer_messages }, slots(ports)))
}

#[test]
fn one_message_at_each_input_of_a_delta_network() {
    about(buffered(4, 2, 1), 0.499, 0.003);
    about(buffered(8, 3, 1), 0.377, 0.003);
}

#[test]
fn several_messages_at_each_input_of_a_delta_network() {
    for (messages, expected) in [(2, 0.532), (4, 0.566), (16, 0.621)] {
        about(buffered(4, 2, messages), expected, 0.004);
    }
    about(buffered(8, 3, 4), 0.475, 0.004);
}

#[test]
fn layers_of_two_by_two_switches() {
    for (stages, one, four) in
        [(1, 0.750, 0.751), (2, 0.603, 0.678), (3, 0.516, 0.639), (4, 0.459, 0.611), (6, 0.388, 0.574)]
    {
        about(buffered(2, stages, 1), one, 0.004);
        about(buffered(2, stages, 4), four, 0.005);
    }
    about(buffered(2, 8, 1), 0.347, 0.004);
}

#[test]
fn one_layer_with_buffers_is_one_switch_with_input_queues() {
    about(buffered(8, 1, 4), saturation(8, 1).unwrap(), 0.002);
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    for switching in [
        input_queued(InputQueue::Window(3), 2),
        input_queued(InputQueue::VirtualOutput(2), 1),
        Switching::Unbuffered,
        Switching::SlottedBuffered { buffer_messages: 2 },
    ] {
        let network = crossbar(8);
        let sound = case(switching, 2_000);
        let once = |seed: u64| {
            let case = Case { options: Options { seed, ..sound.options }, ..sound };
            simulate(&network, case, Uniform::bernoulli(0.9, SLOT, 8, seed))
        };
        assert_eq!(once(5), once(5));
        assert_ne!(once(5), once(6));
    }
}

#[test]
fn a_bound_on_the_input_queue_is_kept() {
    let network = crossbar(4);
    let switching =
        Switching::InputQueued { queue: InputQueue::VirtualOutput(1), buffer_messages: Some(5), speed_up: 1 };
    let measured = simulate(&network, case(switching, 5_000), Uniform::saturated(SizeModel::Fixed(1), 4, 1));
    assert_eq!(measured.occupancy[0].max_bytes, 5);
    assert_eq!(measured.occupancy[0].size_bytes, Some(5));
}

#[test]
fn what_is_no_slotted_switch_is_refused() {
    let folded =
        network(&Topology::FoldedClos { leaves: 2, ports: 2, spines: 2, uplinks: 1, uplink_rate: None });
    let refused = |network: &Network, switching: Switching| {
        let Case { options, slots } = case(switching, 10);
        let mut traffic = Uniform::saturated(SizeModel::Fixed(1), network.endpoints(), 1);
        let mut meter = meter(network, names(network, &options, 1));
        let limit = Limit::new(RunLength::MessagesPerSender(slots), 1);
        run(network, &options, limit, &mut traffic, &mut meter).unwrap_err()
    };
    let fifo = input_queued(InputQueue::Fifo, 1);
    assert_eq!(refused(&delta(2, 2), fifo), SlottedError::NotOneSwitch { switches: 4 });
    assert!(matches!(refused(&folded, Switching::Unbuffered), SlottedError::NotLayered { .. }));
    let wormhole = Switching::Wormhole { buffer_bytes: 0 };
    assert_eq!(refused(&delta(2, 2), wormhole), SlottedError::NotSlotted { switching: wormhole });
}
