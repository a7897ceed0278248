//! Stationary factors: a profile of the scaled distance, per column or over all columns jointly.

use serde::{Deserialize, Serialize};

use super::gaussian_mixture::{GaussianMixture, RadialFactor, RadialMixture};
use super::kernel_tile;
use super::matern::MaternShape;
use super::player_products::RadialApproximation;
use super::registry::{Argument, ArgumentField, ArgumentType, ArgumentValues, FactorSchema};
use super::rounding_bounds::{TINY, union_probability};
use super::stationary_functions::{
    CauchyShape, ExponentialShape, GaussianShape, InverseMultiquadricShape, Matern32Shape, Matern52Shape,
    RadialFunction, RationalQuadraticShape,
};
use super::{ColumnRanges, Columns, Factor, Kernel, KernelFactor, Parameter, RoundingBound, Structure};
use crate::random::Random;
use crate::simd::{Isa, LANES, Plain, Simd, dispatch, fma};

pub(super) const LENGTH_SCALE: Argument = Argument::new(
    "length_scale",
    ArgumentType::LengthScales,
    1.0,
    "in units of the columns' scale, or a rule: median, median_per_feature, scale, auto",
)
.or("lengthscale");
pub(super) const ARD: Argument =
    Argument::new("ard", ArgumentType::Flag, 0.0, "tune the length scales of the columns one by one")
        .in_python("");
const ISOTROPIC: Argument =
    Argument::new("isotropic", ArgumentType::Flag, 0.0, "a single joint distance over all of the columns")
        .in_python("");

/// The `isotropic` argument with the Python classes' default, which is scikit-learn's.
const JOINT: Argument = Argument { python: "isotropic", default: 1.0, ..ISOTROPIC };
const ALPHA: Argument = Argument::new(
    "alpha",
    ArgumentType::Positive,
    1.0,
    "weighs large scales against small: the larger, the nearer to rbf",
);

const NU: Argument = Argument::new(
    "nu",
    ArgumentType::Within(0.05, 100.0),
    1.5,
    "smoothness: functions have about this many derivatives",
);

macro_rules! profiles {
    ($($(#[$doc:meta])* $variant:ident $({ $($field:ident),* })? = $shape:ident: $python:literal, $formula:literal, $names:expr, $own:expr;)*) => {
        /// Kernel value as a function of the scaled distance `r = |u - v| / length_scale`.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "profile", rename_all = "snake_case")]
        pub enum Profile { $($(#[$doc])* $variant $({ $(#[doc = "Shape parameter, > 0."] $field: f64),* })?,)* }

        /// The schemas of all profiles.
        const PROFILES: &[&FactorSchema] = &[$($shape::DECLARATION),*];

        $(impl $shape {
            const DECLARATION: &'static FactorSchema = &FactorSchema {
                names: &$names,
                python: $python,
                formula: $formula,
                categorical: false,
                arguments: &$own,
                make: |columns, values| {
                    make(Profile::$variant $({ $($field: values.number(stringify!($field))),* })?, columns, values)
                },
            };
        })*

        impl Profile {
            /// The profile's schema.
            fn declaration(&self) -> &'static FactorSchema {
                match self { $(Self::$variant { .. } => $shape::DECLARATION,)* }
            }

            /// Whether the product over columns is the profile of the joint distance.
            fn radial(&self) -> bool {
                match self { $(Self::$variant { .. } => $shape::IS_RADIAL,)* }
            }

            /// Whether the shape parameters are tuned.
            fn tuned(&self) -> bool {
                match self { $(Self::$variant { .. } => $shape::TUNED,)* }
            }

            /// The profile's shape parameters.
            fn parameters(&self) -> Vec<(&'static str, f64)> {
                match *self { $(Self::$variant $({ $($field),* })? => vec![$($((stringify!($field), $field)),*)?],)* }
            }

            /// The profile's shape parameters, by mutable reference.
            fn parameters_mut(&mut self) -> Vec<&mut f64> {
                match self { $(Self::$variant $({ $($field),* })? => vec![$($($field),*)?],)* }
            }
        }

        /// Runs `$body` with `$s` bound to the profile's shape, once per profile, so that the compiler
        /// specialises loops.
        macro_rules! with_shape {
            ($profile_expr:expr, $s:ident => $body:expr) => {
                match $profile_expr {
                    $(Profile::$variant $({ $($field),* })? => {
                        let $s = $shape $({ $($field),* })?;
                        $body
                    })*
                }
            };
        }
    };
}

profiles! {
    /// `exp(-r²/2)`, the RBF kernel.
    Gaussian = GaussianShape: "RBF", "exp(-r²/2)", ["rbf", "gaussian"], [LENGTH_SCALE, ARD, ISOTROPIC];
    /// `exp(-r)`: the Laplacian kernel; per column also the Matérn 1/2 kernel.
    Exponential = ExponentialShape: "Laplacian", "exp(-r)", ["laplacian", "exponential", "matern12"],
        [LENGTH_SCALE, ARD, ISOTROPIC];
    /// `(1 + √3 r) exp(-√3 r)`.
    Matern32 = Matern32Shape: "Matern", "(1 + √3 r) exp(-√3 r)", ["matern32"], [LENGTH_SCALE, ARD, JOINT];
    /// `(1 + √5 r + 5r²/3) exp(-√5 r)`.
    Matern52 = Matern52Shape: "Matern", "(1 + √5 r + 5r²/3) exp(-√5 r)", ["matern52"], [LENGTH_SCALE, ARD, JOINT];
    /// `2^(1-ν)/Γ(ν) z^ν K_ν(z)` at `z = √(2ν) r`.
    Matern { nu } = MaternShape:
        "Matern", "Matérn of smoothness nu", ["matern"], [LENGTH_SCALE, NU, ARD, JOINT];
    /// `(1 + r²/(2α))^-α`.
    RationalQuadratic { alpha } = RationalQuadraticShape:
        "RationalQuadratic", "(1 + r²/(2α))^-α", ["rq", "rational_quadratic"],
        [LENGTH_SCALE, ALPHA, ARD, JOINT];
    /// `1 / (1 + r²)`.
    Cauchy = CauchyShape: "Cauchy", "1 / (1 + r²)", ["cauchy"], [LENGTH_SCALE, ARD, ISOTROPIC];
    /// `1 / √(1 + r²)`.
    InverseMultiquadric = InverseMultiquadricShape: "InverseMultiquadric", "1 / √(1 + r²)",
        ["imq", "inverse_multiquadric"], [LENGTH_SCALE, ARD, JOINT];
}

impl Profile {
    /// Matérn profiles of order 5/2 and 3/2: the functions of their processes have two derivatives, and one.
    pub const MATERN: [Self; 2] = [Self::Matern52, Self::Matern32];

    /// The [Matérn profiles](Self::MATERN), and the exponential profile, whose functions have no derivative.
    pub const ROUGHER: [Self; 3] = [Self::Matern52, Self::Matern32, Self::Exponential];
}

/// Builds a factor with this profile.
fn make(profile: Profile, columns: Vec<usize>, values: &ArgumentValues) -> Vec<Factor> {
    let (ard, isotropic) = (values.field(ARD.name), values.field(ISOTROPIC.name));
    vec![
        Stationary { profile, columns, length_scale: values.field(LENGTH_SCALE.name), ard, isotropic }.into(),
    ]
}

/// `Π_c g(|u_c - v_c| / ℓ_c)` over the columns c; if `isotropic`, `g(√Σ_c (u_c - v_c)² / ℓ_c²)`.
///
/// For the Gaussian profile both forms are the same function. The other isotropic forms (Matérn and rational
/// quadratic as in scikit-learn) are joint functions of their columns. If these belong to several players,
/// the function is approximated by a sum of Gaussians, whose error is proved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stationary {
    /// The profile g.
    #[serde(flatten)]
    pub profile: Profile,
    /// The table's columns that the factor reads.
    pub columns: Vec<usize>,
    /// Length scale `ℓ_c` of each column, in the column's units.
    #[serde(alias = "lengthscale")]
    pub length_scale: Vec<f64>,
    /// Whether the length scales are tuned one by one (automatic relevance determination) or by a common
    /// multiple.
    pub ard: bool,
    /// Whether the distance is taken over all columns jointly.
    pub isotropic: bool,
}

/// Bounds of a profile of the joint distance.
pub(super) struct DistanceBounds {
    /// Largest absolute derivative of the profile in the squared distance; the profile attains it at 0.
    pub(super) steepest: f64,
    /// Number of roundings of the profile itself, absolute, as its values are at most 1.
    pub(super) roundings: f64,
}

/// Sums of Gaussians are accurate up to this multiple of the data's extent.
const RANGE_MARGIN: f64 = 4.0;

/// Number of rows whose squared distances are stored at a time.
const RUN: usize = 128;

impl Stationary {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = PROFILES;

    /// The squared scaled distances between `v` and the rows of `u` from row `c RUN` on.
    fn squares<'o>(
        &self,
        isa: Isa,
        u: Columns<'_>,
        c: usize,
        v: &[f64],
        out: &'o mut [f64],
    ) -> &'o mut [f64] {
        out.fill(0.0);
        let rows = c * RUN..c * RUN + out.len();
        for (&j, l) in self.columns.iter().zip(&self.length_scale) {
            add_square(isa, &u.column(j)[rows.clone()], v[j], 1.0 / l, out);
        }
        out
    }

    fn joint(&self) -> bool {
        self.isotropic && self.columns.len() > 1 && !self.profile.radial()
    }

    /// Whether the factor is computed as the profile of one distance over several columns.
    fn by_distance(&self) -> bool {
        self.joint() || self.profile.radial() && self.columns.len() > 1
    }

    /// The bounds of the profile if the factor is a profile of the joint distance whose derivative in the
    /// squared distance is largest in magnitude at 0.
    pub(super) fn distance_bounds(&self) -> Option<DistanceBounds> {
        let steepest = with_shape!(self.profile, shape => shape.quadratic_lower_coefficient())?;
        let (units, per_log, _) = with_shape!(self.profile, shape => shape.precision());
        // `-k ln k` is below a half.
        let roundings = units + 0.5 * per_log;
        self.by_distance().then_some(DistanceBounds { steepest, roundings })
    }

    /// The Gaussian factor of one column.
    pub(super) fn gaussian_of_column(column: usize, length_scale: f64) -> Self {
        Self {
            profile: Profile::Gaussian,
            columns: vec![column],
            length_scale: vec![length_scale],
            ard: false,
            isotropic: false,
        }
    }

    /// Multiplies `out[i]` by the profile at the squared distance `squares[i]`.
    pub(super) fn multiply_squares(&self, isa: Isa, squares: &[f64], out: &mut [f64]) {
        with_shape!(self.profile, shape => of_square(isa, shape, squares, out));
    }
}

impl KernelFactor for Stationary {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.joint() { Structure::Joint } else { Structure::Separable }
    }

    fn declaration(&self) -> &'static FactorSchema {
        self.profile.declaration()
    }

    fn values(&self) -> ArgumentValues {
        let mut arguments = vec![(LENGTH_SCALE.name, self.length_scale.clone())];
        arguments.extend(self.profile.parameters().into_iter().map(|(name, value)| (name, vec![value])));
        arguments.extend([(ARD.name, self.ard.to_values()), (ISOTROPIC.name, self.isotropic.to_values())]);
        ArgumentValues(arguments)
    }

    fn multiply_column(&self, isa: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let inverse = 1.0 / self.length_scale[slot];
        with_shape!(self.profile, shape => column(isa, shape, u, v, inverse, out));
    }

    fn multiply_all(&self, isa: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        if self.by_distance() {
            // Squared distances first, then the profile once.
            let mut square = [0.0; RUN];
            for (c, out) in out.chunks_mut(RUN).enumerate() {
                let square = self.squares(isa, u, c, v, &mut square[..out.len()]);
                self.multiply_squares(isa, square, out);
            }
        } else {
            for (slot, &j) in self.columns.iter().enumerate() {
                self.multiply_column(isa, slot, u.column(j), v[j], out);
            }
        }
    }

    fn multiply_block(&self, isa: Isa, u: Columns<'_>, v: &[&[f64]], out: &mut kernel_tile::Block) {
        if v.len() > 1 && self.by_distance() {
            let mut square = [[0.0; kernel_tile::RUN]; kernel_tile::GROUP];
            kernel_tile::squares(isa, u, v, &self.columns, &self.length_scale, &mut square);
            for (square, out) in square.iter().zip(&mut out[..v.len()]) {
                self.multiply_squares(isa, &square[..u.len()], &mut out[..u.len()]);
            }
        } else {
            for (v, out) in v.iter().zip(out) {
                self.multiply_all(isa, u, v, &mut out[..u.len()]);
            }
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = tuned_length_scales(&self.columns, &self.length_scale, self.ard);
        let profile_parameters = self.profile.parameters().into_iter().filter(|_| self.profile.tuned());
        parameters.extend(profile_parameters.map(|(name, value)| Parameter::logarithm(name, value)));
        parameters
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        set_length_scales(&mut self.length_scale, self.ard, log_values);
        if !self.profile.tuned() {
            return;
        }
        let profile_parameters = self.profile.parameters_mut();
        let from = log_values.len().saturating_sub(profile_parameters.len());
        profile_parameters.into_iter().zip(&log_values[from..]).for_each(|(p, v)| *p = v.exp());
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        let isa = Isa::detect();
        for o in out.iter_mut() {
            o.fill(0.0);
        }
        let columns = || self.columns.iter().zip(self.length_scale.iter().map(|l| 1.0 / l)).enumerate();
        let length_index = |slot: usize| if self.ard { slot } else { 0 };
        let lengths = if self.ard { self.columns.len() } else { usize::from(!self.columns.is_empty()) };
        let (lengths, profile_slopes) = out.split_at_mut(lengths);
        let mut square = [0.0; RUN];
        let runs = (0..u.len()).step_by(RUN).map(|start| start..u.len().min(start + RUN)).enumerate();
        if self.joint() {
            // All columns share the derivative divided by the squared distance, so it is computed first.
            for (c, run) in runs.clone() {
                let slope = self.squares(isa, u, c, v, &mut square[..run.len()]);
                with_shape!(self.profile, shape => slope_over_square(isa, shape, slope));
                for (slot, (&j, inverse)) in columns() {
                    let (column, out) =
                        (&u.column(j)[run.clone()], &mut lengths[length_index(slot)][run.clone()]);
                    add_square_times(isa, column, v[j], inverse, slope, out);
                }
            }
        } else {
            for (slot, (&j, inverse)) in columns() {
                with_shape!(self.profile, shape => add_slope(isa, shape, u.column(j), v[j], inverse, &mut lengths[length_index(slot)]));
            }
        }
        for (p, out) in profile_slopes.iter_mut().enumerate() {
            with_shape!(self.profile, shape => if self.joint() {
                for (c, run) in runs.clone() {
                    let square = self.squares(isa, u, c, v, &mut square[..run.len()]);
                    out[run].iter_mut().zip(square).for_each(|(o, s)| *o = shape.parameter_slope(p, *s));
                }
            } else {
                for (_, (&j, inverse)) in columns() {
                    let squares = u.column(j).iter().map(|x| ((x - v[j]) * inverse).powi(2));
                    out.iter_mut().zip(squares).for_each(|(o, s)| *o += shape.parameter_slope(p, s));
                }
            });
        }
    }

    fn weigh_slopes(&self, isa: Isa, u: Columns<'_>, v: &[f64], weights: &[f64], out: &mut [f64]) {
        if self.joint() || !self.profile.parameters().is_empty() && self.profile.tuned() {
            return self.weighted_log_gradients(u, v, weights, out);
        }
        // Sums without a list of derivatives for every column: tuning spends most of its time here.
        out.fill(0.0);
        for (slot, (&j, l)) in self.columns.iter().zip(&self.length_scale).enumerate() {
            let (u, inverse) = (u.column(j), 1.0 / l);
            let slope =
                with_shape!(self.profile, shape => weigh_column(isa, shape, u, v[j], inverse, weights));
            out[if self.ard { slot } else { 0 }] += slope;
        }
    }

    fn min_within(&self, delta: &[f64]) -> Option<f64> {
        Some(self.value_at_difference(delta))
    }

    fn fall(&self, delta: &[f64]) -> Option<f64> {
        let scaled_squares =
            self.columns.iter().zip(&self.length_scale).map(|(&j, l)| (delta[j] / l).powi(2));
        let profile_decrease = |s: f64| {
            let (coefficient, value) = with_shape!(self.profile, shape => (shape.quadratic_lower_coefficient(), shape.at_squared_distance::<Plain>(s)));
            // Near 0 no profile is below its parabola; farther away the difference is accurate.
            match (coefficient, self.profile) {
                (Some(coefficient), _) => (coefficient * s).min(1.0 - value + 1e-14),
                (None, Profile::Exponential) => -(-s.sqrt()).exp_m1(),
                (None, _) => 1.0 - value + 1e-13,
            }
        };
        Some(if self.joint() || self.profile.radial() {
            profile_decrease(scaled_squares.sum())
        } else {
            scaled_squares.map(profile_decrease).fold(0.0, union_probability)
        })
    }

    fn precision(&self, slots: &[usize], ranges: &ColumnRanges) -> RoundingBound {
        let (units, per_log, exponent) = with_shape!(self.profile, shape => shape.precision());
        let scaled_distances =
            slots.iter().map(|&slot| ranges.max_difference(self.columns[slot]) / self.length_scale[slot]);
        let deepest = scaled_distances.map(|r| exponent[0] * r + exponent[1] * (r * r)).sum();
        let count = slots.len() as f64;
        // Either squared distances are summed before the profile is taken, or profiles are multiplied.
        let (units, per_log) = if count > 1.0 && (self.joint() || self.profile.radial()) {
            (units + 2.0, per_log + 2.0 + count)
        } else {
            (units * count, per_log)
        };
        RoundingBound { tiny: count * TINY, ..RoundingBound::new(units, per_log, deepest) }
    }

    fn is_radial(&self) -> bool {
        self.joint()
    }

    fn radial(&self, approximation: &RadialApproximation) -> Option<RadialFactor> {
        let columns = self.columns.iter().zip(&self.length_scale);
        let width = |(&j, l): (&usize, &f64)| (RANGE_MARGIN * approximation.column_widths[j] / l).powi(2);
        let max_square = columns.map(width).sum();
        with_shape!(self.profile, shape => {
            let function = |s: f64| shape.at_squared_distance::<Plain>(s);
            let parameter = self.profile.parameters().first().map_or(0.0, |(_, value)| *value);
            let identity = (self.declaration().names[0], parameter.to_bits());
            let (measure, (rounding, ..)) = (shape.mixing_measure()?, shape.precision());
            let radial = RadialMixture { function: &function, measure, rounding, identity };
            let mixture = GaussianMixture::of_function(radial, max_square, approximation.tolerance)?;
            let (columns, length_scales) = (self.columns.clone(), self.length_scale.clone());
            Some(RadialFactor { columns, length_scales, mixture })
        })
    }

    fn frequency(&self, slot: usize, random: &mut Random) -> Option<f64> {
        let drawn = with_shape!(self.profile, shape => shape.frequency(random));
        drawn.filter(|_| !self.joint()).map(|w| w / self.length_scale[slot])
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let kept_columns = self.columns.iter().zip(&self.length_scale).filter(|(j, _)| kept(**j));
        let (columns, length_scale): (Vec<usize>, Vec<f64>) = kept_columns.unzip();
        (!columns.is_empty()).then(|| Self { columns, length_scale, ..self.clone() }.into())
    }

    fn formula(&self) -> String {
        self.declaration().format_expression(&self.values(), if self.joint() { ISOTROPIC.name } else { "" })
    }
}

impl Kernel {
    /// Returns the kernel with this profile in every stationary factor whose profile has no parameters. The
    /// kernel's [parameters](Self::parameters) stay the same.
    ///
    /// # Panics
    /// If `profile` has parameters.
    pub fn with_profile(&self, profile: Profile) -> Self {
        assert!(profile.parameters().is_empty(), "{profile:?} has parameters");
        let mut kernel = self.clone();
        for factor in kernel.terms.iter_mut().flat_map(|term| &mut term.factors) {
            if let Factor::Stationary(stationary) = factor
                && stationary.profile.parameters().is_empty()
            {
                stationary.profile = profile;
            }
        }
        kernel
    }
}

/// The parameters of length scales that are tuned one by one or by a common multiple.
pub(super) fn tuned_length_scales(columns: &[usize], length_scale: &[f64], ard: bool) -> Vec<Parameter> {
    let parameter_of = |(j, l): (&usize, &f64)| {
        let name = if ard { format!("length_scale[{j}]") } else { "length_scale".into() };
        Parameter { name, log_value: l.ln() }
    };
    columns.iter().zip(length_scale).map(parameter_of).take(if ard { columns.len() } else { 1 }).collect()
}

/// Sets the length scales from the first of `log_values`.
pub(super) fn set_length_scales(length_scale: &mut [f64], ard: bool, log_values: &[f64]) {
    if ard {
        length_scale.iter_mut().zip(log_values).for_each(|(l, v)| *l = v.exp());
    } else if let Some(&first) = length_scale.first() {
        let ratio = log_values[0].exp() / first;
        length_scale.iter_mut().for_each(|l| *l *= ratio);
    }
}

dispatch! {
    fn column<V: Simd, S: RadialFunction>(shape: S, u: &[f64], v: f64, inverse: f64, out: &mut [f64]) {
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= shape.at_distance::<V>(((x - v) * inverse).abs());
        }
    }

    /// The sum over i of `weights[i]` times the derivative at `u[i]` and `v`, in fixed lanes.
    fn weigh_column<V: Simd, S: RadialFunction>(
        shape: S,
        u: &[f64],
        v: f64,
        inverse: f64,
        weights: &[f64],
    ) -> f64 {
        let mut lanes = [0.0; LANES];
        let ((u, u_rest), (w, w_rest)) = (u.as_chunks::<LANES>(), weights.as_chunks::<LANES>());
        for (u, w) in u.iter().zip(w) {
            for l in 0..LANES {
                lanes[l] = fma::<V>(w[l], shape.slope(((u[l] - v) * inverse).abs()), lanes[l]);
            }
        }
        let remainder = u_rest.iter().zip(w_rest).map(|(u, w)| w * shape.slope(((u - v) * inverse).abs()));
        lanes.iter().sum::<f64>() + remainder.sum::<f64>()
    }

    fn add_square<V: Simd>(u: &[f64], v: f64, inverse: f64, out: &mut [f64]) {
        for (o, &x) in out.iter_mut().zip(u) {
            let r = (x - v) * inverse;
            *o = fma::<V>(r, r, *o);
        }
    }

    fn of_square<V: Simd, S: RadialFunction>(shape: S, square: &[f64], out: &mut [f64]) {
        for (o, &s) in out.iter_mut().zip(square) {
            *o *= shape.at_squared_distance::<V>(s);
        }
    }

    fn add_slope<V: Simd, S: RadialFunction>(shape: S, u: &[f64], v: f64, inverse: f64, out: &mut [f64]) {
        for (o, &x) in out.iter_mut().zip(u) {
            *o += shape.slope(((x - v) * inverse).abs());
        }
    }

    fn slope_over_square<V: Simd, S: RadialFunction>(shape: S, square: &mut [f64]) {
        for s in square {
            let slope = shape.slope(s.sqrt()) / *s;
            *s = if *s > 0.0 { slope } else { 0.0 };
        }
    }

    fn add_square_times<V: Simd>(u: &[f64], v: f64, inverse: f64, times: &[f64], out: &mut [f64]) {
        for ((o, &x), t) in out.iter_mut().zip(u).zip(times) {
            let r = (x - v) * inverse;
            *o = fma::<V>(r * r, *t, *o);
        }
    }
}
