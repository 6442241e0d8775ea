//! See `sheaf_fuzz::source_map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::source_map(bytes));
