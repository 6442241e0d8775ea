//! Shifts of a source as run records: content of records of the kind [`RecordKind::Shift`], which the event manager writes.

use crate::EventId;
use crate::codes::codes;
use crate::file::FileFormatError;
use crate::message::layout::layout;
use crate::run_record::{MAX_RECORD_NAME_BYTES, RecordKind, RunRecord};
use crate::{SourceId, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::mem::size_of;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

codes! {
    /// Reaction to a shift.
    #[derive(Default)]
    #[derive(Serialize, Deserialize)]
    ShiftPolicy {
        /// It is reported. Events stay marked.
        #[default]
        Mark = 0, "mark";
        /// The readout unit of the source renumbers its further fragments.
        Repair = 1, "repair";
        /// The run ends in good order.
        Stop = 2, "stop";
    }
}

layout! {
    /// Content of a run record of the kind `shift`, 32 bytes.
    ShiftBytes[32] {
        /// Offset 0: first event with a fragment of the source that belongs elsewhere.
        first_event: U64,
        /// Offset 8: number of events by which the fragments are too early.
        shift: I64,
        /// Offset 16: first event with a renumbered fragment, or zero.
        repaired_from: U64,
        /// Offset 24: number of the shift in the run.
        index: U32,
        /// Offset 28: [`ShiftPolicy`].
        policy: u8,
        /// Offset 29: 1 if fragments are renumbered from `repaired_from` on.
        is_repaired: u8,
        /// Offset 30: zero.
        reserved: [u8; 2],
    }
}

/// A source whose fragments are in other events than they belong to, as event files have it.
///
/// A shift has several records if more has become known about it: the last one counts ([`latest`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShiftRecord {
    /// Number of the shift in the run, from 0.
    pub index: u32,
    /// The source.
    pub source: SourceId,
    /// Name of the quantity by which it was recognised.
    pub quantity: String,
    /// First event with a fragment of the source that belongs elsewhere.
    pub first: EventId,
    /// Number of events by which these fragments are too early: a source that missed one trigger has 1, one that counted a
    /// trigger twice -1.
    pub shift: i64,
    /// First event with a renumbered fragment, which is right again. `None`: not repaired.
    pub repaired_from: Option<EventId>,
    /// Reaction of the run.
    pub policy: ShiftPolicy,
}

impl ShiftRecord {
    /// Returns the run record, made at `time`. Of a name that is too long, the beginning is taken.
    #[must_use]
    pub fn to_run_record(&self, time: Timestamp) -> RunRecord {
        let content = ShiftBytes {
            first_event: U64::new(self.first.0),
            shift: I64::new(self.shift),
            repaired_from: U64::new(self.repaired_from.map_or(0, |event| event.0)),
            index: U32::new(self.index),
            policy: self.policy as u8,
            is_repaired: u8::from(self.repaired_from.is_some()),
            reserved: [0; 2],
        };
        let mut name = self.quantity.clone();
        while name.len() > MAX_RECORD_NAME_BYTES {
            name.pop();
        }
        let content = Bytes::copy_from_slice(content.as_bytes());
        RunRecord::derived(self.source, RecordKind::Shift, time, name, content)
    }

    /// Reads the content of a run record of the kind [`RecordKind::Shift`].
    ///
    /// # Errors
    /// A [`FileFormatError`] if it has another kind, or its content is not that of a shift.
    pub fn parse(record: &RunRecord) -> Result<Self, FileFormatError> {
        const WHAT: &str = "record of a shift";
        let bad = |field, value| FileFormatError::BadValue { what: WHAT, field, value };
        if record.kind != RecordKind::Shift {
            return Err(bad("kind", u64::from(record.kind.code())));
        }
        let (need, have) = (size_of::<ShiftBytes>() as u64, record.content.len() as u64);
        let bytes = ShiftBytes::ref_from_bytes(&record.content).map_err(|_| FileFormatError::Truncated {
            what: WHAT,
            need,
            have,
        })?;
        let repaired_from = match (bytes.is_repaired, bytes.repaired_from.get()) {
            (0, 0) => None,
            (1, event) => Some(EventId(event)),
            (code, _) => return Err(bad("is_repaired", code.into())),
        };
        if bytes.shift.get() == 0 {
            return Err(bad("shift", 0));
        }
        Ok(Self {
            index: bytes.index.get(),
            source: record.source,
            quantity: record.name.clone(),
            first: EventId(bytes.first_event.get()),
            shift: bytes.shift.get(),
            repaired_from,
            policy: ShiftPolicy::from_code(bytes.policy).ok_or_else(|| bad("policy", bytes.policy.into()))?,
        })
    }
}

/// Returns the shifts of a run by number, each as its last record describes it, and the defects of records of shifts.
pub fn latest<'a>(
    records: impl IntoIterator<Item = &'a RunRecord>,
) -> (Vec<ShiftRecord>, Vec<(u64, FileFormatError)>) {
    let mut shifts: std::collections::BTreeMap<u32, (Timestamp, ShiftRecord)> = Default::default();
    let mut defects = Vec::new();
    for record in records.into_iter().filter(|record| record.kind == RecordKind::Shift) {
        match ShiftRecord::parse(record) {
            Ok(shift) => {
                // A repair is the last that becomes known of a shift.
                let rank = |time: Timestamp, shift: &ShiftRecord| (time, shift.repaired_from.is_some());
                let is_newer = shifts
                    .get(&shift.index)
                    .is_none_or(|(time, known)| rank(*time, known) <= rank(record.time, &shift));
                if is_newer {
                    shifts.insert(shift.index, (record.time, shift));
                }
            }
            Err(error) => defects.push((record.number, error)),
        }
    }
    (shifts.into_values().map(|(_, shift)| shift).collect(), defects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shift_record;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_shift_is_read_as_it_was_written(
            (index, source, first) in (any::<u32>(), any::<u32>(), any::<u64>()),
            shift in any::<i64>().prop_filter("a shift", |shift| *shift != 0),
            repaired in any::<Option<u64>>(),
            policy in 0..3_u8,
            quantity in "[a-z]{1,9}",
        ) {
            let shift = ShiftRecord {
                index,
                source: SourceId(source),
                quantity,
                first: EventId(first),
                shift,
                repaired_from: repaired.map(EventId),
                policy: ShiftPolicy::from_code(policy).unwrap(),
            };
            prop_assert_eq!(ShiftRecord::parse(&shift.to_run_record(Timestamp(7))), Ok(shift));
        }

        #[test]
        fn any_content_is_read_or_refused(content in prop::collection::vec(any::<u8>(), 0..40)) {
            let record = RunRecord { content: content.into(), ..shift_record(0, None).to_run_record(Timestamp(1)) };
            let _ = ShiftRecord::parse(&record);
        }
    }

    #[test]
    fn contents_that_are_no_shift_are_refused_by_field() {
        let record = shift_record(0, None).to_run_record(Timestamp(1));
        for (at, value, field) in [(29, 2, "is_repaired"), (28, 3, "policy")] {
            let mut content = record.content.to_vec();
            content[at] = value;
            let error = ShiftRecord::parse(&RunRecord { content: content.into(), ..record.clone() });
            assert!(error.unwrap_err().to_string().contains(field), "{field}");
        }
        let short = RunRecord { content: record.content.slice(1..), ..record.clone() };
        assert!(ShiftRecord::parse(&short).unwrap_err().to_string().contains("record of a shift"));
        assert!(ShiftRecord::parse(&RunRecord { kind: RecordKind::End, ..record }).is_err());
    }

    #[test]
    fn the_last_record_of_a_shift_counts_in_any_order() {
        let found = shift_record(0, None).to_run_record(Timestamp(5));
        let repaired = shift_record(0, Some(5_116)).to_run_record(Timestamp(5));
        let other = shift_record(1, None).to_run_record(Timestamp(4));
        let broken = RunRecord { content: Bytes::new(), ..shift_record(2, None).to_run_record(Timestamp(6)) };
        for records in [[&found, &repaired, &other, &broken], [&broken, &other, &repaired, &found]] {
            let (shifts, defects) = latest(records);
            assert_eq!(shifts, [shift_record(0, Some(5_116)), shift_record(1, None)]);
            assert_eq!(defects.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [broken.number]);
        }
    }
}
