//! See `sheaf_fuzz::tcp_deframer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::tcp_deframer(bytes));
