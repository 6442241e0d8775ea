//! See `sheaf_fuzz::farm`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::farm(bytes));
