//! Crossbar, delta and layered networks.
//!
//! Between two layers there is a line for each endpoint. A layer exchanges one digit of the line's number: the switch of
//! a line is the number without this digit, its port is the digit. Where the digit comes from the destination the layer
//! resolves it, where any will do it spreads. With the most significant digit first this is the butterfly, and the same
//! network as Lawrie's omega up to the names of the inner lines.

use super::plane::{End, Output, Plane};
use super::{CompileError, in_range};
use crate::network::Forwarding;
use crate::scenario::DigitOrder;
use crate::units::Rate;

/// Exchange of one digit by a layer.
#[derive(Clone, Copy)]
struct Layer {
    /// The weight of the digit.
    weight: u32,
    /// Whether it comes from the destination.
    resolves: bool,
}

pub(super) fn crossbar(ports: u32, rate: Rate) -> Result<Plane, CompileError> {
    in_range("ports", ports, 1, u64::MAX)?;
    layers(ports, ports, &[Layer { weight: 1, resolves: true }], rate)
}

pub(super) fn delta(radix: u32, stages: u32, order: &DigitOrder, rate: Rate) -> Result<Plane, CompileError> {
    let ports = lines(radix, stages)?;
    let digits: Vec<u32> = match order {
        DigitOrder::MostFirst => (0..stages).rev().collect(),
        DigitOrder::LeastFirst => (0..stages).collect(),
        DigitOrder::Listed(digits) => digits.clone(),
    };
    let mut sorted = digits.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().ne(0..stages) {
        return Err(CompileError::Digits { digits, last: stages - 1 });
    }
    let resolving: Vec<Layer> =
        digits.iter().map(|&digit| Layer { weight: radix.pow(digit), resolves: true }).collect();
    layers(ports, radix, &resolving, rate)
}

/// First the lowest digits are spread, from the least significant on, then all are resolved, from the most significant
/// on. So the last layers undo the first ones in opposite order, and a cyclic shift still passes without conflict if
/// the free digits are those of the source or of the destination.
pub(super) fn layered(radix: u32, stages: u32, spreading: u32, rate: Rate) -> Result<Plane, CompileError> {
    let ports = lines(radix, stages)?;
    in_range("spreading layers", spreading, 0, u64::from(stages))?;
    let free = (0..spreading).map(|digit| Layer { weight: radix.pow(digit), resolves: false });
    let resolving = (0..stages).rev().map(|digit| Layer { weight: radix.pow(digit), resolves: true });
    layers(ports, radix, &free.chain(resolving).collect::<Vec<_>>(), rate)
}

fn lines(radix: u32, stages: u32) -> Result<u32, CompileError> {
    in_range("radix", radix, 2, u64::MAX)?;
    in_range("stages", stages, 1, 32)?;
    radix.checked_pow(stages).ok_or(CompileError::TooLarge)
}

fn layers(ports: u32, radix: u32, layers: &[Layer], rate: Rate) -> Result<Plane, CompileError> {
    let switches = ports / radix;
    let switch_of = |line: u32, weight: u32| line / (weight * radix) * weight + line % weight;
    let first = layers[0].weight;
    let mut plane = Plane {
        entry: (0..ports).map(|line| Some((switch_of(line, first), rate))).collect(),
        ..Plane::default()
    };
    for (index, layer) in (0_u16..).zip(layers) {
        let next = layers.get(usize::from(index) + 1);
        let first_of_next = u32::from(index + 1) * switches;
        for switch in 0..switches {
            let line = |digit: u32| {
                switch / layer.weight * (layer.weight * radix) + digit * layer.weight + switch % layer.weight
            };
            let end = |line: u32| match next {
                Some(next) => End::Switch(first_of_next + switch_of(line, next.weight)),
                None => End::Position(line),
            };
            let outputs = (0..radix).map(|digit| Output { to: end(line(digit)), rate, stage: index + 1 });
            let forwarding = if layer.resolves {
                Forwarding::Digit { divisor: layer.weight, radix, width: 1 }
            } else {
                Forwarding::Any
            };
            plane.switch(index, forwarding, layer.weight, outputs)?;
        }
    }
    Ok(plane)
}
