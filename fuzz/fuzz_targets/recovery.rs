//! See `sheaf_fuzz::recovery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::recovery(bytes));
