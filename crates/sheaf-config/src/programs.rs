//! Programs that Sheaf starts: which of them feeds a source.

use crate::check::Checker;
use crate::codec::{Codec as _, name};
use crate::error::ErrorKind;
use crate::settings::{Program, SourceKind};
use crate::tables::PROGRAMS;
use crate::text::shorten;
use crate::{Config, NodeConfig};
use sheaf_wire::SourceId;
use std::collections::{BTreeMap, BTreeSet};

/// A process that a readout unit starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramStart<'a> {
    /// Name of the process: the name of the program, with the source where each has a process of its own.
    pub name: String,
    /// The program.
    pub program: &'a Program,
    /// Sources that it feeds.
    pub sources: Vec<SourceId>,
}

impl Config {
    /// Returns the processes that a readout unit starts, in the order of their names.
    #[must_use]
    pub fn programs_of<'a>(&'a self, readout: &NodeConfig) -> Vec<ProgramStart<'a>> {
        if self.source.kind != SourceKind::Command {
            return Vec::new();
        }
        let named: BTreeSet<SourceId> =
            self.programs.values().flat_map(|program| program.sources.iter().copied()).collect();
        let feeds = |program: &Program, source: &SourceId| match program.sources.is_empty() {
            true => !named.contains(source),
            false => program.sources.contains(source),
        };
        let mut starts = Vec::new();
        for (name, program) in &self.programs {
            let sources: Vec<_> =
                readout.sources.iter().filter(|source| feeds(program, source)).copied().collect();
            if program.per_source {
                starts.extend(sources.into_iter().map(|source| ProgramStart {
                    name: format!("{name}.{source}"),
                    program,
                    sources: vec![source],
                }));
            } else if !sources.is_empty() {
                starts.push(ProgramStart { name: name.clone(), program, sources });
            }
        }
        starts
    }
}

impl Checker<'_> {
    /// Programs that can be started, each source fed by at most one.
    pub(crate) fn programs(&mut self) {
        if self.config.source.kind != SourceKind::Command || self.origins.is_broken(PROGRAMS) {
            return;
        }
        let programs = &self.config.programs;
        if programs.is_empty() {
            let found = format!("`source.kind` is \"command\", but there is no table [{PROGRAMS}.NAME]");
            let right = format!("write a table such as [{PROGRAMS}.board] with `command = [\"./board\"]`");
            self.fail(ErrorKind::Missing, &["source.kind"], found, right);
        }
        for (program_name, program) in programs {
            let table = format!("{PROGRAMS}.{program_name}");
            if !name().accepts(program_name) {
                let found = format!("`{}` cannot name a program", shorten(program_name));
                self.fail(ErrorKind::BadValue, &[&table], found, name().expected());
            }
            let key = format!("{table}.command");
            if program.command.first().is_none_or(String::is_empty) {
                let found = format!("[{}] has no `command`", shorten(&table));
                let right =
                    "write the program and its arguments, such as `command = [\"python3\", \"board.py\"]`";
                self.fail(ErrorKind::Missing, &[&key, &table], found, right);
            }
        }
        self.sources_of_programs();
        let command = &self.config.source.command;
        if command.restart_min > command.restart_max {
            let longest = ("source.command.restart_max_ms", command.restart_max);
            let shortest = ("source.command.restart_min_ms", command.restart_min);
            self.in_order(shortest, longest, "the pause doubles up to this limit");
        }
    }

    /// A library needs a path.
    pub(crate) fn library(&mut self) {
        let source = &self.config.source;
        if source.kind == SourceKind::Library && source.library.path.is_none() {
            let found = "`source.kind` is \"library\", but `source.library.path` is not set".to_owned();
            let right = "write the path of the library, such as `path = \"./libmy_board.so\"`";
            self.fail(ErrorKind::Missing, &["source.kind", "source.library.path"], found, right);
        }
    }

    fn sources_of_programs(&mut self) {
        let existing: BTreeSet<SourceId> = self.config.numbered_sources().into_iter().collect();
        let mut feeder: BTreeMap<SourceId, &str> = BTreeMap::new();
        let mut of_all: Option<&str> = None;
        for (name, program) in &self.config.programs {
            let key = format!("{PROGRAMS}.{name}.sources");
            let table = format!("{PROGRAMS}.{name}");
            if program.sources.is_empty()
                && let Some(other) = of_all.replace(name)
            {
                let found = format!("neither [{PROGRAMS}.{other}] nor [{table}] has `sources`");
                let right = "write which sources each program feeds, such as `sources = [0, 1]`; one without a list feeds all others";
                self.fail(ErrorKind::Conflict, &[&key, &table], found, right);
            }
            // One message per list: further ones would repeat it.
            if let Some((source, other)) = program.sources.iter().find_map(|id| Some((id, *feeder.get(id)?)))
            {
                let found = format!("source {source} is fed by [{PROGRAMS}.{other}] and by [{table}]");
                self.fail(ErrorKind::Conflict, &[&key], found, "each source is fed by one program");
            }
            if let Some(stranger) = program.sources.iter().find(|source| !existing.contains(source)) {
                let found = format!("`{key}` names source {stranger}, which does not exist");
                let right = "raise `source.count`, or correct the list";
                self.fail(ErrorKind::Sources, &[&key, "source.count"], found, right);
            }
            feeder.extend(program.sources.iter().map(|source| (*source, name.as_str())));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use sheaf_wire::Role;

    /// The processes of all readout units: unit, name, sources.
    fn starts(programs: &str) -> Vec<(u16, String, Vec<u32>)> {
        let text = format!("[source]\nkind = \"command\"\ncount = 6\n[readout]\ncount = 2\n{programs}");
        let config = Config::parse(&text, "run.toml").expect("a valid configuration");
        let nodes = config.nodes().expect("a system");
        let readouts = nodes.iter().filter(|node| node.id.role == Role::Readout);
        let of_node = readouts.flat_map(|node| {
            let starts = config.programs_of(node).into_iter();
            starts.map(|it| (node.id.index, it.name, it.sources.iter().map(|id| id.0).collect()))
        });
        of_node.collect()
    }

    #[test]
    fn each_readout_unit_starts_the_programs_that_feed_its_sources() {
        let both = "[programs.all]\ncommand = [\"a\"]\n[programs.two]\ncommand = [\"b\"]\nsources = [1, 2]\n";
        let expected = [(0, "all", vec![0]), (0, "two", vec![1, 2]), (1, "all", vec![3, 4, 5])];
        assert_eq!(starts(both), expected.map(|(unit, name, sources)| (unit, name.to_owned(), sources)));
        let each = "[programs.board]\ncommand = [\"a\"]\nsources = [2, 3]\nper_source = true\n";
        let expected = [(0, "board.2", vec![2]), (1, "board.3", vec![3])];
        assert_eq!(starts(each), expected.map(|(unit, name, sources)| (unit, name.to_owned(), sources)));
    }

    #[test]
    fn programs_that_cannot_be_are_refused_with_a_correction() {
        let error = |text: &str| {
            let text = format!("[source]\nkind = \"command\"\ncount = 2\n[readout]\ncount = 1\n{text}");
            Config::parse(&text, "run.toml").expect_err("it is wrong").to_string()
        };
        let without = error("");
        assert!(without.contains("there is no table [programs.NAME]"), "{without}");
        let several = error(
            "[programs.a]\ncommand = [\"a\"]\n[programs.b]\ncommand = [\"b\"]\n[programs.c]\nsources = [0, 7]\n\
             [programs.d]\ncommand = [\"d\"]\nsources = [0]\n[programs.\"x/y\"]\ncommand = [\"\"]\nsources = [1]\n",
        );
        for part in [
            "neither [programs.a] nor [programs.b] has `sources`",
            "[programs.c] has no `command`",
            "`programs.c.sources` names source 7, which does not exist",
            "source 0 is fed by [programs.c] and by [programs.d]",
            "`x/y` cannot name a program",
            "[programs.x/y] has no `command`",
        ] {
            assert!(several.contains(part), "`{part}` is not in:\n{several}");
        }
        let variable = error("[programs.a]\ncommand = [\"a\"]\nenvironment = [\"1=2\"]\n");
        assert!(variable.contains("NAME=value"), "{variable}");
    }

    #[test]
    fn programs_are_written_and_read() {
        let text = "[source]\nkind = \"command\"\ncount = 2\n[source.command]\nrestart = \"never\"\nlog_bytes = 0\n\
                    [readout]\ncount = 1\n[programs.a]\ncommand = [\"sh\", \"-c\", \"x\", \"x\"]\n\
                    environment = [\"A=b c\"]\ndirectory = \"/tmp\"\nper_source = true\n";
        let config = Config::parse(text, "run.toml").expect("a valid configuration");
        assert_eq!(Config::parse(&config.to_toml(), "again.toml"), Ok(config));
    }
}
