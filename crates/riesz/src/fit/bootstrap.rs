//! How far a model varies from sample to sample, where it has no posterior: refits to rows drawn anew from its own (Efron 1979).
//!
//! A refit has the same support points and other coefficients, so that everything linear in f, its Shapley values too, is found for all refits by one functional a
//! row: a [`Covariance`](crate::Covariance) like that of a posterior. It says how far values would vary if rows were drawn anew from where these came from, at
//! this kernel and ridge; neither how wrong the model is on average (ridges shrink), nor what choosing kernel and ridge adds.

use rayon::prelude::*;

use super::KernelRidge;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix};
use crate::posterior::{Covariance, Known};
use crate::random::{Random, RngExt, SeedableRng, hash};
use crate::setting::{Range, Setting};
use crate::stop::Watch;
use crate::table::Table;

pub(super) const BOOTSTRAP: Setting = Setting {
    name: "bootstrap",
    placeholder: "N",
    range: Range::Count(2),
    bare: None,
    help: "Also fit N times to rows drawn anew from the table, with the seed, to say how far values and predictions vary from sample to sample ('explain \
           --covariance'; keep it in the file with --posterior)",
};

/// How often each of n rows is drawn, for one refit.
fn counts(n: usize, refit: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::seed_from_u64(hash([seed, refit as u64]));
    let mut counts = vec![0.0; n];
    (0..n).for_each(|_| counts[random.random_range(0..n as u32) as usize] += 1.0);
    counts
}

impl KernelRidge {
    /// How far this regression varies, from `draws` refits to as many rows as there are, drawn with replacement: rows that are drawn twice weigh twice. For an
    /// [`Explainer`](crate::Explainer::with_posterior) or a [`Posterior`](crate::Posterior) of the model that [`fit`](Self::fit) gives. A standard deviation
    /// from N draws has itself a relative error of about `1 / √(2N)`: 5 % of 200. Cost: the gram matrix once, and a quarter of a fit a draw; memory n numbers
    /// a draw and target.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Parameter`] for less than two draws, and with a further penalty, which is one on all rows.
    pub fn bootstrap(&self, x: &Table, y: &Matrix, draws: usize, seed: u64) -> Result<Covariance> {
        self.bootstrap_until(x, y, draws, seed, Watch::nobody())
    }

    /// As [`bootstrap`](Self::bootstrap), a step a draw.
    pub(super) fn bootstrap_until(
        &self,
        x: &Table,
        y: &Matrix,
        draws: usize,
        seed: u64,
        watch: Watch<'_>,
    ) -> Result<Covariance> {
        self.check(x, y)?;
        if draws < 2 {
            return Err(Error::parameter("bootstrap", draws, "at least 2 refits"));
        }
        if self.penalty.is_some() {
            let allowed = "protected features are protected at all rows, of which a refit lacks some: leave one of the two out";
            return Err(Error::parameter("bootstrap", draws, allowed));
        }
        let gram = self.kernel.gram(x);
        let refit = |b: usize| {
            watch.check()?;
            let found = self.refit(&gram, y, &counts(x.rows(), b, seed));
            watch.done();
            found
        };
        let refits = (0..draws).into_par_iter().map(refit).collect::<Result<Vec<_>>>()?;
        let known = |o: usize| {
            let (mut coef, mut intercept) = (Matrix::zeros(x.rows(), draws), vec![0.0; draws]);
            for (b, (own, shift)) in refits.iter().enumerate() {
                (0..x.rows()).for_each(|i| coef[(i, b)] = own[(i, o)]);
                intercept[b] = shift[o];
            }
            (0..x.rows()).for_each(|i| centre(coef.row_mut(i)));
            centre(&mut intercept);
            Known::Refits { coef, intercept, seed }
        };
        Ok(Covariance { prior: 0.0, known: (0..y.cols()).map(known).collect(), scale: vec![1.0; y.cols()] })
    }

    /// Coefficients and intercepts where rows are there so many times.
    fn refit(&self, gram: &Matrix, y: &Matrix, counts: &[f64]) -> Result<(Matrix, Vec<f64>)> {
        let there: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 0.0).collect();
        let weights: Vec<f64> = there.iter().map(|&i| counts[i] * self.weight(i)).collect();
        let rows = there.iter().flat_map(|&i| y.row(i)).copied().collect();
        let own = Self { sample_weight: Some(weights), ..self.clone() };
        let (targets, intercept) = own.centred(&Matrix::from_row_major(there.len(), y.cols(), rows));
        let of = |&i: &usize| there.iter().map(move |&j| (i, j)).collect::<Vec<_>>();
        let entries = there.iter().flat_map(of).map(|at| gram[at]).collect();
        let mut part = Matrix::from_row_major(there.len(), there.len(), entries);
        part.add_diagonal(|i| self.ridge / own.weight(i));
        let found = Cholesky::new(part, "gram matrix plus ridge")?.solve(targets);
        let mut coef = Matrix::zeros(counts.len(), y.cols());
        there.iter().enumerate().for_each(|(at, &i)| coef.row_mut(i).copy_from_slice(found.row(at)));
        Ok((coef, intercept))
    }
}

/// Numbers less their mean, over the root of one less than their number.
fn centre(numbers: &mut [f64]) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    numbers.iter_mut().for_each(|v| *v = (*v - mean) / (count - 1.0).sqrt());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Explainer, Game, Kernel, Posterior, Question};

    /// Against refits of the estimator itself to repeated rows, and explanations of each.
    #[test]
    fn covariances_are_those_of_refits() {
        let rows: Vec<[f64; 3]> =
            (0..25).map(|i| [1.0, 0.7, 0.3].map(|s| (f64::from(i) * s + s).sin() * 2.0)).collect();
        let x = Table::from_rows(&rows).unwrap();
        let y = rows.iter().flat_map(|r| [r[0] * r[1] + 3.0 * r[2] + 5.0, r[0] - r[1]]).collect();
        let y = Matrix::from_row_major(25, 2, y);
        let estimator = KernelRidge::new(Kernel::gaussian(&[1.0, 0.7, 2.0]), 0.3);
        let (draws, seed) = (7, 11);
        let covariance = estimator.bootstrap(&x, &y, draws, seed).unwrap();
        let model = estimator.fit(&x, &y).unwrap().model;
        let (background, few) = (x.select_rows(&[1, 2, 3]), x.select_rows(&[4, 9]));
        for game in [Game::Interventional { background: background.into() }, Game::Functional] {
            let question = Question::from(game).with_covariance();
            let explainer =
                Explainer::new(&model, question.clone()).unwrap().with_posterior(Some(&covariance)).unwrap();
            let found = explainer.explain(&few).unwrap();
            let (mut values, mut predicted) = (Vec::new(), Vec::new());
            for b in 0..draws {
                let times = counts(25, b, seed);
                let drawn: Vec<usize> = (0..25).flat_map(|i| vec![i; times[i] as usize]).collect();
                let targets = drawn.iter().flat_map(|&i| y.row(i)).copied().collect();
                let fit =
                    estimator.fit(&x.select_rows(&drawn), &Matrix::from_row_major(25, 2, targets)).unwrap();
                let plain = Question { covariance: false, ..question.clone() };
                let explained = Explainer::new(&fit.model, plain).unwrap().explain(&few).unwrap();
                values.push(explained.values);
                predicted.push(explained.predictions);
            }
            let joint = |all: &[Vec<f64>], a: usize, b: usize| {
                let mean = |at: usize| all.iter().map(|v| v[at]).sum::<f64>() / draws as f64;
                let product = |v: &Vec<f64>| (v[a] - mean(a)) * (v[b] - mean(b));
                all.iter().map(product).sum::<f64>() / (draws as f64 - 1.0)
            };
            for (i, o) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (own, from) = (found.covariance(i, o).unwrap(), (i * 2 + o) * 3);
                for (j, l) in (0..9).map(|at| (at / 3, at % 3)) {
                    let truth = joint(&values, from + j, from + l);
                    assert!(
                        (own[j * 3 + l] - truth).abs() < 1e-9,
                        "{i} {o} {j} {l}: {} {truth}",
                        own[j * 3 + l]
                    );
                }
            }
            // Predictions vary with their intercepts.
            let sd = Posterior::new(&model, &covariance).unwrap().sd(&few).unwrap();
            for at in 0..4 {
                assert!((sd.data()[at].powi(2) - joint(&predicted, at, at)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let x = Table::from_rows(&[[1.0], [2.0], [4.0], [7.0], [1.5]]).unwrap();
        let y = Matrix::column_vector(vec![1.0, 0.0, 2.0, 1.0, 3.0]);
        let estimator = KernelRidge::new(Kernel::gaussian(&[1.0]), 0.1);
        let find = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            format!("{:?}", pool.install(|| estimator.bootstrap(&x, &y, 20, 3).unwrap()))
        };
        assert_eq!(find(1), find(4));
        assert!(estimator.bootstrap(&x, &y, 1, 3).unwrap_err().to_string().contains("at least 2"));
    }
}
