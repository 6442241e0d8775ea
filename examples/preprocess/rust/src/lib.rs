//! The example preprocessor in Rust: leaves out the samples below a threshold. `../README.md` says what it makes.

use sheaf_filter::{
    FilterFailure, PluginSetup, PreprocessPlugin, Processed, RawFragment, export_preprocessor,
};

/// Overhead of a run of samples: its start, and its length.
const RUN_BYTES: usize = 8;

/// The number of samples in front of the runs.
const HEAD_BYTES: usize = 4;

/// The preprocessor.
#[derive(Debug)]
pub struct ZeroSuppression {
    threshold: u16,
}

export_preprocessor!(ZeroSuppression);

impl PreprocessPlugin for ZeroSuppression {
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
        let threshold = setup.parameters.strip_prefix("threshold=").and_then(|text| text.parse().ok());
        let threshold = threshold.ok_or_else(|| {
            FilterFailure("`preprocessing.parameters` should be like \"threshold=200\"".into())
        })?;
        Ok(Self { threshold })
    }

    fn process(&mut self, raw: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        // What has no whole samples is not ours.
        let (samples, []) = raw.payload.as_chunks::<2>() else { return Ok(Processed::Kept) };
        Ok(match suppress(samples, self.threshold, room) {
            Some(bytes) if bytes < raw.payload.len() => Processed::Written(bytes),
            _ => Processed::Kept,
        })
    }
}

/// Writes the number of samples and the runs of those that reach the threshold; `None` where they do not fit.
fn suppress(samples: &[[u8; 2]], threshold: u16, room: &mut [u8]) -> Option<usize> {
    let is_high = |sample: &[u8; 2]| u16::from_le_bytes(*sample) >= threshold;
    let mut end = put(room, 0, samples.len())?;
    let mut first = 0;
    while let Some(begin) = samples[first..].iter().position(is_high).map(|at| first + at) {
        let length = samples[begin..].iter().take_while(|sample| is_high(sample)).count();
        let run = samples[begin..begin + length].as_flattened();
        end = put(room, end, begin)?;
        end = put(room, end, length)?;
        room.get_mut(end..end + run.len())?.copy_from_slice(run);
        end += run.len();
        first = begin + length;
    }
    Some(end)
}

/// Writes a number of 32 bits, the low byte first; says where it ends.
fn put(room: &mut [u8], at: usize, value: usize) -> Option<usize> {
    let value = u32::try_from(value).ok()?;
    room.get_mut(at..at + 4)?.copy_from_slice(&value.to_le_bytes());
    Some(at + 4)
}

/// The samples of a processed payload, those that were left out as 0; `None` if it is none.
#[must_use]
pub fn expand(processed: &[u8]) -> Option<Vec<u16>> {
    let number = |at: usize| {
        let bytes = processed.get(at..at + 4)?;
        bytes.try_into().ok().map(|bytes| u32::from_le_bytes(bytes) as usize)
    };
    let mut samples = vec![0; number(0)?];
    let mut at = HEAD_BYTES;
    while at < processed.len() {
        let (begin, length) = (number(at)?, number(at + 4)?);
        let run = processed.get(at + RUN_BYTES..at + RUN_BYTES + 2 * length)?;
        let place = samples.get_mut(begin..begin + length)?;
        for (sample, bytes) in place.iter_mut().zip(run.as_chunks().0) {
            *sample = u16::from_le_bytes(*bytes);
        }
        at += RUN_BYTES + 2 * length;
    }
    Some(samples)
}
