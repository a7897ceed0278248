//! Joint draws of outcomes and effects, study by study.

use super::normal_draws::{mean_diagonal, normal_draws};
use super::outcome_at_mediators::mean_square_form;
use super::study_chain::{ChainedOutcome, StudyLink};
use super::uncertainty_parts::{add_matrix, sum_parts};
use crate::error::Result;
use crate::linalg::Matrix;
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
        let q = functionals.constants.len();
        // One additional functional, the constant.
        let with = |m: &Matrix, rows: usize| {
            let mut out = Matrix::zeros(rows, q + 1);
            (0..m.rows()).for_each(|i| out.row_mut(i)[..q].copy_from_slice(m.row(i)));
            out
        };
        let constants = [vec![0.0; q], vec![1.0]].concat();
        let columns = with(&functionals.columns, functionals.columns.rows());
        let extended = Functionals { columns, prior_scale: with(&functionals.prior_scale, q + 1), constants };
        let drawn = match self {
            Self::Process(process) => process.sample(&extended, draws, random),
            Self::Link(link) => link.sample(&extended, draws, random),
        }?;
        let centred = Matrix::from_row_major(q, draws, drawn.data()[..q * draws].to_vec());
        Ok((drawn.row(q).to_vec(), centred))
    }
}

impl StudyLink {
    /// Draws jointly the values of single queries, queries × draws. Drawn are the outcome at the possible
    /// mediators, and, given the outcome, the effect `N(β₀ + E f₀(y), R ∫ f₀² dν)` under the random
    /// distribution of the mediators. Products of normal numbers have heavier tails than a normal
    /// distribution with the same covariance. If studies share covariates, draws are normal with this mean
    /// and covariance.
    pub fn sample(&self, functionals: &Functionals, draws: usize, random: &mut Random) -> Result<Matrix> {
        if self.shares() {
            let (means, parts, _) = self.estimate(functionals);
            let total = sum_parts(&parts, means.len());
            let scale = mean_diagonal(&total);
            let mut out = normal_draws(total, scale, draws, "covariance of the effect", random)?;
            means.iter().enumerate().for_each(|(i, m)| out.row_mut(i).iter_mut().for_each(|v| *v += m));
            return Ok(out);
        }
        let (weights, open) = self.weights(functionals);
        let q = weights.rows();
        let (constants, mut out, squares) = self.sample_outcome(&weights, draws, random)?;
        let scale = mean_diagonal(
            &self.query_embedding.query_covariance(&functionals.columns, &functionals.prior_scale),
        );
        let mut link_part =
            normal_draws(open, scale, draws, "residual covariance of the mediators' distribution", random)?;
        for (j, square) in squares.iter().enumerate() {
            (0..q).for_each(|i| link_part[(i, j)] *= square.sqrt());
        }
        add_matrix(&mut out, &link_part);
        if let Some(part) = self.of_adjustment(functionals) {
            let scale = mean_diagonal(&part);
            add_matrix(
                &mut out,
                &normal_draws(part, scale, draws, "covariance from the units of a study", random)?,
            );
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
        let part = |m: &Matrix, from: usize, to: usize| {
            Matrix::from_row_major(to - from, draws, m.data()[from * draws..to * draws].to_vec())
        };
        if self.outcome.uses_all_rows() {
            // The outcome at the possible mediators: those of the study first, then those of ν.
            let at_mediators = self.outcome.values_at(&self.mediators().stack(self.measure())?);
            let (constants, centred) = self.outcome.sample(&at_mediators, draws, random)?;
            let count = self.measure().rows();
            let square =
                |j: usize| (n..n + count).map(|i| centred[(i, j)].powi(2)).sum::<f64>() / count as f64;
            return Ok((constants, weights.matmul(&part(&centred, 0, n)), (0..draws).map(square).collect()));
        }
        // The outcome summed over rows, and at its points, which determine it elsewhere up to residual
        // variances of single rows.
        let handed = self.outcome_at_mediators().weighted(weights, &vec![0.0; q]);
        let (points, kernel) = (self.outcome.points(), self.outcome.kernel());
        let points_gram = kernel.gram(points);
        let m = points.rows();
        let mut columns = Matrix::zeros(m, q + m);
        let mut prior = Matrix::zeros(q + m, q + m);
        for a in 0..m {
            columns.row_mut(a)[..q].copy_from_slice(handed.columns.row(a));
            columns.row_mut(a)[q..].copy_from_slice(points_gram.row(a));
            prior.row_mut(q + a).copy_from_slice(columns.row(a));
        }
        for i in 0..q {
            prior.row_mut(i)[..q].copy_from_slice(handed.prior_scale.row(i));
            (0..m).for_each(|a| prior[(i, q + a)] = handed.columns[(a, i)]);
        }
        let functionals = Functionals { columns, prior_scale: prior, constants: vec![0.0; q + m] };
        let (constants, centred) = self.outcome.sample(&functionals, draws, random)?;
        let (of_points, gap) = mean_square_form((points, kernel), self.measure())?;
        let at_points = part(&centred, q, q + m);
        let transformed = of_points.matmul(&at_points);
        let square = |j: usize| gap + (0..m).map(|a| at_points[(a, j)] * transformed[(a, j)]).sum::<f64>();
        Ok((constants, part(&centred, 0, q), (0..draws).map(|j| square(j).max(0.0)).collect()))
    }
}
