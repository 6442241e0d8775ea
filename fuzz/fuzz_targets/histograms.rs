//! See `sheaf_fuzz::histograms`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::histograms(bytes));
