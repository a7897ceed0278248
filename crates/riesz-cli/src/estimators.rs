//! Every kind of model, from the arguments of `fit`. A new kind is a line of [`Problem::fit`], a function here, and
//! its name and options in `args`.

use riesz::explanation::Fact;
use riesz::fit::selection::{
    Axis, ClassScore, CrossValidation, DEFAULT_MULTIPLIERS, cross_validate, cross_validate_classes,
    default_ridges, folds, select_ridge, stratified_folds,
};
use riesz::fit::{
    ClassWeight, GaussianProcess, GaussianProcessClassifier, KernelLogisticRegression, KernelRidge, Penalty,
    SupportVectorClassifier, SupportVectorRegressor, Tune,
};
use riesz::kernel::Units;
use riesz::question::{Source, Subject};
use riesz::{Column, Expansion, Groups, Kernel, Matrix, Table, regularised};

use crate::args::{FitArgs, ModelKind};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::typing::Columns;

/// What every kind of model is fitted from.
pub struct Problem<'a> {
    /// The options.
    pub args: &'a FitArgs,
    /// All columns of the table, targets among them.
    pub columns: &'a Columns,
    /// The features.
    pub x: &'a Table,
    /// The kernel, in the units of the features.
    pub kernel: Kernel,
    /// One a row.
    pub weights: Option<Vec<f64>>,
    /// The players of later explanations, if they are not the columns.
    pub groups: Option<Groups>,
    /// Of folds and restarts.
    pub seed: u64,
    /// For warnings.
    pub console: Console,
}

/// `values · scale + center` is the target.
struct Target {
    values: Vec<f64>,
    center: f64,
    scale: f64,
}

/// Rows as indices of sorted classes.
struct Labels {
    classes: Vec<String>,
    codes: Vec<usize>,
}

/// Ridges that cross-validation tries, smoothest first.
const RIDGES: [f64; 6] = [10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4];
/// Prices of errors that cross-validation tries, smoothest first.
const PRICES: [f64; 5] = [0.1, 1.0, 10.0, 100.0, 1000.0];
/// Multiples of the kernel's length scales that cross-validation tries, smoothest first.
const MULTIPLES: [f64; 5] = [4.0, 2.0, 1.0, 0.5, 0.25];

/// A setting that the user gave, or that is to be chosen.
enum Setting {
    Given(f64),
    Auto,
}

/// What was chosen, and how it did.
struct Chosen {
    value: f64,
    kernel: Kernel,
    facts: Vec<Fact>,
}

impl Problem<'_> {
    /// Fits the kind of model that was asked for.
    pub fn fit(&self) -> Result<Expansion> {
        match self.args.model {
            ModelKind::Krr => self.ridge(),
            ModelKind::Klr => self.logistic(),
            ModelKind::Svc => self.support_vector_classifier(),
            ModelKind::Svr => self.support_vector_regressor(),
            ModelKind::Gp => self.gaussian_process(),
            ModelKind::Gpc => self.gaussian_process_classifier(),
        }
    }

    fn ridge(&self) -> Result<Expansion> {
        let y = self.targets()?;
        let mut estimator = KernelRidge::new(self.kernel.clone(), 1.0);
        estimator.sample_weight.clone_from(&self.weights);
        let mut facts = Vec::new();
        match setting("--ridge", self.args.ridge.as_deref().unwrap_or("auto"))? {
            Setting::Auto if self.args.folds.is_some() => {
                let chosen = self.choose(Setting::Auto, Axis::new("ridge", &RIDGES), |grid, kernel_of| {
                    let folds = folds(self.x.rows(), self.fold_count(), self.seed)?;
                    let fit = |point: &Vec<f64>, x: &Table, y: &Matrix, rows: &[usize]| {
                        let mut candidate = KernelRidge::new(kernel_of(point[1]), point[0]);
                        candidate.sample_weight = self.weights_of(rows);
                        Ok(candidate.fit(x, y)?.model)
                    };
                    Ok((cross_validate(grid, self.x, &y, &folds, fit)?, "mean squared error"))
                })?;
                (estimator.kernel, estimator.ridge, facts) = (chosen.kernel, chosen.value, chosen.facts);
            }
            Setting::Auto if self.weights.is_some() => {
                return Err(Failure::input(
                    "the leave-one-out error takes no --sample-weight: give --folds, or the ridge as a number",
                ));
            }
            Setting::Auto => {
                let multiples = if self.args.fixed_kernel { &[1.0][..] } else { &DEFAULT_MULTIPLIERS };
                let found = select_ridge(&estimator, self.x, &y, &default_ridges(), multiples)?;
                found.edges.iter().for_each(|edge| self.console.warn(edge));
                if found.axes[0].values.len() > 1 {
                    let multiple = found.axes[0].values[found.chosen.0];
                    facts.push(Fact::new("multiple of the length scales", multiple));
                }
                facts.push(Fact::new("chosen by", "leave-one-out"));
                estimator = found.best;
            }
            Setting::Given(ridge) => estimator.ridge = ridge,
        }
        estimator.penalty = self.penalty(&estimator.kernel)?;
        let fit = estimator.fit(self.x, &y)?;
        facts.push(Fact::measured("leave-one-out mean squared error", fit.loo_error()));
        facts.extend(self.protected());
        let mut model = fit.model;
        model.output_names.clone_from(&self.args.target);
        model.card.extend(facts);
        Ok(model)
    }

    fn logistic(&self) -> Result<Expansion> {
        let labels = self.labels()?;
        let class_weight = self.class_weight(&labels.classes)?;
        let with = |kernel: Kernel, ridge: f64, weights: Option<Vec<f64>>| {
            let mut estimator = KernelLogisticRegression::new(kernel, ridge);
            estimator.class_weight.clone_from(&class_weight);
            estimator.sample_weight = weights;
            estimator
        };
        let ridge = setting("--ridge", self.args.ridge.as_deref().unwrap_or("auto"))?;
        let chosen = self.choose(ridge, Axis::new("ridge", &RIDGES), |grid, kernel_of| {
            let folds = self.stratified(&labels)?;
            let fit = |point: &Vec<f64>, x: &Table, codes: &[usize], rows: &[usize]| {
                let estimator = with(kernel_of(point[1]), point[0], self.weights_of(rows));
                Ok(estimator.fit(x, codes, &labels.classes)?.model)
            };
            let (codes, classes) = (&labels.codes, &labels.classes);
            let scores =
                cross_validate_classes(grid, self.x, codes, classes, &folds, ClassScore::LogLoss, fit)?;
            Ok((scores, "log loss"))
        })?;
        let mut fit = with(chosen.kernel, chosen.value, self.weights.clone());
        fit.penalty = self.penalty(&fit.kernel)?;
        let mut model = fit.fit(self.x, &labels.codes, &labels.classes)?.model;
        model.card.extend(chosen.facts);
        model.card.extend(self.protected());
        Ok(model)
    }

    /// The penalty on the values of protected features, with settings that were chosen without it.
    fn penalty(&self, kernel: &Kernel) -> Result<Option<Penalty>> {
        if self.args.protect.is_empty() {
            return Ok(None);
        }
        let rows = |_: &str| Ok(self.x.clone().into());
        let source = Some(Source::Background);
        let question = self.args.protection.question(Subject::Protection, source, self.seed, rows)?;
        let question = question.with_players(self.groups.clone());
        Ok(Some(regularised::penalty(kernel, self.x, question, &self.args.protect, self.args.strength)?))
    }

    /// What was protected, for the model card.
    fn protected(&self) -> Option<Fact> {
        let game = self.args.protection.value("game").and_then(|game| game.as_str());
        let what = format!("{} ({} values)", self.args.protect.join(", "), game.unwrap_or("interventional"));
        (!self.args.protect.is_empty()).then(|| Fact::new("protected", what))
    }

    fn support_vector_classifier(&self) -> Result<Expansion> {
        let labels = self.labels()?;
        let class_weight = self.class_weight(&labels.classes)?;
        let with = |kernel: Kernel, c: f64, weights: Option<Vec<f64>>| {
            let mut estimator = SupportVectorClassifier::new(kernel, c);
            estimator.class_weight.clone_from(&class_weight);
            estimator.sample_weight = weights;
            estimator
        };
        let c = setting("--c", self.args.c.as_deref().unwrap_or("1"))?;
        let chosen = self.choose(c, Axis::new("c", &PRICES), |grid, kernel_of| {
            let folds = self.stratified(&labels)?;
            let fit = |point: &Vec<f64>, x: &Table, codes: &[usize], rows: &[usize]| {
                let estimator = with(kernel_of(point[1]), point[0], self.weights_of(rows));
                Ok(estimator.fit(x, codes, &labels.classes)?.model)
            };
            let (codes, classes) = (&labels.codes, &labels.classes);
            let scores =
                cross_validate_classes(grid, self.x, codes, classes, &folds, ClassScore::Accuracy, fit)?;
            Ok((scores, "accuracy"))
        })?;
        let fit = with(chosen.kernel, chosen.value, self.weights.clone());
        let mut model = fit.fit(self.x, &labels.codes, &labels.classes)?.model;
        model.card.extend(chosen.facts);
        Ok(model)
    }

    fn support_vector_regressor(&self) -> Result<Expansion> {
        let target = self.target()?;
        let epsilon = self.args.epsilon.unwrap_or(0.1);
        let with = |kernel: Kernel, c: f64, weights: Option<Vec<f64>>| {
            let mut estimator = SupportVectorRegressor::new(kernel, c, epsilon);
            estimator.sample_weight = weights;
            estimator
        };
        let c = setting("--c", self.args.c.as_deref().unwrap_or("1"))?;
        let chosen = self.choose(c, Axis::new("c", &PRICES), |grid, kernel_of| {
            let folds = folds(self.x.rows(), self.fold_count(), self.seed)?;
            let fit = |point: &Vec<f64>, x: &Table, y: &Matrix, rows: &[usize]| {
                let estimator = with(kernel_of(point[1]), point[0], self.weights_of(rows));
                Ok(estimator.fit(x, y.data())?.model)
            };
            let y = Matrix::column_vector(target.values.clone());
            let name = if self.args.no_standardise {
                "mean squared error"
            } else {
                "mean squared error, in units of the standardised target,"
            };
            Ok((cross_validate(grid, self.x, &y, &folds, fit)?, name))
        })?;
        let fit = with(chosen.kernel, chosen.value, self.weights.clone());
        let mut model = fit.fit(self.x, &target.values)?.model;
        model.rescale(target.scale, target.center);
        model.output_names.clone_from(&self.args.target);
        model.card.push(Fact::measured("unit of the target", target.scale));
        model.card.extend(chosen.facts);
        Ok(model)
    }

    fn gaussian_process(&self) -> Result<Expansion> {
        let y = self.targets()?;
        for (o, name) in self.args.target.iter().enumerate() {
            let first = y[(0, o)];
            if !self.args.no_standardise && (0..y.rows()).all(|i| y[(i, o)] == first) {
                return Err(Failure::input(format!(
                    "the target '{name}' is {first} in every row: there is nothing to learn"
                )));
            }
        }
        let noise = self.args.noise.unwrap_or(0.1);
        let mut estimator = GaussianProcess::new(self.kernel.clone(), noise);
        estimator.tune = match (self.args.fixed_kernel, self.args.noise) {
            (true, Some(_)) => Tune::Nothing,
            (false, Some(_)) => Tune::Kernel,
            (_, None) => Tune::KernelAndNoise,
        };
        if self.args.fixed_kernel && self.args.noise.is_none() {
            // Equal bounds fix a parameter: the noise alone is tuned.
            let fixed = self.kernel.parameters().into_iter().map(|p| (p.log_value, p.log_value));
            let reach = 1e5_f64.ln();
            estimator.bounds = Some(fixed.chain([(noise.ln() - reach, noise.ln() + reach)]).collect());
        }
        estimator.normalize_y = !self.args.no_standardise;
        estimator.row_noise = self.args.row_noise.as_deref().map(|c| self.columns.numbers(c)).transpose()?;
        estimator.restarts = self.args.restarts.unwrap_or(0);
        estimator.seed = self.seed;
        let fit = estimator.fit(self.x, &y)?;
        fit.warnings.iter().for_each(|warning| self.console.warn(warning));
        let mut model = fit.model;
        model.output_names.clone_from(&self.args.target);
        Ok(model)
    }

    fn gaussian_process_classifier(&self) -> Result<Expansion> {
        let Labels { classes, codes } = self.labels()?;
        let mut estimator = GaussianProcessClassifier::new(self.kernel.clone());
        estimator.tune = !self.args.fixed_kernel;
        estimator.restarts = self.args.restarts.unwrap_or(0);
        estimator.seed = self.seed;
        let fit = estimator.fit(self.x, &codes, &classes)?;
        fit.warnings.iter().for_each(|warning| self.console.warn(warning));
        Ok(fit.model)
    }

    /// The setting as given, or the best of an axis times multiples of the length scales by `score`, which gets the grid
    /// and how a multiple makes a kernel.
    fn choose(
        &self,
        setting: Setting,
        axis: Axis,
        score: impl FnOnce(
            &[Vec<f64>],
            &(dyn Fn(f64) -> Kernel + Sync),
        ) -> Result<(CrossValidation, &'static str)>,
    ) -> Result<Chosen> {
        if let Setting::Given(value) = setting {
            return Ok(Chosen { value, kernel: self.kernel.clone(), facts: Vec::new() });
        }
        let kernel_of = |multiple: f64| {
            self.kernel.with_lengthscales_times(multiple).unwrap_or_else(|| self.kernel.clone())
        };
        let fixed = self.args.fixed_kernel || self.kernel.with_lengthscales_times(1.0).is_none();
        let multiples = if fixed { &[1.0][..] } else { &MULTIPLES };
        let axes = [axis, Axis::new("multiple of the length scales", multiples)];
        let grid = Axis::grid(&axes);
        let (scores, name) = score(&grid, &kernel_of)?;
        Axis::edges(&axes, scores.best).iter().for_each(|edge| self.console.warn(edge));
        let (point, best) = (&grid[scores.best], &scores.scores[scores.best]);
        let folds = format!(
            "{name} on {} held-out folds: {:.4} ± {:.4}",
            self.fold_count(),
            best.mean,
            best.std_error
        );
        let mut facts = vec![Fact::new("chosen by", folds)];
        if !fixed {
            facts.push(Fact::new("multiple of the length scales", point[1]));
        }
        Ok(Chosen { value: point[0], kernel: kernel_of(point[1]), facts })
    }

    fn fold_count(&self) -> usize {
        self.args.folds.unwrap_or(5)
    }

    fn stratified(&self, labels: &Labels) -> Result<Vec<usize>> {
        Ok(stratified_folds(&labels.codes, &labels.classes, self.fold_count(), self.seed)?)
    }

    fn weights_of(&self, rows: &[usize]) -> Option<Vec<f64>> {
        self.weights.as_ref().map(|w| rows.iter().map(|&i| w[i]).collect())
    }

    /// The targets as numbers, rows × targets.
    fn targets(&self) -> Result<Matrix> {
        let mut all = Vec::with_capacity(self.args.target.len());
        for name in &self.args.target {
            all.push(self.columns.numbers(name)?);
        }
        let (n, m) = (self.x.rows(), all.len());
        let values = (0..n * m).map(|k| all[k % m][k / m]).collect();
        Ok(Matrix::from_row_major(n, m, values))
    }

    /// The one target as numbers, standardised unless the user would not have it.
    fn target(&self) -> Result<Target> {
        let values = self.columns.numbers(&self.args.target[0])?;
        if self.args.no_standardise {
            return Ok(Target { values, center: 0.0, scale: 1.0 });
        }
        let name = Column::numeric(&self.args.target[0]);
        let column = Table::from_column_major(vec![name], values.len(), values.clone())?;
        let units = Units::standardised(&column);
        let (center, scale) = (units.center[0], units.scale[0]);
        Ok(Target { values: values.iter().map(|v| (v - center) / scale).collect(), center, scale })
    }

    /// The one target as classes.
    fn labels(&self) -> Result<Labels> {
        let name = &self.args.target[0];
        let (classes, codes) = self.columns.levels(name)?;
        if classes.len() < 2 {
            return Err(Failure::input(format!(
                "the target '{name}' has one value only, '{}': a classifier needs at least two classes",
                classes.first().map_or("", String::as_str)
            )));
        }
        if classes.len() > 50 && classes.len() * 10 > codes.len() {
            return Err(Failure::input(format!(
                "the target '{name}' has {} values in {} rows, which look like measurements and not like classes: \
                 use a regression (krr, svr or gp)",
                classes.len(),
                codes.len()
            )));
        }
        Ok(Labels { classes, codes: codes.into_iter().map(|c| c as usize).collect() })
    }

    fn class_weight(&self, classes: &[String]) -> Result<ClassWeight> {
        let Some(text) = self.args.class_weight.as_deref() else { return Ok(ClassWeight::None) };
        if text == "balanced" {
            return Ok(ClassWeight::Balanced);
        }
        let mut weights = vec![1.0; classes.len()];
        for part in text.split(',') {
            let Some((class, weight)) = part.rsplit_once('=') else {
                return Err(Failure::input(format!(
                    "the class weight '{part}' is not understood: write 'balanced' or class=weight,class=weight"
                )));
            };
            let Some(k) = classes.iter().position(|c| c == class.trim()) else {
                return Err(Failure::input(format!(
                    "--class-weight: '{}' is no class of '{}'; classes: {}",
                    class.trim(),
                    self.args.target[0],
                    riesz::error::listed(classes)
                )));
            };
            weights[k] = positive("--class-weight", weight.trim())?;
        }
        Ok(ClassWeight::PerClass(weights))
    }
}

fn setting(option: &str, text: &str) -> Result<Setting> {
    if text == "auto" { Ok(Setting::Auto) } else { positive(option, text).map(Setting::Given) }
}

fn positive(option: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() && v > 0.0 => Ok(v),
        _ => Err(Failure::input(format!("{option} {text} is not a positive number"))),
    }
}
