//! See `sheaf_fuzz::tap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::tap(bytes));
