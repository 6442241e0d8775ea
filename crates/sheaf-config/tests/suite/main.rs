//! Integration tests of the configuration: defaults, messages, and properties.

mod defaults;
mod messages;
mod properties;
mod sources;
