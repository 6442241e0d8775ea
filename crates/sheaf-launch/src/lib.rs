//! Plans of launches: the files and commands that start one configuration on many hosts.
//!
//! A plan is data. This crate opens no file, starts no process and draws no random number; the command prints a plan or carries it out. All
//! launchers start the same system: an agent on each host, and one run that has the agents start its nodes.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | plans, and their text for people |
//! | `launch` | a configuration with everything that launchers have in common |
//! | `placement` | hosts of nodes, and the addresses of nodes there |
//! | `words` | words of shells |
//! | `slurm` | a script for one allocation |
//! | `error` | launches that cannot be planned |
//! | `local` | all nodes on this host |
//! | `ssh` | scripts that start and end agents on other hosts |
//! | `systemd` | units for each host |
//! | `kubernetes` | a chart for Helm |

#![forbid(unsafe_code)]

mod error;
mod kubernetes;
mod launch;
mod local;
mod placement;
mod plan;
mod slurm;
mod ssh;
mod systemd;
#[cfg(test)]
mod tests;
mod words;

pub use error::LaunchError;
pub use kubernetes::KubernetesOptions;
pub use launch::Launch;
pub use plan::{FileContents, LaunchPlan, PlannedCommand, PlannedFile};
pub use slurm::SlurmOptions;
pub use systemd::SystemdOptions;
