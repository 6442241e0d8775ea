//! Which tables there are, and the way from a table's name to its struct.

use crate::Config;
use crate::knob::{Knob, Section};
use crate::settings::{
    CardClock, CheckField, Hook, Partition, Program, Requirement, SlowValue, SourceGroup, Stream, Tag,
    TriggerClass,
};

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
    "database" => database;
    "consumers" => consumers;
    "monitor" => monitor;
    "monitor.remote" => monitor.remote;
    "trace" => trace;
    "log" => log;
    "control" => control;
    "agents" => agents;
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

/// Lists the tables of tables once: the name in the file, what one of their tables is called in messages, and the field.
macro_rules! named_tables {
    ($($constant:ident = $path:literal, $one:literal => $field:ident: $kind:ty;)*) => {
        $(pub(crate) const $constant: &str = $path;)*

        /// All tables of tables, in the order of the reference page.
        pub(crate) const NAMED: &[Named] =
            &[$(Named { path: $path, one: $one, header: concat!($path, ".NAME") }),*];

        impl Named {
            /// One of its tables, with defaults.
            pub(crate) fn table(self) -> Box<dyn Section> {
                match self.path {
                    $($path => Box::new(<$kind>::default()),)*
                    other => unreachable!("`{other}` is not in the list"),
                }
            }
        }

        impl Config {
            /// The tables of all tables of tables, with both names.
            pub(crate) fn named_tables(&self) -> impl Iterator<Item = (&'static str, &str, &dyn Section)> {
                std::iter::empty()
                    $(.chain(self.$field.iter().map(|(name, table)| ($path, &**name, table as &dyn Section))))*
            }

            /// The table with this name in the table of tables `kind`.
            pub(crate) fn named_table(&self, kind: &str, name: &str) -> Option<&dyn Section> {
                match kind {
                    $($path => self.$field.get(name).map(|table| table as &dyn Section),)*
                    _ => None,
                }
            }

            /// The table with this name in the table of tables `kind`, to be changed.
            pub(crate) fn named_table_mut(&mut self, kind: &str, name: &str) -> Option<&mut dyn Section> {
                match kind {
                    $($path => self.$field.get_mut(name).map(|table| table as &mut dyn Section),)*
                    _ => None,
                }
            }

            /// Adds a table with defaults to the table of tables `kind`.
            pub(crate) fn add_named_table(&mut self, kind: &str, name: &str) {
                match kind {
                    $($path => _ = self.$field.insert(name.to_owned(), <$kind>::default()),)*
                    other => unreachable!("`{other}` is not in the list"),
                }
            }
        }
    };
}

named_tables! {
    STREAMS = "streams", "stream" => streams: Stream;
    TRIGGERS = "triggers", "type of trigger" => triggers: TriggerClass;
    CLOCKS = "clocks", "clock" => clocks: CardClock;
    GROUPS = "groups", "group of sources" => groups: SourceGroup;
    TAGS = "tags", "tag" => tags: Tag;
    PROGRAMS = "programs", "program" => programs: Program;
    CHECK_FIELDS = "check_fields", "check value" => check_fields: CheckField;
    REQUIRE = "require", "requirement" => require: Requirement;
    HOOKS = "hook", "hook" => hooks: Hook;
    VALUES = "value", "value" => values: SlowValue;
    PARTITIONS = "partition", "partition" => partitions: Partition;
}

/// A table of tables: its name, what one of its tables is called in messages, and how that looks in the file.
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
