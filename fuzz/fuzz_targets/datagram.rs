//! See `sheaf_fuzz::datagram`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::datagram(bytes));
