//! Invariants: at every step ([`Watch`]) and at the end of the run ([`at_the_end`]).
//!
//! | rule | checked in |
//! |---|---|
//! | an event ends once; bounds are kept; no machine spins | [`watch`] |
//! | farms try again, alone, and give up nothing that can be judged | [`farms`] |
//! | every ledger balances and nothing is in flight | [`books`] |
//! | the disks hold every stored event exactly once, each right in itself | [`outputs`] |
//! | the books of readout units, event manager and disks agree on fragments | [`books`] |
//! | readout units count what went in and out of them | [`readouts`] |
//! | live time and dead time are the time of the run, each booked when it was | [`live_time`] |
//! | nodes are given up when their signs of life say so | [`lives`] |
//! | every drop and every missing source has a cause that was injected | [`causes`] |
//! | and it was injected there, and before | [`blame`] |

pub mod blame;
pub mod books;
pub mod causes;
pub mod farms;
pub mod live_time;
pub mod lives;
pub mod outputs;
pub mod readouts;
pub mod watch;

use crate::disk::Disks;
use crate::network::{Network, NetworkCounts};
use crate::options::Options;
use crate::payload::SimPayload;
use crate::source::DefectCounts;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::ledger::{Counter, Ledger};
use sheaf_protocol::manager::EventManager;
use sheaf_protocol::output::{OutputUnit, Sender};
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_wire::{Event, MissingReason, Nanos, NodeId, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
pub use watch::{FaultCounts, Watch};

/// A run that ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The event manager's books.
    pub ledger: Ledger,
    /// The books of all readout units that are alive at the end.
    pub fragments: Ledger,
    /// Stored events that miss a required source.
    pub incomplete: u64,
    /// Missing sources in built events, by reason.
    pub missing: BTreeMap<MissingReason, u64>,
    /// Counters of all nodes that are alive at the end.
    pub counters: BTreeMap<Counter, u64>,
    /// The longest time from a trigger to its end.
    pub latency_max: Nanos,
    /// Triggers that the event manager vetoed.
    pub vetoes: u64,
    /// Times that a source was held back.
    pub held_back: u64,
    /// Events written to disks, counting or not.
    pub written: u64,
    /// Counts of planned faults of nodes and links.
    pub faults: FaultCounts,
    /// Counts of the network.
    pub network: NetworkCounts,
    /// When the run ended.
    pub end: Timestamp,
    /// The hash of the run log.
    pub hash: u64,
    /// Lines of the run log.
    pub lines: u64,
    /// Happenings.
    pub steps: u64,
}

/// A run that broke a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The options that led to it.
    pub options: Options,
    /// The rules that were broken, in sentences.
    pub violations: Vec<String>,
    /// When the run was stopped.
    pub at: Timestamp,
    /// The hash of the run log.
    pub hash: u64,
}

impl Failure {
    /// The command that runs the same again with its log, if the options are those of a random run.
    #[must_use]
    pub fn replay(&self) -> Option<String> {
        let seed = self.options.seed;
        let command = || format!("cargo run --release -p sheaf-swarm -- --seed {seed} --log");
        (self.options == Options::random(seed)).then(command)
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

/// All that there is to see at the end of a run.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Options of the run.
    pub options: &'a Options,
    /// Observations during the run.
    pub watch: &'a Watch,
    /// The event manager.
    pub manager: &'a EventManager<SimPayload>,
    /// The readout units; those that are gone are `None`.
    pub readouts: Vec<Option<&'a ReadoutUnit<SimPayload>>>,
    /// Payload bytes that each has sent.
    pub sent: Vec<u64>,
    /// The builders; those that are gone are `None`.
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
    /// The books of all readout units that are alive.
    #[must_use]
    pub fn fragment_books(&self) -> Ledger {
        let mut total = Ledger::default();
        for unit in self.readouts.iter().flatten() {
            total.add(&unit.books().fragments);
        }
        total
    }

    /// The events on disks that count, each with whose file it is in.
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

    /// The counters of all nodes that are alive.
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

/// Closes the books of a run.
///
/// # Errors
/// Every rule that was broken.
pub fn at_the_end(evidence: &Evidence<'_>) -> Result<Report, Box<Failure>> {
    let mut violations: Vec<String> = evidence.watch.violation.iter().cloned().collect();
    // What broke on the way makes the state at the end meaningless.
    if violations.is_empty() {
        books::check(evidence, &mut violations);
        readouts::check(evidence, &mut violations);
        live_time::check(evidence, &mut violations);
        outputs::check(evidence, &mut violations);
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
