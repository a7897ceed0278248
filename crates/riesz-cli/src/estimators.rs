//! Every kind of model, from the arguments of `fit`. A new kind is a line of [`Problem::fit`], a function here, and
//! its name and options in `args`.

use riesz::explanation::Fact;
use riesz::fit::{ClassWeight, KernelRidge, SupportVectorClassifier, SupportVectorRegressor};
use riesz::kernel::Units;
use riesz::{Column, Expansion, Kernel, Matrix, Table};

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

impl Problem<'_> {
    /// Fits the kind of model that was asked for.
    pub fn fit(&self) -> Result<Expansion> {
        match self.args.model {
            ModelKind::Krr => self.ridge(),
            ModelKind::Svc => self.support_vector_classifier(),
            ModelKind::Svr => self.support_vector_regressor(),
        }
    }

    fn ridge(&self) -> Result<Expansion> {
        let y = self.targets()?;
        let mut estimator = KernelRidge::new(self.kernel.clone(), 1.0);
        estimator.sample_weight.clone_from(&self.weights);
        estimator.ridge = match self.args.ridge.as_deref().unwrap_or("auto") {
            "auto" if self.weights.is_some() => {
                return Err(Failure::input(
                    "--ridge auto takes no --sample-weight: give the ridge as a number",
                ));
            }
            "auto" => {
                let ridges: Vec<f64> = (-24..=12).map(|k| 10f64.powf(f64::from(k) / 4.0)).collect();
                let errors = estimator.loo_path(self.x, &y, &ridges)?;
                let best = (0..ridges.len()).min_by(|a, b| errors[*a].total_cmp(&errors[*b])).unwrap_or(0);
                if best == 0 || best + 1 == ridges.len() {
                    self.console
                        .warn(format!("the best ridge, {}, is at the end of the range tried", ridges[best]));
                }
                ridges[best]
            }
            number => positive("--ridge", number)?,
        };
        let mut model = estimator.fit(self.x, &y)?.model;
        model.output_names.clone_from(&self.args.target);
        Ok(model)
    }

    fn support_vector_classifier(&self) -> Result<Expansion> {
        let Labels { classes, codes } = self.labels()?;
        let mut estimator = SupportVectorClassifier::new(self.kernel.clone(), self.args.c.unwrap_or(1.0));
        estimator.sample_weight.clone_from(&self.weights);
        estimator.class_weight = self.class_weight(&classes)?;
        Ok(estimator.fit(self.x, &codes, &classes)?.model)
    }

    fn support_vector_regressor(&self) -> Result<Expansion> {
        let target = self.target()?;
        let (args, kernel) = (self.args, self.kernel.clone());
        let mut estimator =
            SupportVectorRegressor::new(kernel, args.c.unwrap_or(1.0), args.epsilon.unwrap_or(0.1));
        estimator.sample_weight.clone_from(&self.weights);
        let mut model = estimator.fit(self.x, &target.values)?.model;
        model.rescale(target.scale, target.center);
        model.card.push(Fact::new("unit of the target", target.scale));
        model.output_names.clone_from(&args.target);
        Ok(model)
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
                    classes.join(", ")
                )));
            };
            weights[k] = positive("--class-weight", weight.trim())?;
        }
        Ok(ClassWeight::PerClass(weights))
    }
}

fn positive(option: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() && v > 0.0 => Ok(v),
        _ => Err(Failure::input(format!("{option} {text} is not a positive number"))),
    }
}
