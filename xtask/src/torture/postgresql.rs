//! A PostgreSQL server of a case, on a socket in a directory of its own. A machine without one is a reason to skip the case.

use super::process::signal;
use crate::shell;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A server. Dropping it ends it and removes its data.
#[derive(Debug)]
pub(super) struct Postgresql {
    programs: PathBuf,
    place: PathBuf,
}

impl Postgresql {
    /// Makes a server with an empty database `runs` and starts it.
    pub(super) fn start(name: &str) -> Result<Self> {
        let programs = programs()?;
        // The user of the server has to reach it.
        let place = std::env::temp_dir().join(name);
        std::fs::create_dir(&place).with_context(|| place.display().to_string())?;
        let server = Self { programs, place };
        if shell::is_root() {
            // The server refuses to run as root.
            let owned = Command::new("chown").arg("postgres:").arg(&server.place).output()?;
            ensure!(owned.status.success(), "there is no user `postgres`");
        }
        let data = server.data();
        server.run("initdb", &["--pgdata", &data, "--auth=trust", "--username=daq", "--no-sync"])?;
        server.launch()?;
        server.run("createdb", &["--host", &server.socket(), "--username=daq", "runs"])?;
        Ok(server)
    }

    /// Starts it again.
    pub(super) fn launch(&self) -> Result<()> {
        let options = format!("-k {} -c listen_addresses= -c fsync=off", self.socket());
        let (data, log) = (self.data(), format!("{}/log", self.socket()));
        let arguments = ["start", "--wait", "--pgdata", &data, "--log", &log, "--options", &options];
        // The processes of a server that was killed keep its memory for a moment.
        let attempts = (0..100).find(|_| {
            let is_started = self.run("pg_ctl", &arguments).is_ok();
            if !is_started {
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            is_started
        });
        attempts.map(|_| ()).with_context(|| format!("the server does not start: see {log}"))
    }

    /// Kills its first process; the others end when they notice.
    pub(super) fn kill(&self) -> Result<()> {
        let file = format!("{}/postmaster.pid", self.data());
        let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;
        let process = text.lines().next().and_then(|line| line.parse().ok());
        signal(process.with_context(|| format!("{file} has no process"))?, "KILL")
    }

    /// Returns the URL of its database.
    pub(super) fn url(&self) -> String {
        format!("postgres://daq@{}/runs", self.socket().replace('/', "%2F"))
    }

    fn socket(&self) -> String {
        self.place.display().to_string()
    }

    fn data(&self) -> String {
        self.place.join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let program = self.programs.join(program);
        let mut command = if shell::is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        command.args(arguments).current_dir(&self.place).env("PGPORT", "5432");
        // A server that stays has the files that its parent had.
        let said = std::fs::File::create(self.place.join("said"))?;
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).status();
        let status = status.with_context(|| format!("cannot start {}", program.display()))?;
        if !status.success() {
            let said = std::fs::read_to_string(self.place.join("said")).unwrap_or_default();
            bail!("{} ended with {status}: {}", program.display(), said.trim());
        }
        Ok(())
    }
}

impl Drop for Postgresql {
    fn drop(&mut self) {
        let _ = self.run("pg_ctl", &["stop", "--wait", "--mode=immediate", "--pgdata", &self.data()]);
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    let newest = programs.filter(|programs| programs.join("initdb").exists()).max();
    newest.context("there is no PostgreSQL server below /usr/lib/postgresql")
}
