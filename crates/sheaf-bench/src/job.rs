//! Tasks of the nodes of a measurement, and their results.

use crate::payload::Use;
use crate::transport::Transport;
use serde::{Deserialize, Serialize};
use sheaf_wire::NodeId;
use std::time::Duration;
use thiserror::Error;

/// A measurement: the same for all of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Task of the nodes.
    pub task: Task,
    /// Transport of the messages.
    pub transport: Transport,
    /// Number of sending nodes; 1 for a round trip.
    pub senders: u16,
    /// Number of receiving nodes; 1 for a round trip.
    pub receivers: u16,
    /// The payload of a message, in bytes.
    pub bytes: u64,
    /// Use of the payload.
    pub payload: Use,
    /// Warm-up time before measurement starts, in seconds.
    pub warm_up_s: f64,
    /// Duration of the measurement, in seconds.
    pub seconds: f64,
    /// Number of polls of an idle node before it sleeps.
    pub spins: u32,
    /// Number of round trips per second, at equal intervals; without it, each begins when the last has ended.
    pub rate_hz: Option<f64>,
}

/// Task of the nodes of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Every sender sends to all receivers in turn, as fast as the links take it.
    Stream,
    /// One message goes to the other side and another comes back; then the next.
    RoundTrip,
    /// Both sides send a message at once and wait for the other's; then the next.
    Exchange,
}

/// A node of a measurement, for a process of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The measurement.
    pub job: Job,
    /// Whether this is a sender (for a round trip: the side that counts), and which.
    pub sends: bool,
    /// Its index among those of its kind.
    pub index: u16,
    /// Where the receivers listen, in their order; empty where the transport has no addresses.
    pub addresses: Vec<String>,
    /// The processors that it may use; empty: all.
    pub processors: Vec<usize>,
}

/// Figures of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Messages sent from the first to the last, also while nothing counted.
    pub sent: u64,
    /// Messages received, likewise.
    pub received: u64,
    /// Messages that counted: received by a receiver in the measured time; for the counting side of a round trip,
    /// trips.
    pub counted: u64,
    /// The measured time in seconds.
    pub seconds: f64,
    /// Processor time of the node's thread in the measured time, in seconds.
    pub cpu_seconds: f64,
    /// Times of the trips, where the node measured them.
    pub times: Option<Times>,
}

/// Quantiles of times in nanoseconds, to three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Half of them are within it.
    pub p50: u64,
    /// 99 % are.
    pub p99: u64,
    /// 99.9 % are.
    pub p999: u64,
    /// All are.
    pub max: u64,
}

/// One measurement, from all of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Messages a second, over all receivers; of a round trip, messages in both directions.
    pub messages_per_second: f64,
    /// Payload bytes a second of those.
    pub bytes_per_second: f64,
    /// Processor time of all nodes in the measured time, in seconds.
    pub cpu_seconds: f64,
    /// Messages from the first to the last, also while nothing counted.
    pub sent: u64,
    /// Number of these messages that arrived. The measurement is valid only if all arrived.
    pub received: u64,
    /// Times of round trips or exchanges.
    pub times: Option<Times>,
}

/// Why there is no measurement.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An endpoint could not be made.
    #[error("no endpoint for {node} over {transport}: {cause}")]
    Endpoint {
        /// The node.
        node: NodeId,
        /// The transport.
        transport: Transport,
        /// Why.
        cause: String,
    },
    /// The nodes did not find each other.
    #[error("{node} waited {waited:?} for its peers, but {missing} of them did not connect")]
    NotConnected {
        /// The node.
        node: NodeId,
        /// Time waited.
        waited: Duration,
        /// Number of peers that did not connect.
        missing: usize,
    },
    /// A link broke while it was measured.
    #[error("{node}: {what}")]
    Broken {
        /// The node.
        node: NodeId,
        /// Description of the event.
        what: String,
    },
    /// Messages were lost, which no transport may do here.
    #[error("{sent} messages were sent and {received} arrived")]
    Lost {
        /// Sent.
        sent: u64,
        /// Received.
        received: u64,
    },
    /// A processor refused, or a thread could not start.
    #[error("cannot {what}")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A flag ended the measurement.
    #[error("interrupted")]
    Interrupted,
}

impl Job {
    /// Returns the warm-up time, during which nothing is counted.
    #[must_use]
    pub fn warm_up(&self) -> Duration {
        Duration::try_from_secs_f64(self.warm_up_s).unwrap_or_default()
    }

    /// Returns the duration of the measurement.
    #[must_use]
    pub fn span(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or_default()
    }

    /// Returns the interval between the starts of consecutive round trips.
    pub(crate) fn period(&self) -> Option<Duration> {
        self.rate_hz.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok())
    }

    /// The nodes in their order: senders, then receivers.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        self.sender_nodes().chain(self.receiver_nodes()).collect()
    }

    pub(crate) fn sender_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.senders).map(NodeId::readout)
    }

    pub(crate) fn receiver_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.receivers).map(NodeId::builder)
    }

    /// Returns the message size as a length in memory.
    pub(crate) fn length(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// The measurement that these outcomes of all nodes are.
    ///
    /// # Errors
    /// If not all messages arrived.
    #[expect(clippy::cast_precision_loss, reason = "rates are quoted to a few digits")]
    pub fn combine(&self, outcomes: &[Outcome]) -> Result<Measurement, BenchError> {
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let (sent, received) = (sum(|outcome| outcome.sent), sum(|outcome| outcome.received));
        if sent != received {
            return Err(BenchError::Lost { sent, received });
        }
        let rate = |outcome: &Outcome| {
            if outcome.seconds > 0.0 { outcome.counted as f64 / outcome.seconds } else { 0.0 }
        };
        let each_way = if self.task == Task::Stream { 1.0 } else { 2.0 };
        let messages_per_second = outcomes.iter().map(rate).sum::<f64>() * each_way;
        Ok(Measurement {
            messages_per_second,
            bytes_per_second: messages_per_second * self.bytes as f64,
            cpu_seconds: outcomes.iter().map(|outcome| outcome.cpu_seconds).sum(),
            sent,
            received,
            times: outcomes.iter().find_map(|outcome| outcome.times),
        })
    }
}
