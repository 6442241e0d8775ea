//! See `sheaf_fuzz::spool_link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::spool_link(bytes));
