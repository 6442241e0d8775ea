//! A state of a run as text for a terminal.

use crate::console::{count, count_f64};
use crate::ctl::alarms::folded_under;
use ::console::{Style, StyledObject, truncate_str};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Instant;

/// Most alarms that have ended of which each has a line.
const PAST_ALARMS: usize = 4;

/// Age of the values from which on they are not those of now.
const OLD_MS: u64 = 3_000;

/// Sources in trouble that are shown.
const SOURCES: usize = 10;

/// Moves the cursor to the upper left corner.
const HOME: &str = "\x1b[H";

/// Clears the rest of a line, and the rest of the screen.
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// A state, and when it was received.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) state: Value,
    pub(super) at: Instant,
}

impl Sample {
    /// Returns whether rates can change.
    pub(super) fn is_in_progress(&self) -> bool {
        !matches!(text(&self.state["run"]["phase"]), "none" | "closed")
    }
}

/// The latest state of a run, with the one before it, from which rates follow.
pub(super) struct Frame<'a> {
    pub(super) url: &'a str,
    pub(super) before: Option<&'a Sample>,
    pub(super) latest: &'a Sample,
    pub(super) now: Instant,
}

impl Frame<'_> {
    /// Returns what a terminal with this number of rows and columns is to show, in place of what it shows.
    pub(super) fn screen(&self, (rows, columns): (usize, usize)) -> String {
        let text = self.text();
        let lines: Vec<_> = text.lines().collect();
        let mut screen = HOME.to_owned();
        // The last row stays free: a line feed in it would move the picture.
        for line in lines.iter().take(rows.saturating_sub(1)) {
            let _ = write!(screen, "{}{REST_OF_LINE}\r\n", truncate_str(line, columns, "…"));
        }
        screen.push_str(REST_OF_SCREEN);
        screen
    }

    /// Returns the whole text.
    pub(super) fn text(&self) -> String {
        let mut lines = Lines::default();
        self.header(&mut lines);
        self.rates(&mut lines);
        self.books(&mut lines);
        self.dead_time(&mut lines);
        self.alarms(&mut lines);
        self.nodes(&mut lines);
        self.sources(&mut lines);
        lines.0
    }

    fn state(&self) -> &Value {
        &self.latest.state
    }

    fn header(&self, lines: &mut Lines) {
        let run = &self.state()["run"];
        let name = run["number"].as_u64().map_or("no run".to_owned(), |number| format!("run {number}"));
        let phase = text(&run["phase"]);
        let style = match phase {
            "running" => Style::new().green(),
            "paused" | "finishing" | "closing" => Style::new().yellow(),
            _ => Style::new(),
        };
        let seconds = run["seconds"].as_f64().unwrap_or(0.0);
        let age_ms =
            self.now.duration_since(self.latest.at).as_millis() + u128::from(number(&self.state()["age_ms"]));
        let age = if !self.latest.is_in_progress() {
            bold("ended")
        } else if age_ms < u128::from(OLD_MS) {
            bold("now")
        } else {
            Style::new().red().bold().apply_to("OLD")
        };
        #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
        let age_s = age_ms as f64 / 1e3;
        lines.add(&format!(
            "{}  {}  {}  {age} ({age_s:.1} s)  {}",
            bold(&name),
            style.apply_to(phase),
            clock(seconds),
            self.url
        ));
        if let Some(waits_for) = run["waits_for"].as_str() {
            lines.row("waits for", waits_for.strip_prefix("waiting for ").unwrap_or(waits_for));
        }
        if let Some(good) = run["verdict"]["good"].as_bool() {
            let verdict = if good {
                Style::new().green().apply_to("good")
            } else {
                Style::new().red().apply_to("NOT GOOD")
            };
            lines.row("result", &verdict.to_string());
        }
    }

    /// Rates between the two states, if they are of the same run.
    fn rates(&self, lines: &mut Lines) {
        let state = self.state();
        let Some(before) = self.before.map(|before| &before.state).filter(|_| self.latest.is_in_progress())
        else {
            return;
        };
        let milliseconds = number(&state["time_ms"]).saturating_sub(number(&before["time_ms"]));
        if before["run"]["number"] != state["run"]["number"] || milliseconds == 0 {
            return;
        }
        let rate =
            |read: &dyn Fn(&Value) -> u64| per_second(read(state).saturating_sub(read(before)), milliseconds);
        let events = rate(&|state| ended(state));
        let triggers = rate(&|state| number(&state["triggers"]["offered"]));
        let bytes = rate(&|state| number(&state["events"]["bytes"]));
        let (events, triggers) = (count_f64(events), count_f64(triggers));
        lines.row("rate", &format!("{events} events/s, {:.1} MB/s, {triggers} triggers/s", bytes / 1e6));
    }

    fn books(&self, lines: &mut Lines) {
        let state = self.state();
        let (triggers, events) = (&state["triggers"], &state["events"]);
        let shown = |value: &Value| count(number(value));
        lines.row(
            "triggers",
            &format!("{} accepted, {} vetoed", shown(&triggers["accepted"]), shown(&triggers["vetoed"])),
        );
        let bins = ["stored", "rejected", "dropped", "in_flight", "incomplete"];
        let bins = bins.map(|bin| format!("{} {}", shown(&events[bin]), bin.replace('_', " ")));
        lines.row("events", &bins.join(", "));
        let fragments = &state["fragments"];
        let bins = ["received", "stored", "rejected", "dropped", "in_flight"];
        let bins = bins.map(|bin| format!("{} {}", shown(&fragments[bin]), bin.replace('_', " ")));
        lines.row("fragments", &bins.join(", "));
        for what in ["events", "fragments"] {
            for drop in list(&state[what]["drops"]).filter(|drop| drop["account"] == "loss") {
                let lost = format!("{} {what}: {}", shown(&drop["count"]), text(&drop["reason"]));
                lines.row("lost", &Style::new().red().apply_to(lost).to_string());
            }
        }
    }

    fn dead_time(&self, lines: &mut Lines) {
        let dead_time = &self.state()["dead_time"];
        let (live, dead) = (seconds(&dead_time["live_seconds"]), seconds(&dead_time["dead_seconds"]));
        if live + dead <= 0.0 {
            return;
        }
        let share = |seconds: f64| 100.0 * seconds / (live + dead);
        lines.row("live", &format!("{:.2} %", share(live)));
        for cause in list(&dead_time["causes"]) {
            let mut line = format!("{:.2} % {}", share(seconds(&cause["seconds"])), text(&cause["text"]));
            for culprit in list(&cause["culprits"]) {
                let _ =
                    write!(line, ", {} {:.2} %", text(&culprit["node"]), share(seconds(&culprit["seconds"])));
            }
            lines.row("dead", &line);
        }
        let shut = &dead_time["now"];
        if let Some(cause) = shut["cause"].as_str() {
            let culprit = shut["culprit"].as_str().map_or_else(String::new, |node| format!(" ({node})"));
            lines.row("dead now", &Style::new().yellow().apply_to(format!("{cause}{culprit}")).to_string());
        }
    }

    fn alarms(&self, lines: &mut Lines) {
        for alarm in list(&self.state()["alarms"]) {
            let style = if alarm["severity"] == "error" { Style::new().red() } else { Style::new().yellow() };
            let label = style.apply_to(text(&alarm["severity"]).to_uppercase());
            lines.add(&format!("{label}  {}", style.apply_to(text(&alarm["text"]))));
            lines.add(&format!("  {}", text(&alarm["remedy"])));
            let folded = folded_under(alarm);
            if !folded.is_empty() {
                lines.add(&format!("  stands for {}", folded.join(", ")));
            }
            if let Some(by) = alarm["silence"]["by"].as_str() {
                lines.add(&format!("  silenced by {by}: {}", text(&alarm["silence"]["why"])));
            }
        }
        for alarm in list(&self.state()["past_alarms"]).take(PAST_ALARMS) {
            let ago_s = number(&self.state()["time_ms"]).saturating_sub(number(&alarm["ended_ms"])) / 1_000;
            lines.add(&format!("ended {ago_s} s ago  {}", text(&alarm["text"])));
        }
    }

    fn nodes(&self, lines: &mut Lines) {
        let nodes: Vec<_> = list(&self.state()["nodes"]).collect();
        if nodes.is_empty() {
            return;
        }
        lines.add("");
        lines.add(
            &bold(&format!(
                "{:<16}{:<10}{:>8}{:>10}{:>10}{:>10}",
                "node", "state", "age", "buffer", "slots", "restarts"
            ))
            .to_string(),
        );
        for node in nodes {
            let fill = |name: &str| {
                let (value, limit) =
                    (number(&node["fill"][name]["value"]), number(&node["fill"][name]["limit"]));
                if limit == 0 { String::new() } else { format!("{:.0} %", percent(value, limit)) }
            };
            let state =
                match (node["up"].as_bool(), node["output_failing"].as_bool(), node["age_ms"].is_null()) {
                    _ if node["excluded"] == true => "excluded",
                    (_, _, true) => "expected",
                    (Some(false), ..) => "ended",
                    (_, Some(true), _) => "no output",
                    _ => "up",
                };
            let age =
                node["age_ms"].as_u64().map_or_else(String::new, |age| format!("{:.1} s", seconds_of(age)));
            let place = node["agent"].as_str().map_or_else(String::new, |agent| format!("  by {agent}"));
            lines.add(&format!(
                "{:<16}{state:<10}{age:>8}{:>10}{:>10}{:>10}{place}",
                text(&node["name"]),
                fill("buffer"),
                fill("slots"),
                number(&node["restarts"])
            ));
        }
    }

    fn sources(&self, lines: &mut Lines) {
        let sources: Vec<_> = list(&self.state()["sources"]).collect();
        if sources.is_empty() {
            return;
        }
        lines.add("");
        lines.add(&bold("sources in trouble").to_string());
        for source in sources.iter().take(SOURCES) {
            let name = source["name"].as_str().map_or_else(String::new, |name| format!(" ({name})"));
            let mut line = format!("{}{name} of {}", number(&source["source"]), text(&source["node"]));
            if let Some(age) = source["last_seen_seconds"].as_f64() {
                let _ = write!(line, ", last fragment {age:.1} s ago");
            }
            for missing in list(&source["missing"]) {
                let _ = write!(
                    line,
                    ", {} events without it: {}",
                    count(number(&missing["events"])),
                    text(&missing["reason"])
                );
            }
            lines.add(&line);
        }
        if sources.len() > SOURCES {
            lines.add(&format!("and {} more", sources.len() - SOURCES));
        }
    }
}

/// Lines that are added one by one.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn row(&mut self, label: &str, value: &str) {
        self.add(&format!("{label:<16}{value}"));
    }
}

fn bold(text: &str) -> StyledObject<&str> {
    Style::new().bold().apply_to(text)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the number of events that have ended.
fn ended(state: &Value) -> u64 {
    ["stored", "rejected", "dropped"].iter().map(|bin| number(&state["events"][*bin])).sum()
}

#[expect(clippy::cast_precision_loss, reason = "rates are shown without digits")]
fn per_second(amount: u64, milliseconds: u64) -> f64 {
    amount as f64 * 1e3 / milliseconds as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown without digits")]
fn percent(value: u64, limit: u64) -> f64 {
    100.0 * value as f64 / limit as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn seconds_of(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1e3
}

/// Returns a duration as hours, minutes and seconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a run lasts less than 2^64 s")]
fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    format!("{}:{:02}:{:02}", whole / 3_600, whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(time_ms: u64, stored: u64) -> Sample {
        let state = json!({
            "time_ms": time_ms, "age_ms": 100,
            "run": { "number": 7, "phase": "running", "seconds": 3725.5 },
            "triggers": { "offered": stored + 10, "accepted": stored + 5, "vetoed": 5 },
            "events": { "stored": stored, "rejected": 0, "dropped": 2, "in_flight": 3, "incomplete": 1, "bytes": 1000 * stored,
                "drops": [{ "reason": "stopped", "count": 2, "account": "loss" }] },
            "fragments": { "received": 1, "drops": [] },
            "dead_time": { "live_seconds": 75.0, "dead_seconds": 25.0, "now": { "cause": "output", "culprit": "bu1" },
                "causes": [{ "text": "the output of builders is behind", "seconds": 25.0, "culprits": [{ "node": "bu1", "seconds": 20.0 }] }] },
            "alarms": [{ "severity": "error", "text": "bu1 has no room", "remedy": "look at the disk" }],
            "nodes": [{ "name": "bu1", "up": true, "age_ms": 100, "restarts": 1, "output_failing": true, "agent": "daq2:7400",
                "fill": { "slots": { "value": 3, "limit": 4 } } }],
            "sources": [{ "source": 17, "name": "ecal-3", "node": "ru2", "last_seen_seconds": 7.25,
                "missing": [{ "events": 1234, "reason": "source_silent" }] }],
        });
        Sample { state, at: Instant::now() }
    }

    fn text_of(before: Option<&Sample>, latest: &Sample) -> String {
        let frame = Frame { url: "http://here", before, latest, now: latest.at };
        ::console::strip_ansi_codes(&frame.text()).into_owned()
    }

    #[test]
    fn a_state_has_its_rates_books_dead_time_and_remedies() {
        let found = text_of(Some(&sample(1_000, 1_000)), &sample(3_000, 41_000));
        for line in [
            "run 7  running  1:02:05  now (0.1 s)  http://here",
            "rate            20,000 events/s, 20.0 MB/s, 20,000 triggers/s",
            "triggers        41,005 accepted, 5 vetoed",
            "events          41,000 stored, 0 rejected, 2 dropped, 3 in flight, 1 incomplete",
            "lost            2 events: stopped",
            "live            75.00 %",
            "dead            25.00 % the output of builders is behind, bu1 20.00 %",
            "dead now        output (bu1)",
            "ERROR  bu1 has no room",
            "  look at the disk",
            "bu1             no output    0.1 s                75 %         1  by daq2:7400",
            "17 (ecal-3) of ru2, last fragment 7.2 s ago, 1,234 events without it: source_silent",
        ] {
            assert!(found.lines().any(|found| found == line), "{line}\nis not in\n{found}");
        }
    }

    #[test]
    fn another_run_has_no_rate_with_the_one_before() {
        let mut before = sample(1_000, 1_000);
        before.state["run"]["number"] = json!(6);
        assert!(!text_of(Some(&before), &sample(3_000, 10)).contains("rate"));
        assert!(!text_of(None, &sample(3_000, 10)).contains("rate"));
    }

    #[test]
    fn a_state_that_is_not_of_now_says_so() {
        let mut old = sample(1_000, 1);
        old.state["age_ms"] = json!(5_000);
        assert!(text_of(None, &old).contains("OLD (5.0 s)"));
        old.state["run"]["phase"] = json!("closed");
        assert!(text_of(None, &old).contains("ended"));
    }

    #[test]
    fn a_screen_has_no_more_rows_and_columns_than_the_terminal() {
        let sample = sample(1_000, 1);
        let frame = Frame { url: "http://here", before: None, latest: &sample, now: sample.at };
        for (rows, columns) in [(5, 20), (24, 80), (100, 300), (1, 1)] {
            let screen = frame.screen((rows, columns));
            let plain = ::console::strip_ansi_codes(&screen);
            assert!(plain.lines().count() < rows.max(2), "{rows} x {columns}:\n{plain}");
            assert!(
                plain.lines().all(|line| ::console::measure_text_width(line) <= columns),
                "{columns}:\n{plain}"
            );
        }
    }

    #[test]
    fn a_state_without_a_run_is_a_line() {
        let state = json!({ "run": { "number": null, "phase": "none" }, "nodes": [] });
        let found = text_of(None, &Sample { state, at: Instant::now() });
        assert!(found.starts_with("no run  none  0:00:00"), "{found}");
    }
}
