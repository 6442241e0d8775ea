//! Behaviour of an emulated source at each event.
//!
//! A script is a pure function: any node with the configuration can compute the behaviour of a source at an event, in
//! any order. The source follows it; a checker compares the built events with it.

use crate::random::{Chance, Draws, Purpose};
use crate::size_model::{SizeConfig, SizeModel, SizeModelError};
use sheaf_wire::{ByteCount, EventId, SourceId};

/// Defects of an emulated source, for tests: each happens at an event with its probability, independent of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Defects {
    /// Probability that the source has no fragment of an event.
    pub silent: f64,
    /// Probability that it hands a fragment out twice in a row.
    pub duplicate: f64,
    /// Probability that a fragment is late.
    pub late: f64,
    /// Number of later events whose fragments are handed out before a late one.
    pub late_by: u64,
    /// Probability that a fragment is larger than the size model allows.
    pub oversize: f64,
    /// Size of such a fragment; above the size model's maximum.
    pub oversize_size: ByteCount,
}

/// Reason why [`Defects`] are invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ScriptError {
    /// The size model is wrong.
    #[error(transparent)]
    Size(#[from] SizeModelError),
    /// A probability is out of range.
    #[error("probability {probability} of a source's being {defect} must be from 0 to 1")]
    BadProbability {
        /// Which defect it is for.
        defect: &'static str,
        /// The configured probability.
        probability: f64,
    },
    /// An oversize fragment would not be oversize.
    #[error("oversize fragments of {oversize_size} must be larger than the largest regular fragment, {max}")]
    NotOversize {
        /// The configured size.
        oversize_size: ByteCount,
        /// The size model's maximum.
        max: ByteCount,
    },
}

/// Action of the source at one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It has no fragment.
    Silent,
    /// It hands out a fragment.
    Fragment {
        /// The fragment's size.
        size: ByteCount,
        /// Whether it has the size of oversize fragments.
        oversize: bool,
        /// Whether it is returned after its turn.
        late: bool,
        /// Whether it is returned twice.
        duplicate: bool,
    },
}

/// Actions of one source at every event.
#[derive(Clone, Debug)]
pub struct Script {
    sizes: SizeModel,
    size_draws: Draws,
    silent: Roll,
    duplicate: Roll,
    late: Roll,
    oversize: Roll,
    oversize_size: ByteCount,
    /// Whether no defect is possible.
    is_faultless: bool,
}

/// A chance and the draws that decide it.
#[derive(Clone, Copy, Debug)]
struct Roll {
    chance: Chance,
    draws: Draws,
}

impl Roll {
    fn happens(&self, event: EventId) -> bool {
        self.chance.is_possible() && self.chance.happens(self.draws.bits(event))
    }
}

impl Script {
    /// Makes the script of `source` in a run with this seed.
    ///
    /// # Errors
    /// If the sizes or the defects are invalid.
    pub fn new(
        seed: u64,
        source: SourceId,
        size: &SizeConfig,
        defects: &Defects,
    ) -> Result<Self, ScriptError> {
        let sizes = SizeModel::new(size)?;
        let roll = |probability, defect, purpose| {
            let chance =
                Chance::new(probability).ok_or(ScriptError::BadProbability { defect, probability })?;
            let draws = Draws::new(seed, source, purpose);
            Ok::<_, ScriptError>(Roll { chance, draws })
        };
        let probabilities = [defects.silent, defects.duplicate, defects.late, defects.oversize];
        let script = Self {
            is_faultless: probabilities.iter().all(|probability| *probability == 0.0),
            sizes,
            size_draws: Draws::new(seed, source, Purpose::Size),
            silent: roll(defects.silent, "silent", Purpose::Silent)?,
            duplicate: roll(defects.duplicate, "duplicate", Purpose::Duplicate)?,
            late: roll(defects.late, "late", Purpose::Late)?,
            oversize: roll(defects.oversize, "oversize", Purpose::Oversize)?,
            oversize_size: defects.oversize_size,
        };
        if script.oversize.chance.is_possible() && defects.oversize_size <= size.max {
            return Err(ScriptError::NotOversize { oversize_size: defects.oversize_size, max: size.max });
        }
        Ok(script)
    }

    /// Returns the action of the source at `event`.
    #[must_use]
    pub fn act(&self, event: EventId) -> Act {
        if self.is_faultless {
            let size = self.regular_size(event);
            return Act::Fragment { size, oversize: false, late: false, duplicate: false };
        }
        if self.silent.happens(event) {
            return Act::Silent;
        }
        let oversize = self.oversize.happens(event);
        Act::Fragment {
            size: if oversize { self.oversize_size } else { self.sizes.size(&self.size_draws, event) },
            oversize,
            late: self.late.happens(event),
            duplicate: self.duplicate.happens(event),
        }
    }

    /// Returns whether the source is silent about every event.
    #[must_use]
    pub fn is_mute(&self) -> bool {
        self.silent.chance.is_certain()
    }

    /// Returns whether no event has a defect.
    #[must_use]
    pub fn is_faultless(&self) -> bool {
        self.is_faultless
    }

    /// The size of the fragment at `event`, where nothing goes wrong.
    #[must_use]
    #[inline]
    pub fn regular_size(&self, event: EventId) -> ByteCount {
        self.sizes.size(&self.size_draws, event)
    }

    /// The largest fragment that the source can have.
    #[must_use]
    pub fn max_size(&self) -> ByteCount {
        if self.oversize.chance.is_possible() { self.oversize_size } else { self.sizes.max() }
    }

    /// The sizes of its regular fragments.
    #[must_use]
    pub fn sizes(&self) -> &SizeModel {
        &self.sizes
    }
}
