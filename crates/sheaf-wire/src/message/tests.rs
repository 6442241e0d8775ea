//! Round trips of every kind, and refusal of everything else.

mod vote;

use super::*;
use crate::run_record::{RecordAnswer, RecordKind};
use crate::{MissingReason, NumberMark, SourceId};
use bytes::Bytes;
use proptest::prelude::*;

/// Every command.
const COMMANDS: [Command; 8] = [
    Command::Start,
    Command::Close,
    Command::Join { floor: EventId(0x0102_0304_0506_0708) },
    Command::GiveWay,
    Command::Pause,
    Command::Resume,
    Command::HandOver { first: EventId(0x1112_1314_1516_1718) },
    Command::Divide,
];

fn plain_header() -> Header {
    Header {
        run: RunNumber(1),
        sender: NodeId::readout(2),
        session: SessionId(3),
        sequence: 0,
        acknowledged: 0,
        acknowledged_session: SessionId(0),
        term: Term(0),
    }
}

fn header() -> impl Strategy<Value = Header> {
    (any::<u32>(), 0..3_u16, 1..u64::MAX, any::<[u64; 4]>()).prop_map(|(run, index, session, numbers)| {
        Header {
            run: RunNumber(run),
            sender: NodeId::builder(index),
            session: SessionId(session),
            sequence: numbers[0],
            acknowledged: numbers[1],
            acknowledged_session: SessionId(numbers[2]),
            term: Term(numbers[3]),
        }
    })
}

fn ending() -> impl Strategy<Value = (Outcome, Option<DropReason>)> {
    prop_oneof![
        Just((Outcome::Stored, None)),
        Just((Outcome::Rejected, None)),
        prop::sample::select(&DropReason::ALL[..]).prop_map(|reason| (Outcome::Dropped, Some(reason))),
    ]
}

fn ending_of_a_builder() -> impl Strategy<Value = (Outcome, Option<DropReason>)> {
    let given_back = prop::option::of(prop::sample::select(&DropReason::ALL[..]));
    prop_oneof![3 => ending(), 1 => given_back.prop_map(|reason| (Outcome::GivenBack, reason))]
}

fn finished() -> impl Strategy<Value = Finished> {
    (any::<u64>(), any::<u16>(), ending_of_a_builder(), any::<u64>(), any::<[u32; 2]>()).prop_map(
        |(event, attempt, (outcome, reason), bytes, counts)| Finished {
            event: EventId(event),
            attempt,
            outcome,
            reason,
            bytes: ByteCount(bytes),
            fragments: counts[0],
            missing: counts[1],
            incomplete: counts[1] % 2 == 1,
        },
    )
}

/// Maximum number of events in a message.
const MOST_EVENTS: usize = 7;

fn super_fragments() -> impl Strategy<Value = SuperFragments<Bytes>> {
    let fragment =
        (any::<u32>(), any::<u64>(), any::<Option<u32>>(), prop::collection::vec(any::<u8>(), 0..40));
    let missing = (any::<u32>(), prop::sample::select(&MissingReason::ALL[..]));
    // Often consecutive events of one part, which share an entry if they have as much content.
    let event = prop_oneof![any::<u64>(), 0..3_u64, u64::MAX - 2..=u64::MAX];
    let part = prop_oneof![Just((0, 0)), any::<(u16, u16)>()];
    let one = (
        (event, part).prop_map(|(event, (attempt, part))| (event, attempt, part)),
        prop::collection::vec(fragment, 0..4),
        prop::collection::vec(missing, 0..3),
    );
    prop::collection::vec(one, 0..=MOST_EVENTS).prop_map(|parts| {
        let mut all = SuperFragments::default();
        for ((event, attempt, part), fragments, missing) in parts {
            let event = EventId(event);
            all.push_entry(SuperFragment {
                event,
                count: 1,
                attempt,
                part,
                fragments: fragments.len() as u16,
                missing: missing.len() as u16,
            });
            all.fragments.extend(fragments.into_iter().map(|(source, time, checksum, payload)| Fragment {
                event,
                source: SourceId(source),
                time: Timestamp(time),
                checksum,
                processed: time % 3 == 1,
                mark: NumberMark::renumbered(time as i64 % 5),
                payload: Bytes::from(payload),
            }));
            all.missing.extend(
                missing
                    .into_iter()
                    .map(|(source, reason)| MissingSource { source: SourceId(source), reason }),
            );
        }
        all
    })
}

fn delivery() -> impl Strategy<Value = Delivery<Bytes>> {
    let said = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), MOST_EVENTS);
    (super_fragments(), said, any::<bool>()).prop_map(|(parts, said, more)| {
        // Each event has an entry of its own in this comparison.
        let events = parts.entries.iter().flat_map(|part| part.events().map(move |event| (event, part)));
        let entry = |((event, part), said): ((EventId, &SuperFragment), Vec<u8>)| Delivered {
            event,
            time: Timestamp(event.0 ^ 5),
            trigger_type: TriggerType(part.part),
            attempt: part.attempt,
            incomplete: part.missing > 0,
            tags: crate::Tags(event.0),
            said: said.into(),
            fragments: u32::from(part.fragments),
            missing: u32::from(part.missing),
            more: false,
        };
        let mut entries: Vec<Delivered> = events.zip(said).map(entry).collect();
        if let Some(last) = entries.last_mut() {
            last.more = more;
        }
        Delivery { entries, fragments: parts.fragments, missing: parts.missing }
    })
}

fn receipt() -> impl Strategy<Value = Receipt> {
    let entry = (any::<u64>(), 1..u32::MAX, any::<Option<u64>>())
        .prop_map(|(first, count, place)| ReceiptEntry { first, count, place });
    (any::<[u64; 2]>(), any::<bool>(), prop::collection::vec(entry, 0..5)).prop_map(
        |([events, bytes], behind, entries)| Receipt { events, bytes: ByteCount(bytes), behind, entries },
    )
}

fn body() -> impl Strategy<Value = Body<Bytes>> {
    let announcements = prop::collection::vec(any::<[u64; 2]>(), 0..9).prop_map(|list| {
        let entry = |[event, time]: [u64; 2]| Announcement { event: EventId(event), time: Timestamp(time) };
        Body::Announce(list.into_iter().map(entry).collect())
    });
    let absent = prop::collection::vec(any::<(u64, u16, u16)>(), 0..3);
    let kept = prop::collection::vec((any::<u16>(), any::<[u64; 2]>(), 1..u32::MAX), 0..3);
    let work = prop::sample::select(vec![Work::None, Work::Judging, Work::Storing]);
    let readiness = prop::sample::select(vec![Readiness::Ready, Readiness::Loading, Readiness::Failed]);
    let sizes = (any::<u32>(), any::<u64>(), any::<bool>(), work, readiness);
    let request = (sizes, prop::collection::vec(finished(), 0..5), absent, kept).prop_map(
        |((slots, bytes, output_behind, work, readiness), finished, absent, kept)| {
            let entry = |(event, readout, parts)| AbsentReadout { event: EventId(event), readout, parts };
            let absent = absent.into_iter().map(entry).collect();
            let entry = |(output, [session, first], count): (u16, [u64; 2], u32)| Kept {
                output,
                session: SessionId(session),
                first,
                count,
            };
            let kept = kept.into_iter().map(entry).collect();
            let bytes = ByteCount(bytes);
            Body::Request(Request { slots, bytes, finished, absent, kept, output_behind, work, readiness })
        },
    );
    let assign =
        prop::collection::vec((any::<[u64; 2]>(), any::<[u16; 2]>(), any::<u32>()), 0..5).prop_map(|list| {
            let entry =
                |([event, time], [trigger_type, attempt], charged): ([u64; 2], [u16; 2], u32)| Assignment {
                    event: EventId(event),
                    time: Timestamp(time),
                    trigger_type: TriggerType(trigger_type),
                    attempt,
                    charged,
                };
            Body::Assign(list.into_iter().map(entry).collect())
        });
    let release =
        prop::collection::vec((any::<(u64, u16)>(), 1..u32::MAX, ending()), 0..5).prop_map(|list| {
            let entry = |((first, parts), count, (outcome, reason))| Release {
                first: EventId(first),
                count,
                outcome,
                reason,
                parts,
            };
            Body::Release(list.into_iter().map(entry).collect())
        });
    let ranges = || {
        prop::collection::vec((any::<u64>(), 1..u32::MAX, any::<u16>()), 0..5).prop_map(|list| {
            let entry = |(first, count, attempt): (u64, u32, u16)| EventRange {
                first: EventId(first),
                count,
                attempt,
            };
            list.into_iter().map(entry).collect::<Vec<_>>()
        })
    };
    let part_request = (1..=u16::MAX, prop::collection::vec(any::<u32>(), 0..5), ranges()).prop_map(
        |(part, sources, ranges)| {
            let sources = sources.into_iter().map(SourceId).collect();
            Body::PartRequest(PartRequest { part, sources, ranges })
        },
    );
    let interval = any::<[u64; 2]>().prop_map(|mut ends| {
        ends.sort_unstable();
        HitInterval { from_ps: ends[0], until_ps: ends[1] }
    });
    let window = (any::<u64>(), any::<u16>(), interval).prop_map(|(event, attempt, window)| EventWindow {
        event: EventId(event),
        attempt,
        window,
    });
    let window_request =
        (any::<u16>(), prop::collection::vec(any::<u32>(), 0..5), prop::collection::vec(window, 0..5))
            .prop_map(|(part, mut sources, events)| {
                if part == 0 {
                    sources.clear();
                }
                let sources = sources.into_iter().map(SourceId).collect();
                Body::WindowRequest(WindowRequest { part, sources, events })
            });
    let status = (any::<[u32; 4]>(), any::<[u64; 2]>(), any::<[bool; 2]>()).prop_map(
        |(counts, [buffered, until], flags)| {
            Body::ReadoutStatus(ReadoutStatus {
                sources: counts[0],
                sources_ended: counts[1],
                buffered_events: counts[2],
                buffered: ByteCount(buffered),
                busy: flags[0],
                processing: flags[1],
                waiting: flags[1] ^ flags[0],
                declines: flags[0] && !flags[1],
                has_divided: !flags[0],
                room_until: EventId(until),
                room_events: counts[3],
            })
        },
    );
    let report = prop::collection::vec((any::<[u16; 2]>(), any::<u64>()), 0..5).prop_map(|list| {
        let entry = |([code, reason], value): ([u16; 2], u64)| Count { code, reason, value };
        Body::Report(list.into_iter().map(entry).collect())
    });
    let dispatch =
        prop::collection::vec((any::<u64>(), 1..u32::MAX, any::<[u16; 2]>()), 0..5).prop_map(|list| {
            let entry = |(first, count, [attempt, builder]): (u64, u32, [u16; 2])| Destination {
                events: EventRange { first: EventId(first), count, attempt },
                builder,
            };
            Body::Dispatch(list.into_iter().map(entry).collect())
        });
    let shape = (any::<bool>(), any::<[u64; 2]>()).prop_map(|(turning, [epoch, clock])| {
        Body::Shape(Shape { turning, epoch: Timestamp(epoch), clock: Timestamp(clock) })
    });
    let disagreements = prop::collection::vec((any::<[u64; 3]>(), any::<u32>(), any::<u16>()), 0..5)
        .prop_map(|list| {
            let entry = |([event, value, reference], source, quantity): ([u64; 3], u32, u16)| Disagreement {
                event: EventId(event),
                source: SourceId(source),
                quantity,
                value,
                reference,
            };
            Body::Disagreements(list.into_iter().map(entry).collect())
        });
    let shift = || any::<i64>().prop_map(|shift| if shift == 0 { 1 } else { shift });
    let renumber = (any::<u32>(), shift())
        .prop_map(|(source, shift)| Body::Renumber(Renumber { source: SourceId(source), shift }));
    let renumbered = (any::<u32>(), any::<u64>(), shift()).prop_map(|(source, first, shift)| {
        Body::Renumbered(Renumbered { source: SourceId(source), first: EventId(first), shift })
    });
    let record = (any::<[u64; 2]>(), any::<u32>(), prop::sample::select(&RecordKind::ALL[..]))
        .prop_flat_map(|head| (Just(head), "[a-zö]{0,20}", prop::collection::vec(any::<u8>(), 0..60)))
        .prop_map(|(([number, time], source, kind), name, content)| {
            let (source, time) = (SourceId(source), Timestamp(time));
            Body::Record(RunRecord { number, source, kind, time, name, content: content.into() }.into())
        });
    let recorded = (any::<u64>(), any::<u32>(), prop::sample::select(&RecordAnswer::ALL[..])).prop_map(
        |(number, source, answer)| Body::Recorded(Recorded { number, source: SourceId(source), answer }),
    );
    let exclusion = (any::<u64>(), any::<u32>(), any::<bool>(), any::<bool>()).prop_map(
        |(event, source, excluded, is_order)| {
            let exclusion = Exclusion { source: SourceId(source), excluded, event: EventId(event) };
            if is_order { Body::Exclude(exclusion) } else { Body::Excluded(exclusion) }
        },
    );
    let readout_exclusion =
        (any::<u64>(), any::<u16>(), any::<bool>()).prop_map(|(event, readout, excluded)| {
            Body::ExcludeReadout(ReadoutExclusion { readout, excluded, event: EventId(event) })
        });
    prop_oneof![
        exclusion,
        readout_exclusion,
        record,
        recorded,
        disagreements,
        renumber,
        renumbered,
        announcements,
        request,
        assign,
        release,
        ranges().prop_map(Body::FragmentRequest),
        part_request,
        window_request,
        super_fragments().prop_map(Body::SuperFragments),
        status,
        prop::sample::select(&COMMANDS[..]).prop_map(Body::Command),
        report,
        Just(Body::Acknowledge),
        any::<u64>().prop_map(|session| Body::Fence(SessionId(session))),
        dispatch,
        shape,
        delivery().prop_map(Body::Delivery),
        receipt().prop_map(Body::Receipt),
        vote::request().prop_map(Body::Vote),
        vote::answer().prop_map(Body::Voted),
    ]
}

fn encode(message: Message<Bytes>) -> (Vec<u8>, Bytes) {
    let (mut head, mut payload) = (Vec::new(), Vec::new());
    message.encode(&mut head, |piece| payload.extend_from_slice(&piece));
    (head, Bytes::from(payload))
}

mod inputs;
mod mirror;

proptest! {
    #[test]
    fn every_message_survives_encoding(header in header(), body in body()) {
        let message = Message { header, body };
        let (head, mut payload) = encode(message.clone());
        prop_assert_eq!(Message::decode(&head, &mut payload), Ok(message));
    }

    #[test]
    fn a_flipped_bit_is_noticed(header in header(), body in body(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let (mut head, mut payload) = encode(Message { header, body });
        let at = at.index(head.len());
        head[at] ^= 1 << bit;
        prop_assert!(Message::decode(&head, &mut payload).is_err());
    }

    #[test]
    fn a_truncated_message_is_noticed(header in header(), body in body(), at in any::<prop::sample::Index>()) {
        let (head, payload) = encode(Message { header, body });
        let at = at.index(head.len());
        prop_assert!(Message::<Bytes>::decode(&head[..at], &mut payload.clone()).is_err());
        if !payload.is_empty() {
            let short = payload.len() - 1;
            prop_assert!(Message::<Bytes>::decode(&head, &mut payload.slice(..short)).is_err());
        }
    }

    #[test]
    fn random_bytes_never_panic(head in prop::collection::vec(any::<u8>(), 0..300), payload in prop::collection::vec(any::<u8>(), 0..30)) {
        let _ = Message::<Bytes>::decode(&head, &mut Bytes::from(payload));
    }
}

#[test]
fn events_that_have_alike_much_to_say_share_an_entry_as_long_as_they_follow_each_other() {
    let entry = |event, fragments| SuperFragment {
        event: EventId(event),
        count: 1,
        attempt: 0,
        part: 0,
        fragments,
        missing: 0,
    };
    let mut all = SuperFragments::<Bytes>::default();
    for (event, fragments) in
        [(7, 2), (8, 2), (9, 2), (10, 1), (12, 1), (13, 0), (14, 0), (u64::MAX, 2), (0, 2)]
    {
        all.push_entry(entry(event, fragments));
    }
    let shared: Vec<_> =
        all.entries.iter().map(|entry| (entry.event.0, entry.count, entry.fragments)).collect();
    let expected = [(7, 3, 2), (10, 1, 1), (12, 1, 1), (13, 1, 0), (14, 1, 0), (u64::MAX, 1, 2), (0, 1, 2)];
    assert_eq!(shared, expected);
}

#[test]
fn an_entry_of_more_events_than_there_are_bytes_for_is_refused() {
    for (event, count, fragments) in
        [(7, u32::MAX, 0), (7, 2, 0), (u64::MAX, 2, 1), (7, u32::MAX, u16::MAX), (7, 0, 1)]
    {
        let message = Message {
            header: plain_header(),
            body: Body::SuperFragments(SuperFragments::<Bytes> {
                entries: vec![SuperFragment {
                    event: EventId(event),
                    count,
                    attempt: 0,
                    part: 0,
                    fragments,
                    missing: 0,
                }],
                fragments: vec![],
                missing: vec![],
            }),
        };
        let mut head = Vec::new();
        message.encode(&mut head, |_| ());
        let refused = Message::<Bytes>::decode(&head, &mut Bytes::new());
        assert!(
            matches!(refused, Err(DecodeError::BadValue { .. })),
            "{event} {count} {fragments}: {refused:?}"
        );
    }
}

#[test]
fn payload_may_arrive_in_the_pieces_it_was_sent_in() {
    let message = Message {
        header: plain_header(),
        body: Body::SuperFragments(SuperFragments {
            entries: vec![SuperFragment {
                event: EventId(7),
                count: 1,
                attempt: 0,
                part: 0,
                fragments: 3,
                missing: 0,
            }],
            fragments: [&b"first"[..], b"", b"third"]
                .iter()
                .enumerate()
                .map(|(source, bytes)| Fragment {
                    event: EventId(7),
                    source: SourceId(source as u32),
                    time: Timestamp(9),
                    checksum: None,
                    processed: false,
                    mark: NumberMark::NONE,
                    payload: Bytes::copy_from_slice(bytes),
                })
                .collect(),
            missing: vec![],
        }),
    };
    let mut head = Vec::new();
    let mut pieces = std::collections::VecDeque::new();
    message.clone().encode(&mut head, |piece| pieces.push_back(piece));
    assert_eq!(Message::decode(&head, &mut pieces), Ok(message));
}
