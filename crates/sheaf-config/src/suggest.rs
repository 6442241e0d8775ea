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

/// Units at the end of keys.
const UNITS: [&str; 8] = ["_fs", "_ps", "_ns", "_us", "_ms", "_s", "_hz", "_bytes"];

/// Returns the candidate that differs from `word` in the unit at its end only.
pub(crate) fn other_unit<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates.into_iter().find(|candidate| stem(candidate) == stem(word))
}

/// Returns a key without the unit at its end.
fn stem(key: &str) -> &str {
    UNITS.iter().find_map(|unit| key.strip_suffix(unit)).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_another_unit_is_recognised() {
        assert_eq!(other_unit("tick_ps", ["offset", "tick"]), Some("tick"));
        assert_eq!(other_unit("wait_us", ["wait", "wait_ms"]), Some("wait"));
        assert_eq!(other_unit("slice", ["wait_ms", "slice_us"]), Some("slice_us"));
        assert_eq!(other_unit("wait_x", ["wait"]), None);
    }

    #[test]
    fn slips_of_the_finger_are_recognised_and_other_words_are_not() {
        assert_eq!(nearest("lsots", ["count", "slots"]), Some("slots"));
        assert_eq!(nearest("buffer_byte", ["buffer_events", "buffer_bytes"]), Some("buffer_bytes"));
        assert_eq!(nearest("colour", ["count", "slots"]), None);
        assert_eq!(nearest(&"x".repeat(100_000), ["count"]), None);
    }
}
