//! Runs the suite on the in-process transport.

mod memory;
