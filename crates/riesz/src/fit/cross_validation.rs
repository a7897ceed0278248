//! Choice of settings: by leave-one-out in closed form for ridge regression, by cross-validation for
//! everything else.
//!
//! Candidates are scored on rows they were not fitted on, the whole table of scores is kept, and ties go to
//! the smoother model. Nothing depends on the number of threads.
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
//!         let kernel = kernel.with_lengthscales_times(point[1]).unwrap_or(kernel.clone());
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

use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::fit::{KernelRidge, check_labels, positive};
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::Matrix;
use crate::random::{Random, SeedableRng, SliceRandom};
use crate::table::Table;

/// Length-scale multipliers tried by default: powers of 2 from 8 down to 1/8.
pub const DEFAULT_MULTIPLIERS: [f64; 7] = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125];

/// Ridges tried by default: four a decade from 10³ down to 10⁻⁶. They suit kernels of `k(x, x)` near 1.
pub fn default_ridges() -> Vec<f64> {
    (-24..=12).rev().map(|k| 10_f64.powf(f64::from(k) / 4.0)).collect()
}

/// Two leave-one-out errors this close, relatively, are the same: rounding of the eigendecomposition.
const TIE_TOLERANCE: f64 = 1e-9;

/// One setting and the values tried for it.
#[derive(Debug, Clone, PartialEq)]
pub struct GridAxis {
    /// The setting's name.
    pub name: String,
    /// Values, smoothest first if ties are to go to the smoother model.
    pub values: Vec<f64>,
}

impl GridAxis {
    /// An axis.
    pub fn new(name: impl Into<String>, values: &[f64]) -> Self {
        Self { name: name.into(), values: values.to_vec() }
    }

    /// All combinations, the last axis running fastest.
    pub fn grid(axes: &[Self]) -> Vec<Vec<f64>> {
        let count: usize = axes.iter().map(|a| a.values.len()).product();
        (0..count)
            .map(|combination| {
                Self::places(axes, combination).iter().zip(axes).map(|(&p, a)| a.values[p]).collect()
            })
            .collect()
    }

    /// One sentence for each axis on whose end this `combination` of the [`grid`](Self::grid) lies: a better
    /// value may lie outside. Axes of one value have no end.
    pub fn at_grid_edge(axes: &[Self], combination: usize) -> Vec<String> {
        let mut sentences = Vec::new();
        for (axis, place) in axes.iter().zip(Self::places(axes, combination)) {
            let value = axis.values[place];
            let lowest = axis.values.iter().all(|v| *v >= value);
            if lowest != axis.values.iter().all(|v| *v <= value) {
                let end = if lowest { "smallest" } else { "largest" };
                sentences.push(format!("the best {}, {value}, is the {end} of those tried", axis.name));
            }
        }
        sentences
    }

    fn places(axes: &[Self], mut combination: usize) -> Vec<usize> {
        let mut places = vec![0; axes.len()];
        for (place, axis) in places.iter_mut().zip(axes).rev() {
            *place = combination % axis.values.len();
            combination /= axis.values.len();
        }
        places
    }
}

/// The result of [`select_ridge`].
#[derive(Debug, Clone)]
pub struct RidgeSelection {
    /// The estimator with the best ridge and length scales, not fitted.
    pub best: KernelRidge,
    /// The axes of the table: "length-scale multiplier", "ridge".
    pub axes: [GridAxis; 2],
    /// Mean squared leave-one-out errors, multipliers × ridges.
    pub errors: Matrix,
    /// Row and column of the best in `errors`.
    pub chosen: (usize, usize),
    /// One sentence for each axis on whose end the best lies.
    pub at_grid_edge: Vec<String>,
}

/// The ridge and the common multiplier of all length scales with the least mean squared leave-one-out error
/// (targets' means held fixed). Of errors within rounding the largest multiplier wins, then the largest
/// ridge. A kernel without length scales is tried as it is, whatever `multipliers` says.
///
/// Cost: one eigendecomposition, O(n³), a multiplier and O(n²) a ridge.
///
/// # Errors
/// As [`KernelRidge::loo_path`]; [`Error::Parameter`] for a ridge or multiplier that is not positive;
/// [`Error::TooFew`] for an empty list; [`Error::Overflow`] if no error is finite.
pub fn select_ridge(
    estimator: &KernelRidge,
    x: &Table,
    y: &Matrix,
    ridges: &[f64],
    multipliers: &[f64],
) -> Result<RidgeSelection> {
    select_ridge_until(estimator, x, y, ridges, multipliers, RunControl::none())
}

/// [`select_ridge`] with progress and cancellation: one step per multiplier.
pub(super) fn select_ridge_until(
    estimator: &KernelRidge,
    x: &Table,
    y: &Matrix,
    ridges: &[f64],
    multipliers: &[f64],
    control: RunControl<'_>,
) -> Result<RidgeSelection> {
    for (name, values) in [("the list of ridges", ridges), ("the list of multipliers", multipliers)] {
        if values.is_empty() {
            return Err(Error::TooFew { subject: name.into(), needed: 1, unit: "value is" });
        }
    }
    ridges.iter().try_for_each(|r| positive("ridge", *r))?;
    multipliers.iter().try_for_each(|m| positive("length-scale multiplier", *m))?;
    let multipliers =
        if estimator.kernel.with_lengthscales_times(1.0).is_some() { multipliers } else { &[1.0] };
    let with = |multiplier: f64, ridge: f64| {
        let mut candidate = estimator.clone();
        candidate.ridge = ridge;
        if let Some(kernel) = estimator.kernel.with_lengthscales_times(multiplier) {
            candidate.kernel = kernel;
        }
        candidate
    };
    let mut errors = Matrix::zeros(multipliers.len(), ridges.len());
    for (m, &multiplier) in multipliers.iter().enumerate() {
        control.check_cancelled()?;
        errors.row_mut(m).copy_from_slice(&with(multiplier, ridges[0]).loo_path(x, y, ridges)?);
        control.step();
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
        .ok_or_else(|| Error::Overflow {
            subject: "every leave-one-out error".into(),
            remedy: "scale the target, or check the kernel's parameters",
        })?;
    let chosen = (best / ridges.len(), best % ridges.len());
    let axes = [GridAxis::new("length-scale multiplier", multipliers), GridAxis::new("ridge", ridges)];
    let edges = GridAxis::at_grid_edge(&axes, best);
    Ok(RidgeSelection {
        best: with(multipliers[chosen.0], ridges[chosen.1]),
        axes,
        errors,
        chosen,
        at_grid_edge: edges,
    })
}

/// The fold (0 to k - 1) of each of `n` rows, at random; sizes differ by one at most.
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

/// The fold (0 to k - 1) of each row, at random within classes: both the folds' sizes and each class's share
/// of them differ by one at most.
///
/// # Errors
/// [`Error::Parameter`] unless 2 ≤ k ≤ n; [`Error::Target`] if a class has fewer than two rows, so that some
/// fold would be predicted by a model that has not seen it, or a label has no class.
pub fn stratified_folds(labels: &[usize], classes: &[String], k: usize, seed: u64) -> Result<Vec<usize>> {
    check_count(labels.len(), k)?;
    if let Some(r) = labels.iter().position(|&l| l >= classes.len()) {
        let problem = format!(
            "is class number {} (from 0) in row {}, but there are {} classes",
            labels[r],
            r + 1,
            classes.len()
        );
        return Err(bad_labels(problem));
    }
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

/// One candidate's scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// One mean a fold, over its rows (and targets); empty if the candidate failed.
    pub folds: Vec<f64>,
    /// Mean over folds, scikit-learn's `mean_test_score`; NaN if the candidate failed.
    pub mean: f64,
    /// Standard deviation of the folds' scores (divisor k - 1) over √k. Folds share training rows, so it is a
    /// guide and no confidence interval.
    pub std_error: f64,
    /// Why the candidate could not be fitted or scored on some fold (the first).
    pub failure: Option<Error>,
}

/// Scores of all candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossValidation {
    /// One a candidate, in their order.
    pub scores: Vec<Score>,
    /// The candidate with the best mean; the first of equals.
    pub best: usize,
    /// The first candidate whose mean is within the best's standard error of the best's mean: with candidates
    /// from smooth to rough, the smoothest that is not evidently worse (Breiman et al. 1984).
    pub first_within_error: usize,
}

/// Scores regressors by mean squared error (smaller is better) on each fold after fitting on the others.
///
/// `fit` gets a candidate, the training rows of `x` and of `y`, and their indices (for weights). Candidates
/// and folds run in parallel; a candidate that fails is kept with its failure and cannot be best.
///
/// # Errors
/// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`], [`Error::Parameter`] for fold numbers that skip
/// some; the first candidate's failure if all fail.
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
    super::check(x, y.rows(), 2)?;
    if let Some(position) = y.data().iter().position(|v| !v.is_finite()) {
        return Err(Error::NotFinite {
            row: position / y.cols(),
            column: "target".into(),
            value: y.data()[position],
        });
    }
    let take = |rows: &[usize]| {
        Matrix::from_row_major(rows.len(), y.cols(), rows.iter().flat_map(|&r| y.row(r).to_vec()).collect())
    };
    let n_chains = candidates.len();
    run((candidates, n_chains), x, folds, true, control, |candidate, split, (): &mut ()| {
        let model = fit(candidate, &split.train, &take(&split.rows), &split.rows)?;
        sized("the fitted model", "outputs", y.cols(), model.outputs(), "one a target")?;
        let (predicted, truth) = (model.predict_until(&split.test, control.stop)?, take(&split.held_out));
        let squares = predicted.data().iter().zip(truth.data()).map(|(p, t)| (p - t).powi(2));
        Ok(squares.sum::<f64>() / truth.data().len() as f64)
    })
}

/// Scores classifiers on each fold after fitting on the others. As [`cross_validate`], with labels as indices
/// into `classes`.
///
/// # Errors
/// As [`cross_validate`]; [`Error::Target`] if all rows of a class lie in one fold; [`Error::Parameter`] as a
/// candidate's failure for the log loss of a model without probabilities.
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
/// form `chains` chains: every `chains`-th candidate starts from what the fit of its predecessor on the same
/// fold left in `M`.
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
    sized("the list of folds", "numbers", labels.len(), folds.len(), "one a row of the table")?;
    check_classes_seen(labels, classes, folds)?;
    let take = |rows: &[usize]| rows.iter().map(|&r| labels[r]).collect::<Vec<_>>();
    run(candidates, x, folds, score == ClassScore::LogLoss, control, |candidate, split, memory| {
        let model = fit(candidate, &split.train, &take(&split.rows), &split.rows, memory)?;
        sized("the fitted model", "classes", classes.len(), model.classes.len(), "as in the labels")?;
        let outputs = model.predict_until(&split.test, control.stop)?;
        let truth = take(&split.held_out);
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

/// `-ln p(label)`, without forming p.
fn log_loss(link: Link, outputs: &[f64], label: usize) -> Result<f64> {
    match link {
        Link::Logistic => {
            let margin = if label == 1 { outputs[0] } else { -outputs[0] };
            Ok((-margin).max(0.0) + (-margin.abs()).exp().ln_1p())
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

/// Refuses a score that the outputs of a model do not give.
fn no_score(name: &str) -> Error {
    let allowed = "the outputs of this model alone do not give it (log loss takes probabilities; several \
                   classes of a                    Gaussian process take its posterior): choose another \
                   score";
    Error::parameter("score", name, allowed)
}

/// Rows to fit on and rows to predict.
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
        return Err(Error::TooFew {
            subject: "the list of candidates".into(),
            needed: 1,
            unit: "candidate is",
        });
    }
    sized("the list of folds", "numbers", x.rows(), folds.len(), "one a row of the table")?;
    let k = folds.iter().max().map_or(0, |m| m.saturating_add(1));
    check_count(x.rows(), k)?;
    let splits: Vec<FoldSplit> = (0..k)
        .map(|fold| {
            let (held_out, rows): (Vec<usize>, Vec<usize>) = (0..x.rows()).partition(|&r| folds[r] == fold);
            FoldSplit { train: x.select_rows(&rows), test: x.select_rows(&held_out), rows, held_out }
        })
        .collect();
    if let Some(empty) = splits.iter().position(|s| s.held_out.is_empty()) {
        let allowed = "folds are numbered from 0 without gaps";
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
                Err(Error::Overflow { subject: "a score".into(), remedy: "scale the target" })
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
            let mean = folds.iter().sum::<f64>() / k as f64;
            let variance = folds.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / (k - 1) as f64;
            Score { folds, mean, std_error: (variance / k as f64).sqrt(), failure: None }
        }
    };
    let scores: Vec<Score> = (0..candidates.len()).map(summary).collect();
    let loss = |s: &Score| if smaller_is_better { s.mean } else { -s.mean };
    let fitted = || scores.iter().enumerate().filter(|(_, s)| s.failure.is_none());
    let Some((best, winner)) = fitted().min_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b))) else {
        let error = scores.into_iter().find_map(|s| s.failure);
        return Err(error.unwrap_or(Error::TooFew {
            subject: "the list of candidates".into(),
            needed: 1,
            unit: "candidate is",
        }));
    };
    let limit = loss(winner) + winner.std_error;
    let first_within_error = fitted().find(|(_, s)| loss(s) <= limit).map_or(best, |(index, _)| index);
    Ok(CrossValidation { best, first_within_error, scores })
}

fn check_count(n: usize, k: usize) -> Result<()> {
    if (2..=n).contains(&k) {
        return Ok(());
    }
    Err(Error::parameter("number of folds", k, format!("it is from 2 to the number of rows, {n}")))
}

fn bad_labels(problem: String) -> Error {
    Error::Target { name: "labels".into(), problem }
}

/// Checks that each class has rows in two folds at least, so that every training part has seen it.
fn check_classes_seen(labels: &[usize], classes: &[String], folds: &[usize]) -> Result<()> {
    for (c, class) in classes.iter().enumerate() {
        let mut of_class = labels.iter().zip(folds).filter(|(l, _)| **l == c).map(|(_, f)| f);
        let Some(first) = of_class.next() else {
            return Err(bad_labels(format!(
                "has no rows for the class '{class}': leave it out of the classes"
            )));
        };
        if of_class.all(|f| f == first) {
            return Err(bad_labels(format!(
                "has all rows of the class '{class}' in fold {}, so that no model tested there has seen it: \
                 spread the class over the folds, merge it with another or leave it out",
                first + 1
            )));
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
        // Far out, where the probability itself would be 0.
        assert_eq!(log_loss(Link::Logistic, &[-800.0], 1).unwrap(), 800.0);
    }
}
