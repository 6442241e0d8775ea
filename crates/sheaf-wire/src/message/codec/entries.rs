//! The entries of message heads.

use super::{DecodeError, Entry};
use crate::HitInterval;
use crate::message::layout::{
    AbsentReadoutBytes, AnnouncementBytes, AssignmentBytes, DestinationBytes, EventRangeBytes,
    EventWindowBytes, FinishedBytes, MissingBytes, ReleaseBytes, ShapeBytes, SourceBytes, SuperFragmentBytes,
};
use crate::message::{
    AbsentReadout, Announcement, Assignment, Destination, EventRange, EventWindow, Finished, Release, Shape,
};
use crate::{
    ByteCount, DropReason, EventId, MissingReason, MissingSource, Outcome, SourceId, SuperFragment,
    Timestamp, TriggerType,
};
use zerocopy::little_endian::{U16, U32, U64};

#[inline]
fn parse_outcome(code: u8) -> Result<Outcome, DecodeError> {
    Outcome::from_code(code).ok_or(DecodeError::BadValue { field: "outcome", value: u64::from(code) })
}

#[inline]
fn emit_reason(reason: Option<DropReason>) -> u8 {
    reason.map_or(0, DropReason::code)
}

/// A reason is present exactly if the outcome requires one, and optional for an event that was given back.
#[inline]
fn parse_reason(outcome: Outcome, code: u8) -> Result<Option<DropReason>, DecodeError> {
    let bad = DecodeError::BadValue { field: "reason", value: u64::from(code) };
    let reason = match code {
        0 => None,
        code => Some(DropReason::from_code(code).ok_or(bad)?),
    };
    match outcome {
        Outcome::GivenBack => Ok(reason),
        Outcome::Dropped if reason.is_some() => Ok(reason),
        Outcome::Stored | Outcome::Rejected if reason.is_none() => Ok(reason),
        _ => Err(bad),
    }
}

#[inline]
pub(super) fn parse_count(count: u32) -> Result<u32, DecodeError> {
    if count == 0 { Err(DecodeError::BadValue { field: "count", value: 0 }) } else { Ok(count) }
}

impl Entry for Announcement {
    type Bytes = AnnouncementBytes;
    fn emit(&self) -> AnnouncementBytes {
        AnnouncementBytes { event: U64::new(self.event.0), time: U64::new(self.time.0) }
    }
    fn parse(bytes: &AnnouncementBytes) -> Result<Self, DecodeError> {
        Ok(Self { event: EventId(bytes.event.get()), time: Timestamp(bytes.time.get()) })
    }
}

impl Entry for AbsentReadout {
    type Bytes = AbsentReadoutBytes;
    fn emit(&self) -> AbsentReadoutBytes {
        AbsentReadoutBytes {
            event: U64::new(self.event.0),
            readout: U16::new(self.readout),
            parts: U16::new(self.parts),
            reserved: U32::ZERO,
        }
    }
    fn parse(bytes: &AbsentReadoutBytes) -> Result<Self, DecodeError> {
        Ok(Self { event: EventId(bytes.event.get()), readout: bytes.readout.get(), parts: bytes.parts.get() })
    }
}

impl Entry for Finished {
    type Bytes = FinishedBytes;
    #[inline]
    fn emit(&self) -> FinishedBytes {
        FinishedBytes {
            event: U64::new(self.event.0),
            bytes: U64::new(self.bytes.0),
            fragments: U32::new(self.fragments),
            missing: U32::new(self.missing),
            attempt: U16::new(self.attempt),
            outcome: self.outcome.code(),
            reason: emit_reason(self.reason),
            flags: U32::new(u32::from(self.incomplete)),
        }
    }
    #[inline]
    fn parse(bytes: &FinishedBytes) -> Result<Self, DecodeError> {
        let flags = bytes.flags.get();
        if flags > 1 {
            return Err(DecodeError::BadValue { field: "finished flags", value: u64::from(flags) });
        }
        let outcome = parse_outcome(bytes.outcome)?;
        Ok(Self {
            event: EventId(bytes.event.get()),
            attempt: bytes.attempt.get(),
            outcome,
            reason: parse_reason(outcome, bytes.reason)?,
            bytes: ByteCount(bytes.bytes.get()),
            fragments: bytes.fragments.get(),
            missing: bytes.missing.get(),
            incomplete: flags == 1,
        })
    }
}

impl Entry for Assignment {
    type Bytes = AssignmentBytes;
    #[inline]
    fn emit(&self) -> AssignmentBytes {
        AssignmentBytes {
            event: U64::new(self.event.0),
            time: U64::new(self.time.0),
            charged: U32::new(self.charged),
            attempt: U16::new(self.attempt),
            trigger_type: U16::new(self.trigger_type.0),
        }
    }
    #[inline]
    fn parse(bytes: &AssignmentBytes) -> Result<Self, DecodeError> {
        Ok(Self {
            event: EventId(bytes.event.get()),
            time: Timestamp(bytes.time.get()),
            trigger_type: TriggerType(bytes.trigger_type.get()),
            attempt: bytes.attempt.get(),
            charged: bytes.charged.get(),
        })
    }
}

impl Entry for Release {
    type Bytes = ReleaseBytes;
    fn emit(&self) -> ReleaseBytes {
        ReleaseBytes {
            first: U64::new(self.first.0),
            count: U32::new(self.count),
            outcome: self.outcome.code(),
            reason: emit_reason(self.reason),
            parts: U16::new(self.parts),
        }
    }
    fn parse(bytes: &ReleaseBytes) -> Result<Self, DecodeError> {
        let outcome = parse_outcome(bytes.outcome)?;
        if outcome == Outcome::GivenBack {
            return Err(DecodeError::BadValue { field: "outcome", value: u64::from(bytes.outcome) });
        }
        Ok(Self {
            first: EventId(bytes.first.get()),
            count: parse_count(bytes.count.get())?,
            outcome,
            reason: parse_reason(outcome, bytes.reason)?,
            parts: bytes.parts.get(),
        })
    }
}

impl Entry for SourceId {
    type Bytes = SourceBytes;
    fn emit(&self) -> SourceBytes {
        SourceBytes { source: U32::new(self.0) }
    }
    fn parse(bytes: &SourceBytes) -> Result<Self, DecodeError> {
        Ok(Self(bytes.source.get()))
    }
}

impl Entry for EventRange {
    type Bytes = EventRangeBytes;
    fn emit(&self) -> EventRangeBytes {
        EventRangeBytes {
            first: U64::new(self.first.0),
            count: U32::new(self.count),
            attempt: U16::new(self.attempt),
            reserved: U16::ZERO,
        }
    }
    fn parse(bytes: &EventRangeBytes) -> Result<Self, DecodeError> {
        Ok(Self {
            first: EventId(bytes.first.get()),
            count: parse_count(bytes.count.get())?,
            attempt: bytes.attempt.get(),
        })
    }
}

impl Entry for EventWindow {
    type Bytes = EventWindowBytes;
    fn emit(&self) -> EventWindowBytes {
        EventWindowBytes {
            event: U64::new(self.event.0),
            from_ps: U64::new(self.window.from_ps),
            until_ps: U64::new(self.window.until_ps),
            attempt: U16::new(self.attempt),
            reserved: [0; 6],
        }
    }
    fn parse(bytes: &EventWindowBytes) -> Result<Self, DecodeError> {
        let window = HitInterval { from_ps: bytes.from_ps.get(), until_ps: bytes.until_ps.get() };
        if window.from_ps > window.until_ps {
            return Err(DecodeError::BadValue { field: "end of a window", value: window.until_ps });
        }
        Ok(Self { event: EventId(bytes.event.get()), attempt: bytes.attempt.get(), window })
    }
}

impl Entry for Destination {
    type Bytes = DestinationBytes;
    fn emit(&self) -> DestinationBytes {
        let EventRange { first, count, attempt } = self.events;
        DestinationBytes {
            first: U64::new(first.0),
            count: U32::new(count),
            attempt: U16::new(attempt),
            builder: U16::new(self.builder),
        }
    }
    fn parse(bytes: &DestinationBytes) -> Result<Self, DecodeError> {
        let events = EventRange {
            first: EventId(bytes.first.get()),
            count: parse_count(bytes.count.get())?,
            attempt: bytes.attempt.get(),
        };
        Ok(Self { events, builder: bytes.builder.get() })
    }
}

impl Entry for Shape {
    type Bytes = ShapeBytes;
    fn emit(&self) -> ShapeBytes {
        ShapeBytes {
            epoch: U64::new(self.epoch.0),
            clock: U64::new(self.clock.0),
            flags: U32::new(u32::from(self.turning)),
            reserved: U32::ZERO,
        }
    }
    fn parse(bytes: &ShapeBytes) -> Result<Self, DecodeError> {
        let flags = bytes.flags.get();
        if flags > 1 {
            return Err(DecodeError::BadValue { field: "shape flags", value: u64::from(flags) });
        }
        Ok(Self {
            turning: flags == 1,
            epoch: Timestamp(bytes.epoch.get()),
            clock: Timestamp(bytes.clock.get()),
        })
    }
}

impl Entry for SuperFragment {
    type Bytes = SuperFragmentBytes;
    fn emit(&self) -> SuperFragmentBytes {
        SuperFragmentBytes {
            event: U64::new(self.event.0),
            count: U32::new(self.count),
            fragments: U16::new(self.fragments),
            missing: U16::new(self.missing),
            attempt: U16::new(self.attempt),
            part: U16::new(self.part),
            reserved: U32::ZERO,
        }
    }
    fn parse(bytes: &SuperFragmentBytes) -> Result<Self, DecodeError> {
        let entry = Self {
            event: EventId(bytes.event.get()),
            count: parse_count(bytes.count.get())?,
            attempt: bytes.attempt.get(),
            part: bytes.part.get(),
            fragments: bytes.fragments.get(),
            missing: bytes.missing.get(),
        };
        // Long ranges of events without content would cost the receiver time without a proportional number of bytes.
        let is_too_long = entry.count > 1 && entry.is_empty();
        if is_too_long || entry.event.0.checked_add(u64::from(entry.count) - 1).is_none() {
            return Err(DecodeError::BadValue { field: "count", value: u64::from(entry.count) });
        }
        Ok(entry)
    }
}

impl Entry for MissingSource {
    type Bytes = MissingBytes;
    fn emit(&self) -> MissingBytes {
        MissingBytes { source: U32::new(self.source.0), reason: self.reason.code(), reserved: [0; 3] }
    }
    fn parse(bytes: &MissingBytes) -> Result<Self, DecodeError> {
        let reason = MissingReason::from_code(bytes.reason)
            .ok_or(DecodeError::BadValue { field: "missing reason", value: u64::from(bytes.reason) })?;
        Ok(Self { source: SourceId(bytes.source.get()), reason })
    }
}
