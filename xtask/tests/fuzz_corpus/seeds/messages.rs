//! Messages of every kind.

use super::Dice;
use bytes::Bytes;
use sheaf_wire::message::{
    AbsentReadout, Announcement, Assignment, Body, Command, Count, Delivered, Delivery, Destination,
    EventRange, EventWindow, Finished, Header, Message, PARTS_NOT_ASKED, Readiness, ReadoutStatus, Receipt,
    ReceiptEntry, Release, Request, Shape, SuperFragments, WindowRequest, Work,
};
use sheaf_wire::{
    ByteCount, DropReason, EventId, Fragment, HitInterval, MissingReason, MissingSource, NodeId, NumberMark,
    Outcome, RunNumber, SessionId, SourceId, SuperFragment, Tags, Timestamp, TriggerType,
};

pub(crate) fn seeds(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, body) in bodies(dice).into_iter().chain(super::votes::bodies()).chain(super::inputs::bodies())
    {
        let header = Header {
            run: RunNumber(7),
            sender: dice.pick(&[NodeId::MANAGER, NodeId::readout(3), NodeId::builder(258)]),
            session: SessionId(1 + dice.next() % 9),
            sequence: dice.next() % 1000,
            acknowledged: dice.next() % 1000,
            acknowledged_session: SessionId(dice.next() % 9),
            term: sheaf_wire::Term(0),
        };
        let (mut bytes, mut payload) = (Vec::new(), Vec::new());
        Message { header, body }.encode(&mut bytes, |piece: Bytes| payload.extend_from_slice(&piece));
        bytes.extend(payload);
        seeds.push((name.to_owned(), bytes));
    }
    seeds
}

fn bodies(dice: &mut Dice) -> Vec<(&'static str, Body<Bytes>)> {
    let announcement = |n: u64| Announcement { event: EventId(1000 + n), time: Timestamp(n * 25) };
    let assignment = |n: u64| Assignment {
        event: EventId(n),
        time: Timestamp(n << 20),
        trigger_type: TriggerType(n as u16),
        attempt: 1 + n as u16,
        charged: 8192,
    };
    let range = |n: u64| EventRange { first: EventId(n * 64), count: 1 + n as u32, attempt: 1 };
    let destination = |n: u64| Destination { events: range(n), builder: n as u16 };
    let count = |n: u64| Count { code: n as u16, reason: (n % 4) as u16, value: n * n };
    let releases = vec![
        Release { first: EventId(0), count: 32, outcome: Outcome::Stored, reason: None, parts: 0 },
        Release {
            first: EventId(32),
            count: 1,
            outcome: Outcome::Dropped,
            reason: DropReason::ALL.first().copied(),
            parts: PARTS_NOT_ASKED,
        },
        Release { first: EventId(33), count: 1, outcome: Outcome::Rejected, reason: None, parts: 1 },
    ];
    let status = ReadoutStatus {
        sources: 4,
        sources_ended: 1,
        buffered_events: 99,
        buffered: ByteCount(1 << 22),
        busy: true,
        processing: false,
        waiting: false,
        declines: false,
        has_divided: true,
        room_until: EventId(16_480),
        room_events: 16_384,
    };
    vec![
        ("announce", Body::Announce((0..5).map(announcement).collect())),
        ("announce-none", Body::Announce(Vec::new())),
        ("request", Body::Request(request())),
        ("request-none", Body::Request(Request::default())),
        ("assign", Body::Assign((0..4).map(assignment).collect())),
        ("release", Body::Release(releases)),
        ("fragment-request", Body::FragmentRequest((0..3).map(range).collect())),
        ("super-fragments", Body::SuperFragments(super_fragments(dice, 3, 40))),
        ("super-fragments-large", Body::SuperFragments(super_fragments(dice, 6, 300))),
        ("super-fragments-none", Body::SuperFragments(SuperFragments::default())),
        ("readout-status", Body::ReadoutStatus(status)),
        ("start", Body::Command(Command::Start)),
        ("close", Body::Command(Command::Close)),
        ("pause", Body::Command(Command::Pause)),
        ("hand-over", Body::Command(Command::HandOver { first: EventId(1 << 40) })),
        ("divide", Body::Command(Command::Divide)),
        ("report", Body::Report((0..6).map(count).collect())),
        ("acknowledge", Body::Acknowledge),
        ("fence", Body::Fence(SessionId(77))),
        ("dispatch", Body::Dispatch((0..3).map(destination).collect())),
        ("delivery", Body::Delivery(delivery())),
        ("delivery-none", Body::Delivery(Delivery::default())),
        ("receipt", Body::Receipt(receipt())),
        ("shape", Body::Shape(Shape { turning: true, epoch: Timestamp(1 << 40), clock: Timestamp(3 << 39) })),
        ("window-request", Body::WindowRequest(window_request(0, &[]))),
        ("window-request-part", Body::WindowRequest(window_request(2, &[3, 70_000]))),
    ]
}

fn window_request(part: u16, sources: &[u32]) -> WindowRequest {
    let window = |from_ps: u64| HitInterval { from_ps, until_ps: from_ps + 2_500_000 };
    let event =
        |(event, window): (u64, HitInterval)| EventWindow { event: EventId(event), attempt: 1, window };
    let events = [(7, window(0)), (7, window(1 << 50)), (8, HitInterval::NONE)].map(event);
    let sources = sources.iter().copied().map(SourceId).collect();
    WindowRequest { part, sources, events: events.into() }
}

fn request() -> Request {
    let finished = |n: u64| Finished {
        event: EventId(n),
        attempt: 1,
        outcome: Outcome::Stored,
        reason: None,
        bytes: ByteCount(8000 + n),
        fragments: 4,
        missing: (n % 2) as u32,
        incomplete: n % 2 == 1,
    };
    Request {
        slots: 512,
        bytes: ByteCount(1 << 28),
        finished: (0..4).map(finished).collect(),
        absent: vec![AbsentReadout { event: EventId(3), readout: 2, parts: 0 }],
        kept: Vec::new(),
        output_behind: true,
        work: Work::None,
        readiness: Readiness::Loading,
    }
}

/// Three events of which the last is not whole: with tags, something said, a missing source, and a processed fragment.
fn delivery() -> Delivery<Bytes> {
    let entry = |n: u64| Delivered {
        event: EventId(n),
        time: Timestamp(n << 20),
        trigger_type: TriggerType(3),
        attempt: 1,
        incomplete: n == 1,
        tags: Tags(1 << n),
        said: Bytes::from(vec![b'E'; n as usize]),
        fragments: 2,
        missing: u32::from(n == 1),
        more: n == 2,
    };
    let fragment = |n: u64| {
        let payload = Bytes::from(vec![n as u8; 5 * n as usize]);
        Fragment {
            event: EventId(n / 2),
            source: SourceId((n % 2) as u32),
            time: Timestamp(n * 1000),
            checksum: (n != 3).then(|| sheaf_wire::checksum::crc32c(&payload)),
            processed: n == 4,
            mark: NumberMark::NONE,
            payload,
        }
    };
    Delivery {
        entries: (0..3).map(entry).collect(),
        fragments: (0..6).map(fragment).collect(),
        missing: vec![MissingSource { source: SourceId(9), reason: MissingReason::SourceSilent }],
    }
}

fn receipt() -> Receipt {
    let entry = |n: u64| ReceiptEntry { first: 40 * n, count: 40, place: (n != 1).then_some(1000 + n) };
    Receipt { events: 4096, bytes: ByteCount(1 << 24), behind: true, entries: (0..3).map(entry).collect() }
}

/// Super-fragments of up to three fragments each, one in two with a missing source; events that have as many share an entry.
fn super_fragments(dice: &mut Dice, entries: u64, bytes_max: usize) -> SuperFragments<Bytes> {
    let mut parts = SuperFragments::default();
    let (mut fragments, mut missing) = (0, 0);
    for event in (0..entries).map(EventId) {
        if event.0 % 3 == 0 {
            (fragments, missing) = (dice.below(4), dice.below(2));
        }
        for source in 0..fragments {
            let length = dice.below(bytes_max);
            let payload = dice.bytes(length);
            parts.fragments.push(Fragment {
                event,
                source: SourceId(source as u32),
                time: Timestamp(event.0 * 1000),
                processed: false,
                mark: NumberMark::NONE,
                checksum: (source != 1).then(|| sheaf_wire::checksum::crc32c(&payload)),
                payload: Bytes::from(payload),
            });
        }
        parts.missing.extend(
            (0..missing)
                .map(|_| MissingSource { source: SourceId(9), reason: dice.pick(&MissingReason::ALL) }),
        );
        parts.push_entry(SuperFragment {
            event,
            count: 1,
            attempt: (event.0 / 6) as u16 % 2,
            part: (event.0 / 6) as u16 % 2,
            fragments: fragments as u16,
            missing: missing as u16,
        });
    }
    parts
}
