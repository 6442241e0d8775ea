//! The example filter in Rust: wants events with much energy, or with two sources that have some. `../README.md` says what
//! it computes.

use sheaf_filter::{EventView, FilterFailure, Plugin, PluginSetup, Tags, Verdict, export_filter};

/// The filter.
#[derive(Debug)]
pub struct EnergySum {
    /// The least energy of an event that is wanted.
    sum_min: u64,
    /// The least energy of a source that counts.
    source_min: u64,
    sum_tag: Tags,
    pair_tag: Tags,
}

export_filter!(EnergySum);

impl Plugin for EnergySum {
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
        let (sum_tag, pair_tag) = (setup.tag("sum")?, setup.tag("pair")?);
        let (sum_min, source_min) = thresholds(setup.parameters).ok_or_else(|| {
            FilterFailure("`filter.parameters` should be like \"sum=100000 source=40000\"".into())
        })?;
        Ok(Self { sum_min, source_min, sum_tag, pair_tag })
    }

    fn judge(&mut self, event: &EventView<'_>) -> Result<Verdict, FilterFailure> {
        let (mut sum, mut sources) = (0_u64, 0_u32);
        for fragment in event.fragments() {
            let of_source = energy(fragment.payload());
            sum += of_source;
            sources += u32::from(of_source >= self.source_min);
        }
        let mut tags = Tags::NONE;
        if sum >= self.sum_min {
            tags |= self.sum_tag;
        }
        if sources >= 2 {
            tags |= self.pair_tag;
        }
        let payload = [&sum.to_le_bytes()[..], &sources.to_le_bytes()].concat();
        Ok(Verdict { accepted: !tags.is_empty(), tags, payload: payload.into() })
    }
}

/// `sum=N source=N`.
fn thresholds(parameters: &str) -> Option<(u64, u64)> {
    let mut words = parameters.split_whitespace();
    let sum = words.next()?.strip_prefix("sum=")?.parse().ok()?;
    let source = words.next()?.strip_prefix("source=")?.parse().ok()?;
    words.next().is_none().then_some((sum, source))
}

/// The sum of the samples: 16 bits each, the low byte first.
fn energy(payload: &[u8]) -> u64 {
    payload.as_chunks().0.iter().map(|sample| u64::from(u16::from_le_bytes(*sample))).sum()
}
