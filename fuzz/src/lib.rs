//! Every parser of Sheaf that reads what others wrote, as a function of any bytes. A function returns whatever the bytes
//! are, or panics: then the parser is wrong.
//!
//! `fuzz_targets/` gives each to libFuzzer; the test `fuzz_corpus` of `xtask` includes this file and gives each the
//! inputs under `corpus/`, on any toolchain.

/// What a target does with an input.
pub type Body = fn(&[u8]);

/// Name and body of every target. Its inputs are in `corpus/NAME`, its libFuzzer program is `fuzz_targets/NAME.rs`.
pub const TARGETS: &[(&str, Body)] = &[
    ("config", config),
    ("datagram", datagram),
    ("ethernet_frame", ethernet_frame),
    ("event_file", event_file),
    ("event_file_sealed", event_file_sealed),
    ("farm", farm),
    ("fragment_stream", fragment_stream),
    ("fragment_stream_sealed", fragment_stream_sealed),
    ("message", message),
    ("message_sealed", message_sealed),
    ("preprocessor", preprocessor),
    ("recovery", recovery),
    ("shm_ring", shm_ring),
    ("slcio", slcio),
    ("tap", tap),
    ("tcp_deframer", tcp_deframer),
];

/// A configuration file.
pub fn config(bytes: &[u8]) {
    sheaf_config::fuzz_config(bytes);
}

/// A datagram of a link that recovers from loss: heads, then body; as it is, and with a right checksum.
pub fn datagram(bytes: &[u8]) {
    sheaf_wire::datagram::fuzz::fuzz_datagram(bytes);
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

/// What a converter and its processors send each other; the first byte says which of them.
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

/// What a readout unit and the process of its preprocessor say to each other: read by either; the first byte says for how
/// many bytes the unit has room.
pub fn preprocessor(bytes: &[u8]) {
    sheaf_node::preprocessing::isolated::fuzz::fuzz_preprocessor(bytes);
}

/// What arrives at one end of a link that recovers from loss: for each datagram a byte of how, one of length, and it.
pub fn recovery(bytes: &[u8]) {
    sheaf_protocol::recovery::fuzz::fuzz_link(bytes);
}

/// What a peer that shares memory writes into the ring of a link, behind how far it says that it has written.
pub fn shm_ring(bytes: &[u8]) {
    sheaf_transport::shm::fuzz_shm_ring(bytes);
}

/// An LCIO file of the SDHCAL calorimeter.
pub fn slcio(bytes: &[u8]) {
    let _fragments = sheaf_import::fuzz_slcio(bytes);
}

/// What a door and a consumer send each other; with right checksums where the last byte is odd.
pub fn tap(bytes: &[u8]) {
    sheaf_wire::tap::fuzz::fuzz_tap(bytes);
}

/// What a TCP peer sends, in pieces whose sizes the first four bytes decide.
pub fn tcp_deframer(bytes: &[u8]) {
    sheaf_transport::tcp::fuzz_tcp_stream(bytes);
}
