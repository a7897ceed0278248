//! An effect from a single table, as a sequence of regressions (stages).
//!
//! | identification | stages |
//! |---|---|
//! | randomised | `E[Y given a]` |
//! | back door | `E[Y given a, z]`, averaged over z |
//! | front door | the mediators m given a; then `E[Y given m, x']`, averaged over the rows' treatments x' |
//! | sequential back door | at time t later covariates given history and `a_t`; last `E[Y given history, a_T]` |
//!
//! The last stage regresses the outcome. Every other stage regresses the expectation of the next stage at the
//! rows' histories (the g-formula by iterated conditional expectations: Robins 1986; Bang and Robins 2005).

use super::effect::{Effect, Model};
use super::identification::{EffectStrategy, Identification};
use super::iterated::{Averaged, Combination, FittedStage, History, Iterated, SetTreatments, StageFit};
use super::kernel_regression::KernelRegression;
use super::names::sorted;
use super::outcome_gp::{OutcomeGp, OutcomeGpParameters};
use super::sequential::SequentialStep;
use super::shared_covariates::split;
use super::studies::{Studies, check_finite};
use super::study_landmarks::{DEFAULT_LANDMARKS, MAX_EXACT_ROWS};
use super::treatment_variation::residual_treatment_variance;
use crate::error::{Error, Result, sized};
use crate::gp::inducing_points::inducing_points;
use crate::kernel::{Kernel, Term};
use crate::table::Table;

/// One regression, given by the names of its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stage {
    /// Columns whose values are those of the rows; the previous stage weights the rows.
    pub history: Vec<String>,
    /// Treatments, which the query sets.
    pub treatments: Vec<String>,
    /// Columns that are averaged over a population; by default over all rows.
    pub averaged: Vec<String>,
}

/// A table with both the treatments and the outcome, and the stages that identify the effect.
#[derive(Debug, Clone)]
pub struct SingleTable {
    /// Stages in the order in which a query passes them; the last regresses the outcome.
    pub stages: Vec<Stage>,
    /// All treatments, in the order of queries.
    pub treatments: Vec<String>,
    /// Columns of all stages.
    pub rows: Table,
    /// The outcome of each row.
    pub outcome: Vec<f64>,
}

/// The parameters of all stages.
#[derive(Debug, Clone)]
pub struct StageParameters {
    /// Kernel and ridge λ > 0 of each stage but the last. The kernel is over its history, treatments and
    /// averaged columns in this order, and is a product over these three groups.
    pub regressions: Vec<(Kernel, f64)>,
    /// Parameters of the last stage, over columns in the same order. If it is the only stage, the kernel may
    /// also be a sum of a kernel of the treatments and a kernel of the averaged columns.
    pub outcome: OutcomeGpParameters,
    /// Whether the uncertainty includes the sampling of the people in the table.
    pub adjustment: bool,
    /// The number of landmarks, as in [`CausalFusion`](super::CausalFusion).
    pub landmarks: Option<usize>,
}

/// The requirement on a kernel that is split, for messages.
const PRODUCT_REQUIREMENT: &str =
    "it is a product of kernels over history, treatments and averaged covariates";

impl Stage {
    /// Returns the columns of the stage: history, treatments, averaged.
    pub fn columns(&self) -> Vec<String> {
        [&self.history[..], &self.treatments, &self.averaged].concat()
    }

    /// Returns the indices of the three groups among the columns of the stage.
    fn column_groups(&self) -> [Vec<usize>; 3] {
        let (h, t, a) = (self.history.len(), self.treatments.len(), self.averaged.len());
        [(0..h).collect(), (h..h + t).collect(), (h + t..h + t + a).collect()]
    }
}

impl Identification {
    /// Whether treatments and outcome are in the same table.
    pub fn is_single_table(&self) -> bool {
        self.bridges.is_empty() && !self.is_constant() && !self.treatments.is_empty()
    }

    /// Returns the regressions that identify the effect from a single table.
    pub fn stages(&self) -> Vec<Stage> {
        let treatments = self.treatments.clone();
        match &self.strategy {
            EffectStrategy::FrontDoor { mediators, .. } => vec![
                Stage { treatments, ..Stage::default() },
                Stage { history: sorted(mediators), averaged: self.treatments.clone(), ..Stage::default() },
            ],
            EffectStrategy::Sequential { steps } => sequential(steps),
            _ => vec![Stage { treatments, averaged: sorted(self.adjustment()), ..Stage::default() }],
        }
    }
}

/// Returns one stage for each step that adds covariates. A treatment whose step adds none is set in the stage
/// before.
fn sequential(steps: &[SequentialStep]) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    for SequentialStep { treatment, adjust } in steps {
        let adjust = sorted(adjust);
        match stages.last_mut() {
            None => stages.push(Stage { averaged: adjust, ..Stage::default() }),
            Some(previous) if !adjust.is_empty() => {
                // The history grows by the covariates and treatments of the previous stage.
                let history = [previous.columns(), adjust].concat();
                stages.push(Stage { history, ..Stage::default() });
            }
            Some(_) => {}
        }
        if let Some(stage) = stages.last_mut() {
            stage.treatments.push(treatment.clone());
        }
    }
    stages
}

/// Returns the kernels of two groups of columns, each numbered within its group, whose sum is `kernel`;
/// `None` if a term reads columns of both groups, or if no term reads a group.
fn split_sum(kernel: &Kernel, first: &[usize], second: &[usize]) -> Option<(Kernel, Kernel)> {
    let reads_only = |term: &Term, group: &[usize]| {
        let mut columns = term.factors.iter().flat_map(|factor| factor.columns()).peekable();
        columns.peek().is_some() && columns.all(|column| group.contains(column))
    };
    let terms_of = |group: &[usize]| {
        let terms = kernel.terms.iter().filter(|term| reads_only(term, group)).cloned().collect();
        let index_in_group = |j: usize| group.iter().position(|column| *column == j).unwrap_or(j);
        Kernel { terms }.map_columns(&index_in_group)
    };
    let (first, second) = (terms_of(first), terms_of(second));
    let is_sum = first.terms.len() + second.terms.len() == kernel.terms.len();
    (is_sum && !first.terms.is_empty() && !second.terms.is_empty()).then_some((first, second))
}

impl SingleTable {
    /// Returns the table for `identification`, from [gathered](super::gather()) studies.
    pub fn new(identification: &Identification, gathered: &Studies) -> Self {
        Self {
            stages: identification.stages(),
            treatments: identification.treatments.clone(),
            rows: gathered.points.clone(),
            outcome: gathered.outcome.clone(),
        }
    }

    /// Returns the values of these columns.
    pub(super) fn select(&self, names: &[String]) -> Result<Table> {
        let columns = names.iter().map(|name| self.rows.index_of(name)).collect::<Result<Vec<_>>>()?;
        Ok(self.rows.select_columns(&columns))
    }

    /// Returns the treatments of the rows.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn treatments(&self) -> Result<Table> {
        self.select(&self.treatments)
    }

    /// Returns the covariates over which the effect is averaged and whose distribution may differ in another
    /// population; `None` if there are none.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn covariates(&self) -> Result<Option<Table>> {
        let first = &self.stages[0];
        if first.averaged.is_empty() { Ok(None) } else { self.select(&first.averaged).map(Some) }
    }

    /// Returns the smallest share, over treatments, of the variance that the averaged covariates leave
    /// unexplained; `None` for effects of several stages, and without covariates.
    ///
    /// # Errors
    /// As [`residual_treatment_variance`]; [`Error::UnknownColumn`].
    pub(super) fn residual_treatment_variance(&self) -> Result<Option<f64>> {
        let [Stage { treatments, averaged, .. }] = &self.stages[..] else { return Ok(None) };
        if treatments.is_empty() || averaged.is_empty() {
            return Ok(None);
        }
        let covariates = self.select(averaged)?;
        let mut smallest = f64::INFINITY;
        for name in treatments {
            let treatment = self.select(std::slice::from_ref(name))?;
            smallest = smallest.min(residual_treatment_variance(&treatment, &covariates)?);
        }
        Ok(Some(smallest))
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.stages.is_empty() {
            return Err(Error::too_few("the list of stages", 1, "stage is"));
        }
        let why = "one per row of the table";
        sized("the outcome", "numbers", self.rows.rows(), self.outcome.len(), why)?;
        crate::checks::check_rows(&self.rows, self.outcome.len(), 2)?;
        check_finite(&self.outcome)?;
        for (t, stage) in self.stages.iter().enumerate() {
            if (t > 0) == stage.history.is_empty() {
                let allowed = "every stage but the first has one, and the first has none";
                return Err(Error::parameter(
                    format!("history of stage {}", t + 1),
                    crate::error::listed(&stage.history),
                    allowed,
                ));
            }
        }
        Ok(())
    }

    /// Returns the landmarks of each stage, or `None` if all rows are used.
    pub(super) fn landmarks(&self, count: Option<usize>) -> Result<Vec<Option<Table>>> {
        let n = self.rows.rows();
        if n <= count.unwrap_or(MAX_EXACT_ROWS) {
            return Ok(vec![None; self.stages.len()]);
        }
        let landmarks_of = |stage: &Stage| {
            inducing_points(&self.select(&stage.columns())?, count.unwrap_or(DEFAULT_LANDMARKS), 0).map(Some)
        };
        self.stages.iter().map(landmarks_of).collect()
    }

    /// Returns stage t with a kernel over its columns, represented at `points`.
    pub(super) fn stage(
        &self,
        t: usize,
        kernel: &Kernel,
        points: &Table,
        fit: StageFit,
    ) -> Result<FittedStage> {
        let stage = &self.stages[t];
        let rows = self.select(&stage.columns())?;
        let groups = stage.column_groups();
        let [_, treatments, averaged] = &groups;
        let sum = split_sum(kernel, treatments, averaged).filter(|_| self.stages.len() == 1);
        let ([history_kernel, treatment_kernel, averaged_kernel], combination) = match sum {
            Some((treatments, averaged)) => ([Kernel::constant(1.0), treatments, averaged], Combination::Sum),
            None => {
                let groups = groups.each_ref().map(Vec::as_slice);
                (split(kernel, points, groups, PRODUCT_REQUIREMENT)?, Combination::Product)
            }
        };
        let [history, treatments, averaged] = groups;
        let history = (!history.is_empty()).then(|| {
            let points = points.select_columns(&history);
            History::new(history_kernel, points, rows.select_columns(&history), fit.solver().uses_all_rows())
        });
        let treatment_index = |name: &String| {
            self.treatments.iter().position(|other| other == name).ok_or_else(|| {
                let known = crate::error::listed(&self.treatments);
                Error::UnknownColumn { name: name.clone(), known }
            })
        };
        let set = match treatments.is_empty() {
            true => None,
            false => Some(SetTreatments {
                points: points.select_columns(&treatments),
                kernel: treatment_kernel,
                columns: stage.treatments.iter().map(treatment_index).collect::<Result<_>>()?,
            }),
        };
        let averaged = (!averaged.is_empty()).then(|| {
            let (points, members) = (points.select_columns(&averaged), rows.select_columns(&averaged));
            Averaged::new((averaged_kernel, combination), points, members)
        });
        // Terms of the kernel that read none of the groups are constants, which belong to the first nonempty
        // group.
        Ok(FittedStage { history: history.transpose()?, set, averaged, fit })
    }

    /// Fits the last stage.
    pub(super) fn fit_outcome(
        &self,
        parameters: &OutcomeGpParameters,
        landmarks: Option<&Table>,
    ) -> Result<FittedStage> {
        let t = self.stages.len() - 1;
        let x = self.select(&self.stages[t].columns())?;
        let process = OutcomeGp::new(0, (&x, &self.outcome), parameters.clone(), landmarks)?;
        let (kernel, points) = (process.parameters.kernel.clone(), process.points.clone());
        self.stage(t, &kernel, &points, StageFit::Outcome(Box::new(process)))
    }

    /// Fits a stage before the last.
    pub(super) fn regression(
        &self,
        t: usize,
        &(ref kernel, ridge): &(Kernel, f64),
        landmarks: Option<&Table>,
    ) -> Result<FittedStage> {
        let rows = self.select(&self.stages[t].columns())?;
        kernel.validate(rows.width())?;
        crate::checks::positive("ridge", ridge)?;
        let matrix_name = "kernel matrix of the stage plus ridge";
        let solver = KernelRegression::fit((kernel, ridge), &rows, landmarks, matrix_name)?;
        let fit = StageFit::Regression { solver, ridge };
        self.stage(t, kernel, landmarks.unwrap_or(&rows), fit)
    }

    /// Returns the effect with these parameters. Cost n³ for n rows and each stage, or n m² with m landmarks.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`], [`Error::Parameter`];
    /// [`Error::UnknownColumn`] for a column of a stage that the table does not have;
    /// [`Error::NotPositiveDefinite`].
    pub fn effect(&self, parameters: &StageParameters) -> Result<Effect> {
        self.check()?;
        let (count, why) = (self.stages.len() - 1, "one per stage except the last");
        sized("the list of regressions", "entries", count, parameters.regressions.len(), why)?;
        let landmarks = self.landmarks(parameters.landmarks)?;
        let indexed = parameters.regressions.iter().enumerate();
        let mut stages = indexed
            .map(|(t, parameters)| self.regression(t, parameters, landmarks[t].as_ref()))
            .collect::<Result<Vec<_>>>()?;
        stages.push(self.fit_outcome(&parameters.outcome, landmarks[count].as_ref())?);
        let model = Iterated { treatments: self.treatments()?, stages, adjustment: parameters.adjustment };
        Ok(Effect::new(vec![(1.0, Model::Iterated(Box::new(model)))]))
    }
}
