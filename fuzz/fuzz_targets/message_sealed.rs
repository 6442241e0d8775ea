//! See `sheaf_fuzz::message_sealed`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::message_sealed(bytes));
