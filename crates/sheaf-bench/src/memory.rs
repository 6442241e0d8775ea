//! Memory operations of processors, without any network: the limit of everything that moves payload.

use crate::cpu;
use serde::{Deserialize, Serialize};
use sheaf_wire::checksum::word_sum;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Operation on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Copied to another place, block after block.
    Copy,
    /// Read once.
    Read,
    /// Written with one value.
    Fill,
    /// Copied from scattered places into one place after another: fragments into events.
    Gather,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Copy, Self::Read, Self::Fill, Self::Gather];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Read => "read",
            Self::Fill => "fill",
            Self::Gather => "gather",
        }
    }
}

/// Bytes that each thread reads, and bytes that it writes, before it starts over. They exceed a core's own caches, so
/// that the figure is that of the memory and not of the caches.
pub const WORKING_SET_BYTES: usize = 64 << 20;

/// Number of bytes moved between two reads of the clock.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes per second of `threads` threads together, each on memory of its own, with blocks of `block` bytes, for about
/// `span`. A copied byte counts once.
#[must_use]
pub fn measure(
    operation: Operation,
    block: usize,
    threads: usize,
    working_set: usize,
    span: Duration,
) -> f64 {
    let processors = cpu::usable();
    let barrier = Barrier::new(threads);
    let rates = std::thread::scope(|scope| {
        let run = |thread: usize| {
            let (barrier, processors) = (&barrier, &processors);
            scope.spawn(move || {
                // More threads than processors: the system deals them out.
                if let Some(cpu) = processors.get(thread).filter(|_| threads <= processors.len()) {
                    let _ = cpu::pin(&[*cpu]);
                }
                let mut field = Field::new(operation, block.max(1), working_set);
                field.batch();
                barrier.wait();
                field.rate(span)
            })
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(0.0)).collect::<Vec<f64>>()
    });
    rates.iter().sum()
}

/// The memory of one thread, and where it is in it.
struct Field {
    operation: Operation,
    block: usize,
    from: Vec<u8>,
    to: Vec<u8>,
    /// In which order blocks are read.
    order: Vec<u32>,
    at: usize,
}

impl Field {
    fn new(operation: Operation, block: usize, working_set: usize) -> Self {
        let blocks = (working_set / block).max(1);
        let bytes = blocks * block;
        let reads = operation != Operation::Fill;
        let writes = operation != Operation::Read;
        let order = if operation == Operation::Gather { shuffled(blocks) } else { Vec::new() };
        // Filled with something, so that every page is there before the clock runs.
        let from = vec![1; if reads { bytes } else { 0 }];
        let to = vec![2; if writes { bytes } else { 0 }];
        Self { operation, block, from, to, order, at: 0 }
    }

    fn rate(&mut self, span: Duration) -> f64 {
        let start = Instant::now();
        let mut bytes = 0;
        while start.elapsed() < span {
            bytes += self.batch();
        }
        let seconds = start.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is quoted to a few digits")]
        let moved = bytes as f64;
        moved / seconds
    }

    /// Moves about [`BATCH_BYTES`]; returns how many.
    fn batch(&mut self) -> usize {
        let block = self.block;
        let blocks = self.from.len().max(self.to.len()) / block;
        let count = (BATCH_BYTES / block).max(1);
        for _ in 0..count {
            let next = self.at * block..(self.at + 1) * block;
            match self.operation {
                Operation::Copy => self.to[next.clone()].copy_from_slice(&self.from[next]),
                Operation::Read => {
                    black_box(word_sum(&self.from[next]));
                }
                Operation::Fill => self.to[next].fill(black_box(3)),
                Operation::Gather => {
                    let scattered = self.order[self.at] as usize * block;
                    self.to[next].copy_from_slice(&self.from[scattered..scattered + block]);
                }
            }
            self.at = if self.at + 1 == blocks { 0 } else { self.at + 1 };
        }
        black_box(&mut self.to);
        count * block
    }
}

/// The numbers below `count` in an order that no prefetcher guesses, the same every time.
fn shuffled(count: usize) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).map(|number| u32::try_from(number).unwrap_or(u32::MAX)).collect();
    // A linear congruential generator with Knuth's constants; its upper half is random enough for a shuffle.
    let mut state = 1_u64;
    for last in (1..numbers.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = (state >> 33) % (last as u64 + 1);
        numbers.swap(last, usize::try_from(other).unwrap_or(0));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gather_reads_every_block_once_before_it_begins_again() {
        let mut order = shuffled(1000);
        assert_ne!(order[..3], [0, 1, 2]);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1000));
    }

    #[test]
    fn every_operation_moves_what_it_says() {
        for operation in Operation::ALL {
            let mut field = Field::new(operation, 3000, 1 << 20);
            assert_eq!(field.batch(), BATCH_BYTES / 3000 * 3000);
            let (read, written) = (field.from.len(), field.to.len());
            assert_eq!(read > 0, operation != Operation::Fill);
            assert_eq!(written > 0, operation != Operation::Read);
            let expected = match operation {
                Operation::Copy | Operation::Gather => 1,
                Operation::Fill => 3,
                Operation::Read => continue,
            };
            // A batch is as large as this working set, rounded down to whole blocks.
            assert!(field.to.iter().all(|byte| *byte == expected), "{operation:?}");
        }
    }

    #[test]
    fn threads_add_up() {
        assert!(measure(Operation::Read, 64, 2, 1 << 16, Duration::from_millis(2)) > 0.0);
    }
}
