//! Packets that the kernel dropped because they were not read in time.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Returns the number of packets that the kernel has dropped at the UDP socket with this address. `None`: the kernel does not
/// say.
pub(super) fn at(address: SocketAddr) -> Option<u64> {
    let table = match address {
        SocketAddr::V4(_) => "/proc/net/udp",
        SocketAddr::V6(_) => "/proc/net/udp6",
    };
    drops(&fs::read_to_string(table).ok()?, address)
}

/// Finds the socket in the kernel's table: the local address is the second column, the number of drops the last.
fn drops(table: &str, address: SocketAddr) -> Option<u64> {
    let wanted = in_table(address);
    let mut lines = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines.find(|columns| columns.get(1) == Some(&wanted.as_str()))?.last()?.parse().ok()
}

/// Returns an address as the kernel prints it: each word of the address as a number of this machine, and the port.
fn in_table(address: SocketAddr) -> String {
    let word = |bytes: &[u8; 4]| format!("{:08X}", u32::from_ne_bytes(*bytes));
    let ip = match address.ip() {
        IpAddr::V4(ip) => word(&ip.octets()),
        IpAddr::V6(ip) => ip.octets().as_chunks().0.iter().map(word).collect(),
    };
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn packets_that_nobody_reads_are_dropped_and_counted() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(host) else { continue };
            let address = socket.local_addr().expect("it is bound");
            let Some(before) = at(address) else {
                println!("skipped: this system has no table of UDP sockets");
                return;
            };
            assert_eq!(before, 0);
            let sender = UdpSocket::bind(host).expect("another port");
            while at(address) == Some(0) {
                sender.send_to(&[0; 8000], address).expect("the receiver exists");
            }
        }
    }
}
