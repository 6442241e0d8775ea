//! Which processors serve the interrupts of a network interface.

use crate::{CpuList, Root};
use std::collections::BTreeSet;

/// One interrupt of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interrupt {
    pub(super) number: u32,
    /// Processors that may serve it, or those that do if the kernel reports them.
    pub(super) cpus: CpuList,
}

/// Returns the interrupts of an interface; empty if its device does not list them.
pub(super) fn of_interface(root: &Root, interface: &str) -> Vec<Interrupt> {
    let device = format!("/sys/class/net/{interface}/device");
    // A virtual device's interrupts belong to the one that carries it.
    let directories = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")];
    let mut numbers: BTreeSet<u32> =
        directories.iter().flat_map(|it| root.names(it)).filter_map(|name| name.parse().ok()).collect();
    if numbers.is_empty() {
        numbers.extend(by_name(root, interface));
    }
    numbers.into_iter().filter_map(|number| interrupt(root, number)).collect()
}

fn interrupt(root: &Root, number: u32) -> Option<Interrupt> {
    let effective = root.list(&format!("/proc/irq/{number}/effective_affinity_list"));
    let allowed = || root.list(&format!("/proc/irq/{number}/smp_affinity_list"));
    let cpus = effective.filter(|cpus| !cpus.is_empty()).or_else(allowed)?;
    Some(Interrupt { number, cpus })
}

/// Lines of `/proc/interrupts` whose last words have the interface's name: `eth0`, `eth0-TxRx-3`.
fn by_name(root: &Root, interface: &str) -> Vec<u32> {
    let text = root.text("/proc/interrupts").unwrap_or_default();
    let of_line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let is_its_own = |word: &str| {
            word.strip_prefix(interface)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
        };
        rest.split([' ', ',']).any(is_its_own).then(|| number.trim().parse().ok())?
    };
    text.lines().filter_map(of_line).collect()
}
