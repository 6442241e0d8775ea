//! Samples ports, processors and nodes repeatedly during a run.

use crate::counters::{self, PortCounters, ProcessCounters, ProcessorTimes};
use crate::network::Network;
use crate::plan::NetworkKind;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A port of a switch: network, switch and port.
pub(crate) type PortName = (NetworkKind, String, String);

/// Time from the beginning during which ports are sampled more often: connecting nodes send as much as a run does in a
/// fraction of a second, and their share must be known.
const CLOSE_LOOKS: Duration = Duration::from_secs(20);

/// Number of polls in the time of a sample.
const LOOKS: u32 = 10;

/// Observations at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Since the sampler was made.
    pub(crate) at: Duration,
    pub(crate) ports: BTreeMap<PortName, PortCounters>,
    pub(crate) processors: ProcessorTimes,
    pub(crate) processor_drops: u64,
    /// All nodes together.
    pub(crate) resident_bytes: u64,
    pub(crate) retransmitted: u64,
    pub(crate) socket_drops: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Sampler {
    began: Instant,
    period: Duration,
    next: Duration,
    next_look: Duration,
    pub(crate) samples: Vec<Sample>,
    /// Of the beginning: samples of ports alone.
    pub(crate) looks: Vec<Sample>,
    /// The last known counters of each process, which may have ended before the run does.
    processes: BTreeMap<u32, ProcessCounters>,
}

impl Sampler {
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            began: Instant::now(),
            period,
            next: Duration::ZERO,
            next_look: Duration::ZERO,
            samples: Vec::new(),
            looks: Vec::new(),
            processes: BTreeMap::new(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes a sample if it is time. `pids` are the processes of the nodes.
    pub(crate) fn poll(&mut self, network: &Network, pids: &[u32]) -> bool {
        let is_time = self.elapsed() >= self.next;
        if is_time {
            self.take(network, pids);
        } else if self.elapsed() >= self.next_look && self.elapsed() < CLOSE_LOOKS {
            let look = self.look(network, Sample::default());
            self.next_look = look.at + self.period / LOOKS;
            self.looks.push(look);
        }
        is_time
    }

    /// Takes a sample.
    pub(crate) fn take(&mut self, network: &Network, pids: &[u32]) {
        let root = Path::new("/");
        for pid in pids {
            let seen = counters::process(root, *pid);
            // One that has just ended has no memory and no network any more.
            if seen.resident_bytes > 0 {
                self.processes.insert(*pid, seen);
            }
        }
        let (retransmitted, socket_drops) = counters::of_hosts(self.processes.values());
        let sample = Sample {
            processors: counters::processors(root),
            processor_drops: counters::processor_drops(root),
            resident_bytes: self.processes.values().map(|process| process.resident_bytes).sum(),
            retransmitted,
            socket_drops,
            ..Sample::default()
        };
        let sample = self.look(network, sample);
        self.next = sample.at + self.period;
        self.next_look = sample.at + self.period / LOOKS;
        self.samples.push(sample);
    }

    /// Adds ports and time to a sample. The time is that of the ports: on a busy machine reading them takes long, and
    /// rates follow from both.
    fn look(&self, network: &Network, mut sample: Sample) -> Sample {
        let begin = self.elapsed();
        for planned in network.plan().rails() {
            for switch in &planned.switches {
                match counters::ports(&network.namespace(&switch.name)) {
                    Ok(ports) => {
                        let named = ports
                            .into_iter()
                            .map(|(port, seen)| ((planned.kind, switch.name.clone(), port), seen));
                        sample.ports.extend(named);
                    }
                    Err(error) => log::warn!("a sample of switch {} is missing: {error}", switch.name),
                }
            }
        }
        sample.at = (begin + self.elapsed()) / 2;
        sample
    }
}
