//! See `sheaf_fuzz::trigger_link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::trigger_link(bytes));
