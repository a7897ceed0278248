//! Support vector classification (Cortes and Vapnik 1995), one against one for several classes.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::solver::{Problem, Solution, SolverSettings, solve};
use super::{CACHE_BYTES, TOLERANCE, UNCONVERGED_REMEDY, check_tolerance, support_vectors, weighted_bounds};
use crate::checks::positive;
use crate::error::{Error, Result};
use crate::fit::bootstrap::{BOOTSTRAP, BootstrapRefit, rows_by_class, run_refits};
use crate::fit::class_weights::{ClassWeight, row_weights};
use crate::fit::cross_validation::ClassScore;
use crate::fit::grid_search::{C_GRID, GridSearch};
use crate::fit::task::{
    C, CLASS_WEIGHT, FIXED_KERNEL, FOLDS, FitTask, FittedModel, MAX_ITER, ModelKind, OptionalInput,
    OutputType, SEARCH_ROWS, TOL, no_job, with_card_entries,
};
use crate::fit::{DualFit, Penalty, check_dense, positive_places, sample_weights};
use crate::kernel::Kernel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, products, select};
use crate::model_card::CardEntry;
use crate::table::Table;

/// Support vector classification as a kind of model. Its cost of errors is chosen by the accuracy on folds.
pub(in crate::fit) static SVC: ModelKind = ModelKind {
    name: "svc",
    help: "Support vector classification, one against one for several classes",
    predicts: OutputType::Class,
    settings: &[&C, &CLASS_WEIGHT, &FOLDS, &SEARCH_ROWS, &FIXED_KERNEL, &TOL, &MAX_ITER, &BOOTSTRAP],
    takes: &[OptionalInput::SampleWeight, OptionalInput::Penalty],
    posterior: false,
    fit: fit_task,
    job: no_job,
};

fn fit_task(task: &FitTask<'_>) -> Result<FittedModel> {
    task.refuse_refits_with_penalty()?;
    let (labels, classes) = task.labels()?;
    let class_weight = task.class_weight(classes)?;
    let estimator_with = |kernel: Kernel, c: f64, sample_weight: Option<Vec<f64>>| SupportVectorClassifier {
        class_weight: class_weight.clone(),
        sample_weight,
        tolerance: task.settings.number(TOL.name).unwrap_or(TOLERANCE),
        max_iterations: task.max_iter(),
        // Without a limit by the user, a fit that doesn't converge is an error.
        keep_unfinished: task.max_iter().is_some(),
        ..SupportVectorClassifier::new(kernel, c)
    };
    let search = GridSearch { task, setting: "c", values: &C_GRID, default: Some(1.0) };
    let chosen =
        search.classification(ClassScore::Accuracy, |kernel, c, weights, x, labels, (): &mut ()| {
            Ok(estimator_with(kernel, c, weights).fit_until(x, labels, classes, &task.stop)?.model)
        })?;
    let mut estimator = estimator_with(chosen.kernel, chosen.value, task.sample_weight.clone());
    estimator.penalty = task.penalty_for(&estimator.kernel)?;
    let fit = estimator.fit_until(task.x, labels, classes, &task.stop)?;
    let fitted = FittedModel {
        warnings: chosen.warnings,
        chosen: Some(estimator.c),
        support: Some(fit.support.clone()),
        ..with_card_entries(fit.model, chosen.facts).into()
    };
    let fitted = fitted.stopped(fit.converged, fit.iterations, UNCONVERGED_REMEDY);
    let weights = sample_weights(task.sample_weight.as_deref(), task.x)?;
    let strata = rows_by_class(labels, classes.len(), &weights);
    run_refits(task, fitted, fit.support, strata, 1.0, |counts| {
        let sample_weight = Some(products(&counts, &weights));
        let refit_estimator = SupportVectorClassifier { sample_weight, ..estimator.clone() };
        let fit = refit_estimator.fit_until(task.x, labels, classes, &task.stop)?;
        Ok(BootstrapRefit::from_model(fit.support, fit.model, fit.converged))
    })
}

/// The rows of a pair of classes, and the solution of its dual problem.
type PairSolution = (Vec<usize>, Solution);

/// C-support vector classification: `min ½‖f‖² + Σ_i C_i max(0, 1 - y_i (f(x_i) + b))`, where `C_i` is `c`
/// times the class weight times the sample weight; plus a further penalty if there is one.
///
/// Several classes are separated pair by pair (LIBSVM's scheme), and each pair is an output of the model.
#[derive(Debug, Clone)]
pub struct SupportVectorClassifier {
    /// The kernel.
    pub kernel: Kernel,
    /// The cost of an error, > 0.
    pub c: f64,
    /// Weights of the classes.
    pub class_weight: ClassWeight,
    /// One weight ≥ 0 per row; rows of weight 0 are left out. `None` for equal weights.
    pub sample_weight: Option<Vec<f64>>,
    /// The largest accepted violation of the optimality conditions, LIBSVM's `-e` (0.001 by default).
    pub tolerance: f64,
    /// Memory for working sets and their gram matrices in bytes, 200 MB by default: 3,500 rows of 100
    /// columns. A set has at least 64 rows in any case.
    pub cache_bytes: usize,
    /// Maximum number of steps for each pair of classes; `None` for LIBSVM's rule, the larger of 10⁷ and 100
    /// n.
    pub max_iterations: Option<usize>,
    /// Whether a fit that reaches `max_iterations` returns its model, with `converged` false, instead of an
    /// error.
    pub keep_unfinished: bool,
    /// Whether rows whose coefficients have probably converged are set aside. It changes the time, but not
    /// the optimum.
    pub shrinking: bool,
    /// A further penalty, for example on Shapley values. Its functionals have one row per row of positive
    /// weight, all of which become support points.
    pub penalty: Option<Penalty>,
}

/// A fitted classifier.
#[derive(Debug, Clone)]
pub struct SvcFit {
    /// The model. Its support points are the support vectors.
    pub model: KernelExpansion,
    /// Indices of the rows that are support vectors, ascending.
    pub support: Vec<usize>,
    /// Number of support vectors of each class.
    pub support_per_class: Vec<usize>,
    /// Number of steps of each pair of classes.
    pub iterations: Vec<usize>,
    /// Whether the optimum was reached within the tolerance for every pair.
    pub converged: bool,
    /// Dual objective `½ βᵀKβ - Σ|β|` of each pair of classes.
    pub objective: Vec<f64>,
}

impl SupportVectorClassifier {
    /// A classifier with equal weights and LIBSVM's tolerance.
    pub fn new(kernel: Kernel, c: f64) -> Self {
        Self {
            kernel,
            c,
            class_weight: ClassWeight::None,
            sample_weight: None,
            tolerance: TOLERANCE,
            cache_bytes: CACHE_BYTES,
            max_iterations: None,
            keep_unfinished: false,
            shrinking: true,
            penalty: None,
        }
    }

    /// Fits to `labels`, one index into `classes` per row.
    ///
    /// For two classes the model has one output, which is positive for `classes[1]` and named
    /// `"classes[1] vs classes[0]"` (scikit-learn's decision function). For more it has one output per pair,
    /// in the order (0,1), (0,2), …, (1,2), …, which is positive for the first class and named "first vs
    /// second" (LIBSVM). The first name is always the positive side. Pairs are solved in parallel and share
    /// the memory.
    ///
    /// Cost: between n times the support vectors and n³ kernel values, growing with `c`; memory at most
    /// `cache_bytes` and O(n d).
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`]; [`Error::Target`] if a class has no rows;
    /// [`Error::NotConverged`]; [`Error::Overflow`] if kernel values are not finite.
    pub fn fit(&self, x: &Table, labels: &[usize], classes: &[String]) -> Result<SvcFit> {
        self.fit_until(x, labels, classes, &AtomicBool::new(false))
    }

    /// Fits as [`fit`](Self::fit) does; [`Error::Interrupted`] soon after `stop` is set.
    fn fit_until(
        &self,
        x: &Table,
        labels: &[usize],
        classes: &[String],
        stop: &AtomicBool,
    ) -> Result<SvcFit> {
        let bounds = self.check(x, labels, classes)?;
        let rows = positive_places(&bounds);
        if self.penalty.is_some() && rows.len() < x.rows() {
            // The functionals refer to the rows of positive weight.
            let sample_weight = self.sample_weight.as_ref().map(|weights| select(weights, &rows));
            let estimator = Self { sample_weight, ..self.clone() };
            let mut fit =
                estimator.fit_until(&x.select_rows(&rows), &select(labels, &rows), classes, stop)?;
            fit.support.iter_mut().for_each(|r| *r = rows[*r]);
            return Ok(fit);
        }
        let members = rows_by_class(labels, classes.len(), &bounds);
        if members.iter().any(Vec::is_empty) {
            return Err(Error::parameter("C times weight", 0.0, "raise C or the weights"));
        }
        let k = classes.len();
        // (positive class, negative class)
        let pairs: Vec<(usize, usize)> = if k == 2 {
            vec![(1, 0)]
        } else {
            (0..k).flat_map(|i| (i + 1..k).map(move |j| (i, j))).collect()
        };
        let settings = SolverSettings {
            tolerance: self.tolerance,
            cache_bytes: self.cache_bytes / pairs.len().min(rayon::current_num_threads()).max(1),
            max_iterations: self.max_iterations,
            keep_unfinished: self.keep_unfinished,
            shrinking: self.shrinking,
        };
        // The pairs of classes, with a kernel and its rows, and an offset of the predictions.
        let solve_pairs = |kernel: &Kernel, x: &Table, offset: Option<&[f64]>| {
            let solve_pair = |&(positive, negative): &(usize, usize)| {
                let rows: Vec<usize> = members[positive].iter().chain(&members[negative]).copied().collect();
                let first_negative = members[positive].len();
                let sign = |index: usize| if index < first_negative { 1.0 } else { -1.0 };
                let bound = |index: usize| sign(index) * bounds[rows[index]];
                let fixed = |index: usize| offset.map_or(0.0, |offset| offset[rows[index]]);
                let problem = Problem {
                    kernel,
                    x: &x.select_rows(&rows),
                    linear: (0..rows.len()).map(|index| fixed(index) - sign(index)).collect(),
                    epsilon: 0.0,
                    lower: (0..rows.len()).map(|index| bound(index).min(0.0)).collect(),
                    upper: (0..rows.len()).map(|index| bound(index).max(0.0)).collect(),
                    start: vec![0.0; rows.len()],
                    stop,
                };
                solve(problem, settings).map(|solution| (rows, solution))
            };
            pairs.par_iter().map(solve_pair).collect::<Vec<Result<_>>>()
        };
        let (solutions, dense_coef) = match &self.penalty {
            None => (solve_pairs(&self.kernel, x, None), None),
            Some(penalty) => {
                let (solutions, coef) =
                    self.penalised(penalty, x, (labels, &bounds), pairs.len(), solve_pairs)?;
                (solutions, Some(coef))
            }
        };
        self.model_of_pairs(x, (labels, classes), &pairs, solutions, dense_coef)
    }

    /// Returns the fit from the solutions of all pairs of classes (positive, negative), and with a penalty
    /// the coefficients, rows × pairs.
    fn model_of_pairs(
        &self,
        x: &Table,
        (labels, classes): (&[usize], &[String]),
        pairs: &[(usize, usize)],
        solutions: Vec<Result<PairSolution>>,
        dense_coef: Option<Matrix>,
    ) -> Result<SvcFit> {
        let mut outputs = Vec::with_capacity(pairs.len());
        let (mut intercept, mut iterations, mut objective) = (Vec::new(), Vec::new(), Vec::new());
        let mut converged = true;
        for solution in solutions {
            let (rows, solution) = solution?;
            outputs.push((rows, solution.beta));
            intercept.push(solution.intercept);
            iterations.push(solution.iterations);
            converged &= solution.converged;
            objective.push(solution.objective);
        }
        let (support, coef) = match dense_coef {
            None => support_vectors(x.rows(), &outputs),
            Some(coef) => ((0..x.rows()).collect(), coef),
        };
        let mut support_per_class = vec![0; classes.len()];
        support.iter().for_each(|&r| support_per_class[labels[r]] += 1);
        let name = |&(a, b): &(usize, usize)| format!("{} vs {}", classes[a], classes[b]);
        let mut model = KernelExpansion {
            kernel: self.kernel.clone(),
            support_points: x.select_rows(&support),
            coef,
            intercept,
            output_names: pairs.iter().map(name).collect(),
            link: Link::Vote,
            classes: classes.to_vec(),
            model_card: vec![
                CardEntry::new("model", "support vector classifier"),
                CardEntry::new("c", self.c),
                CardEntry::new("support vectors", format!("{} of {} rows", support.len(), x.rows())),
            ],
        };
        model.model_card.extend(self.penalty.iter().flat_map(Penalty::facts));
        model.validate()?;
        Ok(SvcFit { model, support, support_per_class, iterations, converged, objective })
    }

    /// Solves the problems of all pairs of classes with the penalty. `solve_pairs` solves them without the
    /// penalty for a kernel and its rows, and an offset of the predictions. Returns the solutions, and the
    /// coefficients, rows × pairs.
    fn penalised(
        &self,
        penalty: &Penalty,
        x: &Table,
        (labels, bounds): (&[usize], &[f64]),
        pairs: usize,
        solve_pairs: impl Fn(&Kernel, &Table, Option<&[f64]>) -> Vec<Result<PairSolution>>,
    ) -> Result<(Vec<Result<PairSolution>>, Matrix)> {
        check_dense(x.rows(), 4.0, "")?;
        // The loss of two classes.
        let loss = |predictions: &[f64], intercept: f64| {
            let error = |(i, f): (usize, &f64)| {
                let sign = if labels[i] == 1 { 1.0 } else { -1.0 };
                bounds[i] * (1.0 - sign * (f + intercept)).max(0.0)
            };
            predictions.iter().enumerate().map(error).sum::<f64>()
        };
        penalty.fit(self.kernel.gram(x), 0.5, loss, |penalised| {
            let (linear, features) = penalised.as_linear()?;
            let solutions = solve_pairs(&linear, &features, Some(&penalised.offset));
            let mut dual_coef = Matrix::zeros(x.rows(), pairs);
            for (pair, solution) in solutions.iter().enumerate() {
                let Ok((rows, solution)) = solution else { break };
                rows.iter().zip(&solution.beta).for_each(|(&r, beta)| dual_coef[(r, pair)] = *beta);
            }
            let intercept = solutions[0].as_ref().map_or(0.0, |(_, solution)| solution.intercept);
            Ok(DualFit { result: solutions, coef: dual_coef, intercept })
        })
    }

    /// Checks all inputs; returns the bound C_i of each row.
    fn check(&self, x: &Table, labels: &[usize], classes: &[String]) -> Result<Vec<f64>> {
        crate::fit::check_labels(x, labels, classes)?;
        self.kernel.validate(x.width())?;
        positive("c", self.c)?;
        check_tolerance(self.tolerance)?;
        let weights = row_weights(x, labels, classes, &self.class_weight, self.sample_weight.as_deref())?;
        weighted_bounds(self.c, &weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(names: &[&str]) -> Vec<String> {
        names.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn one_class_only_is_refused() {
        let x = Table::from_rows(&[[0.0], [1.0]]).unwrap();
        let svc = SupportVectorClassifier::new(Kernel::gaussian(&[1.0]), 1.0);
        let error = svc.fit(&x, &[0, 0], &classes(&["a", "b"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the target 'labels' is 'a' in every row: a classifier needs rows of at least two classes"
        );
        assert!(matches!(svc.fit(&x, &[0, 1], &classes(&["a", "b", "c"])), Err(Error::Target { .. })));
        assert!(matches!(svc.fit(&x, &[0, 2], &classes(&["a", "b"])), Err(Error::Target { .. })));
        assert!(matches!(svc.fit(&x, &[0], &classes(&["a", "b"])), Err(Error::Shape { .. })));
    }

    #[test]
    fn weights_are_checked() {
        let x = Table::from_rows(&[[0.0], [1.0], [2.0]]).unwrap();
        let ab = classes(&["a", "b"]);
        let mut svc = SupportVectorClassifier::new(Kernel::gaussian(&[1.0]), 1.0);
        svc.sample_weight = Some(vec![1.0, -1.0, 1.0]);
        assert!(matches!(svc.fit(&x, &[0, 1, 1], &ab), Err(Error::Parameter { .. })));
        svc.sample_weight = Some(vec![0.0, 1.0, 1.0]);
        assert!(matches!(svc.fit(&x, &[0, 1, 1], &ab), Err(Error::Target { .. })));
        svc.sample_weight = Some(vec![1.0, 1e308, 1.0]);
        svc.c = 1e10;
        assert!(matches!(svc.fit(&x, &[0, 1, 1], &ab), Err(Error::Parameter { .. })));
    }

    #[test]
    fn too_few_iterations_are_reported() {
        let rows: Vec<[f64; 2]> = (0..50).map(|i| [(i as f64).sin(), (i as f64 * 0.7).cos()]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let labels: Vec<usize> = (0..50).map(|i| i % 2).collect();
        let mut svc = SupportVectorClassifier::new(Kernel::gaussian(&[0.3, 0.3]), 10.0);
        svc.max_iterations = Some(3);
        let error = svc.fit(&x, &labels, &classes(&["a", "b"])).unwrap_err();
        assert!(matches!(error, Error::NotConverged { iterations: 3, .. }), "{error}");
        // The objective decreases with every step, at whatever step the iteration stops.
        svc.keep_unfinished = true;
        let mut before = 0.0;
        for steps in [3, 10, 30, 100] {
            svc.max_iterations = Some(steps);
            let fit = svc.fit(&x, &labels, &classes(&["a", "b"])).unwrap();
            assert!(!fit.converged && fit.iterations == [steps] && fit.objective[0] < before);
            before = fit.objective[0];
        }
        svc.max_iterations = None;
        let fit = svc.fit(&x, &labels, &classes(&["a", "b"])).unwrap();
        assert!(fit.converged && fit.objective[0] < before);
    }

    #[test]
    fn a_kernel_too_large_overflows_with_a_sentence() {
        let x = Table::from_rows(&[[1e100], [-1e100]]).unwrap();
        let kernel = crate::kernel::Polynomial {
            columns: vec![0],
            center: vec![0.0],
            scale: vec![1.0],
            gamma: 1.0,
            coef0: 0.0,
            degree: 3,
        };
        let svc = SupportVectorClassifier::new(kernel.into(), 1.0);
        assert!(matches!(svc.fit(&x, &[0, 1], &classes(&["a", "b"])), Err(Error::Overflow { .. })));
    }
}
