use super::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Begins the generated part of the page about problems. The rest of the page is written by hand.
const BEGIN: &str = "<!-- The rest of this page is generated from the code: UPDATE_DOCS=1 cargo test -p sheaf-telemetry -->\n";

/// Returns the generated part of the page.
fn entries() -> String {
    let mut page = String::from(BEGIN);
    for (section, codes) in ALL {
        let _ =
            writeln!(page, "\n### {section}\n\n| code | severity | meaning | remedy |\n|---|---|---|---|");
        for Code { name, severity, title, remedy } in *codes {
            let severity = severity.name();
            let _ = writeln!(page, "| <a id=\"{name}\"></a>`{name}` | {severity} | {title} | {remedy} |");
        }
    }
    page
}

#[test]
fn each_code_has_its_entry_in_troubleshooting_and_each_entry_its_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/troubleshooting.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    let (by_hand, found) = page.split_once(BEGIN).expect("the page has a generated part");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{by_hand}{}", entries())).expect("the page can be written");
        return;
    }
    let found = format!("{BEGIN}{found}");
    assert_eq!(found, entries(), "run UPDATE_DOCS=1 cargo test -p sheaf-telemetry");
}

#[test]
fn codes_are_unique_names_with_a_meaning_and_troubles_have_a_remedy() {
    let mut names = BTreeSet::new();
    for code in ALL.iter().flat_map(|(_, codes)| *codes) {
        assert!(names.insert(code.name), "{} is declared twice", code.name);
        let is_plain = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        assert!(code.name.chars().all(is_plain), "{}", code.name);
        assert!(code.title.ends_with('.') && code.title.len() > 10, "{}", code.name);
        assert_eq!(code.remedy.is_empty(), code.severity == Severity::Info, "{}", code.name);
        assert!(code.remedy.is_empty() || code.remedy.ends_with('.'), "{}", code.name);
        assert_eq!(find(code.name), Some(*code));
    }
    assert_eq!(find("no-such-code"), None);
}
