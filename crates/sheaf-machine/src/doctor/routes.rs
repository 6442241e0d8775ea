//! Which network interface leads to an address, by the kernel's tables.

use crate::Root;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ROUTES_4: &str = "/proc/net/route";
const ROUTES_6: &str = "/proc/net/ipv6_route";
const ADDRESSES_6: &str = "/proc/net/if_inet6";

/// A route's flag: it is there to refuse.
const REJECT: u32 = 0x0200;

/// Returns the interface that has `address`, or the route to it; `None` if the tables do not contain it.
pub(super) fn interface_of(root: &Root, address: IpAddr) -> Option<String> {
    match address {
        _ if address.is_loopback() => Some("lo".to_owned()),
        _ if address.is_unspecified() => None,
        IpAddr::V4(address) => to_v4(&root.text(ROUTES_4)?, address),
        IpAddr::V6(address) => own_v6(&root.text(ADDRESSES_6).unwrap_or_default(), address)
            .or_else(|| to_v6(&root.text(ROUTES_6)?, address)),
    }
}

/// Columns: interface, destination, gateway, flags, reference count, use, metric, mask; addresses as the words of memory.
fn to_v4(table: &str, address: Ipv4Addr) -> Option<String> {
    let word = |text: &str| u32::from_str_radix(text, 16).ok().map(|it| u32::from_be_bytes(it.to_ne_bytes()));
    let matching = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (destination, mask) = (word(columns.get(1)?)?, word(columns.get(7)?)?);
        let flags = u32::from_str_radix(columns[3], 16).ok()?;
        let leads = u32::from(address) & mask == destination && flags & REJECT == 0;
        leads.then(|| (mask.count_ones(), columns[0].to_owned()))
    };
    table.lines().skip(1).filter_map(matching).max_by_key(|(bits, _)| *bits).map(|(_, name)| name)
}

/// Columns: address, index, length of the prefix, scope, flags, interface.
fn own_v6(table: &str, address: Ipv6Addr) -> Option<String> {
    let of_line = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let name = columns.get(5)?;
        (v6(columns.first()?)? == address).then(|| (*name).to_owned())
    };
    table.lines().find_map(of_line)
}

/// Columns: destination, its prefix, source, its prefix, next hop, metric, reference count, use, flags, interface.
fn to_v6(table: &str, address: Ipv6Addr) -> Option<String> {
    let matching = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (destination, bits) = (v6(columns.first()?)?, u32::from_str_radix(columns.get(1)?, 16).ok()?);
        let flags = u32::from_str_radix(columns.get(8)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits)?).unwrap_or(0);
        let leads = address.to_bits() & mask == destination.to_bits() & mask && flags & REJECT == 0;
        let name = columns.get(9)?;
        leads.then(|| (bits, (*name).to_owned()))
    };
    table.lines().filter_map(matching).max_by_key(|(bits, _)| *bits).map(|(_, name)| name)
}

fn v6(digits: &str) -> Option<Ipv6Addr> {
    (digits.len() == 32).then(|| u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from_bits))?
}
