//! The suite, tried on the transport within a process.

mod memory;
