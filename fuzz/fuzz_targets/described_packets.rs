//! See `sheaf_fuzz::described_packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::described_packets(bytes));
