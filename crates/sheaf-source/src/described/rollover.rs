//! Counters of any width, as numbers of 64 bits.

/// Unrolls a counter that begins again at 0 after its largest number.
///
/// Of all numbers that end in the counter's bits, it takes the nearest to the number before. So a counter may be ahead of or
/// behind its predecessor by less than half of its range. A single wrong number harms only itself, unless it is farther away.
#[derive(Clone, Copy, Debug)]
pub struct Rollover {
    bits: u32,
    last: Option<u64>,
}

impl Rollover {
    /// Returns the start of a counter of 1 to 64 bits. Its first number is taken as it is.
    ///
    /// # Panics
    /// If `bits` is not in this range.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        assert!((1..=64).contains(&bits), "a counter has 1 to 64 bits, not {bits}");
        Self { bits, last: None }
    }

    /// Returns the number for what the counter shows. `None`: it is from before the start, or from after 2^64 - 1.
    pub fn unroll(&mut self, shown: u64) -> Option<u64> {
        let number = match self.last {
            None => shown,
            Some(last) => {
                let unused = 64 - self.bits;
                // The difference modulo the counter's range, with the sign of the nearer way. The shift is arithmetic.
                let nearest = (shown.wrapping_sub(last) << unused).cast_signed() >> unused;
                last.checked_add_signed(nearest)?
            }
        };
        self.last = Some(number);
        Some(number)
    }

    /// Returns the last number.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Begins anew: the next number is taken as it is.
    pub fn restart(&mut self) {
        self.last = None;
    }
}
