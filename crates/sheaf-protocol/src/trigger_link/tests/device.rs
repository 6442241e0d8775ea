//! Supervisors whose triggers come from a device with ids of its own, which is polled.

use super::*;
use sheaf_wire::trigger_link::BusyTime;

fn trigger(id: u64) -> Trigger {
    Trigger { id: EventId(id), time: Timestamp(id), kind: TriggerType(2), bits: 1, payload: Vec::new() }
}

/// A device with a memory for triggers, which learns of busy when it is polled.
#[derive(Default)]
struct Device {
    is_held: bool,
    next: u64,
    memory: Vec<Trigger>,
    vetoed: u64,
}

impl Device {
    fn pulse(&mut self, leaves_out: bool) {
        if self.is_held {
            self.vetoed += 1;
            return;
        }
        self.next += u64::from(leaves_out);
        self.memory.push(trigger(self.next));
        self.next += 1;
    }
}

/// Accounts of a run: of the receiver, and the number of triggers and of vetoes of the device.
struct Outcome {
    report: LinkReport,
    triggers: u64,
    vetoed: u64,
    skipped: u64,
}

/// Runs a device that is polled each `polls` ticks, over a link on which each message takes `latency` ticks. Builders take an event
/// in each tick that is not in a stall.
fn run((latency, polls): (u64, u64), room: u64, stalls: &[(u64, u64)], offers: &[bool]) -> Outcome {
    let (mut there, mut back) = (Line::new(&[latency]), Line::new(&[latency]));
    let reserve = reserve(Nanos(TICK.0 * (latency + polls)), 1e9 / TICK.0 as f64);
    let mut receiver = receiver(reserve + room, reserve);
    let mut supervisor = Supervisor::new("crate");
    let mut device = Device { next: 5, ..Device::default() };
    let (mut held, mut triggers, mut vetoed, mut skipped) = (0_u64, 0, 0, 0);
    let queue = reserve + room;
    receiver.handle_connection(LINK);
    receiver.handle_phase(Phase::Running);
    for tick in 0.. {
        assert!(tick < 1_000_000, "the accounts are exchanged");
        let now = Timestamp(TICK.0 * tick);
        while let Some(message) = back.receive(tick) {
            supervisor.handle_input(now, message);
        }
        if supervisor.is_running() && offers[tick as usize % offers.len()] {
            let leaves_out = tick % 17 == 3 && !device.is_held;
            skipped += u64::from(leaves_out);
            device.pulse(leaves_out);
        }
        let has_pulsed = tick as usize > 20 * offers.len() + 1_000;
        if supervisor.is_running() && (tick % polls == 0 || has_pulsed) {
            for trigger in device.memory.drain(..) {
                supervisor.handle_device_trigger(trigger).expect("the ids grow");
                triggers += 1;
            }
            vetoed += device.vetoed;
            supervisor.handle_vetoes(std::mem::take(&mut device.vetoed));
            device.is_held = supervisor.busy().is_some();
        }
        if has_pulsed {
            supervisor.handle_end();
        }
        while let Some(message) = supervisor.poll_transmit() {
            there.send(tick, message);
        }
        let is_stalled = stalls.iter().any(|(begin, ticks)| (*begin..begin + ticks).contains(&tick));
        held = held.saturating_sub(u64::from(!is_stalled));
        let free = queue - held;
        let room = Room { buffer: Buffer::Queue, free, accepts: free, capacity: queue, reason: OUTPUT };
        receiver.handle_rooms(now, [room]);
        while let Some(message) = there.receive(tick) {
            receiver.handle_input(now, LINK, message);
        }
        while receiver.poll_trigger().is_some() {
            held += 1;
            receiver.handle_taken(true);
        }
        while let Some((_, message)) = receiver.poll_transmit(now) {
            back.send(tick, message);
        }
        while supervisor.poll_event().is_some() {}
        let has_totals = std::iter::from_fn(|| receiver.poll_event())
            .any(|event| matches!(event, ReceiverEvent::Totals(_)));
        if has_totals {
            break;
        }
    }
    Outcome { report: receiver.report(Timestamp::MAX), triggers, vetoed, skipped }
}

proptest! {
    /// The time between two polls counts as a part of the latency.
    #[test]
    fn a_device_that_learns_of_busy_late_loses_no_trigger_and_each_veto_is_booked(
        latency in 0..20_u64, polls in 1..20_u64, room in 1..50_u64,
        stalls in prop::collection::vec((0..1_000_u64, 1..300_u64), 0..4), offers in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let Outcome { report, triggers, vetoed, skipped } = run((latency, polls), room, &stalls, &offers);
        prop_assert_eq!(&report.differences, &Vec::<String>::new());
        prop_assert!(report.is_balanced());
        prop_assert_eq!((report.triggers.lost, report.triggers.repeated, report.triggers.out_of_order), (0, 0, 0));
        prop_assert_eq!((report.triggers.accepted, report.supervisor.sent), (triggers, triggers));
        let by_busy: u64 = report.supervisor.busy.values().map(|time| time.vetoed).sum();
        prop_assert_eq!(by_busy, vetoed, "this device holds back only while the run is busy");
        prop_assert_eq!(report.supervisor.offered, triggers + vetoed);
        prop_assert!(report.skipped <= skipped, "ids after the last trigger are not known");
    }
}

/// Returns a supervisor in a run whose next id is 5.
fn supervisor() -> Supervisor {
    let mut supervisor = Supervisor::new("crate");
    let welcome =
        FromManager::Welcome { run: RunNumber(3), phase: Phase::Running, next: EventId(5), max_payload: 8 };
    supervisor.handle_input(Timestamp::ZERO, welcome);
    supervisor
}

#[test]
fn ids_of_a_device_grow_and_have_a_successor() {
    let mut supervisor = supervisor();
    assert_eq!(supervisor.handle_device_trigger(trigger(7)), Ok(()));
    let next = EventId(8);
    assert_eq!(supervisor.handle_device_trigger(trigger(7)), Err(NotTaken::IdTooLow { next }));
    assert_eq!(supervisor.handle_device_trigger(trigger(u64::MAX)), Err(NotTaken::IdTooHigh));
    assert_eq!(supervisor.handle_device_trigger(trigger(8)), Ok(()));
    supervisor.handle_end();
    assert_eq!(supervisor.handle_device_trigger(trigger(9)), Err(NotTaken::NotRunning));
    assert_eq!((supervisor.totals().offered, supervisor.totals().sent), (2, 2));
}

#[test]
fn vetoes_of_a_device_are_booked_to_busy_if_there_was_any_since_the_last_ones() {
    let mut supervisor = supervisor();
    let mut busy = |at, reason, vetoes| {
        let message = Busy { sequence: at, reason, at: Timestamp(at) };
        supervisor.handle_input(Timestamp(at), FromManager::Busy(message));
        supervisor.handle_vetoes(vetoes);
        let totals = supervisor.totals();
        let by_busy = |reason| totals.busy.get(&reason).map_or(0, |time: &BusyTime| time.vetoed);
        assert_eq!(totals.offered, totals.own_vetoed + by_busy(CREDIT) + by_busy(OUTPUT));
        (totals.own_vetoed, by_busy(CREDIT), by_busy(OUTPUT))
    };
    assert_eq!(busy(1, None, 4), (4, 0, 0), "the device has dead time of its own");
    assert_eq!(busy(2, Some(CREDIT), 3), (4, 3, 0));
    assert_eq!(busy(3, Some(OUTPUT), 2), (4, 3, 2));
    assert_eq!(busy(4, None, 1), (4, 3, 3), "busy has ended since the last poll");
    assert_eq!(busy(5, None, 6), (10, 3, 3));
}
