//! See `sheaf_fuzz::fragment_stream_sealed`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::fragment_stream_sealed(bytes));
