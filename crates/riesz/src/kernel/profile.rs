//! Profiles of stationary kernels: how similarity falls with the scaled distance r.
//!
//! A new profile is a struct with [`Shape`] here and one line in the registry below.

use serde::{Deserialize, Serialize};

use crate::simd::{Simd, exp_neg};

/// A function of the scaled distance `r ≥ 0`, 1 at 0.
pub(crate) trait Shape: Copy {
    /// The value at distance `r`.
    fn at_distance<V: Simd>(self, r: f64) -> f64;
    /// The value at squared distance `s = r²`.
    #[inline(always)]
    fn at_square<V: Simd>(self, s: f64) -> f64 {
        self.at_distance::<V>(s.sqrt())
    }
    /// `-d ln k / d ln r` at distance `r`.
    fn slope(self, r: f64) -> f64;
}

macro_rules! profiles {
    ($($(#[$doc:meta])* $variant:ident $({ $($field:ident),* })? = $name:literal, $formula:literal, $shape:expr;)*) => {
        /// How similarity falls with the scaled distance `r = |u - v| / lengthscale`.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "profile", rename_all = "snake_case")]
        pub enum Profile { $($(#[$doc])* $variant $({ $(#[doc = "Shape parameter, > 0."] $field: f64),* })?,)* }

        impl Profile {
            /// The name by which commands and files call it.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name,)* }
            }

            /// Its formula in r.
            pub fn formula(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $formula,)* }
            }
        }

        /// Runs `$body` with `$s` bound to the profile's shape, once per profile, so that loops specialise.
        macro_rules! with_shape {
            ($profile_expr:expr, $s:ident => $body:expr) => {
                match $profile_expr {
                    $($crate::kernel::Profile::$variant $({ $($field),* })? => { let $s = $shape; $body })*
                }
            };
        }
    };
}

profiles! {
    /// `exp(-r²/2)`, the RBF kernel.
    Gaussian = "rbf", "exp(-r²/2)", crate::kernel::profile::GaussianShape;
    /// `exp(-r)`: the Laplacian kernel; per column also the Matérn 1/2 kernel.
    Exponential = "laplacian", "exp(-r)", crate::kernel::profile::ExponentialShape;
    /// `(1 + √3 r) exp(-√3 r)`.
    Matern32 = "matern32", "(1 + √3 r) exp(-√3 r)", crate::kernel::profile::Matern32Shape;
    /// `(1 + √5 r + 5r²/3) exp(-√5 r)`.
    Matern52 = "matern52", "(1 + √5 r + 5r²/3) exp(-√5 r)", crate::kernel::profile::Matern52Shape;
    /// `(1 + r²/(2α))^-α`.
    RationalQuadratic { alpha } = "rq", "(1 + r²/(2α))^-α", crate::kernel::profile::RationalQuadraticShape { alpha };
    /// `1 / (1 + r²)`.
    Cauchy = "cauchy", "1 / (1 + r²)", crate::kernel::profile::CauchyShape;
}
pub(crate) use with_shape;

#[derive(Clone, Copy)]
pub(crate) struct GaussianShape;
impl Shape for GaussianShape {
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
}
