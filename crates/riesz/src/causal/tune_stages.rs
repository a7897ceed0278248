//! Tuning of the parameters of an effect from one table. The regression of the outcome is tuned first. The
//! stages follow in reverse order: the rows of a stage have to predict the expectation of the next stage.

use super::defaults::{MAX_TUNING_ROWS, default_kernel, evenly_spaced};
use super::effect::{Effect, Model};
use super::fusion::CausalFusion;
use super::identification::Identification;
use super::interaction_check::interaction_factor;
use super::iterated::{FittedStage, Iterated};
use super::outcome_prior::{OutcomePrior, interaction_terms};
use super::positivity::{Positivity, treatment_models};
use super::product_kernel::{self, ColumnBlock};
use super::stages::{SingleTable, Stage};
use super::studies::{IdentificationRoute, Studies};
use super::treatment_variation::NEARLY_DETERMINED;
use crate::error::{Result, unused};
use crate::kernel::{Kernel, Profile, mean_variance};
use crate::linalg::Matrix;
use crate::random::hash;
use crate::table::Table;

/// The number of choices of later treatments for which a stage predicts the expectation of the next stage.
const LATER_TREATMENTS: usize = 3;

/// Profile of the kernels of the outcome. With a Gaussian profile bands are too narrow for functions that are
/// not as smooth as a Gaussian process's, such as tanh(2t).
const PROFILE: Profile = Profile::MATERN[0];

/// Returns the priors of the regression of the outcome. In an effect of one stage that is averaged over
/// covariates, the additive prior is one of them; it is the only one where covariates nearly determine a
/// treatment. `residual` is [`SingleTable::residual_treatment_variance`].
fn outcome_priors(
    table: &SingleTable,
    points: &Table,
    residual: Option<f64>,
    variance: f64,
    level: f64,
) -> Vec<OutcomePrior> {
    let product = || OutcomePrior::product(points, variance, level).with_profile(PROFILE);
    let Some(residual) = residual else { return vec![product()] };
    let treatment_count = table.stages[0].treatments.len();
    let additive =
        OutcomePrior::additive(points, treatment_count, residual, variance, level).with_profile(PROFILE);
    if residual < NEARLY_DETERMINED { vec![additive] } else { vec![product(), additive] }
}

impl CausalFusion {
    /// Fits the identified effect to [gathered](super::gather()) data of one table or of several studies.
    ///
    /// # Errors
    /// As [`fit`](Self::fit) and [`fit_table`](Self::fit_table).
    pub fn learn(&self, identification: &Identification, gathered: &Studies) -> Result<Effect> {
        if identification.is_single_table() {
            self.fit_table(&SingleTable::new(identification, gathered))
        } else {
            self.fit(gathered)
        }
    }

    /// Fits the association in place of the effect: the mean outcome of those who have the treatment, without
    /// adjustment, in the table or the first study. Its difference from the effect is the confounding bias.
    ///
    /// # Errors
    /// As [`learn`](Self::learn); [`Error::Unused`](crate::Error::Unused) if nothing is adjusted for, or if
    /// studies share covariates on which the outcome depends.
    pub fn learn_association(&self, identification: &Identification, gathered: &Studies) -> Result<Effect> {
        let equal = || unused("the association", "effects with an adjustment, and equals the effect here");
        if identification.is_single_table() {
            let mut table = SingleTable::new(identification, gathered);
            let unadjusted = vec![Stage { treatments: table.treatments.clone(), ..Stage::default() }];
            if table.stages == unadjusted {
                return Err(equal());
            }
            table.stages = unadjusted;
            return self.fit_table(&table);
        }
        let mut studies = gathered.clone();
        if studies.studies.iter().any(|study| study.shared.is_some()) {
            return Err(unused("the association", "studies without shared covariates of the outcome"));
        }
        if matches!(studies.studies[0].route, IdentificationRoute::Direct) {
            return Err(equal());
        }
        studies.studies[0].route = IdentificationRoute::Direct;
        self.fit(&studies)
    }

    /// Fits the effect to one table. Cost of each stage as of [`fit`](Self::fit).
    ///
    /// # Errors
    /// As [`SingleTable::effect`]; [`Error::Target`](crate::Error::Target) for a constant outcome;
    /// [`Error::Parameter`](crate::Error::Parameter) for more draws than memory holds;
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn fit_table(&self, table: &SingleTable) -> Result<Effect> {
        table.check()?;
        let landmarks = table.landmarks(self.landmarks)?;
        let n = table.rows.rows();
        let point_counts =
            landmarks.iter().map(|stage_landmarks| stage_landmarks.as_ref().map_or(n, Table::rows));
        let numbers = point_counts.map(|count| 4 * n * count).sum::<usize>();
        crate::memory::check_allocation("draws", self.draws.max(1), numbers)?;
        let last_stage = table.stages.len() - 1;
        let points = table.select(&table.stages[last_stage].columns())?;
        let residual = table.residual_treatment_variance()?;
        let priors = |variance, level| outcome_priors(table, &points, residual, variance, level);
        let (outcome_parameters, mut effective) = self.tune_outcome(&points, &table.outcome, priors)?;
        // For each draw the stages from the current one to the last.
        let mut chains: Vec<Vec<FittedStage>> = outcome_parameters
            .iter()
            .map(|parameters| {
                self.control().check_cancelled()?;
                Ok(vec![table.fit_outcome(parameters, landmarks[last_stage].as_ref())?])
            })
            .collect::<Result<_>>()?;
        for t in (0..last_stage).rev() {
            // The first draw of the following stages is the target of the tuning. Draws of this stage and of
            // the following stages are independent, so they are combined in order.
            let (chosen, effective_draws) = self.tune_stage(table, t, &chains[0])?;
            effective = effective.min(effective_draws);
            for (chain, stage_parameters) in chains.iter_mut().zip(chosen.iter().cycle()) {
                self.control().check_cancelled()?;
                chain.insert(0, table.regression(t, stage_parameters, landmarks[t].as_ref())?);
            }
        }
        let weight = 1.0 / chains.len() as f64;
        let treatments = table.treatments()?;
        let model = |stages| {
            let iterated = Iterated { treatments: treatments.clone(), stages, adjustment: self.adjustment };
            (weight, Model::Iterated(Box::new(iterated)))
        };
        let effect = Effect::new(chains.into_iter().map(model).collect());
        let determined = residual.filter(|residual| *residual < NEARLY_DETERMINED);
        let factor = determined.map(|residual| {
            let (_, variance) = mean_variance(&table.outcome);
            let treatment_count = table.stages[0].treatments.len();
            let interactions = interaction_terms(&points, treatment_count, residual, variance);
            interaction_factor(&outcome_parameters[0], interactions, &points, treatment_count)
        });
        let effect = effect.with_interaction_factor(factor.transpose()?);
        Ok(effect.with_diagnostics(self.positivity(table)?, effective))
    }

    /// Returns kernels and ridges of stage t, either the best ones or draws, and the effective number of
    /// draws. `later_stages` are the following stages.
    fn tune_stage(
        &self,
        table: &SingleTable,
        t: usize,
        later_stages: &[FittedStage],
    ) -> Result<(Vec<(Kernel, f64)>, f64)> {
        let stage = &table.stages[t];
        let (n, treatments) = (table.rows.rows(), table.treatments()?);
        let tuning_rows = evenly_spaced(MAX_TUNING_ROWS, n);
        let has_later_treatments = table.stages[t + 1..].iter().any(|stage| !stage.treatments.is_empty());
        let treatment_rows = evenly_spaced(if has_later_treatments { LATER_TREATMENTS } else { 1 }, n);
        // The following stages form a chain that begins with this stage's history.
        let chain =
            Iterated { treatments: treatments.clone(), stages: later_stages.to_vec(), adjustment: false };
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for row in &treatment_rows {
            let h = chain.mean_and_root(0, &tuning_rows, &treatments.select_rows(&[*row]));
            // In units of the root mean square, so that all choices have the same weight.
            let mean_square = h.data().iter().map(|v| v * v).sum::<f64>() / h.rows() as f64;
            let scale = (mean_square * treatment_rows.len() as f64).sqrt().max(f64::MIN_POSITIVE);
            columns.extend((0..h.cols()).map(|j| h.column(j).iter().map(|v| v / scale).collect()));
        }
        let h = Matrix::from_columns(tuning_rows.len(), &columns);
        let rows = table.select(&stage.columns())?.select_rows(&tuning_rows);
        let blocks = [ColumnBlock { kernel: default_kernel(&rows), rows }];
        let seed = hash([self.seed, 1 + t as u64]);
        let (draws, effective) = self.tune_blocks(&blocks, &h, 1.0, seed)?;
        let parameters_of = |theta: &Vec<f64>| {
            let (blocks, ridge) = product_kernel::with_parameters(&blocks, theta);
            (blocks[0].kernel.clone(), ridge)
        };
        Ok((draws.iter().map(parameters_of).collect(), effective))
    }

    /// Fits models of the treatments given the covariates that precede them, stage by stage, and models of
    /// front-door mediators given the treatments.
    fn positivity(&self, table: &SingleTable) -> Result<Vec<Positivity>> {
        let mut positivity = Vec::new();
        for stage in table.stages.iter().filter(|stage| !stage.treatments.is_empty()) {
            let covariate_names = [&stage.history[..], &stage.averaged].concat();
            if covariate_names.is_empty() {
                continue;
            }
            let treatment_index =
                |name: &String| table.treatments.iter().position(|treatment| treatment == name);
            let covariates = table.select(&covariate_names)?;
            let treatments = table.select(&stage.treatments)?;
            positivity.push(Positivity {
                models: treatment_models(&treatments, &covariates, self.control())?,
                columns: stage.treatments.iter().filter_map(treatment_index).collect(),
                rows: (!stage.history.is_empty()).then_some(covariates),
                mediators: None,
            });
        }
        // A front-door adjustment combines the mediators of one treatment with the treatments of all rows.
        for stage in &table.stages[1..] {
            if stage.averaged.is_empty() {
                continue;
            }
            let (mediators, rows) = (table.select(&stage.history)?, table.select(&stage.averaged)?);
            positivity.push(Positivity {
                models: treatment_models(&mediators, &rows, self.control())?,
                columns: (0..table.treatments.len()).collect(),
                rows: Some(rows),
                mediators: Some(mediators.columns().to_vec()),
            });
        }
        Ok(positivity)
    }
}
