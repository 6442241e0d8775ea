//! "Did you mean ...?"

/// The candidate that `word` is most probably a misspelling of. Of equally near ones it is the first.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any key: a misspelling of none, and not worth the quadratic work.
    const LONGEST: usize = 64;
    if word.chars().count() > LONGEST {
        return None;
    }
    let near = candidates.into_iter().filter_map(|candidate| {
        let distance = distance(word, candidate);
        (distance <= (candidate.len() / 3).max(1)).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// How many characters must be inserted, removed, replaced, or exchanged with their neighbour to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // Rows of the usual table: the one before the last, the last, the current one.
    let mut older = vec![0; b.len() + 1];
    let mut old: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = old[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(old[j] + 1).min(row[j - 1] + 1);
            let exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if exchanged {
                row[j] = row[j].min(older[j - 2] + 1);
            }
        }
        older = std::mem::replace(&mut old, row);
    }
    old[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_recognised_and_other_words_are_not() {
        assert_eq!(distance("slots", "slots"), 0);
        assert_eq!(distance("lsots", "slots"), 1);
        assert_eq!(distance("", "slots"), 5);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(nearest("buffer_byte", ["buffer_events", "buffer_bytes"]), Some("buffer_bytes"));
        assert_eq!(nearest("colour", ["count", "slots"]), None);
        assert_eq!(nearest(&"x".repeat(100_000), ["count"]), None);
    }
}
