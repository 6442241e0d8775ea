//! The findings as a table.

use crate::console::plural;
use sheaf_machine::doctor::{Finding, Remedy, Severity};
use std::fmt::Write as _;

/// Number of columns in a line. Longer text continues in the next line.
const WIDTH: usize = 110;

/// The findings, group by group; settings that are OK only with `all`.
pub(super) fn table(findings: &[Finding], all: bool, configured: bool) -> String {
    let mut text = String::new();
    let mut group = None;
    for finding in findings.iter().filter(|finding| all || is_shown(finding)) {
        if group.replace(finding.group) != Some(finding.group) {
            let _ = writeln!(text, "{}{}", if text.is_empty() { "" } else { "\n" }, finding.group);
        }
        one(&mut text, finding);
    }
    if !text.is_empty() {
        text.push('\n');
    }
    summary(&mut text, findings, all, configured);
    text
}

/// Returns whether a finding is shown without `--all`: it costs something, or is unknown.
fn is_shown(finding: &Finding) -> bool {
    finding.severity >= Severity::Unknown
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "ok",
        Severity::Note => "note",
        Severity::Unknown => "unknown",
        Severity::Warning => "warning",
        Severity::Problem => "PROBLEM",
    }
}

fn one(text: &mut String, finding: &Finding) {
    let Finding { key, severity, value, source, cost, remedy, .. } = finding;
    let value = if *severity == Severity::Unknown { "" } else { value.as_str() };
    let line = format!("  {:<8} {key:<24} {value}", word(*severity));
    let _ = writeln!(text, "{}", line.trim_end());
    let mut detail = |label: &str, words: &str| {
        let mut label = label;
        for line in wrapped(words, WIDTH - 20) {
            let _ = writeln!(text, "           {label:<7}  {line}");
            label = "";
        }
    };
    if !cost.is_empty() {
        detail(if *severity >= Severity::Warning { "costs" } else { "why" }, cost);
    }
    match remedy {
        // A command is never broken into lines, so that it can be copied.
        Some(Remedy::Command(command)) => {
            let _ = writeln!(text, "           {:<7}  {command}", "change");
        }
        Some(Remedy::Advice(advice)) => detail("advice", advice),
        None => {}
    }
    if *severity >= Severity::Unknown {
        let _ = writeln!(text, "           {:<7}  {source}", "read");
    }
}

/// `text` in lines of at most `width` characters, broken at blanks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn summary(text: &mut String, findings: &[Finding], all: bool, configured: bool) {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let counts = [
        (Severity::Problem, "problem"),
        (Severity::Warning, "warning"),
        (Severity::Unknown, "unknown"),
        (Severity::Note, "note"),
        (Severity::Good, "OK"),
    ];
    let counts: Vec<String> =
        counts.into_iter().map(|(severity, what)| counted(count(severity), what)).collect();
    let _ = writeln!(text, "{}", counts.join(", "));
    let hidden = count(Severity::Good) + count(Severity::Note);
    if !all && hidden > 0 {
        let _ = writeln!(
            text,
            "--all also shows {}; --json prints everything",
            plural(hidden as u64, "hidden setting")
        );
    }
    if !configured {
        text.push_str("--config FILE checks the host against the needs of a run\n");
    }
    let can_be_applied =
        |finding: &&Finding| is_shown(finding) && matches!(finding.remedy, Some(Remedy::Command(_)));
    if let Some(finding) = findings.iter().find(can_be_applied) {
        let _ = writeln!(
            text,
            "nothing was changed; `sheaf doctor --apply {}` (as root) would run that command",
            finding.key
        );
    }
}

/// A number of findings: nouns have a plural, adjectives have none.
fn counted(value: usize, what: &str) -> String {
    match what {
        "unknown" | "OK" => format!("{value} {what}"),
        noun => plural(value as u64, noun),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_machine::doctor::Group;

    fn finding(key: &str, severity: Severity) -> Finding {
        Finding {
            group: Group::Network,
            key: key.to_owned(),
            severity,
            value: "7".to_owned(),
            source: "/proc/seven".to_owned(),
            cost: "words ".repeat(60),
            remedy: Some(Remedy::Command("sysctl -w seven=8".to_owned())),
        }
    }

    #[test]
    fn what_is_good_is_shown_only_when_asked_for() {
        let findings = [finding("a.good", Severity::Good), finding("a.bad", Severity::Warning)];
        let short = table(&findings, false, true);
        assert!(short.contains("a.bad") && short.contains("--all also shows 1 hidden setting;"), "{short}");
        assert!(!short.contains("a.good"), "{short}");
        let long = table(&findings, true, true);
        assert!(long.contains("a.good") && long.contains("a.bad") && !long.contains("--all"), "{long}");
    }

    #[test]
    fn lines_fit_a_terminal_and_commands_are_whole() {
        let text = table(&[finding("a.bad", Severity::Problem)], false, false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("change   sysctl -w seven=8\n"), "{text}");
    }
}
