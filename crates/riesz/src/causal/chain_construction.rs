//! Construction of the chain of studies for given hyper-parameters: the outcome's process and the link of
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
    /// Fits the process of the outcome to the last study.
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

    /// Fits the link of study `s`, given the model `outcome` of all later studies.
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
        crate::checks::positive("ridge", parameters.ridge)?;
        let y = study.mediator_table(outcome.points().columns())?;
        // The mediators of this study's rows and of the next study's rows.
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

    /// Fits the link of a study on all of its rows.
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
                let observed_embedding = QueryEmbedding::of_rows(treatments);
                let (kernel, ridge) = intercepting(parameters)?;
                let mut gram = kernel.gram(&study.treatments);
                gram.add_diagonal(|_| ridge);
                let regression = KernelRegression::rows(gram, "kernel matrix of treatments plus ridge")?;
                Some(front_door(
                    regression,
                    observed_embedding,
                    (treatments, covariate_gram),
                    (mediator_block, &mediator_block.rows),
                )?)
            }
            _ => None,
        };
        let (kernel, query_embedding) = match (&door, &grams[..]) {
            (Some((_, query_embedding)), _) => (intercepting(parameters)?.0, query_embedding.clone()),
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
                let allowed = "only the last two studies may share covariates, and the earlier one \
                               must adjust for its covariates (back-door)";
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
        let mut link = StudyLink::new(s, points, query_embedding, solver, y, measure, outcome)?;
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

    /// Returns the effect for given hyper-parameters. Cost n³ for n rows of each study, or n m² with m
    /// landmarks.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`], [`Error::Parameter`];
    /// [`Error::NotPositiveDefinite`].
    pub fn effect(&self, parameters: &Parameters) -> Result<Effect> {
        self.check()?;
        sized(
            "the list of studies' parameters",
            "entries",
            self.studies.len(),
            parameters.studies.len(),
            "one per study",
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

/// A study's index, the mediators of its rows, the rows of ν, and the model of the later studies.
struct LinkInputs {
    s: usize,
    y: Table,
    measure: Table,
    outcome: ChainedOutcome,
}

/// Returns the kernel and the ridge of the regression of the front-door mediators on treatments.
fn intercepting(parameters: &StudyParameters) -> Result<(&Kernel, f64)> {
    let Some((kernel, ridge)) = &parameters.intercepting else {
        let allowed = "a front-door study needs a kernel and a ridge for it";
        return Err(Error::parameter("intercepting", "none", allowed));
    };
    crate::checks::positive("ridge of the front-door mediators", *ridge)?;
    Ok((kernel, *ridge))
}

/// Prepares the inputs of a front-door study. `treatments` and `intercepting` are the kernel matrices (points
/// × rows) of treatments and of mediators; `points` are the points of the mediators.
fn front_door<'a>(
    regression: KernelRegression,
    observed_embedding: QueryEmbedding,
    (treatments, intercepting): (&'a Matrix, &'a Matrix),
    (block, points): (&ColumnBlock, &Table),
) -> Result<(FrontDoorInputs<'a>, QueryEmbedding)> {
    let weighted_mediators = regression.solve_matrix(intercepting.transpose());
    let smoothed_kernel =
        regression.weighted_kernel(&weighted_mediators, (&block.kernel, points), &block.rows)?;
    let query_embedding =
        QueryEmbedding::front_door(&observed_embedding, &weighted_mediators, smoothed_kernel);
    let diagonal = block.kernel.diagonal(&block.rows);
    Ok((
        FrontDoorInputs {
            treatments,
            intercepting,
            diagonal,
            observed_embedding,
            regression,
            weighted_mediators,
        },
        query_embedding,
    ))
}

/// Fits the link of a study through landmarks.
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
        let query_embedding = QueryEmbedding::direct(tables.treatments.rows());
        return StudyLink::new(s, points, query_embedding, solver, y, measure, outcome);
    };
    if let Some(queried) = &tables.queried {
        let (kernel, ridge) = intercepting(parameters)?;
        let with_treatments = kernel.cross_gram(queried, &study.treatments);
        let variances = kernel.diagonal(&study.treatments);
        let regression =
            KernelRegression::landmarks(kernel.gram(queried), with_treatments, &variances, ridge)?;
        let (door, query_embedding) =
            front_door(regression, of_all(0), (&with_rows[0], &with_rows[1]), (&blocks[1], other_landmarks))?;
        let points = (study.treatments.clone(), queried.clone(), kernel.clone());
        let mut link = StudyLink::new(s, points, query_embedding, solver, y, measure, outcome)?;
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
