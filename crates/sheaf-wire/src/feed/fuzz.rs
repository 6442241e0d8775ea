//! The body of the fuzz target for the source protocol.

use super::{
    ClientMessage, FRAGMENT_HEAD_BYTES, FragmentHead, FragmentsHead, FromClient, FromReadout, Hello, Phase,
    Progress, Refusal, Welcome,
};
use crate::message::Recorded;
use crate::run_record::{RecordAnswer, RecordKind, RunRecord};
use crate::{ByteCount, EventId, RunNumber, SessionId, SourceId, Timestamp};

/// Reads `bytes` as a message of a client and as one of a readout unit. Writing a message that was read must give the same
/// bytes.
///
/// # Panics
/// If a parser violates its contract.
pub fn fuzz_feed(bytes: &[u8]) {
    match ClientMessage::read(bytes) {
        Ok(ClientMessage::Control(message)) => {
            let again = message.emit();
            let ClientMessage::Control(read) = ClientMessage::read(&again).expect("written by this code")
            else {
                panic!("no fragments")
            };
            assert_eq!(read, message);
        }
        Ok(ClientMessage::Fragments(head, mut fragments)) => {
            let (mut number, mut payloads) = (0, 0);
            while let Ok(Some((fragment, payload))) = fragments.next_fragment() {
                assert_eq!(payload.len(), fragment.length as usize);
                number += 1;
                payloads += payload.len() + FRAGMENT_HEAD_BYTES;
            }
            assert!(number <= head.count && payloads < bytes.len(), "no more than the message contains");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error has a text"),
    }
    if let Ok(message) = FromReadout::read(bytes) {
        assert_eq!(FromReadout::read(&message.emit()), Ok(message), "read as it was written");
    }
}

/// Returns a message of fragments.
fn fragments(head: FragmentsHead, payloads: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for (event, payload) in payloads.iter().enumerate() {
        let head = FragmentHead {
            event: EventId(event as u64),
            time: Timestamp(7),
            length: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            checksum: (event % 2 == 0).then_some(9),
        };
        body.extend_from_slice(&head.emit());
        body.extend_from_slice(payload);
    }
    let length = u32::try_from(super::FRAGMENTS_HEAD_BYTES + body.len()).unwrap_or(u32::MAX);
    [&head.emit(length)[..], &body].concat()
}

/// Returns inputs for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let progress = Progress {
        source: SourceId(3),
        received: 12,
        received_bytes: ByteCount(2048),
        accepted: 10,
        last_event: Some(EventId(99)),
        ended: false,
        fragments_limit: 100,
        bytes_limit: ByteCount(1 << 20),
    };
    let welcome = Welcome {
        run: RunNumber(7),
        session: SessionId(5),
        phase: Phase::Running,
        max_fragment: ByteCount(65_536),
        max_message: ByteCount(1 << 20),
        sources: vec![progress, Progress { source: SourceId(4), last_event: None, ended: true, ..progress }],
    };
    let refused = FromReadout::Refused {
        refusal: Refusal::SourceTaken,
        source: Some(SourceId(3)),
        text: "board 3".into(),
    };
    let record = RunRecord::derived(
        SourceId(3),
        RecordKind::Begin,
        Timestamp(7),
        "config.toml".into(),
        "gain = 3".into(),
    );
    let recorded = FromReadout::Recorded(Recorded {
        number: record.number,
        source: record.source,
        answer: RecordAnswer::NoRoom,
    });
    let hello = Hello { sources: vec![SourceId(3), SourceId(4)], name: "board".into(), late_records: true };
    let head = FragmentsHead { source: SourceId(3), count: 3, first: 12 };
    vec![
        ("hello".into(), FromClient::Hello(hello).emit()),
        ("fragments".into(), fragments(head, &[b"payload", b"", b"more"])),
        ("end".into(), FromClient::End { source: SourceId(3), fragments: 12 }.emit()),
        ("record".into(), FromClient::Record(record.into()).emit()),
        ("decline".into(), FromClient::Decline("high voltage is off".into()).emit()),
        ("welcome".into(), FromReadout::Welcome(welcome).emit()),
        ("progress".into(), FromReadout::Progress(vec![progress]).emit()),
        ("phase".into(), FromReadout::Phase(Phase::Ended).emit()),
        ("refused".into(), refused.emit()),
        ("recorded".into(), recorded.emit()),
    ]
}
