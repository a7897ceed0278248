//! Predictions from the posterior of the weights of features.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::known::{ExtraUtility, PreferenceFeatureMaps};
use super::nystrom::Nystrom;
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::prediction::logistic_normal_mean;
use crate::preference::bilinear_skew::{ComparedPairs, SkewFeatures, SkewModel, SkewWeights};
use crate::preference::pair_kernel::{Pair, PairKernel, wide_rows_in};
use crate::table::Table;

/// Tolerance of conjugate gradients for a pair: its square bounds the share of the prior variance by which
/// the posterior variance is too small.
const CG_TOLERANCE: f64 = 1e-4;

/// A fitted skew function of two items, in a context if there are some.
#[derive(Debug, Clone)]
pub struct LandmarkFunction {
    /// The prior as it was used.
    pub prior: PairKernel,
    /// The margin of ties as it was used.
    pub margin: Option<f64>,
    pub(super) known: PreferenceFeatureMaps,
    pub(super) learnt: TrainingData,
    pub(super) mean: SkewWeights,
    /// Deviations from the mean.
    pub(super) draws: Vec<SkewWeights>,
}

/// Training data, which variances need.
#[derive(Debug, Clone)]
pub(super) struct TrainingData {
    pub items: Table,
    pub contexts: Option<Table>,
    pub compared: ComparedPairs,
    /// For each pair, minus the second derivative of the log likelihood.
    pub curvature: Vec<f64>,
}

/// A function in tables and matrices.
#[derive(Debug, Clone)]
pub struct LandmarkParameters {
    /// Landmarks, and what makes features of the kernel with them: of items, of further utilities that have
    /// some, and of contexts.
    pub bases: Vec<(Table, Matrix)>,
    /// One row of weights for the mean, and one for the deviation of each draw: for each feature of contexts
    /// the upper triangle of V row by row, and then w.
    pub weights: Matrix,
    /// The items of the training data.
    pub items: Table,
    /// The different contexts of their duels.
    pub contexts: Option<Table>,
    /// The pairs that met.
    pub pairs: Vec<Pair>,
    /// For each pair, the row of its context.
    pub rows: Vec<usize>,
    /// For each pair, minus the second derivative of the log likelihood.
    pub curve: Vec<f64>,
}

impl LandmarkFunction {
    /// The items that are landmarks, q rows.
    pub fn landmarks(&self) -> &Table {
        &self.known.items.landmarks
    }

    /// The landmarks of contexts, if there are contexts.
    pub fn context_landmarks(&self) -> Option<&Table> {
        self.known.contexts.as_ref().map(|context_map| &context_map.landmarks)
    }

    fn prepare_query(
        &self,
        items: &Table,
        pairs: &[Pair],
        contexts: Option<&Table>,
    ) -> Result<(SkewFeatures, ComparedPairs)> {
        if self.known.contexts.is_some() != contexts.is_some() {
            let (value, allowed) = if contexts.is_some() {
                ("some", "the model was fitted to duels without contexts: leave them out")
            } else {
                ("none", "the model was fitted to duels in contexts: say which, a row a pair")
            };
            return Err(Error::parameter("contexts", value, allowed));
        }
        if let Some(n_rows) = contexts.map(Table::rows).filter(|rows| *rows != pairs.len()) {
            let (subject, why, expected) = ("the table of contexts".into(), "one a pair".into(), pairs.len());
            return Err(Error::Shape { subject, unit: "rows", expected, actual: n_rows, why });
        }
        let features = self.known.features(&self.prior, items, contexts)?;
        let rows = (0..pairs.len()).map(|i| if contexts.is_some() { i } else { 0 }).collect();
        Ok((features, ComparedPairs { pairs: pairs.to_vec(), contexts: rows }))
    }

    /// The prior variances of pairs that the landmarks do not explain. This part is independent of the
    /// explained one, so that duels hold no information about it.
    fn residual_variance(
        &self,
        (features, met): (&SkewFeatures, &ComparedPairs),
        items: &Table,
        contexts: Option<&Table>,
    ) -> Result<Vec<f64>> {
        let items = items.align_to(self.landmarks().columns())?;
        let aligned_contexts =
            contexts.zip(self.context_landmarks()).map(|(table, known)| table.align_to(known.columns()));
        let rows = wide_rows_in(&items, &met.pairs, aligned_contexts.transpose()?.as_ref())?;
        let (kernel, width) = (self.prior.wide_row_kernel(items.width()), items.width());
        let residual_of = |(i, (pair, context)): (usize, (&Pair, &usize))| {
            let row = rows.row(i);
            let back = [&row[width..2 * width], &row[..width], &row[2 * width..]].concat();
            let total = kernel.eval(&row, &row) - kernel.eval(&row, &back);
            (total - features.variance(*pair, *context)).max(0.0)
        };
        Ok(met.pairs.par_iter().zip(&met.contexts).enumerate().map(residual_of).collect())
    }

    /// The posterior mean of the log odds that the left item of each pair wins; `contexts` has one row per
    /// pair. Cost with c features of contexts O(c items q²) and O(c q) per pair.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Parameter`] and [`Error::Shape`] for contexts that are not as those
    /// of the fit.
    pub fn log_odds(&self, items: &Table, pairs: &[Pair], contexts: Option<&Table>) -> Result<Vec<f64>> {
        let (features, compared) = self.prepare_query(items, pairs, contexts)?;
        Ok(features.log_odds(&self.mean, &compared))
    }

    /// Posterior mean and standard deviation of the log odds. The standard deviation of the explained part is
    /// estimated from draws: its standard error is at most `1/√(2 draws)` of it. Far from all landmarks it is
    /// that of the prior. Cost as of [`log_odds`](Self::log_odds) for each draw.
    ///
    /// # Errors
    /// As [`log_odds`](Self::log_odds); [`Error::Parameter`] without draws.
    pub fn moments(
        &self,
        items: &Table,
        pairs: &[Pair],
        contexts: Option<&Table>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        if self.draws.is_empty() {
            let allowed =
                "standard deviations are estimated from draws: fit with some, or ask for exact ones";
            return Err(Error::parameter("draws", 0, allowed));
        }
        let (features, compared) = self.prepare_query(items, pairs, contexts)?;
        let mut squares = vec![0.0; pairs.len()];
        for draw in &self.draws {
            let deviations = features.log_odds(draw, &compared);
            squares.iter_mut().zip(deviations).for_each(|(s, v)| *s += v * v);
        }
        let count = self.draws.len() as f64;
        let unknown = self.residual_variance((&features, &compared), items, contexts)?;
        let sd =
            squares.iter().zip(unknown).map(|(s, unexplained)| (s / count + unexplained).sqrt()).collect();
        Ok((features.log_odds(&self.mean, &compared), sd))
    }

    /// Posterior mean and standard deviation without draws: each variance is computed by conjugate gradients,
    /// and is too small by at most 1e-8 of the prior variance. Cost for each pair: some tens of products with
    /// the Hessian, as those of the [fit](super::LandmarkProcess::fit).
    ///
    /// # Errors
    /// As [`log_odds`](Self::log_odds); [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn exact_moments(
        &self,
        items: &Table,
        pairs: &[Pair],
        contexts: Option<&Table>,
        stop: &AtomicBool,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let TrainingData { items: own, contexts: around, compared: learnt, curvature: curve } = &self.learnt;
        let (features, compared) = self.prepare_query(items, pairs, contexts)?;
        let of_learnt = self.known.features(&self.prior, own, around.as_ref())?;
        let problem = SkewModel::new(&of_learnt, learnt);
        let unknown = self.residual_variance((&features, &compared), items, contexts)?;
        let sd_of = |((pair, context), unexplained): ((&Pair, &usize), &f64)| {
            let evaluation = features.evaluation(*pair, *context);
            let (solved, _) = problem.solve(curve, &evaluation, CG_TOLERANCE, stop)?;
            Ok((evaluation.dot(&solved).max(0.0) + unexplained).sqrt())
        };
        let pairs_with_residual = compared.pairs.par_iter().zip(&compared.contexts).zip(&unknown);
        let sd = pairs_with_residual.map(sd_of).collect::<Result<Vec<_>>>()?;
        Ok((features.log_odds(&self.mean, &compared), sd))
    }

    /// The probabilities of the classes (the right item wins, the left item wins, and with a margin neither),
    /// averaged over a normal posterior with the standard deviations that draws estimate; without draws those
    /// at the mean. Pairs × 2 or 3.
    ///
    /// # Errors
    /// As [`log_odds`](Self::log_odds).
    pub fn probabilities(&self, items: &Table, pairs: &[Pair], contexts: Option<&Table>) -> Result<Matrix> {
        let (mean, sd) = if self.draws.is_empty() {
            (self.log_odds(items, pairs, contexts)?, vec![0.0; pairs.len()])
        } else {
            self.moments(items, pairs, contexts)?
        };
        let probabilities_of = |(mean, sd): (&f64, &f64)| {
            let won = |margin: f64| logistic_normal_mean(mean - margin, sd * sd);
            match self.margin {
                None => vec![1.0 - won(0.0), won(0.0)],
                Some(margin) => {
                    let (won, lost) = (won(margin), logistic_normal_mean(-mean - margin, sd * sd));
                    vec![lost, won, (1.0 - won - lost).max(0.0)]
                }
            }
        };
        let probabilities: Vec<Vec<f64>> = mean.par_iter().zip(&sd).map(probabilities_of).collect();
        let classes = if self.margin.is_some() { 3 } else { 2 };
        Ok(Matrix::from_row_major(pairs.len(), classes, probabilities.concat()))
    }

    /// The parameters besides the prior and the margin.
    pub fn state(&self) -> LandmarkParameters {
        let PreferenceFeatureMaps { items, extra_utilities, contexts } = &self.known;
        let dense_maps = extra_utilities.iter().filter_map(|utility| match utility {
            ExtraUtility::Levels { .. } => None,
            ExtraUtility::Through(map) => Some(map),
        });
        let bases = std::iter::once(items).chain(dense_maps).chain(contexts);
        let upper = |v: &Matrix| (0..v.rows()).flat_map(|i| v.row(i)[i + 1..].to_vec()).collect::<Vec<f64>>();
        let row = |w: &SkewWeights| -> Vec<f64> {
            let other_weights = w.utilities.data().iter().chain(w.item_effects.data()).copied();
            w.pairs.iter().flat_map(upper).chain(other_weights).collect()
        };
        let rows: Vec<Vec<f64>> = std::iter::once(&self.mean).chain(&self.draws).map(row).collect();
        let TrainingData { items, contexts, compared: met, curvature: curve } = self.learnt.clone();
        LandmarkParameters {
            bases: bases.map(|map| (map.landmarks.clone(), map.basis.clone())).collect(),
            weights: Matrix::from_row_major(rows.len(), rows[0].len(), rows.concat()),
            items,
            contexts,
            pairs: met.pairs,
            rows: met.contexts,
            curve,
        }
    }

    /// Restores a function from its [`state`](Self::state).
    ///
    /// # Errors
    /// [`Error::Shape`] if sizes do not fit; [`Error::Format`] for what is missing.
    pub fn from_state(prior: PairKernel, margin: Option<f64>, state: LandmarkParameters) -> Result<Self> {
        let LandmarkParameters { bases, weights, items, contexts, pairs, rows, curve } = state;
        let mut bases = bases.into_iter();
        let mut next = |kernel: &Kernel| {
            let problem = || Error::Format { problem: "a basis of landmarks is missing".into() };
            let (landmarks, basis) = bases.next().ok_or_else(problem)?;
            let q = landmarks.rows();
            for size in [basis.rows(), basis.cols()] {
                sized("the basis of landmarks", "numbers", q, size, "by the number of landmarks")?;
            }
            Ok::<_, Error>(Nystrom { kernel: kernel.clone(), landmarks, basis })
        };
        let of_items = next(&prior.items)?;
        let terms = prior.extra_utility_kernel.iter().flat_map(|k| &k.terms).map(|term| {
            match ExtraUtility::levels(term, &items) {
                Some(utility) => Ok(utility),
                None => next(&Kernel { terms: vec![term.clone()] }).map(ExtraUtility::Through),
            }
        });
        let extra_utilities = terms.collect::<Result<Vec<_>>>()?;
        let of_contexts = prior
            .contexts
            .as_ref()
            .map(|context_kernel| next(&context_kernel.with_shared_part()))
            .transpose()?;
        let known = PreferenceFeatureMaps { items: of_items, extra_utilities, contexts: of_contexts };
        let features = known.features(&prior, &items, contexts.as_ref())?;
        let (q, c) = (features.items.cols(), features.contexts.cols());
        let (utilities, levels) = (features.utilities.cols(), features.item_effects.rows());
        let width = c * (q * q.saturating_sub(1) / 2 + utilities + levels);
        sized("a row of weights", "numbers", width, weights.cols(), "by the number of landmarks")?;
        sized("the list of curvatures", "numbers", pairs.len(), curve.len(), "one a pair")?;
        sized("the list of contexts", "numbers", pairs.len(), rows.len(), "one a pair")?;
        let places = [
            (pairs.iter().map(|p| p.0.max(p.1)).max(), items.rows()),
            (rows.iter().copied().max(), features.contexts.rows()),
        ];
        if places
            .iter()
            .any(|(largest_index, count)| largest_index.is_some_and(|largest_index| largest_index >= *count))
        {
            return Err(Error::Format { problem: "pairs that met name items that are not there".into() });
        }
        let mut weight_sets = (0..weights.rows()).map(|row_index| {
            let mut remaining = weights.row(row_index);
            let mut weight_set = features.zeros();
            for v in &mut weight_set.pairs {
                for (i, j) in (0..q).flat_map(|i| (i + 1..q).map(move |j| (i, j))) {
                    (v[(i, j)], v[(j, i)]) = (remaining[0], -remaining[0]);
                    remaining = &remaining[1..];
                }
            }
            let (utilities_part, of_levels) = remaining.split_at(utilities * c);
            weight_set.utilities = Matrix::from_row_major(utilities, c, utilities_part.to_vec());
            weight_set.item_effects = Matrix::from_row_major(levels, c, of_levels.to_vec());
            weight_set
        });
        let problem = || Error::Format { problem: "the weights are missing".into() };
        let mean = weight_sets.next().ok_or_else(problem)?;
        let draws = weight_sets.collect();
        let learnt = TrainingData {
            items,
            contexts,
            compared: ComparedPairs { pairs, contexts: rows },
            curvature: curve,
        };
        Ok(Self { prior, margin, known, learnt, mean, draws })
    }
}
