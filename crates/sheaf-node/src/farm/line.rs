//! The way to one worker.

use super::give::GiveError;
use super::made::Worker;
use super::placing::Placing;
use super::remote::RemoteLine;
use super::said::{Said, said};
use super::thread::ThreadLine;
use crate::judging::{WorkerTimes, from_numbers};
use bytes::Bytes;
use sheaf_protocol::farm::{Departure, Ticket, Word};
use sheaf_shm::door::{Guest, GuestId};
use sheaf_wire::farm::{CLOSE_RECORD, WordReader, encode_event};
use sheaf_wire::{Event, Verdict};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The way to one worker.
pub(super) enum Line {
    /// A thread of this process.
    Thread(ThreadLine),
    /// A worker of the caller's making.
    Made(Box<dyn Worker>),
    /// A process.
    Guest(Box<GuestLine>),
    /// A process that joined over a network. Its messages pass through the farm's [`Remote`](super::remote::Remote).
    Remote(Box<RemoteLine>),
}

/// The way to a process.
pub(super) struct GuestLine {
    guest: Box<Guest>,
    reader: WordReader,
    record: Vec<u8>,
    /// Records that its ring had no room for.
    backlog: VecDeque<Vec<u8>>,
}

impl Line {
    pub(super) fn guest(guest: Box<Guest>) -> Self {
        let (reader, record, backlog) = (WordReader::default(), Vec::new(), VecDeque::new());
        Self::Guest(Box::new(GuestLine { guest, reader, record, backlog }))
    }

    pub(super) fn guest_id(&self) -> Option<GuestId> {
        match self {
            Self::Thread(_) | Self::Made(_) | Self::Remote(_) => None,
            Self::Guest(line) => Some(line.guest.id),
        }
    }

    /// The process at the other end, if it is one of this host.
    pub(super) fn process(&self) -> Option<u32> {
        match self {
            Self::Thread(_) | Self::Made(_) | Self::Remote(_) => None,
            Self::Guest(line) => Some(line.guest.pid),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Thread(_) => "a thread".into(),
            Self::Made(_) => "a worker".into(),
            Self::Guest(line) => format!("process {}", line.guest.pid),
            Self::Remote(line) => line.describe(),
        }
    }

    /// Returns the worker's next message.
    ///
    /// # Errors
    /// Returns how the worker has left, if it has.
    pub(super) fn receive(&mut self) -> Result<Option<Word<Verdict>>, Departure> {
        match self {
            Self::Thread(line) => line.receive(),
            Self::Made(worker) => worker.receive(),
            Self::Guest(line) => line.receive(),
            Self::Remote(_) => Ok(None),
        }
    }

    /// Sends it an event.
    ///
    /// # Errors
    /// Why it cannot have this event.
    pub(super) fn give(
        &mut self,
        ticket: Ticket,
        event: &Arc<Event<Bytes>>,
        placing: Option<&mut Placing>,
    ) -> Result<(), GiveError> {
        match (self, placing) {
            (Self::Thread(line), _) => line.give(ticket, event),
            (Self::Made(worker), _) => {
                worker.give(ticket, event);
                Ok(())
            }
            (Self::Guest(line), Some(placing)) => line.give(ticket, event, placing),
            (Self::Guest(_), None) => Err(GiveError::NoMemory),
            (Self::Remote(_), _) => Err(GiveError::Gone),
        }
    }

    /// Wakes it if there is something for it.
    pub(super) fn flush(&mut self) {
        match self {
            Self::Thread(line) => line.flush(),
            Self::Guest(line) => line.flush(),
            Self::Made(_) | Self::Remote(_) => {}
        }
    }

    /// Tells the worker that no more events follow.
    pub(super) fn close(&mut self) {
        match self {
            Self::Thread(line) => line.close(),
            Self::Made(worker) => worker.close(),
            Self::Guest(line) => {
                line.backlog.clear();
                line.guest.push(&[&CLOSE_RECORD]);
                line.guest.flush();
                line.guest.end();
            }
            Self::Remote(_) => {}
        }
    }

    /// Waits until the worker has ended, if it is a thread that was told to end, up to `patience`.
    pub(super) fn join(&mut self, patience: Duration) {
        if let Self::Thread(line) = self {
            line.join(patience);
        }
    }

    /// Counts of the filter of a thread, once that has ended.
    pub(super) fn filter_counters(&mut self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Thread(line) => line.filter_counters(),
            Self::Guest(_) | Self::Remote(_) | Self::Made(_) => Vec::new(),
        }
    }

    /// Returns the worker's own times.
    pub(super) fn times(&self) -> WorkerTimes {
        match self {
            Self::Thread(line) => line.times(),
            Self::Made(_) => WorkerTimes::default(),
            Self::Guest(line) => from_numbers(std::array::from_fn(|index| line.guest.gauge(index))),
            Self::Remote(line) => line.times(),
        }
    }
}

impl GuestLine {
    fn receive(&mut self) -> Result<Option<Word<Verdict>>, Departure> {
        loop {
            match self.guest.take(&mut self.record) {
                Some(true) => {}
                Some(false) => return Ok(None),
                None => return Err(Departure::Nonsense),
            }
            let word = self.reader.read(&self.record).map_err(|_| Departure::Nonsense)?;
            match word.map(said) {
                Some(Said::Word(word)) => return Ok(Some(word)),
                // It shows its times where they outlive it.
                Some(Said::Times(_)) | None => {}
            }
        }
    }

    fn give(&mut self, ticket: Ticket, event: &Event<Bytes>, placing: &mut Placing) -> Result<(), GiveError> {
        let guest = &mut self.guest;
        encode_event(&mut self.record, ticket.0, event, |payload| placing.find(payload, guest))?;
        if self.record.len() > guest.longest() {
            return Err(GiveError::TooManyFragments);
        }
        if !self.backlog.is_empty() || !guest.push(&[&self.record]) {
            self.backlog.push_back(std::mem::take(&mut self.record));
        }
        Ok(())
    }

    fn flush(&mut self) {
        while let Some(record) = self.backlog.pop_front() {
            if !self.guest.push(&[&record]) {
                self.backlog.push_front(record);
                break;
            }
        }
        self.guest.flush();
    }
}
