//! See `sheaf_fuzz::fragment_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::fragment_stream(bytes));
