//! `docs/reference/ethernet.md`.

use crate::page::{self, assert_layouts, block, shape};
use sheaf_wire::ethernet::{
    ETHERTYPE, FRAME_HEAD_BYTES, FrameHead, FrameHeadBytes, FrameKind, MacAddress, PORT_HEAD_BYTES,
    WIRE_BYTES, seal_frame,
};
use sheaf_wire::{NodeId, RunNumber};

fn page() -> String {
    page::open("ethernet.md")
}

#[test]
fn the_table_has_the_fields_of_the_layout() {
    let frame = shape!(
        FrameHeadBytes: destination, source, ethertype, magic, kind, rail, roles, from, to, run, length, checksum
    );
    assert_layouts(&page(), &[("Frame", frame)]);
}

#[test]
fn the_example_and_the_sizes_are_right() {
    let head = FrameHead {
        destination: MacAddress([2, 0x5e, 0, 0, 0, 2]),
        source: MacAddress([2, 0x5e, 0, 0, 0, 1]),
        kind: FrameKind::Datagram,
        wants_answer: false,
        rail: 0,
        run: RunNumber(7),
        from: NodeId::readout(1),
        to: Some(NodeId::builder(0)),
    };
    let mut frame = [0; FRAME_HEAD_BYTES + 2];
    frame[FRAME_HEAD_BYTES..].copy_from_slice(b"hi");
    head.write(ETHERTYPE, 2, &mut frame);
    seal_frame(head.run, &mut frame);
    let page = page();
    let bytes: Vec<u8> =
        block(&page, "").split_whitespace().map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect();
    assert_eq!(bytes, frame, "the page should say {frame:02x?}");
    for figure in [
        format!("{PORT_HEAD_BYTES} of the {FRAME_HEAD_BYTES} bytes"),
        format!("at most {} bytes, with 9000 {}", 1500 - PORT_HEAD_BYTES, 9000 - PORT_HEAD_BYTES),
        format!("takes {WIRE_BYTES} bytes more"),
        format!("costs {} bytes", FRAME_HEAD_BYTES + WIRE_BYTES),
    ] {
        assert!(page.contains(&figure), "{figure}");
    }
}
