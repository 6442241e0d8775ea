//! Invariants: at every step ([`Watch`]) and at the end of the run ([`at_the_end`]).
//!
//! | rule | checked in |
//! |---|---|
//! | an event ends once; bounds are kept; no machine spins | [`watch`] |
//! | farms retry events alone, and give up no event that can be judged | [`farms`] |
//! | every ledger balances and nothing is in flight | [`books`] |
//! | the disks contain every stored event exactly once with the right contents | [`outputs`] |
//! | the books of readout units, event manager and disks agree on fragments | [`books`] |
//! | programs that feed sources lose and double no fragment that they keep | [`feeds`] |
//! | readout units count their inputs and outputs correctly | [`readouts`] |
//! | each source receives one request for an event, with the event's windows, and answers with hits or a reason unless the request is cancelled | [`windows`] |
//! | run records are kept once answered, and each closed session that writes has all of them once | [`records`] |
//! | excluded sources are missing in the events of their exclusion, and in no others | `exclusions` |
//! | a held run does not begin, a paused one has no new events, and readout units know | `operator` |
//! | requirements are unmet exactly while too many nodes are missing | `requirements` |
//! | live time and dead time add up to the time of the run | [`live_time`] |
//! | marks, shifts and repairs are those of the sources whose event numbers are off | [`numbers`] |
//! | nodes are given up only according to their signs of life | [`lives`] |
//! | every drop and every missing source has a cause that was injected | [`causes`] |
//! | the cause was injected at that place, and before | [`blame`] |

pub mod blame;
pub mod books;
pub mod causes;
mod exclusions;
pub mod farms;
pub mod feeds;
pub mod live_time;
pub mod lives;
pub mod numbers;
mod operator;
pub mod outputs;
mod published;
pub mod readouts;
pub mod records;
mod requirements;
mod supervision;
pub mod watch;
pub mod windows;

use crate::disk::Disks;
use crate::network::{Network, NetworkCounts};
use crate::options::Options;
use crate::payload::SimPayload;
use crate::source::DefectCounts;
use crate::violation::Violation;
pub use operator::OperatorCounts;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::ledger::{Counter, Ledger};
use sheaf_protocol::manager::EventManager;
use sheaf_protocol::output::{OutputUnit, Sender};
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_protocol::trigger_link::LinkReport;
use sheaf_wire::{Event, MissingReason, Nanos, NodeId, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
pub use watch::{FaultCounts, Watch};

/// Result of a run that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Books of the event manager.
    pub ledger: Ledger,
    /// Books of all readout units that are alive at the end.
    pub fragments: Ledger,
    /// Stored events that lack a required source.
    pub incomplete: u64,
    /// Missing sources in built events, by reason.
    pub missing: BTreeMap<MissingReason, u64>,
    /// Counters of all nodes that are alive at the end.
    pub counters: BTreeMap<Counter, u64>,
    /// Longest time from a trigger to its end.
    pub latency_max: Nanos,
    /// Triggers that the event manager vetoed.
    pub vetoes: u64,
    /// Number of times that a source was held back.
    pub held_back: u64,
    /// Events written to disks, whether or not they count.
    pub written: u64,
    /// Counts of planned faults of nodes and links.
    pub faults: FaultCounts,
    /// Counts of holds and pauses.
    pub operator: OperatorCounts,
    /// Counts of the network.
    pub network: NetworkCounts,
    /// When the run ended.
    pub end: Timestamp,
    /// The hash of the run log.
    pub hash: u64,
    /// Lines of the run log.
    pub lines: u64,
    /// Number of occurrences.
    pub steps: u64,
}

/// A run that violated a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Options of the run.
    pub options: Options,
    /// Descriptions of the violated rules.
    pub violations: Vec<Violation>,
    /// When the run was stopped.
    pub at: Timestamp,
    /// The hash of the run log.
    pub hash: u64,
}

impl Failure {
    /// Returns the command that repeats the run with its log, if the options are those of a random run.
    #[must_use]
    pub fn replay(&self) -> Option<String> {
        let seed = self.options.seed;
        let command = |more: &str| format!("cargo run --release -p sheaf-swarm -- --seed {seed}{more} --log");
        if self.options == Options::random(seed) {
            return Some(command(""));
        }
        (self.options == Options::random_with_windows(seed)).then(|| command(" --windows"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "simulated run with seed {} failed at {}", self.options.seed, self.at)?;
        for violation in &self.violations {
            writeln!(f, "- {violation}")?;
        }
        writeln!(f, "log hash {:016x}; {:#?}", self.hash, self.options)?;
        match self.replay() {
            Some(command) => write!(f, "replay: {command}"),
            None => write!(f, "replay: run the test again; its options are above"),
        }
    }
}

impl std::error::Error for Failure {}

/// All observations at the end of a run.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Options of the run.
    pub options: &'a Options,
    /// Observations during the run.
    pub watch: &'a Watch,
    /// The event manager.
    pub manager: &'a EventManager<SimPayload>,
    /// Account of the link to a trigger supervisor, and the number of triggers that found no room when they arrived.
    pub supervision: Option<(LinkReport, u64)>,
    /// The readout units; `None` for those that are gone.
    pub readouts: Vec<Option<&'a ReadoutUnit<SimPayload>>>,
    /// Payload bytes that each has sent.
    pub sent: Vec<u64>,
    /// The builders; `None` for those that are gone.
    pub builders: Vec<Option<&'a BuilderUnit<SimPayload>>>,
    /// Senders of the builders' events to output nodes.
    pub senders: Vec<Option<&'a Sender<SimPayload>>>,
    /// The output nodes.
    pub outputs: Vec<Option<&'a OutputUnit<SimPayload>>>,
    /// The disks.
    pub disks: &'a Disks,
    /// Defects of the sources.
    pub defects: DefectCounts,
    /// Counts of the network.
    pub network: NetworkCounts,
    /// The network itself.
    pub links: &'a Network,
    /// The instant.
    pub now: Timestamp,
    /// The hash of the run log.
    pub hash: u64,
    /// Lines of the run log.
    pub lines: u64,
    /// Happenings.
    pub steps: u64,
}

impl Evidence<'_> {
    /// Returns the books of all readout units that are alive.
    #[must_use]
    pub fn fragment_books(&self) -> Ledger {
        let mut total = Ledger::default();
        for unit in self.readouts.iter().flatten() {
            total.add(&unit.books().fragments);
        }
        total
    }

    /// Returns the events on disks that count, each with the owner of its file.
    #[must_use]
    pub fn counting(&self) -> Vec<((NodeId, SessionId), &Event<SimPayload>)> {
        let mut all = Vec::new();
        for ((node, session), committed) in self.manager.committed() {
            let committed = usize::try_from(committed).unwrap_or(usize::MAX);
            let output = self.disks.output(node, session).iter().take(committed);
            all.extend(output.map(|event| ((node, session), event)));
        }
        for ((node, session), places) in self.manager.kept() {
            let output = (0..).zip(self.disks.output(*node, *session));
            let counting = output.filter(|(number, _)| places.contains(*number));
            all.extend(counting.map(|(_, event)| ((*node, *session), event)));
        }
        all
    }

    /// Returns the counters of all nodes that are alive.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<Counter, u64> {
        let mut total = BTreeMap::new();
        let readouts = self.readouts.iter().flatten().map(|unit| unit.books());
        let builders = self.builders.iter().flatten().map(|unit| unit.books());
        let senders = self.senders.iter().flatten().map(|sender| sender.books());
        let outputs = self.outputs.iter().flatten().map(|output| output.books());
        let all = readouts.chain(builders).chain(senders).chain(outputs).chain([self.manager.books()]);
        for books in all {
            for (counter, value) in books.counters {
                *total.entry(counter).or_default() += value;
            }
        }
        total
    }
}

/// Checks a run at its end.
///
/// # Errors
/// Returns all violated rules.
pub fn at_the_end(evidence: &Evidence<'_>) -> Result<Report, Box<Failure>> {
    let mut violations: Vec<Violation> = evidence.watch.violation.iter().cloned().collect();
    // After a violation during the run, the state at the end is meaningless.
    if violations.is_empty() {
        books::check(evidence, &mut violations);
        readouts::check(evidence, &mut violations);
        live_time::check(evidence, &mut violations);
        published::check(evidence, &mut violations);
        outputs::check(evidence, &mut violations);
        exclusions::check(evidence, &mut violations);
        numbers::check(evidence, &mut violations);
        supervision::check(evidence, &mut violations);
        records::check(evidence, &mut violations);
        causes::check(evidence, &mut violations);
        blame::check(evidence, &mut violations);
    }
    if !violations.is_empty() {
        let options = evidence.options.clone();
        return Err(Box::new(Failure { options, violations, at: evidence.now, hash: evidence.hash }));
    }
    Ok(Report {
        ledger: evidence.manager.ledger(),
        fragments: evidence.fragment_books(),
        incomplete: evidence.manager.stored().incomplete,
        missing: evidence.watch.missing.clone(),
        counters: evidence.counters(),
        latency_max: evidence.watch.latency_max,
        operator: evidence.watch.operator.clone(),
        vetoes: evidence.watch.vetoes,
        held_back: evidence.watch.held_back,
        written: evidence.disks.written(),
        faults: evidence.watch.faults,
        network: evidence.network,
        end: evidence.now,
        hash: evidence.hash,
        lines: evidence.lines,
        steps: evidence.steps,
    })
}
