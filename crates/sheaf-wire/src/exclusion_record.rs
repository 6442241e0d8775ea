//! Exclusions of sources as run records: content of records of the kind [`RecordKind::Exclusion`], which the event manager writes.

use crate::EventId;
use crate::file::FileFormatError;
use crate::message::layout::layout;
use crate::run_record::{RecordKind, RunRecord};
use crate::{SourceId, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::mem::size_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// Content of a run record of the kind `exclusion`, 24 bytes.
    ExclusionRecordBytes[24] {
        /// Offset 0: first event without the source.
        first_event: U64,
        /// Offset 8: first event with the source again, or zero.
        included_from: U64,
        /// Offset 16: number of the exclusion in the run.
        index: U32,
        /// Offset 20: 1 if the source is included again from `included_from` on.
        is_ended: u8,
        /// Offset 21: zero.
        reserved: [u8; 3],
    }
}

/// A range of events in which a source was excluded by an operator, as event files have it.
///
/// An exclusion has a second record when it ends: the last one counts ([`latest_exclusions`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExclusionRecord {
    /// Number of the exclusion in the run, from 0.
    pub index: u32,
    /// The source.
    pub source: SourceId,
    /// First event without the source.
    pub first: EventId,
    /// First event with the source again. `None`: it was excluded to the end of the run.
    pub included_from: Option<EventId>,
}

impl ExclusionRecord {
    /// Returns whether the source is excluded in an event.
    #[must_use]
    pub fn has(&self, event: EventId) -> bool {
        self.first <= event && self.included_from.is_none_or(|from| event < from)
    }

    /// Returns the run record, made at `time`.
    #[must_use]
    pub fn to_run_record(&self, time: Timestamp) -> RunRecord {
        let content = ExclusionRecordBytes {
            first_event: U64::new(self.first.0),
            included_from: U64::new(self.included_from.map_or(0, |event| event.0)),
            index: U32::new(self.index),
            is_ended: u8::from(self.included_from.is_some()),
            reserved: [0; 3],
        };
        let content = Bytes::copy_from_slice(content.as_bytes());
        RunRecord::derived(self.source, RecordKind::Exclusion, time, String::new(), content)
    }

    /// Reads the content of a run record of the kind [`RecordKind::Exclusion`].
    ///
    /// # Errors
    /// A [`FileFormatError`] if it has another kind, or its content is not that of an exclusion.
    pub fn parse(record: &RunRecord) -> Result<Self, FileFormatError> {
        const WHAT: &str = "record of an exclusion";
        let bad = |field, value| FileFormatError::BadValue { what: WHAT, field, value };
        if record.kind != RecordKind::Exclusion {
            return Err(bad("kind", u64::from(record.kind.code())));
        }
        let (need, have) = (size_of::<ExclusionRecordBytes>() as u64, record.content.len() as u64);
        let bytes = ExclusionRecordBytes::ref_from_bytes(&record.content)
            .map_err(|_| FileFormatError::Truncated { what: WHAT, need, have })?;
        let included_from = match (bytes.is_ended, bytes.included_from.get()) {
            (0, 0) => None,
            (1, event) => Some(EventId(event)),
            (code, _) => return Err(bad("is_ended", code.into())),
        };
        Ok(Self {
            index: bytes.index.get(),
            source: record.source,
            first: EventId(bytes.first_event.get()),
            included_from,
        })
    }
}

/// Returns the exclusions of a run by number, each as its last record describes it, and the defects of records of exclusions.
pub fn latest_exclusions<'a>(
    records: impl IntoIterator<Item = &'a RunRecord>,
) -> (Vec<ExclusionRecord>, Vec<(u64, FileFormatError)>) {
    let mut exclusions: BTreeMap<u32, ExclusionRecord> = BTreeMap::new();
    let mut defects = Vec::new();
    for record in records.into_iter().filter(|record| record.kind == RecordKind::Exclusion) {
        match ExclusionRecord::parse(record) {
            Ok(exclusion) => {
                let known = exclusions.entry(exclusion.index).or_insert(exclusion);
                // The end is the last that becomes known of an exclusion.
                if exclusion.included_from.is_some() {
                    *known = exclusion;
                }
            }
            Err(error) => defects.push((record.number, error)),
        }
    }
    (exclusions.into_values().collect(), defects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exclusion(index: u32, included_from: Option<u64>) -> ExclusionRecord {
        ExclusionRecord {
            index,
            source: SourceId(3),
            first: EventId(100),
            included_from: included_from.map(EventId),
        }
    }

    proptest! {
        #[test]
        fn an_exclusion_is_read_as_it_was_written(
            (index, source, first) in (any::<u32>(), any::<u32>(), any::<u64>()),
            included_from in any::<Option<u64>>(),
        ) {
            let exclusion = ExclusionRecord {
                index,
                source: SourceId(source),
                first: EventId(first),
                included_from: included_from.map(EventId),
            };
            prop_assert_eq!(ExclusionRecord::parse(&exclusion.to_run_record(Timestamp(7))), Ok(exclusion));
        }

        #[test]
        fn any_content_is_read_or_refused(content in prop::collection::vec(any::<u8>(), 0..40)) {
            let record = RunRecord { content: content.into(), ..exclusion(0, None).to_run_record(Timestamp(1)) };
            let _ = ExclusionRecord::parse(&record);
        }
    }

    #[test]
    fn contents_that_are_no_exclusion_are_refused_by_field() {
        let record = exclusion(0, Some(200)).to_run_record(Timestamp(1));
        let mut content = record.content.to_vec();
        content[20] = 2;
        let error = ExclusionRecord::parse(&RunRecord { content: content.into(), ..record.clone() });
        assert!(error.unwrap_err().to_string().contains("is_ended"));
        let short = RunRecord { content: record.content.slice(1..), ..record.clone() };
        assert!(ExclusionRecord::parse(&short).unwrap_err().to_string().contains("record of an exclusion"));
        assert!(ExclusionRecord::parse(&RunRecord { kind: RecordKind::End, ..record }).is_err());
    }

    #[test]
    fn the_end_of_an_exclusion_counts_in_any_order() {
        let (begun, ended) = (exclusion(0, None), exclusion(0, Some(200)));
        let (begun, ended) = (begun.to_run_record(Timestamp(5)), ended.to_run_record(Timestamp(5)));
        let other = exclusion(1, None).to_run_record(Timestamp(4));
        for records in [[&begun, &ended, &other], [&other, &ended, &begun]] {
            let (exclusions, defects) = latest_exclusions(records);
            assert_eq!(
                (exclusions, defects),
                (vec![exclusion(0, Some(200)), exclusion(1, None)], Vec::new())
            );
        }
    }

    #[test]
    fn an_exclusion_has_its_events() {
        let has = |record: ExclusionRecord| [99, 100, 199, 200].map(|event| record.has(EventId(event)));
        assert_eq!(has(exclusion(0, None)), [false, true, true, true]);
        assert_eq!(has(exclusion(0, Some(200))), [false, true, true, false]);
    }
}
