//! One block of a product game for accumulators that need its factors: the factors, a quadrature rule that is
//! accurate for the block, and the error bound of its values.

use super::quadrature::{
    ErrorBounds, HIGHEST, LOWEST, MIN_WEIGHT, QuadratureEngine, RESCALE_LIMIT, TINIEST, TermBatch, ldexp,
    neg_log_bound, scaled_mul,
};
use super::rule::{ERROR_TAU, InclusionMeasure, RuleChoice};
use crate::simd::{LANES, Lanes, Plain, Simd, dispatch};

/// Active factors of a block, whose products stay within the range of doubles.
pub(crate) struct FactorBlock {
    /// For each factor, its value for present and for absent players.
    pub(crate) a: Vec<Lanes>,
    pub(crate) b: Vec<Lanes>,
    pub(crate) weight: Lanes,
    /// The rule that is accurate for the block under the uniform measure.
    pub(crate) choice: RuleChoice,
    /// A bound on the error of each value, as in [`BatchTotals`](super::quadrature::BatchTotals).
    pub(crate) error: Lanes,
}

impl FactorBlock {
    /// Value `s b + t a` of factor l at t, with `s = 1 - t`.
    #[inline(always)]
    pub(crate) fn factor<V: Simd>(&self, l: usize, t: f64, s: f64) -> Lanes {
        V::fma(Lanes::splat(t), self.a[l], V::mul(Lanes::splat(s), self.b[l]))
    }

    /// Elementary symmetric polynomials of `γ_l = |a_l - b_l| / max(|a_l|, |b_l|)` over the factors l, of
    /// degree 1 to `order`.
    pub(crate) fn elementary_symmetric(&self, order: usize) -> Vec<Lanes> {
        let mut sums = vec![Lanes::ZERO; order + 1];
        sums[0] = Lanes::UNIT;
        for (a, b) in self.a.iter().zip(&self.b) {
            let share = a.map2(*b, |a, b| {
                let top = a.abs().max(b.abs());
                if top > 0.0 { (a - b).abs() / top } else { 0.0 }
            });
            for size in (1..=order).rev() {
                sums[size] = Plain::add(Plain::mul(sums[size - 1], share), sums[size]);
            }
        }
        sums.remove(0);
        sums
    }
}

/// Products over all factors of a block.
struct FactorMagnitudes {
    /// M and P of `rule.rs`, `Π min(1, max(|a|, |b|))`, and the largest partial product of P.
    magnitude: Lanes,
    ratio_product: Lanes,
    small: Lanes,
    highest: Lanes,
}

impl QuadratureEngine {
    /// Loads block `index` of a batch of terms.
    pub(crate) fn block(&mut self, run: &TermBatch<'_>, index: usize) -> FactorBlock {
        let choices = InclusionMeasure::Uniform.candidate_rules(run.players);
        let mut weight = run.weights[index];
        let sides = run.active[..run.players].iter().map(|&k| run.side(k, index));
        let (mut a, mut b): (Vec<Lanes>, Vec<Lanes>) = sides.unzip();
        let sizes = measure(self.isa, &a, &b);
        let heavy = Plain::abs(weight);
        let max_product = heavy.map2(Lanes::ZERO, |w, _| (w / MIN_WEIGHT).clamp(RESCALE_LIMIT, HIGHEST));
        let safe = run.rounding.tiny <= TINIEST
            && (0..LANES).all(|l| sizes.small.0[l] >= LOWEST && sizes.highest.0[l] <= max_product.0[l]);
        if safe {
            let ratio = Plain::div(sizes.ratio_product, sizes.magnitude).largest();
            let choice = choices.smallest_accurate(ratio);
            let decay = if run.b.is_some() { neg_log_bound(sizes.small.smallest()) } else { 0.0 };
            let size = run.sizes.map_or_else(|| Plain::mul(heavy, sizes.magnitude), |sizes| sizes[index]);
            let relative = Lanes::splat(ErrorBounds::for_batch(run).relative_error(&choice, ratio, decay));
            let error = Plain::fma(size, relative, Lanes::splat(run.rounding.floor));
            return FactorBlock { a, b, weight, choice, error };
        }
        let error = self.run(run.block(index)).error;
        // Slow and rare: each pair of sides is divided by the larger.
        let mut product = [(1.0_f64, 0_i64); LANES];
        for (a, b) in a.iter_mut().zip(&mut b) {
            for l in 0..LANES {
                let top = a.0[l].abs().max(b.0[l].abs());
                if top > 0.0 {
                    (a.0[l], b.0[l]) = (a.0[l] / top, b.0[l] / top);
                    product[l] = scaled_mul(product[l], top);
                } else {
                    // If both factors of a player are 0, the whole term is 0.
                    weight.0[l] = 0.0;
                }
            }
        }
        for (weight, (fraction, power)) in weight.0.iter_mut().zip(product) {
            *weight = ldexp(*weight * fraction, power);
        }
        let ratio_product = measure(self.isa, &a, &b).ratio_product.largest();
        let choice =
            if ratio_product.is_finite() { choices.smallest_accurate(ratio_product) } else { choices.exact };
        FactorBlock { a, b, weight, choice, error }
    }
}

dispatch! {
    fn measure<V: Simd>(a: &[Lanes], b: &[Lanes]) -> FactorMagnitudes {
        let (mut magnitude, mut ratio_product) = (Lanes::UNIT, Lanes::UNIT);
        let (mut small, mut highest) = (Lanes::UNIT, Lanes::UNIT);
        for (a, b) in a.iter().zip(b) {
            let difference = V::abs(V::sub(*a, *b));
            let top = V::max(V::abs(*a), V::abs(*b));
            magnitude = V::mul(magnitude, top);
            small = V::mul(small, V::min(Lanes::UNIT, top));
            ratio_product = V::mul(ratio_product, V::fma(difference, Lanes::splat(ERROR_TAU), top));
            highest = V::max(highest, ratio_product);
        }
        FactorMagnitudes { magnitude, ratio_product, small, highest }
    }
}
