//! Workloads and short cuts for the tests of the clock-driven engines.

use crate::dice::{Dice, Purpose};
use crate::meter::{Measured, Meter, Names};
use crate::network::{EndpointId, Network};
use crate::scenario::{DigitOrder, LinkModel, Numbering, SizeModel, Topology};
use crate::topology;
use crate::traffic::{Message, Next, Traffic, Wake};
use crate::units::{Picos, Rate};

/// Whether `cargo xtask nightly` runs the tests: simulations then have their whole length.
fn is_nightly() -> bool {
    std::env::var_os("SHEAF_NIGHTLY").is_some()
}

/// Returns the length of a simulation: a quarter of the whole for every change, the whole at night.
pub(crate) fn shortened(whole: u64) -> u64 {
    if is_nightly() { whole } else { whole / 4 }
}

/// Returns the tolerance of a figure of a [`shortened`] simulation: a quarter of the length doubles statistical errors.
pub(crate) fn loosened(tolerance: f64) -> f64 {
    if is_nightly() { tolerance } else { tolerance * 2.0 }
}

/// One byte takes a nanosecond.
pub(crate) const RATE: Rate = Rate(8_000_000_000);

/// Destinations by chance, and messages that come slot by slot with a probability, or always.
pub(crate) struct Uniform {
    pub(crate) size: SizeModel,
    dice: Vec<Dice>,
    /// Probability of a message in a slot, and the next slot of each sender.
    bernoulli: Option<(f64, Picos, Vec<Picos>)>,
}

impl Uniform {
    /// There is always something to send.
    pub(crate) fn saturated(size: SizeModel, endpoints: usize, seed: u64) -> Self {
        let dice =
            (0..u32::try_from(endpoints).unwrap()).map(|own| Dice::new(seed, Purpose::Destination, own));
        Self { size, dice: dice.collect(), bernoulli: None }
    }

    /// In each slot a message of one byte comes with probability `load`.
    pub(crate) fn bernoulli(load: f64, slot: Picos, endpoints: usize, seed: u64) -> Self {
        let mut this = Self::saturated(SizeModel::Fixed(1), endpoints, seed);
        this.bernoulli = Some((load, slot, vec![Picos::ZERO; endpoints]));
        this
    }
}

impl Traffic for Uniform {
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        let endpoints = u32::try_from(self.dice.len()).unwrap();
        let dice = &mut self.dice[sender.index()];
        let mut born = now;
        if let Some((load, slot, due)) = &mut self.bernoulli {
            let due = &mut due[sender.index()];
            while *due <= now && dice.unit() >= *load {
                *due += *slot;
            }
            if *due > now {
                return Next::At(*due);
            }
            born = *due;
            *due += *slot;
        }
        let bytes = match self.size {
            SizeModel::Fixed(bytes) => bytes,
            SizeModel::Uniform(least, most) => least + dice.below(most - least + 1),
            SizeModel::Exponential(mean) => (-mean * libm::log(1.0 - dice.unit())).ceil().max(1.0) as u32,
            size => unimplemented_size(size),
        };
        let destination = EndpointId(dice.below(endpoints));
        Next::Send(Message { source: sender, destination, bytes, token: 0, born })
    }

    fn delivered(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}

    fn lost(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}
}

fn unimplemented_size(size: SizeModel) -> u32 {
    panic!("no test draws {size:?}")
}

pub(crate) fn crossbar(ports: u32) -> Network {
    network(&Topology::Crossbar { ports })
}

pub(crate) fn delta(radix: u32, stages: u32) -> Network {
    network(&Topology::Delta { radix, stages, digits: DigitOrder::MostFirst })
}

pub(crate) fn network(topology: &Topology) -> Network {
    let link = LinkModel { rate: RATE, delay: Picos::ZERO, frame_overhead: 0, frame_payload: None };
    topology::compile(topology, &Numbering::Identity, &link, 1).unwrap()
}

/// A meter for a network whose endpoints all receive.
pub(crate) fn meter(network: &Network, names: Names) -> Meter {
    let endpoints = network.endpoints();
    Meter::new(vec![true; endpoints], u32::try_from(endpoints).unwrap(), RATE, names)
}

/// Returns the measurement after the warm-up, and asserts that nothing was lost.
pub(crate) fn measured(meter: Meter, end: Picos) -> Measured {
    let measured = meter.finish(end);
    let messages = measured.messages;
    assert_eq!(messages.offered, messages.delivered + messages.lost + messages.in_flight);
    measured
}
