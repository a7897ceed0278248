//! The log odds of all pairs of some items: what a fitted model expects, and joint draws from its posterior.
//!
//! N items have N² pairs, whose joint covariance is out of reach for more than a hundred of them. The prior
//! of pairs is made of a kernel of items, so a draw from it takes N³ only: with `K = R Rᵀ`, z of standard
//! normal numbers and S skew with such ones above its diagonal, `√u (Rz 1ᵀ - 1 (Rz)ᵀ) + √c R S Rᵀ` has the
//! covariance of
//! [`PairKernel`]. A draw from the posterior is one from the prior, moved by what the duels know of it
//! (Matheron's rule; Wilson et al. 2020): exact for the normal distribution that Laplace's approximation is.

use std::collections::HashMap;

use super::gp_preference::PreferenceFit;
use super::pair_kernel::{PairKernel, wide_rows};
use crate::error::{Error, Result};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, Sparse, dot, symmetric_eigen};
use crate::posterior::{PosteriorCovariance, VarianceReduction};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::Table;

/// The log odds of all pairs of items: entry (l, r) is that of l beating r. Skew to the last bit.
pub struct PairwiseLogOdds<'m> {
    model: &'m KernelExpansion,
    prior: &'m PairKernel,
    /// How many items were asked for: the first ones of all.
    asked: usize,
    /// Between all items: those asked for, and those of the duels that are not among them.
    k: Matrix,
    /// The same of further utilities, with their shares.
    alone: Option<Matrix>,
    /// The items of the model's points, left and right.
    points: Vec<(usize, usize)>,
    /// What is known: the observations as sums of the points, and the factor of their covariance.
    known: Option<(&'m Sparse, &'m Cholesky)>,
}

impl PreferenceFit {
    /// The log odds of all pairs of the rows of `items`, which need not have been in duels.
    ///
    /// # Errors
    /// As [`PairwiseLogOdds::new`].
    pub fn flow(&self, items: &Table) -> Result<PairwiseLogOdds<'_>> {
        PairwiseLogOdds::new(&self.model, &self.covariance, &self.prior, items)
    }
}

impl<'m> PairwiseLogOdds<'m> {
    /// Of a model that was fitted with this prior, among the rows of `items`. Cost O((N + M)² d) for N of
    /// them and M of the duels.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Parameter`] if the model is not one of this prior.
    pub fn new(
        model: &'m KernelExpansion,
        covariance: &'m PosteriorCovariance,
        prior: &'m PairKernel,
        items: &Table,
    ) -> Result<Self> {
        let width = items.width();
        if model.kernel != prior.wide_row_kernel(width) {
            let allowed = "a model of pairs of such items whose kernel is that of its prior";
            return Err(Error::parameter("model", model.kernel.formula(), allowed));
        }
        let alike: Vec<(usize, usize)> = (0..items.rows()).map(|i| (i, i)).collect();
        let wide = wide_rows(items, &alike)?.align_to(model.columns())?;
        let half = |wide: &Table, from: usize| {
            let values = (from..from + width).flat_map(|j| wide.column(j).iter().copied()).collect();
            Table::from_column_major(model.columns()[..width].to_vec(), wide.rows(), values)
        };
        let own = half(&wide, 0)?;
        let bits = |row: Vec<f64>| row.into_iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<u64>>();
        let mut places: HashMap<Vec<u64>, usize> = HashMap::new();
        for i in 0..own.rows() {
            places.entry(bits(own.row(i))).or_insert(i);
        }
        let (mut others, mut sides) = (Vec::new(), Vec::new());
        for from in [0, width] {
            let side = half(&model.support_points, from)?;
            let mut place = |i: usize| {
                *places.entry(bits(side.row(i))).or_insert_with(|| {
                    others.push(side.row(i));
                    own.rows() + others.len() - 1
                })
            };
            sides.push((0..side.rows()).map(&mut place).collect::<Vec<usize>>());
        }
        let values = (0..width).flat_map(|j| others.iter().map(move |row| row[j])).collect();
        let below = Table::from_column_major(own.columns().to_vec(), others.len(), values)?;
        let known = match covariance.reduction.first() {
            Some(VarianceReduction::CholeskyInverse { operator: Some(operator), factor })
                if covariance.skew_swap.is_some() =>
            {
                Some((operator, factor))
            }
            _ => None,
        };
        let points = sides[0].iter().copied().zip(sides[1].iter().copied()).collect();
        let all = own.stack(&below)?;
        let (k, alone) =
            (prior.items.gram(&all), prior.extra_utility_kernel.as_ref().map(|kernel| kernel.gram(&all)));
        Ok(Self { model, prior, asked: own.rows(), k, alone, points, known })
    }

    /// How many items were asked for.
    pub fn items(&self) -> usize {
        self.asked
    }

    /// The posterior mean, N × N. Cost O((N + M)² N).
    pub fn mean(&self) -> Matrix {
        self.expansion_matrix(self.model.coef.data())
    }

    /// `Σ_p coef_p k_wide(x_p, (i, j))` for coefficients that change their sign with the sides.
    fn expansion_matrix(&self, coef: &[f64]) -> Matrix {
        let (n, m) = (self.asked, self.k.rows());
        let (mut between, mut alone) = (Matrix::zeros(m, m), vec![0.0; m]);
        for (&(l, r), &c) in self.points.iter().zip(coef) {
            // Half of it here and half where the sides are changed, so that the result is skew whatever
            // rounding does.
            between[(l, r)] += 0.5 * c;
            between[(r, l)] -= 0.5 * c;
            alone[l] += 0.5 * c;
            alone[r] -= 0.5 * c;
        }
        let rows = Matrix::from_row_major(n, m, self.k.data()[..n * m].to_vec());
        let mut utility: Vec<f64> =
            rows.matvec(&alone).iter().map(|f| self.prior.utility_variance * f).collect();
        if let Some(further) = &self.alone {
            utility.iter_mut().enumerate().for_each(|(i, f)| *f += dot(further.row(i), &alone));
        }
        let cyclic = match self.prior.generalised_variance {
            0.0 => Matrix::zeros(n, n),
            _ => rows.matmul(&between).matmul(&rows.transpose()),
        };
        antisymmetrise(&utility, self.prior.generalised_variance, &cyclic)
    }

    /// What draws start from.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a model without the posterior of Laplace's approximation;
    /// [`Error::Overflow`].
    pub fn draws(&self) -> Result<PosteriorDraws<'_>> {
        let known = self.known.ok_or_else(|| {
            let allowed = "draws are made of models of duels that were fitted by Laplace's approximation";
            Error::parameter("posterior", "another", allowed)
        })?;
        let alone = self.alone.as_ref().map(root_of).transpose()?;
        Ok(PosteriorDraws { flow: self, known, root: root_of(&self.k)?, alone })
    }
}

/// R with `K = R Rᵀ`, of a positive semi-definite K.
pub(super) fn root_of(k: &Matrix) -> Result<Matrix> {
    let (values, vectors) = symmetric_eigen(k)?;
    let m = values.len();
    let floor = values.last().copied().unwrap_or(0.0) * f64::EPSILON;
    let kept: Vec<usize> = (0..m).filter(|&c| values[c] > floor).collect();
    let mut root = Matrix::zeros(m, kept.len());
    for i in 0..m {
        for (out, &c) in root.row_mut(i).iter_mut().zip(&kept) {
            *out = vectors[(i, c)] * values[c].sqrt();
        }
    }
    Ok(root)
}

/// `f_i - f_j + c (M - Mᵀ)/2`.
fn antisymmetrise(utility: &[f64], generalised: f64, cyclic: &Matrix) -> Matrix {
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

/// Draws from the posterior.
pub struct PosteriorDraws<'f> {
    flow: &'f PairwiseLogOdds<'f>,
    known: (&'f Sparse, &'f Cholesky),
    /// R with `K = R Rᵀ`.
    root: Matrix,
    /// The same of further utilities.
    alone: Option<Matrix>,
}

impl PosteriorDraws<'_> {
    /// The log odds of all pairs, N × N, by a seed. Cost O((N + M)³ + n²) for n pairs that met.
    pub fn draw(&self, seed: u64) -> Matrix {
        let Self { flow, known: (operator, factor), root, alone } = self;
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
        if let Some(alone) = alone {
            let z: Vec<f64> = (0..alone.cols()).map(|_| random.sample(StandardNormal)).collect();
            utility.iter_mut().zip(alone.matvec(&z)).for_each(|(f, own)| *f += own);
        }
        let cyclic = match flow.prior.generalised_variance {
            0.0 => Matrix::zeros(m, m),
            _ => root.matmul(&s).matmul(&root.transpose()),
        };
        let mut prior = antisymmetrise(&utility, flow.prior.generalised_variance.sqrt(), &cyclic);
        // The observations have unit noise, and each is half of what the operator makes of both orders of its
        // pair.
        let at = Matrix::column_vector(flow.points.iter().map(|&(a, b)| prior[(a, b)]).collect());
        let mut seen: Vec<f64> = operator.transpose_times(&at).data().to_vec();
        for value in &mut seen {
            let noise: f64 = random.sample(StandardNormal);
            *value = 0.5 * *value + noise;
        }
        let solved = Matrix::column_vector(factor.solve_vector(&seen));
        let coef: Vec<f64> =
            operator.matmul(&solved).data().iter().zip(flow.model.coef.data()).map(|(s, c)| c - s).collect();
        let moved = flow.expansion_matrix(&coef);
        if m > flow.asked {
            let n = flow.asked;
            let corner = (0..n).flat_map(|i| prior.row(i)[..n].to_vec()).collect();
            prior = Matrix::from_row_major(n, n, corner);
        }
        prior.data_mut().iter_mut().zip(moved.data()).for_each(|(p, v)| *p += v);
        prior
    }
}
