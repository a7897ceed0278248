//! Covariates that two studies share: the outcome depends on the mediators y and on w, which treatments do
//! not move, and both studies know w.
//!
//! An effect then averages `f(y, w_j)` over the people j of the first study, each with what the treatment
//! does to someone with j's covariates z_j (w is among them). With k_y and k_w the factors of the outcome's
//! kernel, ỹ, w̃ the last study's rows, `S = K_x ∘ K_z + λ` and C the columns of functionals over treatments,
//! all is linear or quadratic in C:
//!
//! ```text
//! columns over ỹ, w̃:          Bᵀ C,   B = (S⁻¹ K_yỹ) ∘ (K_z K_ww̃)/n
//! their kernel:                Cᵀ P C, P = (S⁻¹ K_yy S⁻¹) ∘ (K_z K_ww K_z)/n²
//! what the study leaves open:  a k(x, x') - Cᵀ G C,   a = Σ (K_z ∘ V)/n²,  G = S⁻¹ ∘ (K_z V K_z)/n²
//! ```
//!
//! with `V_jk = ∫ E[f₀(u, w_j) f₀(u, w_k)] dν(u)`, in two parts: of the means, and of what is open of f. Cost
//! n³. Ours.

use super::outcome_gp::OutcomeGp;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// What a study shares with the last one: mediators, and covariates.
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
    /// Of every person what f makes of the treatment's columns, points × people.
    pub of_people: Matrix,
}

fn times(mut a: Matrix, b: &Matrix, by: f64) -> Matrix {
    a.data_mut().iter_mut().zip(b.data()).for_each(|(a, b)| *a *= b * by);
    a
}

/// Two kernels over the columns at these places whose product is `kernel`, as it is over rows.
fn kernel_factors(kernel: &Kernel, rows: &Table, y: &[usize], w: &[usize]) -> Result<(Kernel, Kernel)> {
    let allowed = "it is a product of one over mediators and one over the covariates that studies share";
    // The scale stays with the covariates.
    let mut both = split(kernel, rows, &[w.to_vec(), y.to_vec()], allowed)?.into_iter();
    match (both.next(), both.next()) {
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
    let some = rows.select_rows(&(0..rows.rows().min(CHECK_ROWS)).collect::<Vec<_>>());
    let all = kernel.gram(&some);
    let largest = (0..some.rows()).max_by(|&a, &b| all[(a, a)].total_cmp(&all[(b, b)])).unwrap_or(0);
    let mut product = Matrix::from_row_major(all.rows(), all.cols(), vec![1.0; all.data().len()]);
    let mut found = Vec::with_capacity(groups.len());
    for group in groups {
        if group.is_empty() {
            found.push(Kernel::constant(1.0));
            continue;
        }
        let place = |j: usize| group.iter().position(|own| *own == j).unwrap_or(j);
        let own = kernel.restricted(&|j| group.contains(&j)).map_columns(&place);
        let gram = own.gram(&some.select_columns(group));
        let size = 1.0 / gram[(largest, largest)];
        product = times(product, &gram, size);
        found.push(size * own);
    }
    let scale = all[(largest, largest)] / product[(largest, largest)];
    let pairs = all.data().iter().zip(product.data());
    let off = pairs.map(|(all, product)| (all - scale * product).abs()).fold(0.0, f64::max);
    if off.is_nan() || off > 1e-9 * all[(largest, largest)] {
        return Err(Error::parameter("kernel of the outcome", kernel.formula(), allowed));
    }
    if let Some(first) = groups.iter().position(|group| !group.is_empty()) {
        found[first] = scale * found[first].clone();
    }
    Ok(found)
}

/// Rows that tell whether a kernel is a product.
const CHECK_ROWS: usize = 30;

impl SharedCovariateTerms {
    /// By the covariates' kernel between rows, `S`, the outcome with the factors of its kernel, and rows of
    /// ν.
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
        let half = factor.solve(of_y.gram(common.y));
        let around = |m: &Matrix| of_covariates.matmul(&m.matmul(of_covariates));
        let prior = times(factor.solve(half.transpose()), &around(&w_each), share * share);
        // f̄₀(u, w_j) and f̄₀(y_i, w_j).
        let last_weighted = |m: &Matrix| {
            let mut own = m.clone();
            (0..own.rows())
                .for_each(|i| own.row_mut(i).iter_mut().zip(process.coef()).for_each(|(v, a)| *v *= a));
            own
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
            let own = share * share * dot(of_covariates.data(), v.data());
            (own, times(inverse.clone(), &around(v), share * share))
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
