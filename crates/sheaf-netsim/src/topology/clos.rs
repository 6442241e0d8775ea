//! Three stages in a row, and folded: leaves whose cables go up to spines and come back.

use super::plane::{End, Output, Plane};
use super::{CompileError, in_range};
use crate::network::Forwarding;
use crate::units::Rate;

/// A folded Clos network.
#[derive(Clone, Copy)]
pub(super) struct Folded {
    pub(super) leaves: u32,
    pub(super) ports: u32,
    pub(super) spines: u32,
    /// Cables from each leaf to each spine.
    pub(super) uplinks: u32,
    pub(super) uplink_rate: Rate,
}

/// Clos (1953): first switches spread, middle switches find the last switch, and this one the port.
pub(super) fn three_stages(leaves: u32, ports: u32, middles: u32, rate: Rate) -> Result<Plane, CompileError> {
    in_range("leaves", leaves, 1, u64::MAX)?;
    in_range("ports of a leaf", ports, 1, u64::MAX)?;
    in_range("middle switches", middles, 1, u64::MAX)?;
    let mut plane = Plane {
        entry: (0..leaves * ports).map(|place| Some((place / ports, rate))).collect(),
        ..Plane::default()
    };
    let to_switch = |number: u32, stage: u16| Output { to: End::Switch(number), rate, stage };
    for _ in 0..leaves {
        let up = (0..middles).map(|middle| to_switch(leaves + middle, 1));
        plane.switch(0, Forwarding::Any, 1, up)?;
    }
    for _ in 0..middles {
        let down = (0..leaves).map(|leaf| to_switch(leaves + middles + leaf, 2));
        plane.switch(1, Forwarding::Digit { divisor: ports, radix: leaves, width: 1 }, 1, down)?;
    }
    for leaf in 0..leaves {
        let out = (0..ports).map(|port| Output { to: End::Position(leaf * ports + port), rate, stage: 3 });
        plane.switch(2, Forwarding::Digit { divisor: 1, radix: ports, width: 1 }, 1, out)?;
    }
    Ok(plane)
}

/// Leaf *l* holds the places from `l * ports` on. Its upward cable *u* leads to spine `u % spines`, so that neighbouring
/// destinations go over different spines; where there are several cables to one spine, the digit of the way down is the
/// same as that of the way up.
pub(super) fn folded(shape: Folded, rate: Rate) -> Result<Plane, CompileError> {
    let Folded { leaves, ports, spines, uplinks, uplink_rate } = shape;
    in_range("leaves", leaves, 1, u64::MAX)?;
    in_range("ports of a leaf", ports, 1, u64::MAX)?;
    in_range("spines", spines, 1, u64::MAX)?;
    in_range("uplinks to each spine", uplinks, 1, u64::MAX)?;
    in_range("uplink rate in bits per second", uplink_rate.0, 1, u64::MAX)?;
    let cables = spines.checked_mul(uplinks).and_then(|up| up.checked_add(ports).map(|_| up));
    let cables = cables.ok_or(CompileError::TooLarge)?;
    let mut plane = Plane {
        entry: (0..leaves * ports).map(|place| Some((place / ports, rate))).collect(),
        ..Plane::default()
    };
    for leaf in 0..leaves {
        let own = leaf * ports..(leaf + 1) * ports;
        let down = own.clone().map(|place| Output { to: End::Position(place), rate, stage: 3 });
        let up = (0..cables).map(|cable| Output {
            to: End::Switch(leaves + cable % spines),
            rate: uplink_rate,
            stage: 1,
        });
        let forwarding = Forwarding::UpDown { own, divisor: 1, width: 1, up: ports..ports + cables };
        plane.switch(0, forwarding, 1, down.chain(up))?;
    }
    for _ in 0..spines {
        let down = (0..leaves).flat_map(|leaf| {
            let output = Output { to: End::Switch(leaf), rate: uplink_rate, stage: 2 };
            (0..uplinks).map(move |_| output)
        });
        plane.switch(1, Forwarding::Digit { divisor: ports, radix: leaves, width: uplinks }, spines, down)?;
    }
    Ok(plane)
}
