//! See `sheaf_fuzz::event_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::event_file(bytes));
