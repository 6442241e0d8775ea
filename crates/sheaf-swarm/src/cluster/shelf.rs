//! Event files on their way to an object store: closed when they are full, old or idle, uploaded in any order, and reported in the
//! order of writing.

use crate::dice::Dice;
use crate::options::ObjectStoreOptions;
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// A file and its contents.
#[derive(Debug)]
struct File<T> {
    items: Vec<T>,
    began: Timestamp,
    /// Time of its last event.
    latest: Timestamp,
    state: FileState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    Open,
    Closed,
    Leaving,
    There,
}

/// The files of a session whose events do not count yet.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    setup: ObjectStoreOptions,
    files: VecDeque<File<T>>,
    /// Number of the first of these files.
    first: u64,
}

/// Operations on files that do not depend on their contents.
pub(super) trait Files {
    /// Closes the open file if it is due. Returns when to check again.
    fn close_due(&mut self, now: Timestamp) -> Option<Timestamp>;

    /// Begins uploads, up to the maximum number in progress. Returns the number of each file and the time when it will be in the
    /// store, including repetitions of failed attempts.
    fn begin_uploads(&mut self, now: Timestamp, dice: &mut Dice) -> Vec<(u64, Timestamp)>;
}

impl<T> Shelf<T> {
    pub(super) fn new(setup: ObjectStoreOptions) -> Self {
        Self { setup, files: VecDeque::new(), first: 0 }
    }

    /// Returns the events that do not count yet.
    pub(super) fn held(&self) -> usize {
        self.files.iter().map(|file| file.items.len()).sum()
    }

    /// Takes a written event. Returns when to check whether its file is to be closed.
    pub(super) fn put(&mut self, now: Timestamp, item: T) -> Timestamp {
        let is_open = |file: &&mut File<T>| file.state == FileState::Open;
        match self.files.back_mut().filter(is_open) {
            Some(file) => {
                file.items.push(item);
                file.latest = now;
            }
            None => {
                let state = FileState::Open;
                self.files.push_back(File { items: vec![item], began: now, latest: now, state });
            }
        }
        self.due(now).unwrap_or(now)
    }

    /// Returns when the open file is to be closed, if there is one.
    fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let file = self.files.back().filter(|file| file.state == FileState::Open)?;
        let is_full = file.items.len() >= self.setup.rotate_events;
        let later = (file.latest + self.setup.quiet).min(file.began + self.setup.rotate);
        // It is overdue while the builder unit is held up.
        Some(if is_full { now } else { later.max(now) })
    }

    /// Records that a file is in the store. Returns the events that count from now on, in the order of writing.
    pub(super) fn arrive(&mut self, number: u64) -> Vec<T> {
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if let Some(file) = self.files.get_mut(place) {
            file.state = FileState::There;
        }
        let mut counting = Vec::new();
        while let Some(file) = self.files.pop_front_if(|file| file.state == FileState::There) {
            self.first += 1;
            counting.extend(file.items);
        }
        counting
    }
}

impl<T> Files for Shelf<T> {
    fn close_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        let due = self.due(now)?;
        if due > now {
            return Some(due);
        }
        self.files.back_mut()?.state = FileState::Closed;
        None
    }

    fn begin_uploads(&mut self, now: Timestamp, dice: &mut Dice) -> Vec<(u64, Timestamp)> {
        let mut begun = Vec::new();
        let mut leaving = self.files.iter().filter(|file| file.state == FileState::Leaving).count();
        for (number, file) in (self.first..).zip(&mut self.files) {
            if leaving < self.setup.connections && file.state == FileState::Closed {
                file.state = FileState::Leaving;
                leaving += 1;
                let mut takes = dice.exponential(self.setup.time);
                while dice.chance(self.setup.fails) {
                    takes = takes + dice.exponential(self.setup.time);
                }
                begun.push((number, now + takes.max(Nanos(1))));
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Ratio;

    fn shelf() -> Shelf<u32> {
        Shelf::new(ObjectStoreOptions {
            rotate_events: 2,
            rotate: Nanos(100),
            quiet: Nanos(10),
            time: Nanos(50),
            connections: 2,
            fails: Ratio::NEVER,
        })
    }

    #[test]
    fn events_count_in_the_order_of_writing_whichever_file_arrives_first() {
        let (mut shelf, mut dice) = (shelf(), Dice::new(1, 1));
        for item in 0..6 {
            let due = shelf.put(Timestamp(0), item);
            if due == Timestamp(0) {
                shelf.close_due(due);
            }
        }
        let numbers: Vec<u64> =
            shelf.begin_uploads(Timestamp(0), &mut dice).into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [0, 1], "two connections");
        assert!(shelf.arrive(1).is_empty());
        assert_eq!(shelf.begin_uploads(Timestamp(0), &mut dice).len(), 1);
        assert_eq!(shelf.arrive(0), [0, 1, 2, 3]);
        assert_eq!((shelf.arrive(2), shelf.held()), (vec![4, 5], 0));
    }

    #[test]
    fn a_file_is_closed_when_it_is_idle_or_old() {
        let mut shelf = shelf();
        assert_eq!(shelf.put(Timestamp(5), 0), Timestamp(15));
        assert_eq!(shelf.close_due(Timestamp(14)), Some(Timestamp(15)));
        assert_eq!((shelf.close_due(Timestamp(15)), shelf.held()), (None, 1));
        assert_eq!(shelf.begin_uploads(Timestamp(15), &mut Dice::new(1, 1)).len(), 1);
    }
}
