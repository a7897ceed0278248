//! Joint draws of outcomes and effects, study by study.

use super::normal_draws::{effect_draws, normal_draws};
use super::outcome_at_mediators::mean_square_form;
use super::study_chain::{ChainedOutcome, StudyLink};
use crate::error::Result;
use crate::linalg::{Matrix, mean};
use crate::posterior::Functionals;
use crate::random::Random;

impl ChainedOutcome {
    /// Draws jointly β₀ (one number per draw) and functionals of f₀ (functionals × draws).
    fn sample(
        &self,
        functionals: &Functionals,
        draws: usize,
        random: &mut Random,
    ) -> Result<(Vec<f64>, Matrix)> {
        let (q, points) = (functionals.constants.len(), functionals.columns.rows());
        // One additional functional, the constant.
        let mut prior_covariance = Matrix::zeros(q + 1, q + 1);
        (0..q).for_each(|i| {
            prior_covariance.row_mut(i)[..q].copy_from_slice(functionals.prior_covariance.row(i))
        });
        let extended = Functionals {
            columns: Matrix::side_by_side(
                points,
                [&functionals.columns, &Matrix::zeros(points, 1)].into_iter(),
            ),
            prior_covariance,
            constants: [vec![0.0; q], vec![1.0]].concat(),
        };
        let drawn = match self {
            Self::Process(process) => process.sample(&extended, draws, random),
            Self::Link(link) => link.sample(&extended, draws, random),
        }?;
        Ok((drawn.row(q).to_vec(), drawn.block(0..q, 0..draws)))
    }
}

impl StudyLink {
    /// Draws jointly the values of single queries, queries × draws. Drawn are the outcome at the possible
    /// mediators, and, given the outcome, the effect `N(β₀ + E f₀(y), R ∫ f₀² dν)` under the random
    /// distribution of the mediators. Products of normal numbers have heavier tails than a normal
    /// distribution with the same covariance. If studies share covariates, draws are normal with this mean
    /// and covariance.
    pub fn sample(&self, functionals: &Functionals, draws: usize, random: &mut Random) -> Result<Matrix> {
        if self.shared.is_some() {
            let (means, parts, _) = self.estimate(functionals);
            return effect_draws(means, &parts, draws, random);
        }
        let (weights, residual, prior) = self.weights(functionals);
        let q = weights.rows();
        let (constants, mut out, squares) = self.sample_outcome(&weights, draws, random)?;
        let scale = mean(&prior);
        let mut link_part = normal_draws(
            residual,
            scale,
            draws,
            "residual covariance of the mediators' distribution",
            random,
        )?;
        for (j, square) in squares.iter().enumerate() {
            (0..q).for_each(|i| link_part[(i, j)] *= square.sqrt());
        }
        out.add_times(1.0, &link_part);
        if let Some(part) = self.adjustment_covariance(functionals) {
            let scale = part.mean_diagonal();
            let drawn = normal_draws(part, scale, draws, "covariance from the units of a study", random)?;
            out.add_times(1.0, &drawn);
        }
        out.add_outer(functionals.constants.iter().copied(), &constants);
        Ok(out)
    }

    /// Draws jointly β₀, `E f₀(y)` (queries × draws) and `∫ f₀² dν`.
    fn sample_outcome(
        &self,
        weights: &Matrix,
        draws: usize,
        random: &mut Random,
    ) -> Result<(Vec<f64>, Matrix, Vec<f64>)> {
        let (q, n) = (weights.rows(), weights.cols());
        if self.outcome.uses_all_rows() {
            // The outcome at the possible mediators: those of the study first, then those of ν.
            let at_mediators = self.outcome.values_at(&self.mediators.stack(&self.measure)?);
            let (constants, centered) = self.outcome.sample(&at_mediators, draws, random)?;
            let count = self.measure.rows();
            let square =
                |j: usize| (n..n + count).map(|i| centered[(i, j)].powi(2)).sum::<f64>() / count as f64;
            return Ok((
                constants,
                weights.matmul(&centered.block(0..n, 0..draws)),
                (0..draws).map(square).collect(),
            ));
        }
        // The outcome summed over rows, and at its points, which determine it elsewhere up to residual
        // variances of single rows.
        let outcome_functionals = self.at_mediators.weighted(weights, &vec![0.0; q]);
        let (points, kernel) = (self.outcome.points(), self.outcome.kernel());
        let points_gram = kernel.gram(points);
        let m = points.rows();
        let columns = Matrix::side_by_side(m, [&outcome_functionals.columns, &points_gram].into_iter());
        let sum_covariances = Matrix::side_by_side(
            q,
            [&outcome_functionals.prior_covariance, &outcome_functionals.columns.transpose()].into_iter(),
        );
        let prior = [sum_covariances.data(), columns.data()].concat();
        let prior_covariance = Matrix::from_row_major(q + m, q + m, prior);
        let functionals = Functionals { columns, prior_covariance, constants: vec![0.0; q + m] };
        let (constants, centered) = self.outcome.sample(&functionals, draws, random)?;
        let (square_form, mean_residual_variance) = mean_square_form((points, kernel), &self.measure)?;
        let at_points = centered.block(q..q + m, 0..draws);
        let transformed = square_form.matmul(&at_points);
        let square = |j: usize| {
            mean_residual_variance + (0..m).map(|a| at_points[(a, j)] * transformed[(a, j)]).sum::<f64>()
        };
        Ok((constants, centered.block(0..q, 0..draws), (0..draws).map(|j| square(j).max(0.0)).collect()))
    }
}
