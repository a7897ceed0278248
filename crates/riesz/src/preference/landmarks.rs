//! Preferences of many duels: the [nested prior](PairKernel) with a base kernel that is known through some items, the landmarks.
//!
//! With landmarks Z and `f(x) = L⁻¹ k(Z, x)`, `LLᵀ = k(Z, Z)`, the kernel `f(x)ᵀf(x')` is Nyström's approximation of k, and a skew function that is bilinear in f and
//! linear in their difference has exactly the nested prior of this kernel: q landmarks make q (q + 1)/2 weights, far more than q pairs of items would. Landmarks are chosen by
//! randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2023): items one after the other, with chances by what is not yet known of them.

use super::data::Data;
use super::duels::Duels;
use super::pairs::{self, Pair, PairKernel, wide_rows};
use super::process::{Inference, PreferenceProcess};
use super::skew::{Bilinear, Weights, log_odds};
use crate::error::{Error, Result};
use crate::expansion::{Expansion, Link, VANISHING};
use crate::explanation::Fact;
use crate::kernel::{Columns, Kernel};
use crate::linalg::{Cholesky, Matrix, Sparse, dot, symmetric_eigen};
use crate::prediction::mean_logistic;
use crate::random::{Random, RngExt, SeedableRng};
use crate::simd::Isa;
use crate::stop::check;
use crate::table::{ColumnKind, Table};

use rayon::prelude::*;

/// The share of an item's variance below which it is known by other landmarks.
const KNOWN: f64 = 1e-8;

/// A [`PreferenceProcess`] for many duels.
///
/// ```
/// use riesz::preference::{Duels, LandmarkProcess, PreferenceProcess, wide_rows};
/// use riesz::{Kernel, Table};
///
/// let worth: Vec<[f64; 1]> = (0..40).map(|i| [f64::from(i) / 40.0]).collect();
/// let items = Table::from_rows(&worth)?;
/// let (winners, losers): (Vec<usize>, Vec<usize>) = (0..39).map(|i| (i + 1, i)).unzip();
/// let duels = Duels::new(40, &winners, &losers, &[1.0; 39], None)?;
/// let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.5]));
/// process.tune = false;
/// let exact = process.fit(&items, &duels)?;
/// let fit = LandmarkProcess { landmarks: 10, ..LandmarkProcess::new(process) }.fit(&items, &duels)?;
/// // Ten landmarks know forty items on a line as well as all of these do.
/// let (log_odds, row) = (fit.function.log_odds(&items, &[(39, 0)])?, wide_rows(&items, &[(39, 0)])?);
/// assert!((log_odds[0] - exact.model.predict(&row)?[(0, 0)]).abs() < 1e-3);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LandmarkProcess {
    /// The prior, whether it is tuned, and the seed of all that is random.
    pub process: PreferenceProcess,
    /// How many items are landmarks, at most.
    pub landmarks: usize,
    /// Tuning looks at so many of the pairs that met, drawn at random: Laplace's evidence takes their cube.
    pub tuning_pairs: usize,
    /// Draws from the posterior, from which standard deviations are estimated; 0 for none. The standard error of one is `1/√(2 draws)` of it: 9 % for 64.
    pub draws: usize,
    /// Newton's method ends where the slope is this share of the one that it starts with. In a numpy prototype with 250 landmarks and 40,000 duels log odds were off by
    /// some 1e-4 where 1e-6 was left, and by 1e-2 after half as many products.
    pub tolerance: f64,
}

/// A fitted skew function of two items.
#[derive(Debug, Clone)]
pub struct LandmarkFunction {
    /// The prior as it was used.
    pub prior: PairKernel,
    /// The items that are landmarks, q rows.
    pub landmarks: Table,
    /// Features of items are their kernel with the landmarks times this, q × q.
    basis: Matrix,
    mean: Weights,
    /// Deviations from the mean.
    draws: Vec<Weights>,
}

/// A fitted model of many duels.
#[derive(Debug, Clone)]
pub struct LandmarkFit {
    /// The log odds that the left item wins: what predicts.
    pub function: LandmarkFunction,
    /// The same function over [wide rows](super::wide_columns), as an expansion over pairs of landmarks, q (q - 1), and 2q points more for the utility beside them. What it says of probabilities is the
    /// logistic function of the mean. `None` where there is a utility and the kernel does not vanish far from all items, as Gaussian and Matérn kernels do.
    pub model: Option<Expansion>,
    /// Of all items' variance, the share that landmarks do not know.
    pub unknown: f64,
    /// Of the duels at the mode.
    pub log_likelihood: f64,
    /// Laplace's approximation of the log marginal likelihood of the duels that tuning looked at.
    pub log_marginal_likelihood: Option<f64>,
    /// Newton steps, and products with the Hessian.
    pub steps: [usize; 2],
    /// What to look at, of tuning.
    pub warnings: Vec<String>,
}

impl LandmarkProcess {
    /// What landmarks know nothing of.
    fn check_plain(&self) -> Result<()> {
        let PreferenceProcess { prior, margin, inference, .. } = &self.process;
        let more = [
            ("contexts", prior.contexts.is_some()),
            ("home or ability", prior.alone.is_some()),
            ("a margin of ties", margin.is_some()),
            ("the bound", *inference != Inference::Laplace),
        ];
        match more.iter().find(|(_, given)| *given) {
            Some((what, _)) => {
                let allowed = format!(
                    "they know nothing of {what}: fit without landmarks, which takes up to some thousand pairs that met"
                );
                Err(Error::parameter("landmarks", self.landmarks, allowed))
            }
            None => Ok(()),
        }
    }

    /// With 250 landmarks, tuned on 1,500 pairs, 64 draws, to a tolerance of 1e-6.
    pub fn new(process: PreferenceProcess) -> Self {
        Self { process, landmarks: 250, tuning_pairs: 1500, draws: 64, tolerance: 1e-6 }
    }

    /// Fits to duels among the rows of `items`. Cost with q landmarks and n pairs that met: O(items q²); 8 items q² + 8 n q a product with the Hessian, of which
    /// there are some hundred, and some ten for each draw; and tuning.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`]; [`Error::Parameter`] without landmarks.
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<LandmarkFit> {
        let process = &self.process;
        let stop = &process.stop;
        process.check(&Data { items, bags: None, duels })?;
        self.check_plain()?;
        if self.landmarks == 0 {
            return Err(Error::parameter("landmarks", 0, "at least 1"));
        }
        if !(self.tolerance > 0.0 && self.tolerance < 1.0) {
            return Err(Error::parameter("tol", self.tolerance, "between 0 and 1"));
        }
        let (mut prior, mut value, mut warnings) = (process.prior.clone(), None, Vec::new());
        if process.tune {
            let tuned = process.fit(items, &duels.sample(self.tuning_pairs.max(1), process.seed))?;
            (prior, value, warnings) = (tuned.prior, Some(tuned.log_marginal_likelihood), tuned.warnings);
        }
        let (chosen, mut f, unknown) = self.choose(&prior.items, items)?;
        let q = chosen.len();
        let mut lower = Matrix::zeros(q, q);
        for (i, &at) in chosen.iter().enumerate() {
            lower.row_mut(i)[..=i].copy_from_slice(&f.row(at)[..=i]);
        }
        let packed: Vec<f64> = (0..q).flat_map(|i| lower.row(i)[..=i].to_vec()).collect();
        let lower = Cholesky::from_packed(q, &packed, 0.0).ok_or_else(|| Error::Overflow {
            what: "the kernel between landmarks".into(),
            remedy: "check the kernel's parameters",
        })?;
        let shares = [prior.utility.sqrt(), prior.generalised.sqrt()];
        // How each item is interpolated between the landmarks.
        let mut interpolated = f.transpose();
        lower.solve_upper_in_place(&mut interpolated);
        let interpolated = interpolated.transpose();

        // Features whose second moments among those who meet are on the diagonal make conjugate gradients fast, and nothing else.
        let mut weighted = f.clone();
        let mut met = vec![0.0; items.rows()];
        for (&(l, r), w) in duels.pairs().iter().zip(duels.weight()) {
            met[l] += w;
            met[r] += w;
        }
        weighted
            .data_mut()
            .par_chunks_mut(q)
            .zip(&met)
            .for_each(|(row, m)| row.iter_mut().for_each(|v| *v *= m));
        let (_, rotation) = symmetric_eigen(&f.transpose().matmul(&weighted))?;
        f = f.matmul(&rotation);
        let mut basis = rotation;
        lower.solve_upper_in_place(&mut basis);

        let problem = Bilinear::new(&f, shares, duels);
        let mode = problem.mode(self.tolerance, stop)?;
        let mut random = Random::seed_from_u64(process.seed);
        let draws =
            (0..self.draws).map(|_| problem.draw(&mode, &mut random, stop)).collect::<Result<Vec<_>>>()?;
        let landmarks = items.select_rows(&chosen);
        let function = LandmarkFunction { prior, landmarks, basis, mean: mode.weights, draws };
        let mut card = vec![
            Fact::new("model", "preferential Gaussian process (landmarks)"),
            Fact::new("duels", duels.count()),
            Fact::new("landmarks", q),
            Fact::measured("share of variance that landmarks do not know", unknown),
            Fact::measured("share of a utility", function.prior.utility),
            Fact::measured("share of the generalised part", function.prior.generalised),
            Fact::measured("log likelihood", mode.log_likelihood),
            Fact::new("products with the Hessian", mode.products),
        ];
        if function.prior.utility > 0.0 {
            card.push(Fact::new(VANISHING, "those of the utility"));
        }
        card.extend(warnings.iter().map(|w| Fact::new("warning", w)));
        let model = function.expansion(&interpolated, items, duels, &mode.alpha, card)?;
        Ok(LandmarkFit {
            function,
            model,
            unknown,
            log_likelihood: mode.log_likelihood,
            log_marginal_likelihood: value,
            steps: [mode.steps, mode.products],
            warnings,
        })
    }

    /// Landmarks by randomly pivoted Cholesky, the factor that they give of the kernel between all items, and the share of variance that it leaves. Cost items q².
    fn choose(&self, kernel: &Kernel, items: &Table) -> Result<(Vec<usize>, Matrix, f64)> {
        let (n, most) = (items.rows(), self.landmarks.min(items.rows()));
        let own = kernel.diagonal(items);
        if own.iter().any(|v| !v.is_finite()) {
            let remedy = "check the kernel's parameters";
            return Err(Error::Overflow { what: "the kernel between items".into(), remedy });
        }
        let mut left = own.clone();
        let mut random = Random::seed_from_u64(self.process.seed);
        let (mut chosen, mut f) = (Vec::new(), Matrix::zeros(n, most));
        let (isa, mut buffer, mut column) = (Isa::detect(), Vec::new(), vec![0.0; n]);
        while chosen.len() < most {
            check(&self.process.stop)?;
            let open = |i: &usize| left[*i] > KNOWN * own[*i];
            let total: f64 = (0..n).filter(open).map(|i| left[i]).sum();
            let mut rest = total * random.random::<f64>();
            let mut pick = None;
            for i in (0..n).filter(open) {
                pick = Some(i);
                rest -= left[i];
                if rest < 0.0 {
                    break;
                }
            }
            let Some(pick) = pick else { break };
            let t = chosen.len();
            kernel.row(isa, Columns::of(items, 0), &items.row(pick), &mut buffer, &mut column);
            let pivot = f.row(pick)[..t].to_vec();
            let root = left[pick].sqrt();
            f.data_mut().par_chunks_mut(most).zip(&column).zip(&mut left).for_each(|((row, k), left)| {
                row[t] = (k - dot(&row[..t], &pivot)) / root;
                *left = (*left - row[t] * row[t]).max(0.0);
            });
            f[(pick, t)] = root;
            left[pick] = 0.0;
            chosen.push(pick);
        }
        let q = chosen.len();
        if q == 0 {
            return Err(Error::parameter(
                "kernel",
                "0 between all items",
                "some kernel of an item with itself is positive",
            ));
        }
        if q < most {
            f = Matrix::from_row_major(n, q, (0..n).flat_map(|i| f.row(i)[..q].to_vec()).collect());
        }
        Ok((chosen, f, left.iter().sum::<f64>() / own.iter().sum::<f64>()))
    }
}

impl LandmarkFunction {
    fn features(&self, items: &Table) -> Result<Matrix> {
        let items = items.conform(self.landmarks.columns())?;
        Ok(self.prior.items.cross_gram(&items, &self.landmarks).matmul(&self.basis))
    }

    /// What a function is made of beside its prior and landmarks: the features' basis (q × q), and by row the weights of its mean and of draws' deviations from it, u and then
    /// the upper triangle of V row by row, (1 + draws) × q (q + 1)/2.
    pub fn packed(&self) -> (Matrix, Matrix) {
        let q = self.basis.rows();
        let row = |w: &Weights| {
            let upper = (0..q).flat_map(|i| w.pairs.row(i)[i + 1..].to_vec());
            w.utility.iter().copied().chain(upper).collect::<Vec<f64>>()
        };
        let rows: Vec<f64> = std::iter::once(&self.mean).chain(&self.draws).flat_map(row).collect();
        (self.basis.clone(), Matrix::from_row_major(1 + self.draws.len(), q * (q + 1) / 2, rows))
    }

    /// From what [`packed`](Self::packed) gives.
    ///
    /// # Errors
    /// [`Error::Shape`] if sizes do not fit.
    pub fn from_packed(prior: PairKernel, landmarks: Table, basis: Matrix, weights: &Matrix) -> Result<Self> {
        let q = landmarks.rows();
        let sizes =
            [("the basis of landmarks", basis.rows(), q), ("the basis of landmarks", basis.cols(), q)];
        let weight = ("the list of weights", weights.cols(), q * (q + 1) / 2);
        for (what, found, expected) in sizes.into_iter().chain([weight]) {
            if found != expected {
                let why = "by the number of landmarks".into();
                return Err(Error::Shape { what: what.into(), unit: "numbers", expected, found, why });
            }
        }
        let mut all = (0..weights.rows()).map(|at| {
            let (utility, mut rest) = weights.row(at).split_at(q);
            let mut pairs = Matrix::zeros(q, q);
            for i in 0..q {
                for j in i + 1..q {
                    (pairs[(i, j)], pairs[(j, i)]) = (rest[0], -rest[0]);
                    rest = &rest[1..];
                }
            }
            Weights { pairs, utility: utility.to_vec() }
        });
        let mean = all.next().ok_or_else(|| Error::TooFew {
            what: "the list of weights".into(),
            needed: 1,
            unit: "row is",
        })?;
        Ok(Self { prior, landmarks, basis, mean, draws: all.collect() })
    }

    fn shares(&self) -> [f64; 2] {
        [self.prior.utility.sqrt(), self.prior.generalised.sqrt()]
    }

    /// The posterior mean of the log odds that the left item of each pair wins. Cost O(items q²) and O(q) a pair.
    ///
    /// # Errors
    /// As [`Table::conform`].
    pub fn log_odds(&self, items: &Table, pairs: &[Pair]) -> Result<Vec<f64>> {
        Ok(log_odds(&self.features(items)?, self.shares(), &self.mean, pairs))
    }

    /// The same, and its standard deviation, estimated from draws: its standard error is `1/√(2 draws)` of it. Cost as of [`log_odds`](Self::log_odds) for each draw.
    ///
    /// # Errors
    /// As [`Table::conform`]; [`Error::Parameter`] without draws.
    pub fn moments(&self, items: &Table, pairs: &[Pair]) -> Result<(Vec<f64>, Vec<f64>)> {
        if self.draws.is_empty() {
            return Err(Error::parameter(
                "draws",
                0,
                "standard deviations are estimated from draws: fit with some",
            ));
        }
        let f = self.features(items)?;
        let mut squares = vec![0.0; pairs.len()];
        for draw in &self.draws {
            let off = log_odds(&f, self.shares(), draw, pairs);
            squares.iter_mut().zip(off).for_each(|(s, v)| *s += v * v);
        }
        let count = self.draws.len() as f64;
        let sd = squares.iter().map(|s| (s / count).sqrt()).collect();
        Ok((log_odds(&f, self.shares(), &self.mean, pairs), sd))
    }

    /// The probability that the left item of each pair wins, averaged over a normal posterior with the estimated standard deviation; without draws the logistic function
    /// of the mean.
    ///
    /// # Errors
    /// As [`Table::conform`].
    pub fn probability(&self, items: &Table, pairs: &[Pair]) -> Result<Vec<f64>> {
        if self.draws.is_empty() {
            return Ok(self.log_odds(items, pairs)?.into_iter().map(crate::expansion::logistic).collect());
        }
        let (mean, sd) = self.moments(items, pairs)?;
        Ok(mean.iter().zip(&sd).map(|(m, s)| mean_logistic(*m, s * s)).collect())
    }

    /// Over pairs of landmarks. With items interpolated between landmarks by P (items × q) and slopes α of duels, `g = s_e² k_lᵀ Pᵀ M P k_r + s_u² (k_l - k_r)ᵀ Pᵀ M 1`, where
    /// M holds `α` at (l, r) and `-α` at (r, l).
    fn expansion(
        &self,
        p: &Matrix,
        items: &Table,
        duels: &Duels,
        alpha: &[f64],
        card: Vec<Fact>,
    ) -> Result<Option<Expansion>> {
        let (q, n, d) = (p.cols(), p.rows(), items.width());
        let slopes = duels.pairs().iter().zip(alpha);
        let mut columns = vec![Vec::new(); n];
        slopes.for_each(|(&(l, r), a)| {
            columns[r].push((l, *a));
            columns[l].push((r, -a));
        });
        let sums = Matrix::column_vector(
            columns.iter().map(|column| -column.iter().map(|(_, a)| a).sum::<f64>()).collect(),
        );
        // M is skew, so that its transpose changes the sign.
        let times = Sparse::from_columns(n, columns)?.transpose_times(p);
        let weights = p.transpose().matmul(&times);
        let utility = p.transpose().matmul(&sums);
        let mut pairs = Vec::new();
        let mut coef = Vec::new();
        if self.prior.generalised > 0.0 {
            for (i, j) in (0..q).flat_map(|i| (i + 1..q).map(move |j| (i, j))) {
                let own = 0.5 * (weights[(j, i)] - weights[(i, j)]);
                pairs.extend([(i, j), (j, i)]);
                coef.extend([own, -own]);
            }
        }
        let mut halves = self.landmarks.clone();
        if self.prior.utility > 0.0 {
            // Beside nothing a side stands alone: weights of landmarks need not sum up to 0, as those of either side of pairs do. Pairs of landmarks have a utility of their own.
            let mut own = utility.data().to_vec();
            pairs.iter().zip(&coef).for_each(|(&(i, _), c): (&Pair, &f64)| own[i] -= c);
            let nowhere = nowhere(items)?;
            if self.prior.items.cross_gram(items, &nowhere).data().iter().any(|k| *k != 0.0) {
                return Ok(None);
            }
            halves = halves.stack(&nowhere)?;
            for i in 0..q {
                pairs.extend([(i, q), (q, i)]);
                coef.extend([own[i], -own[i]]);
            }
        }
        let points = wide_rows(&halves, &pairs)?;
        pairs::model(self.prior.wide(d), points, coef, Link::Logistic, card).map(Some)
    }
}

/// A row that is far from all items.
fn nowhere(items: &Table) -> Result<Table> {
    let far = |j: usize| match items.columns()[j].kind {
        ColumnKind::Numeric => 1e12 * (1.0 + items.column(j).iter().fold(0.0_f64, |a, v| a.max(v.abs()))),
        ColumnKind::Categorical { .. } => 0.0,
    };
    Table::from_column_major(items.columns().to_vec(), 1, (0..items.width()).map(far).collect())
}
