//! A column: a chunked dataset of one dimension that grows.

use super::{Compression, Result5, ZSTD_FILTER};
use hdf5_metno::{Dataset, DatasetBuilderEmpty, Extent, Group, H5Type};

/// Bytes of a chunk. Large enough that compression and the index of chunks cost little, small enough that a reader of
/// one event decompresses little.
const CHUNK_BYTES: usize = 256 << 10;

impl Compression {
    fn apply(self, builder: DatasetBuilderEmpty) -> DatasetBuilderEmpty {
        match self {
            Self::None => builder,
            // Shuffling puts bytes of equal significance side by side, which helps numbers most.
            Self::Deflate(level) => builder.shuffle().deflate(level),
            Self::Zstd(level) => builder.shuffle().add_filter(ZSTD_FILTER, &[u32::from(level)]),
        }
    }
}

/// Type of the elements of a column.
pub(super) trait Element: H5Type + Copy {}

impl Element for u8 {}
impl Element for u16 {}
impl Element for u32 {}
impl Element for u64 {}

/// A column that is being written: whole chunks, so that none is compressed twice.
pub(super) struct Column<T> {
    dataset: Dataset,
    /// Elements that are not in the dataset yet, less than two chunks.
    waiting: Vec<T>,
    written: usize,
}

impl<T: Element> Column<T> {
    pub(super) fn create(group: &Group, name: &str, compression: Compression) -> Result5<Self> {
        let builder = compression.apply(group.new_dataset::<T>().chunk((Self::CHUNK,)));
        let dataset = builder.shape(Extent::resizable(0)).create(name)?;
        Ok(Self { dataset, waiting: Vec::with_capacity(Self::CHUNK), written: 0 })
    }

    const CHUNK: usize = CHUNK_BYTES / size_of::<T>();

    /// Returns the number of elements.
    pub(super) fn len(&self) -> u64 {
        (self.written + self.waiting.len()) as u64
    }

    pub(super) fn push(&mut self, element: T) -> Result5<()> {
        self.extend(&[element])
    }

    pub(super) fn extend(&mut self, mut elements: &[T]) -> Result5<()> {
        while !elements.is_empty() {
            let room = Self::CHUNK - self.waiting.len();
            let (now, later) = elements.split_at(room.min(elements.len()));
            self.waiting.extend_from_slice(now);
            elements = later;
            if self.waiting.len() == Self::CHUNK {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result5<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let end = self.written + self.waiting.len();
        self.dataset.resize((end,))?;
        self.dataset.write_slice(&self.waiting, self.written..end)?;
        self.written = end;
        self.waiting.clear();
        Ok(())
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> Result5<()> {
        self.flush()
    }
}

/// Writes a column whose elements are all known, in chunks no larger than it needs.
pub(super) fn write_whole<T: Element>(
    group: &Group,
    name: &str,
    compression: Compression,
    elements: &[T],
) -> Result5<()> {
    let chunk = elements.len().clamp(1, Column::<T>::CHUNK);
    let builder = compression.apply(group.new_dataset::<T>().chunk((chunk,)));
    // A fixed number of elements could not be 0.
    let dataset = builder.shape(Extent::resizable(elements.len())).create(name)?;
    if elements.is_empty() { Ok(()) } else { dataset.write_raw(elements) }
}
