//! `docs/howto/stream-source.md` lists every counter.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use sheaf_source::described::StreamBooks;
use std::path::Path;

#[test]
fn the_list_of_counters_has_each_of_them_once_and_in_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/stream-source.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, table) = page.split_once("## Counters\n").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let listed: Vec<&str> = rows.map(|line| line.split('`').nth(1).unwrap()).collect();
    let counters: Vec<String> = StreamBooks::default().fields().map(|(name, _)| name).collect();
    assert_eq!(listed, counters);
}
