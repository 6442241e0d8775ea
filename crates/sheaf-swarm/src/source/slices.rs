//! Sources of items with times, which the real `Disorder` and `Slicer` sort and divide into time slices. The result is
//! compared with all items.

use crate::dice::Dice;
use crate::options::{Options, SliceOptions, TriggerOptions};
use crate::violation::{Violation, violation};
use sheaf_time::disorder::DisorderStats;
use sheaf_time::slices::SlicerStats;
use sheaf_time::{Disorder, Moment, Picos, SliceConfig, Slicer};
use sheaf_wire::Nanos;
use std::collections::BTreeSet;

/// Length of a slice.
const LENGTH: u64 = 1_000_000;

/// A thousandth of a slice.
const THOUSANDTH: u64 = LENGTH / 1_000;

impl SliceOptions {
    fn config(&self) -> SliceConfig {
        SliceConfig {
            length: Picos(LENGTH),
            before: Picos(self.before * THOUSANDTH),
            after: Picos(self.after * THOUSANDTH),
            max_items: self.max_items,
            max_empty: self.max_empty,
        }
    }

    /// Returns whether every source delivers every slice.
    #[must_use]
    pub fn is_gapless(&self) -> bool {
        self.max_empty == u64::MAX
    }
}

impl Options {
    /// Returns whether time slices are compatible with the other options.
    pub(crate) fn are_slices_possible(&self) -> bool {
        let is_announced = matches!(self.triggers, TriggerOptions::Announced { stride: 1, .. });
        self.slices.is_none_or(|slices| is_announced && slices.config().check().is_ok())
    }
}

/// Returns the first `total` slices that a source delivers.
///
/// # Errors
/// If sorting or slicing is wrong.
pub(super) fn given(
    options: &Options,
    slices: &SliceOptions,
    number: u16,
    total: u64,
) -> Result<BTreeSet<u64>, Violation> {
    let mut dice = Dice::new(options.seed, 5_000 + u64::from(number));
    let items = items(slices, total, &mut dice);
    let config = slices.config();
    let mut disorder = Disorder::new(Picos(slices.tolerance * THOUSANDTH), slices.held);
    let mut slicer = Slicer::new(config).map_err(|error| error.to_string())?;
    slicer.begin_with(0);
    let (mut taken, mut given) = (Vec::new(), BTreeSet::new());
    let mut in_slices = 0;
    let mut cut = |slicer: &mut Slicer<u64>| {
        while let Some(slice) = slicer.poll() {
            let is_inside = |(at, _): &(Moment, u64)| {
                *at + config.before >= config.begin(slice.number)
                    && *at < config.begin(slice.number + 1) + config.after
            };
            if !slice.items.is_sorted() && !slice.items.is_sorted_by_key(|(at, _)| *at) {
                return Err(violation!("the items of slice {} are not in order", slice.number));
            }
            if let Some((at, _)) = slice.items.iter().find(|item| !is_inside(item)) {
                return Err(violation!("slice {} has an item at {at:?}", slice.number));
            }
            if !given.insert(slice.number) {
                return Err(violation!("slice {} is given twice", slice.number));
            }
            in_slices += slice.items.len() as u64;
        }
        Ok(())
    };
    for (item, at) in (0..).zip(&items) {
        if disorder.push(*at, item).is_ok() {
            taken.push(*at);
        }
        while let Some((at, item)) = disorder.pop() {
            slicer.push(at, item);
        }
        cut(&mut slicer)?;
    }
    disorder.finish();
    while let Some((at, item)) = disorder.pop() {
        slicer.push(at, item);
    }
    // No more items follow before the end of the last slice.
    slicer.advance(config.begin(total) + config.after);
    cut(&mut slicer)?;
    slicer.finish();
    cut(&mut slicer)?;
    let all = Account { items: items.len() as u64, taken: &taken, in_slices, sorted: disorder.stats() };
    all.check(&config, &given, slicer.stats())?;
    Ok(given)
}

/// Returns items in the order in which a front end delivers them.
fn items(slices: &SliceOptions, total: u64, dice: &mut Dice) -> Vec<Moment> {
    let mut placed: Vec<(u64, u64)> = Vec::new();
    let (mut at, mean) = (0, LENGTH / slices.items.max(1));
    loop {
        at += dice.exponential(Nanos(mean)).0;
        if at >= total * LENGTH {
            break;
        }
        placed.push((at + dice.below(slices.disorder * THOUSANDTH + 1), at));
    }
    placed.sort_unstable();
    placed.into_iter().map(|(_, at)| Moment(at)).collect()
}

/// Positions of all items of a source.
struct Account<'a> {
    items: u64,
    taken: &'a [Moment],
    in_slices: u64,
    sorted: DisorderStats,
}

impl Account<'_> {
    /// Checks that every item is in each slice that it belongs to, or was dropped and counted.
    fn check(&self, config: &SliceConfig, given: &BTreeSet<u64>, cut: SlicerStats) -> Result<(), Violation> {
        let Self { items, taken, in_slices, sorted } = self;
        if sorted.items != *items || taken.len() as u64 + sorted.late != *items {
            return Err(violation!(
                "{items} items were given to be sorted, {} taken: {sorted:?}",
                taken.len()
            ));
        }
        let belongs = |at: &Moment| -> u64 {
            let first = at.0.saturating_sub(config.after.0) / config.length.0;
            let first = if at.0 < config.after.0 { 0 } else { first };
            (at.0 + config.before.0) / config.length.0 - first + 1
        };
        let wanted: u64 = taken.iter().map(belongs).sum();
        if cut.taken + cut.left_out != taken.len() as u64 {
            return Err(violation!("{} items were taken to be sliced: {cut:?}", taken.len()));
        }
        if in_slices + cut.places_lacking != wanted {
            return Err(violation!("{wanted} places of items in slices, {in_slices} filled: {cut:?}"));
        }
        if given.len() as u64 != cut.slices {
            return Err(violation!("{} slices are given: {cut:?}", given.len()));
        }
        Ok(())
    }
}
