//! Notices of alarms to people who do not look at the page: when one is raised, and when it has ended.
//!
//! An alarm that is silenced is not reported while the silence lasts; the end of one that has been reported is. Each alarm is reported once, even if it comes and goes several times within a short time. During the first seconds of a run, while
//! buffers fill and front ends start, only an alarm that lasts is reported.

use crate::state::{Alarm, State};
use serde::Serialize;
use std::collections::BTreeMap;

/// Time for which an alarm must be away before it counts as ended.
const AWAY_MS: u64 = 10_000;

/// News of an alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Whether the alarm has ended.
    pub ended: bool,
    /// Number of the run.
    pub run: Option<u64>,
    /// The alarm, as it was last.
    pub alarm: Alarm,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<u64>,
}

/// Takes notices of alarms. It is called on the thread of the server, and must return at once.
pub type Notifier = Box<dyn Fn(Notice) + Send + Sync>;

/// Finds the news in consecutive states.
#[derive(Debug)]
pub(crate) struct Notices {
    /// Time after the start of a run during which no alarm is reported.
    hold_off_ms: u64,
    /// Alarms that have been told.
    told: BTreeMap<Key, Told>,
}

/// Code and culprit, and the run.
type Key = (Option<u64>, &'static str, Option<String>);

#[derive(Debug)]
struct Told {
    alarm: Alarm,
    /// Since when it is away, if it is.
    away_ms: Option<u64>,
}

impl Notices {
    pub(crate) fn new(hold_off_ms: u64) -> Self {
        Self { hold_off_ms, told: BTreeMap::new() }
    }

    /// Returns the news of a state with its alarms.
    pub(crate) fn of(&mut self, state: &State) -> Vec<Notice> {
        let now_ms = state.time_ms;
        let is_early =
            state.run.began_ms.is_none_or(|began_ms| now_ms < began_ms.saturating_add(self.hold_off_ms));
        // What is wrong before the start of a run holds it up, and what is wrong at its end stays so.
        let is_held_off = is_early && matches!(&*state.run.phase, "running" | "paused");
        let mut news = Vec::new();
        for told in self.told.values_mut() {
            told.away_ms = told.away_ms.or(Some(now_ms));
        }
        for alarm in &state.alarms {
            let key = (state.run.number, alarm.code, alarm.culprit.clone());
            match self.told.get_mut(&key) {
                Some(told) => (told.alarm, told.away_ms) = (alarm.clone(), None),
                None if is_held_off || alarm.silence.is_some() => {}
                None => {
                    self.told.insert(key, Told { alarm: alarm.clone(), away_ms: None });
                    news.push(Notice {
                        ended: false,
                        run: state.run.number,
                        alarm: alarm.clone(),
                        ended_ms: None,
                    });
                }
            }
            // An alarm that is folded under another one sends no notice. If it was announced before, it has not ended.
            for folded in &alarm.folded {
                folded.for_each(&mut |folded| {
                    let key = (state.run.number, folded.code, folded.culprit.clone());
                    if let Some(told) = self.told.get_mut(&key) {
                        told.away_ms = None;
                    }
                });
            }
        }
        self.told.retain(|(run, ..), told| {
            let Some(ended_ms) = told.away_ms.filter(|away_ms| now_ms >= away_ms + AWAY_MS) else {
                return true;
            };
            news.push(Notice { ended: true, run: *run, alarm: told.alarm.clone(), ended_ms: Some(ended_ms) });
            false
        });
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{AlarmSilence, Run, Severity};

    fn state(time_ms: u64, alarms: &[&'static str]) -> State {
        let alarm = |code: &&'static str| Alarm {
            code,
            severity: Severity::Warning,
            text: (*code).to_owned(),
            culprit: None,
            remedy: "do something".into(),
            since_ms: time_ms,
            silence: None,
            folded: Vec::new(),
        };
        State {
            time_ms,
            age_ms: Some(0),
            run: Run { number: Some(7), phase: "running".into(), began_ms: Some(1_000), ..Run::default() },
            alarms: alarms.iter().map(alarm).collect(),
            ..State::default()
        }
    }

    fn told(notices: &mut Notices, time_ms: u64, alarms: &[&'static str]) -> Vec<(bool, &'static str)> {
        let news = notices.of(&state(time_ms, alarms));
        news.into_iter().map(|notice| (notice.ended, notice.alarm.code)).collect()
    }

    #[test]
    fn an_alarm_is_told_once_and_its_end_when_it_stays_away() {
        let mut notices = Notices::new(0);
        assert_eq!(told(&mut notices, 2_000, &["dead-time"]), [(false, "dead-time")]);
        assert_eq!(told(&mut notices, 2_100, &["dead-time", "loss"]), [(false, "loss")]);
        assert_eq!(told(&mut notices, 2_200, &["loss"]), []);
        assert_eq!(told(&mut notices, 5_000, &["loss", "dead-time"]), [], "it was away for a moment");
        assert_eq!(told(&mut notices, 5_100, &["loss"]), []);
        assert_eq!(told(&mut notices, 15_099, &["loss"]), []);
        assert_eq!(told(&mut notices, 15_100, &["loss"]), [(true, "dead-time")]);
        assert_eq!(told(&mut notices, 15_200, &["loss", "dead-time"]), [(false, "dead-time")]);
    }

    #[test]
    fn an_alarm_that_is_silenced_is_told_when_the_silence_ends_and_the_end_of_one_that_was_told_always() {
        let silenced = |time_ms, alarms: &[&'static str]| {
            let mut state = state(time_ms, alarms);
            let silence = AlarmSilence { id: 1, by: "alice".into(), why: "known".into(), until_ms: 9_000 };
            state.alarms.iter_mut().for_each(|alarm| alarm.silence = Some(silence.clone()));
            state
        };
        let mut notices = Notices::new(0);
        assert_eq!(notices.of(&silenced(2_000, &["loss"])), []);
        assert_eq!(told(&mut notices, 9_000, &["loss"]), [(false, "loss")]);
        assert_eq!(notices.of(&silenced(9_100, &["loss"])), []);
        assert_eq!(notices.of(&silenced(9_200, &[])), []);
        assert_eq!(told(&mut notices, 19_200, &[]), [(true, "loss")]);
    }

    #[test]
    fn alarms_that_are_folded_under_another_are_neither_told_nor_ended() {
        let mut notices = Notices::new(0);
        assert_eq!(told(&mut notices, 2_000, &["node-gone"]), [(false, "node-gone")]);
        let of_host = |time_ms| {
            let mut of_host = state(time_ms, &["host-silent"]);
            of_host.alarms[0].folded = state(time_ms, &["node-gone", "node-silent"]).alarms;
            of_host
        };
        let codes = |news: Vec<Notice>| -> Vec<_> {
            news.into_iter().map(|notice| (notice.ended, notice.alarm.code)).collect()
        };
        assert_eq!(codes(notices.of(&of_host(2_100))), [(false, "host-silent")]);
        assert_eq!(codes(notices.of(&of_host(60_000))), []);
        assert_eq!(told(&mut notices, 60_100, &["node-gone"]), []);
        assert_eq!(told(&mut notices, 70_100, &["node-gone"]), [(true, "host-silent")]);
    }

    #[test]
    fn nothing_is_told_while_a_run_begins_unless_it_lasts() {
        let mut notices = Notices::new(5_000);
        assert_eq!(told(&mut notices, 2_000, &["dead-time", "incomplete"]), []);
        assert_eq!(told(&mut notices, 5_999, &["dead-time"]), []);
        assert_eq!(told(&mut notices, 6_000, &["dead-time"]), [(false, "dead-time")]);
    }

    #[test]
    fn the_same_alarm_of_the_next_run_is_another_one() {
        let mut notices = Notices::new(0);
        assert_eq!(told(&mut notices, 2_000, &["loss"]), [(false, "loss")]);
        let mut next = state(3_000, &["loss"]);
        next.run.number = Some(8);
        let news = notices.of(&next);
        assert_eq!(news.iter().map(|notice| notice.run).collect::<Vec<_>>(), [Some(8)]);
    }
}
