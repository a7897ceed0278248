//! A kernel's tunable parameters on the logarithmic scale, and the derivatives of its values in them.

use rayon::prelude::*;

use super::{Columns, Kernel, Parameter};
use crate::linalg::{Matrix, add_to, dot, multiply_entries};
use crate::simd::{Isa, Simd, dispatch, fma};
use crate::table::Table;

impl Kernel {
    /// All tunable parameters: for each term the logarithm of its scale, then the parameters of its factors.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        for term in &self.terms {
            parameters.push(Parameter::logarithm("scale", term.scale));
            parameters.extend(term.factors.iter().flat_map(|f| f.parameters()));
        }
        parameters
    }

    /// The kernel with its parameters set, in the order and on the scale of [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If the number of values is not the number of parameters.
    pub fn with_parameters(&self, log_values: &[f64]) -> Self {
        let mut kernel = self.clone();
        let mut remaining = log_values;
        for term in &mut kernel.terms {
            term.scale = remaining[0].exp();
            remaining = &remaining[1..];
            for factor in &mut term.factors {
                let (factor_values, following) = remaining.split_at(factor.parameters().len());
                factor.set_parameters(factor_values);
                remaining = following;
            }
        }
        assert!(remaining.is_empty(), "{} values too many", remaining.len());
        kernel
    }

    /// The kernel with all its length scales (of stationary and periodic factors) multiplied by `factor`, or
    /// `None` if it has none. Larger length scales make smoother functions.
    pub fn with_length_scales_times(&self, factor: f64) -> Option<Self> {
        if !self.parameters().iter().any(Parameter::is_length_scale) {
            return None;
        }
        if factor == 1.0 {
            return Some(self.clone());
        }
        Some(self.with_log_length_scales_plus(factor.ln()))
    }

    /// Returns the kernel with a number added to the logarithm of each length scale.
    pub fn with_log_length_scales_plus(&self, addend: f64) -> Self {
        let shift = |p: Parameter| p.log_value + if p.is_length_scale() { addend } else { 0.0 };
        self.with_parameters(&self.parameters().into_iter().map(shift).collect::<Vec<_>>())
    }

    /// The sums `g_p = Σ_ii' weights[i, i'] ∂k(x_i, x_i')/∂θ_p` for a symmetric weight matrix. Cost O(n² ·
    /// parameters).
    pub fn gradient(&self, x: &Table, weights: &Matrix) -> Vec<f64> {
        let isa = Isa::detect();
        let count = self.parameters().len();
        // Each row sums over the upper triangle. The rows' sums are added in order, so that the result does
        // not depend on the number of threads.
        let row_gradient = |(row_weights, scratch): &mut (Vec<f64>, GradientScratch), i: usize| {
            // Pairs off the diagonal count twice.
            row_weights.clear();
            row_weights.extend(weights.row(i)[i..].iter().map(|w| 2.0 * w));
            row_weights[0] = weights[(i, i)];
            let mut sums = vec![0.0; count];
            self.add_gradient(isa, Columns::from_row(x, i), &x.row(i), row_weights, None, scratch, &mut sums);
            sums
        };
        let memory = || (Vec::new(), GradientScratch::for_kernel(self));
        let row_gradients: Vec<Vec<f64>> =
            (0..x.rows()).into_par_iter().map_init(memory, row_gradient).collect();
        let mut total = vec![0.0; count];
        for row in &row_gradients {
            add_to(&mut total, row);
        }
        total
    }

    /// Adds `Σ_i weights[i] ∂k(u_i, v)/∂θ_p` to `sums[p]`. The caller may pass the values `k(u_i, v)` as
    /// `kernel_values`, so that they are not computed again.
    #[allow(clippy::too_many_arguments, reason = "the innermost loop of sums over rows")]
    pub fn add_gradient(
        &self,
        isa: Isa,
        u: Columns<'_>,
        v: &[f64],
        weights: &[f64],
        kernel_values: Option<&[f64]>,
        scratch: &mut GradientScratch,
        sums: &mut [f64],
    ) {
        let GradientScratch { parameter_counts, value, weighted_sums, .. } = scratch;
        let (mut p, mut parameter_counts) = (0, parameter_counts.iter());
        for term in &self.terms {
            // The term at each pair, times its weight.
            value.clear();
            match kernel_values {
                Some(kernel_values) if self.terms.len() == 1 => value.extend_from_slice(kernel_values),
                _ => {
                    value.resize(u.len(), term.scale);
                    term.factors.iter().for_each(|factor| factor.multiply_all(isa, u, v, value));
                }
            }
            sums[p] += dot(value, weights);
            multiply_entries(value, weights);
            p += 1;
            for (factor, &count) in term.factors.iter().zip(&mut parameter_counts) {
                weighted_sums.clear();
                weighted_sums.resize(count, 0.0);
                factor.weigh_slopes(isa, u, v, value, weighted_sums);
                add_to(&mut sums[p..p + count], weighted_sums);
                p += count;
            }
        }
    }
}

/// Scratch memory of [`Kernel::add_gradient`] and [`Kernel::add_value_and_gradient`], reused from row to row.
pub struct GradientScratch {
    /// The number of parameters of each factor.
    parameter_counts: Vec<usize>,
    value: Vec<f64>,
    slopes: Vec<Vec<f64>>,
    /// Derivatives, summed over rows.
    weighted_sums: Vec<f64>,
}

impl GradientScratch {
    /// Scratch memory of the right size for this kernel.
    pub fn for_kernel(kernel: &Kernel) -> Self {
        let factors = kernel.terms.iter().flat_map(|term| &term.factors);
        let parameter_counts: Vec<usize> = factors.map(|f| f.parameters().len()).collect();
        let max_count = parameter_counts.iter().copied().max().unwrap_or_default();
        Self {
            parameter_counts,
            value: Vec::new(),
            slopes: vec![Vec::new(); max_count],
            weighted_sums: Vec::new(),
        }
    }
}

dispatch! {
    fn add<V: Simd>(value: &[f64], out: &mut [f64]) {
        out.iter_mut().zip(value).for_each(|(o, v)| *o += v);
    }

    fn add_product<V: Simd>(value: &[f64], slope: &[f64], out: &mut [f64]) {
        for ((o, v), s) in out.iter_mut().zip(value).zip(slope) {
            *o = fma::<V>(*v, *s, *o);
        }
    }
}

impl Kernel {
    /// Adds `weight k(u_i, v)` to the sums over the n rows of `u`, and if `slopes` is true also
    /// `weight ∂k(u_i, v)/∂θ_p` for every parameter p. The weights are `[first, others]`: one for the first
    /// row, one for all other rows.
    ///
    /// `sums[..stride]` are the sums of kernel values. The sums of parameter p are the `stride` numbers from
    /// `(1 + p) stride` on. Only the last n numbers of each of these parts change.
    #[allow(clippy::too_many_arguments, reason = "the innermost loop of sums over rows")]
    pub fn add_value_and_gradient(
        &self,
        isa: Isa,
        u: Columns<'_>,
        v: &[f64],
        [first, others]: [f64; 2],
        slopes: bool,
        scratch: &mut GradientScratch,
        (sums, stride): (&mut [f64], usize),
    ) {
        let n = u.len();
        let mut parts = sums.chunks_exact_mut(stride).map(|part| &mut part[stride - n..]);
        let Some(total) = parts.next() else { return };
        let GradientScratch { parameter_counts, value, slopes: slope_buffers, .. } = scratch;
        value.resize(n, 0.0);
        let mut parameter_counts = parameter_counts.iter();
        for term in &self.terms {
            value.fill(others * term.scale);
            value[..1].fill(first * term.scale);
            term.factors.iter().for_each(|factor| factor.multiply_all(isa, u, v, value));
            add(isa, value, total);
            if !slopes {
                continue;
            }
            // The derivative of a term in the logarithm of its scale is the term.
            parts.by_ref().take(1).for_each(|out| add(isa, value, out));
            for (factor, &count) in term.factors.iter().zip(&mut parameter_counts) {
                let factor_slopes = &mut slope_buffers[..count];
                factor_slopes.iter_mut().for_each(|slope| slope.resize(n, 0.0));
                factor.log_gradient(u, v, factor_slopes);
                factor_slopes
                    .iter()
                    .zip(&mut parts)
                    .for_each(|(slope, out)| add_product(isa, value, slope, out));
            }
        }
    }
}
