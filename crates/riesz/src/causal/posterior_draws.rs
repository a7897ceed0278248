//! Joint draws of outcomes and effects, study by study.

use super::normal_draws::{mean_diagonal, normal_draws};
use super::outcome_at_mediators::mean_square_form;
use super::study_chain::{Link, Outcome};
use super::uncertainty_parts::{add_matrix, sum_parts};
use crate::error::Result;
use crate::linalg::Matrix;
use crate::posterior::Functionals;
use crate::random::Random;

impl Outcome {
    /// Joint draws of β₀ (one a draw) and of functionals of f₀ (functionals × draws).
    fn sample(&self, given: &Functionals, draws: usize, random: &mut Random) -> Result<(Vec<f64>, Matrix)> {
        let q = given.constants.len();
        // One functional more, of nothing but the constant.
        let with = |m: &Matrix, rows: usize| {
            let mut out = Matrix::zeros(rows, q + 1);
            (0..m.rows()).for_each(|i| out.row_mut(i)[..q].copy_from_slice(m.row(i)));
            out
        };
        let constants = [vec![0.0; q], vec![1.0]].concat();
        let columns = with(&given.columns, given.columns.rows());
        let given = Functionals { columns, prior_scale: with(&given.prior_scale, q + 1), constants };
        let drawn = match self {
            Self::Process(own) => own.sample(&given, draws, random),
            Self::Link(own) => own.sample(&given, draws, random),
        }?;
        let centred = Matrix::from_row_major(q, draws, drawn.data()[..q * draws].to_vec());
        Ok((drawn.row(q).to_vec(), centred))
    }
}

impl Link {
    /// Joint draws of single queries, queries × draws: of the outcome where the study may lead, and of where
    /// it leads given that, `N(β₀ + E f₀(y), R ∫ f₀² dν)`. Products of normal numbers have heavier tails than
    /// the covariance tells. Where studies share covariates, draws are normal ones with mean and covariance.
    pub fn sample(&self, given: &Functionals, draws: usize, random: &mut Random) -> Result<Matrix> {
        if self.shares() {
            // By mean and covariance.
            let (means, parts, _) = self.told(given);
            let all = sum_parts(&parts, means.len());
            let scale = mean_diagonal(&all);
            let mut out = normal_draws(all, scale, draws, "covariance of the effect", random)?;
            means.iter().enumerate().for_each(|(i, m)| out.row_mut(i).iter_mut().for_each(|v| *v += m));
            return Ok(out);
        }
        let (weights, open) = self.weights(given);
        let q = weights.rows();
        let (constants, mut out, squares) = self.sample_outcome(&weights, draws, random)?;
        let scale = mean_diagonal(&self.reading.query_covariance(&given.columns, &given.prior_scale));
        let mut own = normal_draws(open, scale, draws, "where a study leads", random)?;
        for (j, square) in squares.iter().enumerate() {
            (0..q).for_each(|i| own[(i, j)] *= square.sqrt());
        }
        add_matrix(&mut out, &own);
        if let Some(part) = self.of_adjustment(given) {
            let scale = mean_diagonal(&part);
            add_matrix(&mut out, &normal_draws(part, scale, draws, "who is in a study", random)?);
        }
        for i in 0..q {
            let level = given.constants[i];
            out.row_mut(i).iter_mut().zip(&constants).for_each(|(v, c)| *v += level * c);
        }
        Ok(out)
    }

    /// Joint draws of β₀, of `E f₀(y)` (queries × draws) and of `∫ f₀² dν`.
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
        if self.outcome.sees_rows() {
            // Where the study may lead: its mediators first, then those of ν.
            let at = self.outcome.at(&self.mediators().stack(self.measure())?);
            let (constants, centred) = self.outcome.sample(&at, draws, random)?;
            let count = self.measure().rows();
            let square =
                |j: usize| (n..n + count).map(|i| centred[(i, j)].powi(2)).sum::<f64>() / count as f64;
            return Ok((constants, weights.matmul(&part(&centred, 0, n)), (0..draws).map(square).collect()));
        }
        // What rows have of the outcome, and the outcome at its points, by which it is known elsewhere but
        // for gaps of single rows.
        let handed = self.arrived().weighted(weights, &vec![0.0; q]);
        let (points, kernel) = (self.outcome.points(), self.outcome.kernel());
        let own = kernel.gram(points);
        let m = points.rows();
        let mut columns = Matrix::zeros(m, q + m);
        let mut prior = Matrix::zeros(q + m, q + m);
        for a in 0..m {
            columns.row_mut(a)[..q].copy_from_slice(handed.columns.row(a));
            columns.row_mut(a)[q..].copy_from_slice(own.row(a));
            prior.row_mut(q + a).copy_from_slice(columns.row(a));
        }
        for i in 0..q {
            prior.row_mut(i)[..q].copy_from_slice(handed.prior_scale.row(i));
            (0..m).for_each(|a| prior[(i, q + a)] = handed.columns[(a, i)]);
        }
        let given = Functionals { columns, prior_scale: prior, constants: vec![0.0; q + m] };
        let (constants, centred) = self.outcome.sample(&given, draws, random)?;
        let (of_points, gap) = mean_square_form((points, kernel), self.measure())?;
        let at_points = part(&centred, q, q + m);
        let turned = of_points.matmul(&at_points);
        let square = |j: usize| gap + (0..m).map(|a| at_points[(a, j)] * turned[(a, j)]).sum::<f64>();
        Ok((constants, part(&centred, 0, q), (0..draws).map(|j| square(j).max(0.0)).collect()))
    }
}
