//! Packets of hits of front ends that no program was written for.

use super::HOUR;
use crate::codec::{Field, Mark, field, id_list, mark_list, maybe, parameters, path, seconds, symbol, whole};
use crate::knob::section;
use sheaf_wire::Nanos;
use std::path::PathBuf;

/// Largest header or record: a UDP datagram.
const MAX_PACKET: u64 = 65_535;

section! {
    /// Packets of hits of self-triggered front ends of your own, with `source.timed.front_end = "described"`. A packet is a header and
    /// records of one size, described by their fields. A field is a text such as `"u32 at 4"`: 32 bits after 4 bytes. Fields of the header
    /// count from the beginning of the packet, fields of a record from the beginning of the record.
    Hits "source.hits" {
        /// Bytes that every packet has. Others are counted as unreadable.
        magic: Vec<Mark> = Vec::new(), "magic", mark_list();
        /// Header: number of the card. Default: all packets are of the one card in `source.timed.cards`, or of card 0.
        card: Option<Field> = None, "card", maybe(field());
        /// Header: number of the packet, which rises by one from packet to packet of a card and may roll over. Default: none, and
        /// lost packets are not noticed.
        packet_number: Option<Field> = None, "packet_number", maybe(field());
        /// Header: time in ticks, to which the times of its records are added. The clock is as wide as this field. Default: none.
        base: Option<Field> = None, "base", maybe(field());
        /// Bytes of the header. Default: to the end of the last field or mark in it.
        header: Option<u32> = None, "header_bytes", maybe(whole(0, MAX_PACKET));
        /// Bytes of a record, required for described front ends.
        record: Option<u32> = None, "record_bytes", maybe(whole(1, MAX_PACKET));
        /// Record: time, in ticks of the front end's clock, required for described front ends. It may roll over.
        time: Option<Field> = None, "time", maybe(field());
        /// Record: subdivision of `time`. A tick, of `source.timed.tick`, is then one part of it: with a fine time of 4 bits, a
        /// sixteenth of a tick of `time`. Default: none.
        fine: Option<Field> = None, "fine", maybe(field());
        /// Record: channel. Default: 0.
        channel: Option<Field> = None, "channel", maybe(field());
        /// Record: measured value of at most 16 bits. Default: 0.
        value: Option<Field> = None, "value", maybe(field());
        /// Record: second measured value of at most 16 bits. Default: 0.
        extra: Option<Field> = None, "extra", maybe(field());
        /// Record: kind of the record. Default: all are hits.
        kind: Option<Field> = None, "kind", maybe(field());
        /// Kinds that are hits, with `kind`. Default: all that are in no other list.
        hit_kinds: Vec<u32> = Vec::new(), "hit_kinds", id_list(u64::from(u32::MAX));
        /// Kinds that are time markers, with `kind`: the clock of the card has come to their time. Records of all other kinds are
        /// counted and skipped.
        marker_kinds: Vec<u32> = Vec::new(), "marker_kinds", id_list(u64::from(u32::MAX));
        /// Kinds that are pulses of a reference, with `kind`, such as those of a GPS receiver each second: their time is the reading of the
        /// clock at the pulse. The clock follows them, with `source.timed.pulse_period`.
        pulse_kinds: Vec<u32> = Vec::new(), "pulse_kinds", id_list(u64::from(u32::MAX));
        /// Kinds that are resets, with `kind`: the counter starts again at 0, and their time is its last reading before. A kind that is also in
        /// `pulse_kinds` is a pulse that resets the counter.
        reset_kinds: Vec<u32> = Vec::new(), "reset_kinds", id_list(u64::from(u32::MAX));
    }
}

section! {
    /// Decoder of your own, which finds the hits in a fragment or a packet: a function in C, C++ or Rust with
    /// `source.timed.front_end = "library"`, or in Python with `"python"`. Each source has a decoder. Of packets, `[source.hits]` describes
    /// the header: `card`, `packet_number` and `magic`.
    HitDecoder "source.decoder" {
        /// The shared library, or the Python file or module; required for such front ends.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// Function of the library that returns the table of its functions.
        symbol: String = "sheaf_decoder".into(), "symbol", symbol();
        /// Name of the decoder in the Python file. Default: the only one that is marked with `sheaf.decoder`.
        function: Option<String> = None, "function", maybe(symbol());
        /// Python interpreter, with the package `sheaf` and NumPy. Each readout unit starts a process of it.
        python: PathBuf = PathBuf::from("python3"), "python", path();
        /// Text that is passed to the decoder. Sheaf does not interpret it.
        parameters: String = String::new(), "parameters", parameters();
        /// Maximum number of hits of a fragment that a library finds. If it finds more, the fragment counts as undecoded.
        max_hits: u32 = 65_536, "max_hits", whole(1, 1 << 26);
        /// Width of the times that the decoder gives, in bits. Wider ones are off the timeline. `bits` of a clock in `[clocks]` precedes it.
        counter_bits: u32 = 64, "counter_bits", whole(1, 64);
        /// Time that a Python process may take for a request of up to 64 fragments. If it takes longer, it is started again, and the
        /// fragments count as undecoded.
        time_limit: Nanos = Nanos::from_secs(600), "time_limit_s", seconds(Nanos::from_millis(1), HOUR);
    }
}
