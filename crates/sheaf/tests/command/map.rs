//! The map of readout units and builder units, of real runs.

use crate::child::{ScratchDirectory, signal, wait_until};
use crate::monitor::address;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const RUN: &str = "[run]\nduration_s = 0\n[readout]\ncount = 3\n[builder]\ncount = 2\n[incomplete]\npolicy = \"wait\"\n\
     [trigger]\nmode = \"fixed\"\nrate_hz = 200.0\n";

/// A map, read again: its head, and its values by builder unit.
struct Map {
    head: Value,
    columns: Vec<Vec<f32>>,
}

impl Map {
    fn of(address: &str, quantity: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /api/v1/map?quantity={quantity} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.0 200 OK"));
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let bytes = &answer[body..];
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let (readouts, begin) = (word(8), 24 + word(12));
        let values: Vec<f32> =
            bytes[begin..].chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        Self {
            head: serde_json::from_slice(&bytes[24..begin]).unwrap(),
            columns: values.chunks(readouts.max(1)).map(<[f32]>::to_vec).collect(),
        }
    }

    /// Returns whether every builder unit waits this long for the readout unit, and hardly for the others.
    fn blames(&self, readout: usize, seconds: f32) -> bool {
        let is_row = |column: &Vec<f32>| {
            let others = column.iter().enumerate().filter(|(row, _)| *row != readout);
            column[readout] >= seconds
                && others.map(|(_, wait)| *wait).fold(0.0, f32::max) * 3.0 < column[readout]
        };
        self.columns.iter().all(is_row)
    }

    fn summary(&self) -> &str {
        self.head["summary"].as_str().unwrap()
    }
}

#[test]
fn a_frozen_readout_unit_is_a_row_of_the_map_until_it_goes_on() {
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", RUN);
    let mut running = scratch.start("run run.toml --processes --page=127.0.0.1:0");
    let address = address(&mut running);
    wait_until("payload from every readout unit", || {
        let Map { columns, .. } = Map::of(&address, "rate");
        columns.len() == 2 && columns.iter().flatten().all(|rate| *rate > 0.0)
    });
    let node = running.wait_for_node("ru1", 0);
    signal(node, "STOP");
    wait_until("a row of long waits", || {
        let map = Map::of(&address, "wait");
        map.blames(1, 1.5) && map.summary().starts_with("readout unit ru1, which has not reported for")
    });
    let map = Map::of(&address, "wait");
    assert_eq!(map.head["readouts"][1]["condition"], "silent", "{}", map.head);
    assert!(map.summary().contains("2 of 2 builder units wait for it"), "{}", map.summary());
    signal(node, "CONT");
    wait_until("short waits", || {
        let map = Map::of(&address, "wait");
        map.columns.iter().flatten().all(|wait| *wait < 1.0)
            && map.head["readouts"][1]["condition"] == "reporting"
    });
    running.signal("INT");
    running.end().exits(0);
}

#[test]
fn a_frozen_builder_unit_is_a_column_of_which_nothing_is_known() {
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", RUN);
    let mut running = scratch.start("run run.toml --processes --page=127.0.0.1:0");
    let address = address(&mut running);
    wait_until("a map without gaps", || {
        let Map { columns, .. } = Map::of(&address, "wait");
        columns.len() == 2 && columns.iter().flatten().all(|wait| !wait.is_nan())
    });
    let node = running.wait_for_node("bu0", 0);
    signal(node, "STOP");
    wait_until("an unknown column", || {
        let map = Map::of(&address, "wait");
        let [frozen, other] = &map.columns[..] else { panic!("two builder units: {}", map.head) };
        frozen.iter().all(|wait| wait.is_nan())
            && other.iter().all(|wait| !wait.is_nan())
            && map.summary().starts_with("builder unit bu0 has not reported for")
    });
    signal(node, "CONT");
    wait_until("a map without gaps again", || {
        Map::of(&address, "wait").columns.iter().flatten().all(|wait| !wait.is_nan())
    });
    running.signal("INT");
    running.end();
}
