//! Bounds on the number of events that the builder of a measurement holds.
//!
//! More events in flight make fuller messages and fewer wake-ups; fewer mean that payload is still in a cache when it
//! is read. On two cores with 2 MiB of second-level cache each, over shared memory and over TCP, the processor time per
//! fragment was lowest with 4 MiB in each of two readout units and 2 MiB in each of four or eight, for every fragment
//! size. An eighth of that doubled the time; four times that cost a quarter more. Hence one rule for all sizes: the
//! system has twice the caches of its cores in flight. Each readout unit has at least one of these caches in flight,
//! but for small fragments not more than makes full messages ([`MOST_SLOTS`]).
//!
//! If messages pass through sockets, the kernel's buffers occupy part of the caches. With half of that amount in
//! flight, 2x2 nodes took 8 % less processor time per fragment of 16 kB, 10 % less for 64 kB and 4 % less for 2 kB
//! (medians of nine to eleven, measured in turn).
//!
//! With many nodes, asking for less than [`LEAST_ASKED`] at a time costs more than the cache saves. 8x8 nodes were
//! measured with 256 and with 128 slots per builder, for fragments of 2 kB: over TCP 1.10 and 0.79 million fragments
//! per second; over shared memory 1,139 and 1,263 ns of processor time per fragment if payload is written and read, and
//! 391 and 535 ns if it is not accessed; over memory in one process 649 and 680 ns (medians of nine and eleven,
//! measured in turn).

use sheaf_bench::cpu;
use sheaf_config::{Config, TransportKind};
use sheaf_wire::ByteCount;

/// Minimum number of events under construction per builder, however large they are: one is read while others arrive.
const FEWEST_SLOTS: u64 = 8;

/// Maximum number of slots. More do not make messages fuller, see [`LARGEST_BATCH`], and the bookkeeping of each event
/// would leave the caches: 2x2 nodes over shared memory took 584 ns of processor time per fragment of 256 bytes, but
/// 763 ns with 8,192 slots, the number whose payload fits the caches. An event took 2.2 ms instead of 17 ms (medians of
/// five).
const MOST_SLOTS: u64 = 2_048;

/// Maximum number of events that are assigned and reported at a time. The batch is a quarter of a builder's slots, up
/// to this number, so that work remains while the next batch is in flight.
const LARGEST_BATCH: u64 = 256;

/// Maximum size of a message over memory. A message holds one batch, up to this size, so that its fixed cost (vectors
/// and hand-over) is shared by all of its fragments. Through a socket, many messages pass in one call anyway, and a
/// message larger than the rest of a receive block is copied.
const LARGEST_MEMORY_MESSAGE: u64 = 256 << 10;

/// The least that a builder asks a readout unit for at a time.
const LEAST_ASKED: u64 = 128 << 10;

/// The least block that sources write and sockets are read into.
const BLOCK: u64 = 128 << 10;

/// Sets the bounds for the sizes, the transport and the nodes that are configured.
pub(super) fn set(config: &mut Config) {
    let nodes = u64::from(config.readout.count) + u64::from(config.builder.count) + 1;
    let cores = (cpu::usable().len() as u64).clamp(1, nodes);
    set_for(config, cpu::core_cache_bytes(), cores);
}

/// As [`set`], for a number of cores with a given second-level cache each.
fn set_for(config: &mut Config, cache: u64, cores: u64) {
    let (readouts, builders) = (u64::from(config.readout.count), u64::from(config.builder.count));
    let largest = config.source.emulated.effective_maximum().0.max(1);
    let mean = config.source.emulated.mean.0.max(1);
    let caches = if passes_memory(config) { 2 } else { 1 };
    let share = (caches * cache * cores / readouts).max(cache);
    // Asked for in quarters, see [`LARGEST_BATCH`].
    let fewest = (4 * LEAST_ASKED / mean).clamp(FEWEST_SLOTS, 4 * LARGEST_BATCH);
    let slots = (share / (builders * mean)).clamp(fewest, MOST_SLOTS);
    let of_readout = (slots * builders * mean).max(4 * BLOCK);
    let of_builder = slots * readouts * mean;
    config.builder.slots = u32::try_from(slots).unwrap_or(u32::MAX);
    // Sizes that vary must not make the bound in bytes the one that is met.
    config.builder.memory = ByteCount((4 * of_builder).max(4 * readouts * largest).max(1 << 20));
    let batch = u32::try_from((slots / 4).clamp(1, LARGEST_BATCH)).unwrap_or(u32::MAX);
    (config.builder.report_events, config.manager.batch_events) = (batch, batch);
    if passes_memory(config) {
        let of_batch = (u64::from(batch) * mean).min(LARGEST_MEMORY_MESSAGE);
        config.protocol.message = config.protocol.message.max(ByteCount(of_batch));
    }
    config.readout.buffer = ByteCount(of_readout + largest);
    config.source.block = ByteCount(BLOCK);
    // A block is free again when the last of its fragments is: a few are always half used.
    config.source.memory = ByteCount(of_readout + of_readout / 4 + 4 * largest);
    let transport = &mut config.transport;
    // A frame is at most 15/16 payload.
    let frame = largest + largest / 8 + (64 << 10);
    transport.max_frame = ByteCount(transport.max_frame.0.max(frame));
    transport.queue = transport.queue.max(transport.max_frame);
    // A read fills the rest of a block, which should hold several messages.
    let block = (2 * BLOCK).max(4 * mean);
    transport.block = ByteCount(block);
    transport.shared = ByteCount(transport.shared.0.max(2 * block));
    transport.receive = ByteCount(4 * of_builder + block * (nodes_that_talk(readouts, builders) + 2));
}

/// Returns whether payload is read where its source has written it.
fn passes_memory(config: &Config) -> bool {
    matches!(config.transport.kind, TransportKind::Memory | TransportKind::Shm)
}

/// The most links that a node has.
fn nodes_that_talk(readouts: u64, builders: u64) -> u64 {
    readouts + builders + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_config::SizeModel;

    fn config(readouts: u16, builders: u16, mean: u64, rms: u64) -> Config {
        let mut config = Config::default();
        (config.readout.count, config.builder.count) = (readouts, builders);
        let emulated = &mut config.source.emulated;
        emulated.mean = ByteCount(mean);
        emulated.rms = ByteCount(rms);
        emulated.size = if rms == 0 { SizeModel::Fixed } else { SizeModel::LogNormal };
        config
    }

    proptest! {
        #[test]
        fn every_system_gets_bounds_that_can_work(
            readouts in 1..64_u16, builders in 1..64_u16, mean in 1..(1_u64 << 20), spread in 0..3_u64,
            cache in 1_u64 << 18..1 << 23, cores in 1_u64..130,
        ) {
            let mut config = config(readouts, builders, mean, spread * mean);
            set_for(&mut config, cache, cores);
            prop_assert!(config.validate().is_ok(), "{:?}", config.validate());
            let asked = u64::from(config.builder.slots) * u64::from(builders) * mean;
            prop_assert!(config.readout.buffer.0 >= asked, "what builders may ask for can be held");
        }

        #[test]
        fn small_events_in_flight_fit_twice_the_caches_unless_nodes_are_many(
            readouts in 1..9_u16, builders in 1..9_u16, mean in 64..4096_u64, cores in 1_u64..9,
        ) {
            let mut config = config(readouts, builders, mean, 0);
            let cache = 2 << 20;
            set_for(&mut config, cache, cores);
            let held = config.readout.buffer.0 * u64::from(readouts);
            let asked = 4 * LEAST_ASKED * u64::from(readouts) * u64::from(builders);
            let most = ((2 * cores).max(u64::from(readouts)) * cache).max(asked);
            prop_assert!(held <= most + mean * u64::from(readouts), "{held} of {most}");
        }
    }

    #[test]
    fn many_nodes_ask_for_enough_at_a_time() {
        let slots = |kind, nodes, mean| {
            let mut config = config(nodes, nodes, mean, 0);
            config.transport.kind = kind;
            set_for(&mut config, 2 << 20, 2);
            config.builder.slots
        };
        for kind in [TransportKind::Memory, TransportKind::Shm, TransportKind::Tcp] {
            assert_eq!(slots(kind, 8, 2_048), 256);
            assert_eq!(slots(kind, 8, 1 << 20), 8);
        }
        assert_eq!(
            slots(TransportKind::Shm, 2, 2_048),
            1_024,
            "the caches hold more than is to be asked for"
        );
        assert_eq!(slots(TransportKind::Tcp, 2, 2_048), 512, "sockets want half of them");
    }

    #[test]
    fn the_size_of_fragments_does_not_change_what_is_in_flight() {
        let held = |mean| {
            let mut config = config(2, 2, mean, 0);
            set_for(&mut config, 2 << 20, 2);
            u64::from(config.builder.slots) * 2 * mean
        };
        for mean in [1_024, 2_048, 16_384, 65_536] {
            assert_eq!(held(mean), 4 << 20, "fragments of {mean} bytes");
        }
        assert_eq!(held(256), 1 << 20, "of small ones there are as many as make full messages");
    }
}
