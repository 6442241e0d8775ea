//! A standby of the event manager: two replicas, of which one is active, and the voters that know which.
//!
//! The event manager is deterministic. So its inputs are replicated, and not its state: the active replica sends what it takes, round by
//! round, to the standby, which does the same with a copy of the role. **No message leaves the active replica before the standby has
//! the inputs that led to it.** Whatever the standby does not have was not acknowledged to anybody; its sender repeats it, and the
//! successor numbers its messages as the active replica would have, so that copies are recognized.
//!
//! Three or five nodes, the *voters*, keep in memory which replica is active and which are in sync ([`Managers`](sheaf_wire::message::Managers)). Each change has a
//! higher [`Term`](sheaf_wire::Term), which every message of the active replica carries: a node takes the messages of the highest term that it knows, and
//! refuses those of a lower one. A standby takes over when it suspects the active replica and a majority of the voters agrees; an
//! active replica whose standby is gone or slow has a majority strike it off before it goes on alone. So two replicas never both act, even if
//! both live: suspicion may be wrong, and costs a take-over then.
//!
//! # Ballots
//! The configuration is a register of CASPaxos (Rystsov, 2018). A proposer *prepares* a ballot. Each voter promises to refuse
//! lower ballots, and names the configuration that it has accepted by the highest ballot. The proposer applies its change to
//! the highest of these and asks the voters to *accept* the result. When a majority has accepted, the result is decided. A
//! decided configuration is therefore derived from the one before, by a change that was allowed there.
//!
//! The term of a configuration is the ballot that has proposed it first. A ballot that completes a configuration of another
//! replica does not change its term.
//!
//! # Restarts
//! A voter that restarts has forgotten its promises. It is *blank*, and does not vote until a proposer restores it: the other
//! voters promise a new ballot, and the restarted voter continues with this promise and the highest configuration among
//! them. A majority of all voters must be among these others. The vote that it has forgotten may be in use, however: a proposer
//! may have collected promises of that voter and of others before and after the restoration. Voters therefore know the
//! latest session of each other voter, and attach it to their votes. A vote does not count if another vote names a later
//! session of the same voter (Michael et al., "Recovering shared objects without stable storage", 2017). The restoration tells a
//! majority the new session, so that a majority that contains the forgotten vote contains a voter that knows better, or
//! whose vote is older than the restoration.
//!
//! A mirror that acts for a readout unit has nothing of what that has promised. It votes under the name of the unit as a later life of it: with
//! the session after that of the unit, and blank at first. The unit may still run, if it was frozen. That does no harm: a vote of the unit for a
//! ballot after the restoration meets a vote that names the later life. A vote for an earlier ballot needs others that were cast before the
//! restoration, and a majority of all voters, which includes one of these, has told the mirror of it.
//!
//! # Foundation
//! Replica 0 founds the first configuration. All voters must be blank at one time: the founder asks each, and then tells all of
//! them the configuration with the sessions of which it has heard. A voter that has the same session keeps it, and is still
//! blank. When all keep it, the founder confirms it, and the voters vote.
//!
//! # Limits
//! Voters trust replicas, and a session of a node is greater than its earlier ones. If a majority of the voters is blank at the
//! same time, no majority exists any more: the configuration of that run cannot change again. If all are blank, a new session of
//! replica 0 may found another first configuration.
//!
//! # Modules
//! | module | holds |
//! |---|---|
//! | `pair` | a replica of the event manager: what it replicates, holds back, suspects |
//! | `events`, `standing` | events for the driver of a replica, and its part in the run |
//! | `config` | parameters, and what follows from them |
//! | `stream` | the inputs on their way from the active replica to the other one |
//! | `joining` | the snapshot for a replica that joins |
//! | `replay` | rounds that the standby repeats, and the digests by which both compare |
//! | `member` | any other node: which replica it listens to, and its vote |
//! | `voter`, `proposer` | the register of the voters |

mod campaign;
mod change;
mod config;
mod events;
mod founding;
mod joining;
mod member;
mod pair;
mod proposer;
mod replay;
mod standing;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod voter;

pub use change::{Change, NotAllowed};
pub use config::{StandbyConfig, StandbyTimes, voters, voters_silence};
pub use events::{PairEvent, Retirement};
pub use member::{Admission, Member};
pub use pair::Pair;
pub use proposer::{Outcome, Proposer, VoteTimes};
pub use replay::{Round, Step};
pub use voter::Voter;
