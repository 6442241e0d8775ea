//! Random numbers, from the seed of the scenario and nothing else.
//!
//! Every entity has a stream of its own: the draws of one sender do not depend on how often another one was asked. So a
//! change in one place of a scenario does not change all other draws.

use rand::Rng;
use rand_pcg::Pcg32;
use sheaf_wire::mix::splitmix64;

/// Purpose of a random number. Streams of different purposes are independent, also for the same entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Destinations of random traffic.
    Destination,
    /// Message and fragment sizes.
    Size,
    /// Spans between messages or triggers.
    Arrival,
    /// Builders of events.
    Assignment,
    /// Phases and clocks of senders.
    Phase,
    /// Ways through the network.
    Route,
    /// Order of service.
    Arbiter,
    /// Faults.
    Fault,
    /// Places of endpoints in the wiring.
    Numbering,
    /// Anything else that a module needs of its own.
    Other(u16),
}

impl Purpose {
    fn code(self) -> u64 {
        match self {
            Self::Destination => 1,
            Self::Size => 2,
            Self::Arrival => 3,
            Self::Assignment => 4,
            Self::Phase => 5,
            Self::Route => 6,
            Self::Arbiter => 7,
            Self::Fault => 8,
            Self::Numbering => 9,
            Self::Other(own) => 0x1_0000 + u64::from(own),
        }
    }
}

/// One stream of chance: 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dice(Pcg32);

impl Dice {
    /// The stream of `entity` for `purpose` under `seed`.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose, entity: u32) -> Self {
        let stream = purpose.code() << 32 | u64::from(entity);
        Self(Pcg32::new(mix(seed ^ mix(stream)), mix(stream.wrapping_add(seed.rotate_left(32)))))
    }

    /// A whole number below `limit`, all equally likely.
    ///
    /// # Panics
    /// If `limit` is zero.
    #[inline]
    pub fn below(&mut self, limit: u32) -> u32 {
        assert!(limit > 0, "a number below zero was asked for");
        loop {
            // Lemire 2019: the high half of a product is the number; the low half identifies the few draws that would
            // make some numbers likelier.
            let product = u64::from(self.0.next_u32()) * u64::from(limit);
            let low = product & u64::from(u32::MAX);
            if low >= u64::from(limit) || low >= u64::from(limit.wrapping_neg() % limit) {
                return u32::try_from(product >> 32).expect("the high half of 64 bits has 32");
            }
        }
    }

    /// A number in [0, 1), on a grid of 2^-53.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Exchanges the elements of `items` so that every order is equally likely (Fisher and Yates).
    ///
    /// # Panics
    /// If there are more than 2^32 items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let limit = u32::try_from(last + 1).expect("no scenario has so many items");
            items.swap(last, self.below(limit) as usize);
        }
    }
}

/// A bijection of 64 bits in which every input bit moves every output bit (`SplitMix64`'s finaliser): for seeds, and for
/// routes that are fixed by a hash.
#[must_use]
#[inline]
pub fn mix(value: u64) -> u64 {
    splitmix64(value)
}

#[cfg(test)]
mod tests;
