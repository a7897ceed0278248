//! The Matérn kernel of any smoothness.

use libm::lgamma;

use super::gaussian_mixture::MixingMeasure;
use super::stationary_functions::{RadialFunction, student_t_draw};
use crate::random::Random;
use crate::simd::Simd;

/// Terms of the trapezoidal rule below `exp(-NEGLIGIBLE)` of the largest are left out.
const NEGLIGIBLE: f64 = 44.0;

/// From this ν on the first term that [`MaternShape::log_constant`]'s series leaves out is below 1e-15.
const LARGE: f64 = 10.0;

/// From this z on the value is 0 in double precision.
const FAR: f64 = 1e4;

/// `2^(1-ν) / Γ(ν) z^ν K_ν(z)` at `z = √(2ν) r`, where `K_ν` is the modified Bessel function of the second
/// kind (Rasmussen and Williams 2006, equation 4.14).
#[derive(Clone, Copy)]
pub(crate) struct MaternShape {
    pub nu: f64,
}

/// The value of the kernel, and the mean of `z² / (2 t)` under the integrand.
struct MaternValue {
    value: f64,
    mean_exponent: f64,
}

impl MaternShape {
    /// The integral `1 / Γ(ν) ∫ t^(ν-1) exp(-t - z² / (4 t)) dt` over `t > 0`.
    ///
    /// With `t = A exp τ`, where t is A at the integrand's maximum, the trapezoidal rule in τ has a relative
    /// error of about `exp(-2π y / h + R (1 - cos y))` for every `y < π/2` and step h, where `R = √(z² + ν²)`
    /// (Trefethen and Weideman 2014, theorem 5.1). With the steps chosen here it is below 1e-17.
    fn integral(self, z: f64) -> MaternValue {
        let nu = self.nu;
        let radius = z.hypot(nu);
        let step = 0.15_f64.min(0.6 / radius.sqrt());
        // `radius - nu` without cancellation.
        let excess = z * (z / (radius + nu));
        let (a, b) = (0.5 * (radius + nu), 0.5 * excess);
        let (mut sum, mut exponents) = (0.0, 0.0);
        let mut add = |k: f64| {
            let tau = k * step;
            let (growing, falling) = (a * tau.exp(), b * (-tau).exp());
            let exponent = radius + nu * tau - growing - falling;
            let term = exponent.exp();
            sum += term;
            exponents += term * 2.0 * falling;
            exponent > -NEGLIGIBLE
        };
        let mut k = 0.0;
        while add(k) {
            k += 1.0;
        }
        k = -1.0;
        while add(k) {
            k -= 1.0;
        }
        // `ν ln A - R - ln Γ(ν)`.
        let log_factor = nu * (0.5 * excess / nu).ln_1p() - excess + self.log_constant();
        MaternValue { value: log_factor.exp() * (step * sum), mean_exponent: exponents / sum }
    }
}

impl MaternShape {
    /// `ν ln ν - ν - ln Γ(ν)`; from [`LARGE`] on by Stirling's series, without cancellation.
    fn log_constant(self) -> f64 {
        let nu = self.nu;
        if nu < LARGE {
            return nu * nu.ln() - nu - lgamma(nu);
        }
        let inverse_square = 1.0 / (nu * nu);
        let series =
            [-691.0 / 360_360.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0];
        let correction = series.iter().fold(0.0, |sum, c| sum * inverse_square + c) / nu;
        0.5 * (nu / std::f64::consts::TAU).ln() - correction
    }
}

impl RadialFunction for MaternShape {
    const TUNED: bool = false;
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        let z = (2.0 * self.nu).sqrt() * r;
        match z {
            0.0 => 1.0,
            FAR.. => 0.0,
            _ => self.integral(z).value.clamp(0.0, 1.0),
        }
    }
    fn slope(self, r: f64) -> f64 {
        let z = (2.0 * self.nu).sqrt() * r;
        match z {
            0.0 => 0.0,
            // The first terms for large z (Olver and Maximon 2010, equation 10.40.2).
            FAR.. => z + 0.5 - self.nu,
            _ => self.integral(z).mean_exponent,
        }
    }
    fn mixing_measure(self) -> Option<MixingMeasure> {
        Some(MixingMeasure::InverseGamma { shape: self.nu, scale: 0.5 * self.nu })
    }
    // `-ln k` is at most `z` from ν = 1/2 on (the gamma distribution increases with its shape), and for
    // smaller ν at most `ln(1 + 1/ν) + 1.5 z`. The errors of exponents are relative to their terms.
    fn precision(self) -> (f64, f64, [f64; 2]) {
        let constant =
            if self.nu < LARGE { lgamma(self.nu).abs() + self.nu * self.nu.ln().abs() } else { 2.0 };
        let units = 80.0 + 8.0 * (constant + self.nu) + 20.0 * self.nu.recip().ln_1p();
        (units, 20.0, [1.5 * (2.0 * self.nu).sqrt(), 0.0])
    }
    // The mean rate of the mixture; its mean exponent bounds the function by Jensen's inequality.
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        (self.nu > 1.0).then(|| 0.5 * self.nu / (self.nu - 1.0))
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        student_t_draw(2.0 * self.nu, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::stationary_functions::{ExponentialShape, Matern32Shape, Matern52Shape};
    use crate::simd::Plain;

    fn close(a: f64, b: f64, label: &str) {
        assert!((a - b).abs() <= 1e-13 * b.abs() + 1e-19, "{label}: {a} {b}");
    }

    #[test]
    fn half_integers_are_elementary_functions() {
        for k in -900..=170 {
            let r = 10.0_f64.powf(f64::from(k) / 60.0);
            let value = |nu: f64| MaternShape { nu }.at_distance::<Plain>(r);
            let scale = 1.0 + r;
            let near = |a: f64, b: f64, label: &str| {
                assert!((a - b).abs() <= 4e-15 * (scale * b.abs()) + 1e-300, "{label} {r}: {a} {b}");
            };
            near(value(0.5), ExponentialShape.at_distance::<Plain>(r), "1/2");
            near(value(1.5), Matern32Shape.at_distance::<Plain>(r), "3/2");
            near(value(2.5), Matern52Shape.at_distance::<Plain>(r), "5/2");
            let z = 7.0_f64.sqrt() * r;
            near(value(3.5), (1.0 + z + 0.4 * z * z + z * z * z / 15.0) * (-z).exp(), "7/2");
            close(MaternShape { nu: 0.5 }.slope(r), ExponentialShape.slope(r), "slope 1/2");
            close(MaternShape { nu: 1.5 }.slope(r), Matern32Shape.slope(r), "slope 3/2");
            close(MaternShape { nu: 2.5 }.slope(r), Matern52Shape.slope(r), "slope 5/2");
        }
    }

    /// Values of mpmath with 40 digits.
    #[test]
    fn values_and_slopes_are_those_of_bessel_functions() {
        for (nu, r, value, slope) in [
            (0.05, 1e-12, 0.944_408_458_275_666_8, 0.005_886_387_530_437_223),
            (0.05, 1.3, 0.103_697_603_752_153_62, 0.747_731_870_881_427_3),
            (0.05, 40.0, 1.262_441_889_229_876_8e-7, 13.090_018_388_199_379),
            (0.3, 0.001, 0.987_025_423_720_005_3, 0.007_886_776_343_417_89),
            (0.3, 6.0, 0.004_722_923_197_855_899, 4.833_201_028_297_227),
            (1.0, 0.2, 0.923_792_580_111_936_8, 0.123_548_110_659_100_72),
            (1.0, 40.0, 2.569_185_777_049_185_6e-24, 56.075_057_073_132_825),
            (4.2, 1.3, 0.387_792_886_163_183_7, 1.680_767_711_309_219_6),
            (4.2, 40.0, 3.688_557_609_697_406e-45, 112.305_353_316_071_66),
            (100.0, 0.001, 0.999_999_494_949_623_8, 1.010_101_004_895_377_3e-6),
            (100.0, 6.0, 5.002_210_353_285_515e-8, 31.358_830_865_929_85),
            (100.0, 40.0, 2.283_295_012_922_268_3e-154, 474.940_934_344_007_5),
        ] {
            let shape = MaternShape { nu };
            let (units, per_log, [linear, _]) = shape.precision();
            let relative = units + per_log * linear * r;
            let error = (shape.at_distance::<Plain>(r) - value).abs();
            assert!(error <= f64::EPSILON * relative * value, "{nu} {r}: {error}");
            assert!((shape.slope(r) - slope).abs() <= 1e-12 * slope, "{nu} {r}");
            assert!(-value.ln() <= linear * r + nu.recip().ln_1p(), "{nu} {r}");
        }
    }
}
