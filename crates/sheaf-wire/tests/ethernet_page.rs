//! `docs/reference/ethernet.md` tells the truth: its table has the fields of the layout, its example is what is written.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use sheaf_wire::ethernet::{
    ETHERTYPE, FRAME_HEAD_BYTES, FrameHead, FrameHeadBytes, FrameKind, MacAddress, PORT_HEAD_BYTES,
    WIRE_BYTES, seal_frame,
};
use sheaf_wire::{NodeId, RunNumber};
use std::mem::offset_of;
use std::path::Path;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/ethernet.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

macro_rules! rows {
    ($($field:ident),*) => {{
        fn size<F>(_: fn(&FrameHeadBytes) -> &F) -> usize {
            size_of::<F>()
        }
        vec![$((
            stringify!($field),
            offset_of!(FrameHeadBytes, $field),
            size(|head: &FrameHeadBytes| &head.$field),
        )),*]
    }};
}

#[test]
fn the_table_has_the_fields_of_the_layout() {
    let fields = rows!(
        destination,
        source,
        ethertype,
        magic,
        version,
        kind,
        flags,
        rail,
        run,
        from,
        to,
        length,
        checksum
    );
    let page = page();
    let rows = page.lines().skip_while(|line| !line.starts_with("| offset |")).skip(2);
    let rows: Vec<Vec<&str>> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), fields.len());
    let mut end = 0;
    for (row, (field, offset, bytes)) in rows.iter().zip(fields) {
        assert_eq!(offset, end, "{field}");
        end += bytes;
        let expected = [offset.to_string(), bytes.to_string(), format!("`{field}`")];
        assert_eq!([row[0], row[1], row[3]], expected);
    }
    assert_eq!(end, FRAME_HEAD_BYTES);
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
    seal_frame(&mut frame);
    let page = page();
    let example = page.split("```").nth(1).unwrap();
    let bytes: Vec<u8> =
        example.split_whitespace().map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect();
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
