//! See `sheaf_fuzz::spool`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::spool(bytes));
