//! Parameters of a kernel on the scale on which they are tuned, and gradients in them.

use rayon::prelude::*;

use super::{Columns, Kernel, Parameter};
use crate::linalg::Matrix;
use crate::simd::Isa;
use crate::table::Table;

impl Kernel {
    /// All tunable parameters: for each term the logarithm of its scale, then those of its factors.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        for term in &self.terms {
            all.push(Parameter { name: "scale".into(), log_value: term.scale.ln() });
            all.extend(term.factors.iter().flat_map(|f| f.parameters()));
        }
        all
    }

    /// The kernel with its parameters set, in the order and on the scale of [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If the number of values is not the number of parameters.
    pub fn with_parameters(&self, log_values: &[f64]) -> Self {
        let mut kernel = self.clone();
        let mut rest = log_values;
        for term in &mut kernel.terms {
            term.scale = rest[0].exp();
            rest = &rest[1..];
            for factor in &mut term.factors {
                let (own, others) = rest.split_at(factor.parameters().len());
                factor.set_parameters(own);
                rest = others;
            }
        }
        assert!(rest.is_empty(), "{} values too many", rest.len());
        kernel
    }

    /// The kernel with all its length scales (of stationary and periodic factors) multiplied by `factor`, or `None` if
    /// it has none. Larger ones make smoother functions.
    pub fn with_lengthscales_times(&self, factor: f64) -> Option<Self> {
        let parameters = self.parameters();
        let is_lengthscale = |p: &Parameter| p.name.starts_with("lengthscale");
        if !parameters.iter().any(is_lengthscale) {
            return None;
        }
        if factor == 1.0 {
            return Some(self.clone());
        }
        let shift = |p: &Parameter| p.log_value + if is_lengthscale(p) { factor.ln() } else { 0.0 };
        Some(self.with_parameters(&parameters.iter().map(shift).collect::<Vec<_>>()))
    }

    /// `g_p = Σ_ii' weights[i, i'] ∂k(x_i, x_i')/∂θ_p` for a symmetric weight matrix. Cost O(n² · parameters).
    pub fn gradient(&self, x: &Table, weights: &Matrix) -> Vec<f64> {
        let isa = Isa::detect();
        let count = self.parameters().len();
        // By rows, each over the upper triangle; the rows' sums are added in order, so that the result
        // does not depend on the number of threads.
        let of_row = |(own, value, buffer): &mut (Vec<f64>, Vec<f64>, Vec<f64>), i: usize| {
            // Pairs off the diagonal count twice.
            own.clear();
            own.extend(weights.row(i)[i..].iter().map(|w| 2.0 * w));
            own[0] = weights[(i, i)];
            let mut sums = vec![0.0; count];
            self.add_gradient(isa, Columns::of(x, i), &x.row(i), own, (value, buffer), &mut sums);
            sums
        };
        let per_row: Vec<Vec<f64>> =
            (0..x.rows()).into_par_iter().map_init(Default::default, of_row).collect();
        let mut total = vec![0.0; count];
        for row in &per_row {
            total.iter_mut().zip(row).for_each(|(t, r)| *t += r);
        }
        total
    }

    /// Adds `Σ_i weights[i] ∂k(u_i, v)/∂θ_p` to `sums[p]`; `memory` is for what is made on the way.
    pub(crate) fn add_gradient(
        &self,
        isa: Isa,
        u: Columns<'_>,
        v: &[f64],
        weights: &[f64],
        (value, slopes): (&mut Vec<f64>, &mut Vec<f64>),
        sums: &mut [f64],
    ) {
        let mut p = 0;
        for term in &self.terms {
            // The term at each pair, times its weight.
            value.clear();
            value.resize(u.len(), term.scale);
            term.factors.iter().for_each(|factor| factor.multiply_all(isa, u, v, value));
            value.iter_mut().zip(weights).for_each(|(k, w)| *k *= w);
            sums[p] += value.iter().sum::<f64>();
            p += 1;
            for factor in &term.factors {
                let count = factor.parameters().len();
                slopes.clear();
                slopes.resize(count, 0.0);
                factor.weigh_slopes(isa, u, v, value, slopes);
                sums[p..p + count].iter_mut().zip(&*slopes).for_each(|(sum, slope)| *sum += slope);
                p += count;
            }
        }
    }
}
