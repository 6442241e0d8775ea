//! Values from outside of the run: checks.

use crate::Config;
use crate::check::Checker;
use crate::codec::{Codec as _, name};
use crate::error::ErrorKind;
use crate::settings::SlowValue;
use crate::tables::VALUES;
use crate::text::shorten;

impl SlowValue {
    /// Most values that a configuration may have: each takes up to 283 kB for its numbers over time.
    pub const MOST: usize = 128;

    /// Returns the limits from the lowest to the highest, with their keys.
    fn limits(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("error_below", self.error_below),
            ("warning_below", self.warning_below),
            ("warning_above", self.warning_above),
            ("error_above", self.error_above),
        ]
    }
}

impl Checker<'_> {
    /// Each value has a name, limits in order, and a file that is read several times before the value is stale.
    pub(crate) fn values(&mut self) {
        let config: &Config = self.config;
        if config.values.len() > SlowValue::MOST {
            let found = format!("there are {} tables [{VALUES}.NAME]", config.values.len());
            let right = format!("there may be {} values", SlowValue::MOST);
            self.fail(ErrorKind::BadValue, &[VALUES], found, right);
        }
        for (value_name, value) in &config.values {
            let table = format!("{VALUES}.{value_name}");
            if !name().accepts(value_name) {
                let found = format!("`{}` cannot name a value", shorten(value_name));
                self.fail(ErrorKind::BadValue, &[&table], found, name().expected());
            }
            self.value(&table, value);
        }
    }

    fn value(&mut self, table: &str, value: &SlowValue) {
        let key = |knob: &str| format!("{table}.{knob}");
        let set: Vec<_> = value.limits().into_iter().filter_map(|(key, limit)| Some((key, limit?))).collect();
        let unordered = set.windows(2).find(|pair| pair[0].1 > pair[1].1);
        if let Some([(low, lower), (high, higher)]) = unordered {
            let found = format!("`{}` is {lower:?}, and `{}` is {higher:?}", key(low), key(high));
            let right = "limits ascend: error_below, warning_below, warning_above, error_above";
            self.fail(ErrorKind::Conflict, &[&key(low), &key(high)], found, right);
        }
        if value.read.is_some() && value.stale.0 < 2 * value.period.0 {
            let found = format!(
                "`{}` is {} ms, but the file is read every {} ms",
                key("stale_ms"),
                value.stale.0 / 1_000_000,
                value.period.0 / 1_000_000
            );
            let right =
                "a value is stale after two periods at the earliest: raise it, or shorten `period_ms`";
            self.fail(ErrorKind::Conflict, &[&key("stale_ms"), &key("period_ms")], found, right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::AgeFrom;
    use std::fmt::Write as _;

    #[test]
    fn a_value_is_read_from_a_file_or_sent() {
        let text = "[value.hv-ecal]\nunit = \"V\"\nread = \"/run/hv/ecal\"\nwarning_below = 1450\nerror_above = 1600.5\nfor_ms = 2000\n\
                    [value.beam]\n[value.crate]\nread = \"/sys/class/hwmon/hwmon0/temp1_input\"\nage = \"read\"\n";
        let config = Config::parse(text, "run.toml").expect("a valid configuration");
        let value = &config.values["hv-ecal"];
        assert_eq!((value.warning_below, value.error_above), (Some(1450.0), Some(1600.5)));
        assert_eq!(config.values["crate"].age, AgeFrom::Read);
        assert_eq!(config.values["beam"], SlowValue::default());
        assert_eq!(Config::parse(&config.to_toml(), "again.toml"), Ok(config));
    }

    #[test]
    fn values_that_cannot_be_are_refused_with_a_correction() {
        let text = "[value.a]\nwarning_below = 5\nwarning_above = 4\n[value.\"b/c\"]\n\
                    [value.d]\nread = \"d\"\nperiod_ms = 20000\n[value.e]\nerror_below = 2\nerror_above = 1\n";
        let error = Config::parse(text, "run.toml").expect_err("it is wrong").to_string();
        for part in [
            "`value.a.warning_below` is 5.0, and `value.a.warning_above` is 4.0",
            "`b/c` cannot name a value",
            "`value.d.stale_ms` is 30000 ms, but the file is read every 20000 ms",
            "`value.e.error_below` is 2.0, and `value.e.error_above` is 1.0",
        ] {
            assert!(error.contains(part), "`{part}` is not in:\n{error}");
        }
        assert!(Config::parse("[value.a]\nwarning_above = 1e31\n", "run.toml").is_err());
        assert!(Config::parse("[value.a]\nwarning_above = nan\n", "run.toml").is_err());
    }

    #[test]
    fn there_are_not_more_values_than_memory_for_their_numbers() {
        let with = |count: usize| {
            let text = (0..count).fold(String::new(), |mut text, index| {
                let _ = writeln!(text, "[value.v{index}]");
                text
            });
            Config::parse(&text, "run.toml").map(drop)
        };
        assert_eq!(with(SlowValue::MOST), Ok(()));
        let error = with(SlowValue::MOST + 1).expect_err("too many").to_string();
        assert!(error.contains("there may be 128 values"), "{error}");
    }
}
