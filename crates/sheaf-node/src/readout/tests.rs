use super::*;
use sheaf_protocol::Identity;
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::readout::{Announce, ReadoutConfig, SourceConfig};
use sheaf_source::SourcePoll;
use sheaf_wire::{ByteCount, RunNumber, SessionId};

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

#[test]
fn a_source_without_memory_is_looked_at_again_soon_and_not_in_a_spin() {
    let config = ReadoutConfig {
        sources: vec![SourceConfig { id: SourceId(0), optional: false }],
        buffer: ByteCount(1 << 16),
        buffer_events: 64,
        max_fragment: ByteCount(1 << 12),
        announce: Announce::Never,
        merge_timeout: Nanos::from_millis(50),
        wait_for_required: false,
        orphan_timeout: None,
        message_bytes: ByteCount(1 << 12),
        message_events: 16,
        request_events: 64,
        heartbeat: Nanos::from_millis(20),
        channel: ChannelTimes { retransmit: Nanos::from_secs(1), acknowledge: Nanos::from_millis(10) },
    };
    let me = Identity { node: NodeId::readout(0), run: RunNumber(1), session: SessionId(1) };
    let now = Timestamp(5_000_000_000);
    let mut role = ReadoutUnit::new(me, config, now);
    let mut input =
        Input { source: Box::new(Starved), batch: Batch::default(), then: BatchEnd::More, ended: false };
    let (busy, again) = input.take(&mut role, &mut Parcels::default(), now);
    assert!(!busy, "a node that found nothing may sleep");
    assert!(now < again && again <= now + Nanos::from_millis(1), "nobody rings when memory is given back");
}
