//! An effect from a single table, as a sequence of regressions (stages).
//!
//! | identification | stages |
//! |---|---|
//! | randomised | `E[Y given a]` |
//! | back door | `E[Y given a, z]`, averaged over z |
//! | front door | the mediators m given a; then `E[Y given m, x']`, averaged over the treatments x' that the rows have |
//! | sequential back door | for each time t the later covariates given the history and `a_t`; last `E[Y given history, a_T]` |
//!
//! The last stage regresses the outcome. Every other stage regresses what the stage after it expects at the
//! rows' histories (the g-formula by iterated conditional expectations: Robins 1986; Bang and Robins 2005).

use super::effect::{Effect, Model};
use super::identification::{EffectStrategy, Identification};
use super::iterated::{Averaged, FittedStage, History, Iterated, Set, StageFit};
use super::kernel_regression::KernelRegression;
use super::outcome_gp::{OutcomeGp, OutcomeGpParameters};
use super::sequential::SequentialStep;
use super::shared_covariates::split;
use super::studies::Studies;
use crate::error::{Error, Result, sized};
use crate::fit::inducing_points;
use crate::kernel::Kernel;
use crate::table::Table;

/// One regression, by the names of the columns that it takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stage {
    /// Columns that keep the values which the rows have; the stage before says how much each row counts.
    pub history: Vec<String>,
    /// Treatments, which the query sets.
    pub treatments: Vec<String>,
    /// Columns that are averaged over a population; by default over all rows.
    pub averaged: Vec<String>,
}

/// A table with both the treatments and the outcome, and the stages by which it gives the effect.
#[derive(Debug, Clone)]
pub struct SingleTable {
    /// In the order in which a query goes through them; the last regresses the outcome.
    pub stages: Vec<Stage>,
    /// All treatments, in the order that queries have.
    pub treatments: Vec<String>,
    /// Columns of all stages.
    pub rows: Table,
    /// The outcome of each row.
    pub outcome: Vec<f64>,
}

/// The parameters of all stages.
#[derive(Debug, Clone)]
pub struct StageParameters {
    /// For each stage but the last its kernel, over its history, treatments and averaged columns in this
    /// order, and its ridge λ > 0. The kernel is a product over these three groups.
    pub regressions: Vec<(Kernel, f64)>,
    /// Parameters of the last stage, over columns in the same order.
    pub outcome: OutcomeGpParameters,
    /// Whether the uncertainty of who is in the table counts.
    pub adjustment: bool,
    /// The number of landmarks, as in [`CausalFusion`](super::CausalFusion).
    pub landmarks: Option<usize>,
}

/// Tables of more rows are known through landmarks where nobody says.
const ALL_ROWS: usize = 3000;

/// The number of these landmarks.
const USUAL_LANDMARKS: usize = 500;

/// The requirement on a kernel that is split, for messages.
const PRODUCT: &str = "it is a product of kernels over history, treatments and averaged covariates";

impl Stage {
    /// Its columns: history, treatments, averaged.
    pub fn columns(&self) -> Vec<String> {
        [&self.history[..], &self.treatments, &self.averaged].concat()
    }

    /// The places of the three groups among its columns.
    fn places(&self) -> [Vec<usize>; 3] {
        let (h, t, a) = (self.history.len(), self.treatments.len(), self.averaged.len());
        [(0..h).collect(), (h..h + t).collect(), (h + t..h + t + a).collect()]
    }
}

impl Identification {
    /// Whether treatments and outcome are in the same table.
    pub fn is_single_table(&self) -> bool {
        self.bridges.is_empty() && !self.is_constant() && !self.treatments.is_empty()
    }

    /// The regressions that give the effect from a single table.
    pub fn stages(&self) -> Vec<Stage> {
        let sorted = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
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

/// One stage for each step that adds covariates; treatments of the others are set together with the one
/// before.
fn sequential(steps: &[SequentialStep]) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    for SequentialStep { treatment, adjust } in steps {
        let mut adjust = adjust.clone();
        adjust.sort_unstable();
        match stages.last_mut() {
            None => stages.push(Stage { averaged: adjust, ..Stage::default() }),
            Some(before) if !adjust.is_empty() => {
                // The history grows by the covariates and treatments of the stage before.
                let history = [before.columns(), adjust].concat();
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

impl SingleTable {
    /// The table that `identification` needs, as it was [gathered](super::gather()).
    pub fn new(identification: &Identification, gathered: &Studies) -> Self {
        Self {
            stages: identification.stages(),
            treatments: identification.treatments.clone(),
            rows: gathered.points.clone(),
            outcome: gathered.outcome.clone(),
        }
    }

    /// The values of these columns.
    pub(super) fn select(&self, names: &[String]) -> Result<Table> {
        let places = names.iter().map(|name| self.rows.index_of(name)).collect::<Result<Vec<_>>>()?;
        Ok(self.rows.select_columns(&places))
    }

    /// The treatments that the rows have.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn treatments(&self) -> Result<Table> {
        self.select(&self.treatments)
    }

    /// The covariates that the effect is averaged over, if there are any and a population could have others.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn covariates(&self) -> Result<Option<Table>> {
        let first = &self.stages[0];
        if first.averaged.is_empty() { Ok(None) } else { self.select(&first.averaged).map(Some) }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.stages.is_empty() {
            return Err(Error::TooFew { subject: "the list of stages".into(), needed: 1, unit: "stage is" });
        }
        let why = "one a row of the table";
        sized("the outcome", "numbers", self.rows.rows(), self.outcome.len(), why)?;
        crate::fit::check(&self.rows, self.outcome.len(), 2)?;
        if let Some(row) = self.outcome.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { row, column: "outcome".into(), value: self.outcome[row] });
        }
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

    /// For each stage its landmarks, or `None` if all rows are used.
    pub(super) fn landmarks(&self, count: Option<usize>) -> Result<Vec<Option<Table>>> {
        let n = self.rows.rows();
        if n <= count.unwrap_or(ALL_ROWS) {
            return Ok(vec![None; self.stages.len()]);
        }
        let landmarks_of = |stage: &Stage| {
            inducing_points(&self.select(&stage.columns())?, count.unwrap_or(USUAL_LANDMARKS), 0).map(Some)
        };
        self.stages.iter().map(landmarks_of).collect()
    }

    /// A stage with the kernel over its columns, known through `places`.
    pub(super) fn stage(
        &self,
        t: usize,
        kernel: &Kernel,
        places: &Table,
        fit: StageFit,
    ) -> Result<FittedStage> {
        let stage = &self.stages[t];
        let rows = self.select(&stage.columns())?;
        let groups = stage.places();
        let mut kernels = split(kernel, places, &groups, PRODUCT)?.into_iter();
        let [history, treatments, averaged] = groups;
        let mut next = || kernels.next().unwrap_or_else(|| Kernel::constant(1.0));
        let (of_history, of_treatments, of_averaged) = (next(), next(), next());
        let history = (!history.is_empty()).then(|| {
            let points = places.select_columns(&history);
            History::new(of_history.clone(), points, rows.select_columns(&history), fit.sees_rows())
        });
        let treatment_index = |name: &String| {
            self.treatments.iter().position(|other| other == name).ok_or_else(|| {
                let known = crate::error::listed(&self.treatments);
                Error::UnknownColumn { name: name.clone(), known }
            })
        };
        let set = match treatments.is_empty() {
            true => None,
            false => Some(Set {
                points: places.select_columns(&treatments),
                kernel: of_treatments.clone(),
                columns: stage.treatments.iter().map(treatment_index).collect::<Result<_>>()?,
            }),
        };
        let averaged = (!averaged.is_empty()).then(|| {
            let (points, members) = (places.select_columns(&averaged), rows.select_columns(&averaged));
            Averaged::new(of_averaged.clone(), points, members)
        });
        // Terms that none of the groups reads are constants, which belong to the first group that is present.
        Ok(FittedStage { history: history.transpose()?, set, averaged, fit })
    }

    /// The last stage.
    pub(super) fn fit_outcome(
        &self,
        parameters: &OutcomeGpParameters,
        landmarks: Option<&Table>,
    ) -> Result<FittedStage> {
        let t = self.stages.len() - 1;
        let x = self.select(&self.stages[t].columns())?;
        let process = OutcomeGp::new(0, (&x, &self.outcome), parameters.clone(), landmarks)?;
        let (kernel, places) = (process.kernel().clone(), process.points().clone());
        self.stage(t, &kernel, &places, StageFit::Outcome(Box::new(process)))
    }

    /// A stage before the last.
    pub(super) fn regression(
        &self,
        t: usize,
        (kernel, ridge): &(Kernel, f64),
        landmarks: Option<&Table>,
    ) -> Result<FittedStage> {
        let rows = self.select(&self.stages[t].columns())?;
        kernel.validate(rows.width())?;
        crate::fit::positive("ridge", *ridge)?;
        let solver = match landmarks {
            None => {
                let mut gram = kernel.gram(&rows);
                gram.add_diagonal(|_| *ridge);
                KernelRegression::rows(gram, "kernel matrix of the stage plus ridge")?
            }
            Some(points) => {
                let with_rows = kernel.cross_gram(points, &rows);
                KernelRegression::landmarks(kernel.gram(points), with_rows, &kernel.diagonal(&rows), *ridge)?
            }
        };
        let fit = StageFit::Regression { solver, ridge: *ridge };
        self.stage(t, kernel, landmarks.unwrap_or(&rows), fit)
    }

    /// The effect by these parameters. Cost n³ for n rows and each stage, or n m² through m landmarks.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`], [`Error::Parameter`];
    /// [`Error::UnknownColumn`] for stages that name columns which the table has not;
    /// [`Error::NotPositiveDefinite`].
    pub fn effect(&self, parameters: &StageParameters) -> Result<Effect> {
        self.check()?;
        let (count, why) = (self.stages.len() - 1, "one a stage but the last");
        sized("the list of regressions", "entries", count, parameters.regressions.len(), why)?;
        let landmarks = self.landmarks(parameters.landmarks)?;
        let indexed = parameters.regressions.iter().enumerate();
        let mut stages = indexed
            .map(|(t, parameters)| self.regression(t, parameters, landmarks[t].as_ref()))
            .collect::<Result<Vec<_>>>()?;
        stages.push(self.fit_outcome(&parameters.outcome, landmarks[count].as_ref())?);
        let model = Iterated::new(self.treatments()?, stages, parameters.adjustment);
        Ok(Effect::new(vec![(1.0, Model::Iterated(Box::new(model)))]))
    }
}
