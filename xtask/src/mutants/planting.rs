//! Builds all bugs into one program: a function with bugs gets an additional copy of its body for each of them, and a number in the
//! environment selects the body that runs. So the swarm is built once for all bugs instead of once for each.
//!
//! ```text
//! fn f(&self) -> u64 {          fn f(&self) -> u64 {
//!     self.a + 1                    if sheaf_wire::planted_bug(7) { self.a + 2 } else { self.a + 1 }
//! }                             }
//! ```

use super::catalogue::{self, Mutant};
use crate::problem::Problem;
use crate::rust_source::{block_end, code_only, find_word, line_of};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Environment variable with the number of the selected bug.
pub(super) const NUMBER: &str = "SHEAF_PLANTED_BUG";

/// File of the crate that all others depend on; the function that selects a bug is added to it.
pub(super) const VOCABULARY: &str = "crates/sheaf-wire/src/lib.rs";

/// Returns the function that is added to the vocabulary.
pub(super) fn chooser() -> String {
    format!(
        "\n/// Whether the bug with this number is planted.\n#[doc(hidden)]\npub fn planted_bug(number: u32) -> bool {{\n    \
         static CHOSEN: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {{\n        \
         std::env::var({NUMBER:?}).ok().and_then(|text| text.parse().ok()).unwrap_or(0)\n    }});\n    \
         *CHOSEN == number\n}}\n"
    )
}

/// A file with all of its bugs.
#[derive(Debug)]
pub(super) struct Planted {
    pub(super) text: String,
    /// Line numbers, from 1, of the body with each bug.
    pub(super) lines: Vec<(u32, Range<usize>)>,
}

/// Returns a problem for each bug that cannot be planted in the checkout at `root`: its file is missing, or its text does not occur
/// exactly once in the file, or is outside of functions.
pub(super) fn problems(root: &Path, mutants: &[Mutant]) -> Vec<Problem> {
    let attempt = |mutant: &Mutant| {
        let text = std::fs::read_to_string(root.join(&mutant.file))
            .with_context(|| format!("{}: cannot read {}", mutant.name, mutant.file))?;
        plant("", &text, &[(1, mutant)])
    };
    let failed = mutants.iter().filter_map(|mutant| attempt(mutant).err());
    failed.map(|error| Problem::new(catalogue::FOLDER, format!("{error:#}"))).collect()
}

/// Plants numbered bugs in a file of the crate `package`.
pub(super) fn plant(package: &str, text: &str, mutants: &[(u32, &Mutant)]) -> Result<Planted> {
    let code = code_only(text);
    let bodies = bodies(&code);
    let mut by_body: BTreeMap<(usize, usize), Vec<(u32, String)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let place = mutant.place(text)?;
        let around = bodies.iter().filter(|body| body.start < place.start && place.end < body.end);
        let body = around.min_by_key(|body| body.len());
        let body = body.with_context(|| format!("{}: `find` is in no function's body", mutant.name))?;
        let (before, after) = (&text[body.start..place.start], &text[place.end..body.end]);
        let changed = format!("{before}{}{after}", mutant.replace);
        by_body.entry((body.start, body.end)).or_default().push((*number, changed));
    }
    let caller = if package == "sheaf-wire" { "crate" } else { "sheaf_wire" };
    let mut planted = Planted { text: String::with_capacity(text.len() * 2), lines: Vec::new() };
    let mut done = 0;
    for ((start, end), changed) in by_body {
        ensure!(done <= start, "line {}: a function with bugs is inside another one", line_of(text, start));
        planted.text.push_str(&text[done..start]);
        planted.text.push_str("{\n");
        for (number, body) in changed {
            let first = line_of(&planted.text, planted.text.len());
            planted.text.push_str(&format!("if {caller}::planted_bug({number}) {body} else\n"));
            planted.lines.push((number, first..line_of(&planted.text, planted.text.len())));
        }
        planted.text.push_str(&text[start..end]);
        planted.text.push_str("\n}");
        done = end;
    }
    planted.text.push_str(&text[done..]);
    Ok(planted)
}

/// Returns the body of every function, including braces.
fn bodies(code: &str) -> Vec<Range<usize>> {
    let body = |at: usize| {
        let end = block_end(code, at)?;
        let mut brackets = 0_usize;
        let start = code.bytes().enumerate().skip(at).find(|(_, byte)| {
            match byte {
                b'(' | b'[' => brackets += 1,
                b')' | b']' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            brackets == 0 && *byte == b'{'
        });
        Some(start?.0..end)
    };
    find_word(code, "fn").into_iter().filter_map(body).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::catalogue;
    use crate::workspace;

    fn mutant(find: &str, replace: &str) -> Mutant {
        let (name, file, bug) = ("bug".to_owned(), "lib.rs".to_owned(), "It is wrong.".to_owned());
        Mutant { name, file, bug, find: find.to_owned(), replace: replace.to_owned() }
    }

    #[test]
    fn a_body_is_there_once_more_for_each_bug() {
        let text = "fn f() -> u8 {\n    1 + 2\n}\n\nfn g() {}\n";
        let (first, second) = (mutant("1 +", "1 -"), mutant("+ 2", "+ 3"));
        let planted = plant("sheaf-node", text, &[(4, &first), (5, &second)]).expect("both are in f");
        let expected = "fn f() -> u8 {\nif sheaf_wire::planted_bug(4) {\n    1 - 2\n} else\n\
                        if sheaf_wire::planted_bug(5) {\n    1 + 3\n} else\n{\n    1 + 2\n}\n}\n\nfn g() {}\n";
        assert_eq!(planted.text, expected);
        assert_eq!(planted.lines, [(4, 2..5), (5, 5..8)]);
    }

    #[test]
    fn a_bug_outside_of_functions_is_refused() {
        let error = plant("sheaf-node", "const N: u8 = 1;\nfn f() {}\n", &[(1, &mutant("= 1", "= 2"))]);
        assert!(
            error.expect_err("it cannot be chosen at run time").to_string().contains("no function's body")
        );
    }

    /// A list whose texts are gone from the code tries nothing.
    #[test]
    fn every_planted_bug_of_the_list_has_its_place_in_the_code() {
        let mutants = catalogue::read(workspace::root()).expect("the list can be read");
        assert!(mutants.len() >= 60, "there are {} planted bugs", mutants.len());
        let problems: Vec<String> =
            problems(workspace::root(), &mutants).iter().map(Problem::to_string).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_bug_without_its_one_place_is_a_problem_that_names_bug_file_and_count() {
        let folder = std::env::temp_dir().join(format!("sheaf-mutants-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        std::fs::write(folder.join("file.rs"), "fn f() { a(); b(); b(); }\n").expect("a file");
        let named = |name: &str, file: &str, find: &str| Mutant {
            name: name.into(),
            file: file.into(),
            ..mutant(find, "c()")
        };
        let mutants = [
            named("good", "file.rs", "a()"),
            named("twice", "file.rs", "b()"),
            named("gone", "file.rs", "d()"),
            named("moved", "no-such-file.rs", "a()"),
        ];
        let problems: Vec<String> = problems(&folder, &mutants).iter().map(Problem::to_string).collect();
        std::fs::remove_dir_all(&folder).expect("it can be removed");
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(
            problems[..2],
            [
                "xtask/mutants: twice: `find` must occur once in file.rs, but occurs 2 times",
                "xtask/mutants: gone: `find` must occur once in file.rs, but occurs 0 times",
            ]
        );
        assert!(
            problems[2].starts_with("xtask/mutants: moved: cannot read no-such-file.rs: "),
            "{problems:?}"
        );
    }
}
