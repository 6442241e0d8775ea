//! Comparison of event numbers, from the configuration.

use crate::described::field;
use crate::plan::Plan;
use sheaf_config::{CheckField, Config, ShiftAction};
use sheaf_node::number_check::{CheckedQuantity, NumberCheck, SourceValue, ValuePlace};
use sheaf_protocol::numbering::{Quantity, ShiftConfig, ShiftPolicy};
use sheaf_wire::{Role, SourceId};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the names of the quantities that are compared, in the order of their numbers.
pub(crate) fn quantities(config: &Config) -> Vec<&str> {
    let names: BTreeSet<_> = config.check_fields.values().map(|field| field.quantity.as_str()).collect();
    names.into_iter().collect()
}

impl Plan {
    /// Returns the comparison that a builder unit makes in every event.
    pub(crate) fn number_check(&self) -> NumberCheck {
        let checked = |name: &str| CheckedQuantity {
            quantity: self.quantity(name),
            reference: self.config.check.reference,
            values: self.check_values(name),
        };
        NumberCheck::new(quantities(&self.config).into_iter().map(checked).collect())
    }

    /// Returns how the event manager recognises sources that are off, if values are compared.
    pub(crate) fn shifts(&self) -> Option<ShiftConfig> {
        let check = &self.config.check;
        let names = quantities(&self.config);
        let quantities: Vec<_> = names.iter().map(|name| self.quantity(name)).collect();
        (!quantities.is_empty()).then(|| ShiftConfig {
            quantities,
            names: names.into_iter().map(str::to_owned).collect(),
            on_shift: match check.on_shift {
                ShiftAction::Mark => ShiftPolicy::Mark,
                ShiftAction::Repair => ShiftPolicy::Repair,
                ShiftAction::Stop => ShiftPolicy::Stop,
            },
            events: check.events as usize,
            longest: u64::from(check.longest_shift),
        })
    }

    fn fields_of<'a>(&'a self, quantity: &'a str) -> impl Iterator<Item = &'a CheckField> {
        self.config.check_fields.values().filter(move |field| field.quantity == quantity)
    }

    fn quantity(&self, name: &str) -> Quantity {
        let moduli = self.fields_of(name).filter_map(CheckField::effective_modulus);
        let tolerances = self.fields_of(name).map(|field| field.tolerance);
        Quantity { modulus: moduli.min().unwrap_or(0), tolerance: tolerances.max().unwrap_or(0) }
    }

    /// Returns the values of a quantity, in ascending order of their sources.
    fn check_values(&self, quantity: &str) -> Vec<SourceValue> {
        let all = || self.of_role(Role::Readout).flat_map(|node| &node.sources).copied();
        let mut values = BTreeMap::new();
        for checked in self.fields_of(quantity) {
            let place = checked.value.map_or(ValuePlace::Time, |value| ValuePlace::Payload(field(value)));
            let offset = checked.offset;
            let value = |source: SourceId| (source, SourceValue { source, place, offset });
            if checked.sources.is_empty() {
                // Sources that have a table of their own keep it.
                all().for_each(|source| {
                    values.entry(source).or_insert_with(|| value(source).1);
                });
            } else {
                values.extend(checked.sources.iter().copied().map(value));
            }
        }
        values.into_values().collect()
    }
}
