//! The test programs: roundtrip, streams, ping-pong, memory, and the machine's limits.
