//! A filter that takes its time, for measurements.

use crate::clock::thread_cpu_time;
use crate::filter::{Filter, FilterFailure};
use bytes::Bytes;
use sheaf_wire::{Event, Nanos, Verdict};

/// Accepts every event, after a given processor time. Time that the thread waits for a processor does not count: an
/// event costs the same on a busy machine.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    /// Processor time for an event.
    pub time: Nanos,
}

impl Filter for Busy {
    fn judge(&mut self, _event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        let until = thread_cpu_time() + self.time;
        while thread_cpu_time() < until {
            std::hint::spin_loop();
        }
        Ok(Verdict::accept())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::event;

    #[test]
    fn an_event_costs_at_least_the_processor_time_that_was_asked_for() {
        let mut busy = Busy { time: Nanos::from_micros(200) };
        let before = thread_cpu_time();
        for _ in 0..5 {
            assert_eq!(busy.judge(&event(1)), Ok(Verdict::accept()));
        }
        assert!(thread_cpu_time().0 - before.0 >= 1_000_000);
    }
}
