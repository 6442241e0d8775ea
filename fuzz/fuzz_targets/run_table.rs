//! See `sheaf_fuzz::run_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::run_table(bytes));
