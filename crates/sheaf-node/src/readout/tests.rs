use super::input::RETRY_SOURCES;
use super::*;
use bytes::Bytes;
use sheaf_protocol::Identity;
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::readout::{Announce, ReadoutConfig, SourceConfig};
use sheaf_source::{Batch, BatchEnd, SourcePoll};
use sheaf_wire::{ByteCount, EventId, Fragment, NumberMark, RunNumber, SessionId};

/// A source whose memory is all in use elsewhere.
struct Starved;

impl Source for Starved {
    fn id(&self) -> SourceId {
        SourceId(0)
    }

    fn poll(&mut self, _now: Timestamp) -> SourcePoll {
        SourcePoll::OutOfMemory
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

/// A source of fragments of one byte, five at a time.
struct Fives(u64);

impl Source for Fives {
    fn id(&self) -> SourceId {
        SourceId(0)
    }

    fn poll(&mut self, _now: Timestamp) -> SourcePoll {
        SourcePoll::Ended
    }

    fn poll_batch(&mut self, now: Timestamp, _most: usize, batch: &mut Batch) -> BatchEnd {
        assert!(batch.fragments.is_empty(), "the batch before is over");
        batch.payload = Bytes::from_static(b"abcde");
        batch.fragments.extend((0..5).map(|offset| Fragment {
            event: EventId(self.0 + u64::from(offset)),
            source: SourceId(0),
            time: now,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: Span { parcel: 0, offset, length: 1 },
        }));
        self.0 += 5;
        BatchEnd::More
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

const NOW: Timestamp = Timestamp(5_000_000_000);

/// A readout unit with one source that holds a number of its fragments.
fn role(buffer_events: usize) -> ReadoutUnit<Span> {
    let config = ReadoutConfig {
        sources: vec![SourceConfig { id: SourceId(0), optional: false }],
        buffer: ByteCount(1 << 16),
        buffer_events,
        max_fragment: ByteCount(1 << 12),
        announce: Announce::Never,
        merge_timeout: Nanos::from_millis(50),
        longest_merge: Nanos::from_secs(60),
        wait_for_required: false,
        orphan_timeout: None,
        room_from: None,
        size_window: ReadoutConfig::SIZE_WINDOW,
        message_bytes: ByteCount(1 << 12),
        message_events: 16,
        request_events: 64,
        heartbeat: Nanos::from_millis(20),
        channel: ChannelTimes { retransmit: Nanos::from_secs(1), acknowledge: Nanos::from_millis(10) },
    };
    let me = Identity { node: NodeId::readout(0), run: RunNumber(1), session: SessionId(1) };
    ReadoutUnit::new(me, config, NOW)
}

#[test]
fn a_source_without_memory_is_looked_at_again_soon_and_not_in_a_spin() {
    let mut input = Input::new(Box::new(Starved));
    let (_, busy, again) = input.take(&mut role(64), (&mut Parcels::default(), None), (NOW, None));
    assert!(!busy, "a node that found nothing may sleep");
    assert!(NOW < again && again <= NOW + Nanos::from_millis(1), "nobody rings when memory is given back");
}

#[test]
fn what_the_role_has_no_room_for_is_offered_again() {
    let (mut role, mut parcels) = (role(7), Parcels::default());
    let mut input = Input::new(Box::new(Fives(100)));
    assert!(input.take(&mut role, (&mut parcels, None), (NOW, None)).1);
    for _ in 0..2 {
        assert_eq!(role.held().1, 7);
        let rest: Vec<_> =
            input.rest().iter().map(|rest| (rest.event.0, parcels.payload(rest.payload))).collect();
        assert_eq!(rest, [(107, "c".into()), (108, "d".into()), (109, "e".into())]);
        let (_, busy, again) = input.take(&mut role, (&mut parcels, None), (NOW, None));
        assert!(!busy && again == NOW + RETRY_SOURCES);
    }
}

#[test]
fn a_unit_that_stands_still_says_why_and_not_too_often() {
    let mut role = role(5);
    let (mut input, mut parcels) = (Input::new(Box::new(Fives(1))), Parcels::default());
    let mut standstill = Standstill::default();
    let mut reports = Vec::new();
    for second in 0..400 {
        let now = NOW + Nanos::from_secs(second);
        standstill.note_taken(input.take(&mut role, (&mut parcels, None), (now, None)).0);
        reports.extend(standstill.report(now, &role).map(|report| (second, report)));
    }
    let [(first, report), (second, _)] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((*first, *second), (10, 310));
    let parts =
        ["ru0: nothing has moved for 10 s", "Source 0 has no room", "event 6", "5 fragments with 5 bytes"];
    assert!(parts.iter().all(|part| report.contains(part)), "{report}");
}
