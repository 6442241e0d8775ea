//! The body of the fuzz target for the trigger protocol.

use super::{
    Busy, BusyCause, BusyReason, BusyTime, BusyTimes, DatagramHead, FromManager, FromSupervisor, Message,
    Phase, ReceivedTriggers, Refusal, Totals, Trigger, read_datagram,
};
use crate::{EventId, Nanos, NodeId, RunNumber, Timestamp, TriggerType};

/// Reads `bytes` as a message of a supervisor and as one of the event manager, and as a datagram of each. What was read, written
/// and read again must be equal.
///
/// # Panics
/// If a parser violates its contract.
pub fn fuzz_trigger_link(bytes: &[u8]) {
    match FromSupervisor::read(bytes) {
        Ok(message) => {
            assert_eq!(FromSupervisor::read(&message.emit()), Ok(message), "read as it was written");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error has a text"),
    }
    if let Ok(message) = FromManager::read(bytes) {
        assert_eq!(FromManager::read(&message.emit()), Ok(message), "read as it was written");
    }
    fuzz_datagram::<FromSupervisor>(bytes);
    fuzz_datagram::<FromManager>(bytes);
}

fn fuzz_datagram<M: Message + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok((head, messages)) = read_datagram::<M>(bytes) {
        assert_eq!(read_datagram(&head.emit(&messages)), Ok((head, messages)), "read as it was written");
    }
}

/// Returns inputs for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let reason = BusyReason { cause: BusyCause::Output, culprit: Some(NodeId::builder(1)) };
    let time = BusyTime { intervals: 3, time: Nanos(1_500), vetoed: 12 };
    let busy = BusyTimes::from([
        (reason, time),
        (BusyReason { cause: BusyCause::BuilderCredit, culprit: None }, BusyTime::default()),
    ]);
    let trigger = Trigger {
        id: EventId(7),
        time: Timestamp(99),
        kind: TriggerType(2),
        bits: 0x81,
        payload: Vec::new(),
    };
    let with_payload = Trigger { id: EventId(8), payload: vec![1, 2, 3], ..trigger.clone() };
    let account = ReceivedTriggers {
        received: 20,
        accepted: 12,
        lost: 1,
        repeated: 2,
        out_of_order: 3,
        outside: 2,
        busy: busy.clone(),
    };
    let refused = FromManager::Refused { refusal: Refusal::SupervisorTaken, text: "by board 3".into() };
    let welcome =
        FromManager::Welcome { run: RunNumber(7), phase: Phase::Running, next: EventId(12), max_payload: 64 };
    let head = DatagramHead { link: 0x1234, number: 5, seen: 3 };
    let busy_now = Busy { sequence: 3, reason: Some(reason), at: Timestamp(1_700_000_000_000_000_000) };
    vec![
        ("answer".into(), FromSupervisor::Answer { nonce: [1; 32], proof: [2; 32] }.emit()),
        ("challenge".into(), FromManager::Challenge([3; 32]).emit()),
        ("proof".into(), FromManager::Proof([4; 32]).emit()),
        ("datagram-empty".into(), head.emit::<FromSupervisor>(&[])),
        ("datagram-triggers".into(), head.emit(&[FromSupervisor::Triggers(vec![trigger.clone()])])),
        (
            "datagram-state".into(),
            head.emit(&[FromManager::Busy(busy_now), FromManager::Phase(Phase::Running)]),
        ),
        ("hello".into(), FromSupervisor::Hello { name: "TLU".into() }.emit()),
        (
            "triggers".into(),
            FromSupervisor::Triggers(vec![trigger.clone(), Trigger { id: EventId(8), ..trigger.clone() }])
                .emit(),
        ),
        (
            "payloads".into(),
            FromSupervisor::Triggers(vec![with_payload, Trigger { id: EventId(9), ..trigger }]).emit(),
        ),
        ("end".into(), FromSupervisor::End { sent: 12 }.emit()),
        (
            "totals".into(),
            FromSupervisor::Totals(Totals { offered: 27, sent: 12, own_vetoed: 3, busy }).emit(),
        ),
        ("welcome".into(), welcome.emit()),
        (
            "busy".into(),
            FromManager::Busy(Busy {
                sequence: 1,
                reason: Some(reason),
                at: Timestamp(1_700_000_000_000_000_000),
            })
            .emit(),
        ),
        ("free".into(), FromManager::Busy(Busy { sequence: 2, reason: None, at: Timestamp::ZERO }).emit()),
        ("progress".into(), FromManager::Progress { received: 20, accepted: 12 }.emit()),
        ("phase".into(), FromManager::Phase(Phase::Stopping).emit()),
        ("refused".into(), refused.emit()),
        ("account".into(), FromManager::Account(account).emit()),
    ]
}
