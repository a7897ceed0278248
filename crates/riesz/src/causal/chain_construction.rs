//! Construction of the chain of studies for given hyper-parameters: the outcome's process, and the link of
//! each earlier study.

use super::effect::{Effect, Model};
use super::kernel_regression::KernelRegression;
use super::outcome_gp::{OutcomeGp, OutcomeGpParameters};
use super::product_kernel::{ColumnBlock, product_gram};
use super::query_embedding::QueryEmbedding;
use super::shared_covariates::{SharedColumns, SharedCovariateTerms};
use super::studies::{IdentificationRoute, Parameters, Studies, Study, StudyParameters};
use super::study_chain::{ChainedOutcome, FrontDoorInputs, StudyLink};
use super::study_landmarks::{LandmarkTables, StudyLandmarks};
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix};
use crate::table::{Column, Table};

impl Studies {
    /// The process of the outcome, from the last study.
    pub(super) fn fit_outcome(
        &self,
        parameters: &OutcomeGpParameters,
        landmarks: &StudyLandmarks,
    ) -> Result<ChainedOutcome> {
        let seen = (&self.points, &self.outcome[..]);
        let process =
            OutcomeGp::new(self.studies.len(), seen, parameters.clone(), landmarks.outcome_points.as_ref())?;
        Ok(ChainedOutcome::Process(Box::new(process)))
    }

    /// The link of a study, given what the studies after it know.
    pub(super) fn fit_link(
        &self,
        s: usize,
        parameters: &StudyParameters,
        adjustment: bool,
        outcome: ChainedOutcome,
        landmarks: &StudyLandmarks,
    ) -> Result<StudyLink> {
        let study = &self.studies[s];
        let blocks = study.column_blocks(parameters)?;
        crate::fit::positive("ridge", parameters.ridge)?;
        let y = study.mediator_table(outcome.points().columns())?;
        // Where it may lead, and where the next study has been.
        let measure = match self.studies.get(s + 1) {
            Some(next) => y.stack(&next.treatments)?,
            None => y.stack(&self.points)?,
        };
        let arrival = LinkInputs { s, y, measure, outcome };
        match &landmarks.studies[s] {
            Some(tables) => fit_link_landmarks(tables, blocks, (study, parameters), adjustment, arrival),
            None => self.fit_link_exactly(blocks, parameters, adjustment, arrival),
        }
    }

    /// The link of a study from all of its rows.
    fn fit_link_exactly(
        &self,
        blocks: Vec<ColumnBlock>,
        parameters: &StudyParameters,
        adjustment: bool,
        LinkInputs { s, y, measure, outcome }: LinkInputs,
    ) -> Result<StudyLink> {
        let study = &self.studies[s];
        let grams: Vec<Matrix> = blocks.iter().map(|block| block.kernel.gram(&block.rows)).collect();
        let mut product = product_gram(&grams);
        product.add_diagonal(|_| parameters.ridge);
        let factor = Cholesky::new(product, "kernel matrix of the study plus ridge")?;
        let door = match (&grams[..], &blocks[..]) {
            ([treatments, covariate_gram], [_, mediator_block])
                if matches!(study.route, IdentificationRoute::FrontDoor(_)) =>
            {
                let as_they_were = QueryEmbedding::of_rows(treatments);
                let (kernel, ridge) = intercepting(parameters)?;
                let mut gram = kernel.gram(&study.treatments);
                gram.add_diagonal(|_| ridge);
                let regression = KernelRegression::rows(gram, "kernel matrix of treatments plus ridge")?;
                Some(front_door(
                    regression,
                    as_they_were,
                    (treatments, covariate_gram),
                    (mediator_block, &mediator_block.rows),
                )?)
            }
            _ => None,
        };
        let (kernel, reading) = match (&door, &grams[..]) {
            (Some((_, reading)), _) => (intercepting(parameters)?.0, reading.clone()),
            (None, [_, covariate_gram]) => (&parameters.treatments, QueryEmbedding::of_rows(covariate_gram)),
            _ => (&parameters.treatments, QueryEmbedding::direct(study.treatments.rows())),
        };
        let shared = match (&study.shared, &outcome, &grams[..]) {
            (Some(w), ChainedOutcome::Process(process), [_, covariates]) if door.is_none() => {
                let place = |table: &Table| {
                    let index_of = |column: &Column| process.points().index_of(&column.name);
                    table.columns().iter().map(index_of).collect::<Result<Vec<_>>>()
                };
                let (of_y, of_w) = (place(&study.mediators)?, place(w)?);
                let (y, w) = (y.select_columns(&of_y), y.select_columns(&of_w));
                let common = SharedColumns { y: &y, w: &w, places: (&of_y, &of_w) };
                let measure = measure.select_columns(&of_y);
                Some(SharedCovariateTerms::new(covariates, &factor, &common, &measure, process)?)
            }
            (Some(_), ..) => {
                let allowed = "they are shared by the last study and the one that leads there, which is \
                               read through its covariates (back-door)";
                return Err(Error::parameter(
                    "shared covariates",
                    format!("those of study {}", s + 1),
                    allowed,
                ));
            }
            _ => None,
        };
        let points = (study.treatments.clone(), study.treatments.clone(), kernel.clone());
        let solver = (KernelRegression::Rows(factor), parameters.ridge);
        let mut link = StudyLink::new(s, points, reading, solver, y, measure, outcome)?;
        if let Some(shared) = shared {
            link = link.sharing(shared);
        }
        match (&door, &grams[..]) {
            (Some((door, _)), _) if adjustment => link.add_treatment_uncertainty(door),
            (None, [_, covariate_gram]) if adjustment => link.add_covariate_uncertainty(covariate_gram),
            _ => {}
        }
        link.covariate_block = blocks.into_iter().nth(1).filter(|_| door.is_none());
        link.people = link.covariate_block.as_ref().map(|block| block.rows.clone());
        Ok(link)
    }

    /// The effect by these numbers. Cost n³ for n rows of each study, or n m² through m landmarks.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`], [`Error::Parameter`];
    /// [`Error::NotPositiveDefinite`].
    pub fn effect(&self, parameters: &Parameters) -> Result<Effect> {
        self.check()?;
        sized(
            "the list of studies' numbers",
            "entries",
            self.studies.len(),
            parameters.studies.len(),
            "one a study",
        )?;
        let landmarks = StudyLandmarks::new(self, parameters.landmarks)?;
        let mut outcome = self.fit_outcome(&parameters.outcome, &landmarks)?;
        for (s, study_parameters) in parameters.studies.iter().enumerate().skip(1).rev() {
            outcome = ChainedOutcome::Link(Box::new(self.fit_link(
                s,
                study_parameters,
                parameters.adjustment,
                outcome,
                &landmarks,
            )?));
        }
        let first = self.fit_link(0, &parameters.studies[0], parameters.adjustment, outcome, &landmarks)?;
        Ok(Effect::new(vec![(1.0, Model::Link(Box::new(first)))]))
    }
}

/// A study's number, the mediators of its rows, those of ν, and what the studies after it know.
struct LinkInputs {
    s: usize,
    y: Table,
    measure: Table,
    outcome: ChainedOutcome,
}

/// Kernel and ridge of the regression of what intercepts an effect on treatments.
fn intercepting(parameters: &StudyParameters) -> Result<(&Kernel, f64)> {
    let Some((kernel, ridge)) = &parameters.intercepting else {
        let allowed = "there is one where columns intercept the effect";
        return Err(Error::parameter("intercepting", "none", allowed));
    };
    crate::fit::positive("ridge of what intercepts the effect", *ridge)?;
    Ok((kernel, *ridge))
}

/// The inputs of a front door, from the kernels of treatments and of mediators between points and rows, and
/// the points of the latter.
fn front_door<'a>(
    regression: KernelRegression,
    as_they_were: QueryEmbedding,
    (treatments, intercepting): (&'a Matrix, &'a Matrix),
    (of, places): (&ColumnBlock, &Table),
) -> Result<(FrontDoorInputs<'a>, QueryEmbedding)> {
    let weighted_treatments = regression.solve_matrix(intercepting.transpose());
    let smoothed_kernel = regression.weighted_kernel(&weighted_treatments, (&of.kernel, places), &of.rows)?;
    let reading = QueryEmbedding::front_door(&as_they_were, &weighted_treatments, smoothed_kernel);
    let diagonal = of.kernel.diagonal(&of.rows);
    Ok((
        FrontDoorInputs {
            treatments,
            intercepting,
            diagonal,
            as_they_were,
            regression,
            weighted_mediators: weighted_treatments,
        },
        reading,
    ))
}

/// The link of a study through landmarks.
fn fit_link_landmarks(
    tables: &LandmarkTables,
    blocks: Vec<ColumnBlock>,
    (study, parameters): (&Study, &StudyParameters),
    adjustment: bool,
    arrival: LinkInputs,
) -> Result<StudyLink> {
    let LinkInputs { s, y, measure, outcome } = arrival;
    let places = [Some(&tables.treatments), tables.covariates.as_ref()];
    let mut grams = Vec::with_capacity(2);
    let mut with_rows = Vec::with_capacity(2);
    let mut diagonal = vec![1.0; y.rows()];
    for (block, places) in blocks.iter().zip(places.into_iter().flatten()) {
        grams.push(block.kernel.gram(places));
        with_rows.push(block.kernel.cross_gram(places, &block.rows));
        diagonal
            .iter_mut()
            .zip(block.kernel.diagonal(&block.rows))
            .for_each(|(variance, block_variance)| *variance *= block_variance);
    }
    let solver = KernelRegression::landmarks(
        product_gram(&grams),
        product_gram(&with_rows),
        &diagonal,
        parameters.ridge,
    )?;
    let solver = (solver, parameters.ridge);
    let of_all = |block: usize| {
        let ColumnBlock { kernel, rows } = &blocks[block];
        QueryEmbedding::of_members(
            &with_rows[block],
            kernel,
            rows,
            &vec![1.0 / rows.rows() as f64; rows.rows()],
        )
    };
    let points = (study.treatments.clone(), tables.treatments.clone(), parameters.treatments.clone());
    let Some(other_landmarks) = &tables.covariates else {
        let reading = QueryEmbedding::direct(tables.treatments.rows());
        return StudyLink::new(s, points, reading, solver, y, measure, outcome);
    };
    if let Some(queried) = &tables.queried {
        let (kernel, ridge) = intercepting(parameters)?;
        let with_treatments = kernel.cross_gram(queried, &study.treatments);
        let variances = kernel.diagonal(&study.treatments);
        let regression =
            KernelRegression::landmarks(kernel.gram(queried), with_treatments, &variances, ridge)?;
        let (door, reading) =
            front_door(regression, of_all(0), (&with_rows[0], &with_rows[1]), (&blocks[1], other_landmarks))?;
        let points = (study.treatments.clone(), queried.clone(), kernel.clone());
        let mut link = StudyLink::new(s, points, reading, solver, y, measure, outcome)?;
        if adjustment {
            link.add_treatment_uncertainty(&door);
        }
        return Ok(link);
    }
    let mut link = StudyLink::new(s, points, of_all(1), solver, y, measure, outcome)?;
    if adjustment {
        link.add_covariate_uncertainty(&with_rows[1]);
    }
    link.people = Some(blocks[1].rows.clone());
    link.covariate_block =
        Some(ColumnBlock { rows: other_landmarks.clone(), kernel: blocks[1].kernel.clone() });
    Ok(link)
}
