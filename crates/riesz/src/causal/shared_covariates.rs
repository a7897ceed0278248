//! Covariates that two studies share: the outcome depends on the mediators y and on covariates w, which
//! treatments do not change and which both studies measured.
//!
//! An effect then averages `f(y, w_j)` over the n units j of the first study, with the treatment's effect on
//! a unit with covariates z_j (which include w_j). Let k_y and k_w be the factors of the outcome's kernel, ỹ
//! and w̃ the last study's rows, x the treatments, `S = K_x ∘ K_z + λ` (n × n), and C (n × functionals) the
//! columns of functionals over treatments. All terms are then linear or quadratic in C:
//!
//! ```text
//! columns over ỹ, w̃:            Bᵀ C,   B = (S⁻¹ K_yỹ) ∘ (K_z K_ww̃)/n
//! their kernel:                  Cᵀ P C, P = (S⁻¹ K_yy S⁻¹) ∘ (K_z K_ww K_z)/n²
//! residual part of the study:    a k(x, x') - Cᵀ G C,   a = Σ (K_z ∘ V)/n²,  G = S⁻¹ ∘ (K_z V K_z)/n²
//! ```
//!
//! with `V_jk = ∫ E[f₀(u, w_j) f₀(u, w_k)] dν(u)` (n × n), in two parts: from the means, and from the
//! posterior covariance of f. Cost n³. Source: this crate.

use super::outcome_gp::OutcomeGp;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot, mean};
use crate::table::Table;

/// The terms B and P, and a and G of both parts of V.
#[derive(Debug, Clone)]
pub(super) struct SharedCovariateTerms {
    /// Transpose of B; `prior` is P, and `mean_terms` and `covariance_terms` are a and G of the two parts of
    /// V.
    pub column_map: Matrix,
    pub prior: Matrix,
    pub mean_terms: (f64, Matrix),
    pub covariance_terms: (f64, Matrix),
    /// Coefficients of the effect's mean over treatments.
    pub coef: Vec<f64>,
    /// Values of f that multiply the treatment's columns, points × units.
    pub unit_coefficients: Matrix,
}

fn scaled_product(mut a: Matrix, b: &Matrix, factor: f64) -> Matrix {
    a.data_mut().iter_mut().zip(b.data()).for_each(|(a, b)| *a *= b * factor);
    a
}

/// Splits `kernel` into a product of kernels over groups of columns, each numbered within its group; this is
/// checked at rows. The first nonempty group has the scale; an empty group has the constant 1.
///
/// # Errors
/// [`Error::Parameter`] with the text `allowed` for kernels that are not such a product.
pub(super) fn split<const N: usize>(
    kernel: &Kernel,
    rows: &Table,
    groups: [&[usize]; N],
    allowed: &str,
) -> Result<[Kernel; N]> {
    let check_rows = rows.head(CHECK_ROWS);
    let check_gram = kernel.gram(&check_rows);
    let largest = (0..check_rows.rows())
        .max_by(|&a, &b| check_gram[(a, a)].total_cmp(&check_gram[(b, b)]))
        .unwrap_or(0);
    let mut product = Matrix::filled(check_gram.rows(), check_gram.cols(), 1.0);
    let mut kernels = groups.map(|_| Kernel::constant(1.0));
    for (group_factor, group) in kernels.iter_mut().zip(groups).filter(|(_, group)| !group.is_empty()) {
        let index_in_group = |j: usize| group.iter().position(|column| *column == j).unwrap_or(j);
        let group_kernel = kernel.restricted(&|j| group.contains(&j)).map_columns(&index_in_group);
        let gram = group_kernel.gram(&check_rows.select_columns(group));
        let normaliser = 1.0 / gram[(largest, largest)];
        product = scaled_product(product, &gram, normaliser);
        *group_factor = normaliser * group_kernel;
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

/// Number of rows at which a kernel is checked to be a product.
const CHECK_ROWS: usize = 30;

impl SharedCovariateTerms {
    /// Computes the terms from the covariates' kernel between rows, the Cholesky factor of `S`, tables with
    /// the mediators and the covariates w, both of them at the study's rows and those of ν, and the
    /// outcome's process.
    pub fn new(
        covariate_gram: &Matrix,
        factor: &Cholesky,
        (mediators, covariates): (&Table, &Table),
        (rows, measure): (&Table, &Table),
        process: &OutcomeGp,
    ) -> Result<Self> {
        let (kernel, points) = (&process.parameters.kernel, &process.points);
        let column_indices = |table: &Table| {
            table.columns().iter().map(|column| points.index_of(&column.name)).collect::<Result<Vec<_>>>()
        };
        let (y, w) = (&column_indices(mediators)?[..], &column_indices(covariates)?[..]);
        let (row_mediators, row_covariates, measure) =
            (rows.select_columns(y), rows.select_columns(w), measure.select_columns(y));
        let allowed = "it is a product of one over mediators and one over the covariates that studies share";
        // The factor of the covariates has the scale.
        let [covariate_kernel, mediator_kernel] = split(kernel, points, [w, y], allowed)?;
        let n = factor.size();
        let share = 1.0 / n as f64;
        let (point_mediators, point_covariates) = (points.select_columns(y), points.select_columns(w));
        let (mediator_cross_gram, covariate_cross_gram) = (
            mediator_kernel.cross_gram(&row_mediators, &point_mediators),
            covariate_kernel.cross_gram(&row_covariates, &point_covariates),
        );
        let shared_covariate_gram = covariate_kernel.gram(&row_covariates);
        let column_map = scaled_product(
            factor.solve(mediator_cross_gram.clone()),
            &covariate_gram.matmul(&covariate_cross_gram),
            share,
        );
        let coef = column_map.matvec(&process.coef);
        let solved = factor.solve(mediator_kernel.gram(&row_mediators));
        let sandwich = |m: &Matrix| covariate_gram.matmul(&m.matmul(covariate_gram));
        let prior = scaled_product(
            factor.solve(solved.transpose()),
            &sandwich(&shared_covariate_gram),
            share * share,
        );
        // These factors give the means f̄₀(u, w_j) and f̄₀(y_i, w_j).
        let times_coef = |m: &Matrix| {
            let mut weighted = m.clone();
            weighted.scale_columns(process.coef.iter().copied());
            weighted
        };
        let unit_columns = covariate_cross_gram.transpose();
        let measure_cross_gram = mediator_kernel.cross_gram(&measure, &point_mediators);
        let count = measure.rows() as f64;
        let means = times_coef(&measure_cross_gram).matmul(&unit_columns);
        let mut mean_part = means.transpose_matmul(&means);
        mean_part.map_in_place(|v| v / count);
        let mut squares = measure_cross_gram.transpose_matmul(&measure_cross_gram);
        squares.map_in_place(|v| v / count);
        let explained = scaled_product(process.solver.inverse(), &squares, 1.0);
        let mut covariance_part = covariate_cross_gram.matmul(&explained.matmul(&unit_columns));
        let mean_diagonal = mean(&mediator_kernel.diagonal(&measure));
        covariance_part
            .data_mut()
            .iter_mut()
            .zip(shared_covariate_gram.data())
            .for_each(|(v, w)| *v = mean_diagonal * w - *v);
        let inverse = factor.inverse();
        let residual_terms = |v: &Matrix| {
            let scale = share * share * dot(covariate_gram.data(), v.data());
            (scale, scaled_product(inverse.clone(), &sandwich(v), share * share))
        };
        let unit_coefficients = scaled_product(
            factor.solve(times_coef(&mediator_cross_gram).matmul(&unit_columns)),
            covariate_gram,
            1.0,
        );
        Ok(Self {
            mean_terms: residual_terms(&mean_part),
            covariance_terms: residual_terms(&covariance_part),
            column_map: column_map.transpose(),
            prior,
            coef,
            unit_coefficients,
        })
    }
}
