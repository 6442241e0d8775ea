//! The time that drivers and roles see, and the processor time of a thread.

use rustix::time::ClockId;
pub use sheaf_transport::Clock;
use sheaf_wire::Timestamp;

/// The processor time that this thread has taken so far, counted from its start.
#[must_use]
pub fn thread_cpu_time() -> Timestamp {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Timestamp(part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec))
}
