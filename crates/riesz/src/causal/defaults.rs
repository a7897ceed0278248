//! Default kernels of studies, starting values of tuning, and priors of hyper-parameters.

use super::outcome_gp::OutcomeGpParameters;
use crate::fit::hyperparameter_search::HyperParameter;
use crate::kernel::{Categorical, ColumnScaling, Kernel, Parameter, Profile, Stationary};
use crate::table::{ColumnKind, Table};

/// Where tuning of noises starts, in units of the variance of what is regressed.
const START_NOISE: f64 = 0.1;

/// Where tuning of ridges starts.
pub(super) const START_RIDGE: f64 = 0.1;

/// A product over columns: Gaussian, with a length scale each that starts at the column's standard deviation,
/// and for categories how alike two different ones are.
pub(super) fn default_kernel(x: &Table) -> Kernel {
    let numeric = |j: &usize| x.columns()[*j].kind == ColumnKind::Numeric;
    let (numbers, levels): (Vec<usize>, Vec<usize>) = (0..x.width()).partition(numeric);
    let mut kernel = Kernel::constant(1.0);
    if !numbers.is_empty() {
        let scale = ColumnScaling::standardised(x).scale;
        let lengthscale = numbers.iter().map(|&j| scale[j]).collect();
        let gaussian = Profile::Gaussian;
        kernel = Stationary { profile: gaussian, columns: numbers, lengthscale, ard: true, isotropic: false }
            .into();
    }
    levels.into_iter().fold(kernel, |kernel, j| kernel * Categorical::on_column(j).into())
}

pub(super) fn default_prior(parameter: Parameter, scale_is_free: bool) -> HyperParameter {
    match &parameter.name[..] {
        name if name.starts_with("lengthscale") => HyperParameter::with_lengthscale_prior(parameter),
        "scale" if !scale_is_free => HyperParameter { parameter, weak: None },
        "scale" => HyperParameter::with_normal_prior(parameter, 1.0),
        _ => HyperParameter::with_normal_prior(parameter, 1.5),
    }
}

/// The hyper-parameters of a regression of numbers with this variance, and a function that makes a process
/// from their values; the variance of its constant is fixed.
pub(super) fn gp_hyperparameters(
    x: &Table,
    variance: f64,
    level: f64,
) -> (Vec<HyperParameter>, impl Fn(&[f64]) -> OutcomeGpParameters) {
    let kernel = variance * default_kernel(x);
    let noise = Parameter { name: "noise".into(), log_value: (START_NOISE * variance).ln() };
    let parameters = kernel.parameters().into_iter().chain([noise]);
    let coordinates = parameters.map(|p| default_prior(p, true)).collect();
    let process_at = move |theta: &[f64]| {
        let (kernel_values, noise) = theta.split_at(theta.len() - 1);
        OutcomeGpParameters {
            kernel: kernel.with_parameters(kernel_values),
            noise: noise[0].exp(),
            intercept_variance: level,
        }
    };
    (coordinates, process_at)
}

/// Number of rows from which starts are searched in studies with more than twice as many rows.
const START_ROWS: usize = 150;

/// Rows by which starts are searched from: all, or some from everywhere.
pub(super) fn start_rows(rows: usize) -> Vec<usize> {
    if rows <= 2 * START_ROWS {
        return (0..rows).collect();
    }
    evenly_spaced(START_ROWS, rows)
}

/// Hyper-parameters are learnt from at most so many rows of a study.
pub(super) const MAX_TUNING_ROWS: usize = 1000;

/// All rows, or so many from everywhere.
pub(super) fn evenly_spaced(count: usize, rows: usize) -> Vec<usize> {
    let count = count.min(rows);
    (0..count).map(|k| k * rows / count).collect()
}
