//! Numbers that are taken, and the text of a file.

/// Largest magnitude of a value. Numbers over time have single precision, which has room for it.
pub(crate) const MOST_MAGNITUDE: f64 = 1e30;

/// Most bytes of a file with a number.
pub(crate) const MOST_FILE_BYTES: u64 = 256;

/// Returns whether a number can be a value.
pub(crate) fn is_taken(value: f64) -> bool {
    value.is_finite() && value.abs() <= MOST_MAGNITUDE
}

/// Reads the number in the content of a file: one number, and a line feed. Without the line feed it may be half-written.
///
/// # Errors
/// Why it is not taken.
pub(crate) fn parse(content: &[u8]) -> Result<f64, String> {
    if content.is_empty() {
        return Err("the file is empty".into());
    }
    if content.len() as u64 > MOST_FILE_BYTES {
        return Err(format!("the file has more than {MOST_FILE_BYTES} bytes: it should have one number"));
    }
    let Some(line) = content.strip_suffix(b"\n") else {
        return Err("the file does not end with a line feed: it may be half-written".into());
    };
    let text = std::str::from_utf8(line).map(str::trim).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(value) if is_taken(value) => Ok(value),
        Ok(value) => Err(format!("the file has {value}, which is no number of at most {MOST_MAGNITUDE:e}")),
        Err(_) => {
            let shown: String = String::from_utf8_lossy(line).chars().take(40).collect();
            Err(format!("the file has {shown:?}, which is not one number"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_has_one_number_and_a_line_feed() {
        assert_eq!(parse(b"1500.25\n"), Ok(1500.25));
        assert_eq!(parse(b" -3e-2 \r\n"), Ok(-0.03));
        assert_eq!(parse(b"0\n\n"), Ok(0.0));
        for (content, why) in [
            (&b""[..], "empty"),
            (b"1500", "half-written"),
            (b"\n", "not one number"),
            (b"1500 V\n", "\"1500 V\""),
            (b"nan\n", "NaN"),
            (b"inf\n", "inf"),
            (b"1e308\n", "at most 1e30"),
            (b"1e999\n", "inf"),
            (b"12\n34\n", "not one number"),
            (b"\xff\xfe\n", "not one number"),
            (&[b'1'; 300], "more than 256 bytes"),
        ] {
            let error = parse(content).expect_err("it is no number");
            assert!(error.contains(why), "{content:?}: {error}");
        }
    }

    proptest! {
        /// Whatever a file has, it gives a value that can be kept, or a reason of a few words.
        #[test]
        fn any_content_gives_a_value_or_a_short_reason(content in proptest::collection::vec(any::<u8>(), 0..600)) {
            match parse(&content) {
                Ok(value) => prop_assert!(is_taken(value)),
                Err(why) => prop_assert!(!why.is_empty() && why.len() < 400),
            }
        }

        #[test]
        fn each_number_is_read_as_it_was_written(value in -1e30..1e30_f64) {
            prop_assert_eq!(parse(format!("{value:?}\n").as_bytes()), Ok(value));
            // A part of it is never taken for the whole.
            let text = format!("{value:?}");
            for end in 0..=text.len() {
                prop_assert!(parse(&text.as_bytes()[..end]).is_err());
            }
        }
    }
}
