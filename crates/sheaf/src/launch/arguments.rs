//! Arguments of `sheaf launch`.

use clap::{Args, Subcommand};
use sheaf_launch::{KubernetesOptions, SlurmOptions, SystemdOptions};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct LaunchArguments {
    #[command(subcommand)]
    pub(super) command: LaunchCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum LaunchCommand {
    /// Run all nodes on this host, each in a process of its own.
    Local(LocalArguments),
    /// Submit a job of Slurm: one allocation, an agent on each further host, and a run.
    Slurm(SlurmArguments),
    /// Start agents on other hosts by ssh, and a run on this one, the first host.
    Ssh(SshArguments),
    /// Write units of systemd: run control on the first host, an agent on each other host.
    Systemd(SystemdArguments),
    /// Write a chart for Helm: run control, and a set of agents for each role.
    Kubernetes(KubernetesArguments),
}

#[derive(Debug, Args)]
pub(super) struct LocalArguments {
    /// Configuration file.
    pub(super) config: PathBuf,
    /// Print the command, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Path of `sheaf` [default: that of this program].
    #[arg(long, value_name = "PATH")]
    pub(super) program: Option<PathBuf>,
    /// Further flags of `sheaf run`, after `--`.
    #[arg(last = true, value_name = "RUN_FLAGS")]
    pub(super) run_flags: Vec<String>,
}

impl LocalArguments {
    pub(super) fn common(&self) -> CommonArguments {
        CommonArguments {
            config: self.config.clone(),
            program: self.program.clone(),
            run_flags: self.run_flags.clone(),
            ..CommonArguments::default()
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct KubernetesArguments {
    /// Configuration file.
    config: PathBuf,
    /// Image with `sheaf` and a shell.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// PersistentVolumeClaim for data, which all pods can write.
    #[arg(long, value_name = "NAME", default_value = "sheaf-data")]
    claim: String,
    /// Print the files, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Directory for the files of the launch.
    #[arg(long, value_name = "DIR", default_value = "launch")]
    directory: PathBuf,
    /// Port of the agents; nodes have the next one.
    #[arg(long, value_name = "PORT", default_value_t = 7400, value_parser = clap::value_parser!(u16).range(1..65_535))]
    port: u16,
}

impl KubernetesArguments {
    pub(super) fn common(&self) -> CommonArguments {
        CommonArguments {
            config: self.config.clone(),
            directory: self.directory.clone(),
            port: self.port,
            ..CommonArguments::default()
        }
    }

    pub(super) fn options(&self) -> KubernetesOptions {
        KubernetesOptions {
            image: self.image.clone(),
            claim: self.claim.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Arguments of launchers on several hosts.
#[derive(Debug, Default, Args)]
pub(super) struct CommonArguments {
    /// Configuration file.
    pub(super) config: PathBuf,
    /// Print files and commands, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Write the files, and run no command.
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) files_only: bool,
    /// Directory for the files of the launch, on a disk of all hosts.
    #[arg(long, value_name = "DIR", default_value = "launch")]
    pub(super) directory: PathBuf,
    /// Path of `sheaf` on all hosts [default: that of this program].
    #[arg(long, value_name = "PATH")]
    pub(super) program: Option<PathBuf>,
    /// Port of the agents; nodes have the ports that follow.
    #[arg(long, value_name = "PORT", default_value_t = 7400, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// Further flags of `sheaf run`, after `--`.
    #[arg(last = true, value_name = "RUN_FLAGS")]
    pub(super) run_flags: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct SshArguments {
    #[command(flatten)]
    pub(super) common: CommonArguments,
    /// Hosts, this one first, by the names at which the others reach them [default: those of the addresses of the nodes].
    #[arg(long, value_name = "THIS,OTHER,...", value_delimiter = ',')]
    pub(super) hosts: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct SystemdArguments {
    #[command(flatten)]
    pub(super) common: CommonArguments,
    /// Hosts, that of run control first, by the names at which the others reach them [default: those of the addresses of the nodes, or one host].
    #[arg(long, value_name = "FIRST,OTHER,...", value_delimiter = ',')]
    hosts: Vec<String>,
    /// User of the services of the system [default: units for the manager of a user, `systemctl --user`].
    #[arg(long, value_name = "NAME")]
    service_user: Option<String>,
    /// Address of the page of run control.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    page: String,
}

impl SystemdArguments {
    pub(super) fn options(&self) -> SystemdOptions {
        SystemdOptions { hosts: self.hosts.clone(), user: self.service_user.clone(), page: self.page.clone() }
    }
}

#[derive(Debug, Args)]
pub(super) struct SlurmArguments {
    #[command(flatten)]
    pub(super) common: CommonArguments,
    /// Number of hosts [default: as many as the addresses of the nodes name].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    hosts: Option<u16>,
    /// Time limit of the job, as sbatch has it: MINUTES, HH:MM:SS, DAYS-HH [default: that of the partition].
    #[arg(long, value_name = "LIMIT")]
    time: Option<String>,
    /// Time before that limit at which the run is ended in good order.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    ends_before: u32,
    /// A further option of sbatch, such as `--sbatch=--partition=daq`. May be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
}

impl SlurmArguments {
    pub(super) fn options(&self) -> SlurmOptions {
        SlurmOptions {
            hosts: self.hosts.map(usize::from),
            time: self.time.clone(),
            sbatch: self.sbatch.clone(),
            ends_before_s: self.ends_before,
        }
    }
}
