//! Programs and libraries of the user.

use super::{HOUR, KIB, TIB};
use crate::choice::choice;
use crate::codec::{
    bytes, command_line, maybe, milliseconds, parameters, path, pick, seconds, source_list, switch, symbol,
    variable_list, whole, zero_is_none,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::path::PathBuf;

choice! {
    /// Policy for programs that have died.
    Restart {
        /// never started again
        Never = "never",
        /// started again after an exit status other than 0, or a signal
        OnFailure = "on-failure",
    }
}

section! {
    /// Start, restarts and end of programs that feed sources, with `source.kind = "command"`. The programs are in
    /// `[programs.NAME]`; they connect as those of `[source.feed]` do.
    SourceCommand "source.command" {
        /// Policy for a program that has died. A program that has ended all its sources is never started again.
        restart: Restart = Restart::OnFailure, "restart", pick();
        /// Pause before a program is started again. It doubles with each death in a row.
        restart_min: Nanos = Nanos::from_millis(100), "restart_min_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// Maximum of this pause.
        restart_max: Nanos = Nanos::from_secs(5), "restart_max_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// Number of deaths in a row after which a program is given up. 0: no limit.
        max_deaths: Option<u32> = Some(10), "max_deaths", zero_is_none(whole(1, 1 << 24));
        /// Time after which a program works: its next death is the first of a new row.
        works_after: Nanos = Nanos::from_secs(10), "works_after_s", seconds(Nanos::from_millis(1), HOUR);
        /// Time that a program has to end by itself after the end of the run, and again after SIGTERM. Then it is killed.
        stop_timeout: Nanos = Nanos::from_secs(5), "stop_timeout_ms", milliseconds(Nanos::ZERO, HOUR);
        /// Maximum size of the file with the output of a program. Further lines are dropped and counted. 0: no file.
        log: Option<ByteCount> = Some(ByteCount(64 << 20)), "log_bytes", zero_is_none(bytes(4 * KIB, TIB));
        /// Maximum number of lines of a program in the log of the run per second. The others are only in the file. 0: none.
        log_lines: u32 = 20, "log_lines_per_s", whole(0, 1_000_000);
    }
}

section! {
    /// A program that Sheaf starts, with `source.kind = "command"`. Each readout unit starts it for those of its sources that it
    /// reads. It finds address, sources and name in its environment, so that `sheaf.Source()` needs no arguments. The name of
    /// the table is its name in the log.
    Program "programs.NAME" {
        /// The program and its arguments: `["python3", "board.py"]`. Required. A program without `/` is looked up in `PATH`.
        command: Vec<String> = Vec::new(), "command", command_line();
        /// Sources that it feeds. Empty: all sources that no other program feeds.
        sources: Vec<SourceId> = Vec::new(), "sources", source_list();
        /// Whether each of its sources has a process of its own.
        per_source: bool = false, "per_source", switch();
        /// Variables of its environment, `NAME=value`, in addition to those of the process that starts it.
        environment: Vec<String> = Vec::new(), "environment", variable_list();
        /// Its working directory. Default: the one of the process that starts it.
        directory: Option<PathBuf> = None, "directory", maybe(path());
    }
}

section! {
    /// A shared library that is polled for fragments, with `source.kind = "library"`. Each readout unit opens it once, for all its
    /// sources.
    SourceLibrary "source.library" {
        /// The shared library, required for the kind `library`.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// Function of the library that returns the table of its functions.
        symbol: String = "sheaf_source".into(), "symbol", symbol();
        /// Text that is passed to the library, such as the address of a crate. Sheaf does not interpret it.
        parameters: String = String::new(), "parameters", parameters();
        /// Whether the library is in a process of its own, which feeds the readout unit. A crash or a hang then affects only its
        /// sources; restarts and ends are those of `[source.command]`. Otherwise it is part of the readout unit's process: a crash
        /// ends the unit.
        isolated: bool = false, "isolated", switch();
        /// Maximum number of fragments of a poll.
        batch_fragments: u32 = 256, "batch_fragments", whole(1, 65_536);
    }
}
