//! Silences of alarms that somebody knows of, and alarms that have ended and stay until somebody has seen them.

use crate::state::{Alarm, AlarmSilence, PastAlarm, State};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Most alarms that have ended and are kept; the oldest leave.
const PAST: usize = 64;

/// The part of the state of run control that is about alarms.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Attention {
    silences: Vec<Silence>,
    /// Alarms that had ended by then have been seen.
    alarms_seen_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Silence {
    code: String,
    culprit: Option<String>,
    #[serde(flatten)]
    silence: AlarmSilence,
}

impl Attention {
    /// Returns what the state of run control says, if there is one.
    pub(crate) fn of(control: Option<&Value>) -> Self {
        control.and_then(|control| Self::deserialize(control).ok()).unwrap_or_default()
    }

    /// Adds its silence to each alarm that has one: the one that lasts longest.
    pub(crate) fn silence(&self, now_ms: u64, alarms: &mut [Alarm]) {
        for alarm in alarms {
            let matching = self.silences.iter().filter(|silence| {
                silence.code == alarm.code
                    && silence.silence.until_ms > now_ms
                    && silence.culprit.as_ref().is_none_or(|culprit| Some(culprit) == alarm.culprit.as_ref())
            });
            alarm.silence = matching.map(|it| &it.silence).max_by_key(|silence| silence.until_ms).cloned();
            self.silence(now_ms, &mut alarm.folded);
        }
    }
}

/// Code and culprit.
type Key = (&'static str, Option<String>);

/// Keeps the alarms of a run that have ended.
#[derive(Debug, Default)]
pub(crate) struct PastAlarms {
    run: Option<u64>,
    known: BTreeMap<Key, Known>,
}

#[derive(Debug)]
struct Known {
    alarm: Alarm,
    /// Number of times that it was raised.
    times: u64,
    /// When it ended, unless it is raised.
    ended_ms: Option<u64>,
}

impl PastAlarms {
    /// Follows the alarms of a state. Returns those of the run that have ended and that nobody has seen, the latest first.
    pub(crate) fn follow(&mut self, state: &State, attention: &Attention) -> Vec<PastAlarm> {
        if self.run != state.run.number {
            *self = Self { run: state.run.number, ..Self::default() };
        }
        let now_ms = state.time_ms;
        // One that is folded under another has not ended.
        let mut raised = BTreeSet::new();
        for alarm in &state.alarms {
            alarm.for_each(&mut |alarm| _ = raised.insert((alarm.code, alarm.culprit.clone())));
        }
        for (key, known) in &mut self.known {
            if !raised.contains(key) {
                known.ended_ms = known.ended_ms.or(Some(now_ms));
            }
        }
        for alarm in &state.alarms {
            let key = (alarm.code, alarm.culprit.clone());
            let known = self.known.entry(key).or_insert_with(|| Known {
                alarm: alarm.clone(),
                times: 1,
                ended_ms: None,
            });
            known.times += u64::from(known.ended_ms.take().is_some());
            known.alarm = alarm.clone();
        }
        let seen_ms = attention.alarms_seen_ms;
        self.known.retain(|_, known| known.ended_ms.is_none_or(|ended_ms| ended_ms > seen_ms));
        let past = |known: &Known| {
            let ended_ms = known.ended_ms?;
            Some(PastAlarm { alarm: known.alarm.clone(), ended_ms, times: known.times })
        };
        let mut list: Vec<_> = self.known.values().filter_map(past).collect();
        list.sort_by_key(|past| std::cmp::Reverse(past.ended_ms));
        for old in list.drain(PAST.min(list.len())..) {
            self.known.remove(&(old.alarm.code, old.alarm.culprit));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Run, Severity};
    use serde_json::json;

    fn alarm(code: &'static str, culprit: Option<&str>) -> Alarm {
        Alarm {
            code,
            severity: Severity::Warning,
            text: code.to_owned(),
            culprit: culprit.map(str::to_owned),
            remedy: "do something".into(),
            since_ms: 0,
            silence: None,
            folded: Vec::new(),
        }
    }

    fn state(time_ms: u64, alarms: Vec<Alarm>) -> State {
        State { time_ms, alarms, run: Run { number: Some(7), ..Run::default() }, ..State::default() }
    }

    fn attention(seen_ms: u64) -> Attention {
        Attention::of(Some(&json!({
            "silences": [
                { "id": 1, "code": "dead-time", "culprit": null, "by": "alice", "why": "new filter", "since_ms": 1, "until_ms": 5_000 },
                { "id": 2, "code": "dead-time", "culprit": "bu1", "by": "bob", "why": "its disk", "since_ms": 1, "until_ms": 9_000 }
            ],
            "alarms_seen_ms": seen_ms, "faults": []
        })))
    }

    fn silenced_by(attention: &Attention, now_ms: u64, alarm: Alarm) -> Option<u64> {
        let mut alarms = [alarm];
        attention.silence(now_ms, &mut alarms);
        alarms[0].silence.as_ref().map(|silence| silence.id)
    }

    #[test]
    fn a_silence_is_for_its_code_and_culprit_until_it_ends() {
        let attention = attention(0);
        assert_eq!(silenced_by(&attention, 4_999, alarm("dead-time", Some("bu0"))), Some(1));
        assert_eq!(
            silenced_by(&attention, 4_999, alarm("dead-time", Some("bu1"))),
            Some(2),
            "it lasts longer"
        );
        assert_eq!(silenced_by(&attention, 5_000, alarm("dead-time", Some("bu0"))), None);
        assert_eq!(silenced_by(&attention, 5_000, alarm("dead-time", Some("bu1"))), Some(2));
        assert_eq!(silenced_by(&attention, 1, alarm("loss", None)), None);
        assert_eq!(silenced_by(&Attention::of(None), 1, alarm("dead-time", None)), None);
    }

    #[test]
    fn alarms_that_have_ended_stay_until_somebody_has_seen_them() {
        let (mut past, nobody) = (PastAlarms::default(), attention(0));
        assert_eq!(past.follow(&state(1_000, vec![alarm("loss", None)]), &nobody), []);
        let list = past.follow(&state(2_000, vec![]), &nobody);
        assert_eq!((list.len(), list[0].ended_ms, list[0].times), (1, 2_000, 1));
        assert_eq!(past.follow(&state(3_000, vec![alarm("loss", None)]), &nobody), [], "it is back");
        let list = past.follow(&state(4_000, vec![alarm("dead-time", None)]), &nobody);
        assert_eq!((list[0].ended_ms, list[0].times), (4_000, 2));
        // One that ends after somebody has looked is still to be seen.
        let list = past.follow(&state(5_000, vec![]), &attention(4_000));
        assert_eq!(list.iter().map(|past| past.alarm.code).collect::<Vec<_>>(), ["dead-time"]);
        assert_eq!(past.follow(&state(6_000, vec![]), &attention(5_000)), []);
    }

    #[test]
    fn an_alarm_that_is_folded_under_another_has_not_ended() {
        let (mut past, nobody) = (PastAlarms::default(), attention(0));
        past.follow(&state(1_000, vec![alarm("node-gone", Some("bu1"))]), &nobody);
        let folded = vec![alarm("node-gone", Some("bu1")), alarm("node-silent", Some("bu2"))];
        let host = Alarm { folded, ..alarm("host-silent", Some("daq07")) };
        assert_eq!(past.follow(&state(2_000, vec![host]), &nobody), []);
        let list = past.follow(&state(3_000, vec![alarm("node-gone", Some("bu1"))]), &nobody);
        let ended: Vec<_> = list.iter().map(|past| past.alarm.code).collect();
        assert_eq!(ended, ["host-silent"]);
    }

    #[test]
    fn alarms_of_another_run_and_the_oldest_of_many_leave() {
        let (mut past, nobody) = (PastAlarms::default(), attention(0));
        for number in 0..2 * PAST as u64 {
            past.follow(&state(number, vec![alarm("node-gone", Some(&format!("bu{number}")))]), &nobody);
        }
        let list = past.follow(&state(1_000, vec![]), &nobody);
        assert_eq!((list.len(), past.known.len()), (PAST, PAST));
        assert_eq!(list[0].alarm.culprit.as_deref(), Some("bu127"));
        let mut next = state(2_000, vec![]);
        next.run.number = Some(8);
        assert_eq!(past.follow(&next, &nobody), []);
    }
}
