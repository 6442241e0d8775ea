//! See `sheaf_fuzz::agent_link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::agent_link(bytes));
