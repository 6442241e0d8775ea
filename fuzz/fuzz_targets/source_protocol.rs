//! See `sheaf_fuzz::source_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::source_protocol(bytes));
