//! "Did you mean ...?"

/// Returns the candidate that `word` is most probably a misspelling of; of equally near ones the first.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any key: not a misspelling of one, and not worth the quadratic work.
    const LONGEST: usize = 64;
    if word.chars().count() > LONGEST {
        return None;
    }
    let near = candidates.into_iter().filter_map(|candidate| {
        let distance = strsim::osa_distance(word, candidate);
        (distance <= (candidate.len() / 3).max(1)).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_recognised_and_other_words_are_not() {
        assert_eq!(nearest("lsots", ["count", "slots"]), Some("slots"));
        assert_eq!(nearest("buffer_byte", ["buffer_events", "buffer_bytes"]), Some("buffer_bytes"));
        assert_eq!(nearest("colour", ["count", "slots"]), None);
        assert_eq!(nearest(&"x".repeat(100_000), ["count"]), None);
    }
}
