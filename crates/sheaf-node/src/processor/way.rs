//! The way from a processor to its dispatcher: rings in shared memory, or a link over a network.

use super::{ProcessorError, ProcessorOptions};
use bytes::{Bytes, BytesMut};
use sheaf_key::RunKey;
use sheaf_shm::door::{self, Visit, VisitError, Visited};
use sheaf_tcp::{GuestError, GuestOptions, TcpGuest, TcpSettings, Tls};
use sheaf_transport::{DownReason, Frame, SendError};
use sheaf_wire::farm::{
    BEHIND_RECORD, FromDispatcher, FromProcessor, Hello, PayloadPlace, RecordError, Times, VERSION, Welcome,
    decode_from_dispatcher,
};
use sheaf_wire::{ByteCount, Event, Fragment, Nanos, SessionId};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for which a processor waits at once for room for its answers.
const ROOM: Nanos = Nanos::from_millis(1);

/// Size of a frame of answers at which it is sent.
const LARGEST_FRAME: usize = 256 << 10;

/// Time that a dispatcher has to describe the run.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that the last messages have to leave.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Address of a dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A door on this host: a socket, or the directory of a run.
    Door(PathBuf),
    /// On any host, as `host:port`.
    Network(String),
}

impl Address {
    /// Parses an address: `HOST:PORT` (`[::1]:PORT`), else a path. An existing file is a path in any case.
    ///
    /// # Errors
    /// A port that does not exist.
    pub fn of(text: &Path) -> Result<Self, ProcessorError> {
        let parts = text.to_str().and_then(|text| text.rsplit_once(':'));
        let is_address = |(host, port): &(&str, &str)| {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            !host.is_empty() && !host.contains('/') && is_number
        };
        match parts.filter(is_address) {
            Some((host, port)) if !text.exists() => match port.parse::<u16>() {
                Ok(1..) => Ok(Self::Network(format!("{host}:{port}"))),
                _ => Err(ProcessorError::NoSuchPort(format!("{host}:{port}"))),
            },
            _ => Ok(Self::Door(text.to_owned())),
        }
    }
}

/// Result of a poll for messages of the dispatcher.
pub(super) enum Received {
    /// A message of the dispatcher.
    Said(FromDispatcher<Bytes>),
    /// Nothing now.
    Nothing,
    /// The dispatcher has closed the connection, and all of its messages have been read.
    Closed,
}

/// The way to a dispatcher.
#[derive(Debug)]
pub(super) enum Way {
    /// On the same host.
    Door(Box<DoorWay>),
    /// Anywhere.
    NetworkLink(Box<NetworkLink>),
}

impl Way {
    /// Joins.
    pub(super) fn meet(
        address: &Address,
        options: &ProcessorOptions,
    ) -> Result<(Self, Welcome), ProcessorError> {
        match address {
            Address::Door(path) => {
                let (way, welcome) = DoorWay::meet(path)?;
                Ok((Self::Door(Box::new(way)), welcome))
            }
            Address::Network(address) => {
                let (way, welcome) = NetworkLink::meet(address, options)?;
                Ok((Self::NetworkLink(Box::new(way)), welcome))
            }
        }
    }

    /// Returns the dispatcher's next message; `spare` holds empty lists for reuse.
    pub(super) fn receive(
        &mut self,
        spare: &mut Vec<Vec<Fragment<Bytes>>>,
    ) -> Result<Received, ProcessorError> {
        match self {
            Self::Door(way) => way.receive(spare),
            Self::NetworkLink(way) => way.receive(spare),
        }
    }

    /// Sends a message. The dispatcher always reads, even what it cannot use; if there is no room now, this call blocks
    /// until there is, or the dispatcher has closed the connection.
    pub(super) fn say(&mut self, word: &FromProcessor) {
        match self {
            Self::Door(way) => word.emit(|head, content| {
                let visit = &mut way.visit;
                while !visit.push(&[head, content]) && !visit.has_ended() {
                    visit.wait(ROOM);
                }
            }),
            Self::NetworkLink(way) => way.say(word),
        }
    }

    /// Returns the number of fetches that took time. Events at a door are read in place.
    pub(super) fn fetched(&self) -> u64 {
        match self {
            Self::Door(_) => 0,
            Self::NetworkLink(way) => way.guest.reads(),
        }
    }

    pub(super) fn flush(&mut self) {
        match self {
            Self::Door(way) => way.visit.flush(),
            Self::NetworkLink(way) => way.flush(),
        }
    }

    pub(super) fn wait(&mut self, timeout: Nanos) {
        match self {
            Self::Door(way) => way.visit.wait(timeout),
            Self::NetworkLink(way) => {
                way.flush();
                way.guest.wait(timeout);
            }
        }
    }

    /// Reports this processor's account of its time to the dispatcher.
    pub(super) fn show(&mut self, times: Times) {
        match self {
            Self::Door(way) => {
                let Times { judged, filter, worker, idle } = times;
                for (index, value) in [judged, filter.0, worker.0, idle.0].into_iter().enumerate() {
                    way.visit.show(index, value);
                }
            }
            Self::NetworkLink(way) => way.times = Some(times),
        }
    }

    /// Delivers the pending messages.
    pub(super) fn close(&mut self) {
        match self {
            Self::Door(way) => way.visit.flush(),
            Self::NetworkLink(way) => {
                way.flush();
                way.guest.close(FAREWELL);
            }
        }
    }
}

/// Rings in shared memory.
#[derive(Debug)]
pub(super) struct DoorWay {
    visit: Visit,
    record: Vec<u8>,
}

impl DoorWay {
    fn meet(path: &Path) -> Result<(Self, Welcome), ProcessorError> {
        let hello = door::Hello { pid: std::process::id(), content: VERSION.to_le_bytes().to_vec() };
        let visit = Visit::meet(&super::door_of(path)?, &hello)?;
        let welcome = Welcome::read(visit.text()).map_err(ProcessorError::Welcome)?;
        Ok((Self { visit, record: Vec::new() }, welcome))
    }

    fn receive(&mut self, spare: &mut Vec<Vec<Fragment<Bytes>>>) -> Result<Received, ProcessorError> {
        let Self { visit, record } = self;
        match visit.take(record) {
            Ok(Visited::Record) => {}
            Ok(Visited::Nothing) => return Ok(Received::Nothing),
            // However the dispatcher ended: there is nothing left to do.
            Err(VisitError::Closed) => return Ok(Received::Closed),
            Err(error) => return Err(error.into()),
        }
        let fetch = |place: PayloadPlace, bytes: u32| {
            if bytes == 0 { Ok(Bytes::new()) } else { visit.bytes(place.segment, place.offset, bytes.into()) }
        };
        match decode_from_dispatcher(record, spare.pop().unwrap_or_default(), fetch) {
            Ok(said) => Ok(Received::Said(said)),
            Err(RecordError::Record(error)) => Err(ProcessorError::Record(error)),
            Err(RecordError::Payload(VisitError::Closed)) => Ok(Received::Closed),
            Err(RecordError::Payload(error)) => Err(error.into()),
        }
    }
}

/// A link over a network: events arrive with their payload, and a frame carries many messages.
#[derive(Debug)]
pub(super) struct NetworkLink {
    guest: TcpGuest,
    /// Frames that arrived while a message waited for room.
    came: VecDeque<Frame>,
    /// Messages that have not been sent.
    words: BytesMut,
    /// Shown, and not sent.
    times: Option<Times>,
}

impl NetworkLink {
    fn meet(address: &str, options: &ProcessorOptions) -> Result<(Self, Welcome), ProcessorError> {
        let tls = options.tls.as_ref().map(Tls::load).transpose()?;
        let key = options.key.as_deref().map(RunKey::load).transpose()?;
        // A run may have larger events than usual; a frame takes memory only as it arrives.
        let settings = TcpSettings {
            max_frame_bytes: ByteCount::mib(1024),
            queue_bytes: ByteCount::mib(1024),
            ..TcpSettings::default()
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let session = SessionId(Nanos::from(since).0.max(1));
        let guest = TcpGuest::meet(address, GuestOptions { session, settings, tls, key })?;
        let (came, words) = (VecDeque::new(), BytesMut::new());
        let mut link = Self { guest, came, words, times: None };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        link.send(Hello { process: std::process::id(), host }.emit().into());
        let welcome = link.welcome(address)?;
        Ok((link, welcome))
    }

    fn welcome(&mut self, address: &str) -> Result<Welcome, ProcessorError> {
        let start = Instant::now();
        loop {
            if let Some(frame) = self.guest.take() {
                return Welcome::read(&frame.head).map_err(ProcessorError::Welcome);
            }
            let ended = self.guest.ended();
            // The run is over. A listener that does not recognise a processor would cut the link instead.
            if ended == Some(DownReason::Closed) {
                return Err(GuestError::Closed(address.to_owned()).into());
            }
            if ended.is_some() || start.elapsed() > WELCOME_TIMEOUT {
                return Err(ProcessorError::NoWelcome(address.to_owned()));
            }
            self.guest.wait(Nanos::from_millis(100));
        }
    }

    fn receive(&mut self, spare: &mut Vec<Vec<Fragment<Bytes>>>) -> Result<Received, ProcessorError> {
        let Some(frame) = self.came.pop_front().or_else(|| self.guest.take()) else {
            return Ok(if self.guest.ended().is_some() { Received::Closed } else { Received::Nothing });
        };
        // A link hands a payload out in one piece.
        let payload = frame.payload.into_iter().next().unwrap_or_default();
        let fetch = |place: PayloadPlace, bytes: u32| behind(&payload, place, bytes).ok_or(());
        match decode_from_dispatcher(&frame.head, spare.pop().unwrap_or_default(), fetch) {
            Ok(said) => Ok(Received::Said(said)),
            Err(RecordError::Record(error)) => Err(ProcessorError::Record(error)),
            Err(RecordError::Payload(())) => Err(ProcessorError::Elsewhere),
        }
    }

    fn say(&mut self, word: &FromProcessor) {
        if *word == FromProcessor::Leave {
            // Nothing is read of a processor behind its farewell.
            self.take_times();
        }
        let words = &mut self.words;
        word.emit(|head, content| {
            words.extend_from_slice(head);
            words.extend_from_slice(content);
        });
        if self.words.len() >= LARGEST_FRAME {
            let frame = self.words.split().freeze();
            self.send(frame);
        }
    }

    fn take_times(&mut self) {
        if let Some(times) = self.times.take() {
            let words = &mut self.words;
            FromProcessor::Times(times).emit(|head, content| {
                words.extend_from_slice(head);
                words.extend_from_slice(content);
            });
        }
    }

    fn flush(&mut self) {
        self.take_times();
        if !self.words.is_empty() {
            let frame = self.words.split().freeze();
            self.send(frame);
        }
        self.guest.flush();
    }

    /// Waits for room; gives up where the link has ended.
    fn send(&mut self, words: Bytes) {
        let mut frame = Frame::new(words, None);
        while let Err(SendError::Full(back)) = self.guest.send(frame) {
            frame = back;
            self.came.extend(std::iter::from_fn(|| self.guest.take()));
            if self.guest.ended().is_some() {
                return;
            }
            self.guest.wait(ROOM);
        }
    }
}

/// Bytes of the payload behind a record.
fn behind(payload: &Bytes, place: PayloadPlace, bytes: u32) -> Option<Bytes> {
    if bytes == 0 {
        return Some(Bytes::new());
    }
    let start = usize::try_from(place.offset).ok()?;
    let end = start.checked_add(bytes as usize).filter(|end| *end <= payload.len())?;
    (place.segment == BEHIND_RECORD).then(|| payload.slice(start..end))
}

/// An event and its payload in one frame, as [`NetworkLink`] takes it.
///
/// `record` and `heads` are memory to use again: the record is made in the one and kept in the other.
pub(crate) fn frame_of(
    ticket: u64,
    event: &Event<Bytes>,
    record: &mut Vec<u8>,
    heads: &mut BytesMut,
) -> Frame {
    let mut payload = VecDeque::with_capacity(event.fragments.len());
    let mut offset = 0;
    let place = |bytes: &Bytes| -> Result<PayloadPlace, std::convert::Infallible> {
        let place = PayloadPlace { segment: BEHIND_RECORD, offset };
        if !bytes.is_empty() {
            offset += bytes.len() as u64;
            payload.push_back(bytes.clone());
        }
        Ok(place)
    };
    let Ok(()) = sheaf_wire::farm::encode_event(record, ticket, event, place);
    if heads.capacity() < record.len() {
        heads.reserve(HEADS_BYTES.max(record.len()));
    }
    heads.extend_from_slice(record);
    Frame { head: heads.split().freeze(), payload }
}

/// Amount of memory allocated at a time for the heads of frames; reused when all of them have been sent.
const HEADS_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_an_address_and_all_else_is_a_path() {
        let network = |text: &str| Address::Network(text.to_owned());
        for text in ["host:7100", "192.168.0.1:1", "[::1]:7100"] {
            assert_eq!(Address::of(Path::new(text)).expect("an address"), network(text));
        }
        for text in ["runs/run000001", "./host:7100", "host:port", ":7100", "bu0.farm", "runs/host:70000"] {
            assert_eq!(Address::of(Path::new(text)).expect("a path"), Address::Door(text.into()));
        }
        for text in ["host:70000", "localhost:99999", "[::1]:0", "host:18446744073709551616"] {
            let error = Address::of(Path::new(text)).expect_err("there is no such port");
            assert_eq!(error.to_string(), format!("{text}: the port must be 1 to 65535"));
        }
    }
}
