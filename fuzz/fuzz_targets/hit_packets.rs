//! See `sheaf_fuzz::hit_packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::hit_packets(bytes));
