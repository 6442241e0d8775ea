//! See `sheaf_fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::message(bytes));
