//! Networks of small switches without buffers, with one path from each input to each output: throughput if one of
//! several messages for one output passes and the others are lost.
//!
//! Patel (IEEE Trans. Comput. 30(10), 1981): if each of the `radix` inputs of a switch has a message with probability
//! *p*, independently and for any output, then an output has one with probability 1 - (1 - p / radix)^radix. The inputs
//! of a switch of the next layer come from different switches, so that they are independent again, and the formula is
//! exact layer by layer.

/// The probability that an output of the last of `stages` layers of `radix` x `radix` switches has a message, if each
/// input of the first has one with probability `load`.
///
/// # Panics
/// If `radix` is zero.
#[must_use]
pub fn unbuffered(radix: u32, stages: u32, load: f64) -> f64 {
    assert!(radix > 0, "a switch has inputs");
    let radix = f64::from(radix);
    (0..stages).fold(load, |probability, _| 1.0 - libm::pow(1.0 - probability / radix, radix))
}

/// Limit of [`unbuffered`] for many layers: 2k / ((k - 1) n + 2k / p), of Kruskal and Snir (IEEE Trans. Comput. 32(12),
/// 1983).
///
/// # Panics
/// If `load` is not positive.
#[must_use]
pub fn unbuffered_asymptote(radix: u32, stages: u32, load: f64) -> f64 {
    assert!(load > 0.0, "without load nothing arrives");
    let radix = f64::from(radix);
    2.0 * radix / ((radix - 1.0) * f64::from(stages) + 2.0 * radix / load)
}

#[cfg(test)]
mod tests;
