//! Reads big-endian values from a block, one after the other, and never past its end.

use super::error::{Parsed, SlcioProblem};

/// A place in the body of a block.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Number of bytes left.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.rest.len() as u64
    }

    /// Returns the next `count` bytes; `what` names them in the error.
    ///
    /// # Errors
    /// [`SlcioProblem::Truncated`] if fewer bytes remain.
    pub fn take(&mut self, what: &'static str, count: u64) -> Parsed<&'a [u8]> {
        let split = usize::try_from(count).ok().and_then(|count| self.rest.split_at_checked(count));
        let Some((taken, rest)) = split else {
            return Err(SlcioProblem::Truncated { what, need: count, have: self.remaining() });
        };
        self.rest = rest;
        Ok(taken)
    }

    /// The next 32-bit number.
    ///
    /// # Errors
    /// [`SlcioProblem::Truncated`].
    pub fn u32(&mut self, what: &'static str) -> Parsed<u32> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    /// The next 32-bit signed number.
    ///
    /// # Errors
    /// [`SlcioProblem::Truncated`].
    pub fn i32(&mut self, what: &'static str) -> Parsed<i32> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    /// The next 64-bit signed number.
    ///
    /// # Errors
    /// [`SlcioProblem::Truncated`].
    pub fn i64(&mut self, what: &'static str) -> Parsed<i64> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    /// The next string, with its padding.
    ///
    /// # Errors
    /// [`SlcioProblem::Truncated`], [`SlcioProblem::NotText`].
    pub fn string(&mut self, what: &'static str) -> Parsed<&'a str> {
        let length = u64::from(self.u32(what)?);
        let text = self.take(what, length)?;
        self.take(what, padding(length))?;
        std::str::from_utf8(text).map_err(|_| SlcioProblem::NotText { what })
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Parsed<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N as u64)?);
        Ok(array)
    }
}

/// Number of bytes that pad `length` bytes to a multiple of four.
#[must_use]
pub const fn padding(length: u64) -> u64 {
    length.wrapping_neg() % 4
}
