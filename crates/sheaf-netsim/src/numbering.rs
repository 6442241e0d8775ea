//! Which endpoint sits at which place of the wiring. It matters as much as the wiring: a barrel shifter or a round robin
//! that runs along the leaves meets other switches than one that runs across them.

use crate::dice::{Dice, Purpose};
use crate::scenario::Numbering;
use thiserror::Error;

/// Reason why a numbering does not fit its network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NumberingError {
    /// Not a place for each endpoint.
    #[error("numbering: {given} places are listed for {endpoints} endpoints")]
    Length {
        /// Listed.
        given: usize,
        /// Wanted.
        endpoints: u32,
    },
    /// A place that does not exist, or twice.
    #[error(
        "numbering: place {place} of endpoint {endpoint} is taken or does not exist; each of 0 to {last} comes once"
    )]
    LinkEnd {
        /// Which endpoint.
        endpoint: usize,
        /// Its place.
        place: u32,
        /// The last place.
        last: u32,
    },
}

/// The place of each endpoint. `radices` are those of a place's digits, least significant first; without any a number is
/// one digit, and its own reverse.
///
/// # Errors
/// [`NumberingError`] where a list is not a permutation.
pub fn positions(numbering: &Numbering, radices: &[u32], endpoints: u32) -> Result<Vec<u32>, NumberingError> {
    let mut identity: Vec<u32> = (0..endpoints).collect();
    match numbering {
        Numbering::Identity => Ok(identity),
        Numbering::DigitReversed => Ok(identity.iter().map(|&number| reversed(number, radices)).collect()),
        Numbering::Shuffled(seed) => {
            Dice::new(*seed, Purpose::Numbering, 0).shuffle(&mut identity);
            Ok(identity)
        }
        Numbering::Listed(places) => {
            if places.len() != identity.len() {
                return Err(NumberingError::Length { given: places.len(), endpoints });
            }
            let mut taken = vec![false; places.len()];
            for (endpoint, &place) in places.iter().enumerate() {
                if taken.get(place as usize).is_none_or(|&taken| taken) {
                    return Err(NumberingError::LinkEnd { endpoint, place, last: endpoints - 1 });
                }
                taken[place as usize] = true;
            }
            Ok(places.clone())
        }
    }
}

/// `number`'s digits in the reverse order. Where radices differ, the number is read with the reversed radices, so that
/// the result is a permutation: endpoints are dealt out to the leaves in turn.
fn reversed(number: u32, radices: &[u32]) -> u32 {
    let mut rest = number;
    let mut weight: u32 = radices.iter().product();
    let mut place = 0;
    for &radix in radices.iter().rev() {
        weight /= radix;
        place += rest % radix * weight;
        rest /= radix;
    }
    if radices.is_empty() { number } else { place }
}

#[cfg(test)]
mod tests;
