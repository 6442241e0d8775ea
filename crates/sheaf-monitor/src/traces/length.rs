//! Durations as text.

/// Returns a duration with three digits, such as `12.3 us`.
pub(super) fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.into_iter().find(|(size, _)| ns >= *size) {
        Some((size, unit)) => {
            let (whole, rest) = (ns / size, ns % size * 1000 / size);
            match whole {
                0..10 => format!("{whole}.{:02} {unit}", rest / 10),
                10..100 => format!("{whole}.{} {unit}", rest / 100),
                _ => format!("{whole} {unit}"),
            }
        }
        None => format!("{ns} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let cases =
            [(0, "0 ns"), (999, "999 ns"), (1_234, "1.23 us"), (45_678, "45.6 us"), (999_999, "999 us")];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(duration(1_234_567_890), "1.23 s");
        assert_eq!(duration(61_000_000_000), "61.0 s");
    }
}
