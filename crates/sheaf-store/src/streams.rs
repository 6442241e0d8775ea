//! Streams of accepted events: which files an event goes to, by the tags that its filter gave.
//!
//! A session of a builder numbers its accepted events; an event that goes to several streams has the same number in all
//! of them, and counts as stored once, when it is as durable as each of them asks for.

mod routing;
mod writer;

pub use routing::{Route, Routing, StreamRule};
pub use writer::StreamsWriter;

#[cfg(test)]
mod tests;
