//! Profiles of stationary kernels: how similarity falls with the scaled distance r.
//!
//! A new profile is a struct with [`Shape`] here and one line in the registry below.

use serde::{Deserialize, Serialize};

use super::registry::{Argument, Declaration, Takes};
use super::stationary::{ARD, ISOTROPIC, LENGTHSCALE, make};
use crate::random::Random;
use crate::simd::{Simd, exp_neg};

/// A function of the scaled distance `r ≥ 0`, 1 at 0 and falling.
pub(crate) trait Shape: Copy {
    /// What it says of itself as a factor.
    const DECLARATION: &'static Declaration;
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

macro_rules! profiles {
    ($($(#[$doc:meta])* $variant:ident $({ $($field:ident),* })? = $shape:ident;)*) => {
        /// How similarity falls with the scaled distance `r = |u - v| / lengthscale`.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "profile", rename_all = "snake_case")]
        pub enum Profile { $($(#[$doc])* $variant $({ $(#[doc = "Shape parameter, > 0."] $field: f64),* })?,)* }

        /// What every profile says of itself.
        pub(super) const PROFILES: &[&Declaration] = &[$($shape::DECLARATION),*];

        impl Profile {
            /// What it says of itself as a factor.
            pub fn declaration(&self) -> &'static Declaration {
                match self { $(Self::$variant { .. } => $shape::DECLARATION,)* }
            }

            /// Whether the product over columns is the profile of the joint distance.
            pub(super) fn radial(&self) -> bool {
                match self { $(Self::$variant { .. } => $shape::RADIAL,)* }
            }

            /// Its own parameters.
            pub(super) fn parameters(&self) -> Vec<(&'static str, f64)> {
                match *self { $(Self::$variant $({ $($field),* })? => vec![$($((stringify!($field), $field)),*)?],)* }
            }

            /// Its own parameters, to be set.
            pub(super) fn parameters_mut(&mut self) -> Vec<&mut f64> {
                match self { $(Self::$variant $({ $($field),* })? => vec![$($($field),*)?],)* }
            }
        }

        /// Runs `$body` with `$s` bound to the profile's shape, once per profile, so that loops specialise.
        macro_rules! with_shape {
            ($profile_expr:expr, $s:ident => $body:expr) => {
                match $profile_expr {
                    $($crate::kernel::Profile::$variant $({ $($field),* })? => {
                        let $s = $crate::kernel::profile::$shape $({ $($field),* })?;
                        $body
                    })*
                }
            };
        }
    };
}

profiles! {
    /// `exp(-r²/2)`, the RBF kernel.
    Gaussian = GaussianShape;
    /// `exp(-r)`: the Laplacian kernel; per column also the Matérn 1/2 kernel.
    Exponential = ExponentialShape;
    /// `(1 + √3 r) exp(-√3 r)`.
    Matern32 = Matern32Shape;
    /// `(1 + √5 r + 5r²/3) exp(-√5 r)`.
    Matern52 = Matern52Shape;
    /// `(1 + r²/(2α))^-α`.
    RationalQuadratic { alpha } = RationalQuadraticShape;
    /// `1 / (1 + r²)`.
    Cauchy = CauchyShape;
}
pub(crate) use with_shape;

/// As scikit-learn has it, the Python classes are isotropic unless they are told.
const ISOTROPIC_AT_FIRST: Argument = Argument { python: "isotropic", default: 1.0, ..ISOTROPIC };

/// A draw from Student's t distribution, the spectral density of the Matérn kernel with ν = half the degrees of freedom.
fn student(degrees: u32, random: &mut Random) -> f64 {
    let square: f64 = (0..degrees).map(|_| random.normal().powi(2)).sum();
    random.normal() / (square / f64::from(degrees)).sqrt()
}

#[derive(Clone, Copy)]
pub(crate) struct GaussianShape;
impl Shape for GaussianShape {
    const DECLARATION: &'static Declaration = &Declaration {
        names: &["rbf", "gaussian"],
        python: "RBF",
        formula: "exp(-r²/2)",
        categorical: false,
        arguments: &[LENGTHSCALE, ARD, ISOTROPIC],
        make: |columns, values| make(Profile::Gaussian, columns, values),
    };
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
        Some(random.normal())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct ExponentialShape;
impl Shape for ExponentialShape {
    const DECLARATION: &'static Declaration = &Declaration {
        names: &["laplacian", "exponential", "matern12"],
        python: "Laplacian",
        formula: "exp(-r)",
        categorical: false,
        arguments: &[LENGTHSCALE, ARD, ISOTROPIC],
        make: |columns, values| make(Profile::Exponential, columns, values),
    };

    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        exp_neg::<V>(-r)
    }
    fn slope(self, r: f64) -> f64 {
        r
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        Some(student(1, random))
    }
}

const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_5: f64 = 2.236_067_977_499_79;

#[derive(Clone, Copy)]
pub(crate) struct Matern32Shape;
impl Shape for Matern32Shape {
    const DECLARATION: &'static Declaration = &Declaration {
        names: &["matern32"],
        python: "Matern",
        formula: "(1 + √3 r) exp(-√3 r)",
        categorical: false,
        arguments: &[LENGTHSCALE, ARD, ISOTROPIC_AT_FIRST],
        make: |columns, values| make(Profile::Matern32, columns, values),
    };

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
        Some(student(3, random))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Matern52Shape;
impl Shape for Matern52Shape {
    const DECLARATION: &'static Declaration = &Declaration {
        names: &["matern52"],
        python: "Matern",
        formula: "(1 + √5 r + 5r²/3) exp(-√5 r)",
        categorical: false,
        arguments: &[LENGTHSCALE, ARD, ISOTROPIC_AT_FIRST],
        make: |columns, values| make(Profile::Matern52, columns, values),
    };

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
        Some(student(5, random))
    }
}

const ALPHA: Argument = Argument::new(
    "alpha",
    Takes::Positive,
    1.0,
    "weighs large scales against small: the larger, the nearer to rbf",
);

#[derive(Clone, Copy)]
pub(crate) struct RationalQuadraticShape {
    pub(crate) alpha: f64,
}
impl Shape for RationalQuadraticShape {
    const DECLARATION: &'static Declaration = &Declaration {
        names: &["rq", "rational_quadratic"],
        python: "RationalQuadratic",
        formula: "(1 + r²/(2α))^-α",
        categorical: false,
        arguments: &[LENGTHSCALE, ALPHA, ARD, ISOTROPIC_AT_FIRST],
        make: |columns, values| {
            make(Profile::RationalQuadratic { alpha: values.number(ALPHA.name) }, columns, values)
        },
    };

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
    const DECLARATION: &'static Declaration = &Declaration {
        names: &["cauchy"],
        python: "Cauchy",
        formula: "1 / (1 + r²)",
        categorical: false,
        arguments: &[LENGTHSCALE, ARD, ISOTROPIC],
        make: |columns, values| make(Profile::Cauchy, columns, values),
    };

    #[inline(always)]
    fn at_distance<V: Simd>(self, r: f64) -> f64 {
        1.0 / (1.0 + r * r)
    }
    fn slope(self, r: f64) -> f64 {
        2.0 * r * r / (1.0 + r * r)
    }
    fn frequency(self, random: &mut Random) -> Option<f64> {
        // 1 / (1 + r²) is the transform of exp(-|ω|) / 2.
        let sign = if random.bits() & 1 == 0 { 1.0 } else { -1.0 };
        Some(-sign * random.uniform().ln())
    }
}
