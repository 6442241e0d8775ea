//! A PostgreSQL server of the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server on a socket in a directory of its own. Dropping it ends the server.
pub(crate) struct Server {
    place: tempfile::TempDir,
    programs: PathBuf,
}

impl Server {
    /// Starts a server. Where there is none, prints why and returns `None`.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: there is no PostgreSQL server below /usr/lib/postgresql");
            return None;
        };
        let place = tempfile::tempdir().unwrap();
        let server = Self { place, programs };
        let data = server.data();
        if is_root() {
            // The server refuses to run as root: the directory belongs to the user that its package makes.
            let owned = Command::new("chown").arg("postgres:").arg(server.place.path()).status();
            if !owned.is_ok_and(|status| status.success()) {
                println!("skipped: there is no user `postgres`, and PostgreSQL refuses to run as root");
                return None;
            }
        }
        server.run("initdb", &["--pgdata", &data, "--auth=trust", "--username=daq", "--no-sync"]);
        server.launch();
        server.run("createdb", &["--host", &server.socket(), "--username=daq", "runs"]);
        Some(server)
    }

    /// Starts the server again after [`stop`](Self::stop).
    pub(crate) fn launch(&self) {
        let options = format!("-k {} -c listen_addresses= -c fsync=off", self.socket());
        let log = format!("{}/log", self.socket());
        self.run(
            "pg_ctl",
            &["start", "--wait", "--pgdata", &self.data(), "--log", &log, "--options", &options],
        );
    }

    /// Stops the server without waiting for its clients.
    pub(crate) fn stop(&self) {
        self.run("pg_ctl", &["stop", "--wait", "--mode=immediate", "--pgdata", &self.data()]);
    }

    /// Returns the URL of the database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://daq@{}/runs", self.socket().replace('/', "%2F"))
    }

    fn socket(&self) -> String {
        self.place.path().to_str().unwrap().to_owned()
    }

    fn data(&self) -> String {
        format!("{}/data", self.socket())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).current_dir(self.place.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        // Standard error of a server that stays would keep the pipe of the test open.
        let log = std::fs::File::create(self.place.path().join("said"));
        let status = self.command(program, arguments).stderr(log.unwrap()).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}: {status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self
            .command("pg_ctl", &["stop", "--wait", "--mode=immediate", "--pgdata", &self.data()])
            .stderr(Stdio::null())
            .status();
    }
}

fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    programs.filter(|programs| programs.join("initdb").exists()).max()
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    Path::new("/proc/self").metadata().is_ok_and(|process| process.uid() == 0)
}
