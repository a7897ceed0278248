//! The log odds of all pairs of some items: the posterior mean of a fitted model, and joint draws from its
//! posterior.
//!
//! N items have N² pairs, whose joint covariance is too large for more than a hundred items. But the prior of
//! pairs comes from a kernel matrix `K = R Rᵀ` (N × N) of items, so a draw from it costs only N³. Let z be a
//! vector of standard normal numbers, S a skew matrix with standard normal numbers above its diagonal, and u
//! and c the variances of the utility and generalised parts. Then `√u (Rz 1ᵀ - 1 (Rz)ᵀ) + √c R S Rᵀ` has the
//! covariance of [`PairKernel`]. A draw from the posterior is a draw from the prior plus an update by the
//! duels (Matheron's rule; Wilson et al. 2020). It is exact for the normal distribution of Laplace's
//! approximation.

use std::collections::HashMap;

use super::gp_preference::PreferenceFit;
use super::pair_kernel::{PairKernel, wide_rows};
use crate::error::{Error, Result};
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::key;
use crate::linalg::{Cholesky, Matrix, Sparse, add_to, symmetric_eigen};
use crate::posterior::{PosteriorCovariance, VarianceReduction};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::Table;

/// The log odds of all pairs of items: entry (l, r) is the log odds that l beats r. The matrix is exactly
/// skew, without rounding errors.
pub struct PairwiseLogOdds<'m> {
    model: &'m KernelExpansion,
    prior: &'m PairKernel,
    /// The number of requested items, which come first.
    n_requested: usize,
    /// The kernel matrix of all items: the requested items, then other items of the duels.
    k: Matrix,
    /// The kernel matrix of the further utilities, with their variances.
    extra_utility: Option<Matrix>,
    /// The items of the model's support points, left and right.
    points: Vec<(usize, usize)>,
    /// The operator from support points to observations, and the factor of the observations' covariance.
    observations: Option<(&'m Sparse, &'m Cholesky)>,
}

impl PreferenceFit {
    /// Returns the log odds of all pairs of the rows of `items`, which may be items without duels.
    ///
    /// # Errors
    /// As [`PairwiseLogOdds::new`].
    pub fn flow(&self, items: &Table) -> Result<PairwiseLogOdds<'_>> {
        PairwiseLogOdds::new(&self.model, &self.covariance, &self.prior, items)
    }
}

impl<'m> PairwiseLogOdds<'m> {
    /// Creates the log odds of a model that was fitted with this prior, between the rows of `items`. Cost
    /// O((N + M)² d) for N rows and M other items of the duels.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Parameter`] if the model does not have this prior.
    pub fn new(
        model: &'m KernelExpansion,
        covariance: &'m PosteriorCovariance,
        prior: &'m PairKernel,
        items: &Table,
    ) -> Result<Self> {
        let width = items.width();
        if model.kernel != prior.wide_row_kernel(width) {
            let allowed = "the model must be one of pairs of such items, with the kernel of its prior";
            return Err(Error::parameter("model", model.kernel.formula(), allowed));
        }
        let same_pairs: Vec<(usize, usize)> = (0..items.rows()).map(|i| (i, i)).collect();
        let wide = wide_rows(items, &same_pairs)?.align_to(model.columns())?;
        let side_of = |wide: &Table, first| wide.select_columns(&(first..first + width).collect::<Vec<_>>());
        let requested = side_of(&wide, 0);
        let mut item_indices: HashMap<Vec<u64>, usize> = HashMap::new();
        for i in 0..requested.rows() {
            item_indices.entry(key(&requested.row(i))).or_insert(i);
        }
        let (mut other_rows, mut sides) = (Vec::new(), Vec::new());
        for first in [0, width] {
            let side = side_of(&model.support_points, first);
            let mut index_of = |i: usize| {
                *item_indices.entry(key(&side.row(i))).or_insert_with(|| {
                    other_rows.push(side.row(i));
                    requested.rows() + other_rows.len() - 1
                })
            };
            sides.push((0..side.rows()).map(&mut index_of).collect::<Vec<usize>>());
        }
        let other_items = Table::from_named_rows(requested.columns().to_vec(), &other_rows)?;
        let observations = match covariance.reduction.first() {
            Some(VarianceReduction::CholeskyInverse { operator: Some(operator), factor })
                if covariance.mirror.is_some() =>
            {
                Some((operator, factor))
            }
            _ => None,
        };
        let points = sides[0].iter().copied().zip(sides[1].iter().copied()).collect();
        let items_and_points = requested.stack(&other_items)?;
        let k = prior.items.gram(&items_and_points);
        let extra_utility = prior.extra_utility_kernel.as_ref().map(|kernel| kernel.gram(&items_and_points));
        Ok(Self { model, prior, n_requested: requested.rows(), k, extra_utility, points, observations })
    }

    /// Returns the number of requested items.
    pub fn items(&self) -> usize {
        self.n_requested
    }

    /// Returns the posterior mean, N × N. Cost O((N + M)² N).
    pub fn mean(&self) -> Matrix {
        self.expansion_matrix(self.model.coef.data())
    }

    /// Returns `Σ_p coef_p k_wide(x_p, (i, j))` for all requested items i and j, where coefficients change
    /// their sign with the sides.
    fn expansion_matrix(&self, coef: &[f64]) -> Matrix {
        let (n, m) = (self.n_requested, self.k.rows());
        let (mut pair_coef, mut item_coef) = (Matrix::zeros(m, m), vec![0.0; m]);
        for (&(l, r), &c) in self.points.iter().zip(coef) {
            // Half of the coefficient is added here and half for the swapped sides, so that the result is
            // skew despite rounding.
            pair_coef[(l, r)] += 0.5 * c;
            pair_coef[(r, l)] -= 0.5 * c;
            item_coef[l] += 0.5 * c;
            item_coef[r] -= 0.5 * c;
        }
        let rows = self.k.first_rows(n);
        let mut utility: Vec<f64> =
            rows.matvec(&item_coef).iter().map(|f| self.prior.utility_variance * f).collect();
        if let Some(extra_utility) = &self.extra_utility {
            add_to(&mut utility, &extra_utility.first_rows(n).matvec(&item_coef));
        }
        let cyclic = match self.prior.generalised_variance {
            0.0 => Matrix::zeros(n, n),
            _ => rows.matmul(&pair_coef).matmul(&rows.transpose()),
        };
        combine_parts(&utility, self.prior.generalised_variance, &cyclic)
    }

    /// Prepares draws from the posterior.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a model without the posterior of Laplace's approximation;
    /// [`Error::Overflow`].
    pub fn draws(&self) -> Result<PosteriorDraws<'_>> {
        let observations = self.observations.ok_or_else(|| {
            let allowed = "draws need a model of duels that was fitted by Laplace's approximation";
            Error::parameter("posterior", "another", allowed)
        })?;
        let root = |k: &Matrix| psd_root(k, f64::EPSILON);
        let extra_root = self.extra_utility.as_ref().map(root).transpose()?;
        Ok(PosteriorDraws { flow: self, observations, root: root(&self.k)?, extra_root })
    }
}

/// Returns a matrix R with `K = R Rᵀ`, for a K that is positive semi-definite up to rounding. Eigenvalues of
/// at most `tolerance` times the largest one are left out.
///
/// # Errors
/// As [`symmetric_eigen`].
pub(super) fn psd_root(k: &Matrix, tolerance: f64) -> Result<Matrix> {
    let (values, vectors) = symmetric_eigen(k)?;
    let threshold = values.last().copied().unwrap_or(0.0) * tolerance;
    let positive: Vec<usize> = (0..values.len()).filter(|&c| values[c] > threshold).collect();
    let mut root = Matrix::zeros(k.rows(), positive.len());
    for i in 0..k.rows() {
        root.row_mut(i).iter_mut().zip(&positive).for_each(|(v, &c)| *v = vectors[(i, c)] * values[c].sqrt());
    }
    Ok(root)
}

/// Returns the matrix with entries `f_i - f_j + c (M - Mᵀ)_ij / 2`.
fn combine_parts(utility: &[f64], generalised: f64, cyclic: &Matrix) -> Matrix {
    let n = utility.len();
    let mut out = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..i {
            let value = utility[i] - utility[j] + generalised * 0.5 * (cyclic[(i, j)] - cyclic[(j, i)]);
            (out[(i, j)], out[(j, i)]) = (value, -value);
        }
    }
    out
}

/// Draws of the log odds of all pairs from the posterior.
pub struct PosteriorDraws<'f> {
    flow: &'f PairwiseLogOdds<'f>,
    observations: (&'f Sparse, &'f Cholesky),
    /// The root R of the kernel matrix, `K = R Rᵀ`.
    root: Matrix,
    /// The root of the kernel matrix of further utilities.
    extra_root: Option<Matrix>,
}

impl PosteriorDraws<'_> {
    /// Returns a draw of the log odds of all pairs, N × N, with a seed. Cost O((N + M)³ + n²) for n compared
    /// pairs.
    pub fn draw(&self, seed: u64) -> Matrix {
        let Self { flow, observations: (operator, factor), root, extra_root } = self;
        let mut random = Random::seed_from_u64(seed);
        let (m, r) = (root.rows(), root.cols());
        let z: Vec<f64> = (0..r).map(|_| random.sample(StandardNormal)).collect();
        let mut s = Matrix::zeros(r, r);
        for a in 0..r {
            for b in 0..a {
                let value: f64 = random.sample(StandardNormal);
                (s[(a, b)], s[(b, a)]) = (value, -value);
            }
        }
        let mut utility: Vec<f64> =
            root.matvec(&z).iter().map(|f| flow.prior.utility_variance.sqrt() * f).collect();
        if let Some(extra_root) = extra_root {
            let z: Vec<f64> = (0..extra_root.cols()).map(|_| random.sample(StandardNormal)).collect();
            add_to(&mut utility, &extra_root.matvec(&z));
        }
        let cyclic = match flow.prior.generalised_variance {
            0.0 => Matrix::zeros(m, m),
            _ => root.matmul(&s).matmul(&root.transpose()),
        };
        let mut prior = combine_parts(&utility, flow.prior.generalised_variance.sqrt(), &cyclic);
        // Observations have unit noise, and each is half of the operator's sum over both orders of its pair.
        let prior_at_points =
            Matrix::column_vector(flow.points.iter().map(|&(a, b)| prior[(a, b)]).collect());
        let mut simulated: Vec<f64> = operator.transpose_times(&prior_at_points).data().to_vec();
        for value in &mut simulated {
            let noise: f64 = random.sample(StandardNormal);
            *value = 0.5 * *value + noise;
        }
        let weights = Matrix::column_vector(factor.solve_vector(&simulated));
        let coef: Vec<f64> =
            operator.matmul(&weights).data().iter().zip(flow.model.coef.data()).map(|(s, c)| c - s).collect();
        let update = flow.expansion_matrix(&coef);
        prior = prior.truncate_square(flow.n_requested);
        prior.add_times(1.0, &update);
        prior
    }
}
