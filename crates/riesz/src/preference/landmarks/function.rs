//! Predictions from the posterior of the weights of features.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::feature_maps::{ExtraUtility, PreferenceFeatureMaps};
use super::nystrom::Nystrom;
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::{Matrix, index_pairs};
use crate::prediction::averaged_probabilities;
use crate::preference::bilinear_skew::{ComparedPairs, SkewFeatures, SkewModel, SkewWeights};
use crate::preference::pair_kernel::{
    ContextKernel, ItemGrams, Pair, PairKernel, check_contexts, latent_link,
};
use crate::preference::teams::{Competitors, ItemBags};
use crate::table::Table;

/// The tolerance of conjugate gradients for a pair: its square bounds the error of the posterior variance,
/// which is too small, relative to the prior variance.
const CG_TOLERANCE: f64 = 1e-4;

/// A fitted skew function of two items, or of two bags of items, and, if there are contexts, their context.
///
/// Its methods take `competitors`: the table of items, or the pair of this table and the bags. `pairs` are
/// the numbers of the items or of the bags. The log odds of two bags are the means of those of their members.
///
/// ```
/// use riesz::preference::{Duels, ItemBags, LandmarkProcess, PreferenceProcess};
/// use riesz::{Kernel, Table};
///
/// let items = Table::from_rows(&[[0.0], [0.3], [0.5], [0.9]])?;
/// let bags = ItemBags::new(4, 3, &[0, 0, 1, 1, 2], &[0, 1, 2, 3, 1], None)?;
/// let duels = Duels::new(3, &[1, 1, 2], &[0, 2, 0], &[1.0; 3], None)?;
/// let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.5]));
/// process.tune = false;
/// let function = LandmarkProcess::new(process).fit_bags(&items, &bags, &duels)?.function;
/// let of_bags = function.log_odds((&items, &bags), &[(1, 0)], None)?[0];
/// let of_members = function.log_odds(&items, &[(2, 0), (2, 1), (3, 0), (3, 1)], None)?;
/// assert!(of_bags > 0.0 && (of_bags - of_members.iter().sum::<f64>() / 4.0).abs() < 1e-12);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LandmarkFunction {
    /// The prior that was used.
    pub prior: PairKernel,
    /// The margin of ties that was used.
    pub margin: Option<f64>,
    pub(super) feature_maps: PreferenceFeatureMaps,
    pub(super) training: TrainingData,
    pub(super) mean: SkewWeights,
    /// Posterior draws, as deviations from the mean.
    pub(super) draws: Vec<SkewWeights>,
}

/// The training data, which posterior variances need.
#[derive(Debug, Clone)]
pub(super) struct TrainingData {
    pub items: Table,
    /// The bags of items, if the duels are between bags.
    pub bags: Option<ItemBags>,
    pub contexts: Option<Table>,
    pub compared: ComparedPairs,
    /// For each pair, minus the second derivative of the log likelihood.
    pub curvature: Vec<f64>,
}

/// The parameters of a function as tables and matrices.
#[derive(Debug, Clone)]
pub struct LandmarkParameters {
    /// The landmarks, and the matrix that turns kernel values at them into features: of items, of further
    /// utilities that have landmarks, and of contexts.
    pub bases: Vec<(Table, Matrix)>,
    /// One row of weights for the mean, and one for the deviation of each draw. A row has, for each feature
    /// of contexts, the upper triangle of the weights of pairs row by row, and then those of utilities and
    /// item effects.
    pub weights: Matrix,
    /// The items of the training data.
    pub items: Table,
    /// The bags of these items, if the duels are between bags.
    pub bags: Option<ItemBags>,
    /// The distinct contexts of their duels.
    pub contexts: Option<Table>,
    /// The compared pairs.
    pub pairs: Vec<Pair>,
    /// For each pair, the row of its context.
    pub rows: Vec<usize>,
    /// For each pair, minus the second derivative of the log likelihood.
    pub curve: Vec<f64>,
}

impl LandmarkFunction {
    /// Returns the items that are landmarks, q rows.
    pub fn landmarks(&self) -> &Table {
        &self.feature_maps.items.landmarks
    }

    /// Returns the landmarks of contexts, if there are contexts.
    pub fn context_landmarks(&self) -> Option<&Table> {
        self.feature_maps.contexts.as_ref().map(|context_map| &context_map.landmarks)
    }

    fn prepare_query(
        &self,
        competitors: Competitors<'_>,
        pairs: &[Pair],
        contexts: Option<&Table>,
    ) -> Result<(SkewFeatures, ComparedPairs)> {
        competitors.check(pairs)?;
        if self.feature_maps.contexts.is_some() != contexts.is_some() {
            let (value, allowed) = if contexts.is_some() {
                ("some", "the model was fitted to duels without contexts: leave them out")
            } else {
                ("none", "the model was fitted to duels in contexts: give the contexts, one row per pair")
            };
            return Err(Error::parameter("contexts", value, allowed));
        }
        check_contexts(contexts, pairs)?;
        let features = self.feature_maps.features(&self.prior, competitors, contexts)?;
        let rows = (0..pairs.len()).map(|i| if contexts.is_some() { i } else { 0 }).collect();
        Ok((features, ComparedPairs { pairs: pairs.to_vec(), contexts: rows }))
    }

    /// Returns the prior variances of pairs that the landmarks do not explain. This part is independent of
    /// the explained one, so duels have no information about it.
    fn residual_variance(
        &self,
        (features, compared): (&SkewFeatures, &ComparedPairs),
        competitors: Competitors<'_>,
        contexts: Option<&Table>,
    ) -> Result<Vec<f64>> {
        let items = competitors.items.align_to(self.landmarks().columns())?;
        let rows: Vec<Vec<f64>> = (0..items.rows()).map(|i| items.row(i)).collect();
        let aligned_contexts =
            contexts.zip(self.context_landmarks()).map(|(table, fitted)| table.align_to(fitted.columns()));
        let context_kernel = self.prior.contexts.as_ref().map(ContextKernel::with_shared_part);
        let context_variances = match context_kernel.zip(aligned_contexts.transpose()?) {
            Some((kernel, table)) => kernel.diagonal(&table),
            None => vec![1.0],
        };
        let residual_variance = |(pair, context): (&Pair, &usize)| {
            let sides = [pair.0, pair.1].map(|competitor| competitors.members(competitor));
            let gram = |kernel: &Kernel| {
                let mean = |(a, b): (usize, usize)| -> f64 {
                    let terms =
                        sides[a].iter().flat_map(|(i, m)| sides[b].iter().map(move |(j, q)| (m * q, *i, *j)));
                    terms.map(|(share, i, j)| share * kernel.eval(&rows[i], &rows[j])).sum()
                };
                let between = mean((0, 1));
                Matrix::from_row_major(2, 2, vec![mean((0, 0)), between, between, mean((1, 1))])
            };
            let grams = ItemGrams {
                items: gram(&self.prior.items),
                extra_utility_kernel: self.prior.extra_utility_kernel.as_ref().map(gram),
                contexts: None,
            };
            let prior_variance = self.prior.pair_covariance(&grams, (0, 1), (0, 1));
            (context_variances[*context] * prior_variance - features.variance(*pair, *context)).max(0.0)
        };
        Ok(compared.pairs.par_iter().zip(&compared.contexts).map(residual_variance).collect())
    }

    /// Returns the posterior mean of the log odds that the left competitor of each pair wins; `contexts` has
    /// one row per pair. Cost with c features of contexts O(c items q²) and O(c q) per pair, and for bags
    /// O(memberships q).
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Parameter`] and [`Error::Shape`] for contexts that do not match those
    /// of the fit, for a competitor that does not exist, and for bags of other items.
    pub fn log_odds<'a>(
        &self,
        competitors: impl Into<Competitors<'a>>,
        pairs: &[Pair],
        contexts: Option<&Table>,
    ) -> Result<Vec<f64>> {
        let (features, compared) = self.prepare_query(competitors.into(), pairs, contexts)?;
        Ok(features.log_odds(&self.mean, &compared))
    }

    /// Returns the posterior mean and standard deviation of the log odds. The standard deviation of the part
    /// that landmarks explain is estimated from draws, with a relative standard error of at most
    /// `1/√(2 draws)`. Far from all landmarks it is that of the prior. Cost as [`log_odds`](Self::log_odds)
    /// for each draw, and one evaluation of the kernel for each pair of members of the compared bags.
    ///
    /// # Errors
    /// As [`log_odds`](Self::log_odds); [`Error::Parameter`] without draws.
    pub fn moments<'a>(
        &self,
        competitors: impl Into<Competitors<'a>>,
        pairs: &[Pair],
        contexts: Option<&Table>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let competitors = competitors.into();
        if self.draws.is_empty() {
            let allowed = "standard deviations are estimated from draws: fit with draws, or take exact \
                           standard deviations";
            return Err(Error::parameter("n_samples", 0, allowed));
        }
        let (features, compared) = self.prepare_query(competitors, pairs, contexts)?;
        let mut squares = vec![0.0; pairs.len()];
        for draw in &self.draws {
            let deviations = features.log_odds(draw, &compared);
            squares.iter_mut().zip(deviations).for_each(|(s, v)| *s += v * v);
        }
        let count = self.draws.len() as f64;
        let residual = self.residual_variance((&features, &compared), competitors, contexts)?;
        let sd =
            squares.iter().zip(residual).map(|(s, unexplained)| (s / count + unexplained).sqrt()).collect();
        Ok((features.log_odds(&self.mean, &compared), sd))
    }

    /// Returns the posterior mean and standard deviation without draws. Each variance is computed by
    /// conjugate gradients, and is too small by at most 1e-8 of the prior variance. Cost for each pair: some
    /// tens of products with the Hessian, as in the [fit](super::LandmarkProcess::fit).
    ///
    /// # Errors
    /// As [`log_odds`](Self::log_odds); [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn exact_moments<'a>(
        &self,
        competitors: impl Into<Competitors<'a>>,
        pairs: &[Pair],
        contexts: Option<&Table>,
        stop: &AtomicBool,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let (competitors, training) = (competitors.into(), &self.training);
        let (features, compared) = self.prepare_query(competitors, pairs, contexts)?;
        let trained = Competitors { items: &training.items, bags: training.bags.as_ref() };
        let training_features =
            self.feature_maps.features(&self.prior, trained, training.contexts.as_ref())?;
        let model = SkewModel::new(&training_features, &training.compared);
        let residual = self.residual_variance((&features, &compared), competitors, contexts)?;
        let sd_of = |((pair, context), unexplained): ((&Pair, &usize), &f64)| {
            let evaluation = features.evaluation(*pair, *context);
            let explained =
                model.inverse_quadratic_form(&training.curvature, &evaluation, CG_TOLERANCE, stop)?;
            Ok((explained + unexplained).sqrt())
        };
        let pairs_with_residual = compared.pairs.par_iter().zip(&compared.contexts).zip(&residual);
        let sd = pairs_with_residual.map(sd_of).collect::<Result<Vec<_>>>()?;
        Ok((features.log_odds(&self.mean, &compared), sd))
    }

    /// Returns the probabilities of the classes (the right side wins, the left side wins, and with a margin a
    /// tie), pairs × 2 or 3. They are averaged over a normal posterior with the standard deviations from
    /// draws, or evaluated at the mean if there are no draws.
    ///
    /// # Errors
    /// As [`log_odds`](Self::log_odds).
    pub fn probabilities<'a>(
        &self,
        competitors: impl Into<Competitors<'a>>,
        pairs: &[Pair],
        contexts: Option<&Table>,
    ) -> Result<Matrix> {
        let competitors = competitors.into();
        let (mean, sd) = if self.draws.is_empty() {
            (self.log_odds(competitors, pairs, contexts)?, vec![0.0; pairs.len()])
        } else {
            self.moments(competitors, pairs, contexts)?
        };
        let variance = sd.iter().map(|sd| sd * sd).collect();
        let [mean, variance] = [mean, variance].map(Matrix::column_vector);
        Ok(averaged_probabilities(latent_link(self.margin), &mean, &variance))
    }

    /// Returns the parameters other than the prior and the margin.
    pub fn state(&self) -> LandmarkParameters {
        let maps = &self.feature_maps;
        let bases = std::iter::once(&maps.items).chain(maps.dense_maps()).chain(&maps.contexts);
        let upper = |v: &Matrix| (0..v.rows()).flat_map(|i| v.row(i)[i + 1..].to_vec()).collect::<Vec<f64>>();
        let row = |w: &SkewWeights| -> Vec<f64> {
            let other_weights = w.utilities.data().iter().chain(w.item_effects.data()).copied();
            w.pairs.iter().flat_map(upper).chain(other_weights).collect()
        };
        let rows: Vec<Vec<f64>> = std::iter::once(&self.mean).chain(&self.draws).map(row).collect();
        let TrainingData { items, bags, contexts, compared, curvature: curve } = self.training.clone();
        LandmarkParameters {
            bases: bases.map(|map| (map.landmarks.clone(), map.basis.clone())).collect(),
            weights: Matrix::from_row_major(rows.len(), rows[0].len(), rows.concat()),
            items,
            bags,
            contexts,
            pairs: compared.pairs,
            rows: compared.contexts,
            curve,
        }
    }

    /// Restores a function from its [`state`](Self::state).
    ///
    /// # Errors
    /// [`Error::Shape`] for sizes that do not match; [`Error::Format`] for missing parts;
    /// [`Error::Parameter`] for pairs of competitors that do not exist.
    pub fn from_state(prior: PairKernel, margin: Option<f64>, state: LandmarkParameters) -> Result<Self> {
        let LandmarkParameters { bases, weights, items, bags, contexts, pairs, rows, curve } = state;
        let mut bases = bases.into_iter();
        let mut next_map = |kernel: &Kernel| {
            let problem = || Error::format("a basis of landmarks is missing");
            let (landmarks, basis) = bases.next().ok_or_else(problem)?;
            let q = landmarks.rows();
            for size in [basis.rows(), basis.cols()] {
                sized("the basis of landmarks", "numbers", q, size, "by the number of landmarks")?;
            }
            Ok::<_, Error>(Nystrom { kernel: kernel.clone(), landmarks, basis })
        };
        let item_map = next_map(&prior.items)?;
        let terms = prior.extra_utility_kernel.iter().flat_map(|k| &k.terms).map(|term| {
            match ExtraUtility::levels(term, &items) {
                Some(utility) => Ok(utility),
                None => next_map(&Kernel { terms: vec![term.clone()] }).map(ExtraUtility::Landmarks),
            }
        });
        let extra_utilities = terms.collect::<Result<Vec<_>>>()?;
        let context_map = prior
            .contexts
            .as_ref()
            .map(|context_kernel| next_map(&context_kernel.with_shared_part()))
            .transpose()?;
        let feature_maps = PreferenceFeatureMaps { items: item_map, extra_utilities, contexts: context_map };
        let competitors = Competitors { items: &items, bags: bags.as_ref() };
        competitors.check(&pairs)?;
        let features = feature_maps.features(&prior, competitors, contexts.as_ref())?;
        let (q, c) = (features.items.cols(), features.contexts.cols());
        let (utilities, levels) = (features.utilities.cols(), features.item_effects.rows());
        let width = c * (q * q.saturating_sub(1) / 2 + utilities + levels);
        sized("a row of weights", "numbers", width, weights.cols(), "by the number of landmarks")?;
        sized("the list of curvatures", "numbers", pairs.len(), curve.len(), "one per pair")?;
        sized("the list of contexts", "numbers", pairs.len(), rows.len(), "one per pair")?;
        if rows.iter().any(|row| *row >= features.contexts.rows()) {
            return Err(Error::format("compared pairs refer to contexts that do not exist"));
        }
        let mut weight_sets = (0..weights.rows()).map(|row_index| {
            let mut remaining = weights.row(row_index);
            let mut weight_set = features.zeros();
            for v in &mut weight_set.pairs {
                for (i, j) in index_pairs(q) {
                    (v[(i, j)], v[(j, i)]) = (remaining[0], -remaining[0]);
                    remaining = &remaining[1..];
                }
            }
            let (utility_part, level_part) = remaining.split_at(utilities * c);
            weight_set.utilities = Matrix::from_row_major(utilities, c, utility_part.to_vec());
            weight_set.item_effects = Matrix::from_row_major(levels, c, level_part.to_vec());
            weight_set
        });
        let problem = || Error::format("the weights are missing");
        let mean = weight_sets.next().ok_or_else(problem)?;
        let draws = weight_sets.collect();
        let training = TrainingData {
            items,
            bags,
            contexts,
            compared: ComparedPairs { pairs, contexts: rows },
            curvature: curve,
        };
        Ok(Self { prior, margin, feature_maps, training, mean, draws })
    }
}
