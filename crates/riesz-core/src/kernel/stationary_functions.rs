//! Profiles of stationary kernels: the kernel value as a function of the scaled distance r.
//!
//! To add a profile, write a struct that implements [`RadialFunction`] here, and a line of `profiles!` in
//! `stationary.rs`.

use super::gaussian_mixture::MixingMeasure;
use crate::random::{Exp1, Random, RngExt, StandardNormal, StudentT};
use crate::simd::{Simd, exp_neg};

/// A decreasing function of the scaled distance `r ≥ 0` whose value at 0 is 1.
pub(crate) trait RadialFunction: Copy {
    /// Whether the product over columns is the profile of the joint distance.
    const IS_RADIAL: bool = false;
    /// Whether the shape parameters are tuned with the length scales.
    const TUNED: bool = true;
    /// The value at distance `r`.
    fn at_distance<V: Simd>(self, r: f64) -> f64;
    /// The value at squared distance `s = r²`.
    #[inline(always)]
    fn at_squared_distance<V: Simd>(self, s: f64) -> f64 {
        self.at_distance::<V>(s.sqrt())
    }
    /// `-d ln k / d ln r` at distance `r`.
    fn slope(self, r: f64) -> f64;
    /// Bounds of the rounding error at a distance that itself has three roundings. The first number counts
    /// the roundings of the value, the second the roundings for each unit of `-ln k`. The last two are the
    /// multiples of `r` and of `r²` whose sum bounds `-ln k`.
    fn precision(self) -> (f64, f64, [f64; 2]);
    /// The coefficient c of a parabola `1 - c r²` that bounds the profile from below. `None` for profiles
    /// that have no such bound, as the exponential.
    fn quadratic_lower_coefficient(self) -> Option<f64>;
    /// The derivative `∂ ln k / ∂ ln p` at squared distance `s`, where p is the shape parameter with this
    /// index.
    fn parameter_slope(self, _: usize, _: f64) -> f64 {
        0.0
    }
    /// The mixture of Gaussians that the function of the distance over several columns is; `None` for the
    /// Gaussian itself.
    fn mixing_measure(self) -> Option<MixingMeasure> {
        None
    }
    /// A draw from the spectral density with length scale 1; `None` if it is not known.
    fn frequency(self, _: &mut Random) -> Option<f64> {
        None
    }
}

/// A draw from Student's t distribution with `degrees` degrees of freedom: the spectral density of the Matérn
/// kernel with ν = `degrees` / 2.
pub(super) fn student_t_draw(degrees: f64, random: &mut Random) -> Option<f64> {
    StudentT::new(degrees).ok().map(|t| random.sample(t))
}

/// The measure of the Matérn kernel with ν = `degrees` / 2.
fn matern_measure(degrees: f64) -> Option<MixingMeasure> {
    Some(MixingMeasure::InverseGamma { shape: 0.5 * degrees, scale: 0.25 * degrees })
}

#[derive(Clone, Copy)]
pub(crate) struct GaussianShape;
impl RadialFunction for GaussianShape {
    const IS_RADIAL: bool = true;
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        exp_neg::<V>(-0.5 * (r * r))
    }
    #[inline(always)]
    fn at_squared_distance<V: Simd>(self, s: f64) -> f64 {
        exp_neg::<V>(-0.5 * s)
    }
    fn precision(self) -> (f64, f64, [f64; 2]) {
        (4.0, 7.0, [0.0, 0.5])
    }
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        Some(0.5)
    }
    #[inline(always)]
    fn slope(self, r: f64) -> f64 {
        r * r
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        Some(random.sample(StandardNormal))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct ExponentialShape;
impl RadialFunction for ExponentialShape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        exp_neg::<V>(-r)
    }
    fn mixing_measure(self) -> Option<MixingMeasure> {
        matern_measure(1.0)
    }
    fn precision(self) -> (f64, f64, [f64; 2]) {
        (4.0, 3.0, [1.0, 0.0])
    }
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        None
    }
    #[inline(always)]
    fn slope(self, r: f64) -> f64 {
        r
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        student_t_draw(1.0, random)
    }
}

const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_5: f64 = 2.236_067_977_499_79;

#[derive(Clone, Copy)]
pub(crate) struct Matern32Shape;
impl RadialFunction for Matern32Shape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        let q = SQRT_3 * r;
        let e = exp_neg::<V>(-q);
        // The polynomial overflows where the exponential is 0.
        if e == 0.0 { 0.0 } else { (1.0 + q) * e }
    }
    fn mixing_measure(self) -> Option<MixingMeasure> {
        matern_measure(3.0)
    }
    // The distance's error matters times the slope, which `-ln k` plus a part of a unit bounds.
    fn precision(self) -> (f64, f64, [f64; 2]) {
        (9.0, 8.0, [SQRT_3, 0.0])
    }
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        Some(1.5)
    }
    #[inline(always)]
    fn slope(self, r: f64) -> f64 {
        3.0 * r * r / (1.0 + SQRT_3 * r)
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        student_t_draw(3.0, random)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Matern52Shape;
impl RadialFunction for Matern52Shape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        let q = SQRT_5 * r;
        let e = exp_neg::<V>(-q);
        if e == 0.0 { 0.0 } else { (1.0 + q + q * q / 3.0) * e }
    }
    fn mixing_measure(self) -> Option<MixingMeasure> {
        matern_measure(5.0)
    }
    fn precision(self) -> (f64, f64, [f64; 2]) {
        (10.0, 8.0, [SQRT_5, 0.0])
    }
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        Some(5.0 / 6.0)
    }
    #[inline(always)]
    fn slope(self, r: f64) -> f64 {
        let q = SQRT_5 * r;
        q * q * (1.0 + q) / (3.0 + 3.0 * q + q * q)
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        student_t_draw(5.0, random)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct RationalQuadraticShape {
    pub alpha: f64,
}
/// Above this value squares are close to the largest double, and adding 1 does not change the number.
const FAR: f64 = 1e150;
impl RationalQuadraticShape {
    /// The value if `r²/(2α)` exceeds [`FAR`], computed from `ln r²`; NaN if `ln r²` is not finite.
    #[cold]
    fn asymptotic_value(self, log_square: f64) -> f64 {
        if log_square < f64::INFINITY {
            (-self.alpha * (log_square - (2.0 * self.alpha).ln())).exp()
        } else {
            f64::NAN
        }
    }
}
impl RadialFunction for RationalQuadraticShape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        if r < FAR { self.at_squared_distance::<V>(r * r) } else { self.asymptotic_value(2.0 * r.ln()) }
    }
    #[inline(always)]
    fn at_squared_distance<V: Simd>(self, s: f64) -> f64 {
        let z = s / (2.0 * self.alpha);
        if z < FAR { (-self.alpha * z.ln_1p()).exp() } else { self.asymptotic_value(s.ln()) }
    }
    fn mixing_measure(self) -> Option<MixingMeasure> {
        Some(MixingMeasure::Gamma { shape: self.alpha, scale: 0.5 / self.alpha })
    }
    fn precision(self) -> (f64, f64, [f64; 2]) {
        (5.0, 12.0, [0.0, 0.5])
    }
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        Some(0.5)
    }
    #[inline(always)]
    fn slope(self, r: f64) -> f64 {
        let s = r * r;
        s / (1.0 + s / (2.0 * self.alpha))
    }
    fn parameter_slope(self, _: usize, s: f64) -> f64 {
        let q = s / (2.0 * self.alpha);
        self.alpha * (q / (1.0 + q) - q.ln_1p())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct CauchyShape;
impl RadialFunction for CauchyShape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        1.0 / (1.0 + r * r)
    }
    fn mixing_measure(self) -> Option<MixingMeasure> {
        Some(MixingMeasure::Gamma { shape: 1.0, scale: 1.0 })
    }
    fn precision(self) -> (f64, f64, [f64; 2]) {
        (10.0, 0.0, [0.0, 0.0])
    }
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        Some(1.0)
    }
    #[inline(always)]
    fn slope(self, r: f64) -> f64 {
        2.0 * r * r / (1.0 + r * r)
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        // 1 / (1 + r²) is the transform of exp(-|ω|) / 2.
        let size: f64 = random.sample(Exp1);
        Some(if random.random() { size } else { -size })
    }
}

#[derive(Clone, Copy)]
pub(crate) struct InverseMultiquadricShape;
impl RadialFunction for InverseMultiquadricShape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        self.at_squared_distance::<V>(r * r)
    }
    #[inline(always)]
    fn at_squared_distance<V: Simd>(self, s: f64) -> f64 {
        1.0 / (1.0 + s).sqrt()
    }
    fn mixing_measure(self) -> Option<MixingMeasure> {
        Some(MixingMeasure::Gamma { shape: 0.5, scale: 1.0 })
    }
    fn precision(self) -> (f64, f64, [f64; 2]) {
        (10.0, 0.0, [0.0, 0.0])
    }
    fn quadratic_lower_coefficient(self) -> Option<f64> {
        Some(0.5)
    }
    #[inline(always)]
    fn slope(self, r: f64) -> f64 {
        r * r / (1.0 + r * r)
    }
}
