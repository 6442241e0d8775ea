//! Nothing appears, nothing disappears, nothing waits for ever unseen: in small networks of all kinds.

use super::blocking::ring;
use super::*;
use crate::scenario::{DigitOrder, Fault, FaultKind, WhenFull};
use proptest::prelude::*;

/// Progress of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Offered,
    Sent,
    Delivered,
    Lost,
}

/// Each sender sends some messages, and every call is checked.
struct Watched {
    dice: Vec<Dice>,
    left: Vec<u32>,
    fates: Vec<Fate>,
    now: Picos,
    /// The largest message.
    most: u32,
}

impl Watched {
    fn new(endpoints: u32, each: u32, most: u32, seed: u64) -> Self {
        Self {
            dice: (0..endpoints).map(|sender| Dice::new(seed, Purpose::Destination, sender)).collect(),
            left: vec![each; endpoints as usize],
            fates: Vec::new(),
            now: Picos::ZERO,
            most,
        }
    }

    fn step(&mut self, message: &Message, from: &[Fate], to: Fate, now: Picos) {
        assert!(now >= self.now, "time goes back");
        self.now = now;
        let fate = &mut self.fates[usize::try_from(message.token).unwrap()];
        assert!(from.contains(fate), "from {fate:?} to {to:?}");
        *fate = to;
    }
}

impl Traffic for Watched {
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        if self.left[sender.index()] == 0 {
            return Next::Sleep;
        }
        self.left[sender.index()] -= 1;
        let endpoints = u32::try_from(self.left.len()).unwrap();
        let dice = &mut self.dice[sender.index()];
        let (destination, bytes) = (EndpointId(dice.below(endpoints)), dice.below(self.most + 1));
        let token = self.fates.len() as u64;
        self.fates.push(Fate::Offered);
        Next::Send(Message { source: sender, destination, bytes, token, born: now })
    }

    fn sent(&mut self, message: &Message, now: Picos, _wake: &mut Wake) {
        self.step(message, &[Fate::Offered], Fate::Sent, now);
    }

    fn delivered(&mut self, message: &Message, now: Picos, _wake: &mut Wake) {
        self.step(message, &[Fate::Sent], Fate::Delivered, now);
    }

    fn lost(&mut self, message: &Message, now: Picos, _wake: &mut Wake) {
        self.step(message, &[Fate::Sent], Fate::Lost, now);
    }
}

fn topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        Just(Topology::Crossbar { ports: 3 }),
        Just(Topology::Delta { radix: 2, stages: 2, digits: DigitOrder::LeastFirst }),
        Just(Topology::Layered { radix: 2, stages: 2, spreading: 1 }),
        Just(Topology::FoldedClos { leaves: 3, ports: 2, spines: 2, uplinks: 1, uplink_rate: None }),
        Just(Topology::FoldedClos {
            leaves: 2,
            ports: 3,
            spines: 1,
            uplinks: 2,
            uplink_rate: Some(Rate(2_500_000_000))
        }),
        Just(ring()),
    ]
}

fn switching() -> impl Strategy<Value = Switching> {
    let full = prop_oneof![Just(WhenFull::Drop), Just(WhenFull::Pause)];
    let delay = prop_oneof![Just(Picos::ZERO), Just(Picos(700_000))];
    (0..4, 1..4u32, delay, full).prop_map(|(kind, buffer_messages, credit_delay, full)| {
        let bytes = u64::from(buffer_messages) * 900;
        match kind {
            0 => Switching::CutThrough { buffer_messages, credit_delay },
            1 => Switching::StoreAndForward { buffer_messages, credit_delay },
            2 => Switching::OutputQueued { buffer_bytes: Some(bytes), full },
            _ => Switching::SharedMemory { buffer_bytes: 2 * bytes, output_bytes: bytes, full },
        }
    })
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let what = prop_oneof![
        (0..6u32).prop_map(FaultKind::LinkDead),
        Just(FaultKind::SwitchDead(0)),
        (0..3u32).prop_map(|endpoint| FaultKind::SlowReceiver { endpoint, factor: 0.3 }),
        Just(FaultKind::FrameLoss(0.1)),
    ];
    let fault = (0..8_000u64, prop::option::of(1..8_000u64), what).prop_map(|(from, length, what)| Fault {
        from: Picos::from_nanos(from),
        until: length.map(|length| Picos::from_nanos(from + length)),
        what,
    });
    prop::collection::vec(fault, 0..3)
}

fn endpoint() -> impl Strategy<Value = EndpointModel> {
    (0..2u64, 0..2u64, any::<bool>(), 1..3u32, 1..4u32, any::<bool>()).prop_map(
        |(overhead, start, bus, rails, queue_messages, look_ahead)| EndpointModel {
            overhead: Picos(overhead * 90_000),
            start: Picos(start * 130_000),
            bus: bus.then_some(Rate::from_gigabits(15)),
            rails,
            queue_messages,
            look_ahead,
        },
    )
}

fn choices() -> impl Strategy<Value = (Arbiter, Routes)> {
    let arbiter = prop_oneof![
        Just(Arbiter::Random),
        Just(Arbiter::RoundRobin),
        Just(Arbiter::FirstCome),
        Just(Arbiter::Priority)
    ];
    let routes = prop_oneof![
        Just(Routes::Hash),
        Just(Routes::Random),
        Just(Routes::Cyclic),
        Just(Routes::SourceDigit),
        Just(Routes::DestinationDigit),
        Just(Routes::Adaptive),
    ];
    (arbiter, routes)
}

prop_compose! {
    fn scenarios()(
        topology in topology(),
        switching in switching(),
        faults in faults(),
        endpoint in endpoint(),
        (arbiter, routes) in choices(),
        delay in prop_oneof![Just(Picos::ZERO), Just(Picos(450_000)), Just(Picos(2_000_000))],
        frame_payload in prop::option::of(100..500u32),
        frame_overhead in prop_oneof![Just(0u32), Just(38)],
        seed in any::<u64>(),
    ) -> Scenario {
        let link = LinkModel { rate: RATE, delay, frame_overhead, frame_payload };
        Scenario { faults, endpoint, arbiter, routes, link, seed, ..scenario(topology, switching) }
    }
}

fn is_lossless(scenario: &Scenario) -> bool {
    let drops = matches!(
        scenario.switching,
        Switching::OutputQueued { full: WhenFull::Drop, .. }
            | Switching::SharedMemory { full: WhenFull::Drop, .. }
    );
    let loses = |fault: &Fault| !matches!(fault.what, FaultKind::SlowReceiver { .. });
    !drops && !scenario.faults.iter().any(loses)
}

proptest! {
    #[test]
    fn every_message_arrives_or_is_lost_or_stands_in_a_deadlock_that_is_named(
        scenario in scenarios(),
        each in 0..30u32,
        most in prop_oneof![Just(0u32), Just(1_000), Just(3_000)],
    ) {
        let endpoints = crate::topology::endpoints(&scenario.topology).unwrap();
        let mut traffic = Watched::new(endpoints, each, most, scenario.seed);
        let (measured, ended) = run_with(&scenario, &mut traffic, Picos::MAX);
        let count = |fate| traffic.fates.iter().filter(|&&seen| seen == fate).count() as u64;
        prop_assert_eq!(measured.messages.delivered, count(Fate::Delivered));
        prop_assert!(measured.messages.in_flight == 0 || ended.deadlock.is_some());
        // A message that lost a frame is lost, but its other frames can still block others.
        let standing = measured.messages.in_flight + measured.messages.lost;
        prop_assert!(standing > 0 || ended.deadlock.is_none());
        if ended.deadlock.is_none() {
            prop_assert_eq!(measured.messages.lost, count(Fate::Lost));
            prop_assert_eq!(measured.messages.offered, u64::from(endpoints * each));
        } else {
            prop_assert!(matches!(scenario.topology, Topology::Table(_)), "only the ring has a circle");
        }
        if is_lossless(&scenario) {
            prop_assert_eq!(measured.messages.lost, 0);
        }
        let mut again = Watched::new(endpoints, each, most, scenario.seed);
        prop_assert_eq!(run_with(&scenario, &mut again, Picos::MAX), (measured, ended), "same seed, same run");
    }

    #[test]
    fn a_run_that_is_cut_short_still_adds_up(scenario in scenarios(), nanos in 0..20_000u64) {
        let endpoints = crate::topology::endpoints(&scenario.topology).unwrap();
        let mut traffic = Watched::new(endpoints, u32::MAX, 1_500, scenario.seed);
        let (measured, ended) = run_with(&scenario, &mut traffic, Picos::from_nanos(nanos));
        prop_assert!(ended.at <= Picos::from_nanos(nanos));
        prop_assert_eq!(measured.messages.offered, traffic.fates.len() as u64);
    }
}
