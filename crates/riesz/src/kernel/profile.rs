//! Shapes of profiles of stationary kernels: how similarity falls with the scaled distance r.
//!
//! A new profile is a struct with [`Shape`] here and one line of `profiles!` in `stationary.rs`.

use crate::random::{Exp1, Random, RngExt, StandardNormal, StudentT};
use crate::simd::{Simd, exp_neg};

/// A function of the scaled distance `r ≥ 0`, 1 at 0 and falling.
pub(crate) trait Shape: Copy {
    /// Whether the product over columns is the profile of the joint distance.
    const RADIAL: bool = false;
    /// The value at distance `r`.
    fn at_distance<V: Simd>(self, r: f64) -> f64;
    /// The value at squared distance `s = r²`.
    #[inline(always)]
    fn at_square<V: Simd>(self, s: f64) -> f64 {
        self.at_distance::<V>(s.sqrt())
    }
    /// `-d ln k / d ln r` at distance `r`.
    fn slope(self, r: f64) -> f64;
    /// `∂ ln k / ∂ ln p` at squared distance `s`, in its own parameter p of this number.
    fn parameter_slope(self, _: usize, _: f64) -> f64 {
        0.0
    }
    /// A draw from the spectral density with length scale 1, where it is known.
    fn frequency(self, _: &mut Random) -> Option<f64> {
        None
    }
}

/// A draw from Student's t distribution, the spectral density of the Matérn kernel with ν = half the degrees of freedom.
fn student(degrees: f64, random: &mut Random) -> Option<f64> {
    StudentT::new(degrees).ok().map(|t| random.sample(t))
}

#[derive(Clone, Copy)]
pub(crate) struct GaussianShape;
impl Shape for GaussianShape {
    const RADIAL: bool = true;
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        exp_neg::<V>(-0.5 * (r * r))
    }
    #[inline(always)]
    fn at_square<V: Simd>(self, s: f64) -> f64 {
        exp_neg::<V>(-0.5 * s)
    }
    fn slope(self, r: f64) -> f64 {
        r * r
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        Some(random.sample(StandardNormal))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct ExponentialShape;
impl Shape for ExponentialShape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        exp_neg::<V>(-r)
    }
    fn slope(self, r: f64) -> f64 {
        r
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        student(1.0, random)
    }
}

const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_5: f64 = 2.236_067_977_499_79;

#[derive(Clone, Copy)]
pub(crate) struct Matern32Shape;
impl Shape for Matern32Shape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        let q = SQRT_3 * r;
        let e = exp_neg::<V>(-q);
        // The polynomial overflows where the exponential is 0.
        if e == 0.0 { 0.0 } else { (1.0 + q) * e }
    }
    fn slope(self, r: f64) -> f64 {
        3.0 * r * r / (1.0 + SQRT_3 * r)
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        student(3.0, random)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Matern52Shape;
impl Shape for Matern52Shape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        let q = SQRT_5 * r;
        let e = exp_neg::<V>(-q);
        if e == 0.0 { 0.0 } else { (1.0 + q + q * q / 3.0) * e }
    }
    fn slope(self, r: f64) -> f64 {
        let q = SQRT_5 * r;
        q * q * (1.0 + q) / (3.0 + 3.0 * q + q * q)
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        student(5.0, random)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct RationalQuadraticShape {
    pub(crate) alpha: f64,
}
impl Shape for RationalQuadraticShape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        self.at_square::<V>(r * r)
    }
    #[inline(always)]
    fn at_square<V: Simd>(self, s: f64) -> f64 {
        (-self.alpha * (s / (2.0 * self.alpha)).ln_1p()).exp()
    }
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
impl Shape for CauchyShape {
    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        1.0 / (1.0 + r * r)
    }
    fn slope(self, r: f64) -> f64 {
        2.0 * r * r / (1.0 + r * r)
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        // 1 / (1 + r²) is the transform of exp(-|ω|) / 2.
        let size: f64 = random.sample(Exp1);
        Some(if random.random() { size } else { -size })
    }
}
