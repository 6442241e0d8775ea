//! Least squares for a few parameters: Gauss and Newton's steps, shortened where they go wrong (Levenberg 1944,
//! Marquardt 1963), with derivatives by differences.

/// A fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fit<const N: usize> {
    /// The parameters.
    pub(crate) parameters: [f64; N],
    /// Their standard errors; infinite where the data do not determine them.
    pub(crate) errors: [f64; N],
}

/// Number of steps after which a fit has converged or never will.
const STEPS: usize = 200;

/// Minimises the sum of the squares of `residuals`, beginning at `start`.
pub(crate) fn least_squares<const N: usize>(
    start: [f64; N],
    residuals: impl Fn(&[f64; N]) -> Vec<f64>,
) -> Fit<N> {
    let cost = |parameters: &[f64; N]| {
        let sum: f64 = residuals(parameters).iter().map(|residual| residual * residual).sum();
        if sum.is_finite() { sum } else { f64::INFINITY }
    };
    let mut parameters = start;
    let mut least = cost(&parameters);
    let mut damping = 1e-3;
    for _ in 0..STEPS {
        let (curvature, gradient) = normal_equations(&parameters, &residuals);
        let mut damped = curvature;
        for (index, row) in damped.iter_mut().enumerate() {
            row[index] = row[index] * (1.0 + damping) + 1e-30;
        }
        let step = solve(damped, gradient);
        let trial: [f64; N] = std::array::from_fn(|index| parameters[index] - step[index]);
        let sum = cost(&trial);
        if sum < least {
            let gain = (least - sum) / least.max(f64::MIN_POSITIVE);
            (parameters, least, damping) = (trial, sum, damping / 10.0);
            if gain < 1e-12 {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    Fit { parameters, errors: errors(&parameters, least, &residuals) }
}

/// `J^T J` and `J^T r`.
fn normal_equations<const N: usize>(
    parameters: &[f64; N],
    residuals: &impl Fn(&[f64; N]) -> Vec<f64>,
) -> ([[f64; N]; N], [f64; N]) {
    let columns: [Vec<f64>; N] = std::array::from_fn(|index| {
        let step = 1e-6 * parameters[index].abs().max(1e-3);
        let shifted = |sign: f64| {
            let mut shifted = *parameters;
            shifted[index] += sign * step;
            residuals(&shifted)
        };
        shifted(1.0).iter().zip(shifted(-1.0)).map(|(up, down)| (up - down) / (2.0 * step)).collect()
    });
    let here = residuals(parameters);
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    let curvature =
        std::array::from_fn(|row| std::array::from_fn(|column| product(&columns[row], &columns[column])));
    (curvature, std::array::from_fn(|row| product(&columns[row], &here)))
}

/// Standard errors from the curvature at the minimum.
fn errors<const N: usize>(
    parameters: &[f64; N],
    least: f64,
    residuals: &impl Fn(&[f64; N]) -> Vec<f64>,
) -> [f64; N] {
    let (curvature, _) = normal_equations(parameters, residuals);
    let points = residuals(parameters).len();
    let Some(freedom) = points.checked_sub(N).filter(|freedom| *freedom > 0) else {
        return [f64::INFINITY; N];
    };
    #[expect(clippy::cast_precision_loss, reason = "a number of points")]
    let variance = least / freedom as f64;
    std::array::from_fn(|index| {
        let unit = std::array::from_fn(|row| if row == index { 1.0 } else { 0.0 });
        let inverse = solve(curvature, unit)[index];
        if inverse.is_finite() && inverse >= 0.0 { (inverse * variance).sqrt() } else { f64::INFINITY }
    })
}

/// Solves `matrix x = right` by elimination with the largest pivot.
fn solve<const N: usize>(mut matrix: [[f64; N]; N], mut right: [f64; N]) -> [f64; N] {
    for column in 0..N {
        let pivot = (column..N)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))
            .unwrap_or(column);
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..N {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column];
            for (value, above) in matrix[row].iter_mut().zip(above) {
                *value -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    let mut solution = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|column| matrix[row][column] * solution[column]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    solution
}

/// The factor by which a standard error becomes half of a 95 % interval: Student's t.
pub(crate) fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    match freedom {
        0 => f64::INFINITY,
        1..=10 => TABLE[freedom - 1],
        11..=20 => 2.15,
        21..=60 => 2.03,
        _ => 1.96,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_is_found_through_points_on_it(slope in -50.0..50.0_f64, offset in -50.0..50.0_f64) {
            let points: Vec<(f64, f64)> = (0..7).map(f64::from).map(|x| (x, offset + slope * x)).collect();
            let residuals = |p: &[f64; 2]| points.iter().map(|(x, y)| p[0] + p[1] * x - y).collect::<Vec<_>>();
            let fit = least_squares([1.0, 1.0], residuals);
            prop_assert!((fit.parameters[0] - offset).abs() < 1e-5 && (fit.parameters[1] - slope).abs() < 1e-5);
        }
    }

    #[test]
    fn errors_of_a_mean_are_those_of_a_mean() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let fit = least_squares([0.5], |p: &[f64; 1]| values.iter().map(|value| p[0] - value).collect());
        assert!((fit.parameters[0] - 2.5).abs() < 1e-6);
        // Standard deviation 1.29 over the root of four.
        assert!((fit.errors[0] - 1.290_994 / 2.0).abs() < 1e-4);
    }

    #[test]
    fn what_the_data_do_not_tell_has_an_endless_error() {
        let fit = least_squares([1.0, 1.0], |p: &[f64; 2]| vec![p[0] - 3.0, p[0] - 3.1, p[0] - 2.9]);
        assert!(fit.errors[1].is_infinite() || fit.errors[1] > 1e6, "{:?}", fit.errors);
    }
}
