//! Construction of the chain of studies for given hyper-parameters: the outcome's process and the link of
//! each earlier study.

use super::effect::{Effect, Model};
use super::kernel_regression::KernelRegression;
use super::outcome_gp::{OutcomeGp, OutcomeGpParameters};
use super::product_kernel::{ColumnBlock, block_grams, product_gram};
use super::query_embedding::QueryEmbedding;
use super::shared_covariates::SharedCovariateTerms;
use super::studies::{IdentificationRoute, Parameters, Studies, StudyParameters};
use super::study_chain::{ChainedOutcome, FrontDoorInputs, StudyLink};
use super::study_landmarks::{LandmarkTables, StudyLandmarks};
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::{Matrix, multiply_entries};
use crate::table::Table;

impl Studies {
    /// Fits the process of the outcome to the last study.
    pub(super) fn fit_outcome(
        &self,
        parameters: &OutcomeGpParameters,
        landmarks: &StudyLandmarks,
    ) -> Result<ChainedOutcome> {
        let observations = (&self.points, &self.outcome[..]);
        let process = OutcomeGp::new(
            self.studies.len(),
            observations,
            parameters.clone(),
            landmarks.outcome_points.as_ref(),
        )?;
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
        let (study, tables) = (&self.studies[s], landmarks.studies[s].as_ref());
        let blocks = study.column_blocks(parameters)?;
        crate::checks::positive("ridge", parameters.ridge)?;
        let y = study.mediator_table(outcome.points().columns())?;
        // The mediators of this study's rows and of the next study's rows.
        let measure = y.stack(self.studies.get(s + 1).map_or(&self.points, |next| &next.treatments))?;
        let (with_rows, solver) = match tables {
            None => regression_on_rows(&blocks, parameters.ridge)?,
            Some(tables) => regression_on_landmarks(&blocks, tables, parameters.ridge)?,
        };
        let treatment_points = tables.map_or(&study.treatments, |tables| &tables.treatments);
        let covariate_points = tables.and_then(|tables| tables.covariates.as_ref());
        // A block of columns, averaged over the rows.
        let averaged = |k: usize| {
            let ColumnBlock { kernel, rows } = &blocks[k];
            let n = rows.rows();
            match tables {
                None => QueryEmbedding::averaged_over_rows(&with_rows[k]),
                Some(_) => QueryEmbedding::averaged_over_members(
                    &with_rows[k],
                    kernel,
                    rows,
                    &vec![1.0 / n as f64; n],
                ),
            }
        };
        let mut front_door_inputs = None;
        let (kernel, treatment_points, query_embedding) = match &study.route {
            IdentificationRoute::Direct => {
                (&parameters.treatments, treatment_points, QueryEmbedding::direct(treatment_points.rows()))
            }
            IdentificationRoute::BackDoor(_) => (&parameters.treatments, treatment_points, averaged(1)),
            IdentificationRoute::FrontDoor(mediators) => {
                let (kernel, ridge) = intercepting(parameters)?;
                let treatment_landmarks = tables.and_then(|tables| tables.treatments_only.as_ref());
                let matrix_name = "kernel matrix of treatments plus ridge";
                let regression = KernelRegression::fit(
                    (kernel, ridge),
                    &study.treatments,
                    treatment_landmarks,
                    matrix_name,
                )?;
                let mediator_points = covariate_points.unwrap_or(mediators);
                let (inputs, query_embedding) =
                    front_door(regression, averaged(0), &with_rows, (&blocks[1], mediator_points))?;
                front_door_inputs = Some(inputs);
                (kernel, treatment_landmarks.unwrap_or(&study.treatments), query_embedding)
            }
        };
        let shared = self.shared_terms(s, (&with_rows, &solver), (&y, &measure), &outcome)?;
        let points = (study.treatments.clone(), treatment_points.clone(), kernel.clone());
        let solver = (solver, parameters.ridge);
        let mut link = StudyLink::new(s, points, query_embedding, solver, y, measure, outcome)?;
        link.shared = shared;
        if let Some(front_door_inputs) = front_door_inputs.filter(|_| adjustment) {
            link.add_treatment_uncertainty(&front_door_inputs);
        }
        if let IdentificationRoute::BackDoor(covariates) = &study.route {
            if adjustment {
                link.add_covariate_uncertainty(&with_rows[1]);
            }
            let (rows, kernel) = (covariate_points.unwrap_or(covariates).clone(), blocks[1].kernel.clone());
            link.covariate_block = Some(ColumnBlock { rows, kernel });
            link.averaged_covariates = Some(covariates.clone());
        }
        Ok(link)
    }

    /// Returns the terms of the covariates that study `s` shares with the last one, given the kernel matrices
    /// and the regression of the study; `None` without such covariates.
    fn shared_terms(
        &self,
        s: usize,
        (grams, solver): (&[Matrix], &KernelRegression),
        rows: (&Table, &Table),
        outcome: &ChainedOutcome,
    ) -> Result<Option<SharedCovariateTerms>> {
        let study = &self.studies[s];
        let Some(shared) = &study.shared else { return Ok(None) };
        match (outcome, &study.route, solver) {
            (
                ChainedOutcome::Process(process),
                IdentificationRoute::BackDoor(_),
                KernelRegression::Rows(factor),
            ) => {
                let columns = (&study.mediators, shared);
                SharedCovariateTerms::new(&grams[1], factor, columns, rows, process).map(Some)
            }
            _ => {
                let allowed = "only the last two studies may share covariates, and the earlier one \
                               must adjust for its covariates (back-door)";
                let value = format!("those of study {}", s + 1);
                Err(Error::parameter("shared covariates", value, allowed))
            }
        }
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

/// Returns the kernel and the ridge of the regression of the front-door mediators on treatments.
fn intercepting(parameters: &StudyParameters) -> Result<(&Kernel, f64)> {
    let Some((kernel, ridge)) = &parameters.intercepting else {
        let allowed = "a front-door study needs a kernel and a ridge for it";
        return Err(Error::parameter("intercepting", "none", allowed));
    };
    crate::checks::positive("ridge of the front-door mediators", *ridge)?;
    Ok((kernel, *ridge))
}

/// Prepares the inputs of a front-door study. `with_rows` are the kernel matrices (points × rows) of
/// treatments and of mediators; `points` are the points of the mediators.
fn front_door<'a>(
    regression: KernelRegression,
    observed_embedding: QueryEmbedding,
    with_rows: &'a [Matrix],
    (block, points): (&ColumnBlock, &Table),
) -> Result<(FrontDoorInputs<'a>, QueryEmbedding)> {
    let (treatments, intercepting) = (&with_rows[0], &with_rows[1]);
    let weighted_mediators = regression.solve_matrix(intercepting.transpose());
    let smoothed_kernel =
        regression.weighted_kernel(&weighted_mediators, (&block.kernel, points), &block.rows)?;
    let query_embedding =
        QueryEmbedding::front_door(&observed_embedding, &weighted_mediators, smoothed_kernel);
    let diagonal = block.kernel.diagonal(&block.rows);
    let inputs = FrontDoorInputs {
        treatments,
        intercepting,
        diagonal,
        observed_embedding,
        regression,
        weighted_mediators,
    };
    Ok((inputs, query_embedding))
}

/// Returns the gram matrix of each block, and the regression of a study on all of its rows.
fn regression_on_rows(blocks: &[ColumnBlock], ridge: f64) -> Result<(Vec<Matrix>, KernelRegression)> {
    let grams = block_grams(blocks);
    let mut product = product_gram(&grams);
    product.add_diagonal(|_| ridge);
    let solver = KernelRegression::rows(product, "kernel matrix of the study plus ridge")?;
    Ok((grams, solver))
}

/// Returns the kernel matrix of each block (landmarks × rows), and the regression of a study through
/// landmarks.
fn regression_on_landmarks(
    blocks: &[ColumnBlock],
    tables: &LandmarkTables,
    ridge: f64,
) -> Result<(Vec<Matrix>, KernelRegression)> {
    let (mut grams, mut with_rows) = (Vec::with_capacity(2), Vec::with_capacity(2));
    let mut diagonal = vec![1.0; blocks[0].rows.rows()];
    for (block, points) in blocks.iter().zip([Some(&tables.treatments), tables.covariates.as_ref()]) {
        let Some(points) = points else { continue };
        grams.push(block.kernel.gram(points));
        with_rows.push(block.kernel.cross_gram(points, &block.rows));
        multiply_entries(&mut diagonal, &block.kernel.diagonal(&block.rows));
    }
    let solver =
        KernelRegression::landmarks(product_gram(&grams), product_gram(&with_rows), &diagonal, ridge)?;
    Ok((with_rows, solver))
}
