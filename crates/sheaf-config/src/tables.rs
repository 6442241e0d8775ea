//! Which tables there are, and the way from a table's name to its struct.

use crate::Config;
use crate::knob::{Knob, Section};
use crate::settings::{CardClock, CheckField, Program, Requirement, SourceGroup, Stream, Tag, TriggerClass};

/// Lists the tables once: the name in the file, and the field.
macro_rules! tables {
    ($($path:literal => $($field:ident).+;)*) => {
        /// The names of all tables but `[[node]]` and those of [`NAMED`], in the order of the reference page.
        pub(crate) const PATHS: &[&str] = &[$($path),*];

        impl Config {
            /// The table with this name.
            pub(crate) fn section(&self, path: &str) -> Option<&dyn Section> {
                match path {
                    $($path => Some(&self.$($field).+),)*
                    _ => None,
                }
            }

            /// The table with this name, to be changed.
            pub(crate) fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section> {
                match path {
                    $($path => Some(&mut self.$($field).+),)*
                    _ => None,
                }
            }
        }
    };
}

tables! {
    "run" => run;
    "trigger" => trigger;
    "trigger.network" => trigger.network;
    "trigger.command" => trigger.command;
    "trigger.library" => trigger.library;
    "source" => source;
    "source.emulated" => source.emulated;
    "source.free_running" => source.free_running;
    "source.replay" => source.replay;
    "source.timed" => source.timed;
    "source.feed" => source.feed;
    "source.command" => source.command;
    "source.library" => source.library;
    "source.stream" => source.stream;
    "source.hits" => source.hits;
    "source.decoder" => source.decoder;
    "readout" => readout;
    "windows" => windows;
    "preprocessing" => preprocessing;
    "builder" => builder;
    "incomplete" => incomplete;
    "manager" => manager;
    "building" => building;
    "check" => check;
    "filter" => filter;
    "output" => output;
    "object_store" => object_store;
    "consumers" => consumers;
    "monitor" => monitor;
    "trace" => trace;
    "log" => log;
    "control" => control;
    "transport" => transport;
    "transport.tls" => transport.tls;
    "protocol" => protocol;
    "shaping" => shaping;
    "affinity" => affinity;
}

/// The name of the array of tables that lists the nodes.
pub(crate) const NODE: &str = "node";

/// The name of the table with names of sources by id.
pub(crate) const SOURCE_NAMES: &str = "source.names";

/// The name of the table of tables that has the streams of accepted events by name.
pub(crate) const STREAMS: &str = "streams";

/// The name of the table of tables that has the types of triggers by name.
pub(crate) const TRIGGERS: &str = "triggers";

/// The name of the table of tables that has the clocks of self-triggered cards by name.
pub(crate) const CLOCKS: &str = "clocks";

/// Name of the table of tables with groups of sources, by name.
pub(crate) const GROUPS: &str = "groups";

/// Name of the table of tables with the settings of tags, by name.
pub(crate) const TAGS: &str = "tags";

/// Name of the table of tables that has the programs that feed sources, by name.
pub(crate) const PROGRAMS: &str = "programs";

/// Name of the table of tables with the check values of sources, by name.
pub(crate) const CHECK_FIELDS: &str = "check_fields";

/// Name of the table of tables with the nodes that a run requires, by name.
pub(crate) const REQUIRE: &str = "require";

/// All tables of tables: their name, what one of their tables is called in messages, and how it looks in the file.
pub(crate) const NAMED: &[Named] = &[
    Named { path: STREAMS, one: "stream", header: "streams.NAME" },
    Named { path: TRIGGERS, one: "type of trigger", header: "triggers.NAME" },
    Named { path: CLOCKS, one: "clock", header: "clocks.NAME" },
    Named { path: GROUPS, one: "group of sources", header: "groups.NAME" },
    Named { path: TAGS, one: "tag", header: "tags.NAME" },
    Named { path: PROGRAMS, one: "program", header: "programs.NAME" },
    Named { path: CHECK_FIELDS, one: "check value", header: "check_fields.NAME" },
    Named { path: REQUIRE, one: "requirement", header: "require.NAME" },
];

/// See [`NAMED`].
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub(crate) path: &'static str,
    pub(crate) one: &'static str,
    pub(crate) header: &'static str,
}

impl Named {
    /// The table of tables with this name.
    pub(crate) fn find(path: &str) -> Option<Self> {
        NAMED.iter().copied().find(|named| named.path == path)
    }

    /// One of its tables, with defaults.
    pub(crate) fn table(self) -> Box<dyn Section> {
        match self.path {
            STREAMS => Box::new(Stream::default()),
            CLOCKS => Box::new(CardClock::default()),
            GROUPS => Box::new(SourceGroup::default()),
            TAGS => Box::new(Tag::default()),
            PROGRAMS => Box::new(Program::default()),
            CHECK_FIELDS => Box::new(CheckField::default()),
            REQUIRE => Box::new(Requirement::default()),
            _ => Box::new(TriggerClass::default()),
        }
    }
}

impl Config {
    /// All tables but `[[node]]` and those of [`NAMED`], in the order of the reference page.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &dyn Section> {
        PATHS.iter().filter_map(|path| self.section(path))
    }

    /// The knob with this full key (`readout.count`) and its table.
    pub(crate) fn knob(&self, key: &str) -> Option<(&dyn Section, &'static Knob)> {
        let (path, name) = key.rsplit_once('.')?;
        let section = self.section(path)?;
        Some((section, section.knobs().iter().find(|knob| knob.key == name)?))
    }
}

/// The command-line flag that sets the knob with this full key.
pub(crate) fn flag(key: &str) -> Option<&'static str> {
    Config::default().knob(key)?.1.flag
}
