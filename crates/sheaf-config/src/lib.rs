//! The configuration of a run: a TOML file, validated completely before anything starts.
//!
//! One file serves a laptop (`sheaf run`, all roles in one process) and a cluster (`sheaf node CONFIG ru0`). Nothing,
//! or an empty file, is the embedded default, [`Config::default`].
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the tables of the file as structs; each knob is defined once, with type, default, unit, limits, meaning |
//! | `knob` | the macros that make struct, default, parser, range check and reference page of one definition |
//! | `codec` | how values look in the file: integers, times, sizes, words, lists |
//!
//! Only this crate knows the file format. It opens no socket and creates no directory; whether a replay directory or
//! an output directory is there is found by those who use it.

#![forbid(unsafe_code)]

mod codec;
mod knob;
mod settings;

pub use settings::{
    Builder, Content, Emulated, Filter, FilterKind, Incomplete, IncompletePolicy, Manager, Node, Output,
    OutputKind, Pacing, Protocol, Readout, Replay, Run, SizeModel, Source, SourceKind, Sync, Transport,
    TransportKind, Trigger, TriggerMode,
};

use thiserror::Error;

/// The configuration of a run: what a file says, and defaults for what it does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// What the run is called, where it is written and when it ends.
    pub run: Run,
    /// What makes the event manager start an event.
    pub trigger: Trigger,
    /// The sources.
    pub source: Source,
    /// Readout units.
    pub readout: Readout,
    /// Builder units.
    pub builder: Builder,
    /// What becomes of incomplete events.
    pub incomplete: Incomplete,
    /// The event manager.
    pub manager: Manager,
    /// What decides whether a built event is stored.
    pub filter: Filter,
    /// Where accepted events go.
    pub output: Output,
    /// How messages travel.
    pub transport: Transport,
    /// What messages hold, and when silence becomes a reason to act.
    pub protocol: Protocol,
    /// The nodes, where they are listed one by one; empty: as many as `readout.count` and `builder.count` say.
    pub node: Vec<Node>,
}

/// A word that no value of a choice has, on a command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{word}\" is not one of {known}")]
pub struct UnknownWord {
    word: String,
    known: String,
}

impl UnknownWord {
    pub(crate) fn of<T: knob::Choice>(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            known: codec::words::<T>(),
        }
    }
}
