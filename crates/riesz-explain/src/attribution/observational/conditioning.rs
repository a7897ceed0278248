//! Covariance of observational values that comes from the estimation of the conditional distributions from a
//! finite number of reference rows. The model f is taken as known here; its own uncertainty is a separate
//! part ([`covariance`](super::covariance)).
//!
//! For a coalition S and a row x let `t_b = f(x_S, b_-S)` be the outputs at the reference rows b with the
//! present columns of x (`t_b = f(b)` for a kernel without factors of players). The value of S is a ridge
//! regression of t on the present columns, `v(S) = c + Σ_b W_b (t_b - c)`, with the matrix `A = K_S + η D⁻¹`
//! of the reference rows (`D` has their weights) and `W = A⁻¹ k_S(x)`. Its error has two parts.
//!
//! - *Sampling.* Reference row b moves v(S) by `I_b(S) = W_b e_b`, where `e_b = [A⁻¹(t - c)]_b / [A⁻¹]_bb` is
//!   the residual of the regression without row b. A value `φ_j = Σ_S C_jS v(S)` moves by `I_jb = Σ_S C_jS
//!   I_b(S)`, and `Σ_b I_jb I_lb` estimates the covariance of the sampling errors of φ_j and φ_l (the
//!   jackknife, which holds for any noise).
//! - *Smoothing.* The ridge shrinks the regression. If the regression function is a Gaussian process with the
//!   kernel `s² k_S`, the variance of this error is `s² (k_S(x, x) - 2 Wᵀ k_S(x) + Wᵀ K_S W)`, with `s² =
//!   (t - c)ᵀ A⁻¹ (t - c) / n`. The errors of different coalitions are treated as independent.
//!
//! Source: our own. Coverage over repeated samples is measured in `experiments/conditioning.py`.

use rayon::prelude::*;

use super::factored::{FactoredRows, Memory};
use super::{ObservationalGame, ValueRule};
use crate::attribution::sampled_shapley::{Coalition, definition_weight};
use crate::embedding::EmbeddingSolver;
use crate::error::{Error, Result};
use crate::explanation::ConditioningPart;
use crate::linalg::{add_multiple, add_to, dot, raise_to_abs, small_dense};
use crate::table::Table;

/// Number of parts in which coalitions are summed.
const PARTS: usize = 16;

/// Largest count of numbers that the influences of a batch of rows take.
const NUMBERS: usize = 1 << 22;

/// Sums over coalitions.
struct CoalitionSums {
    /// The influence of each reference row: games × players × reference rows.
    influence: Vec<f64>,
    /// For each game and player, the coefficient of the mean over reference rows.
    mean_coefficients: Vec<f64>,
    /// Covariance from smoothing, games × players × players.
    smoothing: Vec<f64>,
    /// For each row, the largest unexplained share of a prior variance.
    unexplained_share: Vec<f64>,
}

impl ObservationalGame<'_> {
    /// Returns the part of the uncertainty of the values of `rows` that comes from the estimation of the
    /// conditional distributions, and the number of reference rows.
    /// Cost for each coalition O(reference³), and O(reference · (reference + n)) for each row and output.
    ///
    /// # Errors
    /// As [`check_covariances`](Self::check_covariances); [`Error::Parameter`] for conjugate gradients.
    pub(crate) fn conditioning_covariance(&self, rows: &Table) -> Result<(ConditioningPart, usize)> {
        self.check_covariances()?;
        let EmbeddingSolver::Factored(means) = &self.means.solver else {
            let allowed = "conjugate gradients factor no system, which the uncertainty of conditional \
                           distributions needs: leave cg_tol out";
            return Err(Error::parameter("conditional_uncertainty", true, allowed));
        };
        let data = rows.align_to(self.model.columns())?;
        let (reference, p) = (means.learnt.rows.rows(), self.groups.players().len());
        let outputs = self.model.predict_until(&means.learnt.rows, &self.stop)?;
        let m = outputs.cols();
        // The residual of a row from the mean without it is its deviation divided by 1 - its weight.
        let mean_influence = |o: usize| -> Vec<f64> {
            let pairs = outputs.column(o).into_iter().zip(&means.learnt.weights);
            pairs.map(|(f, w)| if *w < 1.0 { w / (1.0 - w) * (f - self.base[o]) } else { 0.0 }).collect()
        };
        let mean_influences: Vec<Vec<f64>> = (0..m).map(mean_influence).collect();
        let batch = (NUMBERS / (reference * p * m).max(1)).clamp(1, 64);
        let mut result = ConditioningPart { covariance: Vec::new(), unexplained_share: Vec::new() };
        for start in (0..data.rows()).step_by(batch) {
            let batch_rows: Vec<usize> = (start..data.rows().min(start + batch)).collect();
            let factored = FactoredRows::new(self, means, &data.select_rows(&batch_rows))?;
            let sums = factored.coalition_sums(p)?;
            for i in 0..batch_rows.len() {
                for (o, mean_influence) in mean_influences.iter().enumerate() {
                    result.covariance.extend(sums.covariance(i * m + o, p, mean_influence));
                    result.unexplained_share.push(sums.unexplained_share[i]);
                }
            }
        }
        Ok((result, reference))
    }
}

impl CoalitionSums {
    fn new((rows, outputs): (usize, usize), players: usize, reference: usize) -> Self {
        let games = rows * outputs;
        Self {
            unexplained_share: vec![0.0; rows],
            influence: vec![0.0; games * players * reference],
            mean_coefficients: vec![0.0; games * players],
            smoothing: vec![0.0; games * players * players],
        }
    }

    fn add(&mut self, part: &Self) {
        add_to(&mut self.influence, &part.influence);
        add_to(&mut self.mean_coefficients, &part.mean_coefficients);
        add_to(&mut self.smoothing, &part.smoothing);
        raise_to_abs(&mut self.unexplained_share, &part.unexplained_share);
    }

    /// Returns the covariance of the values of a game, players × players. `mean_influence` is the influence
    /// of the reference rows on the mean output.
    fn covariance(&self, game: usize, players: usize, mean_influence: &[f64]) -> Vec<f64> {
        let (n, p) = (mean_influence.len(), players);
        let influence = |j: usize| {
            let mut influence = self.influence[(game * p + j) * n..][..n].to_vec();
            add_multiple(&mut influence, self.mean_coefficients[game * p + j], mean_influence);
            influence
        };
        let influences: Vec<Vec<f64>> = (0..p).map(influence).collect();
        let smoothing = &self.smoothing[game * p * p..(game + 1) * p * p];
        let entry = |k: usize| smoothing[k] + dot(&influences[k / p], &influences[k % p]);
        (0..p * p).map(entry).collect()
    }
}

impl FactoredRows<'_, '_> {
    /// Sums the influences and the smoothing errors of all coalitions.
    fn coalition_sums(&self, players: usize) -> Result<CoalitionSums> {
        let (outputs, reference) = (self.game.model.outputs(), self.means.learnt.rows.rows());
        let sums = || CoalitionSums::new((self.count, outputs), players, reference);
        let masks: Vec<usize> = (1..(1_usize << players) - 1).collect();
        // A fixed number of parts, each summed in order, makes results independent of the number of threads.
        let parts: Vec<CoalitionSums> = masks
            .par_chunks(masks.len().div_ceil(PARTS).max(1))
            .map(|masks| {
                let (mut memory, mut sums) = (Memory::default(), sums());
                for &mask in masks {
                    self.add_coalition(&Coalition::from_mask(mask, players), &mut memory, &mut sums)?;
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut total = sums();
        parts.iter().for_each(|part| total.add(part));
        // The empty coalition has the mean output.
        let empty = Coalition::from_mask(0, players);
        for (k, coefficient) in total.mean_coefficients.iter_mut().enumerate() {
            *coefficient += definition_weight(&empty, k % players);
        }
        Ok(total)
    }

    fn add_coalition(
        &self,
        coalition: &Coalition,
        memory: &mut Memory,
        sums: &mut CoalitionSums,
    ) -> Result<()> {
        let (game, means, m) = (self.game, self.means, self.game.model.outputs());
        let (size, reference, p) = (means.size(), means.learnt.rows.rows(), coalition.present().len());
        self.factor(coalition, memory)?;
        let right = memory.weights.clone();
        means.solve(&memory.system, &mut memory.weights, &game.stop)?;
        let targets = self.targets(coalition.present(), memory);
        let regression = means.leave_one_out(&memory.system, &targets, &game.stop)?;
        let coefficients: Vec<f64> = (0..p).map(|j| definition_weight(coalition, j)).collect();
        for i in 0..self.count {
            let range = i * size..(i + 1) * size;
            let solved = &memory.weights[range.clone()];
            let weights = means.weights(&memory.system, 0..reference, solved);
            let missing = if game.centered { 1.0 - weights.iter().sum::<f64>() } else { 0.0 };
            let share = &mut sums.unexplained_share[i];
            let rows = (&right[range], solved);
            let (smoothing, unexplained) =
                means.unexplained_variance(coalition.present(), &self.conditions, i, rows);
            *share = share.max(unexplained);
            for o in 0..m {
                let (index, target) = (i * m + o, o * self.count + i);
                let residuals = &regression.residuals[target * reference..(target + 1) * reference];
                let influence: Vec<f64> = weights.iter().zip(residuals).map(|(w, e)| w * e).collect();
                let variance = regression.scales[target] * smoothing;
                for (j, c) in coefficients.iter().enumerate() {
                    let player = index * p + j;
                    let player_influence = &mut sums.influence[player * reference..(player + 1) * reference];
                    add_multiple(player_influence, *c, &influence);
                    sums.mean_coefficients[player] += c * missing;
                    add_multiple(
                        &mut sums.smoothing[player * p..(player + 1) * p],
                        c * variance,
                        &coefficients,
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns the outputs at the reference rows with the present columns of each row, minus the centre:
    /// reference rows × (outputs × rows).
    fn targets(&self, present: &[bool], memory: &mut Memory) -> Vec<f64> {
        let (model, means, count) = (self.game.model, self.means, self.count);
        let (reference, points, m) = (means.learnt.rows.rows(), model.support_points.rows(), model.outputs());
        let products = match &self.game.averaged {
            ValueRule::Outputs(outputs, _) => {
                let columns = outputs.chunks_exact(reference);
                return columns.flat_map(|column| column.repeat(count)).collect();
            }
            ValueRule::Factors(products) => products,
        };
        let centre = |o: usize| model.intercept[o] - self.game.centre(o);
        let mut targets: Vec<f64> =
            (0..m).flat_map(|o| std::iter::repeat_n(centre(o), count * reference)).collect();
        if points == 0 {
            return targets;
        }
        for (t, product) in products.iter().enumerate() {
            self.present_factors(t, present, memory);
            self.scale_present(product, memory);
            for rows in means.blocks() {
                self.absent_factors(t, product, present, rows.clone(), memory);
                let mut sums = vec![0.0; rows.len() * count * m];
                small_dense::add_transposed_product(&mut sums, &memory.absent, &memory.scaled, points);
                for (target, sums) in targets.chunks_exact_mut(reference).zip(sums.chunks_exact(rows.len())) {
                    add_to(&mut target[rows.clone()], sums);
                }
            }
        }
        targets
    }
}
