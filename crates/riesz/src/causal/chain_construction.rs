//! Studies with numbers: what the last one says, and what each makes of what those after it know.

use super::effect::{Effect, Model};
use super::kernel_regression::KernelRegression;
use super::outcome_gp::{OutcomeGp, OutcomeGpParameters};
use super::product_kernel::{Block, product};
use super::query_embedding::QueryEmbedding;
use super::shared_covariates::{SharedColumns, SharedCovariateTerms};
use super::studies::{IdentificationRoute, Parameters, Studies, Study, StudyParameters};
use super::study_chain::{FrontDoor, Link, Outcome};
use super::study_landmarks::{LandmarkTables, StudyLandmarks};
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix};
use crate::table::{Column, Table};

impl Studies {
    /// What the last study says.
    pub(super) fn fit_outcome(
        &self,
        parameters: &OutcomeGpParameters,
        landmarks: &StudyLandmarks,
    ) -> Result<Outcome> {
        let seen = (&self.points, &self.outcome[..]);
        let process = OutcomeGp::new(self.studies.len(), seen, parameters.clone(), landmarks.last.as_ref())?;
        Ok(Outcome::Process(Box::new(process)))
    }

    /// What a study makes of what the ones after it know.
    pub(super) fn fit_link(
        &self,
        s: usize,
        parameters: &StudyParameters,
        adjustment: bool,
        outcome: Outcome,
        landmarks: &StudyLandmarks,
    ) -> Result<Link> {
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
            Some(few) => fit_link_landmarks(few, blocks, (study, parameters), adjustment, arrival),
            None => self.fit_link_exact(blocks, parameters, adjustment, arrival),
        }
    }

    /// By all rows.
    fn fit_link_exact(
        &self,
        blocks: Vec<Block>,
        parameters: &StudyParameters,
        adjustment: bool,
        LinkInputs { s, y, measure, outcome }: LinkInputs,
    ) -> Result<Link> {
        let study = &self.studies[s];
        let grams: Vec<Matrix> = blocks.iter().map(|own| own.kernel.gram(&own.rows)).collect();
        let mut all = product(&grams);
        all.add_diagonal(|_| parameters.ridge);
        let factor = Cholesky::new(all, "kernel matrix of the study plus ridge")?;
        let door = match (&grams[..], &blocks[..]) {
            ([treatments, others], [_, of]) if matches!(study.route, IdentificationRoute::FrontDoor(_)) => {
                let as_they_were = QueryEmbedding::of_rows(treatments);
                let (kernel, ridge) = intercepting(parameters)?;
                let mut gram = kernel.gram(&study.treatments);
                gram.add_diagonal(|_| ridge);
                let regression = KernelRegression::rows(gram, "kernel matrix of treatments plus ridge")?;
                Some(front_door(regression, as_they_were, (treatments, others), (of, &of.rows))?)
            }
            _ => None,
        };
        let (kernel, reading) = match (&door, &grams[..]) {
            (Some((_, reading)), _) => (intercepting(parameters)?.0, reading.clone()),
            (None, [_, others]) => (&parameters.treatments, QueryEmbedding::of_rows(others)),
            _ => (&parameters.treatments, QueryEmbedding::direct(study.treatments.rows())),
        };
        let shared = match (&study.shared, &outcome, &grams[..]) {
            (Some(w), Outcome::Process(process), [_, covariates]) if door.is_none() => {
                let place = |table: &Table| {
                    let of = |own: &Column| process.points().index_of(&own.name);
                    table.columns().iter().map(of).collect::<Result<Vec<_>>>()
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
        let mut link = Link::new(s, points, reading, solver, y, measure, outcome)?;
        if let Some(shared) = shared {
            link = link.sharing(shared);
        }
        match (&door, &grams[..]) {
            (Some((door, _)), _) if adjustment => link.count_treatments(door),
            (None, [_, others]) if adjustment => link.count_people(others),
            _ => {}
        }
        link.others = blocks.into_iter().nth(1).filter(|_| door.is_none());
        link.people = link.others.as_ref().map(|own| own.rows.clone());
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
        for (s, own) in parameters.studies.iter().enumerate().skip(1).rev() {
            outcome =
                Outcome::Link(Box::new(self.fit_link(s, own, parameters.adjustment, outcome, &landmarks)?));
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
    outcome: Outcome,
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

/// By the kernels of treatments and of what intercepts the effect between places and rows, and the places of
/// the latter.
fn front_door<'a>(
    regression: KernelRegression,
    as_they_were: QueryEmbedding,
    (treatments, intercepting): (&'a Matrix, &'a Matrix),
    (of, places): (&Block, &Table),
) -> Result<(FrontDoor<'a>, QueryEmbedding)> {
    let turned = regression.solve_matrix(intercepting.transpose());
    let around = regression.weighted_kernel(&turned, (&of.kernel, places), &of.rows)?;
    let reading = QueryEmbedding::front_door(&as_they_were, &turned, around);
    let diagonal = of.kernel.diagonal(&of.rows);
    Ok((FrontDoor { treatments, intercepting, diagonal, as_they_were, regression, turned }, reading))
}

/// A study through landmarks.
fn fit_link_landmarks(
    few: &LandmarkTables,
    blocks: Vec<Block>,
    (study, parameters): (&Study, &StudyParameters),
    adjustment: bool,
    arrival: LinkInputs,
) -> Result<Link> {
    let LinkInputs { s, y, measure, outcome } = arrival;
    let places = [Some(&few.treatments), few.others.as_ref()];
    let mut grams = Vec::with_capacity(2);
    let mut with_rows = Vec::with_capacity(2);
    let mut diagonal = vec![1.0; y.rows()];
    for (block, places) in blocks.iter().zip(places.into_iter().flatten()) {
        grams.push(block.kernel.gram(places));
        with_rows.push(block.kernel.cross_gram(places, &block.rows));
        diagonal.iter_mut().zip(block.kernel.diagonal(&block.rows)).for_each(|(all, own)| *all *= own);
    }
    let solver =
        KernelRegression::landmarks(product(&grams), product(&with_rows), &diagonal, parameters.ridge)?;
    let solver = (solver, parameters.ridge);
    let of_all = |block: usize| {
        let Block { kernel, rows } = &blocks[block];
        QueryEmbedding::of_members(
            &with_rows[block],
            kernel,
            rows,
            &vec![1.0 / rows.rows() as f64; rows.rows()],
        )
    };
    let points = (study.treatments.clone(), few.treatments.clone(), parameters.treatments.clone());
    let Some(others) = &few.others else {
        let reading = QueryEmbedding::direct(few.treatments.rows());
        return Link::new(s, points, reading, solver, y, measure, outcome);
    };
    if let Some(queried) = &few.queried {
        let (kernel, ridge) = intercepting(parameters)?;
        let with_treatments = kernel.cross_gram(queried, &study.treatments);
        let own = kernel.diagonal(&study.treatments);
        let regression = KernelRegression::landmarks(kernel.gram(queried), with_treatments, &own, ridge)?;
        let (door, reading) =
            front_door(regression, of_all(0), (&with_rows[0], &with_rows[1]), (&blocks[1], others))?;
        let points = (study.treatments.clone(), queried.clone(), kernel.clone());
        let mut link = Link::new(s, points, reading, solver, y, measure, outcome)?;
        if adjustment {
            link.count_treatments(&door);
        }
        return Ok(link);
    }
    let mut link = Link::new(s, points, of_all(1), solver, y, measure, outcome)?;
    if adjustment {
        link.count_people(&with_rows[1]);
    }
    link.people = Some(blocks[1].rows.clone());
    link.others = Some(Block { rows: others.clone(), kernel: blocks[1].kernel.clone() });
    Ok(link)
}
