//! The machines' configurations, from the scenario.
//!
//! Times follow from the network, as a real system would be tuned. The measure is the *turnaround*, the time in which a
//! builder's link carries the content of all its event slots. A request is repeated after 20 of them, so that a network
//! that carries a tenth of its links' rate is slow and not broken; all longer times follow from that.

use crate::scenario::{RolesShaping, RolesTraffic};
use crate::traffic::SetupError;
use crate::traffic::placement::Roster;
use crate::units::Rate;
use sheaf_protocol::builder::{BuilderConfig, IncompletePolicy, ReadoutSources, Scope};
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{ManagerConfig, Triggers};
use sheaf_protocol::readout::{Announce, ReadoutConfig, SourceConfig};
use sheaf_shaping::{BarrelConfig, Policy, ShaperConfig, SlotSchedule};
use sheaf_wire::{ByteCount, ByteRate, EventId, Nanos, SourceId, TriggerMix, TriggerType};
use std::collections::BTreeSet;

/// The id of the first event.
pub(super) const FIRST_EVENT: EventId = EventId(1);

/// Consecutive events of one builder in one message, at most.
const BATCH_EVENTS: u32 = 32;

/// Requests are not repeated sooner.
const SHORTEST_RETRY: Nanos = Nanos::from_millis(10);

/// Settings of all machines of a run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) readouts: u16,
    pub(super) builders: u16,
    pub(super) events: u64,
    is_driven: bool,
    slots: u32,
    /// Mean payload of an event.
    event_bytes: u64,
    batch_events: u32,
    batch_time: Nanos,
    /// When a request is repeated.
    retry: Nanos,
    gathering: Gathering,
    shaping: RolesShaping,
    message_bytes: ByteCount,
    rate: Rate,
}

impl Settings {
    pub(super) fn new(
        traffic: &RolesTraffic,
        roster: &Roster,
        mean_bytes: f64,
        rate: Rate,
    ) -> Result<Self, SetupError> {
        let count = |what, count: usize| {
            let most = usize::from(u16::MAX);
            u16::try_from(count).map_err(|_| SetupError::TooManyNodes { what, count, most })
        };
        let readouts = count("readout units", roster.sources().len())?;
        let builders = count("builder units", roster.builders().len())?;
        if traffic.slots == 0 {
            return Err(SetupError::Zero("the number of event slots of a builder"));
        }
        if traffic.events == 0 {
            return Err(SetupError::Zero("the number of events"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean size below 2^32 bytes"
        )]
        let event_bytes = (mean_bytes * f64::from(readouts)) as u64 + 1;
        let event_time = nanos(rate.time_for(event_bytes));
        let turnaround = Nanos(event_time.0.saturating_mul(u64::from(traffic.slots)));
        let retry = SHORTEST_RETRY.max(Nanos(turnaround.0.saturating_mul(20)));
        Ok(Self {
            readouts,
            builders,
            events: traffic.events,
            is_driven: traffic.event_rate.is_some(),
            slots: traffic.slots,
            event_bytes,
            batch_events: (traffic.slots / 2).clamp(1, BATCH_EVENTS),
            batch_time: event_time.clamp(Nanos::from_micros(10), Nanos::from_millis(5)),
            gathering: match traffic.shaping {
                RolesShaping::Pull => Gathering::Pull,
                RolesShaping::Paced { credit_bytes } => Gathering::Paced { credit: ByteCount(credit_bytes) },
                RolesShaping::Push => Gathering::Push,
                RolesShaping::Barrel { credit_bytes, .. } => {
                    Gathering::Barrel { credit: ByteCount(credit_bytes), tick: retry }
                }
            },
            shaping: traffic.shaping,
            message_bytes: ByteCount(u64::from(traffic.message_bytes)),
            rate,
            retry,
        })
    }

    /// A message goes in one slot, two in a synchronised one.
    fn message_bytes(&self) -> ByteCount {
        match self.shaping {
            RolesShaping::Barrel { block_bytes, synchronised, .. } => {
                let part = if synchronised { block_bytes / 2 } else { block_bytes };
                self.message_bytes.min(ByteCount(u64::from(part)))
            }
            _ => self.message_bytes,
        }
    }

    /// Returns the shaper of a readout unit, if it sends in slots. `unit` is the size of its largest message on the
    /// wire.
    pub(super) fn shaper(&self, wire: impl Fn(u64) -> u64) -> Option<ShaperConfig> {
        let RolesShaping::Barrel { block_bytes, guard, synchronised, .. } = self.shaping else {
            return None;
        };
        let barrel = BarrelConfig {
            builders: usize::from(self.builders),
            senders: usize::from(self.readouts),
            block: ByteCount(wire(u64::from(block_bytes))),
            guard: nanos(guard),
            slots: if synchronised { SlotSchedule::Synchronised } else { SlotSchedule::FreeRunning },
            patience: self.retry,
        };
        Some(ShaperConfig {
            line_rate: ByteRate::from_bits(self.rate.0),
            burst: barrel.block,
            unit: ByteCount(wire(self.message_bytes().0)),
            policy: Policy::Barrel(barrel),
        })
    }

    /// Nothing is slow in the simulation, and the roles get no information about links: a silent node is dead.
    fn patience(&self) -> Patience {
        Patience { absence: self.times(40), silence: self.times(40) }
    }

    fn times(&self, retries: u64) -> Nanos {
        Nanos(self.retry.0.saturating_mul(retries))
    }

    fn channel(&self) -> ChannelTimes {
        ChannelTimes { retransmit: self.retry, acknowledge: Nanos(self.retry.0 / 10) }
    }

    /// Events that all builders together have slots for, twice: those that have ended are held until their release.
    fn buffer_events(&self) -> u64 {
        2 * u64::from(self.slots) * u64::from(self.builders) + u64::from(BATCH_EVENTS)
    }

    pub(super) fn manager(&self) -> ManagerConfig {
        ManagerConfig {
            readouts: self.readouts,
            builders: self.builders,
            outputs: 0,
            readout_of: std::collections::BTreeMap::new(),
            triggers: if self.is_driven { Triggers::Driven } else { Triggers::Free },
            first_event: FIRST_EVENT,
            max_events: Some(self.events),
            trigger_type: TriggerType(1),
            trigger_mix: TriggerMix::default(),
            queue_events: usize::try_from(self.buffer_events() / 2).unwrap_or(usize::MAX),
            batch_events: self.batch_events as usize,
            max_attempts: 3,
            expected_event: Some(ByteCount(self.event_bytes)),
            requirements: Vec::new(),
            start_timeout: self.times(400),
            stop_timeout: self.times(400),
            desertion_timeout: Nanos::from_secs(3_600),
            patience: self.patience(),
            heartbeat: self.times(4),
            batch_time: self.batch_time,
            shaping: self.gathering.shaping(),
            channel: self.channel(),
            shifts: None,
        }
    }

    pub(super) fn readout(&self, index: u16) -> ReadoutConfig {
        let source = SourceConfig { id: SourceId(u32::from(index)), optional: false };
        ReadoutConfig {
            sources: vec![source],
            // The bound is the number of events: sizes have no bound that all models share.
            buffer: ByteCount(u64::MAX / 4),
            buffer_events: usize::try_from(self.buffer_events()).unwrap_or(usize::MAX),
            max_fragment: ByteCount(u64::from(u32::MAX)),
            announce: Announce::Never,
            merge_timeout: self.retry,
            longest_merge: self.retry,
            wait_for_required: false,
            orphan_timeout: None,
            room_from: None,
            size_window: ReadoutConfig::SIZE_WINDOW,
            message_bytes: self.message_bytes(),
            message_events: BATCH_EVENTS as usize,
            request_events: 4096,
            heartbeat: self.times(4),
            channel: self.channel(),
        }
    }

    pub(super) fn builder(&self) -> BuilderConfig {
        let sources = |index: u16| ReadoutSources { sources: vec![SourceId(u32::from(index))] };
        BuilderConfig {
            mirrored: false,
            readouts: (0..self.readouts).map(sources).collect(),
            optional: BTreeSet::new(),
            slots: self.slots,
            // Slots are the bound; this much lets events be four times as large as on average.
            memory: ByteCount(self.event_bytes.saturating_mul(4).saturating_mul(u64::from(self.slots))),
            incomplete: IncompletePolicy::Store,
            event_timeout: self.times(200),
            patience: self.patience(),
            request_retry: self.retry,
            asking: self.gathering.asking(),
            scope: Scope::default(),
            windows: None,
            batch_events: self.batch_events as usize,
            batch_time: self.batch_time,
            heartbeat: self.times(4),
            channel: self.channel(),
        }
    }
}

fn nanos(time: crate::units::Picos) -> Nanos {
    Nanos(time.0 / 1_000)
}
