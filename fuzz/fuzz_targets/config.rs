//! See `sheaf_fuzz::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::config(bytes));
