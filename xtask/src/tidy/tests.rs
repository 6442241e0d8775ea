use super::*;
use std::path::PathBuf;

fn texts(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn white_space_is_found_at_its_line() {
    let found = texts(&white_space("a.md", "good\nblank \nta\tb\r\n"));
    assert_eq!(found, "a.md:2: ends with white space\na.md:3: ends with a carriage return\n");
    assert_eq!(white_space("a.md", "x\n"), []);
    assert_eq!(texts(&white_space("a.md", "x")), "a.md: does not end with one line end\n");
    assert_eq!(texts(&white_space("a.md", "x\n\n")), "a.md: does not end with one line end\n");
    assert_eq!(texts(&white_space("a.rs", "x\ty\n")), "a.rs:1: has a tab\n");
    assert_eq!(white_space("Makefile", "x\ty\n"), []);
}

/// Returns a function with this number of lines.
fn function(name: &str, lines: usize) -> String {
    format!("fn {name}() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
}

#[test]
fn long_functions_are_found_and_long_tests_are_not() {
    let source = format!("//! A.\n{}{}", function("short", 100), function("long", 101));
    let found = texts(&rust::check("crates/a/src/a.rs", &source));
    assert_eq!(found, "crates/a/src/a.rs:102: function long has 101 lines, more than 100: divide it\n");
    let test = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{}}}\n", function("long", 200));
    assert_eq!(rust::check("crates/a/src/a.rs", &test), []);
    assert_eq!(rust::check("crates/a/tests/a.rs", &source), []);
}

#[test]
fn long_files_are_found() {
    let source = format!("//! A.\n{}", "const A: u8 = 1;\n".repeat(600));
    let found = texts(&rust::check("crates/a/tests/a.rs", &source));
    assert_eq!(found, "crates/a/tests/a.rs: has 601 lines, more than 600: divide it\n");
}

#[test]
fn exceptions_only_get_tighter() {
    let long = |_: &str| function("long", 120);
    assert_eq!(rust::idle_exception("a.rs#long", 120, long), None);
    let tighter = rust::idle_exception("a.rs#long", 130, long).expect("it is shorter now");
    assert!(tighter.text.contains("has 120 lines now"), "{tighter}");
    let idle = rust::idle_exception("a.rs#long", 120, |_| function("long", 90)).expect("it is short now");
    assert!(idle.text.contains("no longer needs an exception"), "{idle}");
    assert!(rust::idle_exception("a.rs", 1000, |_| String::new()).is_some());
}

#[test]
fn functions_are_measured_from_signature_to_brace() {
    let source = "trait T {\n    fn without(&self);\n    fn with(&self) {\n        a();\n    }\n}\n\
                  type F = fn(u8) -> u8;\nfn one() {}\n";
    let found = rust::functions(source);
    assert_eq!(found, [("with".to_owned(), 3, 3), ("one".to_owned(), 8, 1)]);
}

#[test]
fn leftovers_and_missing_documentation_are_found() {
    let word = concat!("TO", "DO");
    let source = format!("fn a() {{\n    // {word}: more\n    dbg{}(1);\n}}\n", "!");
    let found = texts(&rust::check("crates/a/src/a.rs", &source));
    for expected in ["a.rs: does not begin with", "a.rs:2: ", "a.rs:3: remove dbg!"] {
        assert!(found.contains(expected), "{expected} not in {found}");
    }
    assert_eq!(rust::check("crates/a/src/a.rs", "#![allow(x)]\n\n//! Documented.\nfn a() {}\n"), []);
}

#[test]
fn broken_links_are_found() {
    let root = workspace::root();
    let page = "[good](STYLE.md) [anchor](STYLE.md#names) [web](https://example.org/x) `[code](no.md)`\n\
                ```\n[fenced](no.md)\n```\n[bad](no.md)\n[bad heading](STYLE.md#no-such)\n[ref]: also-no.md\n";
    let found = texts(&links::check(root, "PAGE.md", page));
    assert_eq!(
        found,
        "PAGE.md:5: links to no.md, which does not exist\n\
         PAGE.md:6: links to STYLE.md#no-such, but that page has no such heading\n\
         PAGE.md:7: links to also-no.md, which does not exist\n"
    );
    let below = "[up](../STYLE.md)\n[not from here](STYLE.md)\n";
    assert_eq!(links::check(root, "docs/PAGE.md", below).len(), 1);
}

#[test]
fn paths_of_the_machine_are_found() {
    let traces = machine::Traces::of(
        std::path::Path::new("/place/sheaf"),
        vec![PathBuf::from("/users/somebody"), PathBuf::from("/"), PathBuf::from("relative")],
    );
    for line in ["see /place/sheaf/README.md", "\"/place/other\"", "PATH=/users/somebody/bin"] {
        assert!(!traces.check("a.md", line).is_empty(), "{line}");
    }
    for line in
        ["see https://example.org/place/sheaf/x", "${ROOT}/users/somebody/x", "../users/", "relative/x"]
    {
        assert_eq!(traces.check("a.md", line), [], "{line}");
    }
}

#[test]
fn registries_are_found() {
    let traces = machine::Traces::of(std::path::Path::new("/place/sheaf"), Vec::new());
    let locked = |registry: &str| format!("source = \"{registry}\"\n");
    assert_eq!(
        traces.check("Cargo.lock", &locked("registry+https://github.com/rust-lang/crates.io-index")),
        []
    );
    assert_eq!(traces.check("Cargo.lock", &locked("registry+https://example.org/index")).len(), 1);
    assert_eq!(traces.check("requirements.txt", concat!("--index", "-url https://example.org")).len(), 1);
}

#[test]
fn an_undeclared_name_is_found_in_the_life_of_an_event() {
    let mut declared = names::Declared::default();
    declared.add("struct Desk; impl Desk { fn judge(&self) {} }");
    let page = "# `nobody`\n## The life of an event\n| 1 | `Desk::judge`, `message_bytes` |\n| 2 | `judged` |\n## Next\n| `no` |\n";
    let problems: Vec<String> = declared.check(page).iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["ARCHITECTURE.md:4: names `judged`, but judged is not declared anywhere"]);
}

#[test]
fn names_of_types_are_made_of_terms_and_plain_words() {
    let vocabulary = types::Vocabulary::new("| **frobnicator** | a **time slot** |");
    let check = |source: &str| texts(&vocabulary.check("crates/a/src/lib.rs", source));
    assert_eq!(check("pub struct FrobnicatorError; pub enum TimeSlots {} struct Gizmo;"), "");
    let found = check("\npub struct GizmoError<T>(T);");
    assert!(found.starts_with("crates/a/src/lib.rs:2: GizmoError: `gizmo` is neither a term"), "{found}");
}

#[test]
fn documentation_does_not_begin_with_a_question_word() {
    let source = "//! How often.\n/// Number of runs.\n    /// What it is.\n// What\n";
    let found = texts(&openings::check("crates/a/src/lib.rs", source));
    assert!(found.starts_with("crates/a/src/lib.rs:1: documentation begins with a verb"), "{found}");
    assert_eq!(found.lines().count(), 2, "{found}");
}

#[test]
fn decision_records_have_numbers_status_and_a_row() {
    let index = "# Decisions\n\n| [0001](0001-a.md) | a |\n| [0002](0002-b.md) | b |\n";
    let good = "# 0001: A\n\n**Status.** Accepted, 2026-01-31.\n";
    let check = |name: &str, text: &str| {
        let mut records = decisions::Records::default();
        records.add("docs/decisions/README.md", index);
        records.add("docs/decisions/0001-a.md", good);
        records.add(name, text);
        texts(&records.check())
    };
    let superseded = "# 0002: B\n\n**Status.** Superseded by [0001](0001-a.md), 2026-01-31.\n";
    assert_eq!(check("docs/decisions/0002-b.md", superseded), "");
    assert!(check("docs/decisions/0003-c.md", superseded).contains("should have the next number, 0002"));
    assert!(check("docs/decisions/0002-c.md", superseded).contains("has no row for 0002-c.md"));
    let undated = superseded.replace("2026-01-31", "lately");
    assert!(check("docs/decisions/0002-b.md", &undated).contains("0002-b.md:3: should be `**Status.**"));
    assert!(check("docs/decisions/0002-b.md", good).contains("0002-b.md:1: should begin with `# 0002: `"));
}
