//! `docs/reference/spool.md`.

use crate::page::{self, assert_layouts, shape};
use sheaf_wire::spool_file::{
    BlockBytes, BlockSourceBytes, FooterBytes, IndexBlockBytes, IndexBytes, IndexSourceBytes,
    SegmentHeaderBytes,
};
use sheaf_wire::spool_link::{
    DoneBytes, EndBytes, EndReason, FrameBytes, GapReason, Kind, PartBytes, RangeBytes, RequestBytes,
};

fn page() -> String {
    page::open("spool.md")
}

#[test]
fn the_tables_have_the_fields_of_the_layouts() {
    let segment = shape!(
        SegmentHeaderBytes: magic, version, flags, run, number, session, created, metadata_bytes, reserved, checksum
    );
    let block = shape!(
        BlockBytes: marker, sources, hits, sources_checksum, from_ps, until_ps, written, reserved, header_checksum
    );
    let footer = shape!(FooterBytes: magic, index_offset, blocks, sources, index_checksum, footer_checksum);
    let layouts = [
        ("Segment header", segment),
        ("Block header", block),
        ("Source of a block", shape!(BlockSourceBytes: source, hits, from_ps, until_ps, checksum, reserved)),
        ("Index header", shape!(IndexBytes: marker, blocks, sources, reserved)),
        ("Block in the index", shape!(IndexBlockBytes: offset, from_ps, until_ps, hits, sources)),
        ("Source in the index", shape!(IndexSourceBytes: source, blocks, hits, from_ps, until_ps)),
        ("Footer", footer),
        ("Frame", shape!(FrameBytes: magic, version, kind, reserved, body_bytes, checksum)),
        ("Request", shape!(RequestBytes: number, ranges, from_ps, until_ps, session)),
        ("Range", shape!(RangeBytes: first, last)),
        ("Part", shape!(PartBytes: number, source, from_ps, until_ps, reason, reserved)),
        ("Done", shape!(DoneBytes: number, gaps, hits, session)),
        ("End", shape!(EndBytes: reason)),
    ];
    assert_layouts(&page(), &layouts);
}

#[test]
fn kinds_and_reasons_are_all_of_them() {
    let page = page();
    let kinds = Kind::ALL.map(|kind| (kind.code(), kind.name()));
    let gaps = GapReason::ALL.map(|reason| (reason.code(), reason.name()));
    let ends = EndReason::ALL.map(|reason| (reason.code(), reason.name()));
    for (code, name) in kinds.into_iter().chain(gaps).chain(ends) {
        assert!(page.contains(&format!("| {code} | `{name}` |")), "no row for {code} `{name}`");
    }
}
