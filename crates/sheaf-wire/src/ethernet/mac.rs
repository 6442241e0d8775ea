//! Addresses of Ethernet interfaces.

use std::fmt;
use std::str::FromStr;

/// The address of an Ethernet interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Every interface of a network.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Returns whether it can be the address of an interface: neither a group address nor zero.
    #[must_use]
    pub const fn is_of_one_interface(self) -> bool {
        self.0[0] & 1 == 0
            && u64::from_be_bytes([0, 0, self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5]])
                != 0
    }
}

impl fmt::Display for MacAddress {
    /// `02:00:5e:10:00:01`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is not the address of one interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the address of an interface; six pairs of hexadecimal digits are expected, as in 02:00:5e:10:00:01"
)]
pub struct BadMacAddress(String);

impl FromStr for MacAddress {
    type Err = BadMacAddress;

    fn from_str(text: &str) -> Result<Self, BadMacAddress> {
        let bad = || BadMacAddress(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(bad)?;
            let digits = part.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| digits).ok_or_else(bad)?;
        }
        let address = Self(bytes);
        if parts.next().is_none() && address.is_of_one_interface() { Ok(address) } else { Err(bad()) }
    }
}
