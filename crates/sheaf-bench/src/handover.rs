//! Hand-over of blocks between processors: one writes them, another reads them, and nothing but the memory moves. It is
//! an upper limit for builders of events whose fragments another processor has written.

use crate::cpu;
use sheaf_wire::checksum::word_sum;
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// Approximate size of the chunks in which blocks are handed over. Metadata of a chunk are small compared to it.
const CHUNK_BYTES: usize = 32 << 10;

/// Bytes per second of `pairs` pairs of threads together. Each pair passes `working_set` bytes back and forth, with blocks
/// of `block` bytes, for about `span`. Every byte is written once and read once, and counts once. Both threads of a
/// pair spin.
#[must_use]
pub fn measure(block: usize, pairs: usize, working_set: usize, span: Duration) -> f64 {
    let block = block.max(1);
    let chunk = block * (CHUNK_BYTES / block).max(1);
    // One is written while the other is read.
    let chunks = (working_set / chunk).max(2);
    let processors = cpu::usable();
    // More threads than processors: the system deals them out.
    let place = |thread: usize| processors.get(thread).copied().filter(|_| 2 * pairs <= processors.len());
    let barrier = Barrier::new(2 * pairs);
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for pair in 0..pairs {
            let (full, to_read) = sync_channel(chunks);
            let (empty, to_write) = sync_channel(chunks);
            let barrier = &barrier;
            let (writes_at, reads_at) = (place(2 * pair), place(2 * pair + 1));
            readers.push(scope.spawn(move || {
                stay_at(reads_at);
                // Touched by the one that reads: where there are several NUMA nodes, a builder's memory is its own.
                for _ in 0..chunks {
                    let _ = empty.send(vec![1_u8; chunk]);
                }
                barrier.wait();
                read_all(&to_read, &empty, block)
            }));
            scope.spawn(move || {
                stay_at(writes_at);
                barrier.wait();
                write_for(span, &to_write, &full, block);
            });
        }
        readers.into_iter().map(|reader| reader.join().unwrap_or(0.0)).sum()
    })
}

fn stay_at(processor: Option<usize>) {
    if let Some(processor) = processor {
        let _ = cpu::pin(&[processor]);
    }
}

fn write_for(span: Duration, empty: &Receiver<Vec<u8>>, full: &SyncSender<Vec<u8>>, block: usize) {
    let start = Instant::now();
    let mut value = 0_u8;
    while start.elapsed() < span {
        let Ok(mut chunk) = empty.try_recv() else {
            spin_loop();
            continue;
        };
        value = value.wrapping_add(1);
        chunk.chunks_exact_mut(block).for_each(|block| block.fill(black_box(value)));
        if full.send(chunk).is_err() {
            return;
        }
    }
}

/// Reads until the writer has finished; returns bytes per second.
fn read_all(full: &Receiver<Vec<u8>>, empty: &SyncSender<Vec<u8>>, block: usize) -> f64 {
    let start = Instant::now();
    let mut bytes = 0;
    loop {
        match full.try_recv() {
            Ok(chunk) => {
                chunk.chunks_exact(block).for_each(|block| {
                    black_box(word_sum(block));
                });
                bytes += chunk.len();
                // There is room for all chunks; at the end the receiver is gone.
                let _ = empty.send(chunk);
            }
            Err(TryRecvError::Empty) => spin_loop(),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate is quoted to a few digits")]
    let read = bytes as f64;
    read / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_comes_back() {
        let (full, to_read) = sync_channel(4);
        let (empty, to_write) = sync_channel(4);
        for _ in 0..2 {
            empty.send(vec![0; 300]).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(move || write_for(Duration::from_millis(5), &to_write, &full, 100));
            assert!(read_all(&to_read, &empty, 100) > 0.0);
        });
    }

    #[test]
    fn blocks_may_be_larger_than_the_working_set_and_pairs_more_than_processors() {
        for (block, pairs, working_set) in [(64, 1, 1 << 20), (100_000, 1, 1000), (3000, 3, 1 << 16)] {
            assert!(measure(block, pairs, working_set, Duration::from_millis(3)) > 0.0);
        }
    }
}
