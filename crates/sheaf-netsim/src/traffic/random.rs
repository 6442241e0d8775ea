//! Independent destinations, all equally likely: the traffic of the classical results.
//!
//! A sender may draw itself, as in the papers: its message goes through the network like any other. With a load below 1
//! messages come at random instants (Poisson) and wait in the host for the network interface; that is part of their
//! latency.

use super::sizes::FragmentSizes;
use super::{Message, Next, SetupError, Traffic, Wake};
use crate::dice::{Dice, Purpose};
use crate::network::EndpointId;
use crate::scenario::SizeModel;
use crate::units::{Picos, Rate};

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Random {
    sizes: FragmentSizes,
    senders: Vec<Sender>,
    endpoints: u32,
    /// Mean time between two messages of one sender in picoseconds; `None`: there is always one.
    mean_gap: Option<f64>,
}

#[derive(Clone, Debug)]
struct Sender {
    dice: Dice,
    /// When its next message comes.
    due: Picos,
    /// Number of messages that it has sent.
    count: u64,
}

impl Random {
    /// A workload on a network with `endpoints` endpoints whose links have the rate `rate`; `load` is the fraction of it
    /// that is offered, and from 1 on there is always something to send.
    ///
    /// # Errors
    /// Returns the invalid parameter of `size` or `load`.
    pub fn new(
        size: SizeModel,
        load: f64,
        rate: Rate,
        endpoints: u32,
        seed: u64,
    ) -> Result<Self, SetupError> {
        if !(load.is_finite() && load > 0.0) {
            return Err(SetupError::Load(load));
        }
        let sizes = FragmentSizes::drawn(size, 0.0, seed)?;
        let mean_gap = (load < 1.0).then(|| sizes.mean() / rate.bytes_per_second() * 1e12 / load);
        let sender = |number: u32| {
            let mut dice = Dice::new(seed, Purpose::Destination, number);
            let due = mean_gap.map_or(Picos::ZERO, |mean| gap(&mut dice, mean));
            Sender { dice, due, count: 0 }
        };
        Ok(Self { sizes, senders: (0..endpoints).map(sender).collect(), endpoints, mean_gap })
    }
}

/// A random span with this mean.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts to integers saturate")]
fn gap(dice: &mut Dice, mean: f64) -> Picos {
    Picos((-mean * libm::log(1.0 - dice.unit())) as u64)
}

impl Traffic for Random {
    #[inline]
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        let own = &mut self.senders[sender.index()];
        let mut born = now;
        if let Some(mean) = self.mean_gap {
            if own.due > now {
                return Next::At(own.due);
            }
            born = own.due;
            own.due += gap(&mut own.dice, mean);
        }
        let token = own.count;
        own.count += 1;
        let destination = EndpointId(own.dice.below(self.endpoints));
        let bytes = self.sizes.bytes(token, sender.0);
        Next::Send(Message { source: sender, destination, bytes, token, born })
    }

    #[inline]
    fn delivered(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}

    fn lost(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}
}

#[cfg(test)]
mod tests;
