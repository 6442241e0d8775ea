//! Comparison of the output of a command with its page.
//!
//! Numbers differ between runs and machines, so only words are compared: the words of each line of the page must occur, in their
//! order, in one printed line. A line `...` stands for any number of lines.

/// Returns the first line of the page that matches no printed line.
pub(super) fn first_missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    shown.lines().find(|line| {
        let words: Vec<&str> = words(line).collect();
        !words.is_empty() && !printed.lines().any(|printed| is_within(&words, printed))
    })
}

/// Returns the words of a line without digits, which are the same in every run.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_stable = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    line.split_whitespace().filter(is_stable).filter(|word| *word != "...")
}

fn is_within(wanted: &[&str], printed: &str) -> bool {
    let mut printed = printed.split_whitespace();
    wanted.iter().all(|word| printed.any(|other| other == *word))
}
