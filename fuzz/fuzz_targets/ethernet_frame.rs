//! See `sheaf_fuzz::ethernet_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::ethernet_frame(bytes));
