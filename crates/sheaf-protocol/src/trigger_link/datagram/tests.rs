//! Tests of the trigger protocol over a network that loses, repeats and delays datagrams, without order.

use super::*;
use crate::trigger_link::{
    Buffer, Held, Receiver, ReceiverConfig, ReceiverEvent, Room, Supervisor, SupervisorEvent,
};
use proptest::prelude::*;
use sheaf_wire::trigger_link::{
    BusyCause, BusyReason, NONCE_BYTES, Phase, ReceivedTriggers, Refusal, Totals, Trigger, reserve,
};
use sheaf_wire::{EventId, RunNumber, TriggerType};

const CREDIT: BusyReason = BusyReason { cause: BusyCause::BuilderCredit, culprit: None };

/// Interval of triggers at the maximum rate, and unit of all times.
const TICK: Nanos = Nanos(10_000);
const SILENCE: Nanos = Nanos::from_secs(3);
const BOARD: u16 = 7;
const FIRST: EventId = EventId(5);

/// A key that anyone can guess, for tests: a proof is the sum of a nonce and the key.
#[derive(Debug)]
struct TestKey {
    secret: u8,
    meeting: u8,
}

impl DoorKey for TestKey {
    fn challenge(&self) -> [u8; NONCE_BYTES] {
        [self.meeting; NONCE_BYTES]
    }

    fn verify(&mut self, nonce: &[u8; NONCE_BYTES], proof: &[u8; NONCE_BYTES]) -> Option<[u8; NONCE_BYTES]> {
        let is_proven = *proof == prove(self.secret, &self.challenge());
        self.meeting += u8::from(is_proven);
        is_proven.then(|| prove(self.secret, nonce))
    }
}

fn prove(secret: u8, nonce: &[u8; NONCE_BYTES]) -> [u8; NONCE_BYTES] {
    nonce.map(|byte| byte.wrapping_add(secret))
}

fn receiver(queue: u64, reserve: u64) -> Receiver {
    let config = ReceiverConfig { queue, reserve, first: FIRST, max_payload: 0, is_lossy: true };
    let mut receiver = Receiver::new(config, RunNumber(3), CREDIT);
    receiver.handle_phase(Phase::Running);
    receiver
}

/// Fates of datagrams in one direction, which repeat: lost, and the ticks after which each copy arrives.
#[derive(Clone, Debug)]
struct Fates(Vec<(bool, Vec<u64>)>);

fn fates(latency: u64) -> impl Strategy<Value = Fates> {
    let copies = prop::collection::vec(0..=latency, 1..3);
    prop::collection::vec((prop::bool::weighted(0.2), copies), 1..40).prop_map(|mut fates| {
        fates[0].0 = false;
        Fates(fates)
    })
}

struct Air<T> {
    fates: Fates,
    sent: usize,
    flying: Vec<(u64, T)>,
}

impl<T: Clone> Air<T> {
    fn new(fates: Fates) -> Self {
        Self { fates, sent: 0, flying: Vec::new() }
    }

    fn send(&mut self, tick: u64, datagram: T) {
        let (is_lost, copies) = &self.fates.0[self.sent % self.fates.0.len()];
        self.sent += 1;
        if !is_lost {
            self.flying.extend(copies.iter().map(|delay| (tick + delay, datagram.clone())));
        }
    }

    fn receive(&mut self, tick: u64) -> Option<T> {
        let at = self.flying.iter().position(|(at, _)| *at <= tick)?;
        Some(self.flying.remove(at).1)
    }

    fn is_faultless(&self) -> bool {
        self.fates
            .0
            .iter()
            .all(|(is_lost, copies)| !is_lost && copies.iter().all(|delay| *delay == copies[0]))
            && self.fates.0.iter().all(|fate| fate.1[0] == self.fates.0[0].1[0])
    }
}

/// Both ends of a connection, and the network between them.
struct Rig {
    receiver: Receiver,
    door: DatagramDoor<u16>,
    supervisor: Supervisor,
    caller: DatagramCaller,
    there: Air<Datagram<FromSupervisor>>,
    back: Air<Datagram<FromManager>>,
    accepted: Vec<EventId>,
    account: Option<ReceivedTriggers>,
    totals: Option<Totals>,
    secret: Option<u8>,
}

impl Rig {
    fn new(receiver: Receiver, key: Option<u8>, there: Fates, back: Fates) -> Self {
        let door_key = key.map(|secret| Box::new(TestKey { secret, meeting: 1 }) as Box<dyn DoorKey>);
        Self {
            receiver,
            door: DatagramDoor::new(door_key, SILENCE),
            supervisor: Supervisor::new("TLU").with_messages_of(400),
            caller: DatagramCaller::new(Timestamp::ZERO, 99, "TLU"),
            there: Air::new(there),
            back: Air::new(back),
            accepted: Vec::new(),
            account: None,
            totals: None,
            secret: key,
        }
    }

    fn work(&mut self, tick: u64) {
        let now = Timestamp(TICK.0 * tick);
        while let Some(datagram) = self.back.receive(tick) {
            for message in self.caller.handle_input(now, datagram) {
                if let (FromManager::Challenge(nonce), Some(secret)) = (&message, self.secret) {
                    self.caller.answer([9; NONCE_BYTES], prove(secret, nonce));
                }
                self.supervisor.handle_input(now, message);
            }
        }
        while let Some(datagram) = self.caller.poll_transmit(now, &mut self.supervisor) {
            self.there.send(tick, datagram);
        }
        while let Some(datagram) = self.there.receive(tick) {
            self.door.handle_input(now, BOARD, datagram, &mut self.receiver);
        }
        self.door.handle_timeout(now, &mut self.receiver);
        while let Some(event) = self.supervisor.poll_event() {
            if let SupervisorEvent::Account(account) = event {
                self.account = Some(account);
            }
        }
        while let Some(event) = self.receiver.poll_event() {
            if let ReceiverEvent::Totals(totals) = event {
                self.totals = Some(totals);
            }
        }
    }

    fn transmit(&mut self, tick: u64) {
        let now = Timestamp(TICK.0 * tick);
        self.door.hand_over(now, &mut self.receiver);
        while let Some((address, datagram)) = self.door.poll_transmit(now, &mut self.receiver) {
            assert_eq!(address, BOARD);
            self.back.send(tick, datagram);
        }
    }

    fn take_triggers(&mut self) -> u64 {
        let before = self.accepted.len();
        while let Some(trigger) = self.receiver.poll_trigger() {
            self.accepted.push(trigger.id);
            self.receiver.handle_taken(true);
        }
        (self.accepted.len() - before) as u64
    }
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(96))]

    /// Builders take one event in each tick but in the first of each cycle of `stall` and `work` ticks.
    #[test]
    fn both_sides_agree_whatever_becomes_of_datagrams(
        there in fates(30), back in fates(30), key in prop::option::of(1..9_u8), room in 1..60_u64,
        (stall, work) in (1..300_u64, 100..300_u64), ticks in 300..3_000_u64,
    ) {
        let reserve = reserve(Nanos(TICK.0 * 30), 1e9 / TICK.0 as f64);
        let queue = reserve + room;
        let mut rig = Rig::new(receiver(queue, reserve), key, there, back);
        let (mut held, mut vetoed) = (0_u64, 0);
        for tick in 0.. {
            prop_assert!(tick < 2_000_000, "the accounts are exchanged");
            let now = Timestamp(TICK.0 * tick);
            let offer = rig.supervisor.handle_trigger(now, TriggerType(1), tick, |_| Vec::new());
            vetoed += u64::from(matches!(offer, Err(Held::Busy(_))));
            if tick == ticks {
                rig.supervisor.handle_end();
            }
            rig.work(tick);
            if tick % (stall + work) >= stall {
                held = held.saturating_sub(1);
            }
            let free = queue - held;
            rig.receiver.handle_rooms(now, [Room { buffer: Buffer::Queue, free, accepts: free, capacity: queue, reason: CREDIT }]);
            held += rig.take_triggers();
            prop_assert!(held <= queue, "no trigger without room");
            rig.transmit(tick);
            if rig.totals.is_some() && rig.account.is_some() {
                break;
            }
        }
        let (account, totals) = (rig.account.clone().expect("exchanged"), rig.totals.clone().expect("exchanged"));
        let (report, counts) = (rig.receiver.report(Timestamp::MAX), rig.door.counts());
        prop_assert_eq!(&report.differences, &Vec::<String>::new());
        prop_assert!(report.is_balanced());
        prop_assert_eq!(account.lost, 0);
        prop_assert_eq!(totals.offered, totals.sent + vetoed);
        prop_assert_eq!(totals.sent, account.received + report.undelivered);
        prop_assert_eq!(account.accepted, rig.accepted.len() as u64);
        prop_assert!(rig.accepted.windows(2).all(|pair| pair[0] < pair[1]), "no event twice");
        prop_assert!(rig.accepted.iter().all(|id| (FIRST.0..FIRST.0 + totals.sent).contains(&id.0)), "no event invented");
        prop_assert!(report.undelivered == 0 || counts.lost + counts.out_of_order > 0, "{:?}", counts);
        if rig.there.is_faultless() {
            prop_assert_eq!((report.undelivered, account.accepted, report.skipped), (0, totals.sent, 0));
            prop_assert_eq!((counts.lost, counts.out_of_order), (0, 0));
        }
        let last = rig.accepted.last().map_or(FIRST.0, |id| id.0 + 1);
        prop_assert_eq!(report.skipped, last - FIRST.0 - account.accepted, "each id that has no event is a skipped one");
        prop_assert_eq!(report.skipped_ids.is_some(), report.skipped > 0);
    }
}

fn straight() -> Fates {
    Fates(vec![(false, vec![1])])
}

/// Lets both sides work for some ticks.
fn run(rig: &mut Rig, ticks: std::ops::Range<u64>) {
    for tick in ticks {
        rig.work(tick);
        rig.take_triggers();
        rig.transmit(tick);
    }
}

#[test]
fn a_lost_trigger_is_named_and_no_event_is_invented() {
    let mut rig = Rig::new(receiver(1_000, 1), None, straight(), straight());
    run(&mut rig, 0..20);
    assert!(rig.supervisor.is_running());
    for tick in 20..60 {
        rig.supervisor.handle_trigger(Timestamp(1), TriggerType(1), 0, |_| Vec::new()).expect("not busy");
        if tick == 30 || tick == 40 {
            let lost = rig.caller.poll_transmit(Timestamp(1), &mut rig.supervisor);
            assert!(matches!(lost.expect("a datagram").messages[..], [FromSupervisor::Triggers(_)]));
        }
        run(&mut rig, tick..tick + 1);
    }
    let report = rig.receiver.report(Timestamp(1));
    assert_eq!((report.skipped, report.skipped_ids), (2, Some((EventId(15), EventId(25)))));
    assert_eq!(rig.accepted.len(), 37, "one is in flight");
    rig.supervisor.handle_end();
    run(&mut rig, 60..80);
    assert_eq!(rig.receiver.report(Timestamp(1)).undelivered, 2);
    assert_eq!(rig.door.counts().lost, 2);
    assert!(rig.totals.is_some() && rig.receiver.report(Timestamp(1)).differences.is_empty());
}

#[test]
fn strangers_are_counted_and_a_second_supervisor_is_refused() {
    let mut rig = Rig::new(receiver(100, 1), None, straight(), straight());
    run(&mut rig, 0..20);
    let mut other = DatagramCaller::new(Timestamp(1), 5, "other");
    let hello = other.poll_transmit(Timestamp(1), &mut Supervisor::new("other")).expect("a hello");
    let triggers = Datagram {
        head: DatagramHead { link: 99, number: 9, seen: 0 },
        messages: vec![FromSupervisor::End { sent: 0 }],
    };
    for (datagram, refusal) in [(hello, Refusal::SupervisorTaken), (triggers, Refusal::NotConnected)] {
        let link = datagram.head.link;
        rig.door.handle_input(Timestamp(1), 666, datagram, &mut rig.receiver);
        let (address, answer) = rig.door.poll_transmit(Timestamp(1), &mut rig.receiver).expect("an answer");
        assert_eq!((address, answer.head.link), (666, link));
        assert!(matches!(&answer.messages[..], [FromManager::Refused { refusal: it, .. }] if *it == refusal));
    }
    assert_eq!(rig.door.counts().strangers, 1);
    assert!(rig.receiver.has_supervisor());
    assert!(rig.receiver.expects_triggers(), "the end was that of a stranger");
}

#[test]
fn without_the_key_nobody_is_welcome_and_a_recording_proves_nothing() {
    let mut rig = Rig::new(receiver(100, 1), Some(3), straight(), straight());
    rig.secret = Some(4);
    run(&mut rig, 0..400);
    assert!(!rig.receiver.has_supervisor());
    assert_eq!(rig.receiver.report(Timestamp(1)).refused.get(&Refusal::WrongKey), Some(&1));

    let mut rig = Rig::new(receiver(100, 1), Some(3), straight(), straight());
    run(&mut rig, 0..1);
    let mut recorded = Vec::new();
    for tick in 1..20 {
        recorded.extend(rig.there.flying.iter().map(|(_, datagram)| datagram.clone()));
        run(&mut rig, tick..tick + 1);
    }
    assert!(rig.receiver.has_supervisor());
    rig.door.handle_timeout(Timestamp(SILENCE.0 * 2), &mut rig.receiver);
    assert!(!rig.receiver.has_supervisor(), "it is silent");
    for datagram in recorded {
        rig.door.handle_input(Timestamp(SILENCE.0 * 2), BOARD, datagram, &mut rig.receiver);
    }
    assert!(!rig.receiver.has_supervisor());
}

#[test]
fn a_silent_supervisor_is_gone_and_one_that_was_started_again_takes_its_place() {
    let mut rig = Rig::new(receiver(100, 1), None, straight(), straight());
    run(&mut rig, 0..20);
    assert!(rig.receiver.has_supervisor());
    (rig.supervisor, rig.caller) = (Supervisor::new("TLU"), DatagramCaller::new(Timestamp(1), 100, "TLU"));
    run(&mut rig, 20..40);
    assert_eq!(rig.receiver.report(Timestamp(1)).connections, 2);
    assert!(rig.supervisor.is_running());
    let silent = Timestamp(TICK.0 * 40) + SILENCE;
    rig.door.handle_timeout(silent, &mut rig.receiver);
    assert!(!rig.receiver.has_supervisor());
    let late = DatagramHead { link: 100, number: 1, seen: 3 };
    rig.door.handle_input(silent, BOARD, Datagram { head: late, messages: Vec::new() }, &mut rig.receiver);
    assert_eq!(
        rig.door.poll_transmit(silent, &mut rig.receiver),
        None,
        "it may belong to a hello on its way"
    );
    let messages = vec![FromSupervisor::End { sent: 0 }];
    rig.door.handle_input(silent, BOARD, Datagram { head: late, messages }, &mut rig.receiver);
    let (_, answer) = rig.door.poll_transmit(silent, &mut rig.receiver).expect("an answer");
    let refused = Refusal::NotConnected;
    assert!(matches!(&answer.messages[..], [FromManager::Refused { refusal, .. }] if *refusal == refused));
}

#[test]
fn triggers_that_wait_for_room_are_taken_before_their_supervisor_starts_again() {
    let mut receiver = receiver(4, 1);
    let mut door = DatagramDoor::new(None, SILENCE);
    let datagram = |link, number, message| {
        let head = DatagramHead { link, number, seen: 0 };
        Datagram { head, messages: vec![message] }
    };
    let hello = || FromSupervisor::Hello { name: "TLU".into() };
    let trigger = |id| Trigger {
        id: EventId(id),
        time: Timestamp(1),
        kind: TriggerType(1),
        bits: 0,
        payload: Vec::new(),
    };
    let triggers = FromSupervisor::Triggers((FIRST.0..FIRST.0 + 6).map(trigger).collect());
    door.handle_input(Timestamp(1), BOARD, datagram(1, 1, hello()), &mut receiver);
    door.handle_input(Timestamp(1), BOARD, datagram(1, 2, triggers), &mut receiver);
    door.handle_input(Timestamp(2), BOARD, datagram(2, 1, hello()), &mut receiver);
    assert_eq!((receiver.report(Timestamp(2)).triggers.received, door.holds()), (4, true));
    while receiver.poll_trigger().is_some() {
        receiver.handle_taken(true);
    }
    let room = Room { buffer: Buffer::Queue, free: 4, accepts: 4, capacity: 4, reason: CREDIT };
    receiver.handle_rooms(Timestamp(3), [room]);
    door.hand_over(Timestamp(3), &mut receiver);
    door.handle_input(Timestamp(3), BOARD, datagram(2, 1, hello()), &mut receiver);
    let report = receiver.report(Timestamp(3));
    assert_eq!((report.connections, report.triggers.received, report.triggers.lost), (2, 6, 0));
}
