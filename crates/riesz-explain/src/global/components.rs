//! The functional ANOVA of a model: its mean, the main effect of each feature, the interaction of each pair,
//! and so on.
//!
//! Under the distribution with independent players and a table's marginals, `f = Σ_T f_T` has one component
//! for each set T of players. The mean of `f_T` over any one of its players is 0, so all components are
//! orthogonal (Hoeffding 1948; Sobol 1993). For a kernel that is a sum of products p, with scales s_p and one
//! factor k_pj per player j, and a model with support points x_i and coefficients α_i, each component has the
//! same form:
//!
//! `f_T(x) = Σ_p s_p Σ_i α_i Π_{j∈T} (k_pj(x_ij, x_j) - m_pj(x_ij)) Π_{j∉T} m_pj(x_ij)` with `m_pj(u) = E
//! k_pj(u, X_j)`.
//!
//! A component at x is a linear functional of f, so a posterior of f gives the posterior of each component.
//! Its prior covariance at x and x' is
//! `Σ_p s_p Π_{j∈T} (k_pj(x, x') - m_pj(x) - m_pj(x') + M_pj) Π_{j∉T} M_pj` with `M = E m(X)`. These are the
//! ANOVA kernels of Durrande, Ginsbourger, Roustant and Carraro 2013, for any product kernel.

use std::sync::atomic::AtomicBool;

use super::marginals::InputMarginals;
use crate::error::{Error, Result};
use crate::game::{Background, ReferenceRows};
use crate::kernel::Columns;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, add_to};
use crate::posterior::Functionals;
use crate::simd::Isa;
use crate::table::{Player, Players, Table};

/// The error of an output, relative to the spread of the model's outputs, that the approximation of radial
/// factors aims at.
const APPROXIMATION_ERROR: f64 = 1e-9;

/// The components of a model's functional ANOVA.
///
/// ```
/// use riesz::global::Components;
/// use riesz::{Background, KernelExpansion, Kernel, Matrix, Table};
///
/// let rows: Vec<[f64; 2]> = (0..20).map(|i| [f64::from(i % 5), f64::from(i % 4)]).collect();
/// let x = Table::from_rows(&rows)?;
/// let coef = Matrix::column_vector((0..20).map(|i| f64::from(i).sin()).collect());
/// let model = KernelExpansion::new(Kernel::gaussian(&[2.0, 3.0]), x.clone(), coef, vec![0.5])?;
/// let components = Components::new(&model, &Background::from(x.clone()), None)?;
/// let parts = [vec![], vec![0], vec![1], vec![0, 1]];
/// let sum: f64 = parts.iter().map(|set| components.evaluate(set, &x).unwrap()[(7, 0)]).sum();
/// assert!((sum - model.predict(&x)?[(7, 0)]).abs() < 1e-9);
/// # Ok::<(), riesz::Error>(())
/// ```
pub struct Components<'m> {
    pub(super) model: &'m KernelExpansion,
    groups: Players,
    products: Vec<PlayerProduct<'m>>,
    inputs: InputMarginals,
    /// For each product and factor, its mean at each support point.
    means: Vec<Vec<Vec<f64>>>,
    /// For each product and factor, the mean of that mean over the inputs.
    double_means: Vec<Vec<f64>>,
    isa: Isa,
}

impl<'m> Components<'m> {
    /// Creates the components of a model whose inputs are distributed as the rows of `inputs`. Players are
    /// independent of each other, and by default there is one per column. Cost O(n · inputs + inputs²) for
    /// each factor of the kernel.
    ///
    /// # Errors
    /// As [`Sensitivity::run`](super::Sensitivity::run).
    pub fn new(model: &'m KernelExpansion, inputs: &Background, groups: Option<Players>) -> Result<Self> {
        let groups = groups.unwrap_or_else(|| Players::singletons(model.columns()));
        let (inputs, isa) = (InputMarginals::new(inputs, model, &groups)?, Isa::detect());
        let not_cancelled = AtomicBool::new(false);
        let approximation =
            model.radial_approximation(APPROXIMATION_ERROR, Some(&inputs.reach), &not_cancelled)?;
        let products = model.kernel.approximate_products(model.columns(), &groups, &approximation)?;
        let (mut means, mut double_means) = (Vec::new(), Vec::new());
        for product in &products {
            let atoms = |k: usize| &inputs.atoms[product.players[k]];
            let point_means =
                |k: usize| mean(product, k, Columns::from_row(&model.support_points, 0), atoms(k), isa);
            let double_mean = |k: usize| {
                let (columns, count) = (atoms(k).column_major(), atoms(k).rows.len());
                let inner = mean(product, k, Columns::new(&columns, count, 0, count), atoms(k), isa);
                inner.iter().zip(&atoms(k).weights).map(|(m, w)| m * w).sum::<f64>()
            };
            means.push((0..product.players.len()).map(point_means).collect());
            double_means.push((0..product.players.len()).map(double_mean).collect());
        }
        Ok(Self { model, groups, products, inputs, means, double_means, isa })
    }

    /// The players.
    pub fn players(&self) -> &[Player] {
        self.groups.players()
    }

    /// Returns the component of a set of players (ascending) at `rows`, rows × outputs. Only the columns of
    /// these players matter. The component of the empty set is the mean. Cost O(rows (n + inputs)) for each
    /// factor.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Parameter`] for numbers that are not ascending numbers of players.
    pub fn evaluate(&self, set: &[usize], rows: &Table) -> Result<Matrix> {
        let functionals = self.columns(set, &rows.align_to(self.model.columns())?)?;
        let mut out = functionals.transpose().matmul(&self.model.coef);
        if set.is_empty() {
            out.add_outer(std::iter::repeat(1.0), &self.model.intercept);
        }
        match out.data().iter().all(|v| v.is_finite()) {
            true => Ok(out),
            false => {
                Err(Error::overflow("a component", "a row is too far from the data the model was fitted on"))
            }
        }
    }

    /// Returns the component as linear functionals of f, one for each row. A
    /// [`Posterior`](riesz_core::Posterior) computes means, covariances and draws of the component from them.
    /// Additional cost O(rows²) for each factor.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub fn functionals(&self, set: &[usize], rows: &Table) -> Result<Functionals> {
        let rows = rows.align_to(self.model.columns())?;
        let (columns, count) = (self.columns(set, &rows)?, rows.rows());
        let mut prior = Matrix::zeros(count, count);
        for (index, product) in self.products.iter().enumerate() {
            let Some(positions) = factors_of_players(product, set) else { continue };
            let complement = self.other_factors_product(index, &positions, |k| self.double_means[index][k]);
            let mut product_kernel = vec![product.scale * complement; count * count];
            for &k in &positions {
                let atoms = &self.inputs.atoms[product.players[k]];
                let mean = mean(product, k, Columns::from_row(&rows, 0), atoms, self.isa);
                let mut factor = vec![0.0; count];
                for (r, out) in product_kernel.chunks_exact_mut(count).enumerate() {
                    product.factor(self.isa, k, Columns::from_row(&rows, 0), &rows.row(r), &mut factor);
                    for ((out, f), m) in out.iter_mut().zip(&factor).zip(&mean) {
                        *out *= (f - m) - (mean[r] - self.double_means[index][k]);
                    }
                }
            }
            add_to(prior.data_mut(), &product_kernel);
        }
        Ok(Functionals {
            columns,
            prior_covariance: prior,
            constants: vec![f64::from(u8::from(set.is_empty())); count],
        })
    }

    /// Returns the functional of each row r at the support points, `ℓ_r k(x_i, ·)`, points × rows.
    fn columns(&self, set: &[usize], rows: &Table) -> Result<Matrix> {
        let p = self.players().len();
        if set.iter().any(|&j| j >= p) || set.windows(2).any(|pair| pair[0] >= pair[1]) {
            let allowed = format!("take distinct numbers of features below {p}, in ascending order");
            return Err(Error::parameter("set of features", format!("{set:?}"), allowed));
        }
        let (n, count) = (self.model.support_points.rows(), rows.rows());
        let mut out = Matrix::zeros(n, count);
        for (index, product) in self.products.iter().enumerate() {
            let Some(positions) = factors_of_players(product, set) else { continue };
            let complement: Vec<f64> = (0..n)
                .map(|i| {
                    product.scale * self.other_factors_product(index, &positions, |k| self.means[index][k][i])
                })
                .collect();
            let mut factor = vec![0.0; n];
            for r in 0..count {
                let mut column = complement.clone();
                for &k in &positions {
                    product.factor(
                        self.isa,
                        k,
                        Columns::from_row(&self.model.support_points, 0),
                        &rows.row(r),
                        &mut factor,
                    );
                    let centered = factor.iter().zip(&self.means[index][k]).map(|(f, m)| f - m);
                    column.iter_mut().zip(centered).for_each(|(v, f)| *v *= f);
                }
                (0..n).for_each(|i| out[(i, r)] += column[i]);
            }
        }
        Ok(out)
    }

    /// The product of `factor_value` over the factors of players outside the set.
    fn other_factors_product(
        &self,
        index: usize,
        positions: &[usize],
        factor_value: impl Fn(usize) -> f64,
    ) -> f64 {
        (0..self.products[index].players.len()).filter(|k| !positions.contains(k)).map(factor_value).product()
    }
}

/// The factors of a product that belong to the players in a set. `None` if a player has no factor there: its
/// factor is 1, which is 0 after its mean is subtracted.
fn factors_of_players(product: &PlayerProduct<'_>, set: &[usize]) -> Option<Vec<usize>> {
    set.iter()
        .map(|player| product.players.iter().position(|factor_player| factor_player == player))
        .collect()
}

fn mean(product: &PlayerProduct<'_>, k: usize, u: Columns<'_>, atoms: &ReferenceRows, isa: Isa) -> Vec<f64> {
    let mut mean = vec![0.0; u.len()];
    atoms.mean(|row, factor| product.factor(isa, k, u, row, factor), &mut mean);
    mean
}
