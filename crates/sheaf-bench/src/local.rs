//! A whole measurement on threads of this process.

use crate::job::{BenchError, Job, Measurement, Outcome};
use crate::{cpu, node, wiring};
use std::sync::atomic::AtomicBool;

/// Runs `job`, each node on a thread of its own. `processors` are those of the nodes in the order of [`Job::nodes`]; an
/// empty list leaves them to the system. `stop` ends it early.
///
/// # Errors
/// The first problem.
pub fn measure(job: &Job, processors: &[usize], stop: &AtomicBool) -> Result<Measurement, BenchError> {
    let endpoints = wiring::in_one_process(job)?;
    let outcomes: Vec<Result<Outcome, BenchError>> = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (number, endpoint) in endpoints.into_iter().enumerate() {
            let own = processors.get(number).copied();
            let sends = number < usize::from(job.senders);
            let body = move || {
                let pinned = own.map_or(Ok(()), |own| cpu::pin(&[own]));
                pinned.map_err(|source| BenchError::System { what: "stay on a processor", source })?;
                node::run(endpoint, job, sends, stop)
            };
            handles.push(std::thread::Builder::new().spawn_scoped(scope, body));
        }
        let join = |handle: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match handle {
            Err(source) => Err(BenchError::System { what: "start a thread", source }),
            Ok(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        };
        handles.into_iter().map(join).collect()
    });
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    job.combine(&outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Task;
    use crate::payload::Use;
    use crate::transport::Transport;

    fn job(task: Task, transport: Transport, senders: u16, receivers: u16) -> Job {
        Job {
            task,
            transport,
            senders,
            receivers,
            bytes: 2048,
            payload: Use::WriteRead,
            warm_up_s: 0.005,
            seconds: 0.03,
            spins: 20,
            rate_hz: None,
        }
    }

    fn run(job: &Job) -> Measurement {
        measure(job, &[], &AtomicBool::new(false)).expect("loopback and threads are there")
    }

    #[test]
    fn every_message_of_a_stream_arrives_over_every_transport() {
        for &transport in Transport::ALL {
            for (senders, receivers) in [(1, 1), (3, 2), (16, 1)] {
                for payload in [Use::WriteRead, Use::Descriptor] {
                    let measured = run(&Job { payload, ..job(Task::Stream, transport, senders, receivers) });
                    assert_eq!(measured.sent, measured.received);
                    assert!(measured.received > 0, "{transport} {senders} {receivers}");
                }
            }
        }
    }

    #[test]
    fn messages_of_no_length_and_of_many_pages_pass() {
        for &transport in Transport::ALL {
            for bytes in [0, 1, 3 << 20] {
                let measured = run(&Job { bytes, ..job(Task::Stream, transport, 1, 1) });
                assert!(measured.received > 0, "{transport}: {bytes} bytes");
            }
        }
    }

    #[test]
    fn round_trips_and_exchanges_have_times_in_order() {
        for &transport in Transport::ALL {
            for task in [Task::RoundTrip, Task::Exchange] {
                // Long enough for a trip also where both threads wait for a busy machine.
                let measured = run(&Job { seconds: 0.2, ..job(task, transport, 1, 1) });
                let times = measured.times.expect("the first side has a clock");
                assert!(0 < times.p50 && times.p50 <= times.p99 && times.p99 <= times.max, "{times:?}");
                assert_eq!(measured.sent, measured.received);
            }
        }
    }

    #[test]
    fn round_trips_at_a_rate_are_no_more_than_it_says() {
        for transport in [Transport::Memory, Transport::Tcp, Transport::Shm] {
            let paced =
                Job { seconds: 0.2, spins: 0, rate_hz: Some(100.0), ..job(Task::RoundTrip, transport, 1, 1) };
            let measured = run(&paced);
            assert!(measured.times.is_some(), "{transport}");
            // Includes messages of the warm-up. A busy machine may also exceed the configured duration.
            assert!(measured.sent <= 2 * 21, "{transport}: {}", measured.sent);
        }
    }

    #[test]
    fn a_measurement_ends_in_its_time_however_low_the_rate_of_its_trips() {
        let slow = Job { rate_hz: Some(0.001), ..job(Task::RoundTrip, Transport::Memory, 1, 1) };
        let measured = run(&slow);
        // Each trip is two messages; one trip may belong to the warm-up, and one is measured.
        assert!(matches!(measured.sent, 2 | 4), "{} messages", measured.sent);
    }

    #[test]
    fn a_flag_ends_a_measurement_that_would_take_long() {
        let stop = AtomicBool::new(true);
        let long = Job { seconds: 1000.0, ..job(Task::RoundTrip, Transport::Memory, 1, 1) };
        let ended = measure(&long, &[], &stop);
        assert!(matches!(ended, Err(BenchError::Interrupted | BenchError::Broken { .. })), "{ended:?}");
    }

    #[test]
    fn messages_that_do_not_arrive_are_an_error() {
        let job = job(Task::Stream, Transport::Memory, 1, 1);
        let outcomes =
            [Outcome { sent: 3, ..Outcome::default() }, Outcome { received: 2, ..Outcome::default() }];
        assert!(matches!(job.combine(&outcomes), Err(BenchError::Lost { sent: 3, received: 2 })));
    }
}
