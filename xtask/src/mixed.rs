//! Runs of mixed releases: the previous release against the present one, one role at a time.
//!
//! | module | holds |
//! |---|---|
//! | this | the verb, and its table |
//! | `previous` | the program of the previous release: found, built and kept |
//! | `system` | one run whose nodes are started one by one, and its outcome |

mod previous;
mod system;

use crate::build::{self, Profile};
use crate::workspace;
use anyhow::{Context as _, Result, bail, ensure};
use previous::Previous;
use std::path::PathBuf;
use system::{NODES, Outcome, System};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct MixedArguments {
    /// The previous release: a revision, which is built, or the path of its program. Default: the newest tag `v*` before this commit.
    #[arg(long, value_name = "REV|PATH")]
    previous: Option<String>,
    /// Program of the present release, instead of the release build of this workspace.
    #[arg(long, value_name = "PATH")]
    sheaf: Option<PathBuf>,
}

/// Transports over which the releases meet.
const TRANSPORTS: [&str; 3] = ["tcp", "shm", "udp"];

/// Returns whether a node runs the previous release.
type IsPrevious = fn(&str) -> bool;

/// Nodes that run the previous release.
const CASES: [(&str, IsPrevious); 7] = [
    ("none", |_| false),
    ("event manager", |node| node == "evm"),
    ("a readout unit", |node| node == "ru1"),
    ("a builder unit", |node| node == "bu1"),
    ("all but the event manager", |node| node != "evm"),
    ("all but a readout unit", |node| node != "ru1"),
    ("all but a builder unit", |node| node != "bu1"),
];

/// `cargo xtask mixed`.
pub(crate) fn command(arguments: &MixedArguments) -> Result<()> {
    let Some(previous) = Previous::find(arguments.previous.as_deref())? else {
        bail!("there is no tag `v*` before this commit; name the previous release: --previous REV|PATH");
    };
    run(&previous, arguments.sheaf.as_ref())
}

/// The same for a night: left out as long as there is no previous release.
pub(crate) fn for_a_night() -> Result<()> {
    match Previous::find(None)? {
        Some(previous) => run(&previous, None),
        None => {
            println!("left out: there is no tag `v*` before this commit");
            Ok(())
        }
    }
}

fn run(previous: &Previous, present: Option<&PathBuf>) -> Result<()> {
    let present = match present {
        Some(program) => std::path::absolute(program).context("the path of the program")?,
        None => build::sheaf(Profile::Release)?,
    };
    let (previous, name) = (previous.program()?, previous.name());
    println!("previous release: {name}; each run has the nodes {}", NODES.map(|(node, _)| node).join(", "));
    println!("{:<28} {:<10} outcome", format!("{name} runs"), "transport");
    let directory = workspace::target_directory()?.join("mixed").join("runs");
    let mut failures = Vec::new();
    let mut number = 0;
    for (what, is_previous) in CASES {
        for transport in TRANSPORTS {
            number += 1;
            let system = System { directory: &directory, transport, number };
            let outcome = system.run(|node| if is_previous(node) { &previous } else { &present })?;
            println!("{what:<28} {transport:<10} {outcome}");
            if let Outcome::Failed { .. } = outcome {
                failures.push(format!("{what} over {transport}"));
            }
        }
    }
    ensure!(
        failures.is_empty(),
        "neither balanced nor refused in words: {}; the output of all nodes is in {}",
        failures.join(", "),
        directory.display()
    );
    Ok(())
}
