//! Tests whether two histograms have the same shape.

use crate::histogram::{Histogram, HistogramKind};
use crate::probability::chi_square_tail;
use serde::Serialize;

/// Number of entries that both need.
const FEWEST: u64 = 50;

/// Probability below which a difference is no fluctuation: of 1,000 histograms in agreement, one in ten runs is marked.
const UNLIKELY: f64 = 1e-4;

/// Distance above which a difference matters, as a fraction of the entries. Large samples differ significantly in what nobody minds.
const NOTABLE: f64 = 0.01;

/// Reason why two histograms are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistogramDifference {
    /// They have other kinds or bins.
    #[error("other bins")]
    OtherBins,
    /// They have too few entries.
    #[error("fewer than {FEWEST} entries")]
    TooFew,
}

/// Result of a comparison. Underflow and overflow count as bins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HistogramComparison {
    /// Chi-square between both, each normalised to the entries of the other; of a profile, between the means in its bins.
    pub chi2: f64,
    /// Degrees of freedom.
    pub ndf: u32,
    /// Probability of a chi-square that is at least as large, if the shapes are the same.
    pub probability: f64,
    /// Largest difference of the cumulative distributions, 0 to 1. That of a map is the larger one of both orders of its bins; a profile
    /// has none.
    pub kolmogorov: Option<f64>,
    /// Whether they differ: the probability is below 0.0001, and the distance above 0.01 where there is one.
    pub differs: bool,
}

/// Compares the shapes of two histograms.
///
/// Chi-square of counts is that of a test of homogeneity, with the weights of both as its marginals; of weighted histograms it is the
/// statistic of N. D. Gagunashvili, "Chi-square tests for comparing weighted histograms", Nucl. Instr. Meth. A 614 (2010) 287,
/// arXiv:0905.4221: the sum of (W₁w₂ − W₂w₁)² / (W₁²s₂² + W₂²s₁²) over the bins, with sums W of the weights w and variances s². Of profiles it
/// is the sum of (m₁ − m₂)² / (e₁² + e₂²) over the bins in which both have a mean and its error.
///
/// # Errors
/// If they have other bins, or too few entries.
pub fn compare(one: &Histogram, other: &Histogram) -> Result<HistogramComparison, HistogramDifference> {
    if !one.has_bins_of(other) {
        return Err(HistogramDifference::OtherBins);
    }
    let totals = [one, other].map(|histogram| histogram.contents.iter().sum::<f64>());
    if one.entries.min(other.entries) < FEWEST || totals.iter().any(|total| *total <= 0.0) {
        return Err(HistogramDifference::TooFew);
    }
    let (chi2, cells) = match one.kind {
        HistogramKind::Profile => chi2_of_means(one, other),
        _ if one.squares.is_empty() && other.squares.is_empty() => chi2_of_counts([one, other], totals),
        _ => chi2_of_weights([one, other], totals),
    };
    // The totals of counts agree by their normalisation; those of means need not.
    let ndf = if one.kind == HistogramKind::Profile { cells } else { cells.saturating_sub(1) };
    let kolmogorov = match one.kind {
        HistogramKind::Profile => None,
        HistogramKind::Line => Some(distance([one, other], totals, 0..one.contents.len())),
        HistogramKind::Map => {
            let (columns, rows) = (one.axes[0].cells(), one.axes[1].cells());
            let by_column = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
            let by_row = distance([one, other], totals, 0..one.contents.len());
            Some(by_row.max(distance([one, other], totals, by_column)))
        }
    };
    let probability = chi_square_tail(chi2, ndf);
    let differs = probability < UNLIKELY && kolmogorov.is_none_or(|distance| distance > NOTABLE);
    Ok(HistogramComparison { chi2, ndf, probability, kolmogorov, differs })
}

/// Returns chi-square, and the number of cells that have entries.
fn chi2_of_counts([one, other]: [&Histogram; 2], [n, m]: [f64; 2]) -> (f64, u32) {
    let pairs = one.contents.iter().zip(&other.contents);
    sum(pairs.map(|(one, other)| {
        let difference = m * one - n * other;
        (difference * difference / (n * m), one + other)
    }))
}

fn chi2_of_weights([one, other]: [&Histogram; 2], [n, m]: [f64; 2]) -> (f64, u32) {
    sum((0..one.contents.len()).map(|cell| {
        let difference = n * other.contents[cell] - m * one.contents[cell];
        (difference * difference, n * n * other.square(cell) + m * m * one.square(cell))
    }))
}

fn chi2_of_means(one: &Histogram, other: &Histogram) -> (f64, u32) {
    sum((0..one.contents.len()).filter_map(|cell| {
        let ((mean, error), (other, other_error)) = (one.mean_in(cell)?, other.mean_in(cell)?);
        let (error, other_error) = (error?, other_error?);
        Some(((mean - other).powi(2), error * error + other_error * other_error))
    }))
}

/// Adds quotients, and counts those whose divisor is positive.
fn sum(quotients: impl Iterator<Item = (f64, f64)>) -> (f64, u32) {
    let positive = quotients.filter(|(_, divisor)| *divisor > 0.0);
    positive.fold((0.0, 0), |(sum, count), (dividend, divisor)| (sum + dividend / divisor, count + 1))
}

/// Returns the largest difference of the cumulative distributions, over the cells in this order.
fn distance([one, other]: [&Histogram; 2], [n, m]: [f64; 2], cells: impl Iterator<Item = usize>) -> f64 {
    let (mut difference, mut largest) = (0.0_f64, 0.0_f64);
    for cell in cells {
        difference += one.contents[cell] / n - other.contents[cell] / m;
        largest = largest.max(difference.abs());
    }
    largest
}
