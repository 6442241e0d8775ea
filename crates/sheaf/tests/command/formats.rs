//! `docs/operating/upgrades.md`: its table of files and interfaces has the versions of the code.

use sheaf_datagram::udp;
use sheaf_filter::abi::FILTER_ABI;
use sheaf_histogram::HistogramRecord;
use sheaf_store::run::MANIFEST_VERSION;
use sheaf_wire::link_frame::FrameKind;
use sheaf_wire::message::hello::VersionRange;
use sheaf_wire::{
    datagram, ethernet, event_file, farm, feed, spool_file, spool_link, stream_file, tap, trigger_link,
};
use std::path::Path;

const FIRST_ROW: &str =
    "| file or interface | version | oldest | checked by | what is said about another version |";

#[cfg(feature = "hdf5")]
const HDF5: u32 = sheaf_store::hdf5::VERSION;
/// That of the page: this build has no code for the format.
#[cfg(not(feature = "hdf5"))]
const HDF5: u32 = 1;

/// Returns each row of the table: name, version, and the oldest version.
fn shown() -> Vec<[String; 3]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/upgrades.md");
    let text = std::fs::read_to_string(page).unwrap();
    let rows =
        text.lines().skip_while(|line| *line != FIRST_ROW).skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        std::array::from_fn(|_| cells.next().unwrap())
    })
    .collect()
}

#[test]
fn the_table_of_formats_has_the_versions_of_the_code() {
    let both = |name: &'static str, version: u64| (name, version, version);
    let hello = VersionRange::OWN;
    let expected = [
        ("messages between nodes", u64::from(hello.newest), u64::from(hello.oldest)),
        both("framing on TCP, greeting of shared memory", sheaf_tcp::framing::VERSION.into()),
        both("framing on several rails", sheaf_tcp::framing::RAILS_VERSION.into()),
        both("datagrams", datagram::layout::VERSION.into()),
        both("prefix of UDP datagrams", udp::framing::VERSION.into()),
        both("frames of raw Ethernet", ethernet::VERSION.into()),
        both("processors", farm::VERSION.into()),
        both("source protocol", feed::VERSION.into()),
        both("trigger protocol", trigger_link::VERSION.into()),
        both("consumers", <tap::Kind as FrameKind>::VERSION.into()),
        both("requests to a hit spool", <spool_link::Kind as FrameKind>::VERSION.into()),
        both("filters, sources, decoders and triggers in libraries", FILTER_ABI.into()),
        both("HTTP interface", sheaf_monitor::state::API.into()),
        ("fragment stream", stream_file::VERSION.into(), stream_file::VERSION_WITHOUT_TIME_BASE.into()),
        ("event file", event_file::VERSION.into(), event_file::FIRST_VERSION.into()),
        both("segment of a hit spool", spool_file::VERSION.into()),
        both("`run.json`", MANIFEST_VERSION.into()),
        both("`histograms.json`", HistogramRecord::VERSION.into()),
        both("HDF5 file", HDF5.into()),
        ("tables of the database of runs", sheaf_database::SCHEMA as u64, 1),
    ];
    let is_compared = |row: &[String; 3]| row[1] != "the release";
    let shown: Vec<_> = shown().into_iter().filter(is_compared).collect();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(name, newest, oldest)| [name.to_owned(), newest.to_string(), oldest.to_string()])
        .collect();
    assert_eq!(shown, expected);
}
