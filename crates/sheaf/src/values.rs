//! Values of command-line arguments.

use sheaf_config::{SourceListError, expand_source_list, source_range};
use sheaf_wire::ByteCount;
use sheaf_wire::spool_link::SourceRanges;
use std::ops::RangeInclusive;

/// Reason for which the text of an argument is not a valid value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("must be {0} > 0")]
    NotPositive(&'static str),
    #[error("must be {0} >= 0")]
    Negative(&'static str),
    #[error("must be {what} from {from} to {to}")]
    OutOfRange { what: &'static str, from: f64, to: f64 },
    #[error("must be a size from 0 to 256Mi, such as 2048 or 2Ki")]
    Size,
    #[error("must be a size, such as 200GiB, 512MiB or 1000000")]
    Bytes,
    #[error("must be sources as numbers and ranges, such as 1-4,0x2100")]
    Sources,
    #[error(transparent)]
    SourceList(#[from] SourceListError),
    #[error("must be 1 to 64 letters, digits, `-` or `_`")]
    Name,
    #[error("must be one of {0}")]
    Choice(String),
    #[error("must be two numbers > 0, such as {0}")]
    Pair(&'static str),
    #[error("must be at least one trigger in at least a nanosecond")]
    Bucket,
    #[error("must be HOST:PORT, such as daq0:7300 or [::1]:7300")]
    Address,
}

/// Reads a finite number greater than zero.
pub(crate) fn positive(text: &str, what: &'static str) -> Result<f64, ValueError> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or(ValueError::NotPositive(what))
}

/// Reads a finite number that is not negative.
pub(crate) fn not_negative(text: &str, what: &'static str) -> Result<f64, ValueError> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or(ValueError::Negative(what))
}

/// Reads a number within a range.
pub(crate) fn within(text: &str, range: RangeInclusive<f64>, what: &'static str) -> Result<f64, ValueError> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or(ValueError::OutOfRange { what, from: *range.start(), to: *range.end() })
}

/// Reads a number of bytes with a unit, such as `200GiB`.
pub(crate) fn bytes(text: &str) -> Result<ByteCount, ValueError> {
    let units =
        ["Ki", "Mi", "Gi", "Ti"].into_iter().zip([10, 20, 30, 40]).map(|(unit, bits)| (unit, 1 << bits));
    let units = units.chain([("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)]);
    let text = text.trim();
    let text = text.strip_suffix('B').unwrap_or(text);
    let cut = |(unit, factor): (&str, u64)| Some((text.strip_suffix(unit)?, factor));
    let (digits, factor) = units.into_iter().find_map(cut).unwrap_or((text, 1));
    let size = digits.trim_end().parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.map(ByteCount).ok_or(ValueError::Bytes)
}

/// Reads a whole number with a unit of time, such as `30m`. Returns the number, and the seconds of its unit.
pub(crate) fn number_of_units(text: &str) -> Option<(u64, u64)> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?.parse().ok()?, seconds)))
}

/// Reads sources as numbers and ranges, such as `1-4,7`, lists of them in files, such as `@sources.txt`, and those that are left out, such as `!17`, of all others if there are none.
pub(crate) fn sources(text: &str) -> Result<SourceRanges, ValueError> {
    let text = if text.contains('@') { expand_source_list(text)? } else { text.to_owned() };
    let (mut wanted, mut left_out) = (Vec::new(), Vec::new());
    for word in text.split(',').map(str::trim) {
        match word.strip_prefix('!') {
            Some(word) => left_out.push(source_range(word).ok_or(ValueError::Sources)?),
            None => wanted.push(source_range(word).ok_or(ValueError::Sources)?),
        }
    }
    if wanted.is_empty() {
        wanted.push(0..=u32::MAX);
    }
    let ranges = left_out.iter().fold(wanted, without);
    // No ranges would stand for all sources.
    if ranges.is_empty() { Err(ValueError::Sources) } else { Ok(ranges) }
}

/// Returns ranges without the numbers of another one.
fn without(ranges: SourceRanges, other: &RangeInclusive<u32>) -> SourceRanges {
    let parts = |range: RangeInclusive<u32>| {
        let before = other.start().checked_sub(1).map(|end| *range.start()..=end.min(*range.end()));
        let after = other.end().checked_add(1).map(|start| start.max(*range.start())..=*range.end());
        [before, after].into_iter().flatten().filter(|part| part.start() <= part.end())
    };
    ranges.into_iter().flat_map(parts).collect()
}

/// Checks that a text has a host and a port. The host is resolved later.
pub(crate) fn host_and_port(text: &str) -> Result<String, ValueError> {
    let has_both =
        |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok_and(|it| it > 0);
    text.rsplit_once(':').is_some_and(has_both).then(|| text.to_owned()).ok_or(ValueError::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for text in ["daq0:7300", "127.0.0.1:1", "[::1]:65535"] {
            assert_eq!(host_and_port(text), Ok(text.to_owned()));
        }
        for text in ["", "nowhere", "7300", ":7300", "daq0:", "daq0:0", "daq0:65536", "daq0:http", "[::1]"] {
            assert_eq!(host_and_port(text), Err(ValueError::Address), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, size) in
            [("7", 7), ("2KiB", 2048), ("3Mi", 3 << 20), ("200 GiB", 200 << 30), ("1TB", 1_000_000_000_000)]
        {
            assert_eq!(bytes(text), Ok(ByteCount(size)), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5G", "1PB", "99999999TiB", "2 KiB more"] {
            assert_eq!(bytes(text), Err(ValueError::Bytes), "{text}");
        }
    }

    #[test]
    fn sources_are_numbers_and_ranges() {
        assert_eq!(sources("1-4, 7"), Ok(vec![1..=4, 7..=7]));
        assert_eq!(sources("1-9,!3-4, !9,20"), Ok(vec![1..=2, 5..=8, 20..=20]));
        assert_eq!(sources("!0,!17"), Ok(vec![1..=16, 18..=u32::MAX]));
        assert_eq!(sources("!4294967295"), Ok(vec![0..=u32::MAX - 1]));
        assert_eq!(sources("0x2100-0x21ff,0x21000517"), Ok(vec![0x2100..=0x21ff, 0x2100_0517..=0x2100_0517]));
        for text in ["3,!1-5", "!", "!!3", "", "4-1", "a", "1,,2", "1-2-3", "-1", "4294967296"] {
            assert_eq!(sources(text), Err(ValueError::Sources), "{text}");
        }
    }

    #[test]
    fn sources_may_be_listed_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        std::fs::write(file.path(), "808432835 # DOM 7\n10-12\n").unwrap();
        assert_eq!(sources(&format!("1,@{path}")), Ok(vec![1..=1, 808_432_835..=808_432_835, 10..=12]));
        assert_eq!(sources(&format!("10-12,20,!@{path}")), Ok(vec![20..=20]));
        std::fs::write(file.path(), "7\nseven\n").unwrap();
        let error = sources(&format!("@{path}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}:2: \"seven\" is no id")), "{error}");
    }

    #[test]
    fn numbers_outside_their_range_are_refused_with_the_range() {
        let refused = |result: Result<f64, ValueError>| result.expect_err("not valid").to_string();
        assert_eq!(positive("2.5", "a rate in Hz"), Ok(2.5));
        for text in ["0", "-1", "inf", "NaN", "fast"] {
            assert_eq!(refused(positive(text, "a rate in Hz")), "must be a rate in Hz > 0");
        }
        assert_eq!(not_negative("0", "a number"), Ok(0.0));
        assert_eq!(refused(not_negative("-0.1", "a number")), "must be a number >= 0");
        assert_eq!(within("3600", 0.01..=3600.0, "a number of seconds"), Ok(3600.0));
        let text = "must be a number of seconds from 0.01 to 3600";
        assert_eq!(refused(within("3601", 0.01..=3600.0, "a number of seconds")), text);
        assert_eq!(refused(within("NaN", 0.01..=3600.0, "a number of seconds")), text);
    }
}
