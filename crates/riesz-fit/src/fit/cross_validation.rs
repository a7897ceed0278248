//! Choice of settings: by leave-one-out in closed form for ridge regression, by cross-validation for all
//! other estimators.
//!
//! Candidates are scored on rows that were not in their training set. The whole table of scores is kept, and
//! ties go to the smoother model. The result doesn't depend on the number of threads.
//!
//! ```
//! use riesz::fit::cross_validation::{GridAxis, ClassScore, DEFAULT_MULTIPLIERS, cross_validate_classes, stratified_folds};
//! use riesz::fit::KernelLogisticRegression;
//! use riesz::{Kernel, Table};
//!
//! let rows: Vec<[f64; 1]> = (0..30).map(|i| [i as f64 / 10.0]).collect();
//! let x = Table::from_rows(&rows)?;
//! let labels: Vec<usize> = (0..30).map(|i| usize::from(i % 20 < 10)).collect();
//! let classes = ["no".to_string(), "yes".to_string()];
//! let kernel = Kernel::gaussian(&[0.5]);
//! // From smooth to rough: ties go to the first.
//! let axes = [GridAxis::new("ridge", &[10.0, 1.0, 0.1]), GridAxis::new("length scale", &[2.0, 1.0, 0.5])];
//! let folds = stratified_folds(&labels, &classes, 5, 0)?;
//! let grid = GridAxis::grid(&axes);
//! let scores = cross_validate_classes(
//!     &grid, &x, &labels, &classes, &folds, ClassScore::LogLoss,
//!     |point, x, labels, _rows| {
//!         let kernel = kernel.with_length_scales_times(point[1]).unwrap_or(kernel.clone());
//!         Ok(KernelLogisticRegression::new(kernel, point[0]).fit(x, labels, &classes)?.model)
//!     },
//! )?;
//! println!("best: {:?}", grid[scores.best]);
//! for warning in GridAxis::at_grid_edge(&axes, scores.best) {
//!     println!("{warning}");
//! }
//! # Ok::<(), riesz::Error>(())
//! ```

use rayon::prelude::*;

use crate::checks::positive;
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::fit::{KernelRidge, check_label_range, check_labels};
use crate::gp::likelihood::logistic::log_logistic;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, mean, select, squared_deviations};
use crate::random::{Random, SeedableRng, SliceRandom};
use crate::table::Table;

/// Default multipliers of the length scales: powers of 2 from 8 down to 1/8.
pub const DEFAULT_MULTIPLIERS: [f64; 7] = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125];

/// Default ridges: four per decade from 10³ down to 10⁻⁶. They suit kernels with `k(x, x)` near 1.
pub fn default_ridges() -> Vec<f64> {
    (-24..=12).rev().map(|k| 10_f64.powf(f64::from(k) / 4.0)).collect()
}

/// Relative difference below which two leave-one-out errors are equal, because of rounding in the
/// eigendecomposition.
const TIE_TOLERANCE: f64 = 1e-9;

/// One setting and its candidate values.
#[derive(Debug, Clone, PartialEq)]
pub struct GridAxis {
    /// The setting's name.
    pub name: String,
    /// Values; smoothest first, so that ties go to the smoother model.
    pub values: Vec<f64>,
}

impl GridAxis {
    /// An axis with this name and these values.
    pub fn new(name: impl Into<String>, values: &[f64]) -> Self {
        Self { name: name.into(), values: values.to_vec() }
    }

    /// All combinations, the last axis running fastest.
    pub fn grid(axes: &[Self]) -> Vec<Vec<f64>> {
        let count: usize = axes.iter().map(|a| a.values.len()).product();
        (0..count)
            .map(|combination| {
                Self::indices(axes, combination).iter().zip(axes).map(|(&p, a)| a.values[p]).collect()
            })
            .collect()
    }

    /// One sentence for each axis at whose end this `combination` of the [`grid`](Self::grid) lies: a better
    /// value may lie outside. Axes with one value give no sentence.
    pub fn at_grid_edge(axes: &[Self], combination: usize) -> Vec<String> {
        let mut sentences = Vec::new();
        for (axis, index) in axes.iter().zip(Self::indices(axes, combination)) {
            let value = axis.values[index];
            let lowest = axis.values.iter().all(|v| *v >= value);
            if lowest != axis.values.iter().all(|v| *v <= value) {
                let end = if lowest { "smallest" } else { "largest" };
                sentences.push(format!("the best {}, {value}, is the {end} value tried", axis.name));
            }
        }
        sentences
    }

    fn indices(axes: &[Self], mut combination: usize) -> Vec<usize> {
        let mut indices = vec![0; axes.len()];
        for (index, axis) in indices.iter_mut().zip(axes).rev() {
            *index = combination % axis.values.len();
            combination /= axis.values.len();
        }
        indices
    }
}

/// The result of [`select_ridge`].
#[derive(Debug, Clone)]
pub struct RidgeSelection {
    /// The estimator with the best ridge and length scales, not yet fitted.
    pub best: KernelRidge,
    /// The axes of the table: "length-scale multiplier", "ridge".
    pub axes: [GridAxis; 2],
    /// Mean squared leave-one-out errors, multipliers × ridges.
    pub errors: Matrix,
    /// Row and column of the best error in `errors`.
    pub chosen: (usize, usize),
    /// One sentence for each axis at whose end the best value lies.
    pub at_grid_edge: Vec<String>,
}

/// Chooses the ridge and the common multiplier of all length scales with the smallest mean squared
/// leave-one-out error (with the targets' means held fixed). Among errors that are equal within rounding the
/// largest multiplier wins, then the largest ridge. A kernel without length scales has the multiplier 1,
/// whatever `multipliers` contains.
///
/// Cost: one eigendecomposition, O(n³), per multiplier and O(n²) per ridge.
///
/// # Errors
/// Those of [`KernelRidge::loo_path`]; [`Error::Parameter`] for a ridge or multiplier that is not positive;
/// [`Error::TooFew`] for an empty list; [`Error::Overflow`] if no error is finite.
pub fn select_ridge(
    estimator: &KernelRidge,
    x: &Table,
    y: &Matrix,
    ridges: &[f64],
    multipliers: &[f64],
) -> Result<RidgeSelection> {
    select_ridge_until(estimator, x, y, (ridges, multipliers), None, RunControl::none())
}

/// [`select_ridge`] with progress and cancellation: one step per multiplier. With the index `first` of a
/// multiplier, only multipliers from there towards smaller errors are tried, until an error is smaller than
/// those of the next multipliers on both sides. The errors of others are infinite.
pub(super) fn select_ridge_until(
    estimator: &KernelRidge,
    x: &Table,
    y: &Matrix,
    (ridges, multipliers): (&[f64], &[f64]),
    first: Option<usize>,
    control: RunControl<'_>,
) -> Result<RidgeSelection> {
    for (name, values) in [("the list of ridges", ridges), ("the list of multipliers", multipliers)] {
        if values.is_empty() {
            return Err(Error::too_few(name, 1, "value is"));
        }
    }
    ridges.iter().try_for_each(|r| positive("ridge", *r))?;
    multipliers.iter().try_for_each(|m| positive("length-scale multiplier", *m))?;
    let multipliers =
        if estimator.kernel.with_length_scales_times(1.0).is_some() { multipliers } else { &[1.0] };
    let candidate_with = |multiplier: f64, ridge: f64| {
        let mut candidate = estimator.clone();
        candidate.ridge = ridge;
        if let Some(kernel) = estimator.kernel.with_length_scales_times(multiplier) {
            candidate.kernel = kernel;
        }
        candidate
    };
    let mut errors = Matrix::filled(multipliers.len(), ridges.len(), f64::INFINITY);
    let mut lowest_error_with = |m: usize| {
        control.check_cancelled()?;
        let path = candidate_with(multipliers[m], ridges[0]).loo_path(x, y, ridges)?;
        errors.row_mut(m).copy_from_slice(&path);
        control.step();
        Ok(path.into_iter().filter(|e| e.is_finite()).fold(f64::INFINITY, f64::min))
    };
    match first.filter(|_| multipliers.len() > 1) {
        None => (0..multipliers.len()).try_for_each(|m| lowest_error_with(m).map(|_| ()))?,
        Some(first) => search_neighbours(multipliers.len(), first, lowest_error_with)?,
    }
    let lowest_error = errors.data().iter().copied().filter(|e| e.is_finite()).fold(f64::INFINITY, f64::min);
    let smoothness = |cell: &usize| (multipliers[cell / ridges.len()], ridges[cell % ridges.len()]);
    let best = (0..errors.data().len())
        .filter(|&cell| errors.data()[cell] <= lowest_error * (1.0 + TIE_TOLERANCE))
        .max_by(|a, b| {
            let (a, b) = (smoothness(a), smoothness(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
        .filter(|_| lowest_error.is_finite())
        .ok_or_else(|| {
            Error::overflow("every leave-one-out error", "scale the target, or check the kernel's parameters")
        })?;
    let chosen = (best / ridges.len(), best % ridges.len());
    let axes = [GridAxis::new("length-scale multiplier", multipliers), GridAxis::new("ridge", ridges)];
    let edges = GridAxis::at_grid_edge(&axes, best);
    Ok(RidgeSelection {
        best: candidate_with(multipliers[chosen.0], ridges[chosen.1]),
        axes,
        errors,
        chosen,
        at_grid_edge: edges,
    })
}

/// Evaluates an error at indices from `first` on towards smaller errors, until the error is smaller than
/// those at both neighbours.
fn search_neighbours(
    count: usize,
    first: usize,
    mut error_at: impl FnMut(usize) -> Result<f64>,
) -> Result<()> {
    let mut evaluated = vec![None; count];
    let mut best = first.min(count - 1);
    evaluated[best] = Some(error_at(best)?);
    loop {
        let before = best;
        for neighbour in [before.wrapping_sub(1), before + 1] {
            if neighbour < count && evaluated[neighbour].is_none() {
                evaluated[neighbour] = Some(error_at(neighbour)?);
            }
            if neighbour < count && evaluated[neighbour] < evaluated[best] {
                best = neighbour;
            }
        }
        if best == before {
            return Ok(());
        }
    }
}

/// Assigns each of `n` rows to a fold (0 to k - 1) at random; fold sizes differ by at most one.
///
/// # Errors
/// [`Error::Parameter`] unless 2 ≤ k ≤ n.
pub fn folds(n: usize, k: usize, seed: u64) -> Result<Vec<usize>> {
    check_count(n, k)?;
    let mut fold = vec![0; n];
    shuffled((0..n).collect(), &mut Random::seed_from_u64(seed))
        .iter()
        .enumerate()
        .for_each(|(position, &r)| fold[r] = position % k);
    Ok(fold)
}

/// Assigns each row to a fold (0 to k - 1) at random within classes. Both the sizes of the folds and the
/// numbers of each class in them differ by at most one.
///
/// # Errors
/// [`Error::Parameter`] unless 2 ≤ k ≤ n; [`Error::Target`] if a label has no class, or if a class has fewer
/// than two rows, because a fold would then be predicted by a model that was trained without this class.
pub fn stratified_folds(labels: &[usize], classes: &[String], k: usize, seed: u64) -> Result<Vec<usize>> {
    check_count(labels.len(), k)?;
    check_label_range(labels, classes)?;
    let mut fold = vec![0; labels.len()];
    let (mut random, mut next) = (Random::seed_from_u64(seed), 0);
    for c in 0..classes.len() {
        let rows: Vec<usize> = (0..labels.len()).filter(|&r| labels[r] == c).collect();
        for r in shuffled(rows, &mut random) {
            fold[r] = next % k;
            next += 1;
        }
    }
    check_classes_seen(labels, classes, &fold)?;
    Ok(fold)
}

/// The score of a classifier's predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassScore {
    /// Mean of `-ln p(class)`; smaller is better. For models with probabilities.
    LogLoss,
    /// Share of rows whose class is predicted; larger is better.
    Accuracy,
}

/// Scores of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Mean score of each fold over its rows (and targets); empty if the candidate failed.
    pub folds: Vec<f64>,
    /// Mean over folds, scikit-learn's `mean_test_score`; NaN if the candidate failed.
    pub mean: f64,
    /// Standard deviation of the folds' scores (divisor k - 1) divided by √k. Folds share training rows, so
    /// it is a guide and not a confidence interval.
    pub std_error: f64,
    /// The error of the first fold on which the candidate could not be fitted or scored.
    pub failure: Option<Error>,
}

/// Scores of all candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossValidation {
    /// One score per candidate, in their order.
    pub scores: Vec<Score>,
    /// The index of the candidate with the best mean; the first of equal ones.
    pub best: usize,
    /// The index of the first candidate whose mean is within one standard error of the best mean. With
    /// candidates from smooth to rough it is the smoothest that is not clearly worse (Breiman et al. 1984).
    pub first_within_error: usize,
}

/// Scores regressors by mean squared error (smaller is better) on each fold after a fit to the other folds.
///
/// `fit` takes a candidate, the training rows of `x` and of `y`, and their indices (for weights). Candidates
/// and folds run in parallel. A candidate that fails is kept with its error, and can't be the best.
///
/// # Errors
/// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`]; [`Error::Parameter`] for fold numbers with
/// gaps; the first candidate's error if all fail.
pub fn cross_validate<C: Sync>(
    candidates: &[C],
    x: &Table,
    y: &Matrix,
    folds: &[usize],
    fit: impl Fn(&C, &Table, &Matrix, &[usize]) -> Result<KernelExpansion> + Sync,
) -> Result<CrossValidation> {
    cross_validate_until(candidates, x, y, folds, RunControl::none(), fit)
}

/// [`cross_validate`] with progress and cancellation: one step per candidate and fold.
pub(super) fn cross_validate_until<C: Sync>(
    candidates: &[C],
    x: &Table,
    y: &Matrix,
    folds: &[usize],
    control: RunControl<'_>,
    fit: impl Fn(&C, &Table, &Matrix, &[usize]) -> Result<KernelExpansion> + Sync,
) -> Result<CrossValidation> {
    crate::checks::check_rows(x, y.rows(), 2)?;
    crate::checks::check_targets(y)?;
    let n_chains = candidates.len();
    run((candidates, n_chains), x, folds, true, control, |candidate, split, (): &mut ()| {
        let model = fit(candidate, &split.train, &y.select_rows(&split.rows), &split.rows)?;
        sized("the fitted model", "outputs", y.cols(), model.outputs(), "one for each target")?;
        let predicted = model.predict_until(&split.test, control.stop)?;
        let truth = y.select_rows(&split.held_out);
        let squares = predicted.data().iter().zip(truth.data()).map(|(p, t)| (p - t).powi(2));
        Ok(squares.sum::<f64>() / truth.data().len() as f64)
    })
}

/// Scores classifiers on each fold after a fit to the other folds, as [`cross_validate`] does. Labels are
/// indices into `classes`.
///
/// # Errors
/// Those of [`cross_validate`]; [`Error::Target`] if all rows of a class lie in one fold. For the log loss of
/// a model without probabilities, the candidate's error is [`Error::Parameter`].
pub fn cross_validate_classes<C: Sync>(
    candidates: &[C],
    x: &Table,
    labels: &[usize],
    classes: &[String],
    folds: &[usize],
    score: ClassScore,
    fit: impl Fn(&C, &Table, &[usize], &[usize]) -> Result<KernelExpansion> + Sync,
) -> Result<CrossValidation> {
    let (target, chains) = ((labels, classes), (candidates, candidates.len()));
    let fit = |candidate: &C, x: &Table, labels: &[usize], rows: &[usize], (): &mut ()| {
        fit(candidate, x, labels, rows)
    };
    cross_validate_classes_until(chains, x, target, folds, score, RunControl::none(), fit)
}

/// [`cross_validate_classes`] with progress and cancellation: one step per candidate and fold. The candidates
/// form `chains` chains: candidate i + `chains` starts from the result in `M` of the fit of candidate i on
/// the same fold.
pub(super) fn cross_validate_classes_until<C: Sync, M: Default>(
    candidates: (&[C], usize),
    x: &Table,
    (labels, classes): (&[usize], &[String]),
    folds: &[usize],
    score: ClassScore,
    control: RunControl<'_>,
    fit: impl Fn(&C, &Table, &[usize], &[usize], &mut M) -> Result<KernelExpansion> + Sync,
) -> Result<CrossValidation> {
    check_labels(x, labels, classes)?;
    sized("the list of folds", "numbers", labels.len(), folds.len(), "one for each row of the table")?;
    check_classes_seen(labels, classes, folds)?;
    run(candidates, x, folds, score == ClassScore::LogLoss, control, |candidate, split, memory| {
        let model = fit(candidate, &split.train, &select(labels, &split.rows), &split.rows, memory)?;
        sized("the fitted model", "classes", classes.len(), model.classes.len(), "as in the labels")?;
        let outputs = model.predict_until(&split.test, control.stop)?;
        let truth = select(labels, &split.held_out);
        let mut total = 0.0;
        for (i, &label) in truth.iter().enumerate() {
            total += match score {
                ClassScore::LogLoss => log_loss(model.link, outputs.row(i), label)?,
                ClassScore::Accuracy => {
                    let class = model.predicted_class(outputs.row(i)).ok_or_else(|| no_score("accuracy"))?;
                    f64::from(u8::from(class == label))
                }
            };
        }
        Ok(total / truth.len() as f64)
    })
}

/// `-ln p(label)`, computed without p.
fn log_loss(link: Link, outputs: &[f64], label: usize) -> Result<f64> {
    match link {
        Link::Logistic => {
            let margin = if label == 1 { outputs[0] } else { -outputs[0] };
            Ok(-log_logistic(margin))
        }
        Link::Softmax => {
            let top = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Ok(top - outputs[label] + outputs.iter().map(|o| (o - top).exp()).sum::<f64>().ln())
        }
        Link::Identity
        | Link::Log
        | Link::Logit
        | Link::Vote
        | Link::LatentLogistic
        | Link::LatentOneVsRest
        | Link::LatentRaoKupper { .. } => Err(no_score("log loss")),
    }
}

/// The error for a score that can't be computed from a model's outputs.
fn no_score(name: &str) -> Error {
    let allowed = "the outputs of this model alone are not sufficient (log loss needs probabilities; for \
                   several classes of a Gaussian process they need its posterior): choose another score";
    Error::parameter("score", name, allowed)
}

/// Training rows and held-out rows of one fold.
struct FoldSplit {
    rows: Vec<usize>,
    train: Table,
    held_out: Vec<usize>,
    test: Table,
}

fn run<C: Sync, M: Default>(
    (candidates, chains): (&[C], usize),
    x: &Table,
    folds: &[usize],
    smaller_is_better: bool,
    control: RunControl<'_>,
    score: impl Fn(&C, &FoldSplit, &mut M) -> Result<f64> + Sync,
) -> Result<CrossValidation> {
    if candidates.is_empty() {
        return Err(Error::too_few("the list of candidates", 1, "candidate is"));
    }
    sized("the list of folds", "numbers", x.rows(), folds.len(), "one for each row of the table")?;
    let k = folds.iter().max().map_or(0, |m| m.saturating_add(1));
    check_count(x.rows(), k)?;
    let splits: Vec<FoldSplit> = (0..k)
        .map(|fold| {
            let (held_out, rows): (Vec<usize>, Vec<usize>) = (0..x.rows()).partition(|&r| folds[r] == fold);
            FoldSplit { train: x.select_rows(&rows), test: x.select_rows(&held_out), rows, held_out }
        })
        .collect();
    if let Some(empty) = splits.iter().position(|s| s.held_out.is_empty()) {
        let allowed = "number the folds from 0 without gaps";
        return Err(Error::parameter("folds", format!("no row in fold {empty}"), allowed));
    }
    let chain = |job: usize| -> Vec<Result<f64>> {
        let mut memory = M::default();
        let chain_candidates = candidates.iter().skip(job / k).step_by(chains);
        chain_candidates
            .map(|candidate| {
                control.check_cancelled()?;
                let value = score(candidate, &splits[job % k], &mut memory)?;
                control.step();
                if value.is_finite() {
                    return Ok(value);
                }
                Err(Error::overflow("a score", "scale the target"))
            })
            .collect()
    };
    let scores_by_chain: Vec<Vec<Result<f64>>> =
        (0..chains * k).into_par_iter().with_max_len(1).map(chain).collect();
    control.check_cancelled()?;
    let summary = |c: usize| match (0..k)
        .map(|fold| scores_by_chain[c % chains * k + fold][c / chains].clone())
        .collect()
    {
        Err(error) => Score { folds: Vec::new(), mean: f64::NAN, std_error: f64::NAN, failure: Some(error) },
        Ok(folds) => {
            let folds: Vec<f64> = folds;
            let mean = mean(&folds);
            let variance = squared_deviations(&folds, mean) / (k - 1) as f64;
            Score { folds, mean, std_error: (variance / k as f64).sqrt(), failure: None }
        }
    };
    let scores: Vec<Score> = (0..candidates.len()).map(summary).collect();
    let loss = |s: &Score| if smaller_is_better { s.mean } else { -s.mean };
    let fitted = || scores.iter().enumerate().filter(|(_, s)| s.failure.is_none());
    let Some((best, winner)) = fitted().min_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b))) else {
        let error = scores.into_iter().find_map(|s| s.failure);
        return Err(error.unwrap_or(Error::too_few("the list of candidates", 1, "candidate is")));
    };
    let limit = loss(winner) + winner.std_error;
    let first_within_error = fitted().find(|(_, s)| loss(s) <= limit).map_or(best, |(index, _)| index);
    Ok(CrossValidation { best, first_within_error, scores })
}

fn check_count(n: usize, k: usize) -> Result<()> {
    if (2..=n).contains(&k) {
        return Ok(());
    }
    Err(Error::parameter("number of folds", k, format!("it must be between 2 and the number of rows, {n}")))
}

/// Checks that each class has rows in at least two folds, so that every training set contains it.
fn check_classes_seen(labels: &[usize], classes: &[String], folds: &[usize]) -> Result<()> {
    for (c, class) in classes.iter().enumerate() {
        let mut of_class = labels.iter().zip(folds).filter(|(l, _)| **l == c).map(|(_, f)| f);
        let Some(first) = of_class.next() else {
            return Err(Error::target(
                "labels",
                format!("has no rows for the class '{class}': leave it out of the classes"),
            ));
        };
        if of_class.all(|f| f == first) {
            return Err(Error::target(
                "labels",
                format!(
                    "has all rows of the class '{class}' in fold {}, so the model of this fold is \
                 trained without it: spread the class over the folds, merge it with another or leave it out",
                    first + 1
                ),
            ));
        }
    }
    Ok(())
}

fn shuffled(mut rows: Vec<usize>, random: &mut Random) -> Vec<usize> {
    rows.shuffle(random);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    #[test]
    fn neighbours_are_tried_until_the_error_is_bracketed() {
        let errors = [5.0, 4.0, 2.0, 1.0, 3.0, f64::INFINITY, 6.0];
        for (first, expected) in
            [(3, vec![3, 2, 4]), (0, vec![0, 1, 2, 3, 4]), (6, vec![6, 5]), (9, vec![6, 5])]
        {
            let mut tried = Vec::new();
            search_neighbours(7, first, |m| {
                tried.push(m);
                Ok(errors[m])
            })
            .unwrap();
            assert_eq!(tried, expected);
        }
        let mut count = 0;
        search_neighbours(1, 0, |_| {
            count += 1;
            Ok(1.0)
        })
        .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn log_loss_is_that_of_the_probabilities() {
        let points = Table::from_rows(&[[0.0]]).unwrap();
        for (link, outputs) in [(Link::Logistic, vec![-1.3]), (Link::Softmax, vec![0.3, -2.0, 1.1])] {
            let m = outputs.len();
            let coef = Matrix::from_row_major(1, m, vec![0.0; m]);
            let mut model =
                KernelExpansion::new(Kernel::gaussian(&[1.0]), points.clone(), coef, vec![0.0; m]).unwrap();
            model.link = link;
            for (label, p) in model.probabilities(&outputs).unwrap().iter().enumerate() {
                let loss = log_loss(link, &outputs, label).unwrap();
                assert!((loss + p.ln()).abs() < 1e-12 * loss.max(1.0), "{link:?} {label}");
            }
        }
        // A margin for which the probability itself would underflow to 0.
        assert_eq!(log_loss(Link::Logistic, &[-800.0], 1).unwrap(), 800.0);
    }
}
