//! Every parser of Sheaf that reads what others wrote, as a function of any bytes. A function returns whatever the bytes
//! are, or panics: then the parser is wrong.
//!
//! `fuzz_targets/` gives each to libFuzzer; the test `fuzz_corpus` of `xtask` includes this file and gives each the
//! inputs under `corpus/`, on any toolchain.

/// Function that a target calls with an input.
pub type Body = fn(&[u8]);

/// Name and body of every target. Its inputs are in `corpus/NAME`, its libFuzzer program is `fuzz_targets/NAME.rs`.
pub const TARGETS: &[(&str, Body)] = &[
    ("agent_link", agent_link),
    ("config", config),
    ("datagram", datagram),
    ("described_packets", described_packets),
    ("ethernet_frame", ethernet_frame),
    ("event_file", event_file),
    ("event_file_sealed", event_file_sealed),
    ("farm", farm),
    ("fragment_stream", fragment_stream),
    ("fragment_stream_sealed", fragment_stream_sealed),
    ("hello", hello),
    ("histograms", histograms),
    ("hit_packets", hit_packets),
    ("message", message),
    ("message_sealed", message_sealed),
    ("preprocessor", preprocessor),
    ("recovery", recovery),
    ("run_table", run_table),
    ("shm_ring", shm_ring),
    ("slcio", slcio),
    ("source_map", source_map),
    ("source_protocol", source_protocol),
    ("spool", spool),
    ("spool_link", spool_link),
    ("tap", tap),
    ("tcp_deframer", tcp_deframer),
    ("tcp_greeting", tcp_greeting),
    ("trigger_link", trigger_link),
];

/// Frames between a run and an agent, after the handshake.
pub fn agent_link(bytes: &[u8]) {
    sheaf_agent::fuzz::take_bytes(bytes);
}

/// A hello, the first frame on a link between nodes.
pub fn hello(bytes: &[u8]) {
    sheaf_wire::fuzz::fuzz_hello(bytes);
}

/// A configuration file.
pub fn config(bytes: &[u8]) {
    sheaf_config::fuzz_config(bytes);
}

/// A source map, and a list of sources in a file.
pub fn source_map(bytes: &[u8]) {
    sheaf_config::fuzz_source_map(bytes);
}

/// A table of runs, checked with the default configuration.
pub fn run_table(bytes: &[u8]) {
    sheaf_config::fuzz_run_table(bytes);
}

/// A datagram of a link that recovers from loss: heads, then body; as it is, and with a right checksum.
pub fn datagram(bytes: &[u8]) {
    sheaf_wire::datagram::fuzz::fuzz_datagram(bytes);
}

/// Packets of a front end, and the description by which they are decoded.
pub fn described_packets(bytes: &[u8]) {
    sheaf_source::described::fuzz::fuzz_described(bytes);
}

/// A publication of histograms, or the record of a run.
pub fn histograms(bytes: &[u8]) {
    sheaf_histogram::fuzz::fuzz_histograms(bytes);
}

/// Packets of hits, and the layout by which they are cut into time slices.
pub fn hit_packets(bytes: &[u8]) {
    sheaf_source::timed::hit_records::fuzz::fuzz_hits(bytes);
}

/// A frame of raw Ethernet; its checksum is made right where the last byte is odd.
pub fn ethernet_frame(bytes: &[u8]) {
    sheaf_wire::fuzz::fuzz_ethernet_frame(bytes);
}

/// An event file.
pub fn event_file(bytes: &[u8]) {
    sheaf_store::fuzz::fuzz_event_file(bytes);
}

/// An event file whose checksums are right, so that what lies behind them is reached.
pub fn event_file_sealed(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    sheaf_wire::fuzz::seal_event_file(&mut bytes);
    event_file(&bytes);
}

/// Reads messages between a converter and its processors; the first byte selects the direction.
pub fn farm(bytes: &[u8]) {
    sheaf_wire::farm::fuzz::fuzz_farm(bytes);
}

/// A fragment stream.
pub fn fragment_stream(bytes: &[u8]) {
    sheaf_store::fuzz::fuzz_stream(bytes);
}

/// A fragment stream whose checksums are right.
pub fn fragment_stream_sealed(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    sheaf_wire::fuzz::seal_stream(&mut bytes);
    fragment_stream(&bytes);
}

/// A message between nodes: head, then payload.
pub fn message(bytes: &[u8]) {
    sheaf_wire::fuzz::fuzz_message(bytes);
}

/// A message with a good header.
pub fn message_sealed(bytes: &[u8]) {
    sheaf_wire::fuzz::fuzz_sealed_message(bytes);
}

/// Reads messages between a readout unit and the process of its preprocessor, in either direction; the first byte gives
/// the room that the unit has.
pub fn preprocessor(bytes: &[u8]) {
    sheaf_node::preprocessing::isolated::fuzz::fuzz_preprocessor(bytes);
}

/// Feeds datagrams to one end of a link that recovers from loss: for each a byte of its kind, one of its length, and
/// its bytes.
pub fn recovery(bytes: &[u8]) {
    sheaf_recovery::fuzz::fuzz_link(bytes);
}

/// Reads records that a peer has written into the ring of a shared-memory link, after the length that it claims to have
/// written.
pub fn shm_ring(bytes: &[u8]) {
    sheaf_shm::fuzz_shm_ring(bytes);
}

/// An LCIO file of the SDHCAL calorimeter.
pub fn slcio(bytes: &[u8]) {
    let _fragments = sheaf_import::fuzz_slcio(bytes);
}

/// Reads messages between a readout unit and the programs that feed it, in either direction.
pub fn source_protocol(bytes: &[u8]) {
    sheaf_wire::feed::fuzz::fuzz_feed(bytes);
}

/// Reads the parts of a segment of a hit spool; with valid checksums if the last byte is odd.
pub fn spool(bytes: &[u8]) {
    sheaf_wire::spool_file::fuzz::fuzz_spool(bytes);
}

/// Reads messages between a hit spool and its requesters; with valid checksums if the last byte is odd.
pub fn spool_link(bytes: &[u8]) {
    sheaf_wire::spool_link::fuzz::fuzz_spool_link(bytes);
}

/// Reads messages between a door and a consumer; with valid checksums if the last byte is odd.
pub fn tap(bytes: &[u8]) {
    sheaf_wire::tap::fuzz::fuzz_tap(bytes);
}

/// Reads frames of a TCP peer, in pieces whose sizes the first four bytes decide.
pub fn tcp_deframer(bytes: &[u8]) {
    sheaf_tcp::fuzz_tcp_stream(bytes);
}

/// The greeting of the other side of a connection, with its proof where the run has a key.
pub fn tcp_greeting(bytes: &[u8]) {
    sheaf_tcp::fuzz_tcp_greeting(bytes);
}

/// Messages of the trigger protocol, of both sides.
pub fn trigger_link(bytes: &[u8]) {
    sheaf_wire::trigger_link::fuzz::fuzz_trigger_link(bytes);
}
