//! Agents, which start nodes on other hosts.

use super::HOUR;
use crate::codec::{maybe, milliseconds, path};
use crate::knob::section;
use sheaf_wire::Nanos;
use std::path::PathBuf;

section! {
    /// [Agents](../operating/README.md#several-hosts), which start nodes on other hosts: those with `agent` in their `[[node]]` table.
    Agents "agents" {
        /// File with the key that the run and its agents share; needed where a node has an agent. Only its owner may read it. It contains 64
        /// hexadecimal digits: `(umask 077; openssl rand -hex 32 > agents.key)`.
        key_file: Option<PathBuf> = None, "key_file", maybe(path());
        /// Time in which each agent must answer when a run begins.
        answer_timeout: Nanos = Nanos::from_secs(10), "answer_timeout_ms", milliseconds(Nanos::from_millis(100), HOUR);
        /// Time without a connection after which the run and the agent give up the nodes of that agent. Until then they go on.
        patience: Nanos = Nanos::from_secs(60), "patience_ms", milliseconds(Nanos::from_secs(1), HOUR);
    }
}
