//! Repeats of messages: one line, and later how often.
//!
//! Messages are of one kind if they have the same code, node, run, source and peer. Within an interval, a kind has each text once, and
//! at most [`TEXTS`] texts. What is held back is counted, and said in one message at the end of the interval. Intervals of a kind that goes
//! on repeating become longer.

use super::message::Message;
use sheaf_telemetry::codes;
use std::collections::BTreeMap;

/// First interval of a kind, in microseconds.
const INTERVAL_US: u64 = 10_000_000;

/// Longest interval of a kind, in microseconds.
const LONGEST_INTERVAL_US: u64 = 600_000_000;

/// Factor by which the intervals of a kind grow that goes on repeating.
const GROWTH: u64 = 4;

/// Texts of a kind in an interval.
const TEXTS: usize = 10;

/// Kinds that are counted apart. All others are of the kind of their code alone, because a stranger can invent peers.
const KINDS: usize = 1_024;

/// Code, node, run, source and peer.
type Key = (String, String, Option<u32>, Option<u32>, Option<String>);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Limiter {
    kinds: BTreeMap<Key, Kind>,
}

#[derive(Debug)]
struct Kind {
    since_us: u64,
    interval_us: u64,
    /// Texts that were let through in this interval.
    texts: Vec<String>,
    held_back: u64,
    /// The last message that was held back, and whether all had the same text.
    last: Option<(Message, bool)>,
}

impl Limiter {
    /// Returns the message if it is to be shown now, behind what was held back of its kind before.
    pub(super) fn take(&mut self, message: Message) -> Vec<Message> {
        // Lines of programs and of the progress have limits of their own.
        if message.code == codes::PROGRAM_OUTPUT.name || message.code == codes::PROGRESS.name {
            return vec![message];
        }
        let mut shown = self.tick(message.time_us);
        let key = self.key(&message);
        let kind = self.kinds.entry(key).or_insert_with(|| Kind::begin(message.time_us, INTERVAL_US));
        if kind.texts.len() < TEXTS && !kind.texts.contains(&message.text) {
            kind.texts.push(message.text.clone());
            shown.push(message);
        } else {
            kind.hold_back(message);
        }
        shown
    }

    /// Ends the intervals that are over at this time, and returns what was held back in them.
    pub(super) fn tick(&mut self, now_us: u64) -> Vec<Message> {
        self.end(now_us, |kind| now_us.saturating_sub(kind.since_us) >= kind.interval_us)
    }

    /// Ends all intervals.
    pub(super) fn end_all(&mut self, now_us: u64) -> Vec<Message> {
        self.end(now_us, |_| true)
    }

    fn end(&mut self, now_us: u64, is_over: impl Fn(&Kind) -> bool) -> Vec<Message> {
        let mut summaries = Vec::new();
        self.kinds.retain(|_, kind| {
            if !is_over(kind) {
                return true;
            }
            let Some(summary) = kind.summary(now_us) else { return false };
            let text = kind.texts.pop();
            *kind = Kind::begin(now_us, (kind.interval_us * GROWTH).min(LONGEST_INTERVAL_US));
            kind.texts.extend(text);
            summaries.push(summary);
            true
        });
        summaries
    }

    fn key(&self, message: &Message) -> Key {
        let code = message.code.clone().into_owned();
        let key = (code.clone(), message.node.clone(), message.run, message.source, message.peer.clone());
        let is_room = self.kinds.len() < KINDS || self.kinds.contains_key(&key);
        if is_room { key } else { (code, String::new(), None, None, None) }
    }
}

impl Kind {
    fn begin(since_us: u64, interval_us: u64) -> Self {
        Self { since_us, interval_us, texts: Vec::new(), held_back: 0, last: None }
    }

    fn hold_back(&mut self, message: Message) {
        let is_same = self.last.as_ref().is_none_or(|(last, is_same)| *is_same && last.text == message.text);
        self.held_back += 1;
        self.last = Some((message, is_same));
    }

    /// Returns one message for all that were held back.
    fn summary(&mut self, now_us: u64) -> Option<Message> {
        let (mut message, is_same) = self.last.take()?;
        let (times, seconds) = (self.held_back, now_us.saturating_sub(self.since_us).div_ceil(1_000_000));
        message.text = if is_same {
            format!("{} (repeated {} in {seconds} s)", message.text, super::plural(times, "time"))
        } else {
            let others = super::plural(times - 1, "other");
            format!("{} (the last of several, with {others} in {seconds} s that are left out)", message.text)
        };
        message.repeated = Some(self.held_back);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Origin;
    use super::*;
    use log::Level;
    use proptest::prelude::*;

    fn message(time_us: u64, source: u32, text: &str) -> Message {
        let origin = Origin { node: "ru0".into(), run: Some(1) };
        let message = Message::new(Level::Warn, "source-error", text, &origin);
        Message { time_us, source: Some(source), ..message }
    }

    #[test]
    fn a_message_that_repeats_is_one_line_and_later_how_often() {
        let mut limiter = Limiter::default();
        let shown: Vec<_> =
            (0..5_000).flat_map(|time| limiter.take(message(time * 1_000, 3, "lost"))).collect();
        assert_eq!(shown.iter().map(|message| &*message.text).collect::<Vec<_>>(), ["lost"]);
        let later = limiter.tick(INTERVAL_US);
        assert_eq!(later.len(), 1);
        assert_eq!(later[0].text, "lost (repeated 4,999 times in 10 s)");
        assert_eq!((later[0].repeated, later[0].source), (Some(4_999), Some(3)));
        assert_eq!(limiter.tick(INTERVAL_US * 100), [], "it did not go on");
        assert_eq!(limiter.take(message(INTERVAL_US * 200, 3, "lost")).len(), 1);
    }

    #[test]
    fn another_culprit_or_another_text_is_another_line() {
        let mut limiter = Limiter::default();
        let shown = [(1, "lost"), (2, "lost"), (1, "late"), (1, "lost")];
        let shown = shown.map(|(source, text)| limiter.take(message(1, source, text)).len());
        assert_eq!(shown, [1, 1, 1, 0]);
    }

    proptest! {
        #![proptest_config(sheaf_wire::property_cases!(64))]
        /// Every message is shown, or counted in one that is.
        #[test]
        fn nothing_is_left_out_without_being_counted(
            steps in prop::collection::vec((0..3_000_000_u64, 0..2_000_u32, 0..30_u8), 0..400),
        ) {
            let mut limiter = Limiter::default();
            let (mut now, mut shown) = (0, Vec::new());
            for (step, source, text) in &steps {
                now += step;
                shown.extend(limiter.take(message(now, *source, &text.to_string())));
                prop_assert!(limiter.kinds.len() <= KINDS + 1);
            }
            shown.extend(limiter.end_all(now));
            let counted: u64 = shown.iter().map(|message| message.repeated.unwrap_or(1)).sum();
            prop_assert_eq!(counted, steps.len() as u64);
        }
    }
}
