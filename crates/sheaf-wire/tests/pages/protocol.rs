//! `docs/reference/protocol.md`.

use crate::page::{self, LAYOUT, assert_layouts, block, hex, shape, table, tables, unhex};
use bytes::Bytes;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::message::hello::{self, Hello, VersionRange};
use sheaf_wire::message::layout::{self, Kind};
use sheaf_wire::message::{Body, Command, Finished, Header, Message, Request, SuperFragments};
use sheaf_wire::{
    ByteCount, DropReason, EventId, Fragment, MissingReason, MissingSource, NodeId, NumberMark, Outcome,
    Role, RunNumber, SessionId, SourceId, SuperFragment, Term, Timestamp,
};
use std::mem::offset_of;

fn page() -> String {
    page::open("protocol.md")
}

#[test]
fn the_field_tables_have_the_fields_of_the_layouts() {
    let layouts = [
        (
            "Header",
            shape!(layout::HeaderBytes: magic, version, kind, head_bytes, payload_bytes, checksum, run, sender, session,
                sequence, acknowledged, acknowledged_session, term
            ),
        ),
        ("Input", shape!(layout::InputBytes: kind, flags, reserved, content_bytes, value)),
        ("Unit input", shape!(layout::UnitInputBytes: kind, flags, source, content_bytes, value)),
        ("Unit fragment", shape!(layout::UnitFragmentBytes: event, fragment)),
        ("Mirror step", shape!(layout::MirrorBytes: step, reserved, reserved_too, session)),
        ("Announcement", shape!(layout::AnnouncementBytes: event, time)),
        ("Request", shape!(layout::RequestBytes: slots, finished, bytes, absent, flags)),
        (
            "Finished event",
            shape!(layout::FinishedBytes: event, bytes, fragments, missing, attempt, outcome, reason, flags),
        ),
        ("Absent readout unit", shape!(layout::AbsentReadoutBytes: event, readout, parts, reserved)),
        ("Assignment", shape!(layout::AssignmentBytes: event, time, charged, attempt, trigger_type)),
        ("Release", shape!(layout::ReleaseBytes: first, count, outcome, reason, parts)),
        ("Event range", shape!(layout::EventRangeBytes: first, count, attempt, reserved)),
        ("Part request", shape!(layout::PartRequestBytes: part, reserved, sources)),
        ("Event window", shape!(layout::EventWindowBytes: event, from_ps, until_ps, attempt, reserved)),
        ("Source", shape!(layout::SourceBytes: source)),
        ("List sizes", shape!(layout::SuperFragmentsBytes: entries, fragments, missing, reserved)),
        (
            "Super-fragment",
            shape!(layout::SuperFragmentBytes: event, count, fragments, missing, attempt, part, reserved),
        ),
        ("Fragment", shape!(layout::FragmentBytes: source, length, time, checksum, flags)),
        ("Missing source", shape!(layout::MissingBytes: source, reason, reserved)),
        (
            "Readout status",
            shape!(layout::ReadoutStatusBytes: sources, sources_ended, buffered_events, flags, buffered_bytes, room_until, room_events, reserved),
        ),
        ("Command", shape!(layout::CommandBytes: command, reserved, event)),
        ("Count", shape!(layout::CountBytes: code, reason, reserved, value)),
        ("Fence", shape!(layout::FenceBytes: session)),
        ("Destination", shape!(layout::DestinationBytes: first, count, attempt, builder)),
        ("Shape", shape!(layout::ShapeBytes: epoch, clock, flags, reserved)),
        ("Kept events", shape!(layout::KeptBytes: session, first, count, output, reserved)),
        ("Delivery", shape!(layout::DeliveryBytes: entries, fragments, missing, said)),
        (
            "Delivered event",
            shape!(layout::DeliveredBytes: event, time, tags, fragments, missing, said, trigger_type, attempt, flags, reserved),
        ),
        ("Receipt", shape!(layout::ReceiptBytes: events, bytes, entries, flags)),
        ("Received events", shape!(layout::ReceivedBytes: first, place, count, flags)),
        (
            "Disagreement",
            shape!(layout::DisagreementBytes: event, value, reference, source, quantity, reserved),
        ),
        ("Renumber", shape!(layout::RenumberBytes: shift, source, reserved)),
        ("Renumbered", shape!(layout::RenumberedBytes: first, shift, source, reserved)),
        ("Exclusion", shape!(layout::ExclusionBytes: event, source, excluded, reserved)),
        ("Readout exclusion", shape!(layout::ReadoutExclusionBytes: event, readout, excluded, reserved)),
        (
            "Record",
            shape!(layout::RecordBytes: number, time, source, name_bytes, content_bytes, kind, reserved),
        ),
        ("Recorded", shape!(layout::RecordedBytes: number, source, answer, reserved)),
        ("Vote", shape!(layout::VoteBytes: ballot, session, step, flags, voters, reserved)),
        ("Voted", shape!(layout::VotedBytes: ballot, session, promised, vote, flags, voters, reserved)),
        (
            "Accepted configuration",
            shape!(layout::AcceptedBytes: ballot, term, in_sync_0, in_sync_1, active, reserved),
        ),
        ("Voter", shape!(layout::VoterBytes: session, node, reserved)),
        (
            "Hello",
            shape!(hello::HelloBytes: magic, newest, kind, checksum, session, oldest, reserved, software_bytes, host_bytes),
        ),
    ];
    assert_layouts(&page(), &layouts);
}

#[test]
fn the_kinds_are_all_of_them() {
    let page = page();
    let rows = table(&page, "| code | kind | from, to | in the channel | head after the header |");
    let shown: Vec<[&str; 2]> = rows.iter().map(|row| [row[0], row[1]]).collect();
    let kind = |code: u8| Some([code.to_string(), format!("`{:?}`", Kind::from_code(code)?)]);
    assert_eq!(shown, (0..=u8::MAX).filter_map(kind).collect::<Vec<_>>());
}

/// Compares the second and third cell of a table's rows with codes and names.
fn check_codes(page: &str, first_row: &str, expected: impl Iterator<Item = (u8, String)>) {
    let rows = table(page, first_row);
    let shown: Vec<[&str; 2]> = rows.iter().map(|row| [row[1], row[2]]).collect();
    let expected: Vec<_> = expected.map(|(code, name)| [code.to_string(), format!("`{name}`")]).collect();
    assert_eq!(shown, expected, "{first_row}");
}

#[test]
fn the_codes_are_all_of_them() {
    let page = page();
    let outcomes = Outcome::ALL.iter().map(|outcome| (outcome.code(), outcome.to_string()));
    check_codes(&page, "| outcome | code | name | meaning |", outcomes);
    let drops = DropReason::ALL.iter().map(|reason| (reason.code(), reason.to_string()));
    check_codes(&page, "| drop reason | code | name | of | meaning |", drops);
    let missing = MissingReason::ALL.iter().map(|reason| (reason.code(), reason.to_string()));
    check_codes(&page, "| missing reason | code | name | meaning |", missing);
    let role = |code| Some((code, format!("{:?}", Role::from_code(code)?)));
    check_codes(&page, "| role | code | name |", (0..=u8::MAX).filter_map(role));
    // Without what some of them carry.
    let name = |command| format!("{command:?}").split_whitespace().next().unwrap_or_default().to_owned();
    let command = |code| Some((code, name(command(code)?)));
    check_codes(&page, "| command | code | name | meaning |", (0..=u8::MAX).filter_map(command));
}

/// Returns the command that a code decodes to.
fn command(code: u8) -> Option<Command> {
    let message = Message { header: header(NodeId::MANAGER, 1), body: Body::Command(Command::Start) };
    let (mut head, _) = encode(message);
    head[size_of::<layout::HeaderBytes>()] = code;
    let at = offset_of!(layout::HeaderBytes, checksum);
    head[at..at + 4].fill(0);
    let checksum = crc32c(&head);
    head[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    match Message::<Bytes>::decode(&head, &mut Bytes::new()).ok()?.body {
        Body::Command(command) => Some(command),
        _ => None,
    }
}

#[test]
fn magic_version_and_limit_are_those_of_the_code() {
    let page = page();
    let header = &tables(&page, LAYOUT)[0].rows;
    assert_eq!(header[0][4], format!("`{}`", String::from_utf8_lossy(&layout::MAGIC)));
    assert!(header[1][4].starts_with(&format!("{}.", layout::VERSION)), "{}", header[1][4]);
    assert!(page.contains(&format!("({} bytes)", layout::MAX_HEAD_BYTES)));
    let check_value = format!("`{:08x}`", crc32c(b"123456789"));
    assert!(page.contains(&check_value), "{check_value}");
}

#[test]
fn the_hello_is_that_of_the_code() {
    let page = page();
    let VersionRange { oldest, newest } = VersionRange::OWN;
    assert!(page.contains(&format!("this release versions {oldest} to {newest}.")));
    assert!(
        page.contains(&format!("| `kind` | {} |", hello::KIND)) && Kind::from_code(hello::KIND).is_none()
    );
    assert!(page.contains(&format!("zeros to {} bytes", hello::HELLO_BYTES)));
    let said = Hello {
        session: SessionId(0x1234),
        versions: VersionRange::OWN,
        software: "sheaf 0.1.0".to_owned(),
        host: "daq5".to_owned(),
    };
    let shown = block(&page, "hex hello");
    let bytes = said.emit();
    let (start, rest) = bytes.split_at(48);
    assert!(rest.iter().all(|byte| *byte == 0));
    assert_eq!(shown, hex(start));
    assert_eq!(Hello::parse(&bytes), Ok(said));
}

fn header(sender: NodeId, session: u64) -> Header {
    Header {
        run: RunNumber(3),
        sender,
        session: SessionId(session),
        sequence: 0,
        acknowledged: 0,
        acknowledged_session: SessionId(0),
        term: Term(0),
    }
}

fn request_example() -> Message<Bytes> {
    let finished = Finished {
        event: EventId(258),
        attempt: 1,
        outcome: Outcome::Stored,
        reason: None,
        bytes: ByteCount(5),
        fragments: 1,
        missing: 1,
        incomplete: true,
    };
    let request =
        Request { slots: 1, bytes: ByteCount(8192), finished: vec![finished], ..Request::default() };
    let header = Header {
        sequence: 2,
        acknowledged: 1,
        acknowledged_session: SessionId(0x1111),
        term: Term(0),
        ..header(NodeId::builder(1), 0x1234)
    };
    Message { header, body: Body::Request(request) }
}

fn super_fragments_example() -> Message<Bytes> {
    let payload = Bytes::from_static(b"hello");
    let fragment = Fragment {
        event: EventId(258),
        source: SourceId(7),
        time: Timestamp(990),
        checksum: Some(crc32c(&payload)),
        processed: false,
        mark: NumberMark::NONE,
        payload,
    };
    let parts = SuperFragments {
        entries: vec![SuperFragment {
            event: EventId(258),
            count: 1,
            attempt: 0,
            part: 0,
            fragments: 1,
            missing: 1,
        }],
        fragments: vec![fragment],
        missing: vec![MissingSource { source: SourceId(9), reason: MissingReason::SourceSilent }],
    };
    Message { header: header(NodeId::readout(0), 0x2222), body: Body::SuperFragments(parts) }
}

/// Head and payload of a message.
fn encode(message: Message<Bytes>) -> (Vec<u8>, Vec<u8>) {
    let (mut head, mut payload) = (Vec::new(), Vec::new());
    message.encode(&mut head, |piece| payload.extend_from_slice(&piece));
    (head, payload)
}

#[test]
fn the_examples_are_what_encoding_makes_and_decoding_understands() {
    let page = page();
    let examples = [("hex request", request_example()), ("hex super-fragments", super_fragments_example())];
    for (fence, message) in examples {
        let (head, payload) = encode(message.clone());
        let made = hex(&[&head[..], &payload].concat());
        let shown = block(&page, fence);
        assert!(shown == made, "the block `{fence}` should be:\n{made}");
        let bytes = unhex(shown);
        let (head, payload) = bytes.split_at(head.len());
        let mut payload = Bytes::copy_from_slice(payload);
        assert_eq!(Message::decode(head, &mut payload), Ok(message), "{fence}");
    }
}
