//! See `sheaf_fuzz::hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::hello(bytes));
