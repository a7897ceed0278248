//! Covariates that two studies share: the outcome depends on the mediators y and on covariates w, which
//! treatments do not change, and both studies measured w.
//!
//! An effect then averages `f(y, w_j)` over the units j of the first study, with the treatment's effect on a
//! unit with j's covariates z_j (which include w). With k_y and k_w the factors of the outcome's kernel, ỹ,
//! w̃ the last study's rows, `S = K_x ∘ K_z + λ` and C the columns of functionals over treatments, all terms
//! are linear or quadratic in C:
//!
//! ```text
//! columns over ỹ, w̃:            Bᵀ C,   B = (S⁻¹ K_yỹ) ∘ (K_z K_ww̃)/n
//! their kernel:                  Cᵀ P C, P = (S⁻¹ K_yy S⁻¹) ∘ (K_z K_ww K_z)/n²
//! residual part of the study:    a k(x, x') - Cᵀ G C,   a = Σ (K_z ∘ V)/n²,  G = S⁻¹ ∘ (K_z V K_z)/n²
//! ```
//!
//! with `V_jk = ∫ E[f₀(u, w_j) f₀(u, w_k)] dν(u)`, in two parts: from the means, and from the posterior
//! covariance of f. Cost n³. This is ours.

use super::outcome_gp::OutcomeGp;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// The columns that a study shares with the last one: mediators, and covariates.
pub(super) struct SharedColumns<'a> {
    pub y: &'a Table,
    pub w: &'a Table,
    /// Places of both among the columns of the last study.
    pub places: (&'a [usize], &'a [usize]),
}

/// B, P, and a and G of both parts.
#[derive(Debug, Clone)]
pub(super) struct SharedCovariateTerms {
    /// Bᵀ.
    pub to: Matrix,
    pub prior: Matrix,
    pub of_means: (f64, Matrix),
    pub of_open: (f64, Matrix),
    /// Coefficients over treatments.
    pub coef: Vec<f64>,
    /// For every unit the values of f that multiply the treatment's columns, points × units.
    pub of_people: Matrix,
}

fn times(mut a: Matrix, b: &Matrix, factor: f64) -> Matrix {
    a.data_mut().iter_mut().zip(b.data()).for_each(|(a, b)| *a *= b * factor);
    a
}

/// Two kernels over the columns at these places whose product is `kernel`, as it is over rows.
fn kernel_factors(kernel: &Kernel, rows: &Table, y: &[usize], w: &[usize]) -> Result<(Kernel, Kernel)> {
    let allowed = "it is a product of one over mediators and one over the covariates that studies share";
    // The scale stays with the covariates.
    let mut factors = split(kernel, rows, &[w.to_vec(), y.to_vec()], allowed)?.into_iter();
    match (factors.next(), factors.next()) {
        (Some(of_w), Some(of_y)) => Ok((of_y, of_w)),
        _ => Err(Error::parameter("kernel of the outcome", kernel.formula(), allowed)),
    }
}

/// Kernels over groups of columns, each numbered by its own columns, whose product is `kernel` at rows. The
/// first group that has columns has the scale; an empty group has the constant 1.
///
/// # Errors
/// [`Error::Parameter`] with the words `allowed` for kernels that are no such product.
pub(super) fn split(
    kernel: &Kernel,
    rows: &Table,
    groups: &[Vec<usize>],
    allowed: &str,
) -> Result<Vec<Kernel>> {
    let check_rows = rows.select_rows(&(0..rows.rows().min(CHECK_ROWS)).collect::<Vec<_>>());
    let check_gram = kernel.gram(&check_rows);
    let largest = (0..check_rows.rows())
        .max_by(|&a, &b| check_gram[(a, a)].total_cmp(&check_gram[(b, b)]))
        .unwrap_or(0);
    let mut product =
        Matrix::from_row_major(check_gram.rows(), check_gram.cols(), vec![1.0; check_gram.data().len()]);
    let mut kernels = Vec::with_capacity(groups.len());
    for group in groups {
        if group.is_empty() {
            kernels.push(Kernel::constant(1.0));
            continue;
        }
        let place = |j: usize| group.iter().position(|column| *column == j).unwrap_or(j);
        let group_kernel = kernel.restricted(&|j| group.contains(&j)).map_columns(&place);
        let gram = group_kernel.gram(&check_rows.select_columns(group));
        let size = 1.0 / gram[(largest, largest)];
        product = times(product, &gram, size);
        kernels.push(size * group_kernel);
    }
    let scale = check_gram[(largest, largest)] / product[(largest, largest)];
    let pairs = check_gram.data().iter().zip(product.data());
    let max_error = pairs.map(|(entry, product)| (entry - scale * product).abs()).fold(0.0, f64::max);
    if max_error.is_nan() || max_error > 1e-9 * check_gram[(largest, largest)] {
        return Err(Error::parameter("kernel of the outcome", kernel.formula(), allowed));
    }
    if let Some(first) = groups.iter().position(|group| !group.is_empty()) {
        kernels[first] = scale * kernels[first].clone();
    }
    Ok(kernels)
}

/// Rows that tell whether a kernel is a product.
const CHECK_ROWS: usize = 30;

impl SharedCovariateTerms {
    /// The terms, from the covariates' kernel between rows, `S`, the outcome with the factors of its kernel,
    /// and rows of ν.
    pub fn new(
        of_covariates: &Matrix,
        factor: &Cholesky,
        common: &SharedColumns<'_>,
        measure: &Table,
        process: &OutcomeGp,
    ) -> Result<Self> {
        let (of_y, of_w) =
            kernel_factors(process.kernel(), process.points(), common.places.0, common.places.1)?;
        let n = factor.size();
        let share = 1.0 / n as f64;
        let (rows_y, rows_w) = (
            process.points().select_columns(common.places.0),
            process.points().select_columns(common.places.1),
        );
        let (y_last, w_last) = (of_y.cross_gram(common.y, &rows_y), of_w.cross_gram(common.w, &rows_w));
        let w_each = of_w.gram(common.w);
        let to = times(factor.solve(y_last.clone()), &of_covariates.matmul(&w_last), share);
        let coef = to.matvec(process.coef());
        let solved = factor.solve(of_y.gram(common.y));
        let sandwich = |m: &Matrix| of_covariates.matmul(&m.matmul(of_covariates));
        let prior = times(factor.solve(solved.transpose()), &sandwich(&w_each), share * share);
        // f̄₀(u, w_j) and f̄₀(y_i, w_j).
        let last_weighted = |m: &Matrix| {
            let mut weighted = m.clone();
            (0..weighted.rows())
                .for_each(|i| weighted.row_mut(i).iter_mut().zip(process.coef()).for_each(|(v, a)| *v *= a));
            weighted
        };
        let people = w_last.transpose();
        let u_last = of_y.cross_gram(measure, &rows_y);
        let count = measure.rows() as f64;
        let means = last_weighted(&u_last).matmul(&people);
        let mut of_means = means.transpose_matmul(&means);
        of_means.data_mut().iter_mut().for_each(|v| *v /= count);
        let mut squares = u_last.transpose_matmul(&u_last);
        squares.data_mut().iter_mut().for_each(|v| *v /= count);
        let known = times(process.inverse(), &squares, 1.0);
        let mut of_open = w_last.matmul(&known.matmul(&people));
        let size = of_y.diagonal(measure).iter().sum::<f64>() / count;
        of_open.data_mut().iter_mut().zip(w_each.data()).for_each(|(v, w)| *v = size * w - *v);
        let inverse = factor.inverse();
        let opens = |v: &Matrix| {
            let scale = share * share * dot(of_covariates.data(), v.data());
            (scale, times(inverse.clone(), &sandwich(v), share * share))
        };
        let of_people = times(factor.solve(last_weighted(&y_last).matmul(&people)), of_covariates, 1.0);
        Ok(Self {
            of_means: opens(&of_means),
            of_open: opens(&of_open),
            to: to.transpose(),
            prior,
            coef,
            of_people,
        })
    }
}
