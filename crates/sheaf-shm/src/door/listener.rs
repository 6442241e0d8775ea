//! The door itself: a thread that lets guests in, notices their end, and wakes the node when a guest has rung.

use super::guest::{Guest, GuestId};
use super::refusals::{DoorRefusal, Refusals};
use super::ring::{MAX_RING_BYTES, Rings};
use super::socket;
use super::visit::drain;
use super::words::{FULL, Hello, MESSAGE_BYTES, NOT_UNDERSTOOD, WelcomeBytes};
use crate::bell::Bell;
use crate::segment::{self, Common, PAGE_BYTES};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Time that a caller has for its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest sleep of the thread while a caller has not greeted, or while the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of callers that have not greeted.
const MAX_CALLERS: usize = 64;

/// Options of a door.
#[derive(Debug)]
pub struct DoorOptions {
    /// Path of its socket, which no other process listens at.
    pub path: PathBuf,
    /// Name of its memory and its thread, for people: at most some 20 characters.
    pub name: String,
    /// Text for every guest, opaque to the door.
    pub text: Bytes,
    /// The size of a guest's ring of records from its host. A record is at most half of it.
    pub down_bytes: usize,
    /// The size of a guest's ring of records to its host.
    pub up_bytes: usize,
    /// Maximum number of guests at a time.
    pub max_guests: usize,
    /// Wakes the node. Costs no system call while the node is awake.
    pub waker: Waker,
}

/// Reason why a door could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a door at {path}")]
pub struct DoorError {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Event at a door.
#[derive(Debug)]
pub enum DoorNews {
    /// A guest was admitted.
    Entered(Box<Guest>),
    /// A guest has left or died. Records that it has written can still be taken.
    Left(GuestId),
}

/// An open door.
///
/// The node's thread polls its guests' rings. When it is idle it calls [`Door::lie_down`], polls once more, and may
/// then sleep: a guest that rings meanwhile wakes it. When it is awake again it calls [`Door::get_up`].
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    bell: Arc<Bell>,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// Between the door's thread and the node's.
#[derive(Debug, Default)]
struct Desk {
    news: Mutex<VecDeque<DoorNews>>,
    has_news: AtomicBool,
    refusals: Refusals,
    over: AtomicBool,
}

impl Door {
    /// Opens a door.
    ///
    /// # Errors
    /// If the path is in use or invalid, or a system resource is missing.
    pub fn open(options: DoorOptions) -> Result<Self, DoorError> {
        let path = options.path.clone();
        let failed = |source: std::io::Error| DoorError { path: path.clone(), source };
        let rings = Rings {
            down_bytes: options.down_bytes.next_power_of_two().clamp(PAGE_BYTES, MAX_RING_BYTES),
            up_bytes: options.up_bytes.next_power_of_two().clamp(PAGE_BYTES, MAX_RING_BYTES),
        };
        let bell = Arc::new(Bell::new(&format!("{}.bell", options.name)).map_err(|it| failed(it.into()))?);
        let text = text_file(&options).map_err(|it| failed(it.into()))?;
        let listener = socket::listen_path(&path).map_err(|it| failed(it.into()))?;
        let desk = Arc::new(Desk::default());
        let mut porter = Porter {
            listener,
            rings,
            bell: bell.clone(),
            desk: desk.clone(),
            text,
            text_bytes: options.text.len(),
            name: options.name.clone(),
            max_guests: options.max_guests,
            waker: options.waker,
            callers: Vec::new(),
            guests: Vec::new(),
            last_id: 0,
            accepts_again: None,
        };
        let thread =
            std::thread::Builder::new().name(options.name).spawn(move || porter.run()).map_err(failed)?;
        Ok(Self { path: options.path, bell, desk, thread: Some(thread) })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the next event. Costs one load if there is none.
    pub fn poll(&mut self) -> Option<DoorNews> {
        if !self.desk.has_news.load(Ordering::Acquire) {
            return None;
        }
        let mut news = self.desk.news.lock().unwrap_or_else(PoisonError::into_inner);
        let next = news.pop_front();
        self.desk.has_news.store(!news.is_empty(), Ordering::Release);
        next
    }

    /// Returns the number of callers that were refused for this reason.
    #[must_use]
    pub fn refused(&self, reason: DoorRefusal) -> u64 {
        self.desk.refusals.of(reason)
    }

    /// Announces that the node may sleep after one more poll of its guests. Returns `false` if one has rung meanwhile.
    #[must_use]
    pub fn lie_down(&self) -> bool {
        !self.bell.answer() && self.bell.lie_down()
    }

    /// The node is awake.
    pub fn get_up(&self) {
        self.bell.answer();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.desk.over.store(true, Ordering::Release);
        // Fails only when the counter is about to overflow, and then the thread is awake.
        let _ = io::write(self.bell.event(), &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // If this fails, the thread has panicked and printed a message.
            let _ = thread.join();
        }
        // It may have been removed with its directory.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The text, as a file that guests read.
fn text_file(options: &DoorOptions) -> io::Result<OwnedFd> {
    let bytes = options.text.len().max(1);
    let file = segment::create(&format!("{}.text", options.name), bytes)?;
    Common::new(&file, bytes)?.write(0, &options.text);
    segment::make_read_only_for_others(&file)?;
    Ok(file)
}

/// The door's thread.
struct Porter {
    listener: OwnedFd,
    rings: Rings,
    bell: Arc<Bell>,
    desk: Arc<Desk>,
    text: OwnedFd,
    text_bytes: usize,
    name: String,
    max_guests: usize,
    waker: Waker,
    /// Callers that have not identified themselves, each with its deadline.
    callers: Vec<(OwnedFd, Instant)>,
    guests: Vec<(GuestId, Arc<OwnedFd>)>,
    last_id: u64,
    /// Not before then are callers accepted: the process was out of file descriptors.
    accepts_again: Option<Instant>,
}

impl Porter {
    fn run(&mut self) {
        while !self.desk.over.load(Ordering::Acquire) {
            self.accepts_again = self.accepts_again.filter(|again| *again > Instant::now());
            let (rung, called, greeted, gone) = self.sleep();
            if rung {
                drain(&self.bell);
                self.waker.wake_by_ref();
            }
            for place in gone.into_iter().rev() {
                let (id, _) = self.guests.swap_remove(place);
                self.notify(DoorNews::Left(id));
            }
            for place in greeted.into_iter().rev() {
                let (caller, _) = self.callers.swap_remove(place);
                self.handle_caller(caller);
            }
            let now = Instant::now();
            let before = self.callers.len();
            self.callers.retain(|(_, deadline)| *deadline > now);
            (self.callers.len()..before).for_each(|_| self.refuse(DoorRefusal::Silent));
            if called {
                self.accept();
            }
        }
    }

    /// Sleeps until something happens: the bell, a call, a greeting of a caller, or the death of a guest. Returns the
    /// indices of such callers and guests.
    fn sleep(&self) -> (bool, bool, Vec<usize>, Vec<usize>) {
        let listens = self.accepts_again.is_none() && self.callers.len() < MAX_CALLERS;
        let mut all = vec![PollFd::from_borrowed_fd(self.bell.event(), PollFlags::IN)];
        let watched = if listens { PollFlags::IN } else { PollFlags::empty() };
        all.push(PollFd::new(&self.listener, watched));
        all.extend(self.callers.iter().map(|(caller, _)| PollFd::new(caller, PollFlags::IN)));
        all.extend(
            self.guests.iter().map(|(_, socket)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP)),
        );
        let waits = !self.callers.is_empty() || self.accepts_again.is_some();
        let timeout = waits.then(|| Timespec::try_from(PAUSE).ok()).flatten();
        // A signal ends the sleep early; nothing is ready then.
        if rustix::event::poll(&mut all, timeout.as_ref()).is_err() {
            return (false, false, Vec::new(), Vec::new());
        }
        let ready: Vec<bool> = all.iter().map(|it| !it.revents().is_empty()).collect();
        let (callers, guests) = ready[2..].split_at(self.callers.len());
        let places = |ready: &[bool]| (0..ready.len()).filter(|place| ready[*place]).collect();
        (ready[0], listens && ready[1], places(callers), places(guests))
    }

    fn notify(&self, news: DoorNews) {
        self.desk.news.lock().unwrap_or_else(PoisonError::into_inner).push_back(news);
        self.desk.has_news.store(true, Ordering::Release);
        self.waker.wake_by_ref();
    }

    fn refuse(&self, reason: DoorRefusal) {
        self.desk.refusals.count(reason);
    }

    fn accept(&mut self) {
        match socket::accept(&self.listener) {
            // A stranger learns nothing.
            Ok(caller) if !socket::is_ours(&caller) => self.refuse(DoorRefusal::AnotherUser),
            Ok(caller) => self.callers.push((caller, Instant::now() + GREETING_TIMEOUT)),
            Err(io::Errno::INTR | io::Errno::CONNABORTED | io::Errno::AGAIN) => {}
            // No file descriptors or memory. Callers wait in the listener's queue meanwhile.
            Err(_) => self.accepts_again = Some(Instant::now() + PAUSE),
        }
    }

    fn handle_caller(&mut self, caller: OwnedFd) {
        let mut message = [0; MESSAGE_BYTES];
        let bytes = socket::receive(&caller, &mut message).map_or(0, |(bytes, _)| bytes);
        if bytes == 0 {
            self.refuse(DoorRefusal::Silent);
            return;
        }
        let (reason, refused) = match Hello::parse(&message[..bytes]) {
            None => (DoorRefusal::NotUnderstood, NOT_UNDERSTOOD),
            Some(_) if self.guests.len() >= self.max_guests => (DoorRefusal::Full, FULL),
            Some(hello) => {
                // On failure the caller has died, or a system resource is missing: the caller sees its connection
                // close.
                let _ = self.admit(caller, hello);
                return;
            }
        };
        self.refuse(reason);
        // On failure the caller has died.
        let _ = socket::send(&caller, WelcomeBytes::refuse(refused).as_bytes(), &[]);
    }

    fn admit(&mut self, caller: OwnedFd, hello: Hello) -> io::Result<()> {
        let bytes = self.rings.segment_bytes();
        let file = segment::create(&format!("{}.link", self.name), bytes)?;
        let common = Common::new(&file, bytes)?;
        let bell = Bell::new(&format!("{}.guest", self.name))?;
        let length = |bytes: usize| u32::try_from(bytes).map_err(|_| io::Errno::TOOBIG);
        let welcome = WelcomeBytes::new(
            length(self.rings.down_bytes)?,
            length(self.rings.up_bytes)?,
            length(self.text_bytes)?,
        );
        let files = [
            file.as_fd(),
            bell.page_file(),
            bell.event(),
            self.bell.page_file(),
            self.bell.event(),
            self.text.as_fd(),
        ];
        socket::send(&caller, welcome.as_bytes(), &files)?;
        self.last_id += 1;
        let id = GuestId(self.last_id);
        let pid = socket::peer_process(&caller).unwrap_or(hello.pid);
        let socket = Arc::new(caller);
        let guest = Guest::new((id, hello, pid), socket.clone(), common, self.rings, bell);
        self.guests.push((id, socket));
        self.notify(DoorNews::Entered(Box::new(guest)));
        Ok(())
    }
}
