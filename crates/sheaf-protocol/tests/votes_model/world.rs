//! Voters and proposers with the messages between them.
//!
//! A message that was sent stays in the world and may be delivered at any time, any number of times, or never. So messages are lost,
//! repeated and reordered in every way. Messages that cannot have an effect any more are removed, which makes states equal.

use crate::intern::Interner;
use crate::sabotage::Sabotage;
use rustc_hash::FxHashMap;
use sheaf_protocol::standby::{Change, Outcome, Proposer, VoteTimes, Voter};
use sheaf_wire::message::{Ballot, Managers, Replica, VoteAnswer, VoteRequest, VoteStep, VoterLife};
use sheaf_wire::{Nanos, NodeId, SessionId, Term, Timestamp};

/// Requests are repeated by the world, and a ballot that was refused may be followed by another one at any time.
const TIMES: VoteTimes = VoteTimes { retransmit: Nanos::MAX, retry: Nanos::ZERO };

const NOW: Timestamp = Timestamp::ZERO;

/// Numbers of things that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Changes that each replica may propose.
    pub(crate) changes: [u8; 2],
    /// Restarts of voters.
    pub(crate) restarts: u8,
    /// Orders to replicas to restore a voter.
    pub(crate) restorations: u8,
    /// Restarts of replicas.
    pub(crate) crashes: u8,
}

/// A world to explore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) voters: u16,
    pub(crate) budget: Budget,
    /// Requests of ballots above this one are lost.
    pub(crate) highest: Ballot,
    /// Time of answers.
    pub(crate) answers: Answers,
    /// Whether only the two changes that compete are proposed: replica 0 strikes off replica 1, and replica 1 takes over.
    pub(crate) competes: bool,
    /// Number of ballots that each replica has used up without any message.
    pub(crate) head_start: [u8; 2],
    /// Whether the first configuration has been founded.
    pub(crate) is_founded: bool,
    /// Whether the earlier life of a voter that restarts goes on to vote, as a frozen readout unit whose mirror votes for it.
    pub(crate) lives_on: bool,
    pub(crate) sabotage: Sabotage,
}

/// Time at which answers of voters arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// At any time, in any order, any number of times.
    Whenever,
    /// At once, or never. This has far fewer states, and loses little: what a proposer sends because of an answer may still
    /// arrive at any time.
    AtOnce,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Letter {
    Request { from: Replica, to: NodeId, request: VoteRequest },
    Answer { from: VoterLife, to: u16, answer: VoteAnswer },
}

/// A voter and its session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seat {
    life: VoterLife,
    voter: Voter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Manager {
    me: Replica,
    proposer: Proposer,
    /// The highest ballot that it has used.
    latest: Ballot,
}

/// Something that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Deliver(u32),
    /// Deliver a request whose answer is lost.
    DeliverInVain(u32),
    /// Deliver a request to an earlier life of its voter.
    DeliverToEarlier(u32),
    Propose(u16, Change),
    /// A proposer begins another ballot, or does what waits.
    Timeout(u16),
    /// A founder does not wait for the rest of the voters.
    Settle,
    Found,
    RestartVoter(u16),
    Restore(u16, u16),
    RestartReplica(u16),
}

/// A state. Numbers refer to the tables of the [`Model`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    seats: Vec<u32>,
    /// Earlier lives that go on to vote, at most one of each voter.
    earlier: Vec<Option<u32>>,
    managers: [u32; 2],
    /// Letters, in order of number.
    letters: Vec<u32>,
    /// Configurations that were proposed, in order of number.
    proposed: Vec<u32>,
    /// Configurations that replicas know to be decided, in order of number.
    decided: Vec<u32>,
    budget: Budget,
}

/// Result of a step of one machine.
#[derive(Clone, Debug)]
struct Step {
    machine: u32,
    letters: Vec<u32>,
    /// Configurations that were proposed in them.
    proposed: Vec<u32>,
    /// Configurations that the replica was told to be decided.
    decided: Vec<u32>,
}

/// Machines and letters that have occurred, and the effects of steps.
pub(crate) struct Model {
    pub(crate) setup: Setup,
    seats: Interner<Seat>,
    managers: Interner<Manager>,
    letters: Interner<Letter>,
    configurations: Interner<Managers>,
    /// Effects of a letter on a voter.
    voter_steps: FxHashMap<(u32, u32), Step>,
    /// Effects of a letter on a replica.
    manager_steps: FxHashMap<(u32, u32), Step>,
    first: Seat,
}

/// Returns a replica in its first life.
pub(crate) fn replica(index: u16) -> Replica {
    Replica { index, session: SessionId(10) }
}

fn first_managers() -> Managers {
    Managers { term: Term(1), active: replica(0), in_sync: vec![replica(0), replica(1)] }
}

impl State {
    /// Returns the number of configurations that replicas know to be decided.
    pub(crate) fn decided_configurations(&self) -> usize {
        self.decided.len()
    }

    /// Appends everything that distinguishes the state from others.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let Budget { changes, restarts, restorations, crashes } = self.budget;
        bytes.extend([changes[0], changes[1], restarts, restorations, crashes]);
        for earlier in &self.earlier {
            bytes.extend(earlier.unwrap_or(u32::MAX).to_le_bytes());
        }
        for numbers in [&self.seats, &self.managers[..], &self.letters, &self.proposed, &self.decided] {
            bytes.extend((numbers.len() as u32).to_le_bytes());
            for number in numbers {
                bytes.extend(number.to_le_bytes());
            }
        }
    }
}

impl Manager {
    fn new(me: Replica, setup: &Setup) -> Self {
        let nodes: Vec<_> = (0..setup.voters).map(NodeId::readout).collect();
        let proposer = Proposer::new(me, setup.sabotage.voters_of(me.index, &nodes), TIMES);
        Self { me, proposer, latest: Ballot(0) }
    }
}

impl Model {
    /// Returns the tables, and the state at the beginning.
    pub(crate) fn new(setup: Setup) -> (Self, State) {
        let nodes: Vec<_> = (0..setup.voters).map(NodeId::readout).collect();
        let lives = nodes.iter().map(|node| VoterLife { node: *node, session: SessionId(1) });
        let seats: Vec<_> =
            lives.map(|life| Seat { life, voter: Voter::new(life.node, life.session) }).collect();
        let mut model = Self {
            setup,
            seats: Interner::new(),
            managers: Interner::new(),
            letters: Interner::new(),
            configurations: Interner::new(),
            voter_steps: FxHashMap::default(),
            manager_steps: FxHashMap::default(),
            first: seats[0].clone(),
        };
        let unspoiled = Setup { sabotage: Sabotage::None, ..setup };
        let manager = |index| Manager::new(replica(index), &unspoiled);
        let state = State {
            earlier: vec![None; seats.len()],
            seats: seats.into_iter().map(|seat| model.seats.number(seat)).collect(),
            managers: [0, 1].map(|index| model.managers.number(manager(index))),
            letters: Vec::new(),
            proposed: Vec::new(),
            decided: Vec::new(),
            budget: setup.budget,
        };
        let state = if setup.is_founded { model.found(state) } else { state };
        (model, state)
    }

    /// Founds the first configuration without faults.
    fn found(&mut self, mut state: State) -> State {
        state = self.apply(&state, Action::Found).expect("replica 0 may found");
        while let Some(letter) = state.letters.first() {
            // Letters without effect are removed, so this ends.
            let letter = *letter;
            let mut rest = state.clone();
            rest.letters.retain(|other| *other != letter);
            state = self.apply(&rest, Action::Deliver(letter)).unwrap_or(rest);
        }
        assert_eq!(state.decided.len(), 1, "the foundation is decided");
        let first = self.seats.get(state.seats[0]).clone();
        self.first = first;
        state.budget = self.setup.budget;
        for (index, ballots) in (0..).zip(self.setup.head_start) {
            let mut manager = Manager::new(replica(index), &self.setup);
            for _ in 0..ballots {
                manager.proposer.propose(NOW, Change::StrikeOff(replica(1 - index)));
                manager.proposer.withdraw();
            }
            state.managers[usize::from(index)] = self.managers.number(manager);
        }
        state
    }

    /// Returns everything that may happen.
    pub(crate) fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions: Vec<_> = state.letters.iter().map(|letter| Action::Deliver(*letter)).collect();
        if self.setup.answers == Answers::AtOnce {
            actions.extend(state.letters.iter().map(|letter| Action::DeliverInVain(*letter)));
        }
        let has_earlier = |letter: u32| match self.letters.get(letter) {
            Letter::Request { to, .. } => state.earlier[usize::from(to.index)].is_some(),
            Letter::Answer { .. } => false,
        };
        let to_earlier = state.letters.iter().copied().filter(|letter| has_earlier(*letter));
        actions.extend(to_earlier.map(Action::DeliverToEarlier));
        let budget = &state.budget;
        let is_blank = |seat: u32| self.seats.get(seat).voter.managers().is_none();
        for index in [0, 1_u16] {
            let Manager { me, proposer, .. } = self.managers.get(state.managers[usize::from(index)]);
            if proposer.poll_timeout().is_some_and(|at| at <= NOW) {
                actions.push(Action::Timeout(index));
            }
            if budget.changes[usize::from(index)] > 0 && !proposer.is_proposing() {
                let other = self.managers.get(state.managers[1 - usize::from(index)]).me;
                let changes =
                    [Change::TakeOver { steps_down: false }, Change::StrikeOff(other), Change::Admit(other)];
                let changes = match (self.setup.competes, index) {
                    (false, _) => &changes[..],
                    (true, 0) => &changes[1..2],
                    (true, _) => &changes[..1],
                };
                actions.extend(changes.iter().map(|change| Action::Propose(index, *change)));
                if !self.setup.is_founded && me.index == 0 {
                    actions.push(Action::Found);
                }
            }
            if budget.restorations > 0 {
                let blank = (0..).zip(&state.seats).filter(|(_, seat)| is_blank(**seat));
                actions.extend(blank.map(|(voter, _)| Action::Restore(index, voter)));
            }
            if budget.crashes > 0 {
                actions.push(Action::RestartReplica(index));
            }
        }
        if !self.setup.is_founded {
            actions.push(Action::Settle);
        }
        if budget.restarts > 0 {
            // The voters are alike: it does not matter which one is the first, or the second, to restart.
            let is_next = |voter: u16| {
                voter == 0 || self.seats.get(state.seats[usize::from(voter) - 1]).life.session > SessionId(1)
            };
            let voters = (0..self.setup.voters).filter(|voter| is_next(*voter));
            actions.extend(voters.map(Action::RestartVoter));
        }
        actions
    }

    /// Returns the state after an action, or `None` if it has no effect.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub(crate) fn apply(&mut self, state: &State, action: Action) -> Option<State> {
        if self.has_no_effect(state, action) {
            return None;
        }
        let mut next = state.clone();
        match action {
            Action::Deliver(letter) | Action::DeliverInVain(letter) | Action::DeliverToEarlier(letter) => {
                let is_to_earlier = action == Action::DeliverToEarlier(letter);
                let answer = self.deliver(&mut next, letter, is_to_earlier);
                match (self.setup.answers, answer) {
                    (_, None) => {}
                    (Answers::Whenever, Some(answer)) => insert_all(&mut next.letters, &[answer]),
                    (Answers::AtOnce, Some(answer)) if action != Action::DeliverInVain(letter) => {
                        self.deliver_answer(&mut next, answer);
                    }
                    (Answers::AtOnce, Some(_)) => {}
                }
            }
            Action::Propose(index, change) => {
                next.budget.changes[usize::from(index)] -= 1;
                self.tell(&mut next, index, |proposer| proposer.propose(NOW, change));
            }
            Action::Found => {
                let me = self.managers.get(state.managers[0]).me;
                let mut managers = first_managers();
                managers.active = me;
                managers.in_sync[0] = me;
                next.budget.changes[0] = next.budget.changes[0].saturating_sub(1);
                self.tell(&mut next, 0, |proposer| proposer.found(NOW, managers));
            }
            Action::Timeout(index) => self.tell(&mut next, index, |proposer| proposer.handle_timeout(NOW)),
            Action::Settle => self.tell(&mut next, 0, |proposer| {
                if proposer.poll_timeout() == Some(Timestamp::MAX) && proposer.is_proposing() {
                    proposer.handle_timeout(Timestamp::MAX);
                }
            }),
            Action::RestartVoter(voter) => {
                next.budget.restarts -= 1;
                self.restart_voter(&mut next, voter);
            }
            Action::Restore(index, voter) => {
                next.budget.restorations -= 1;
                let life = self.seats.get(state.seats[usize::from(voter)]).life;
                self.tell(&mut next, index, |proposer| proposer.restore(NOW, life.node, life.session));
            }
            Action::RestartReplica(index) => {
                next.budget.crashes -= 1;
                let Manager { me, .. } = self.managers.get(state.managers[usize::from(index)]);
                let me = Replica { session: SessionId(me.session.0 + 1), ..*me };
                let manager = Manager::new(me, &self.setup);
                next.managers[usize::from(index)] = self.managers.number(manager);
            }
        }
        if next == *state {
            return None;
        }
        self.remove_dead_letters(&mut next);
        if next.decided.len() != state.decided.len() {
            self.check(&next);
        }
        Some(next)
    }

    /// Returns whether it is known that an action changes nothing, without making a copy of the state.
    fn has_no_effect(&self, state: &State, action: Action) -> bool {
        let (Action::Deliver(letter) | Action::DeliverInVain(letter)) = action else { return false };
        let Letter::Request { from, to, .. } = self.letters.get(letter) else { return false };
        let seat = state.seats[usize::from(to.index)];
        let Some(step) = self.voter_steps.get(&(seat, letter)) else { return false };
        let manager = state.managers[usize::from(from.index)];
        let answered = |answer: &u32| match (self.setup.answers, action) {
            (Answers::Whenever, _) => state.letters.binary_search(answer).is_ok(),
            (Answers::AtOnce, Action::Deliver(_)) => {
                let step = self.manager_steps.get(&(manager, *answer));
                step.is_some_and(|step| {
                    step.machine == manager && step.letters.is_empty() && step.decided.is_empty()
                })
            }
            (Answers::AtOnce, _) => true,
        };
        step.machine == seat && step.letters.iter().all(answered)
    }

    /// Describes an action for a failed invariant.
    pub(crate) fn describe(&self, action: Action) -> String {
        match action {
            Action::Deliver(letter) => format!("deliver {:?}", self.letters.get(letter)),
            Action::DeliverInVain(letter) => format!("deliver in vain {:?}", self.letters.get(letter)),
            Action::DeliverToEarlier(letter) => {
                format!("deliver to the earlier life {:?}", self.letters.get(letter))
            }
            action => format!("{action:?}"),
        }
    }

    fn restart_voter(&mut self, state: &mut State, voter: u16) {
        let place = usize::from(voter);
        if self.setup.lives_on {
            state.earlier[place] = Some(state.seats[place]);
        }
        let seat = &mut state.seats[place];
        let VoterLife { node, session } = self.seats.get(*seat).life;
        let life = VoterLife { node, session: SessionId(session.0 + 1) };
        let voter = self.setup.sabotage.restarted(life, &self.first.voter, &first_managers());
        *seat = self.seats.number(Seat { life, voter });
    }

    /// Returns the answer to a request.
    fn deliver(&mut self, state: &mut State, letter: u32, is_to_earlier: bool) -> Option<u32> {
        let Letter::Request { to, .. } = self.letters.get(letter) else {
            self.deliver_answer(state, letter);
            return None;
        };
        let voter = usize::from(to.index);
        let seat = if is_to_earlier { state.earlier[voter].as_mut()? } else { &mut state.seats[voter] };
        let step = self.step_of_voter(*seat, letter);
        *seat = step.machine;
        step.letters.first().copied()
    }

    fn deliver_answer(&mut self, state: &mut State, letter: u32) {
        let Letter::Answer { from, to, answer } = self.letters.get(letter) else { return };
        let index = usize::from(*to);
        let manager = state.managers[index];
        // A replica that has restarted is another machine: its number differs, and it ignores answers to its earlier life.
        let step = match self.manager_steps.get(&(manager, letter)) {
            Some(step) => step.clone(),
            None => {
                let (from, answer) = (*from, answer.clone());
                let step = self.step_of_manager(manager, |proposer| {
                    proposer.handle_answer(NOW, from.node, from.session, answer);
                });
                self.manager_steps.insert((manager, letter), step.clone());
                step
            }
        };
        state.managers[index] = step.machine;
        insert_all(&mut state.letters, &step.letters);
        insert_all(&mut state.proposed, &step.proposed);
        insert_all(&mut state.decided, &step.decided);
    }

    fn step_of_voter(&mut self, seat: u32, letter: u32) -> Step {
        if let Some(step) = self.voter_steps.get(&(seat, letter)) {
            return step.clone();
        }
        let Letter::Request { from, request, .. } = self.letters.get(letter).clone() else {
            unreachable!("it is a request")
        };
        let Seat { life, mut voter } = self.seats.get(seat).clone();
        let before = voter.ballots();
        let answer = self.setup.sabotage.vote(&mut voter, life, from, request);
        let (before, after) = (before.unwrap_or_default(), voter.ballots().unwrap_or_default());
        let is_backwards = after.0 < before.0 || after.1 < before.1;
        assert!(!is_backwards || self.setup.sabotage != Sabotage::None, "a voter went back: {voter:?}");
        let machine = self.seats.number(Seat { life, voter });
        let letters = vec![self.letters.number(Letter::Answer { from: life, to: from.index, answer })];
        let step = Step { machine, letters, proposed: Vec::new(), decided: Vec::new() };
        self.voter_steps.insert((seat, letter), step.clone());
        step
    }

    fn tell(&mut self, state: &mut State, index: u16, order: impl FnOnce(&mut Proposer)) {
        let step = self.step_of_manager(state.managers[usize::from(index)], order);
        state.managers[usize::from(index)] = step.machine;
        insert_all(&mut state.letters, &step.letters);
        insert_all(&mut state.proposed, &step.proposed);
        insert_all(&mut state.decided, &step.decided);
    }

    fn step_of_manager(&mut self, manager: u32, order: impl FnOnce(&mut Proposer)) -> Step {
        let Manager { me, mut proposer, mut latest } = self.managers.get(manager).clone();
        order(&mut proposer);
        let (mut letters, mut proposed, mut decided) = (Vec::new(), Vec::new(), Vec::new());
        while let Some((to, request)) = proposer.poll_request() {
            if request.ballot > self.setup.highest {
                continue;
            }
            latest = latest.max(request.ballot);
            if let VoteStep::Accept(managers) | VoteStep::Found { managers, .. } = &request.step {
                proposed.push(self.configurations.number(managers.clone()));
            }
            letters.push(self.letters.number(Letter::Request { from: me, to, request }));
        }
        while let Some(outcome) = proposer.poll_outcome() {
            match outcome {
                Outcome::Decided(managers) => {
                    assert_eq!(managers.active, me, "a change makes or leaves its replica active");
                    decided.push(self.configurations.number(managers));
                }
                Outcome::Refused { managers } => decided.push(self.configurations.number(managers)),
                Outcome::Heard | Outcome::NoMajority | Outcome::AlreadyFounded | Outcome::Restored(_) => {}
            }
        }
        let machine = self.managers.number(Manager { me, proposer, latest });
        Step { machine, letters, proposed, decided }
    }

    fn remove_dead_letters(&self, state: &mut State) {
        let managers = state.managers.map(|manager| self.managers.get(manager));
        // Whether nothing waits for an answer to this ballot of this session.
        let is_ignored = |index: u16, session: SessionId, ballot: Ballot| {
            let Manager { me, proposer, latest } = managers[usize::from(index)];
            me.session != session
                || ballot < *latest
                || (proposer.poll_timeout().is_none() && !proposer.is_proposing())
        };
        let no_restart = state.budget.restarts == 0;
        state.letters.retain(|letter| match self.letters.get(*letter) {
            Letter::Answer { to, answer, .. } => !is_ignored(*to, answer.to, answer.ballot),
            Letter::Request { from, to, request } => {
                let Seat { life, voter } = self.seats.get(state.seats[usize::from(to.index)]);
                let is_for_another_life = match &request.step {
                    VoteStep::Restore { session, .. } => *session != life.session,
                    VoteStep::Found { lives, .. } | VoteStep::Confirm { lives, .. } => !lives.contains(life),
                    VoteStep::Prepare { .. } | VoteStep::Accept(_) | VoteStep::Inquire => false,
                };
                let is_past =
                    no_restart && voter.ballots().is_some_and(|(promised, _)| promised > request.ballot);
                let has_no_effect = is_for_another_life || is_past || request.step == VoteStep::Inquire;
                let is_sabotaged = self.setup.sabotage != Sabotage::None;
                let has_earlier = state.earlier[usize::from(to.index)].is_some();
                is_sabotaged
                    || has_earlier
                    || !has_no_effect
                    || !is_ignored(from.index, from.session, request.ballot)
            }
        });
    }

    /// Each configuration that is known to be decided is derived from the one before it by allowed changes, and no other has its
    /// term. Configurations in between may be decided without any replica knowing it.
    fn check(&self, state: &State) {
        let of = |numbers: &[u32]| -> Vec<&Managers> {
            let mut all: Vec<_> = numbers.iter().map(|number| self.configurations.get(*number)).collect();
            all.sort_by_key(|managers| managers.term);
            all
        };
        let (decided, proposed) = (of(&state.decided), of(&state.proposed));
        for pair in decided.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            assert!(before.term < after.term, "two configurations of a term: {before:?} and {after:?}");
            let mut reached = vec![before];
            for managers in &proposed {
                let is_between = before.term < managers.term && managers.term <= after.term;
                if is_between && reached.iter().any(|earlier| is_allowed(earlier, managers)) {
                    reached.push(managers);
                }
            }
            assert!(reached.contains(&after), "{after:?} is not derived from {before:?} by {proposed:?}");
        }
    }
}

/// Returns whether the replica that owns the term of `after` may change `before` to it.
fn is_allowed(before: &Managers, after: &Managers) -> bool {
    let me = after.active;
    let is_own = Ballot(after.term.0).replica() == me.index && after.term > before.term;
    let is_alone = after.in_sync == [me];
    is_own && before.in_sync.contains(&me) && (is_alone || before.active == me)
}

fn insert_all(numbers: &mut Vec<u32>, new: &[u32]) {
    for number in new {
        if let Err(at) = numbers.binary_search(number) {
            numbers.insert(at, *number);
        }
    }
}
