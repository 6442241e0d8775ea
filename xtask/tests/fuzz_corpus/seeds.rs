//! Makes the seeds of every fuzz target: valid inputs of many kinds by the real encoders, and damaged ones made of
//! them. The same seeds each time.

mod config;
mod datagrams;
mod files;
mod inputs;
mod lcio;
mod messages;
mod shm;
mod tcp;
mod votes;

use std::collections::BTreeMap;

/// Prefix of the names of seeds; other inputs were found by fuzzing.
pub(crate) const PREFIX: &str = "seed-";

/// All seeds of a target by file name.
pub(crate) fn of(target: &str) -> BTreeMap<String, Vec<u8>> {
    let mut dice = Dice(0x5eaf);
    let mut valid = match target {
        "agent_link" => sheaf_agent::fuzz::seeds(),
        "config" => config::seeds(),
        "datagram" => datagrams::single(&mut dice),
        "described_packets" => sheaf_source::described::fuzz::seeds(),
        "hello" => sheaf_wire::fuzz::hello_seeds(),
        "histograms" => sheaf_histogram::fuzz::seeds(),
        "hit_packets" => sheaf_source::timed::hit_records::fuzz::seeds(),
        "ethernet_frame" => sheaf_wire::fuzz::ethernet_frame_seeds(),
        "event_file" | "event_file_sealed" => files::event_files(&mut dice),
        "farm" => sheaf_wire::farm::fuzz::seeds(),
        "fragment_stream" | "fragment_stream_sealed" => files::fragment_streams(&mut dice),
        "message" | "message_sealed" => messages::seeds(&mut dice),
        "preprocessor" => sheaf_node::preprocessing::isolated::fuzz::seeds(),
        "recovery" => datagrams::to_a_link(&mut dice),
        "run_table" => config::of_tables(),
        "shm_ring" => shm::seeds(),
        "slcio" => lcio::seeds(&mut dice),
        "source_map" => config::of_maps(),
        "source_protocol" => sheaf_wire::feed::fuzz::seeds(),
        "spool" => sheaf_wire::spool_file::fuzz::seeds(),
        "spool_link" => sheaf_wire::spool_link::fuzz::seeds(),
        "tap" => sheaf_wire::tap::fuzz::seeds(),
        "tcp_deframer" => tcp::seeds(&mut dice),
        "tcp_greeting" => sheaf_tcp::tcp_greeting_seeds(),
        "trigger_link" => sheaf_wire::trigger_link::fuzz::seeds(),
        other => panic!("no seeds are made for the target {other}"),
    };
    valid.push(("nothing".to_owned(), Vec::new()));
    let damaged: Vec<_> = valid.iter().flat_map(|(name, bytes)| damage(name, bytes, &mut dice)).collect();
    valid.into_iter().chain(damaged).map(|(name, bytes)| (format!("{PREFIX}{name}"), bytes)).collect()
}

/// One input cut short and one with a few bits flipped.
fn damage(name: &str, bytes: &[u8], dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let cut = bytes[..dice.below(bytes.len())].to_vec();
    let mut flipped = bytes.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.below(flipped.len());
        flipped[at] ^= 1 << dice.below(8);
    }
    vec![(format!("{name}-cut"), cut), (format!("{name}-flipped"), flipped)]
}

/// Random numbers that are the same for ever: SplitMix64.
pub(crate) struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `limit`, without `limit`.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
