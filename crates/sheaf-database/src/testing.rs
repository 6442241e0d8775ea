//! A PostgreSQL server for tests, which is skipped where the programs of PostgreSQL are absent.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "for tests, which may stop where they cannot go on, and say why they are skipped"
)]

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server on a socket in a directory of its own. Dropping it ends the server.
pub struct Server {
    place: tempfile::TempDir,
    programs: PathBuf,
    /// Address, if it is to be reached by one.
    address: Option<SocketAddrV4>,
}

impl Server {
    /// Starts a server without a network. Where there is none, prints why and returns `None`.
    pub fn start() -> Option<Self> {
        let server = Self::create()?;
        server.launch();
        server.run("createdb", &["--host", &server.socket(), "--username=daq", "runs"]);
        Some(server)
    }

    /// Starts a server with an address, and with TLS if it gets a certificate and its key in PEM format. The user `careful` has the
    /// password `secret`, and nobody else has one. Where there is none, prints why and returns `None`.
    pub fn start_with_address(tls: Option<[&str; 2]>) -> Option<Self> {
        let mut server = Self::create()?;
        // Other programs use 127.0.0.1: nobody takes the port of another address between these lines and the start of the server.
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, 77, high, low);
        let port = TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().port();
        server.address = Some(SocketAddrV4::new(host, port));
        let rules = fs::read_to_string(server.file("pg_hba.conf")).unwrap();
        server.write("pg_hba.conf", &format!("host all careful all scram-sha-256\n{rules}"));
        if let Some([certificate, key]) = tls {
            server.write("server.crt", certificate);
            server.write("server.key", key);
            let settings = fs::read_to_string(server.file("postgresql.conf")).unwrap();
            server.write("postgresql.conf", &format!("{settings}\nssl = on\n"));
        }
        server.launch();
        server.run("createdb", &["--host", &server.socket(), "--username=daq", "runs"]);
        let careful = "CREATE ROLE careful SUPERUSER LOGIN PASSWORD 'secret'";
        server.run("psql", &["--host", &server.socket(), "--username=daq", "--command", careful, "runs"]);
        Some(server)
    }

    fn create() -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: there is no PostgreSQL server below /usr/lib/postgresql");
            return None;
        };
        let place = tempfile::tempdir().unwrap();
        let server = Self { place, programs, address: None };
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
        Some(server)
    }

    /// Writes a file of the server, as if it were the server's own.
    fn write(&self, name: &str, text: &str) {
        let file = self.file(name);
        fs::write(&file, text).unwrap();
        // It refuses a key that others may read.
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        if is_root() {
            let owned = Command::new("chown").arg("postgres:").arg(&file).status().unwrap();
            assert!(owned.success(), "{owned}");
        }
    }

    /// Starts the server again after [`stop`](Self::stop).
    pub fn launch(&self) {
        let listen = match self.address {
            Some(address) => format!("-c listen_addresses={} -c port={}", address.ip(), address.port()),
            None => "-c listen_addresses=".to_owned(),
        };
        let options = format!("-k {} {listen} -c fsync=off", self.socket());
        let log = format!("{}/log", self.socket());
        self.run(
            "pg_ctl",
            &["start", "--wait", "--pgdata", &self.data(), "--log", &log, "--options", &options],
        );
    }

    /// Stops the server without waiting for its clients.
    pub fn stop(&self) {
        self.run("pg_ctl", &["stop", "--wait", "--mode=immediate", "--pgdata", &self.data()]);
    }

    /// Returns the URL of the database by the address, as that of a host with this name.
    pub fn url_of_host(&self, user: &str, name: &str) -> String {
        let address = self.address.unwrap();
        format!("postgres://{user}@{name}:{}/runs?hostaddr={}", address.port(), address.ip())
    }

    /// Returns the URL of the database by its socket.
    pub fn url(&self) -> String {
        let port = self.address.map_or_else(String::new, |address| format!(":{}", address.port()));
        format!("postgres://daq@{}{port}/runs", self.socket().replace('/', "%2F"))
    }

    fn socket(&self) -> String {
        self.place.path().to_str().unwrap().to_owned()
    }

    fn data(&self) -> String {
        format!("{}/data", self.socket())
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.data()).join(name)
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
        command.args(arguments).current_dir(self.place.path());
        // The name of the socket has the port.
        let port = self.address.map_or(5432, |address| address.port());
        command.env("PGPORT", port.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
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
