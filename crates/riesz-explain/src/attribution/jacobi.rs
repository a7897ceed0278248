//! Gauss–Jacobi rules, for averages over a Beta distribution on [0, 1].
//!
//! Nodes are the roots of orthogonal polynomials. They are computed as eigenvalues of the Jacobi matrix
//! (Golub and Welsch 1969) and improved by Newton's method in double-double arithmetic. Nodes and weights are
//! correct to the last digit but one, even for tiny weights. The crate gauss-quad 0.3.2 puts the middle node
//! of odd rules at 0, with an error of up to 0.36.

use twofloat::TwoFloat;

use crate::linalg::{Matrix, symmetric_eigen};

/// Coefficients `A_k` and `√B_{k+1}`, for k < `count`, of the recurrence `√B_{k+1} p_{k+1} = (x - A_k) p_k -
/// √B_k p_{k-1}`. The polynomials p are orthonormal on [-1, 1] under the density proportional to `(1 - x)^a
/// (1 + x)^b`.
fn recurrence(count: usize, a: f64, b: f64) -> Vec<[TwoFloat; 2]> {
    let (unit, a, b) = (TwoFloat::from(1.0), TwoFloat::from(a), TwoFloat::from(b));
    let sum = a + b;
    let coefficients = |k: usize| {
        let k = TwoFloat::from(k as f64);
        // `2k + a + b` at this k and at the next.
        let (now, k1) = (k + k + sum, k + unit);
        let next = now + unit + unit;
        // At k = 0 the common factor a + b, which may be 0, is cancelled.
        let shift =
            if k == 0.0 { twofloat_div(b - a, next) } else { twofloat_div(b * b - a * a, now * next) };
        let scale = if k == 0.0 { unit } else { twofloat_div(k1 + sum, next - unit) };
        (shift, twofloat_div(k1 * (k1 + a) * (k1 + b) * scale * 4.0, next * next * (next + unit)))
    };
    (0..count).map(coefficients).map(|(shift, square)| [shift, square.sqrt()]).collect()
}

/// The quotient `a / b` by long division. The division of twofloat 0.8.4 is accurate to half of the digits
/// only, since it computes `1 - b (1/b)` of rounded numbers.
fn twofloat_div(a: TwoFloat, b: TwoFloat) -> TwoFloat {
    let first = a.hi() / b.hi();
    let remainder = a - b * first;
    let second = remainder.hi() / b.hi();
    let remainder = remainder - b * second;
    TwoFloat::new_add(first, second) + remainder.hi() / b.hi()
}

/// The Newton step `p_m / p_m'` at x, and `Σ_{k<m} p_k²`, where m is the length of `recurrence`.
fn newton(recurrence: &[[TwoFloat; 2]], x: TwoFloat) -> (TwoFloat, TwoFloat) {
    let zero = TwoFloat::from(0.0);
    let ([mut before, mut slope_before], mut root_before) = ([zero; 2], zero);
    let (mut value, mut slope, mut squares) = (TwoFloat::from(1.0), zero, zero);
    for [shift, root] in recurrence {
        squares += value * value;
        let next = twofloat_div((x - *shift) * value - root_before * before, *root);
        let slope_next = twofloat_div(value + (x - *shift) * slope - root_before * slope_before, *root);
        (before, slope_before, root_before) = (value, slope, *root);
        (value, slope) = (next, slope_next);
    }
    (twofloat_div(value, slope), squares)
}

/// The Gauss rule with `m ≥ 1` nodes for the density proportional to `t^(first - 1) (1 - t)^(second - 1)`:
/// for each node its t in [0, 1], `1 - t` and its weight. The weights sum to 1. Cost O(m³).
pub(super) fn gauss_jacobi(m: usize, first: f64, second: f64) -> Vec<[f64; 3]> {
    let recurrence = recurrence(m, second - 1.0, first - 1.0);
    let mut matrix = Matrix::zeros(m, m);
    for (k, [shift, root]) in recurrence.iter().enumerate() {
        matrix[(k, k)] = f64::from(*shift);
        if k + 1 < m {
            (matrix[(k, k + 1)], matrix[(k + 1, k)]) = (f64::from(*root), f64::from(*root));
        }
    }
    // The matrix is tridiagonal with positive off-diagonal entries, so its eigenvalues are finite and
    // distinct.
    let guesses = symmetric_eigen(&matrix).map_or_else(|_| vec![f64::NAN; m], |(values, _)| values);
    let node = |guess: &f64| {
        let mut x = TwoFloat::from(*guess);
        for _ in 0..3 {
            let step = newton(&recurrence, x).0;
            x -= if step.hi().is_finite() { step } else { TwoFloat::from(0.0) };
        }
        let (_, squares) = newton(&recurrence, x);
        // If the sum of squares overflows, the weight is below the range of doubles.
        let weight = if squares.hi().is_finite() {
            f64::from(twofloat_div(TwoFloat::from(1.0), squares))
        } else {
            0.0
        };
        let halved = |v: TwoFloat| f64::from(v * 0.5);
        [halved(x + 1.0), halved(TwoFloat::from(1.0) - x), weight]
    };
    guesses.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use statrs::function::gamma::ln_gamma;

    use super::*;

    /// `∫ t^i (1 - t)^j dμ` equals a quotient of Beta functions: to the last digits for small powers, and to
    /// the precision of `ln_gamma` for all powers that a rule integrates exactly.
    #[test]
    fn moments_are_those_of_the_distribution() {
        for (first, second) in [(1.0, 1.0), (4.0, 1.0), (1.0, 16.0), (0.5, 0.5), (2.5, 0.3), (40.0, 7.0)] {
            for m in [1, 2, 3, 8, 31, 120] {
                let rule = gauss_jacobi(m, first, second);
                assert!(
                    rule.windows(2).all(|w| w[0][0] < w[1][0]) && rule[0][0] > 0.0 && rule[m - 1][1] > 0.0
                );
                let moment =
                    |i: i32, j: i32| rule.iter().map(|[t, s, w]| w * t.powi(i) * s.powi(j)).sum::<f64>();
                assert!((moment(0, 0) - 1.0).abs() < 1e-14, "{first} {second} {m}");
                let mean = first / (first + second);
                assert!((moment(1, 0) / mean - 1.0).abs() < 1e-14, "{first} {second} {m}");
                for (i, j) in (0..2 * m as i32).map(|i| (i, 2 * m as i32 - 1 - i)) {
                    let (p, q) = (first + f64::from(i), second + f64::from(j));
                    let log =
                        ln_gamma(p) + ln_gamma(q) - ln_gamma(p + q) - ln_gamma(first) - ln_gamma(second)
                            + ln_gamma(first + second);
                    let truth = log.exp();
                    assert!((moment(i, j) / truth - 1.0).abs() < 1e-11, "{first} {second} {m} {i} {j}");
                }
            }
        }
    }

    /// Outer and middle nodes of some rules against 40 digits from the eigenvalues of the Jacobi matrix
    /// (mpmath).
    #[test]
    #[allow(clippy::excessive_precision, reason = "as they were computed")]
    fn nodes_and_weights_are_right_to_the_last_digits() {
        let reference: Vec<(usize, f64, f64, usize, [f64; 3])> = vec![
            (31, 4.0, 1.0, 0, [0.0093215375471018197147, 0.99067846245289818029, 3.32522821906696107e-8]),
            (31, 4.0, 1.0, 15, [0.53470391765390252107, 0.46529608234609747893, 0.029090252216299686892]),
            (31, 4.0, 1.0, 30, [0.99867030546843324931, 0.0013296945315667506926, 0.013589307857515660872]),
            (40, 0.5, 0.5, 0, [0.00038548187963853263144, 0.99961451812036146737, 0.025]),
            (40, 0.5, 0.5, 20, [0.51962990787953430451, 0.48037009212046569549, 0.025]),
            (40, 0.5, 0.5, 39, [0.99961451812036146737, 0.00038548187963853263144, 0.025]),
            (25, 1.0, 16.0, 0, [0.0013992054065852105779, 0.99860079459341478942, 0.056234091716977430085]),
            (25, 1.0, 16.0, 12, [0.34316801668562647186, 0.65683198331437352814, 0.0013764799697583146706]),
            (25, 1.0, 16.0, 24, [0.90947352586262549323, 0.090526474137374506771, 1.4835395648150595219e-16]),
        ];
        for (m, first, second, k, truth) in reference {
            let node = gauss_jacobi(m, first, second)[k];
            for (actual, truth) in node.iter().zip(truth) {
                assert!((actual / truth - 1.0).abs() < 3e-16, "{m} {first} {second} {k}: {actual} {truth}");
            }
        }
    }
}
