//! The log odds of all pairs of some items: the posterior mean of a fitted model, and joint draws from its
//! posterior.
//!
//! N items have N² pairs, whose joint covariance is too large for more than a hundred items. But the prior of
//! pairs comes from a kernel matrix `K = R Rᵀ` (N × N) of items, so a draw from it costs only N³. Let z be a
//! vector of standard normal numbers, S a skew matrix with standard normal numbers above its diagonal, and u
//! and c the variances of the utility and generalised parts. Then `√u (Rz 1ᵀ - 1 (Rz)ᵀ) + √c R S Rᵀ` has the
//! covariance of [`PairKernel`](super::PairKernel). In contexts, prior draws are combined by a root of the
//! contexts' kernel matrix. A draw from the posterior is a draw from the prior plus an update by the
//! duels (Matheron's rule; Wilson et al. 2020). It is exact for the normal distribution of Laplace's
//! approximation.

use std::collections::HashMap;

use super::duel_sides::UNSEEN_RIGHT;
use super::gp_preference::PreferenceFit;
use super::left_right_columns::LeftRightColumns;
use super::pair_kernel::wide_rows_in;
use super::wide_row_prior::WideRowPrior;
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::key;
use crate::linalg::{Cholesky, Matrix, Sparse, add_to, mean, symmetric_eigen};
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::{Column, ColumnKind, Table, UNKNOWN_LEVEL};

/// The log odds of all pairs of items: entry (l, r) is the log odds that l beats r. The matrix is exactly
/// skew, without rounding errors.
pub struct PairwiseLogOdds<'m> {
    model: &'m KernelExpansion,
    covariance: Option<&'m PosteriorCovariance>,
    /// Wide rows of the requested items against the first one.
    against_first: Table,
    /// The number of requested items, which come first.
    n_requested: usize,
    /// The number of all items: the requested items, then other items of the duels.
    n_items: usize,
    /// The kernel matrix of all items for the generalised part.
    generalised: Option<Matrix>,
    /// The kernel matrix of the utility, with its variances.
    utility: Option<Matrix>,
    /// The kernel matrix of the contexts, the requested one first; 1 × 1 without contexts.
    contexts: Matrix,
    /// The items of the model's support points, left and right.
    points: Vec<(usize, usize)>,
    /// The row in `contexts` of each support point.
    point_contexts: Vec<usize>,
    /// The operator from support points to observations, and the factor of the observations' covariance.
    observations: Option<(&'m Sparse, &'m Cholesky)>,
}

impl PreferenceFit {
    /// Returns the log odds of all pairs of the rows of `items`, which may be items without duels.
    ///
    /// # Errors
    /// As [`PairwiseLogOdds::new`].
    pub fn flow(&self, items: &Table) -> Result<PairwiseLogOdds<'_>> {
        PairwiseLogOdds::new(&self.model, Some(&self.covariance), items, None)
    }
}

impl<'m> PairwiseLogOdds<'m> {
    /// Creates the log odds between the rows of `items` of a model of duels, such as one from a file. For a
    /// model of duels in contexts, `context` is the row of the contexts' columns in which the items meet. In
    /// a model with abilities each item with the level [`UNKNOWN_LEVEL`] is another new item. Cost
    /// O((N + M)² d) for N rows and M other items of the duels.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Parameter`] if the model is not one of duels between items;
    /// [`Error::Shape`] unless the context has a number for each column of contexts.
    pub fn new(
        model: &'m KernelExpansion,
        covariance: Option<&'m PosteriorCovariance>,
        items: &Table,
        context: Option<&[f64]>,
    ) -> Result<Self> {
        let prior = WideRowPrior::from_model(model)?;
        let sides = LeftRightColumns::from_columns(model.columns())?;
        let context = context.unwrap_or_default();
        sized("the context", "numbers", sides.contexts.len(), context.len(), "one per column of contexts")?;
        let width = prior.width;
        let n_requested = items.rows();
        let against_first: Vec<(usize, usize)> = (0..n_requested).map(|i| (i, 0)).collect();
        let context_columns = sides.contexts.iter().map(|&j| model.columns()[j].clone()).collect();
        let context_cells = context.iter().flat_map(|v| std::iter::repeat_n(*v, n_requested)).collect();
        let context_rows = Table::from_column_major(context_columns, n_requested, context_cells)?;
        let wide = wide_rows_in(items, &against_first, (!context.is_empty()).then_some(&context_rows))?
            .align_to(model.columns())?;
        let side_of = |wide: &Table, first| wide.select_columns(&(first..first + width).collect::<Vec<_>>());
        let requested = side_of(&wide, 0);
        let mut rows: Vec<Vec<f64>> = (0..n_requested).map(|i| requested.row(i)).collect();
        let columns = with_levels_of_new_items(requested.columns().to_vec(), &mut rows);
        let sides_of_points =
            [0, width].map(|first| indices_of(&side_of(&model.support_points, first), &mut rows));
        let all_items = Table::from_named_rows(columns, &rows)?;
        let (contexts, point_contexts) = match &prior.contexts {
            None => (Matrix::from_row_major(1, 1, vec![1.0]), vec![0; model.support_points.rows()]),
            Some(kernel) => {
                let select = |table: &Table| table.select_columns(&sides.contexts);
                let mut rows = vec![context.to_vec()];
                let of_points = indices_of(&select(&model.support_points), &mut rows);
                let columns = select(&model.support_points).columns().to_vec();
                let table = Table::from_named_rows(columns, &rows)?;
                (kernel.map_columns(&|j| j - 2 * width).gram(&table), of_points)
            }
        };
        let observations = match covariance.and_then(|c| c.reduction.first().filter(|_| c.mirror.is_some())) {
            Some(VarianceReduction::CholeskyInverse { operator: Some(operator), factor }) => {
                Some((operator, factor))
            }
            _ => None,
        };
        let gram = |kernel: &Kernel| kernel.gram(&all_items);
        let [left, right] = sides_of_points;
        Ok(Self {
            model,
            covariance,
            against_first: wide,
            n_requested,
            n_items: all_items.rows(),
            generalised: prior.generalised.as_ref().map(gram),
            utility: prior.utility.as_ref().map(gram),
            contexts,
            points: left.into_iter().zip(right).collect(),
            point_contexts,
            observations,
        })
    }

    /// Returns the number of requested items.
    pub fn items(&self) -> usize {
        self.n_requested
    }

    /// Returns whether the model allows cycles.
    pub fn allows_cycles(&self) -> bool {
        self.generalised.is_some()
    }

    /// Returns the posterior mean, N × N. Cost O((N + M)² N).
    pub fn mean(&self) -> Matrix {
        self.expansion_matrix(self.model.coef.data())
    }

    /// Returns the factor of each support point's covariances, from its context.
    fn point_factors(&self) -> impl Iterator<Item = f64> {
        self.point_contexts.iter().map(|&c| self.contexts[(0, c)])
    }

    /// Returns `Σ_p coef_p k_wide(x_p, (i, j))` for all requested items i and j, where coefficients change
    /// their sign with the sides.
    fn expansion_matrix(&self, coef: &[f64]) -> Matrix {
        let (n, m) = (self.n_requested, self.n_items);
        let (mut pair_coef, mut item_coef) = (Matrix::zeros(m, m), vec![0.0; m]);
        for ((&(l, r), &c), factor) in self.points.iter().zip(coef).zip(self.point_factors()) {
            // Half of the coefficient is added here and half for the swapped sides, so that the result is
            // skew despite rounding.
            let half_coef = 0.5 * c * factor;
            pair_coef[(l, r)] += half_coef;
            pair_coef[(r, l)] -= half_coef;
            item_coef[l] += half_coef;
            item_coef[r] -= half_coef;
        }
        let utility =
            self.utility.as_ref().map_or(vec![0.0; n], |gram| gram.first_rows(n).matvec(&item_coef));
        let cyclic = self.generalised.as_ref().map_or(Matrix::zeros(n, n), |gram| {
            let rows = gram.first_rows(n);
            rows.matmul(&pair_coef).matmul(&rows.transpose())
        });
        combine_parts(&utility, &cyclic)
    }

    fn observations(&self) -> Result<(&'m Sparse, &'m Cholesky)> {
        self.observations.ok_or_else(|| {
            let allowed = "ranks need a model of duels with the posterior of Laplace's approximation: a fit \
                           through landmarks has none, and a file may have been saved without it";
            Error::parameter("posterior", "none", allowed)
        })
    }

    /// Returns the posterior mean and covariance (N × N) of the utilities, each item's mean log odds against
    /// all requested items. Cost O(N (N + M)² + N n²) for n compared pairs.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a model without a posterior, or with another one than that of Laplace's
    /// approximation if it allows cycles.
    pub fn utilities(&self) -> Result<(Vec<f64>, Matrix)> {
        if let (None, None, Some(covariance)) = (self.observations, &self.generalised, self.covariance) {
            // Differences of utilities, such as those of Bradley and Terry, from the log odds against one
            // item.
            let posterior = Posterior::new(self.model, covariance)?;
            let items = posterior.functionals_at(&self.against_first)?;
            let log_odds = posterior.mean_of(&items).column(0);
            return Ok(relative_to_mean(&log_odds, &posterior.covariance(&items)[0]));
        }
        let (operator, factor) = self.observations()?;
        let (n, m) = (self.n_requested, self.n_items);
        // `to_items[(i, l)]` is the covariance of utility i and the utility part of item l.
        let mut to_items = Matrix::zeros(n, m);
        if let Some(gram) = &self.utility {
            let rows = gram.first_rows(n);
            let column_means = rows.transpose_matvec(&vec![1.0 / n as f64; n]);
            to_items = Matrix::from_fn(n, m, |i, l| rows[(i, l)] - column_means[l]);
        }
        let column_sums = self.generalised.as_ref().map(|g| g.first_rows(n).transpose_matvec(&vec![1.0; n]));
        let cyclic_parts = self.generalised.as_ref().zip(column_sums.as_ref());
        let to_pair = |i: usize, (l, r): (usize, usize)| {
            let cyclic =
                cyclic_parts.map_or(0.0, |(k, sums)| (k[(i, l)] * sums[r] - k[(i, r)] * sums[l]) / n as f64);
            to_items[(i, l)] - to_items[(i, r)] + cyclic
        };
        let factors: Vec<f64> = self.point_factors().collect();
        let to_points = Matrix::from_fn(self.points.len(), n, |p, i| factors[p] * to_pair(i, self.points[p]));
        let utility = to_points.transpose_matvec(self.model.coef.data()).iter().map(|v| 0.5 * v).collect();
        let mut covariance = Matrix::from_fn(n, n, |i, j| {
            let cyclic = cyclic_parts.map_or(0.0, |(k, sums)| {
                let total: f64 = sums[..n].iter().sum();
                (k[(i, j)] * total - sums[i] * sums[j]) / (n * n) as f64
            });
            let mean_to_items = mean(&to_items.row(i)[..n]);
            self.contexts[(0, 0)] * (to_items[(i, j)] - mean_to_items + cyclic)
        });
        // The observations are halves of the operator's sums over both orders of their pairs.
        let mut to_observations = operator.transpose_times(&to_points);
        to_observations.map_in_place(|v| 0.5 * v);
        factor.solve_lower_in_place(&mut to_observations);
        covariance.subtract_product(&to_observations, &to_observations);
        Ok((utility, covariance))
    }

    /// Prepares draws from the posterior.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a model without the posterior of Laplace's approximation;
    /// [`Error::Overflow`].
    pub fn draws(&self) -> Result<PosteriorDraws<'_>> {
        let observations = self.observations()?;
        let root = |k: &Matrix| psd_root(k, f64::EPSILON);
        Ok(PosteriorDraws {
            flow: self,
            observations,
            generalised: self.generalised.as_ref().map(root).transpose()?,
            utility: self.utility.as_ref().map(root).transpose()?,
            contexts: root(&self.contexts)?,
        })
    }
}

/// Returns the mean and the covariance of abilities minus their mean.
pub(super) fn relative_to_mean(abilities: &[f64], covariance: &Matrix) -> (Vec<f64>, Matrix) {
    let n = abilities.len();
    let average = mean(abilities);
    let row_means: Vec<f64> = (0..n).map(|i| mean(covariance.row(i))).collect();
    let grand_mean = mean(&row_means);
    let entry = |i: usize, j: usize| covariance[(i, j)] - row_means[i] - row_means[j] + grand_mean;
    (abilities.iter().map(|v| v - average).collect(), Matrix::from_fn(n, n, entry))
}

/// Returns the index in `rows` of each row of a table; new rows are added to `rows`.
fn indices_of(table: &Table, rows: &mut Vec<Vec<f64>>) -> Vec<usize> {
    let mut indices: HashMap<Vec<u64>, usize> = HashMap::new();
    for (i, row) in rows.iter().enumerate() {
        indices.entry(key(row)).or_insert(i);
    }
    let mut index_of = |i: usize| {
        *indices.entry(key(&table.row(i))).or_insert_with(|| {
            rows.push(table.row(i));
            rows.len() - 1
        })
    };
    (0..table.rows()).map(&mut index_of).collect()
}

/// Gives each row of a new item a level of its own in the column of abilities, and returns the columns with
/// these levels.
fn with_levels_of_new_items(mut columns: Vec<Column>, rows: &mut [Vec<f64>]) -> Vec<Column> {
    for (j, column) in columns.iter_mut().enumerate() {
        let ColumnKind::Categorical { levels } = &mut column.kind else { continue };
        // Only columns of abilities have a level for new items on the right.
        let is_of_abilities = levels.iter().any(|level| level == UNSEEN_RIGHT);
        let unknown = levels.iter().position(|level| level == UNKNOWN_LEVEL);
        let Some(unknown) = unknown.filter(|_| is_of_abilities) else { continue };
        for row in rows.iter_mut().filter(|row| row[j] == unknown as f64) {
            row[j] = levels.len() as f64;
            levels.push(format!("{UNKNOWN_LEVEL}, {}", levels.len()));
        }
    }
    columns
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

/// Returns the matrix with entries `f_i - f_j + (M - Mᵀ)_ij / 2`.
fn combine_parts(utility: &[f64], cyclic: &Matrix) -> Matrix {
    let n = utility.len();
    let mut out = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..i {
            let value = utility[i] - utility[j] + 0.5 * (cyclic[(i, j)] - cyclic[(j, i)]);
            (out[(i, j)], out[(j, i)]) = (value, -value);
        }
    }
    out
}

/// Draws of the log odds of all pairs from the posterior.
pub struct PosteriorDraws<'f> {
    flow: &'f PairwiseLogOdds<'f>,
    observations: (&'f Sparse, &'f Cholesky),
    /// The root R of the kernel matrix of the generalised part, `K = R Rᵀ`.
    generalised: Option<Matrix>,
    /// The root of the kernel matrix of the utility.
    utility: Option<Matrix>,
    /// The root of the kernel matrix of the contexts.
    contexts: Matrix,
}

impl PosteriorDraws<'_> {
    /// Returns a draw of the log odds of all pairs, N × N, with a seed. Cost O((N + M)³) for each context,
    /// and n² for n compared pairs.
    pub fn draw(&self, seed: u64) -> Matrix {
        let Self { flow, observations: (operator, factor), contexts, .. } = self;
        let mut random = Random::seed_from_u64(seed);
        let mut out = Matrix::zeros(flow.n_requested, flow.n_requested);
        let mut prior_at_points = vec![0.0; flow.points.len()];
        for c in 0..contexts.cols() {
            let prior = self.prior_draw(&mut random);
            let points = flow.points.iter().zip(&flow.point_contexts);
            for (value, (&pair, &context)) in prior_at_points.iter_mut().zip(points) {
                *value += contexts[(context, c)] * prior[pair];
            }
            out.add_times(contexts[(0, c)], &prior.truncate_square(flow.n_requested));
        }
        // Observations have unit noise, and each is half of the operator's sum over both orders of its pair.
        let mut simulated: Vec<f64> =
            operator.transpose_times(&Matrix::column_vector(prior_at_points)).data().to_vec();
        for value in &mut simulated {
            let noise: f64 = random.sample(StandardNormal);
            *value = 0.5 * *value + noise;
        }
        let weights = Matrix::column_vector(factor.solve_vector(&simulated));
        let coef: Vec<f64> =
            operator.matmul(&weights).data().iter().zip(flow.model.coef.data()).map(|(s, c)| c - s).collect();
        out.add_times(1.0, &flow.expansion_matrix(&coef));
        out
    }

    /// Returns a draw of the log odds of all pairs of all items from the prior.
    fn prior_draw(&self, random: &mut Random) -> Matrix {
        let m = self.flow.n_items;
        let mut utility = vec![0.0; m];
        if let Some(root) = &self.utility {
            let z: Vec<f64> = (0..root.cols()).map(|_| random.sample(StandardNormal)).collect();
            add_to(&mut utility, &root.matvec(&z));
        }
        let cyclic = self.generalised.as_ref().map_or(Matrix::zeros(m, m), |root| {
            let mut s = Matrix::zeros(root.cols(), root.cols());
            for a in 0..root.cols() {
                for b in 0..a {
                    let value: f64 = random.sample(StandardNormal);
                    (s[(a, b)], s[(b, a)]) = (value, -value);
                }
            }
            root.matmul(&s).matmul(&root.transpose())
        });
        combine_parts(&utility, &cyclic)
    }
}
