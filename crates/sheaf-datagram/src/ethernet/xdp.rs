//! AF_XDP: frames of our type leave the kernel's path at the driver, into memory of this process.
//!
//! Each receive queue of an interface has a socket with rings of its own ([`queue`]). A small program at the interface
//! ([`super::program`]) gives the socket the frames of our type and leaves all others to the kernel. It is attached by a link
//! that this process holds: when the process ends, however it does, the kernel detaches it.

mod queue;
mod ring;

use super::interface::Interface;
use super::program;
use super::settings::{EthernetError, EthernetSettings};
use super::sys::{self, ProgramMode};
use super::wire::{Flushed, Wire};
use queue::{Layout, Queue};
use rustix::event::{PollFd, PollFlags};
use sheaf_transport::LinkStats;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time for which a resource in use is retried: the kernel takes down a socket of an ended process in its own time
/// (observed: up to a second).
const IN_USE_PATIENCE: Duration = Duration::from_millis(1500);
const IN_USE_PAUSE: Duration = Duration::from_millis(20);

/// Whether frames may be copied between the driver's memory and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    /// Only where it must be.
    Allowed,
    /// Never.
    Refused,
}

/// Capabilities that AF_XDP needs.
const CAPABILITIES: &str = "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock";

/// An interface through AF_XDP.
#[derive(Debug)]
pub(super) struct XdpWire {
    /// Detaches the program when it is closed; dropped first, so that no frame goes to a queue that is partly gone.
    _link: OwnedFd,
    mode: ProgramMode,
    queues: Vec<Queue>,
    /// The queue of the current frame, or the next one to poll.
    current: usize,
}

impl XdpWire {
    pub(super) fn open(
        interface: &Interface,
        settings: &EthernetSettings,
        mtu: usize,
        copying: Copying,
    ) -> Result<Self, EthernetError> {
        let count =
            if settings.queues == 0 { interface.queues } else { settings.queues.min(interface.queues) };
        let layout = Layout::new(mtu, settings.frame_slots);
        raise_locked_memory();
        let queues = (0..count)
            .map(|queue| {
                while_in_use(|| Queue::open(interface.index, queue, layout, copying))
                    .map_err(|error| queue_error(error, interface, queue, &layout))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if !settings.busy_poll.to_std().is_zero() {
            queues.iter().for_each(|queue| queue.prefer_busy_poll(settings.busy_poll));
        }
        let failed = |what| move |error| io_error(error, interface, what);
        let map = sys::create_socket_map(interface.queues).map_err(failed("make the map of queues"))?;
        for (number, queue) in (0..).zip(&queues) {
            sys::set_socket(&map, number, queue.socket())
                .map_err(failed("give a socket the frames of a queue"))?;
        }
        let instructions = program::redirect(settings.ethertype, map.as_raw_fd());
        let program = sys::load_program(&instructions, layout.has_fragments());
        let program = program.map_err(failed("load the program"))?;
        let attach = |mode| while_in_use(|| sys::attach(&program, interface.index, mode));
        let (mode, link) = match attach(ProgramMode::Driver) {
            Ok(link) => (ProgramMode::Driver, link),
            Err(error) if is(&error, &[libc::EBUSY, libc::EEXIST, libc::EPERM]) => {
                return Err(io_error(error, interface, "attach the program"));
            }
            Err(_) => {
                (ProgramMode::Generic, attach(ProgramMode::Generic).map_err(failed("attach the program"))?)
            }
        };
        Ok(Self { _link: link, mode, queues, current: 0 })
    }
}

fn is(error: &io::Error, codes: &[i32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Tries until it is not in use any more, or it takes too long.
fn while_in_use<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if is(&error, &[libc::EBUSY]) && began.elapsed() < IN_USE_PATIENCE => {
                std::thread::sleep(IN_USE_PAUSE);
            }
            other => return other,
        }
    }
}

/// Frame slots are locked memory: as much as we may have.
fn raise_locked_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
}

fn io_error(source: io::Error, interface: &Interface, what: &'static str) -> EthernetError {
    let name = interface.name.clone();
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            EthernetError::NoPermission { what, name, capabilities: CAPABILITIES }
        }
        Some(libc::EBUSY | libc::EEXIST) => {
            EthernetError::InUse { what: "the place for an XDP program".to_owned(), name }
        }
        _ => EthernetError::Io { what, name, source },
    }
}

fn queue_error(source: io::Error, interface: &Interface, queue: u32, layout: &Layout) -> EthernetError {
    let name = interface.name.clone();
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            EthernetError::NoPermission { what: "open an AF_XDP socket", name, capabilities: CAPABILITIES }
        }
        Some(libc::EBUSY) => EthernetError::InUse { what: format!("queue {queue}"), name },
        Some(libc::ENOBUFS) => EthernetError::LockedMemory { bytes: layout.bytes() },
        Some(libc::EAFNOSUPPORT) => {
            EthernetError::NotSupported { name, why: "the kernel was built without CONFIG_XDP_SOCKETS" }
        }
        Some(libc::EOPNOTSUPP) => {
            EthernetError::NotSupported { name, why: "its driver cannot hand over frames without a copy" }
        }
        _ => EthernetError::Io { what: "open an AF_XDP socket", name, source },
    }
}

impl Wire for XdpWire {
    fn next(&mut self, stats: &mut LinkStats) -> bool {
        for _ in 0..self.queues.len() {
            if self.queues[self.current].next(stats) {
                return true;
            }
            self.current = (self.current + 1) % self.queues.len();
        }
        false
    }

    fn frame(&self) -> &[u8] {
        self.queues[self.current].frame()
    }

    fn has_frame(&mut self) -> bool {
        self.queues.iter_mut().any(Queue::has_frame)
    }

    fn put(&mut self, lane: usize, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        let queues = self.queues.len();
        self.queues[lane % queues].put(bytes, fill)
    }

    fn flush(&mut self, stats: &mut LinkStats) -> Flushed {
        let mut worst = Flushed::All;
        for queue in &mut self.queues {
            match queue.flush(stats) {
                Flushed::All => {}
                Flushed::Part if worst == Flushed::Refused => {}
                other => worst = other,
            }
        }
        worst
    }

    fn sockets<'a>(&'a self, list: &mut Vec<PollFd<'a>>) {
        list.extend(self.queues.iter().map(|queue| PollFd::from_borrowed_fd(queue.socket(), PollFlags::IN)));
    }

    fn drive(&self, stats: &mut LinkStats) {
        self.queues.iter().for_each(|queue| queue.drive(stats));
    }

    fn overruns(&self) -> u64 {
        self.queues.iter().map(Queue::overruns).sum()
    }

    fn describe(&self) -> String {
        let mode = match self.mode {
            ProgramMode::Driver => "native",
            ProgramMode::Generic => "generic",
        };
        let copy = if self.queues.iter().all(Queue::is_zero_copy) { "zero copy" } else { "copy" };
        format!("AF_XDP, {mode}, {copy}, {} of its queues", self.queues.len())
    }
}
