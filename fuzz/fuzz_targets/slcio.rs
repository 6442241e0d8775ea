//! See `sheaf_fuzz::slcio`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::slcio(bytes));
