//! Whether a command printed what its page shows.
//!
//! Numbers differ from run to run and machine to machine, so only words are compared: each line of the page must have its
//! words, in their order, in one line that was printed. A line `...` stands for any number of lines.

/// The first line of the page that nothing printed agrees with.
pub(super) fn first_missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    shown.lines().find(|line| {
        let words: Vec<&str> = words(line).collect();
        !words.is_empty() && !printed.lines().any(|printed| is_within(&words, printed))
    })
}

/// The words of a line that no run changes: those without digits.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_stable = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    line.split_whitespace().filter(is_stable).filter(|word| *word != "...")
}

fn is_within(wanted: &[&str], printed: &str) -> bool {
    let mut printed = printed.split_whitespace();
    wanted.iter().all(|word| printed.any(|other| other == *word))
}
