//! Strangers at the doors of a run under way: they get nothing, nobody notices but the log, and the run goes on.
//!
//! While a run takes data somebody comes as each role, with another node's certificate, and with what a true node said a moment ago.

use crate::child::{Place, Running, wait_until};
use crate::output::{assert_adds_up, number};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// The nodes of a run: name, role, and what else is said of them.
const NODES: [(&str, &str, &str); 4] = [
    ("evm", "manager", ""),
    ("ru", "readout", "sources = [1]"),
    ("bu", "builder", ""),
    ("out", "output", ""),
];

/// No more is recorded of a node: its greetings, and its first messages.
const RECORDED: usize = 4_096;

/// Ports of the nodes in their order, of the door for processors, and of that for consumers.
type Ports = [u16; 6];

/// Ports that were free a moment ago, for either protocol.
fn ports() -> Ports {
    let listeners = [(); 6].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn key(place: &Place, name: &str, digit: char) -> String {
    let path = place.file(name, &digit.to_string().repeat(64));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// Address of the host that a node is on: each has one of its own, which its certificate names.
fn host(at: usize) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::new(127, 0, 0, at as u8 + 2)
}

/// A configuration in which `[transport]` has these lines.
fn system(place: &Place, name: &str, transport: &str, ports: &Ports) -> String {
    let [.., farm, consumers] = ports;
    let mut text = format!(
        "[run]\nnumber = 7\nduration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 500\n\
         [manager]\nstart_timeout_ms = 60000\n[filter]\nworkers = 1\nlisten = \"127.0.0.1:{farm}\"\n\
         [consumers]\nlisten = \"127.0.0.1:{consumers}\"\n[transport]\n{transport}\n"
    );
    for (at, ((node, role, more), port)) in NODES.iter().zip(ports).enumerate() {
        text += &format!("[[node]]\nname = \"{node}\"\nrole = \"{role}\"\n{more}\n");
        text += &format!("address = \"{}:{port}\"\n", host(at));
    }
    place.file(name, &text).display().to_string()
}

/// A run that takes data.
struct Run {
    place: Place,
    ports: Ports,
    transport: &'static str,
    /// By place in [`NODES`].
    nodes: Vec<Running>,
}

impl Run {
    /// Starts it, with these lines in `[transport]` of each node's configuration; `evm` is where the builder finds the event manager.
    fn start(
        transport: &'static str,
        lines: impl Fn(&Place, &str) -> String,
        evm: Option<u16>,
        ports: Ports,
    ) -> Self {
        let place = Place::new();
        let start = |(node, ..): (&str, &str, &str)| {
            let mut seen = ports;
            seen[0] = evm.filter(|_| node == "bu").unwrap_or(seen[0]);
            let config = system(&place, &format!("{node}.toml"), &lines(&place, node), &seen);
            place.start(&format!("node {config} {node} --json"))
        };
        let nodes = NODES.map(start).into();
        let run = Self { place, ports, transport, nodes };
        run.wait_for_events();
        run
    }

    fn written(&self) -> u64 {
        let files = std::fs::read_dir(self.place.join("runs/run000007")).into_iter().flatten().flatten();
        let files = files.filter(|file| file.path().extension().is_some_and(|it| it == "sheaf"));
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Waits until the run has stored more than it has now.
    fn wait_for_events(&self) {
        let before = self.written();
        wait_until("more events are stored", || self.written() > before + 10_000);
    }

    /// Comes as each role with these lines in `[transport]`; gives what each said. The event manager refuses the others for this
    /// reason, where they find it.
    fn come(
        &mut self,
        why: Option<&str>,
        lines: impl Fn(&Place, &str) -> String,
    ) -> Vec<(&'static str, String)> {
        let elsewhere = Place::new();
        let come = |(at, (node, ..)): (usize, (&'static str, _, _))| {
            let mut seen = self.ports;
            // Its own places are taken: it comes from others.
            let [own, .., farm, consumers] = ports();
            (seen[at], seen[4], seen[5]) = (own, farm, consumers);
            let name = format!("stranger-{node}.toml");
            let config = system(&self.place, &name, &lines(&self.place, node), &seen);
            let text = std::fs::read_to_string(&config).unwrap();
            let text = text.replace("start_timeout_ms = 60000", "start_timeout_ms = 1500");
            std::fs::write(&config, text).unwrap();
            (node, elsewhere.start(&format!("node {config} {node}")))
        };
        let strangers: Vec<_> = NODES.into_iter().enumerate().map(come).collect();
        self.wait_for_events();
        why.into_iter().for_each(|why| self.nodes[0].wait_until_said(why));
        let is_told = self.transport == "tcp";
        let end = |(node, mut stranger): (&'static str, Running)| {
            // Whoever is not the event manager looks for it until its patience is over.
            if node == "evm" {
                let ended = stranger.end();
                assert!(!ended.status.success(), "{node}: {}", ended.stderr);
                return (node, ended.stderr);
            }
            if is_told {
                stranger.wait_until_said("no link with");
            }
            let said = stranger.said();
            stranger.signal("KILL");
            drop(stranger.end());
            (node, said)
        };
        let said = strangers.into_iter().map(end).collect();
        self.wait_for_events();
        said
    }

    /// Ends the run, which has lost nothing and nobody.
    fn end(self) {
        self.wait_for_events();
        self.nodes[0].signal("INT");
        let mut summary = None;
        for node in self.nodes {
            let ended = node.end().exits(0);
            summary = summary.or_else(|| Some(ended.json()));
        }
        let summary = summary.unwrap();
        assert_adds_up(&summary);
        assert!(number(&summary, "ledger.stored") > 0);
        assert_eq!(number(&summary, "ledger.stored"), number(&summary, "ledger.triggers"), "{summary:#}");
        assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 0, "{summary:#}");
    }
}

fn with_key(transport: &'static str, rails: u16) -> impl Fn(&Place, &str) -> String {
    move |place, _| {
        let key = key(place, "run.key", 'a');
        format!("kind = \"{transport}\"\nrails = {rails}\nkey_file = \"{key}\"\n")
    }
}

/// Carries what two say to each other, and keeps the first of what the first says.
#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Vec<Vec<u8>>>>);

impl Recording {
    fn add(&self, said: &[u8]) {
        let mut all = self.0.lock().unwrap();
        if all.iter().map(Vec::len).sum::<usize>() < RECORDED {
            all.push(said.to_vec());
        }
    }

    fn taken(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }
}

/// Carries connections to a port; gives its own. The threads end with the test's process.
fn carry_tcp(to: u16, recording: Recording) -> u16 {
    let listener = TcpListener::bind((host(0), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut caller in listener.incoming().flatten() {
            let Ok(mut called) = TcpStream::connect((host(0), to)) else { continue };
            let (mut from, mut back) = (called.try_clone().unwrap(), caller.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            let recording = recording.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4_096];
                while let Ok(bytes @ 1..) = caller.read(&mut buffer) {
                    recording.add(&buffer[..bytes]);
                    if called.write_all(&buffer[..bytes]).is_err() {
                        break;
                    }
                }
                let _ = called.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

#[test]
fn what_a_builder_unit_said_a_moment_ago_is_worth_nothing_from_somebody_else() {
    let (ports, recording) = (ports(), Recording::default());
    let evm = carry_tcp(ports[0], recording.clone());
    let mut run = Run::start("tcp", with_key("tcp", 1), Some(evm), ports);
    let recorded = recording.taken();
    assert!(!recorded.is_empty());
    for _ in 0..3 {
        replay_tcp(run.ports[0], &recorded.concat());
        run.wait_for_events();
    }
    run.nodes[0].wait_until_said("no link with bu0");
    run.end();
}

/// Says all to a port: what comes back is an answer to a greeting, and the end.
fn replay_tcp(port: u16, said: &[u8]) {
    let mut stream = TcpStream::connect((host(0), port)).unwrap();
    let _ = stream.write_all(said);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    assert!(heard.len() <= 200, "{} bytes came back", heard.len());
}

/// A certificate of the authority for each node, with its name and its host. False where there is no `openssl`.
fn make_certificates(place: &Place) -> bool {
    let run = |command: String| {
        let done = Command::new("sh").args(["-c", &command]).current_dir(place.path()).output().unwrap();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    };
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: there is no openssl to make certificates with");
        return false;
    }
    let new = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    run(format!("{new} -x509 -days 2 -subj /CN=authority -keyout authority.key -out authority.pem"));
    for (at, (node, ..)) in NODES.into_iter().enumerate() {
        let host = host(at);
        run(format!(
            "{new} -subj /CN={node} -addext subjectAltName=DNS:{node},IP:{host} -keyout {node}.key -out {node}.csr && openssl x509 -req -in \
             {node}.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -copy_extensions copy -out {node}.pem"
        ));
    }
    true
}

#[test]
fn who_has_another_nodes_certificate_gets_nothing() {
    let authority = Place::new();
    if !make_certificates(&authority) {
        return;
    }
    let lines = |rails: u16, of: &str| {
        let path = |name: String| authority.join(&name).display().to_string();
        format!(
            "kind = \"tcp\"\nrails = {rails}\n[transport.tls]\ncertificate = \"{}\"\nkey = \"{}\"\nauthority = \"{}\"\n",
            path(format!("{of}.pem")),
            path(format!("{of}.key")),
            path("authority.pem".into())
        )
    };
    for rails in [1, 2] {
        let mut run = Run::start("tcp", |_, node| lines(rails, node), None, ports());
        // Each comes with the certificate of the next.
        let next =
            |node: &str| NODES.iter().position(|(name, ..)| *name == node).map(|at| NODES[(at + 1) % 4].0);
        let why = "the caller's certificate is not of the node that it says it is";
        for (node, said) in run.come(Some(why), |_, node| lines(rails, next(node).unwrap())) {
            assert!(node == "evm" || said.contains("certificate"), "{node}: {said}");
        }
        run.end();
    }
}
