//! How the parameters of an effect from one table are chosen: first those of the regression of the outcome,
//! then stage by stage backwards, by how well its rows predict what the next stage expects.

use super::defaults::{MAX_TUNING_ROWS, default_kernel, evenly_spaced};
use super::effect::{Effect, Model};
use super::fusion::Fusion;
use super::identification::Identification;
use super::iterated::{FittedStage, Iterated};
use super::positivity::{Positivity, TreatmentOverlap};
use super::product_kernel::{self, Block};
use super::stages::SingleTable;
use super::studies::Studies;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::random::hash;

/// Choices of later treatments at which a stage is to predict what the next one expects.
const LATER_TREATMENTS: usize = 3;

impl Fusion {
    /// Learns the effect that `found` says from what was [gathered](super::gather()): from one table, or
    /// across studies.
    ///
    /// # Errors
    /// As [`fit`](Self::fit) and [`fit_table`](Self::fit_table).
    pub fn learn(&self, found: &Identification, gathered: &Studies) -> Result<Effect> {
        if found.is_single_table() {
            self.fit_table(&SingleTable::new(found, gathered))
        } else {
            self.fit(gathered)
        }
    }

    /// Learns the effect from one table. Cost as [`fit`](Self::fit), of each stage.
    ///
    /// # Errors
    /// As [`SingleTable::effect`]; [`Error::Target`](crate::Error::Target) for an outcome that is constant;
    /// [`Error::Parameter`](crate::Error::Parameter) for more draws than memory holds;
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn fit_table(&self, table: &SingleTable) -> Result<Effect> {
        table.check()?;
        let landmarks = table.landmarks(self.landmarks)?;
        let n = table.rows.rows();
        let places = |own: &Option<crate::Table>| own.as_ref().map_or(n, crate::Table::rows);
        let numbers = landmarks.iter().map(|own| 4 * n * places(own)).sum::<usize>();
        crate::memory::check_allocation("draws", self.draws.max(1), numbers)?;
        let last = table.stages.len() - 1;
        let points = table.select(&table.stages[last].columns())?;
        let (found, mut effective) = self.of_outcome(&points, &table.outcome)?;
        let of_last = |own| {
            self.watch().check_cancelled()?;
            table.last(own, landmarks[last].as_ref())
        };
        // By draw the stages from the one at hand to the last.
        let mut chains: Vec<Vec<FittedStage>> =
            found.iter().map(|own| of_last(own).map(|own| vec![own])).collect::<Result<_>>()?;
        for t in (0..last).rev() {
            // By the first draw of what comes after; draws of both go together by chance.
            let (chosen, own) = self.of_stage(table, t, &chains[0])?;
            effective = effective.min(own);
            for (chain, own) in chains.iter_mut().zip(chosen.iter().cycle()) {
                self.watch().check_cancelled()?;
                chain.insert(0, table.regression(t, own, landmarks[t].as_ref())?);
            }
        }
        let weight = 1.0 / chains.len() as f64;
        let treatments = table.treatments()?;
        let model = |chain| {
            let own = Iterated::new(treatments.clone(), chain, self.adjustment);
            (weight, Model::Iterated(Box::new(own)))
        };
        let effect = Effect::new(chains.into_iter().map(model).collect());
        Ok(effect.with_diagnostics(self.positivity(table)?, effective))
    }

    /// Kernels and ridges of stage t: the best, or draws. `after` are the stages that follow.
    fn of_stage(
        &self,
        table: &SingleTable,
        t: usize,
        after: &[FittedStage],
    ) -> Result<(Vec<(Kernel, f64)>, f64)> {
        let stage = &table.stages[t];
        let (n, all) = (table.rows.rows(), table.treatments()?);
        let some = evenly_spaced(MAX_TUNING_ROWS, n);
        let later = table.stages[t + 1..].iter().any(|stage| !stage.treatments.is_empty());
        let choices = evenly_spaced(if later { LATER_TREATMENTS } else { 1 }, n);
        // The stages that follow stand alone, as those of a chain that begins with this one's history.
        let chain = Iterated::new(all.clone(), after.to_vec(), false);
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for row in &choices {
            let h = chain.guesses(0, &some, &all.select_rows(&[*row]));
            // In units of what it is on average, so that choices count alike.
            let square = h.data().iter().map(|v| v * v).sum::<f64>() / h.rows() as f64;
            let scale = (square * choices.len() as f64).sqrt().max(f64::MIN_POSITIVE);
            columns.extend((0..h.cols()).map(|j| h.column(j).iter().map(|v| v / scale).collect()));
        }
        let values = (0..some.len()).flat_map(|i| columns.iter().map(move |own| own[i])).collect();
        let h = Matrix::from_row_major(some.len(), columns.len(), values);
        let rows = table.select(&stage.columns())?.select_rows(&some);
        let blocks = [Block { kernel: default_kernel(&rows), rows }];
        let seed = hash([self.seed, 1 + t as u64]);
        let (found, effective) = self.of_blocks(&blocks, &h, 1.0, seed)?;
        let of = |theta: &Vec<f64>| {
            let (blocks, ridge) = product_kernel::with_parameters(&blocks, theta);
            (blocks[0].kernel.clone(), ridge)
        };
        Ok((found.iter().map(of).collect(), effective))
    }

    /// Which treatments the covariates before them lead one to expect, stage by stage; and which mediators of
    /// a front door the treatments do.
    fn positivity(&self, table: &SingleTable) -> Result<Vec<Positivity>> {
        let mut all = Vec::new();
        for stage in table.stages.iter().filter(|stage| !stage.treatments.is_empty()) {
            let before = [&stage.history[..], &stage.averaged].concat();
            if before.is_empty() {
                continue;
            }
            let place = |name: &String| table.treatments.iter().position(|own| own == name);
            let covariates = table.select(&before)?;
            let treatments = table.select(&stage.treatments)?;
            all.push(Positivity {
                overlap: TreatmentOverlap::new(&treatments, &covariates, self.watch())?,
                columns: stage.treatments.iter().filter_map(place).collect(),
                rows: (!stage.history.is_empty()).then_some(covariates),
                mediators: None,
            });
        }
        // A front door asks for mediators of one treatment at the other treatments that rows have.
        for stage in &table.stages[1..] {
            if stage.averaged.is_empty() {
                continue;
            }
            let (mediators, rows) = (table.select(&stage.history)?, table.select(&stage.averaged)?);
            all.push(Positivity {
                overlap: TreatmentOverlap::new(&mediators, &rows, self.watch())?,
                columns: (0..table.treatments.len()).collect(),
                rows: Some(rows),
                mediators: Some(mediators.columns().to_vec()),
            });
        }
        Ok(all)
    }
}
