//! A column that is read.

use super::{ReadFault, Result5};
use hdf5_metno::{Dataset, File, H5Type};
use std::ops::Range;

/// See the [module](self).
pub(super) struct Column {
    dataset: Dataset,
    len: u64,
}

impl Column {
    pub(super) fn open(file: &File, name: &str) -> Result5<Self> {
        let dataset = file.dataset(name)?;
        let len = dataset.shape().iter().product::<usize>() as u64;
        Ok(Self { dataset, len })
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Reads the element at `place`.
    pub(super) fn one<T: H5Type + Copy>(&self, place: u64) -> Result<T, ReadFault> {
        let short = || ReadFault::Short { column: self.dataset.name(), len: self.len, end: place + 1 };
        self.read(place..place + 1)?.first().copied().ok_or_else(short)
    }

    pub(super) fn read<T: H5Type + Copy>(&self, range: Range<u64>) -> Result<Vec<T>, ReadFault> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if range.end > self.len {
            return Err(ReadFault::Short { column: self.dataset.name(), len: self.len, end: range.end });
        }
        let range = range.start as usize..range.end as usize;
        Ok(self.dataset.read_slice_1d::<T, _>(range)?.to_vec())
    }

    /// The offsets of the things in `range`, with the end of the last: they must ascend and stay below `limit`.
    pub(super) fn offsets(&self, range: Range<u64>, limit: u64) -> Result<Vec<u64>, ReadFault> {
        let offsets: Vec<u64> = self.read(range.start..range.end + 1)?;
        if offsets.is_sorted() && offsets.last().is_none_or(|last| *last <= limit) {
            Ok(offsets)
        } else {
            Err(ReadFault::Offsets { column: self.dataset.name() })
        }
    }
}
