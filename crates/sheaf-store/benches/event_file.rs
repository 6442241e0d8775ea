//! Throughput.
fn main() {}
