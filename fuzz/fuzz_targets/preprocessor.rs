//! See `sheaf_fuzz::preprocessor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::preprocessor(bytes));
