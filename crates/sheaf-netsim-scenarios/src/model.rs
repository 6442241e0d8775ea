//! The paper model: the load of a trigger on readout buffers, calculated without simulation.
//!
//! Nothing is simulated: rates are multiplied by means. For a described detector and its rates of requests it computes
//! how many ports the network needs, and how many messages and bytes pass it, if every readout buffer has a port of its
//! own (*alone*), and if several share one behind a station that collects and compacts (*grouped*).
//! `docs/concepts/paper-model.md` describes its use.
//!
//! | module | holds |
//! |---|---|
//! | `file` | descriptions as TOML files, errors with line and key |
//! | `touched` | number of groups that contain a region of buffers |
//! | `text` | the result as a table |
//!
//! The formulas are this module's own; the question, and two results to compare with, are those of R. Bock et al., "The Use
//! of Low-cost SMPs in the Atlas Level-2 Trigger", section A.1.

mod file;
mod text;
mod touched;

use serde::Serialize;
use touched::Parts;

/// A detector, the requests to it, and the grouping of its buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Purpose of the model, in a sentence or two.
    pub about: String,
    /// Composition of messages.
    pub messages: Messages,
    /// Messages that report every event to every port.
    pub decisions: Decisions,
    /// Whole events, collected from every port, per second.
    pub building_hz: f64,
    /// Maximum load of one port of a group.
    pub limits: Limits,
    /// The parts of the detector, each with buffers of its own.
    pub detectors: Vec<Detector>,
    /// Requests to them.
    pub requests: Vec<Request>,
}

/// Sizes of messages, with all that is around them on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// A request, or a message with decisions.
    pub request_bytes: f64,
    /// Bytes in front of the data of an answer.
    pub head_bytes: f64,
}

/// Decisions that are sent to every port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decisions {
    /// Events that are decided on, per second.
    pub rate_hz: f64,
    /// Number of decisions per message.
    pub per_message: f64,
}

/// Maximum load of a port.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Requests per second.
    pub port_rate_hz: f64,
    /// Bytes sent per second.
    pub port_bytes_per_second: f64,
}

/// A detector of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Detector {
    /// Its name.
    pub name: String,
    /// Number of its readout buffers.
    pub buffers: u32,
    /// Groups do not reach over the borders of its parts, such as the ends of a barrel; 1 to `buffers`.
    pub parts: u32,
    /// Maximum number of its buffers that share a port.
    pub group: u32,
    /// Mean size of the data of an event in one buffer.
    pub fragment_bytes: f64,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// Index of the detector that is asked.
    pub detector: usize,
    /// Rate, per second.
    pub rate_hz: f64,
    /// Which buffers have the answer.
    pub region: Region,
    /// The share of the data that is left where a group compacts it before it answers.
    pub kept: f64,
}

/// Buffers of a detector that have the requested data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Region {
    /// A mean number of neighbours within one part.
    Neighbours(f64),
    /// A mean number, spread at random over the detector.
    Scattered(f64),
    /// All of the detector.
    All,
}

impl Region {
    /// Returns the number of buffers in the region.
    fn buffers(self, all: u32) -> f64 {
        match self {
            Self::Neighbours(buffers) | Self::Scattered(buffers) => buffers,
            Self::All => f64::from(all),
        }
    }
}

/// Result of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The description's name.
    pub name: String,
    /// Purpose of the model.
    pub about: String,
    /// Every buffer behind a port of its own.
    pub alone: Load,
    /// Buffers in groups.
    pub grouped: Load,
    /// `alone` over `grouped`.
    pub factors: Factors,
    /// Detector by detector.
    pub detectors: Vec<DetectorReport>,
    /// Request by request.
    pub requests: Vec<RequestReport>,
    /// Load that a group's port should not exceed.
    pub limits: Limits,
}

/// The total capacity of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Ports of readout buffers or groups.
    pub ports: u32,
    /// Messages per second of the trigger: requests, answers, decisions.
    pub messages_per_second: f64,
    /// Bytes per second of the trigger.
    pub bytes_per_second: f64,
    /// Messages per second for whole events: requests and answers.
    pub building_messages_per_second: f64,
    /// Bytes per second for whole events.
    pub building_bytes_per_second: f64,
}

/// Factors by which the load of the network falls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Factors {
    /// Ports.
    pub ports: f64,
    /// Messages of the trigger.
    pub messages: f64,
    /// Bytes of the trigger.
    pub bytes: f64,
}

/// One detector.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetectorReport {
    /// Its name.
    pub name: String,
    /// With a port for each buffer.
    pub alone: Load,
    /// With groups.
    pub grouped: Load,
    /// Requests of the trigger per second at each port of a group, a mean.
    pub port_rate_hz: f64,
    /// Bytes sent per second by each port of a group for the trigger.
    pub port_bytes_per_second: f64,
    /// Bytes sent per second by each port of a group for the trigger and for whole events.
    pub port_bytes_per_second_with_building: f64,
}

impl DetectorReport {
    /// Returns whether a group's port stays within `limits`: for the trigger, and with whole events on top.
    #[must_use]
    pub fn within(&self, limits: Limits) -> (bool, bool) {
        let trigger = self.port_rate_hz <= limits.port_rate_hz
            && self.port_bytes_per_second <= limits.port_bytes_per_second;
        (trigger, trigger && self.port_bytes_per_second_with_building <= limits.port_bytes_per_second)
    }
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestReport {
    /// Its name.
    pub name: String,
    /// The detector that is asked.
    pub detector: String,
    /// Rate, per second.
    pub rate_hz: f64,
    /// Mean number of buffers that have the answer.
    pub buffers: f64,
    /// In how many groups they are, a mean.
    pub groups: f64,
}

/// Load that a request, or the building of an event, puts on a detector's ports.
struct Asked {
    rate_hz: f64,
    /// Ports that are asked each time.
    ports: f64,
    /// Data in all answers together.
    data_bytes: f64,
}

impl Asked {
    /// Messages and bytes per second, requests and answers.
    fn traffic(&self, messages: Messages) -> (f64, f64) {
        let bytes = self.ports * (messages.request_bytes + messages.head_bytes) + self.data_bytes;
        (self.rate_hz * 2.0 * self.ports, self.rate_hz * bytes)
    }

    /// Bytes that are sent by the ports, per second.
    fn sent(&self, messages: Messages) -> f64 {
        self.rate_hz * (self.ports * messages.head_bytes + self.data_bytes)
    }
}

impl Description {
    /// Works it out.
    #[must_use]
    pub fn evaluate(&self) -> Report {
        let requests: Vec<RequestReport> = self.requests.iter().map(|it| self.request(it)).collect();
        let detectors: Vec<DetectorReport> =
            (0..self.detectors.len()).map(|index| self.detector(index, &requests)).collect();
        let alone = sum(detectors.iter().map(|detector| detector.alone));
        let grouped = sum(detectors.iter().map(|detector| detector.grouped));
        Report {
            name: self.name.clone(),
            about: self.about.clone(),
            alone,
            grouped,
            factors: Factors {
                ports: f64::from(alone.ports) / f64::from(grouped.ports),
                messages: alone.messages_per_second / grouped.messages_per_second,
                bytes: alone.bytes_per_second / grouped.bytes_per_second,
            },
            detectors,
            requests,
            limits: self.limits,
        }
    }

    fn request(&self, request: &Request) -> RequestReport {
        let detector = &self.detectors[request.detector];
        RequestReport {
            name: request.name.clone(),
            detector: detector.name.clone(),
            rate_hz: request.rate_hz,
            buffers: request.region.buffers(detector.buffers),
            groups: Parts::of(detector).touched(request.region),
        }
    }

    fn detector(&self, index: usize, reports: &[RequestReport]) -> DetectorReport {
        let detector = &self.detectors[index];
        let groups = Parts::of(detector).groups();
        let of_mine = |grouped: bool| {
            let pairs = self.requests.iter().zip(reports).filter(|(request, _)| request.detector == index);
            pairs.map(move |(request, report)| Asked {
                rate_hz: request.rate_hz,
                ports: if grouped { report.groups } else { report.buffers },
                data_bytes: report.buffers
                    * detector.fragment_bytes
                    * if grouped { request.kept } else { 1.0 },
            })
        };
        let (alone, _) = self.carried(detector, detector.buffers, of_mine(false));
        let (grouped, sent) = self.carried(detector, groups, of_mine(true));
        let ports = f64::from(groups);
        let asked_hz: f64 = of_mine(true).map(|asked| asked.rate_hz * asked.ports).sum();
        DetectorReport {
            name: detector.name.clone(),
            alone,
            grouped,
            port_rate_hz: asked_hz / ports,
            port_bytes_per_second: sent / ports,
            port_bytes_per_second_with_building: (sent + self.building(detector, groups).sent(self.messages))
                / ports,
        }
    }

    /// Returns the load of the network by `detector` behind this number of ports, and the bytes of it that its ports
    /// send for the trigger.
    fn carried(&self, detector: &Detector, ports: u32, asked: impl Iterator<Item = Asked>) -> (Load, f64) {
        let decisions_hz = f64::from(ports) * self.decisions.rate_hz / self.decisions.per_message;
        let (building_messages, building_bytes) = self.building(detector, ports).traffic(self.messages);
        let mut load = Load {
            ports,
            messages_per_second: decisions_hz,
            bytes_per_second: decisions_hz * self.messages.request_bytes,
            building_messages_per_second: building_messages,
            building_bytes_per_second: building_bytes,
        };
        let mut sent = 0.0;
        for asked in asked {
            let (messages, bytes) = asked.traffic(self.messages);
            load.messages_per_second += messages;
            load.bytes_per_second += bytes;
            sent += asked.sent(self.messages);
        }
        (load, sent)
    }

    /// Whole events are collected as they are, from every port.
    fn building(&self, detector: &Detector, ports: u32) -> Asked {
        Asked {
            rate_hz: self.building_hz,
            ports: f64::from(ports),
            data_bytes: f64::from(detector.buffers) * detector.fragment_bytes,
        }
    }
}

fn sum(loads: impl Iterator<Item = Load>) -> Load {
    loads.fold(Load::default(), |sum, load| Load {
        ports: sum.ports + load.ports,
        messages_per_second: sum.messages_per_second + load.messages_per_second,
        bytes_per_second: sum.bytes_per_second + load.bytes_per_second,
        building_messages_per_second: sum.building_messages_per_second + load.building_messages_per_second,
        building_bytes_per_second: sum.building_bytes_per_second + load.building_bytes_per_second,
    })
}

/// A description that ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

/// The descriptions that ship, from `scenarios/model/`.
pub const SHIPPED: &[Shipped] =
    &[Shipped { name: "level2", text: include_str!("../../../scenarios/model/level2.toml") }];

/// The description called `name`.
#[must_use]
pub fn find(name: &str) -> Option<Shipped> {
    SHIPPED.iter().copied().find(|shipped| shipped.name == name)
}

/// The shipped description that `name` is most probably a misspelling of.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    sheaf_config::diagnose::nearest(name, SHIPPED.iter().map(|shipped| shipped.name))
}

#[cfg(test)]
mod tests;
