//! Which kernels studies have where nobody says, where tuning starts, and what is believed beforehand.

use super::process::ProcessParameters;
use crate::fit::evidence::Coordinate;
use crate::kernel::{Categorical, Kernel, Parameter, Profile, Stationary, Units};
use crate::table::{ColumnKind, Table};

/// Where tuning of noises starts, in units of the variance of what is regressed.
const START_NOISE: f64 = 0.1;

/// Where tuning of ridges starts.
pub(super) const START_RIDGE: f64 = 0.1;

/// A product over columns: Gaussian, with a length scale each that starts at the column's standard deviation,
/// and for categories how alike two different ones are.
pub(super) fn usual(x: &Table) -> Kernel {
    let numeric = |j: &usize| x.columns()[*j].kind == ColumnKind::Numeric;
    let (numbers, levels): (Vec<usize>, Vec<usize>) = (0..x.width()).partition(numeric);
    let mut kernel = Kernel::constant(1.0);
    if !numbers.is_empty() {
        let scale = Units::standardised(x).scale;
        let lengthscale = numbers.iter().map(|&j| scale[j]).collect();
        let gaussian = Profile::Gaussian;
        kernel = Stationary { profile: gaussian, columns: numbers, lengthscale, ard: true, isotropic: false }
            .into();
    }
    levels.into_iter().fold(kernel, |kernel, j| kernel * Categorical::over(j).into())
}

pub(super) fn believed(parameter: Parameter, scale_is_free: bool) -> Coordinate {
    match &parameter.name[..] {
        name if name.starts_with("lengthscale") => Coordinate::length(parameter),
        "scale" if !scale_is_free => Coordinate { parameter, weak: None },
        "scale" => Coordinate::near(parameter, 1.0),
        _ => Coordinate::near(parameter, 1.5),
    }
}

/// Of a regression of numbers with this variance what is tuned, and the process that has these
/// hyper-parameters; the variance of its constant stays.
pub(super) fn of_numbers(
    x: &Table,
    variance: f64,
    level: f64,
) -> (Vec<Coordinate>, impl Fn(&[f64]) -> ProcessParameters) {
    let kernel = variance * usual(x);
    let noise = Parameter { name: "noise".into(), log_value: (START_NOISE * variance).ln() };
    let all = kernel.parameters().into_iter().chain([noise]);
    let coordinates = all.map(|p| believed(p, true)).collect();
    let at = move |theta: &[f64]| {
        let (own, noise) = theta.split_at(theta.len() - 1);
        ProcessParameters { kernel: kernel.with_parameters(own), noise: noise[0].exp(), level }
    };
    (coordinates, at)
}

/// Of studies of more than twice so many rows starts are searched from by so many.
const FEW: usize = 150;

/// Rows by which starts are searched from: all, or some from everywhere.
pub(super) fn few(rows: usize) -> Vec<usize> {
    if rows <= 2 * FEW {
        return (0..rows).collect();
    }
    at_most(FEW, rows)
}

/// Hyper-parameters are learnt from at most so many rows of a study.
pub(super) const LEARNT: usize = 1000;

/// All rows, or so many from everywhere.
pub(super) fn at_most(count: usize, rows: usize) -> Vec<usize> {
    let count = count.min(rows);
    (0..count).map(|k| k * rows / count).collect()
}
