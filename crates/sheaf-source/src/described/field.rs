//! Numbers and marks in a packet.

use std::ops::Range;

/// Place that an offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The first byte of the packet.
    Packet,
    /// The first byte of the fragment's own header.
    Fragment,
}

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The most significant byte first, as in network protocols.
    Big,
    /// The least significant byte first, as in the memory of most processors.
    Little,
}

/// Bytes of a number: 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(u8);

impl Width {
    /// Returns the width of a number of this many bits: 8, 16, 24, 32, 40, 48, 56 or 64.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Option<Self> {
        match bits {
            8 | 16 | 24 | 32 | 40 | 48 | 56 | 64 => Some(Self((bits / 8) as u8)),
            _ => None,
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// A number in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Place that `offset` counts from.
    pub origin: Origin,
    /// Bytes before the number.
    pub offset: usize,
    /// Its width.
    pub width: Width,
    /// The order of its bytes.
    pub order: ByteOrder,
    /// Bits of it that count.
    pub mask: u64,
    /// Number of bits by which the masked number is shifted to the right.
    pub shift: u32,
}

/// Reason why a field has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A field has no bits.
    #[error("the field {field} has no bits: its mask and shift leave nothing")]
    NoBits {
        /// Name of the field.
        field: &'static str,
    },
    /// A counter has gaps between its bits.
    #[error("the bits of the counter {field} are not adjacent: shift them to the right end")]
    BitsApart {
        /// Name of the field.
        field: &'static str,
    },
}

impl Field {
    /// Checks that the number has bits and, if it is a counter, that these are adjacent. `field` is its name in an error.
    ///
    /// # Errors
    /// A [`FieldError`].
    pub const fn check(&self, field: &'static str, is_counter: bool) -> Result<(), FieldError> {
        let largest = self.largest();
        if largest == 0 {
            return Err(FieldError::NoBits { field });
        }
        if is_counter && largest & largest.wrapping_add(1) != 0 {
            return Err(FieldError::BitsApart { field });
        }
        Ok(())
    }

    /// Returns a number of which all bits count, in the fragment's header.
    #[must_use]
    pub const fn new(offset: usize, width: Width, order: ByteOrder) -> Self {
        Self { origin: Origin::Fragment, offset, width, order, mask: u64::MAX, shift: 0 }
    }

    /// Returns the bytes that the number takes, from its origin on.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset.saturating_add(self.width.bytes())
    }

    /// Returns the bits that the number can have: the width of a counter in it.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        64 - self.largest().leading_zeros()
    }

    /// Returns the largest number that the field can hold.
    #[must_use]
    pub const fn largest(&self) -> u64 {
        let all = u64::MAX >> (64 - 8 * self.width.bytes());
        match (self.mask & all).checked_shr(self.shift) {
            Some(largest) => largest,
            None => 0,
        }
    }

    /// Returns the number, where `bytes` begin at the field's origin. `None`: they end before it.
    #[inline]
    #[must_use]
    pub fn read(&self, bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.get(self.range())?;
        // The frequent widths, without a loop.
        let number = if let Ok(four) = <[u8; 4]>::try_from(bytes) {
            u64::from(match self.order {
                ByteOrder::Big => u32::from_be_bytes(four),
                ByteOrder::Little => u32::from_le_bytes(four),
            })
        } else if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
            match self.order {
                ByteOrder::Big => u64::from_be_bytes(eight),
                ByteOrder::Little => u64::from_le_bytes(eight),
            }
        } else {
            self.of_any_width(bytes)
        };
        (number & self.mask).checked_shr(self.shift)
    }

    /// Adds the number to the bits of `bytes`, which begin at the field's origin: the opposite of [`Self::read`] where the bits of
    /// the field are 0. `None`: the bytes end before it.
    #[inline]
    pub fn write(&self, number: u64, bytes: &mut [u8]) -> Option<()> {
        let bytes = bytes.get_mut(self.range())?;
        let number = number.checked_shl(self.shift).unwrap_or(0) & self.mask;
        // The frequent widths, without a loop.
        if let Ok(four) = <&mut [u8; 4]>::try_from(&mut *bytes) {
            let number = number as u32;
            let number = if self.order == ByteOrder::Big { number.swap_bytes() } else { number };
            *four = (u32::from_le_bytes(*four) | number).to_le_bytes();
        } else if let Ok(eight) = <&mut [u8; 8]>::try_from(&mut *bytes) {
            let number = if self.order == ByteOrder::Big { number.swap_bytes() } else { number };
            *eight = (u64::from_le_bytes(*eight) | number).to_le_bytes();
        } else {
            let add = |(byte, more): (&mut u8, u8)| *byte |= more;
            let number = number.to_le_bytes().into_iter();
            match self.order {
                ByteOrder::Big => bytes.iter_mut().rev().zip(number).for_each(add),
                ByteOrder::Little => bytes.iter_mut().zip(number).for_each(add),
            }
        }
        Some(())
    }

    fn of_any_width(&self, bytes: &[u8]) -> u64 {
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match self.order {
            ByteOrder::Big => bytes.iter().fold(0, add),
            ByteOrder::Little => bytes.iter().rev().fold(0, add),
        }
    }
}

/// Bytes that a packet has at some place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Bytes of the packet before them.
    pub offset: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Mark {
    /// Returns whether a packet has them.
    #[must_use]
    pub fn is_in(&self, packet: &[u8]) -> bool {
        packet.get(self.offset..).is_some_and(|rest| rest.starts_with(&self.bytes))
    }
}
