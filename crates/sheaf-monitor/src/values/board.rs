//! The values of a process, for several threads.

use super::book::{Offer, Refusal, RunValue, SentReadings, ValueBook, ValueReport};
use super::declared::DeclaredValue;
use crate::unix_time::unix_ms;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Time of the clock when it begins, so that values may be older than it. Milliseconds.
const ORIGIN: u64 = 1 << 42;

/// The values of a process. Threads that carry data do not know it.
#[derive(Debug)]
pub struct ValueBoard {
    book: Mutex<ValueBook>,
    began: Instant,
}

impl Default for ValueBoard {
    fn default() -> Self {
        Self { book: Mutex::default(), began: Instant::now() }
    }
}

impl ValueBoard {
    fn book(&self) -> MutexGuard<'_, ValueBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        ORIGIN + u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - ORIGIN)
    }

    pub(crate) fn declare(&self, declared: Vec<DeclaredValue>) {
        self.book().declare(self.now(), unix_ms(), declared);
    }

    /// Takes values that a program sends. Returns why each is not taken that is not.
    pub(crate) fn take_sent(&self, offers: &[Offer<'_>]) -> Vec<(String, Refusal)> {
        let (now, unix_ms) = (self.now(), unix_ms());
        let mut book = self.book();
        let refused = |offer: &Offer<'_>| {
            let refusal = book.take_sent(now, unix_ms, *offer).err()?;
            Some((offer.name.to_owned(), refusal))
        };
        offers.iter().filter_map(refused).collect()
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.book().refuse(refusal);
    }

    pub(super) fn follow(&self, seen: u64, readings: &SentReadings) -> u64 {
        self.book().follow(self.now(), unix_ms(), (seen, readings))
    }

    pub(super) fn sent(&self) -> (u64, SentReadings) {
        self.book().sent()
    }

    pub(super) fn last_sent(&self) -> u64 {
        self.book().last_sent()
    }

    pub(super) fn begin_reading(&self, name: &str) {
        self.book().begin_reading(self.now(), name);
    }

    pub(super) fn end_reading(&self, name: &str, read: Option<Result<(f64, u64), String>>) {
        self.book().end_reading(self.now(), name, read);
    }

    /// Begins the numbers of a run.
    pub(super) fn begin_run(&self) {
        self.book().begin_run(self.now());
    }

    /// Ends the numbers of a run, and returns them.
    #[must_use]
    pub(super) fn end_run(&self) -> Vec<RunValue> {
        self.book().end_run(self.now())
    }

    pub(crate) fn reports(&self) -> Vec<ValueReport> {
        self.book().reports(self.now())
    }

    pub(crate) fn reports_with_trends(&self) -> Vec<ValueReport> {
        self.book().reports_with_trends(self.now())
    }

    pub(crate) fn refusals(&self) -> Vec<(Refusal, u64)> {
        self.book().refusals()
    }

    pub(crate) fn add_row(&self, row: u64) {
        self.book().add_row(self.now(), row);
    }

    pub(crate) fn history(&self, name: &str, step_ms: u32) -> Option<Option<Vec<u8>>> {
        self.book().history(name, step_ms)
    }
}
