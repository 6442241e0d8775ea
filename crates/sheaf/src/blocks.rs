//! The memory of emulated sources, in blocks.

use sheaf_config as conf;
use sheaf_wire::ByteCount;

/// A page of memory, at most.
pub(crate) const PAGE_BYTES: u64 = 64 << 10;

/// As many blocks as the source's memory holds; two at least, so that one can be filled while the other is in use.
pub(crate) fn blocks(source: &conf::Source, maximum: ByteCount) -> usize {
    let block = source.block.max(maximum).0.max(1);
    usize::try_from(source.memory.0 / block).unwrap_or(usize::MAX).max(2)
}
