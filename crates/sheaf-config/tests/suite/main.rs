//! The configuration as its users meet it: defaults, messages, and properties.

mod defaults;
mod messages;
mod properties;
