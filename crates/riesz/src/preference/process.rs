//! Preferences as Gaussian processes: the log odds of a duel have a [prior covariance](PairKernel), and what is known after some duels is found by
//! [Laplace's approximation](crate::fit).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::duels::Duels;
use super::pairs::{Pair, PairKernel, wide_rows};
use crate::error::{Error, Result};
use crate::expansion::{Expansion, Link};
use crate::explanation::Fact;
use crate::fit::evidence;
use crate::fit::laplace::{mode, mode_from};
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Matrix, Sparse};
use crate::posterior::{Covariance, Known, Posterior};
use crate::stop::{Progress, Watch, check};
use crate::table::Table;

/// Where tuning starts: what of the two shares is multiplied by how much, the nested model as it is, one that is nearly a ranking, and one that is nearly none.
const STARTS: [[f64; 2]; 3] = [[1.0, 1.0], [1.0, 0.01], [0.01, 1.0]];

/// Half the width of the bounds, as a factor.
const FACTOR: f64 = 1e5;

/// `P(l beats r) = σ(g(l, r))` with `g` a skew Gaussian process over pairs of items.
///
/// With `generalised` 0 it is a preferential Gaussian process (a utility, and so a ranking), with `utility` 0 a generalised one; by default it is both, and the data say which.
///
/// ```
/// use riesz::preference::{Duels, PreferenceProcess};
/// use riesz::{Kernel, Table};
///
/// // Each item is beaten by the next one around a circle.
/// let angles: Vec<[f64; 1]> = (0..9).map(|i| [f64::from(i) / 9.0]).collect();
/// let items = Table::from_rows(&angles)?;
/// let (left, right): (Vec<usize>, Vec<usize>) = (0..9).map(|i| ((i + 1) % 9, i)).unzip();
/// let duels = Duels::new(9, &left, &right, &[1.0; 9], None)?;
/// let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.1]));
/// (process.tune, process.prior.generalised) = (false, 25.0);
/// let fit = process.fit(&items, &duels)?;
/// let chance = fit.probability(&items, &[(1, 0), (0, 8)])?;
/// assert!(chance[0] > 0.6 && chance[1] > 0.6); // 1 beats 0, which beats 8
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PreferenceProcess {
    /// The prior of duels; where tuning starts.
    pub prior: PairKernel,
    /// Whether shares and the kernel's parameters are tuned, by maximising the approximate marginal likelihood times weak priors around the start: a
    /// factor of e (one standard deviation) for length scales, of 1.5² e³ for shares, of e^1.5 for others. Few duels say little of them.
    pub tune: bool,
    /// Runs of the optimiser from random places within the bounds, besides those from the starts.
    pub restarts: usize,
    /// Seed of these places.
    pub seed: u64,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far tuning is: evaluations.
    pub progress: Arc<Progress>,
}

/// A fitted model of duels.
#[derive(Debug, Clone)]
pub struct PreferenceFit {
    /// The log odds that the left item wins, over [wide rows](super::wide_columns): an expansion whose points are the pairs that met, and the same the other way round.
    pub model: Expansion,
    /// What is besides the mode.
    pub covariance: Covariance,
    /// The prior as it was used.
    pub prior: PairKernel,
    /// Laplace's approximation of the log marginal likelihood of the duels.
    pub log_marginal_likelihood: f64,
    /// Steps of the optimiser, all runs together.
    pub steps: usize,
    /// Evaluations of the marginal likelihood, all runs together.
    pub evaluations: usize,
    /// What to look at: parameters that ended at a bound, runs that failed.
    pub warnings: Vec<String>,
}

/// What is tuned of a prior: the logarithms of its shares that are not 0, and the parameters of its kernel, whose first scale is known by the shares.
struct Tuned<'p> {
    prior: &'p PairKernel,
    shares: Vec<usize>,
}

impl Tuned<'_> {
    fn new(prior: &PairKernel) -> Tuned<'_> {
        let shares = [prior.utility, prior.generalised];
        Tuned { prior, shares: (0..2).filter(|&i| shares[i] > 0.0).collect() }
    }

    fn parameters(&self, times: [f64; 2]) -> Vec<Parameter> {
        let share = |&i: &usize| {
            let (name, value) = [("utility", self.prior.utility), ("generalised", self.prior.generalised)][i];
            Parameter { name: name.into(), log_value: (value * times[i]).ln() }
        };
        self.shares.iter().map(share).chain(self.prior.items.parameters()).collect()
    }

    fn at(&self, theta: &[f64]) -> PairKernel {
        let (shares, own) = theta.split_at(self.shares.len());
        let mut prior = PairKernel { items: self.prior.items.with_parameters(own), ..self.prior.clone() };
        for (&i, share) in self.shares.iter().zip(shares) {
            *[&mut prior.utility, &mut prior.generalised][i] = share.exp();
        }
        prior
    }

    /// The logarithm of the weak prior of a parameter, and its slope.
    fn weak(&self, parameter: &Parameter, at: f64) -> (f64, f64) {
        let (center, sd) = match &parameter.name[..] {
            "utility" | "generalised" => (2.0 * 1.5_f64.ln(), 3.0),
            name if name.starts_with("lengthscale") => (parameter.log_value, 1.0),
            _ => (parameter.log_value, 1.5),
        };
        let z = (at - center) / sd;
        (-0.5 * z * z, -z / sd)
    }
}

impl PreferenceProcess {
    /// Both parts, tuned from shares of 1.5² in squared log odds.
    pub fn new(kernel: Kernel) -> Self {
        let prior = PairKernel { items: kernel, utility: 2.25, generalised: 2.25 };
        Self { prior, tune: true, restarts: 0, seed: 0, stop: Arc::default(), progress: Arc::default() }
    }

    /// Fits to duels among the rows of `items`. Cost, with n pairs that met, n³/3 a Newton step (some ten); when tuning n³ and O(items² parameters) more for each evaluation.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`]; [`Error::Overflow`]; [`Error::NotPositiveDefinite`]; [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<PreferenceFit> {
        self.fit_until(items, duels, Watch { stop: &self.stop, progress: &self.progress })
    }

    pub(super) fn check(&self, items: &Table, duels: &Duels) -> Result<()> {
        self.prior.items.validate(items.width())?;
        let shares = [("utility", self.prior.utility), ("generalised", self.prior.generalised)];
        if let Some((name, bad)) = shares.iter().find(|(_, s)| !(s.is_finite() && *s >= 0.0)) {
            return Err(Error::parameter(*name, bad, "shares are finite and not negative"));
        }
        if self.prior.utility + self.prior.generalised == 0.0 {
            return Err(Error::parameter(
                "utility",
                0,
                "with generalised = 0 too nothing can be learnt: one is positive",
            ));
        }
        if duels.items() != items.rows() {
            let (expected, found) = (duels.items(), items.rows());
            let why = "one an item of the duels".into();
            return Err(Error::Shape {
                what: "the table of items".into(),
                unit: "rows",
                expected,
                found,
                why,
            });
        }
        Ok(())
    }

    fn fit_until(&self, items: &Table, duels: &Duels, watch: Watch<'_>) -> Result<PreferenceFit> {
        self.check(items, duels)?;
        let tuned = Tuned::new(&self.prior);
        let (mut theta, mut best) = (None, f64::NEG_INFINITY);
        let (mut steps, mut evaluations, mut warnings) = (0, 0, Vec::new());
        let starts = if tuned.shares.len() == 2 { &STARTS[..] } else { &STARTS[..1] };
        for (run, start) in starts.iter().enumerate().filter(|_| self.tune) {
            let parameters = tuned.parameters(*start);
            let fixed = |i: usize| i == tuned.shares.len();
            let room = |(i, p): (usize, &Parameter)| {
                let wide = if fixed(i) { 0.0 } else { FACTOR.ln() };
                (p.log_value - wide, p.log_value + wide)
            };
            let bounds: Vec<(f64, f64)> = parameters.iter().enumerate().map(room).collect();
            let mut largest = f64::NEG_INFINITY;
            let mut near = None;
            let objective = |theta: &[f64]| {
                let (mut value, mut gradient) =
                    self.value_and_gradient(&tuned.at(theta), items, duels, &mut near, watch)?;
                for ((p, at), slope) in parameters.iter().zip(theta).zip(&mut gradient) {
                    let weak = tuned.weak(p, *at);
                    (value, *slope) = (value + weak.0, *slope + weak.1);
                }
                largest = largest.max(value);
                Ok((value, gradient))
            };
            let restarts = if run == 0 { self.restarts } else { 0 };
            let (all, given) = (0..parameters.len(), Some(&bounds[..]));
            let found = evidence::maximise(&parameters, all, given, restarts, self.seed, watch, objective)?;
            (steps, evaluations) = (steps + found.steps, evaluations + found.evaluations);
            if largest > best {
                (theta, best, warnings) = (Some(found.theta), largest, found.warnings);
            }
        }
        let prior = theta.map_or_else(|| self.prior.clone(), |theta| tuned.at(&theta));
        let pairs = duels.pairs();
        let gram = prior.gram(&prior.items.gram(items), pairs);
        let mode = mode(&gram, duels.outcome(), Some(duels.weight()), watch.stop)?;
        // Each pair as it is, and the other way round with the opposite sign.
        let both: Vec<Pair> = pairs.iter().flat_map(|&(l, r)| [(l, r), (r, l)]).collect();
        let signed = |values: &[f64]| values.iter().flat_map(|v| [*v, -v]).collect::<Vec<f64>>();
        let mut card = vec![
            Fact::new("model", "preferential Gaussian process (Laplace approximation)"),
            Fact::new("duels", duels.count()),
            Fact::measured("share of a utility", prior.utility),
            Fact::measured("share of the generalised part", prior.generalised),
            Fact::measured("log marginal likelihood", mode.value),
        ];
        card.extend(warnings.iter().map(|w| Fact::new("warning", w)));
        let model = Expansion {
            kernel: prior.wide(items.width()),
            points: wide_rows(items, &both)?,
            coef: Matrix::column_vector(signed(&mode.alpha)),
            intercept: vec![0.0],
            output_names: vec!["left vs right".into()],
            link: Link::LatentLogistic,
            classes: vec!["right".into(), "left".into()],
            card,
        };
        model.validate()?;
        let value = mode.value;
        let weights = mode.root_weight.iter().enumerate().map(|(i, w)| [(2 * i, *w), (2 * i + 1, -w)]);
        let operator = Some(Sparse::from_columns(both.len(), weights)?);
        let known = vec![Known::Inverse { operator, factor: mode.factor }];
        let mirror =
            Some((0..2 * items.width()).map(|j| (j + items.width()) % (2 * items.width())).collect());
        let covariance = Covariance { prior: 1.0, mirror, known, scale: vec![1.0] };
        Ok(PreferenceFit {
            model,
            covariance,
            prior,
            log_marginal_likelihood: value,
            steps,
            evaluations,
            warnings,
        })
    }

    /// Laplace's approximation of the log marginal likelihood of duels under a prior, and its gradient in the logarithms of the shares that are not 0 and the kernel's
    /// [`parameters`](Kernel::parameters). Newton's method starts `near` the last mode, which is replaced by this one.
    fn value_and_gradient(
        &self,
        prior: &PairKernel,
        items: &Table,
        duels: &Duels,
        near: &mut Option<Vec<f64>>,
        watch: Watch<'_>,
    ) -> Result<(f64, Vec<f64>)> {
        check(watch.stop)?;
        let k = prior.items.gram(items);
        let gram = prior.gram(&k, duels.pairs());
        if gram.data().iter().any(|v| !v.is_finite()) {
            return Err(Error::Overflow {
                what: "the prior covariance of duels".into(),
                remedy: "check the kernel's parameters",
            });
        }
        let start = near.as_deref();
        let mode = mode_from(&gram, duels.outcome(), Some(duels.weight()), start, watch.stop)?;
        *near = Some(mode.alpha.clone());
        let value = mode.value;
        let slopes = mode.slopes(&gram);
        let (by_items, shares) = prior.slopes(&k, duels.pairs(), &slopes);
        let own = [(prior.utility, shares[0]), (prior.generalised, shares[1])];
        let mut gradient: Vec<f64> = own.iter().filter(|(s, _)| *s > 0.0).map(|(s, g)| s * g).collect();
        gradient.extend(prior.items.gradient(items, &by_items));
        Ok((value, gradient))
    }

    /// The logarithms of the shares that are not 0 and the kernel's parameters, which [`log_marginal_likelihood`](Self::log_marginal_likelihood) takes.
    pub fn parameters(&self) -> Vec<Parameter> {
        Tuned::new(&self.prior).parameters([1.0; 2])
    }

    /// Laplace's approximation of the log marginal likelihood, and its gradient, in `theta`, which is as [`parameters`](Self::parameters). Cost some ten
    /// times n³/3 and n³, with n pairs that met.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(
        &self,
        items: &Table,
        duels: &Duels,
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        self.check(items, duels)?;
        let tuned = Tuned::new(&self.prior);
        evidence::check("theta", "numbers", theta.len(), &tuned.parameters([1.0; 2]))?;
        self.value_and_gradient(&tuned.at(theta), items, duels, &mut None, Watch::nobody())
    }
}

impl PreferenceFit {
    /// The posterior of the log odds.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::of(&self.model, &self.covariance)
    }

    /// The probability that the left item of each pair wins, averaged over the posterior.
    ///
    /// # Errors
    /// As [`Table::conform`].
    pub fn probability(&self, items: &Table, pairs: &[Pair]) -> Result<Vec<f64>> {
        let rows = wide_rows(items, pairs)?;
        let found = crate::Prediction::of(&self.model, Some(&self.covariance), &rows)?;
        let probabilities = found.probabilities.map(|p| (0..pairs.len()).map(|r| p[(r, 1)]).collect());
        probabilities.ok_or_else(|| Error::Format { problem: "the model has no probabilities".into() })
    }
}
