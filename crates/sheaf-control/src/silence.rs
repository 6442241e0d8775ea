//! Silences: they suppress the notices of alarms that somebody knows of, until they end.

use crate::request::{Operator, Refusal, RefusalCode};
use serde::{Deserialize, Serialize};
use sheaf_wire::{Nanos, Timestamp};

/// Most silences at a time.
pub const SILENCES: usize = 64;

/// Shortest silence.
pub const SHORTEST_SILENCE: Nanos = Nanos::from_secs(1);

/// Longest silence: a week. Somebody is to look again.
pub const LONGEST_SILENCE: Nanos = Nanos::from_secs(7 * 24 * 3600);

/// Most characters of a reason, and of the name of a culprit.
const CHARACTERS: usize = 256;

/// A silence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Number of the silence.
    pub id: u64,
    /// Code of the alarms.
    pub code: String,
    /// Culprit of the alarms; `None`: any.
    pub culprit: Option<String>,
    /// Who asked for it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When it began, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it ends, in milliseconds since 1970.
    pub until_ms: u64,
}

impl Silence {
    /// Returns the alarms in words.
    pub(crate) fn alarms(&self) -> String {
        match &self.culprit {
            Some(culprit) => format!("{} of {culprit}", self.code),
            None => self.code.clone(),
        }
    }
}

/// A request for a silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilenceRequest {
    /// Code of the alarms.
    pub code: String,
    /// Culprit of the alarms; `None`: any.
    pub culprit: Option<String>,
    /// Time for which it lasts.
    pub time: Nanos,
    /// Why.
    pub why: String,
}

/// The silences of a system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Silences {
    list: Vec<Silence>,
    /// Number of silences so far.
    count: u64,
}

impl Silences {
    pub(crate) fn restore(list: Vec<Silence>, count: u64) -> Self {
        Self { list, count }
    }

    pub(crate) fn list(&self) -> &[Silence] {
        &self.list
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Begins a silence, and returns it. It takes the place of one of the same alarms.
    pub(crate) fn begin(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        request: SilenceRequest,
    ) -> Result<Silence, Refusal> {
        request.check()?;
        let SilenceRequest { code, culprit, time, why } = request;
        let is_same = |known: &Silence| known.code == code && known.culprit == culprit;
        if self.list.len() >= SILENCES && !self.list.iter().any(is_same) {
            return Err(Refusal::new(
                RefusalCode::State,
                format!("there are {SILENCES} silences, which is the limit"),
                "end one that is not needed any more",
            ));
        }
        self.list.retain(|known| !is_same(known));
        self.count += 1;
        let silence = Silence {
            id: self.count,
            code,
            culprit,
            by: operator.name.clone(),
            why,
            since_ms: now.as_millis(),
            until_ms: (now + time).as_millis(),
        };
        self.list.push(silence.clone());
        Ok(silence)
    }

    /// Ends a silence, and returns it.
    pub(crate) fn end(&mut self, id: u64) -> Result<Silence, Refusal> {
        let Some(place) = self.list.iter().position(|silence| silence.id == id) else {
            return Err(Refusal::new(
                RefusalCode::NotFound,
                format!("there is no silence {id}, or it has ended"),
                "look at the list of silences again",
            ));
        };
        Ok(self.list.remove(place))
    }

    /// Removes those that have ended.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.list.retain(|silence| silence.until_ms > now.as_millis());
    }

    /// Returns when the next one ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.list.iter().map(|silence| Timestamp(silence.until_ms.saturating_mul(1_000_000))).min()
    }
}

impl SilenceRequest {
    fn check(&self) -> Result<(), Refusal> {
        let invalid = |text: String, remedy: &str| Err(Refusal::new(RefusalCode::Invalid, text, remedy));
        if !(SHORTEST_SILENCE..=LONGEST_SILENCE).contains(&self.time) {
            return invalid(
                format!("a silence lasts from {SHORTEST_SILENCE} to {LONGEST_SILENCE}"),
                "choose a time in between, and begin another silence when it ends",
            );
        }
        if self.why.trim().is_empty() {
            return invalid("a silence needs a reason".to_owned(), "say why, for those who come after you");
        }
        let texts = [Some(&self.code), Some(&self.why), self.culprit.as_ref()];
        if texts.into_iter().flatten().any(|text| text.chars().count() > CHARACTERS) {
            return invalid(format!("a text has more than {CHARACTERS} characters"), "make it shorter");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Role;

    fn second(at: u64) -> Timestamp {
        Timestamp(at * 1_000_000_000)
    }

    fn request(code: &str, culprit: Option<&str>, seconds: u64) -> SilenceRequest {
        SilenceRequest {
            code: code.to_owned(),
            culprit: culprit.map(str::to_owned),
            time: Nanos::from_secs(seconds),
            why: "the disk is being replaced".to_owned(),
        }
    }

    fn alice() -> Operator {
        Operator::new("alice", Role::Operator)
    }

    #[test]
    fn a_silence_ends_at_its_time_or_on_command_and_its_number_is_not_used_again() {
        let mut silences = Silences::default();
        let mut begin = |at, request| silences.begin(second(at), &alice(), request).map(|silence| silence.id);
        assert_eq!(begin(1, request("dead-time", None, 60)), Ok(1));
        assert_eq!(begin(2, request("dead-time", Some("bu0"), 30)), Ok(2));
        assert_eq!(silences.next_end(), Some(second(32)));
        silences.expire(second(31));
        assert_eq!(silences.list().len(), 2);
        silences.expire(second(32));
        assert_eq!(silences.list().iter().map(|silence| silence.id).collect::<Vec<_>>(), [1]);
        assert_eq!(silences.end(1).map(|ended| ended.id), Ok(1));
        assert_eq!(silences.end(1).expect_err("it has ended").code, RefusalCode::NotFound);
        let third = silences.begin(second(40), &alice(), request("loss", None, 60));
        assert_eq!(third.map(|silence| silence.id), Ok(3));
    }

    #[test]
    fn a_silence_of_the_same_alarms_takes_the_place_of_the_first() {
        let mut silences = Silences::default();
        silences.begin(second(1), &alice(), request("dead-time", None, 60)).expect("it is allowed");
        silences.begin(second(5), &alice(), request("dead-time", None, 600)).expect("it is allowed");
        assert_eq!(silences.list().len(), 1);
        assert_eq!(silences.list()[0].until_ms, 605_000);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut silences = Silences::default();
        for (seconds, why) in [(0, "why"), (LONGEST_SILENCE.0 / 1_000_000_000 + 1, "why"), (60, " ")] {
            let request = SilenceRequest { why: why.to_owned(), ..request("loss", None, seconds) };
            let refusal = silences.begin(second(1), &alice(), request).expect_err("it makes no sense");
            assert_eq!(refusal.code, RefusalCode::Invalid);
        }
        let long = SilenceRequest { why: "x".repeat(CHARACTERS + 1), ..request("loss", None, 60) };
        assert!(silences.begin(second(1), &alice(), long).is_err());
        for number in 0..SILENCES {
            let of_node = request("node-silent", Some(&format!("bu{number}")), 60);
            silences.begin(second(1), &alice(), of_node).expect("there is room");
        }
        let refusal = silences.begin(second(1), &alice(), request("loss", None, 60)).expect_err("no room");
        assert_eq!(refusal.code, RefusalCode::State);
        silences
            .begin(second(1), &alice(), request("node-silent", Some("bu3"), 90))
            .expect("it takes a place");
    }
}
