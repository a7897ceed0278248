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
        let per_row: Vec<Vec<f64>> = (0..x.rows())
            .into_par_iter()
            .map(|i| {
                let v = x.row(i);
                let u = Columns::of(x, i);
                let mut sums = vec![0.0; count];
                let mut p = 0;
                for term in &self.terms {
                    // The term at each pair, times its weight; pairs off the diagonal count twice.
                    let mut value = vec![2.0 * term.scale; u.len()];
                    value[0] = term.scale;
                    for factor in &term.factors {
                        factor.multiply_all(isa, u, &v, &mut value);
                    }
                    value.iter_mut().zip(&weights.row(i)[i..]).for_each(|(k, w)| *k *= w);
                    sums[p] = value.iter().sum();
                    p += 1;
                    for factor in &term.factors {
                        let mut slopes = vec![vec![0.0; u.len()]; factor.parameters().len()];
                        factor.log_gradient(u, &v, &mut slopes);
                        for slope in &slopes {
                            sums[p] = crate::linalg::dot(&value, slope);
                            p += 1;
                        }
                    }
                }
                sums
            })
            .collect();
        let mut total = vec![0.0; count];
        for row in &per_row {
            total.iter_mut().zip(row).for_each(|(t, r)| *t += r);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Categorical, Factor, Linear, Periodic, Polynomial, Profile, Stationary};

    /// Two columns of numbers, with ties, and one of levels.
    fn rows() -> Table {
        let rows: Vec<[f64; 3]> = (0..9)
            .map(|i| [(i as f64 * 0.9).sin() * 2.0, ((i / 2) as f64 * 1.7).cos(), (i % 3) as f64])
            .collect();
        Table::from_rows(&rows).unwrap()
    }

    fn stationary(profile: Profile, ard: bool, isotropic: bool) -> Kernel {
        Stationary { profile, columns: vec![0, 1], lengthscale: vec![0.8, 1.7], ard, isotropic }.into()
    }

    /// Every kind of factor, with the number of parameters it should have.
    fn kernels() -> Vec<(Kernel, usize)> {
        let mut all = Vec::new();
        for profile in [
            Profile::Gaussian,
            Profile::Exponential,
            Profile::Matern32,
            Profile::Matern52,
            Profile::RationalQuadratic { alpha: 0.7 },
            Profile::Cauchy,
        ] {
            let shape = usize::from(matches!(profile, Profile::RationalQuadratic { .. }));
            for isotropic in [false, true] {
                all.push((stationary(profile, true, isotropic), 2 + shape));
                all.push((stationary(profile, false, isotropic), 1 + shape));
            }
        }
        let (columns, center, scale) = (vec![0, 1], vec![0.3, -0.2], vec![1.5, 0.7]);
        all.push((
            Linear { columns: columns.clone(), center: center.clone(), scale: scale.clone() }.into(),
            0,
        ));
        for (coef0, count) in [(0.6, 2), (0.0, 1)] {
            let (columns, center, scale) = (columns.clone(), center.clone(), scale.clone());
            all.push((Polynomial { columns, center, scale, gamma: 0.8, coef0, degree: 3 }.into(), count));
        }
        all.push((Periodic { columns: [0], period: 1.3, lengthscale: 0.9 }.into(), 2));
        all.push((Categorical { columns: [2], similarity: 0.3 }.into(), 1));
        all
    }

    fn check(kernel: &Kernel, expected: usize) {
        let x = rows();
        let mut weights = Matrix::zeros(x.rows(), x.rows());
        for i in 0..x.rows() {
            for j in 0..=i {
                let w = ((3 * i + 7 * j) as f64).sin();
                (weights[(i, j)], weights[(j, i)]) = (w, w);
            }
        }
        let theta: Vec<f64> = kernel.parameters().iter().map(|p| p.log_value).collect();
        assert_eq!(theta.len(), expected, "{}", kernel.formula());
        let at = |p: usize, h: f64| {
            let mut theta = theta.clone();
            theta[p] += h;
            crate::linalg::dot(kernel.with_parameters(&theta).gram(&x).data(), weights.data())
        };
        // What the differences are rounded by.
        let gram = kernel.gram(&x);
        let magnitude: f64 = gram.data().iter().zip(weights.data()).map(|(k, w)| (k * w).abs()).sum();
        let gradient = kernel.gradient(&x, &weights);
        for (p, found) in gradient.iter().enumerate() {
            let slope = |h: f64| (at(p, h) - at(p, -h)) / (2.0 * h);
            let difference = (4.0 * slope(1e-4) - slope(2e-4)) / 3.0;
            let name = &kernel.parameters()[p].name;
            let formula = kernel.formula();
            let room = 1e-9 * (1.0 + difference.abs()) + 1e-10 * magnitude;
            assert!((found - difference).abs() < room, "{name} of {formula}: {found} against {difference}");
            assert!(difference.abs() > 1e-6, "{name} of {formula} has no slope to compare");
        }
    }

    #[test]
    fn gradients_are_differences() {
        // Fails to compile when a kind is added, so that it is added to the list above too.
        let listed = |factor: &Factor| match factor {
            Factor::Stationary(_) | Factor::Periodic(_) | Factor::Linear(_) => true,
            Factor::Polynomial(_) | Factor::Categorical(_) => true,
        };
        let all = kernels();
        assert!(all.iter().all(|(kernel, _)| listed(&kernel.terms[0].factors[0])));
        for (kernel, count) in &all {
            check(&(0.7 * kernel.clone()), count + 1);
        }
        // A sum of products of neighbours in the list: parameters keep their places.
        for pair in all.windows(2) {
            let [(a, in_a), (b, in_b)] = pair else { unreachable!() };
            check(&(a.clone() * b.clone() + 0.4 * b.clone() + Kernel::constant(2.0)), 3 + in_a + 2 * in_b);
        }
    }
}
