//! Moves frames between a connection and a conversation.

use crate::conversation::{Shared, Waker};
use crate::frame::{Frame, Frames};
use crate::secure::{Secured, take_plain};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::Connection;
use std::io::{self, ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which each end says that it is there.
const PING: Duration = Duration::from_secs(2);

/// Time after which an end that says nothing is taken for gone. The connection is made again.
const SILENCE: Duration = Duration::from_secs(10);

/// Bytes of frames that are given to TLS at once.
const BATCH: usize = 64 << 10;

/// Place of a connection in its conversation.
pub(crate) struct Place {
    /// Number of the connection.
    pub(crate) connection: u64,
    /// Wakes its thread.
    pub(crate) waker: Arc<Waker>,
}

/// The end of a connection.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) why: String,
    /// Whether the other end has hung up.
    pub(crate) was_hung_up: bool,
}

/// Moves frames until the connection or the conversation ends, or a newer connection takes the place of this one.
pub(crate) fn run(secured: Secured, shared: &Shared, Place { connection, waker }: Place) {
    let Secured { stream, tls, frames, .. } = secured;
    let mut pump =
        Pump { stream, tls, frames, shared, connection, waker, plain: Vec::new(), heard: Instant::now() };
    let Ended { why, was_hung_up } = match pump.run() {
        Ok(()) => Ended { why: "the conversation is over".into(), was_hung_up: true },
        Err(error) => {
            let was_hung_up = matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            );
            let why = if was_hung_up { "the other end has hung up".to_owned() } else { error.to_string() };
            Ended { why, was_hung_up }
        }
    };
    shared.disconnect(connection, &why, was_hung_up);
    pump.tls.send_close_notify();
    let _ = pump.tls.write_tls(&mut pump.stream);
    let _ = pump.stream.shutdown(std::net::Shutdown::Both);
}

struct Pump<'a> {
    stream: TcpStream,
    tls: Connection,
    frames: Frames,
    shared: &'a Shared,
    connection: u64,
    waker: Arc<Waker>,
    /// Frames that TLS has not taken yet.
    plain: Vec<u8>,
    heard: Instant,
}

impl Pump<'_> {
    /// Returns at the end of the conversation, once everything is written, or when a newer connection is there.
    fn run(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        self.frames.note_proven();
        let mut next_ping = Instant::now() + PING;
        loop {
            if Instant::now() >= next_ping {
                next_ping = Instant::now() + PING;
                Frame::Ping.write(&mut self.plain);
            }
            let may_read = self.take_frames()?;
            self.write()?;
            if !self.shared.state().is_current(self.connection) {
                return Ok(());
            }
            if !may_read {
                self.heard = Instant::now();
            } else if self.heard.elapsed() > SILENCE {
                return Err(io::Error::new(ErrorKind::TimedOut, "it says nothing any more"));
            }
            self.wait(may_read, next_ping)?;
        }
    }

    /// Takes complete frames for which there is room. Returns whether there is room for more.
    fn take_frames(&mut self) -> io::Result<bool> {
        let mut state = self.shared.state();
        let mut is_news = false;
        while state.exchange.has_inbox_room() {
            let Some(frame) = self.frames.next().map_err(io::Error::other)? else {
                if is_news {
                    state.note_last_word();
                    self.shared.notify();
                }
                return Ok(true);
            };
            is_news |= frame != Frame::Ping;
            state.exchange.take(frame).map_err(io::Error::other)?;
        }
        self.shared.notify();
        Ok(false)
    }

    /// Writes what there is to write, until the socket takes no more.
    fn write(&mut self) -> io::Result<()> {
        loop {
            if self.plain.len() < BATCH {
                let mut state = self.shared.state();
                while self.plain.len() < BATCH
                    && let Some(frame) = state.exchange.next_frame()
                {
                    frame.write(&mut self.plain);
                }
            }
            if !self.plain.is_empty() {
                let taken = self.tls.writer().write(&self.plain)?;
                self.plain.drain(..taken);
            }
            if !self.tls.wants_write() {
                return Ok(());
            }
            match self.tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the socket, or for somebody who has something to send, and reads.
    fn wait(&mut self, may_read: bool, until: Instant) -> io::Result<()> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, may_read);
        flags.set(PollFlags::OUT, self.tls.wants_write());
        let waker = self.waker.clone();
        let mut polled =
            [PollFd::new(&self.stream, flags), PollFd::from_borrowed_fd(as_fd(&waker), PollFlags::IN)];
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (socket, called) = (polled[0].revents(), polled[1].revents());
        if !called.is_empty() {
            self.waker.take();
        }
        if may_read && socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        match self.tls.read_tls(&mut self.stream) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => self.heard = Instant::now(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.tls.process_new_packets().map_err(io::Error::other)?;
        if take_plain(&mut self.tls, &mut self.frames)? {
            // What came before it is taken first.
            self.take_frames()?;
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

fn as_fd(waker: &Waker) -> std::os::fd::BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(waker)
}
