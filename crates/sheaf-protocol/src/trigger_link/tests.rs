//! Tests of both sides of the trigger protocol, with a link that delays messages.

use super::*;
use proptest::prelude::*;
use sheaf_wire::trigger_link::{
    Busy, BusyCause, BusyReason, FromManager, FromSupervisor, Phase, Refusal, Totals, Trigger, reserve,
};
use sheaf_wire::{EventId, Nanos, NodeId, RunNumber, Timestamp, TriggerType};
use std::collections::VecDeque;

mod device;

const CREDIT: BusyReason = BusyReason { cause: BusyCause::BuilderCredit, culprit: None };
const OUTPUT: BusyReason = BusyReason { cause: BusyCause::Output, culprit: Some(NodeId::builder(1)) };

/// Interval of triggers at the maximum rate.
const TICK: Nanos = Nanos(1_000);
const LINK: LinkId = LinkId(1);

fn receiver(queue: u64, reserve: u64) -> Receiver {
    let config = ReceiverConfig { queue, reserve, first: EventId(5), max_payload: 8, is_lossy: false };
    Receiver::new(config, RunNumber(3), CREDIT)
}

/// One direction of a link. Messages keep their order and take some ticks each.
struct Line<T> {
    in_flight: VecDeque<(u64, T)>,
    delays: Vec<u64>,
    sent: usize,
}

impl<T> Line<T> {
    fn new(delays: &[u64]) -> Self {
        Self { in_flight: VecDeque::new(), delays: delays.to_vec(), sent: 0 }
    }

    fn send(&mut self, tick: u64, message: T) {
        let delay = self.delays[self.sent % self.delays.len()];
        self.sent += 1;
        let before = self.in_flight.back().map_or(0, |(at, _)| *at);
        self.in_flight.push_back((before.max(tick + delay), message));
    }

    fn receive(&mut self, tick: u64) -> Option<T> {
        self.in_flight.pop_front_if(|(at, _)| *at <= tick).map(|(_, message)| message)
    }
}

/// The event manager's queue. Builders take events from it in the cycle of `takes`: (number of ticks, events in each).
struct Consumer {
    queue: u64,
    held: u64,
    takes: Vec<(u64, u64)>,
}

impl Consumer {
    fn take(&mut self, tick: u64) {
        let cycle: u64 = self.takes.iter().map(|(ticks, _)| ticks).sum();
        let mut at = tick % cycle.max(1);
        for (ticks, events) in &self.takes {
            if at < *ticks {
                self.held = self.held.saturating_sub(*events);
                return;
            }
            at -= ticks;
        }
    }

    fn room(&self, tick: u64) -> Room {
        let reason = if (tick / 64).is_multiple_of(2) { CREDIT } else { OUTPUT };
        Room {
            buffer: Buffer::Queue,
            free: self.queue - self.held,
            accepts: self.queue - self.held,
            capacity: self.queue,
            reason,
        }
    }
}

proptest! {
    /// Every cycle of `takes` ends with 400 ticks of one event each, so that every run ends.
    #[test]
    fn no_trigger_is_lost_and_the_accounts_agree_whatever_the_link_delays(
        latency in 0..40_u64, there in prop::collection::vec(0..=40_u64, 1..30), back in prop::collection::vec(0..=40_u64, 1..30),
        room in 1..100_u64, takes in prop::collection::vec((1..200_u64, 0..3_u64), 1..6), offers in prop::collection::vec(any::<bool>(), 1..50),
        ticks in 1..3_000_u64,
    ) {
        let within = |delays: Vec<u64>| delays.into_iter().map(|delay| delay.min(latency)).collect::<Vec<_>>();
        let (mut there, mut back) = (Line::new(&within(there)), Line::new(&within(back)));
        let reserve = reserve(Nanos(TICK.0 * latency), 1e9 / TICK.0 as f64);
        let mut receiver = receiver(reserve + room, reserve);
        let mut supervisor = Supervisor::new("TLU");
        let mut takes = takes;
        takes.push((400, 1));
        let mut consumer = Consumer { queue: reserve + room, held: 0, takes };
        receiver.handle_connection(LINK);
        receiver.handle_phase(Phase::Running);
        let (mut account, mut totals, mut vetoed) = (None, None, 0);
        for tick in 0.. {
            let now = Timestamp(TICK.0 * tick);
            prop_assert!(tick < 1_000_000, "the accounts are exchanged");
            while let Some(message) = back.receive(tick) {
                supervisor.handle_input(now, message);
            }
            if offers[tick as usize % offers.len()]
                && let Err(Held::Busy(_)) = supervisor.handle_trigger(now, TriggerType(1), tick, |_| Vec::new())
            {
                vetoed += 1;
            }
            if tick == ticks {
                supervisor.handle_end();
            }
            while let Some(message) = supervisor.poll_transmit() {
                there.send(tick, message);
            }
            consumer.take(tick);
            receiver.handle_rooms(now, [consumer.room(tick)]);
            while let Some(message) = there.receive(tick) {
                receiver.handle_input(now, LINK, message);
            }
            while let Some(trigger) = receiver.poll_trigger() {
                prop_assert!(consumer.held < consumer.queue, "there is room");
                consumer.held += 1;
                prop_assert!(trigger.id >= EventId(5));
                receiver.handle_taken(true);
            }
            while let Some((_, message)) = receiver.poll_transmit(now) {
                back.send(tick, message);
            }
            while let Some(event) = supervisor.poll_event() {
                if let SupervisorEvent::Account(it) = event {
                    account = Some(it);
                }
            }
            while let Some(event) = receiver.poll_event() {
                if let ReceiverEvent::Totals(it) = event {
                    totals = Some(it);
                }
            }
            if totals.is_some() {
                break;
            }
        }
        let (account, totals) = (account.expect("exchanged"), totals.expect("exchanged"));
        let report = receiver.report(Timestamp::MAX);
        prop_assert_eq!(&report.differences, &Vec::<String>::new());
        prop_assert!(report.is_balanced());
        prop_assert_eq!(account.lost, 0);
        prop_assert_eq!((account.received, account.accepted), (totals.sent, totals.sent));
        prop_assert_eq!(totals.offered, totals.sent + vetoed);
        prop_assert_eq!(report.skipped + report.steps_back + report.late, 0);
        prop_assert!(account.busy.keys().all(|reason| totals.busy.contains_key(reason)));
        for (reason, theirs) in &totals.busy {
            let ours = account.busy[reason];
            prop_assert_eq!(ours.intervals, theirs.intervals);
            prop_assert!(ours.time.0.abs_diff(theirs.time.0) <= theirs.intervals * latency * TICK.0);
        }
    }
}

/// Returns a message with triggers of these ids.
fn triggers(ids: impl IntoIterator<Item = u64>) -> FromSupervisor {
    let trigger = |id| Trigger {
        id: EventId(id),
        time: Timestamp(id),
        kind: TriggerType(0),
        bits: 0,
        payload: Vec::new(),
    };
    FromSupervisor::Triggers(ids.into_iter().map(trigger).collect())
}

/// Returns a receiver with the supervisor "TLU", in a run in progress.
fn joined(queue: u64, reserve: u64) -> Receiver {
    let mut receiver = receiver(queue, reserve);
    receiver.handle_connection(LINK);
    receiver.handle_phase(Phase::Running);
    receiver.handle_input(Timestamp::ZERO, LINK, FromSupervisor::Hello { name: "TLU".into() });
    assert_eq!(receiver.poll_event(), Some(ReceiverEvent::Joined { name: "TLU".into() }));
    receiver
}

fn transmits(receiver: &mut Receiver, at: u64) -> Vec<FromManager> {
    std::iter::from_fn(|| receiver.poll_transmit(Timestamp(at))).map(|(_, message)| message).collect()
}

fn take_all(receiver: &mut Receiver) -> Vec<u64> {
    std::iter::from_fn(|| {
        let trigger = receiver.poll_trigger()?;
        receiver.handle_taken(true);
        Some(trigger.id.0)
    })
    .collect()
}

#[test]
fn each_trigger_is_in_one_bin() {
    let mut receiver = joined(6, 1);
    receiver.handle_input(Timestamp::ZERO, LINK, triggers([5, 6, 6, 9, 8, 3, 10]));
    assert_eq!(take_all(&mut receiver), [5, 6, 9, 10]);
    // There were 6 places; the queue has 4 events, and the supervisor does not honour busy.
    receiver.handle_input(Timestamp::ZERO, LINK, triggers([11, 12, 13]));
    receiver.handle_phase(Phase::Ended);
    receiver.handle_input(Timestamp::ZERO, LINK, triggers([14]));
    let report = receiver.report(Timestamp(9));
    assert!(report.is_balanced());
    let all = report.triggers;
    assert_eq!((all.received, all.accepted, all.lost), (11, 4, 1));
    assert_eq!((all.repeated, all.out_of_order, all.outside), (1, 2, 3));
    assert_eq!((report.skipped, report.steps_back), (2, 2));
}

#[test]
fn busy_is_raised_at_the_reserve_and_released_at_half_of_the_rest() {
    let mut receiver = joined(10, 4);
    assert!(matches!(transmits(&mut receiver, 0)[..], [FromManager::Welcome { next: EventId(5), .. }]));
    receiver.handle_input(Timestamp(1), LINK, triggers(5..10));
    assert_eq!(transmits(&mut receiver, 1), [], "5 places are free");
    receiver.handle_input(Timestamp(2), LINK, triggers([10]));
    let busy = |sequence, reason, at| FromManager::Busy(Busy { sequence, reason, at: Timestamp(at) });
    let queue = |free, reason| Room { buffer: Buffer::Queue, free, accepts: free, capacity: 10, reason };
    assert_eq!(transmits(&mut receiver, 2), [busy(1, Some(CREDIT), 2)]);
    assert_eq!(take_all(&mut receiver), [5, 6, 7, 8, 9, 10]);
    receiver.handle_rooms(Timestamp(5), [queue(6, OUTPUT)]);
    assert_eq!(transmits(&mut receiver, 5), [busy(2, Some(OUTPUT), 2)], "another reason");
    receiver.handle_rooms(Timestamp(12), [queue(7, OUTPUT)]);
    assert_eq!(transmits(&mut receiver, 12), [busy(3, None, 12)]);
    let turns: Vec<_> = std::iter::from_fn(|| receiver.poll_turn()).collect();
    let expected = [
        (0, Gate::NoSupervisor),
        (0, Gate::Open),
        (2, Gate::Busy(CREDIT)),
        (5, Gate::Busy(OUTPUT)),
        (12, Gate::Open),
    ];
    assert_eq!(turns, expected.map(|(at, gate)| (Timestamp(at), gate)));
    let busy = receiver.report(Timestamp(20)).triggers.busy;
    assert_eq!((busy[&CREDIT].time, busy[&OUTPUT].time), (Nanos(3), Nanos(7)));
}

#[test]
fn one_supervisor_is_accepted_and_the_next_may_follow_it() {
    let mut receiver = joined(10, 4);
    transmits(&mut receiver, 0);
    let second = LinkId(2);
    receiver.handle_connection(second);
    receiver.handle_input(Timestamp(1), second, FromSupervisor::Hello { name: "other".into() });
    let text = "another trigger supervisor is connected: TLU".to_owned();
    let refused = FromManager::Refused { refusal: Refusal::SupervisorTaken, text };
    assert_eq!(receiver.poll_transmit(Timestamp(1)), Some((second, refused)));
    receiver.handle_input(Timestamp(1), LINK, triggers([5, 6]));
    receiver.handle_disconnection(Timestamp(2), second);
    receiver.handle_disconnection(Timestamp(2), LINK);
    let events: Vec<_> = std::iter::from_fn(|| receiver.poll_event()).collect();
    assert!(
        matches!(&events[..], [ReceiverEvent::Refused { name, .. }, ReceiverEvent::Gone { early: true, .. }] if name == "other")
    );
    assert_eq!(take_all(&mut receiver), [5, 6], "triggers that were received count");
    let third = LinkId(3);
    receiver.handle_connection(third);
    receiver.handle_input(Timestamp(3), third, FromSupervisor::Hello { name: "TLU".into() });
    let next = EventId(7);
    let welcome = FromManager::Welcome { run: RunNumber(3), phase: Phase::Running, next, max_payload: 8 };
    assert_eq!(receiver.poll_transmit(Timestamp(3)), Some((third, welcome)));
    let report = receiver.report(Timestamp(4));
    assert!(report.is_balanced());
    assert_eq!((report.connections, report.triggers.accepted, report.accounts), (2, 2, 0));
}

#[test]
fn triggers_that_wait_belong_to_the_connection_that_brought_them() {
    let mut receiver = joined(10, 4);
    transmits(&mut receiver, 0);
    receiver.handle_input(Timestamp(1), LINK, triggers([5, 6]));
    receiver.handle_disconnection(Timestamp(2), LINK);
    let next = LinkId(2);
    receiver.handle_connection(next);
    receiver.handle_input(Timestamp(3), next, FromSupervisor::Hello { name: "TLU".into() });
    receiver.handle_input(Timestamp(4), next, triggers([7]));
    receiver.handle_input(Timestamp(4), next, FromSupervisor::End { sent: 1 });
    transmits(&mut receiver, 4);
    assert_eq!(take_all(&mut receiver), [5, 6, 7]);
    let account = transmits(&mut receiver, 5).into_iter().find_map(|message| match message {
        FromManager::Account(account) => Some(account),
        _ => None,
    });
    assert_eq!(account.map(|account| (account.received, account.accepted)), Some((1, 1)));
    let gates: Vec<_> = std::iter::from_fn(|| receiver.poll_turn()).skip(2).collect();
    assert_eq!(gates, [(Timestamp(2), Gate::NoSupervisor), (Timestamp(3), Gate::Open)]);
}

#[test]
fn a_payload_that_the_run_does_not_take_ends_the_connection() {
    let mut receiver = joined(10, 4);
    transmits(&mut receiver, 0);
    let with_payload = |id, bytes| {
        let FromSupervisor::Triggers(mut triggers) = triggers([id]) else { panic!("triggers") };
        triggers[0].payload = vec![7; bytes];
        FromSupervisor::Triggers(triggers)
    };
    receiver.handle_input(Timestamp(1), LINK, with_payload(5, 8));
    assert_eq!(receiver.poll_trigger().map(|trigger| trigger.payload), Some(vec![7; 8]));
    receiver.handle_taken(true);
    receiver.handle_input(Timestamp(1), LINK, with_payload(6, 9));
    let answer = receiver.poll_transmit(Timestamp(1));
    let Some((LINK, FromManager::Refused { refusal: Refusal::PayloadTooLarge, .. })) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(receiver.poll_trigger(), None);
}

#[test]
fn accounts_that_differ_are_named() {
    let mut receiver = joined(10, 4);
    receiver.handle_input(Timestamp(1), LINK, triggers([5, 6]));
    take_all(&mut receiver);
    receiver.handle_input(Timestamp(2), LINK, FromSupervisor::End { sent: 2 });
    transmits(&mut receiver, 2);
    let busy = [(CREDIT, sheaf_wire::trigger_link::BusyTime { intervals: 1, ..Default::default() })].into();
    let totals = Totals { offered: 5, sent: 3, own_vetoed: 1, busy };
    receiver.handle_input(Timestamp(3), LINK, FromSupervisor::Totals(totals));
    assert_eq!(
        receiver.report(Timestamp(4)).differences,
        [
            "3 triggers were sent, 2 received",
            "the supervisor's 5 triggers are not 3 sent, 1 vetoed by itself and 0 by busy",
            "busy by builder_credit: 0 intervals were sent, 1 received",
        ]
    );
}

#[test]
fn messages_at_the_wrong_moment_end_the_connection() {
    for wrong in [FromSupervisor::Hello { name: "again".into() }, FromSupervisor::Totals(Totals::default())] {
        let mut receiver = joined(10, 4);
        transmits(&mut receiver, 0);
        receiver.handle_input(Timestamp(1), LINK, wrong);
        let Some((LINK, FromManager::Refused { refusal: Refusal::InvalidMessage, .. })) =
            receiver.poll_transmit(Timestamp(1))
        else {
            panic!("refused")
        };
    }
    let mut receiver = receiver(10, 4);
    for link in 0..9 {
        receiver.handle_connection(LinkId(link));
    }
    let first = receiver.poll_transmit(Timestamp(1)).map(|(link, _)| link);
    assert_eq!(first, Some(LinkId(0)), "connections without a hello are bounded, and the oldest is refused");
}

#[test]
fn each_buffer_has_a_hysteresis_of_its_own_and_busy_keeps_its_reason_while_its_buffer_is_short() {
    let mut receiver = joined(100, 10);
    transmits(&mut receiver, 0);
    let memory =
        |index| BusyReason { cause: BusyCause::ReadoutMemory, culprit: Some(NodeId::readout(index)) };
    let mut busy = |at, free: [u64; 3]| {
        let [queue, first, second] = free;
        let readout = |index, free, capacity| Room {
            buffer: Buffer::Readout(index),
            free,
            accepts: free,
            capacity,
            reason: memory(index),
        };
        let queue =
            Room { buffer: Buffer::Queue, free: queue, accepts: queue, capacity: 100, reason: CREDIT };
        receiver.handle_rooms(Timestamp(at), [queue, readout(0, first, 50), readout(1, second, 8)]);
        let sent = transmits(&mut receiver, at + 1);
        sent.into_iter()
            .map(|message| match message {
                FromManager::Busy(Busy { reason, at, .. }) => (reason, at.0),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(busy(1, [100, 11, 5]), []);
    assert_eq!(busy(2, [100, 10, 5]), [(Some(memory(0)), 2)]);
    assert_eq!(busy(3, [5, 9, 4]), [], "others are short as well");
    assert_eq!(busy(4, [5, 29, 4]), [], "half of the places beyond the reserve are not free");
    assert_eq!(busy(5, [5, 30, 4]), [(Some(memory(1)), 5)], "the shortest of the others");
    assert_eq!(busy(6, [5, 30, 6]), [(Some(CREDIT), 6)], "the reserve of a small buffer is half of it");
    assert_eq!(busy(7, [55, 30, 6]), [(None, 7)]);
    // Triggers without room in a readout unit find room in the queue.
    assert_eq!(busy(8, [60, 0, 8]), [(Some(memory(0)), 8)]);
    assert_eq!(receiver.room(), 60);
}

/// Whatever room there is, a paused run is busy for that reason; afterwards the room decides again. Triggers under way are taken.
#[test]
fn a_pause_is_busy_with_a_cause_of_its_own() {
    let pause = BusyReason { cause: BusyCause::Paused, culprit: None };
    let paused = Some(pause);
    let mut receiver = joined(10, 4);
    transmits(&mut receiver, 0);
    let busy = |receiver: &mut Receiver, pause: bool, free: u64, at: u64| {
        receiver.handle_pause(
            Timestamp(at),
            pause.then_some(BusyReason { cause: BusyCause::Paused, culprit: None }),
        );
        let room = Room { buffer: Buffer::Queue, free, accepts: free, capacity: 10, reason: CREDIT };
        receiver.handle_rooms(Timestamp(at), [room]);
        let sent = transmits(receiver, at + 1).into_iter().map(|message| match message {
            FromManager::Busy(Busy { reason, at, .. }) => (reason, at.0),
            other => panic!("{other:?}"),
        });
        sent.collect::<Vec<_>>()
    };
    assert_eq!(busy(&mut receiver, true, 10, 10), [(paused, 10)]);
    assert_eq!(receiver.gate(), Gate::Busy(pause));
    let trigger =
        |id| Trigger { id: EventId(id), time: Timestamp(1), kind: TriggerType(0), bits: 0, payload: vec![] };
    receiver.handle_input(Timestamp(11), LINK, FromSupervisor::Triggers(vec![trigger(5), trigger(6)]));
    assert_eq!(take_all(&mut receiver), [5, 6]);
    assert_eq!(busy(&mut receiver, true, 4, 20), [], "the queue is short as well");
    assert_eq!(busy(&mut receiver, false, 4, 30), [(Some(CREDIT), 30)]);
    assert_eq!(busy(&mut receiver, true, 10, 40), [(paused, 40)]);
    assert_eq!(busy(&mut receiver, false, 10, 50), [(None, 50)]);
    let turns: Vec<u64> = std::iter::from_fn(|| receiver.poll_turn()).map(|(at, _)| at.0).collect();
    assert_eq!(turns[turns.len() - 4..], [11, 31, 41, 51], "dead time begins when busy is sent");
}
