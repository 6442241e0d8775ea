//! `sheaf launch`: writes the files and runs the commands that start a configuration on one host or many.
//!
//! | module | holds |
//! |---|---|
//! | this | the command, and how a plan is carried out |
//! | `arguments` | the arguments |

mod arguments;

pub(crate) use arguments::LaunchArguments;

use crate::Verdict;
use crate::print::print;
use anyhow::{Context as _, bail};
use arguments::{CommonArguments, LaunchCommand, LocalArguments};
use sheaf_config::Config;
use sheaf_key::RunKey;
use sheaf_launch::{FileContents, Launch, LaunchPlan, PlannedCommand, PlannedFile};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Plans a launch, and prints the plan or carries it out.
pub(crate) fn command(arguments: &LaunchArguments) -> anyhow::Result<Verdict> {
    let (is_dry, has_commands, plan) = match &arguments.command {
        LaunchCommand::Local(local) => (local.dry_run, true, local_launch(local)?.local()),
        LaunchCommand::Ssh(ssh) => planned(&ssh.common, launch(&ssh.common)?.ssh(&ssh.hosts)?),
        LaunchCommand::Systemd(systemd) => {
            planned(&systemd.common, launch(&systemd.common)?.systemd(&systemd.options())?)
        }
        LaunchCommand::Kubernetes(kubernetes) => {
            (kubernetes.dry_run, false, launch(&kubernetes.common())?.kubernetes(&kubernetes.options())?)
        }
        LaunchCommand::Slurm(slurm) => {
            planned(&slurm.common, launch(&slurm.common)?.slurm(&slurm.options())?)
        }
    };
    if is_dry {
        print(&plan.to_string())?;
        return Ok(Verdict::Good);
    }
    write(&plan)?;
    for note in &plan.notes {
        print(&format!("note     {note}\n"))?;
    }
    let Some((last, first)) = plan.commands.split_last().filter(|_| has_commands) else {
        return Ok(Verdict::Good);
    };
    for command in first {
        announce(command)?;
        let status = process(command)?.status().with_context(|| cannot_start(command))?;
        if !status.success() {
            bail!("`{}` has ended with {status}", command.line());
        }
    }
    announce(last)?;
    // It takes the place of this process, and with that its signals and its exit status.
    let error = process(last)?.exec();
    Err(error).with_context(|| cannot_start(last))
}

fn planned(common: &CommonArguments, plan: LaunchPlan) -> (bool, bool, LaunchPlan) {
    (common.dry_run, !common.files_only, plan)
}

/// Returns what is to be launched on this host.
fn local_launch(arguments: &LocalArguments) -> anyhow::Result<Launch> {
    launch(&arguments.common())
}

/// Returns what is to be launched.
fn launch(arguments: &CommonArguments) -> anyhow::Result<Launch> {
    let config = Config::load(&arguments.config)?;
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => {
            std::env::current_exe().context("cannot determine the path of this program; use --program")?
        }
    };
    let place = std::env::current_dir().context("cannot determine the working directory")?;
    Ok(Launch {
        config,
        file: text(&place.join(&arguments.config))?,
        program: text(&place.join(program))?,
        directory: text(&place.join(&arguments.directory))?,
        place: text(&place)?,
        port: arguments.port,
        run_flags: arguments.run_flags.clone(),
    })
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("the path {} is not text in UTF-8: use another one", path.display()))
}

/// Writes the files of a plan.
fn write(plan: &LaunchPlan) -> anyhow::Result<()> {
    for file in &plan.files {
        let path = Path::new(&file.path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let said = match &file.contents {
            FileContents::NewKey if path.exists() => "keeps",
            FileContents::NewKey => {
                RunKey::make_file(path)?;
                "writes"
            }
            FileContents::Text(text) => {
                replace(file, text).with_context(|| format!("cannot write {}", file.path))?;
                "writes"
            }
        };
        print(&format!("{said:<8} {}\n", file.path))?;
    }
    Ok(())
}

/// Writes a text beside the file and puts it in the place of that: nobody reads half of it.
fn replace(file: &PlannedFile, text: &str) -> std::io::Result<()> {
    let draft = PathBuf::from(format!("{}.new", file.path));
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(file.mode).open(&draft)?.write_all(text.as_bytes())?;
    fs::rename(draft, &file.path)
}

fn announce(command: &PlannedCommand) -> anyhow::Result<()> {
    print(&format!("runs     {}\n", command.line()))
}

fn process(command: &PlannedCommand) -> anyhow::Result<Command> {
    let (program, arguments) = command.words.split_first().context("a planned command has no words")?;
    let mut process = Command::new(program);
    process.args(arguments);
    Ok(process)
}

fn cannot_start(command: &PlannedCommand) -> String {
    let program = command.words.first().map_or("", String::as_str);
    format!(
        "cannot start {program}, to {}; the files are written, so run it elsewhere: {}",
        command.purpose,
        command.line()
    )
}
