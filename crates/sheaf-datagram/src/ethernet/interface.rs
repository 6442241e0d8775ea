//! Properties of an interface, and the errors that it can have.

use super::settings::EthernetError;
use super::sys;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sheaf_wire::ethernet::MacAddress;
use std::io;
use std::os::fd::OwnedFd;

/// An interface, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) address: MacAddress,
    pub(super) mtu: usize,
    /// Number of receive queues; 1 if its driver does not report it.
    pub(super) queues: u32,
    /// A socket that only asks.
    questions: OwnedFd,
}

impl Interface {
    pub(super) fn open(name: &str) -> Result<Self, EthernetError> {
        let failed =
            |what, source: io::Error| EthernetError::Interface { what, name: name.to_owned(), source };
        if name.is_empty() || name.len() > sys::MAX_NAME_BYTES {
            return Err(EthernetError::NoInterface { name: name.to_owned(), known: names() });
        }
        let flags = SocketFlags::CLOEXEC;
        let questions = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
            .map_err(|error| failed("ask for", error.into()))?;
        let index = sys::interface_index(&questions, name).map_err(|error| {
            if error.raw_os_error() == Some(libc::ENODEV) {
                return EthernetError::NoInterface { name: name.to_owned(), known: names() };
            }
            failed("find", error)
        })?;
        let address =
            sys::interface_address(&questions, name).map_err(|error| failed("find the address of", error))?;
        let address = address.ok_or_else(|| EthernetError::NotEthernet { name: name.to_owned() })?;
        let state =
            sys::interface_state(&questions, name).map_err(|error| failed("find the state of", error))?;
        if !state.up {
            return Err(EthernetError::Down { name: name.to_owned() });
        }
        let mtu = sys::interface_mtu(&questions, name).map_err(|error| failed("find the MTU of", error))?;
        let queues = sys::interface_queues(&questions, name).unwrap_or(1);
        Ok(Self { name: name.to_owned(), index, address, mtu: mtu as usize, queues, questions })
    }

    /// Returns whether frames can be sent through it now. An interface that was removed, or whose name now belongs to
    /// another one, cannot send.
    pub(super) fn works(&self) -> bool {
        let index = sys::interface_index(&self.questions, &self.name);
        let state = sys::interface_state(&self.questions, &self.name);
        index.is_ok_and(|index| index == self.index) && state.is_ok_and(|state| state.up && state.running)
    }
}

/// The interfaces that there are, for messages.
fn names() -> String {
    // Of the thread: its network namespace may be another than the process's.
    let list = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names: Vec<_> = list.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    names.join(", ")
}
