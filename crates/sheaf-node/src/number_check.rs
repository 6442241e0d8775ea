//! Comparison of the event numbers of sources.
//!
//! The sources of an event have values that must agree: a trigger number, a bunch counter, a time. Every built event passes
//! here. Nearly always all agree with the first, and nothing is written or allocated. Otherwise the fragments that disagree are
//! marked ([`sheaf_wire::NumberMark`]), and listed for the event manager, which recognises a source that is off.

use bytes::Bytes;
use sheaf_protocol::numbering::Quantity;
use sheaf_source::described::Field;
use sheaf_wire::message::Disagreement;
use sheaf_wire::{Event, Fragment, SourceId};

/// Place of the value of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePlace {
    /// The time that the source gives with the fragment, in nanoseconds.
    Time,
    /// A field of the payload. Processed payload has none.
    Payload(Field),
}

/// Value of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceValue {
    /// The source.
    pub source: SourceId,
    /// Where its fragments have the value.
    pub place: ValuePlace,
    /// Number that is subtracted from it.
    pub offset: i64,
}

/// A quantity, and the sources that have values of it.
#[derive(Clone, Debug)]
pub struct CheckedQuantity {
    /// Modulus and tolerance of the comparison.
    pub quantity: Quantity,
    /// Source whose value is right, where the event has it.
    pub reference: Option<SourceId>,
    /// Values, in ascending order of the sources.
    pub values: Vec<SourceValue>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct NumberCheck {
    quantities: Vec<CheckedQuantity>,
    compared: u64,
    unchecked: u64,
    found: Vec<Disagreement>,
    /// Index of each fragment with a value, and the values; reused.
    places: Vec<usize>,
    values: Vec<u64>,
}

/// Result of the comparison of the values of an event, as far as the first that differs.
enum Comparison {
    /// All agree; so many fragments have no value.
    Agree(u64),
    Differ,
}

impl NumberCheck {
    /// Makes a comparison of these quantities.
    #[must_use]
    pub fn new(quantities: Vec<CheckedQuantity>) -> Self {
        debug_assert!(
            quantities.iter().all(|checked| checked.values.is_sorted_by_key(|value| value.source)),
            "values are in the order of their sources"
        );
        Self { quantities, ..Self::default() }
    }

    /// Compares the values in an event, and marks the fragments that disagree. Returns whether there are any.
    #[inline]
    pub fn check(&mut self, event: &mut Event<Bytes>) -> bool {
        if self.quantities.is_empty() {
            return false;
        }
        self.check_with(event, |field, payload| field.read(payload))
    }

    /// Does the same as [`Self::check`] for payloads of any kind, of which `read` returns a field.
    pub fn check_with<P>(
        &mut self,
        event: &mut Event<P>,
        read: impl Fn(&Field, &P) -> Option<u64> + Copy,
    ) -> bool {
        self.compared += 1;
        self.found.clear();
        for number in 0..self.quantities.len() {
            match self.quantities[number].compare(event, read) {
                Comparison::Agree(unchecked) => self.unchecked += unchecked,
                Comparison::Differ => self.mark(number, event, read),
            }
        }
        !self.found.is_empty()
    }

    /// Returns the number of events compared so far, and the disagreements in the last of them: one for each fragment.
    #[must_use]
    pub fn disagreements(&self) -> (u64, &[Disagreement]) {
        (self.compared, &self.found)
    }

    /// Returns the number of fragments without a value since the last call.
    pub fn take_unchecked(&mut self) -> u64 {
        std::mem::take(&mut self.unchecked)
    }

    /// Marks the fragments of an event that disagree.
    #[cold]
    fn mark<P>(
        &mut self,
        number: usize,
        event: &mut Event<P>,
        read: impl Fn(&Field, &P) -> Option<u64> + Copy,
    ) {
        let Self { quantities, unchecked, found, places, values, .. } = self;
        let checked = &quantities[number];
        places.clear();
        values.clear();
        checked.each(&event.fragments, read, |place, value| {
            match value {
                Some(value) => {
                    places.push(place);
                    values.push(value);
                }
                None => *unchecked += 1,
            }
            true
        });
        let of_most = || checked.quantity.reference_of(values);
        let Some(reference) = checked.reference_value(&event.fragments, read).or_else(of_most) else {
            return;
        };
        for (place, value) in places.iter().zip(values.iter()) {
            if checked.quantity.agrees(*value, reference) {
                continue;
            }
            let fragment = &mut event.fragments[*place];
            // A fragment that disagrees in two quantities has the difference in the first.
            if fragment.mark.disagrees() {
                continue;
            }
            let source = fragment.source;
            fragment.mark = fragment.mark.disagreeing(checked.quantity.difference(*value, reference));
            // The configuration has a few quantities.
            let quantity = u16::try_from(number).unwrap_or(u16::MAX);
            found.push(Disagreement { event: event.id, source, quantity, value: *value, reference });
        }
    }
}

impl CheckedQuantity {
    fn compare<P>(&self, event: &Event<P>, read: impl Fn(&Field, &P) -> Option<u64> + Copy) -> Comparison {
        if self.all_equal(&event.fragments, read) {
            return Comparison::Agree(0);
        }
        let mut first = self.reference_value(&event.fragments, read);
        let mut unchecked = 0;
        let agree = self.each(&event.fragments, read, |_, value| match (first, value) {
            (Some(first), Some(value)) => self.quantity.agrees(value, first),
            (None, Some(_)) => {
                first = value;
                true
            }
            (_, None) => {
                unchecked += 1;
                true
            }
        });
        if agree { Comparison::Agree(unchecked) } else { Comparison::Differ }
    }

    /// Returns whether the sources with values are exactly those of the event, and all values are equal, as they nearly always
    /// are. This walk compares the sources by position, so that it searches for none.
    #[inline]
    fn all_equal<P>(
        &self,
        fragments: &[Fragment<P>],
        read: impl Fn(&Field, &P) -> Option<u64> + Copy,
    ) -> bool {
        if self.values.len() != fragments.len() {
            return false;
        }
        let mut pairs = self.values.iter().zip(fragments);
        let Some((value, fragment)) = pairs.next() else { return false };
        let first = self.value_of(value, fragment, read);
        first.is_some()
            && value.source == fragment.source
            && pairs.all(|(value, fragment)| {
                value.source == fragment.source && self.value_of(value, fragment, read) == first
            })
    }

    /// Returns the value of the reference source, where it has one.
    fn reference_value<P>(
        &self,
        fragments: &[Fragment<P>],
        read: impl Fn(&Field, &P) -> Option<u64>,
    ) -> Option<u64> {
        let source = self.reference?;
        let fragment = fragments.binary_search_by_key(&source, |fragment| fragment.source).ok()?;
        let value = self.values.binary_search_by_key(&source, |value| value.source).ok()?;
        self.value_of(&self.values[value], &fragments[fragment], read)
    }

    /// Calls `see` with the index and the value of each fragment of a source that has one, as long as it returns `true`.
    #[inline]
    fn each<P>(
        &self,
        fragments: &[Fragment<P>],
        read: impl Fn(&Field, &P) -> Option<u64> + Copy,
        mut see: impl FnMut(usize, Option<u64>) -> bool,
    ) -> bool {
        let mut values = self.values.iter();
        let mut next = values.next();
        for (place, fragment) in fragments.iter().enumerate() {
            while next.is_some_and(|value| value.source < fragment.source) {
                next = values.next();
            }
            let Some(value) = next else { return true };
            if value.source == fragment.source && !see(place, self.value_of(value, fragment, read)) {
                return false;
            }
        }
        true
    }

    #[inline]
    fn value_of<P>(
        &self,
        value: &SourceValue,
        fragment: &Fragment<P>,
        read: impl Fn(&Field, &P) -> Option<u64>,
    ) -> Option<u64> {
        let raw = match &value.place {
            ValuePlace::Time => fragment.time.0,
            ValuePlace::Payload(_) if fragment.processed => return None,
            ValuePlace::Payload(field) => read(field, &fragment.payload)?,
        };
        let modulus = self.quantity.modulus;
        if modulus & modulus.wrapping_sub(1) == 0 {
            // A power of two, or 0 for 2^64.
            return Some(raw.wrapping_sub(value.offset.cast_unsigned()) & modulus.wrapping_sub(1));
        }
        let moved = (i128::from(raw) - i128::from(value.offset)).rem_euclid(i128::from(modulus));
        u64::try_from(moved).ok()
    }
}

#[cfg(test)]
mod tests;
