//! Ranking of features by their dependence with a target: by exact Shapley values of HSIC, and by two
//! established methods for comparison.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::hsic::CenteredKernel;
use super::kernels::{kernel_or_default, without_constant_terms};
use super::pair_sums::SamplePairs;
use super::points::Points;
use super::{
    AttributionRequest, FactorKind, IndependenceTest, TestSettings, default_kernel, is_nonconstant, same_rows,
};
use crate::attribution::rule::InclusionMeasure;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{add_to, descending, dot, small_dense};
use crate::simd::Isa;
use crate::table::{Players, Table};

/// The method by which features are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Shapley values of HSIC (Mohammadi, Chau and Muandet 2025, §6.2, who use [`FactorKind::Product`]).
    #[default]
    Shapley,
    /// Backward elimination with HSIC (BAHSIC: Song, Smola, Gretton, Bedo and Borgwardt 2012, algorithm 1).
    /// Each step removes the tenth of the features without which HSIC is largest, with the length scale of
    /// the remaining features.
    Backward,
    /// HSIC-Lasso (Yamada, Jitkrittum, Sigal, Xing and Sugiyama 2014, equation 5): a sparse non-negative
    /// combination of centered, normalised gram matrices, one per feature, is fitted to that of the target.
    /// Features rank in the order in which they enter as the penalty decreases.
    Lasso,
}

impl Method {
    /// The names of all methods on the command line.
    pub const NAMES: [&'static str; 3] = ["shapley", "backward", "lasso"];

    /// Returns the method with this name.
    pub fn named(name: &str) -> Option<Self> {
        let index = Self::NAMES.iter().position(|n| *n == name)?;
        Some([Self::Shapley, Self::Backward, Self::Lasso][index])
    }
}

/// The features from the most to the least relevant.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The indices of the columns, the most relevant first.
    pub order: Vec<usize>,
    /// For each column: the Shapley value; the step at which it was removed, from 1 (backward); or its
    /// coefficient when the last requested feature enters (lasso).
    pub scores: Vec<f64>,
}

/// Ranks the columns of `x` by the dependence of `y` on them, with default kernels unless others are given.
/// Only the Shapley method uses `kernel` and `factors`. The lasso's path ends once `requested` features have
/// entered; the others rank by their own HSIC.
///
/// Cost O(n² d) for Shapley values; for the backward method O(n² d) times the number of steps, about 7 ln d;
/// O(n² d²) for the lasso.
///
/// # Errors
/// As [`IndependenceTest::run`]; [`Error::Parameter`] for a kernel with a method that does not use it.
pub fn rank(
    x: &Table,
    y: &Table,
    method: Method,
    factors: FactorKind,
    kernel: Option<&Kernel>,
    target_kernel: Option<&Kernel>,
    requested: usize,
) -> Result<Ranking> {
    rank_until(x, y, method, factors, kernel, target_kernel, requested, &Arc::default())
}

/// Ranks columns as [`rank`], until another thread sets `stop`.
///
/// # Errors
/// As [`rank`]; [`Error::Interrupted`].
#[allow(clippy::too_many_arguments, reason = "what is ranked, how, and until when")]
pub fn rank_until(
    x: &Table,
    y: &Table,
    method: Method,
    factors: FactorKind,
    kernel: Option<&Kernel>,
    target_kernel: Option<&Kernel>,
    requested: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Ranking> {
    same_rows(x, y)?;
    is_nonconstant(y, false)?;
    if x.rows() < 4 {
        return Err(Error::too_few("the sample", 4, "rows are"));
    }
    if let (Some(kernel), Method::Backward | Method::Lasso) = (kernel, method) {
        let allowed =
            "the backward and lasso methods choose their kernels; leave it out or rank by Shapley values";
        return Err(Error::parameter("kernel", kernel.formula(), allowed));
    }
    let target = kernel_or_default(target_kernel, y)?;
    match method {
        Method::Shapley => {
            let test = IndependenceTest {
                kernels: kernel.cloned().into_iter().collect(),
                target_kernel: Some(target),
                settings: TestSettings {
                    factors,
                    attribute: AttributionRequest::Values,
                    permutations: 0,
                    stop: stop.clone(),
                    ..TestSettings::default()
                },
                ..IndependenceTest::default()
            };
            let attributions = test.run(x, y)?.attributions;
            let scores = attributions.map_or_else(Vec::new, |attributions| attributions.explanation.values);
            Ok(Ranking { order: descending(&scores), scores })
        }
        Method::Backward => {
            backward(x, &CenteredKernel::new(y, &without_constant_terms(&target, y), true, false), stop)
        }
        Method::Lasso => lasso(x, y, &target, requested, stop),
    }
}

fn backward(x: &Table, target: &CenteredKernel<'_>, stop: &AtomicBool) -> Result<Ranking> {
    let mut remaining: Vec<usize> = (0..x.width()).collect();
    let mut removed = Vec::with_capacity(x.width());
    let mut scores = vec![0.0; x.width()];
    let mut step = 0.0;
    while remaining.len() > 1 {
        let table = x.select_columns(&remaining);
        let (kernel, groups) = (default_kernel(&table)?, Players::singletons(table.columns()));
        let pairs = SamplePairs::new(
            &table,
            &kernel,
            Some(&groups),
            InclusionMeasure::point(1.0),
            target.estimator(),
            FactorKind::Product,
        )?;
        let sums = pairs.sum(target, None, 1, RunControl { stop, progress: &Progress::default() })?;
        // The first features are those whose absence reduces HSIC least.
        let mut order = descending(&sums.observed[1..].iter().map(|loss| -loss).collect::<Vec<_>>());
        order.truncate((remaining.len() / 10).max(1));
        step += 1.0;
        for &index in &order {
            scores[remaining[index]] = step;
            removed.push(remaining[index]);
        }
        remaining.retain(|j| !removed.contains(j));
    }
    for &j in &remaining {
        scores[j] = step + 1.0;
    }
    removed.extend(remaining);
    removed.reverse();
    Ok(Ranking { order: removed, scores })
}

/// The number of parts into which the sum over rows is divided.
const PARTS: usize = 16;

fn lasso(x: &Table, y: &Table, target: &Kernel, requested: usize, stop: &AtomicBool) -> Result<Ranking> {
    let (n, d) = (x.rows(), x.width());
    let (targets, isa) = (Points::new(y), Isa::detect());
    // One table and one kernel per column.
    let column_tables: Vec<Table> = (0..d).map(|j| x.select_columns(&[j])).collect();
    let kernels = column_tables.iter().map(default_kernel).collect::<Result<Vec<_>>>()?;
    let columns: Vec<Points> = column_tables.iter().map(Points::new).collect();
    let stride = targets.stride();
    // Computes row i of the gram matrix of each column, then of the target.
    let fill_rows = |i: usize, out: &mut [f64]| {
        let buffer = &mut Vec::new();
        for (k, out) in out.chunks_exact_mut(stride).enumerate() {
            let (kernel, points) = (kernels.get(k).unwrap_or(target), columns.get(k).unwrap_or(&targets));
            kernel.row(isa, points.all_rows(), &points.row(i), buffer, out);
            out[n..].fill(0.0);
        }
    };
    let row_means: Vec<Vec<f64>> = (0..n)
        .into_par_iter()
        .map_init(
            || vec![0.0; (d + 1) * stride],
            |rows, i| {
                fill_rows(i, rows);
                rows.chunks_exact(stride).map(|row| row.iter().sum::<f64>() / n as f64).collect()
            },
        )
        .collect();
    let means: Vec<f64> = (0..=d).map(|k| row_means.iter().map(|m| m[k]).sum::<f64>() / n as f64).collect();
    // Inner products of the centered gram matrices.
    let parts: Vec<Vec<f64>> = (0..PARTS)
        .into_par_iter()
        .map(|part| {
            let (mut rows, mut sum) = (vec![0.0; (d + 1) * stride], vec![0.0; (d + 1) * (d + 1)]);
            for i in (part..n).step_by(PARTS) {
                check_cancelled(stop)?;
                fill_rows(i, &mut rows);
                for (k, row) in rows.chunks_exact_mut(stride).enumerate() {
                    for (j, v) in row[..n].iter_mut().enumerate() {
                        *v += means[k] - row_means[i][k] - row_means[j][k];
                    }
                }
                small_dense::add_transposed_product(&mut sum, &rows, &rows, stride);
            }
            Ok(sum)
        })
        .collect::<Result<_>>()?;
    let mut products = vec![0.0; (d + 1) * (d + 1)];
    parts.iter().for_each(|part| add_to(&mut products, part));
    let norms: Vec<f64> = (0..=d).map(|k| products[k * (d + 1) + k].sqrt()).collect();
    let cosine = |k: usize, l: usize| {
        let product = norms[k] * norms[l];
        // A constant column is orthogonal to everything.
        if product > 1e-12 * n as f64 * n as f64 { products[k * (d + 1) + l] / product } else { 0.0 }
    };
    let matrix: Vec<Vec<f64>> = (0..d).map(|k| (0..d).map(|l| cosine(k, l)).collect()).collect();
    let target_cosines: Vec<f64> = (0..d).map(|k| cosine(k, d)).collect();
    Ok(regularisation_path(&matrix, &target_cosines, requested.min(d)))
}

/// The number of penalties on the path, which decrease from the largest by a factor of 10⁵.
const PENALTIES: usize = 400;

/// Minimises `½ αᵀ M α - cᵀ α + λ Σ α` over coefficients α ≥ 0 (length d) for decreasing λ by coordinate
/// descent, where M is `matrix` (d × d) and c is `target` (length d).
fn regularisation_path(matrix: &[Vec<f64>], target: &[f64], requested: usize) -> Ranking {
    let d = target.len();
    let (mut coef, mut order) = (vec![0.0; d], Vec::new());
    let max_penalty = target.iter().copied().fold(0.0, f64::max);
    for step in 0..PENALTIES {
        let penalty = max_penalty * (-11.5 * step as f64 / PENALTIES as f64).exp();
        for _ in 0..1000 {
            let mut max_change: f64 = 0.0;
            for j in (0..d).filter(|&j| matrix[j][j] > 0.0) {
                let residual = target[j] - dot(&matrix[j], &coef) + matrix[j][j] * coef[j];
                let new = ((residual - penalty) / matrix[j][j]).max(0.0);
                max_change = max_change.max((new - coef[j]).abs());
                coef[j] = new;
            }
            if max_change <= 1e-10 {
                break;
            }
        }
        let is_new = |j: &usize| coef[*j] > 0.0 && !order.contains(j);
        let new: Vec<usize> = descending(&coef).into_iter().filter(is_new).collect();
        order.extend(new);
        if order.len() >= requested {
            break;
        }
    }
    let unranked: Vec<usize> = descending(target).into_iter().filter(|j| !order.contains(j)).collect();
    order.extend(unranked);
    Ranking { order, scores: coef }
}
