//! See `sheaf_fuzz::tcp_greeting`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::tcp_greeting(bytes));
