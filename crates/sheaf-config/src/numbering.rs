//! Checks of the check values of sources.

use crate::check::Checker;
use crate::error::ErrorKind;
use crate::settings::CheckField;
use crate::tables::CHECK_FIELDS;
use std::collections::BTreeMap;

impl CheckField {
    /// Returns the number of different values; `None`: 2^64.
    #[must_use]
    pub fn effective_modulus(&self) -> Option<u64> {
        let bits_of = |field: &crate::Field| {
            let all = u64::MAX >> (64 - field.bits.clamp(1, 64));
            64 - ((field.mask.unwrap_or(u64::MAX) & all) >> field.shift.min(63)).leading_zeros()
        };
        let of_bits = || self.value.as_ref().map(bits_of).and_then(|bits| 1_u64.checked_shl(bits));
        self.modulus.or_else(of_bits)
    }
}

impl Checker<'_> {
    pub(crate) fn check_fields(&mut self) {
        let fields = &self.config.check_fields;
        if self.origins.is_broken(CHECK_FIELDS) {
            return;
        }
        if fields.is_empty() && self.config.check != crate::Check::default() {
            self.fail(
                ErrorKind::Missing,
                &["check"],
                "[check] has keys, but no value is checked".into(),
                "say where sources have their trigger number: `[check_fields.trigger]` and `value = \"u32 at 4\"`",
            );
        }
        let mut smallest: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for (name, field) in fields {
            let modulus = field.effective_modulus();
            if let Some(modulus) = modulus {
                let least = smallest.entry(&field.quantity).or_insert((modulus, name));
                *least = (*least).min((modulus, name));
            }
            if field.value.is_some_and(|value| value.is_in_packet) {
                let key = format!("{CHECK_FIELDS}.{name}.value");
                let found = format!("`{key}` counts from the beginning of the packet");
                self.fail(ErrorKind::BadValue, &[&key], found, "count from the beginning of the payload");
            }
        }
        for (name, field) in fields {
            let Some((modulus, other)) = smallest.get(field.quantity.as_str()) else { continue };
            let key = format!("{CHECK_FIELDS}.{name}.modulus");
            if field.effective_modulus().is_some_and(|own| own % modulus != 0)
                || (field.effective_modulus().is_none() && !modulus.is_power_of_two())
            {
                let found = format!(
                    "values of [{CHECK_FIELDS}.{name}] are compared modulo {modulus}, that of [{CHECK_FIELDS}.{other}]"
                );
                let right = "they need a modulus that is a multiple of it, or another `quantity`";
                self.fail(ErrorKind::Conflict, &[&key], found, right);
            }
            if field.tolerance >= modulus / 2 {
                let key = format!("{CHECK_FIELDS}.{name}.tolerance");
                let found =
                    format!("`{key}` is {}, and values are compared modulo {modulus}", field.tolerance);
                self.fail(ErrorKind::Conflict, &[&key], found, format!("less than {}", modulus / 2));
            }
        }
        self.sources_checked_once();
    }

    /// A source has one value of a quantity.
    fn sources_checked_once(&mut self) {
        let mut seen = BTreeMap::new();
        let mut of_all = BTreeMap::new();
        for (name, field) in &self.config.check_fields {
            let quantity = field.quantity.as_str();
            let before = if field.sources.is_empty() {
                of_all.insert(quantity, name)
            } else {
                let again = field.sources.iter().filter_map(|source| seen.insert((quantity, *source), name));
                // All of them, so that each is seen.
                again.filter(|other| *other != name).last()
            };
            if let Some(other) = before {
                let key = format!("{CHECK_FIELDS}.{name}.sources");
                let found = format!("`{key}` has sources of [{CHECK_FIELDS}.{other}]");
                let right = "a source has one value of a quantity; name the sources, or another `quantity`";
                self.fail(ErrorKind::Conflict, &[&key], found, right);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn error_of(text: &str) -> String {
        Config::parse(text, "run.toml").expect_err("a mistake").to_string()
    }

    #[test]
    fn values_of_a_quantity_can_be_compared() {
        let error = error_of("[check]\non_shift = \"repair\"\n");
        assert!(error.contains("no value is checked"), "{error}");
        let twice = "[check_fields.a]\nvalue = \"u32 at 0\"\nsources = [1]\n[check_fields.b]\nsources = [\"0-3\"]\nvalue = \"u16 at 0\"\n";
        let error = error_of(twice);
        assert!(error.contains("has sources of [check_fields.a]"), "{error}");
        let other = twice.replace("[\"0-3\"]", "[2]\nmodulus = 1000");
        let error = error_of(&other);
        assert!(error.contains("compared modulo 1000"), "{error}");
        let error = error_of("[check_fields.a]\nvalue = \"u8 at 0\"\ntolerance = 128\n");
        assert!(error.contains("less than 128"), "{error}");
        let error = error_of("[check_fields.a]\nvalue = \"u8 at packet 0\"\n");
        assert!(error.contains("beginning of the payload"), "{error}");
    }

    #[test]
    fn the_modulus_is_that_of_the_bits() {
        let modulus = |value: &str| {
            let text = format!("[check_fields.a]\n{value}\n");
            let config = Config::parse(&text, "run.toml").expect("a configuration");
            config.check_fields["a"].effective_modulus()
        };
        assert_eq!(modulus("value = \"u16le at 4 & 0x7fff\""), Some(1 << 15));
        assert_eq!(modulus("value = \"u32 at 4 & 0xffff00 >> 8\""), Some(1 << 16));
        assert_eq!(modulus("value = \"u64 at 4\""), None);
        assert_eq!(modulus("tolerance = 100"), None);
        assert_eq!(modulus("value = \"u16 at 4\"\nmodulus = 3564"), Some(3564));
    }
}
