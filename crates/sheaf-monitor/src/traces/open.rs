//! Traces of events that have not ended, or whose last stamps are not here.

use super::model::{MissingPart, Trace};
use sheaf_telemetry::stamps::{Remark, RemarkKind};
use sheaf_wire::{DropReason, MissingReason, Outcome};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Times after the first remark at which stamps are looked for, until all are there. Later ones are of events that are held up.
const LOOKS: [Duration; 6] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Time before a look at which other processes are asked.
const AHEAD: Duration = Duration::from_millis(200);

/// Look from which on a trace needs no stamp of the release, which is the last one.
const LOOK_WITHOUT_RELEASE: usize = 2;

/// Look from which on a trace needs no stamp of the event manager, which may be on another host.
const LOOK_WITHOUT_MANAGER: usize = 3;

/// Look from which on a trace does not wait for processes that were asked and have not answered: they may be dead.
const LOOK_WITHOUT_ANSWERS: usize = 4;

/// Time after which an answer is late. While answers are, no traces of events begin that are only slow: where a machine has too much to do, all
/// of them are, and their traces would hold it up further.
const LATE: Duration = Duration::from_secs(1);

/// Maximum number of traces that wait for their stamps.
const MOST_OPEN: usize = 1 << 13;

/// A trace that waits for its stamps.
#[derive(Debug)]
struct Open {
    trace: Trace,
    since: Instant,
    /// Number of times that its stamps were looked for here.
    looks: usize,
    /// Number of times that other processes were asked for its stamps.
    asked: usize,
    /// When they were asked last.
    asked_at: Option<Instant>,
    /// Number of answers that are not here yet.
    unanswered: usize,
}

/// Traces that wait for their stamps.
#[derive(Debug, Default)]
pub(super) struct OpenTraces {
    open: BTreeMap<u64, Open>,
    /// When the last answer came, and how long it had taken.
    answered: Option<(Instant, Duration)>,
}

impl OpenTraces {
    /// Takes a remark. Returns `false` if there is no room for another event.
    pub(super) fn note(
        &mut self,
        run: u32,
        remark: &Remark,
        now: Instant,
        name: impl FnOnce(u32) -> Option<String>,
    ) -> bool {
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(&remark.event) {
            return false;
        }
        let begin = || Open {
            trace: Trace { run, event: remark.event, ..Trace::default() },
            since: now,
            looks: 0,
            asked: 0,
            asked_at: None,
            unanswered: 0,
        };
        let trace = &mut self.open.entry(remark.event).or_insert_with(begin).trace;
        match remark.kind {
            RemarkKind::Ended => note_end(trace, remark),
            RemarkKind::Dropped => {
                trace.add_reason("dropped");
                trace.drop_reason = DropReason::from_code(remark.code).map(|reason| reason.name().to_owned());
            }
            RemarkKind::Missing => {
                let reason = MissingReason::from_code(remark.code).map_or("unknown", MissingReason::name);
                let (source, required) = (remark.source, remark.detail > 0);
                if required {
                    trace.add_reason("incomplete");
                }
                trace.add_missing(MissingPart {
                    source,
                    name: name(source),
                    reason: reason.to_owned(),
                    required,
                });
            }
            RemarkKind::Quarantined => trace.add_reason("quarantined"),
            RemarkKind::Sampled => trace.add_reason("sampled"),
        }
        true
    }

    /// Returns the events whose stamps are to be looked for now; all if `is_last`.
    pub(super) fn due(&self, now: Instant, is_last: bool) -> Vec<u64> {
        let is_due = |open: &Open| LOOKS.get(open.looks).is_none_or(|after| now >= open.since + *after);
        self.open.iter().filter(|(_, open)| is_last || is_due(open)).map(|(event, _)| *event).collect()
    }

    /// Returns the events whose stamps in other processes are to be asked for now; all if `is_last`. `are_late` is whether answers are.
    pub(super) fn next_questions(&mut self, now: Instant, (is_last, are_late): (bool, bool)) -> Vec<u64> {
        let mut events = Vec::new();
        for (event, open) in &mut self.open {
            let is_due = LOOKS.get(open.looks).is_none_or(|after| now + AHEAD >= open.since + *after);
            // Where answers are late, another question would only make the next ones later.
            let is_worth_it = open.unanswered == 0 || !are_late;
            if is_last || (is_due && is_worth_it && open.asked <= open.looks) {
                open.asked = open.looks + 1;
                events.push(*event);
            }
        }
        events
    }

    /// Notes that this number of other processes were asked for the stamps of these events.
    pub(super) fn note_questions(&mut self, events: &[u64], processes: usize, now: Instant) {
        for event in events {
            if let Some(open) = self.open.get_mut(event) {
                open.unanswered += processes;
                open.asked_at = Some(now);
            }
        }
    }

    /// Notes that a process has passed on all stamps of these events that it has.
    pub(super) fn note_answer(&mut self, events: &[u64], now: Instant) {
        for event in events {
            if let Some(open) = self.open.get_mut(event) {
                open.unanswered = open.unanswered.saturating_sub(1);
                self.answered = open.asked_at.map(|asked| (now, now.duration_since(asked))).or(self.answered);
            }
        }
    }

    /// Returns whether other processes take long to answer: the last answer came late, or none comes at all. One that is dead or frozen does not
    /// matter as long as others answer.
    pub(super) fn answers_are_late(&self, now: Instant) -> bool {
        let last = self.answered.filter(|(at, _)| now.duration_since(*at) <= LATE);
        match last {
            Some((_, took)) => took > LATE,
            None => {
                let is_late = |asked: Instant| now.duration_since(asked) > LATE;
                self.open.values().any(|open| open.unanswered > 0 && open.asked_at.is_some_and(is_late))
            }
        }
    }

    /// Returns the trace of an event that is open.
    pub(super) fn of(&mut self, event: u64) -> Option<&mut Trace> {
        self.open.get_mut(&event).map(|open| &mut open.trace)
    }

    /// Notes that stamps of these events were looked for. Returns the traces that wait for nothing more.
    pub(super) fn settle(&mut self, events: &[u64], is_last: bool) -> Vec<Trace> {
        let mut done = Vec::new();
        for event in events {
            let Some(open) = self.open.get_mut(event) else { continue };
            open.looks += 1;
            let has_ended = open.trace.ended_ns.is_some() || open.trace.has("ended");
            // Without the event manager, the last stage at the own node is all that there will be.
            let has_left = open.trace.has("released") || open.trace.has("decided");
            let is_over = open.looks >= LOOK_WITHOUT_MANAGER && has_left;
            let is_whole =
                is_over || has_ended && (open.looks >= LOOK_WITHOUT_RELEASE || open.trace.has("released"));
            let is_answered = open.unanswered == 0 || open.looks >= LOOK_WITHOUT_ANSWERS;
            if (is_last || (is_whole && is_answered) || open.looks >= LOOKS.len())
                && let Some(mut open) = self.open.remove(event)
            {
                note_end_by_stamps(&mut open.trace);
                done.push(open.trace);
            }
        }
        done
    }
}

/// Notes the times of an event that the event manager had no remark about.
fn note_end_by_stamps(trace: &mut Trace) {
    let of = |stage: &str| trace.stamps.iter().find(|stamp| stamp.stage == stage).map(|stamp| stamp.at_ns);
    let (began, ended) = (of("triggered"), of("ended"));
    trace.began_ns = trace.began_ns.or(began);
    trace.ended_ns = trace.ended_ns.or(ended);
    if ended.is_some() && trace.outcome.is_none() && trace.drop_reason.is_none() {
        // The others are remarked upon: an event without a verdict is stored.
        trace.outcome = Some(Outcome::Stored.name().to_owned());
    }
}

fn note_end(trace: &mut Trace, remark: &Remark) {
    let reasons = [
        (Remark::INCOMPLETE, "incomplete"),
        (Remark::SLOW, "slow"),
        (Remark::DROPPED, "dropped"),
        (Remark::SAMPLED, "sampled"),
    ];
    for (_, reason) in reasons.iter().filter(|(bit, _)| remark.detail & bit != 0) {
        trace.add_reason(reason);
    }
    trace.outcome = Outcome::from_code(remark.code).map(|outcome| outcome.name().to_owned());
    trace.ended_ns = Some(remark.at_ns);
    trace.began_ns = Some(remark.at_ns.saturating_sub(remark.duration_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event that has ended and was released, of which two other processes were asked.
    fn asked() -> OpenTraces {
        let mut open = OpenTraces::default();
        let remark = Remark::new(RemarkKind::Ended, 7, 1_000);
        assert!(open.note(1, &remark, Instant::now(), |_| None));
        open.of(remark.event).expect("it is open").ended_ns = Some(1);
        open.note_questions(&[remark.event], 2, Instant::now());
        open
    }

    /// A machine that is overloaded makes all events slow. Traces of all of them would overload it further.
    #[test]
    fn answers_that_come_late_or_not_at_all_are_noticed_until_one_comes_in_time() {
        let (mut open, begun) = (OpenTraces::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let ask = |open: &mut OpenTraces, event, ms| {
            assert!(open.note(1, &Remark::new(RemarkKind::Ended, event, 1_000), at(ms), |_| None));
            open.note_questions(&[event], 2, at(ms));
        };
        assert!(!open.answers_are_late(at(0)), "nothing was asked");
        ask(&mut open, 1, 0);
        ask(&mut open, 2, 900);
        assert!(!open.answers_are_late(at(1_000)));
        assert!(open.answers_are_late(at(1_001)), "no answer has come");
        open.note_answer(&[2], at(1_100));
        assert!(!open.answers_are_late(at(1_200)), "one of two processes does not answer");
        open.note_answer(&[1], at(1_300));
        assert!(open.answers_are_late(at(1_400)), "the last answer has taken 1.3 s");
        open.note_answer(&[2], at(1_500));
        assert!(!open.answers_are_late(at(1_600)));
        assert!(open.answers_are_late(at(2_600)), "the second answer for event 1 is still to come");
        open.note_answer(&[1], at(2_700));
        assert!(!open.answers_are_late(at(9_000)), "all have answered");
    }

    #[test]
    fn a_question_is_not_repeated_while_answers_are_late() {
        let (mut open, begun) = (OpenTraces::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        for event in [1, 2] {
            open.note(1, &Remark::new(RemarkKind::Ended, event, 1_000), begun, |_| None);
        }
        let next_questions = |open: &mut OpenTraces, now| {
            let are_late = open.answers_are_late(now);
            open.next_questions(now, (false, are_late))
        };
        assert_eq!(next_questions(&mut open, at(100)), [1, 2]);
        open.note_questions(&[1, 2], 2, at(100));
        open.settle(&[1, 2], false);
        open.note_answer(&[1], at(1_150));
        assert!(next_questions(&mut open, at(1_200)).is_empty(), "the answer has taken 1,050 ms");
        // One of the two processes is frozen, and the other one answers in time.
        open.answered = Some((at(1_200), Duration::from_millis(5)));
        assert_eq!(next_questions(&mut open, at(1_200)), [1, 2]);
    }

    #[test]
    fn a_trace_waits_for_the_answers_of_processes_that_are_slow() {
        let mut open = asked();
        let event = *open.open.keys().next().expect("there is one");
        for _ in 0..2 {
            assert!(open.settle(&[event], false).is_empty());
        }
        open.note_answer(&[event], Instant::now());
        assert!(open.settle(&[event], false).is_empty(), "the other one may have stamps");
        open.note_answer(&[event], Instant::now());
        open.open.get_mut(&event).expect("it is open").looks = 2;
        assert_eq!(open.settle(&[event], false).len(), 1);
    }

    #[test]
    fn a_trace_does_not_wait_for_ever_for_a_process_that_is_dead() {
        let mut open = asked();
        let event = *open.open.keys().next().expect("there is one");
        let settled = (0..LOOKS.len()).map(|_| open.settle(&[event], false).len()).collect::<Vec<_>>();
        assert_eq!(settled.iter().position(|traces| *traces == 1), Some(LOOK_WITHOUT_ANSWERS - 1));
        assert_eq!(
            asked().settle(&[event], true).len(),
            1,
            "at the end of the run there is nothing to wait for"
        );
    }
}
