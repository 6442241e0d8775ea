//! Strangers that connect to every port and socket of a run. They send garbage, single bytes or nothing, or never read.

use super::dice::Dice;
use super::process;
use std::collections::BTreeSet;
use std::io::{Read as _, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A listening port or socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Door {
    Port(u16),
    File(PathBuf),
    Abstract(String),
}

/// State of a listening socket in the kernel's tables: TCP, and Unix sockets.
const TCP_LISTENS: &str = "0A";
const UNIX_LISTENS: &str = "00010000";

/// Returns every port and socket on which processes with this mark accept stream connections.
pub(super) fn doors(mark: &str) -> BTreeSet<Door> {
    let inodes: BTreeSet<String> =
        process::marked(mark).iter().flat_map(|process| socket_inodes(process.id)).collect();
    let table = |path: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().skip(1).map(line).collect()
    };
    let tcp = table("/proc/net/tcp").into_iter().filter_map(|line| {
        let listens = line.get(3)? == TCP_LISTENS && inodes.contains(line.get(9)?);
        let port = line.get(1)?.split_once(':')?.1;
        listens.then(|| Some(Door::Port(u16::from_str_radix(port, 16).ok()?)))?
    });
    let unix = table("/proc/net/unix").into_iter().filter_map(|line| {
        let listens = line.get(3)? == UNIX_LISTENS && inodes.contains(line.get(6)?);
        let name = line.get(7)?;
        let door = match name.strip_prefix('@') {
            Some(name) => Door::Abstract(name.to_owned()),
            None => Door::File(PathBuf::from(name)),
        };
        listens.then_some(door)
    });
    tcp.chain(unix).collect()
}

fn socket_inodes(process: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let inode = |path: PathBuf| {
        let target = std::fs::read_link(path).ok()?.to_string_lossy().into_owned();
        Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    files.filter_map(|file| inode(file.path())).collect()
}

/// Strangers that connect repeatedly until this is dropped.
#[derive(Debug)]
pub(super) struct Strangers {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Strangers {
    /// Starts two strangers for each door.
    pub(super) fn call(doors: &BTreeSet<Door>, dice: &mut Dice) -> Self {
        let mut strangers =
            Self { stop: Arc::default(), calls: Arc::default(), threads: Vec::with_capacity(doors.len()) };
        for door in doors.iter().flat_map(|door| [door, door]) {
            let (door, stop, calls) = (door.clone(), strangers.stop.clone(), strangers.calls.clone());
            let mut dice = Dice::new(dice.below(u64::MAX), "stranger");
            strangers.threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    calls.fetch_add(1, Ordering::Relaxed);
                    // A refused stranger tries again; that is the purpose.
                    let _ = visit(&door, &mut dice, &stop);
                    std::thread::sleep(PAUSE);
                }
            }));
        }
        strangers
    }

    /// Returns the number of connection attempts so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A connection to any kind of door.
trait Stream: std::io::Read + Write {}
impl<T: std::io::Read + Write> Stream for T {}

const PAUSE: Duration = Duration::from_millis(20);

fn visit(door: &Door, dice: &mut Dice, stop: &AtomicBool) -> std::io::Result<()> {
    let patience = Some(Duration::from_millis(200));
    let mut stream: Box<dyn Stream> = match door {
        Door::Port(port) => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
            stream.set_write_timeout(patience)?;
            stream.set_read_timeout(patience)?;
            Box::new(stream)
        }
        Door::File(path) => Box::new(with_patience(UnixStream::connect(path)?, patience)?),
        Door::Abstract(name) => {
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            Box::new(with_patience(UnixStream::connect_addr(&address)?, patience)?)
        }
    };
    match dice.below(4) {
        // Sends as much garbage as is accepted.
        0 => {
            let bytes = dice.below(100_000);
            stream.write_all(&dice.bytes(bytes))
        }
        // Sends a byte at a time.
        1 => (0..dice.below(100)).try_for_each(|_| {
            std::thread::sleep(PAUSE);
            stream.write_all(&dice.bytes(1))
        }),
        // Sends nothing for a while.
        2 => {
            for _ in 0..dice.below(250) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            Ok(())
        }
        // Sends some bytes and discards the answer.
        _ => {
            let bytes = dice.below(64);
            stream.write_all(&dice.bytes(bytes))?;
            stream.read(&mut [0; 512]).map(|_| ())
        }
    }
}

fn with_patience(stream: UnixStream, patience: Option<Duration>) -> std::io::Result<UnixStream> {
    stream.set_write_timeout(patience)?;
    stream.set_read_timeout(patience)?;
    Ok(stream)
}
