//! Parameters of a kernel on the scale on which they are tuned, and gradients in them.

use rayon::prelude::*;

use super::{Columns, Kernel, Parameter};
use crate::linalg::{Matrix, dot};
use crate::simd::{Isa, Simd, dispatch, fma};
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

    /// The kernel with all its length scales (of stationary and periodic factors) multiplied by `factor`, or
    /// `None` if it has none. Larger ones make smoother functions.
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

    /// `g_p = Σ_ii' weights[i, i'] ∂k(x_i, x_i')/∂θ_p` for a symmetric weight matrix. Cost O(n² ·
    /// parameters).
    pub fn gradient(&self, x: &Table, weights: &Matrix) -> Vec<f64> {
        let isa = Isa::detect();
        let count = self.parameters().len();
        // By rows, each over the upper triangle; the rows' sums are added in order, so that the result
        // does not depend on the number of threads.
        let of_row = |(own, scratch): &mut (Vec<f64>, GradientScratch), i: usize| {
            // Pairs off the diagonal count twice.
            own.clear();
            own.extend(weights.row(i)[i..].iter().map(|w| 2.0 * w));
            own[0] = weights[(i, i)];
            let mut sums = vec![0.0; count];
            self.add_gradient(isa, Columns::of(x, i), &x.row(i), own, None, scratch, &mut sums);
            sums
        };
        let memory = || (Vec::new(), GradientScratch::of(self));
        let per_row: Vec<Vec<f64>> = (0..x.rows()).into_par_iter().map_init(memory, of_row).collect();
        let mut total = vec![0.0; count];
        for row in &per_row {
            total.iter_mut().zip(row).for_each(|(t, r)| *t += r);
        }
        total
    }

    /// Adds `Σ_i weights[i] ∂k(u_i, v)/∂θ_p` to `sums[p]`. Where the values `k(u_i, v)` are at hand they
    /// spare making them again.
    #[allow(clippy::too_many_arguments, reason = "the innermost loop of sums over rows")]
    pub(crate) fn add_gradient(
        &self,
        isa: Isa,
        u: Columns<'_>,
        v: &[f64],
        weights: &[f64],
        known: Option<&[f64]>,
        scratch: &mut GradientScratch,
        sums: &mut [f64],
    ) {
        let GradientScratch { counts, value, weighed, .. } = scratch;
        let (mut p, mut counts) = (0, counts.iter());
        for term in &self.terms {
            // The term at each pair, times its weight.
            value.clear();
            match known {
                Some(known) if self.terms.len() == 1 => value.extend_from_slice(known),
                _ => {
                    value.resize(u.len(), term.scale);
                    term.factors.iter().for_each(|factor| factor.multiply_all(isa, u, v, value));
                }
            }
            sums[p] += dot(value, weights);
            value.iter_mut().zip(weights).for_each(|(k, w)| *k *= w);
            p += 1;
            for (factor, &count) in term.factors.iter().zip(&mut counts) {
                weighed.clear();
                weighed.resize(count, 0.0);
                factor.weigh_slopes(isa, u, v, value, weighed);
                sums[p..p + count].iter_mut().zip(&*weighed).for_each(|(sum, slope)| *sum += slope);
                p += count;
            }
        }
    }
}

/// Memory for [`Kernel::add_gradient`] and [`Kernel::add_slopes`], kept from row to row.
pub(crate) struct GradientScratch {
    /// By factor, how many parameters it has.
    counts: Vec<usize>,
    value: Vec<f64>,
    slopes: Vec<Vec<f64>>,
    /// Slopes that are summed up over rows.
    weighed: Vec<f64>,
}

impl GradientScratch {
    /// For this kernel.
    pub(crate) fn of(kernel: &Kernel) -> Self {
        let factors = kernel.terms.iter().flat_map(|term| &term.factors);
        let counts: Vec<usize> = factors.map(|f| f.parameters().len()).collect();
        let most = counts.iter().copied().max().unwrap_or_default();
        Self { counts, value: Vec::new(), slopes: vec![Vec::new(); most], weighed: Vec::new() }
    }
}

#[inline(always)]
fn add_body<V: Simd>(value: &[f64], out: &mut [f64]) {
    out.iter_mut().zip(value).for_each(|(o, v)| *o += v);
}

#[inline(always)]
fn add_product_body<V: Simd>(value: &[f64], slope: &[f64], out: &mut [f64]) {
    for ((o, v), s) in out.iter_mut().zip(value).zip(slope) {
        *o = fma::<V>(*v, *s, *o);
    }
}

dispatch! {
    fn add(value: &[f64], out: &mut [f64]) = add_body::<V>
}
dispatch! {
    fn add_product(value: &[f64], slope: &[f64], out: &mut [f64]) = add_product_body::<V>
}

impl Kernel {
    /// Adds `weight k(u_i, v)` to the sums, and where `slopes` are asked for `weight ∂k(u_i, v)/∂θ_p` for
    /// every parameter, over the n rows of `u`; the first of these counts with the first weight, the others
    /// with the second. The sums of values are `sums[.. stride]`, those of parameter p the stretch of as many
    /// numbers that begins at `(1 + p) stride`; of each the last n are added to.
    #[allow(clippy::too_many_arguments, reason = "the innermost loop of sums over rows")]
    pub(crate) fn add_value_and_gradient(
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
        let GradientScratch { counts, value, slopes: by, .. } = scratch;
        value.resize(n, 0.0);
        let mut counts = counts.iter();
        for term in &self.terms {
            value.fill(others * term.scale);
            value[..1].fill(first * term.scale);
            term.factors.iter().for_each(|factor| factor.multiply_all(isa, u, v, value));
            add(isa, value, total);
            if !slopes {
                continue;
            }
            // By the logarithm of its scale a term's slope is the term.
            parts.by_ref().take(1).for_each(|out| add(isa, value, out));
            for (factor, &count) in term.factors.iter().zip(&mut counts) {
                let own = &mut by[..count];
                own.iter_mut().for_each(|slope| slope.resize(n, 0.0));
                factor.log_gradient(u, v, own);
                own.iter().zip(&mut parts).for_each(|(slope, out)| add_product(isa, value, slope, out));
            }
        }
    }
}
