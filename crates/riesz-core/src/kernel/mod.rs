//! Kernels: sums of products of factors. The set of kernels is closed under `+` and `*`.
//!
//! A *factor* is a kernel of one or more columns. [`Structure`] says how a factor combines several columns,
//! and this decides which values the engines can compute exactly. A product over columns splits among
//! players. A sum over columns is expanded into terms. A joint function of columns has exact values only if
//! all of its columns belong to one player. Noise is not a kernel: the ridge and the noise variance belong to
//! the estimators. Columns are not scaled beforehand: every factor is written in the user's units.
//!
//! To add a factor, write a file that implements [`KernelFactor`] and its [`FactorSchema`], declare the
//! `mod`, and add a line to `factors!` below. To add a profile of a stationary factor, add an entry and a
//! line in `stationary.rs`, and its function to `stationary_functions.rs`. Expressions, help, checks, the
//! robustness bound, random features and the conformance tests are derived from the schema. A factor with a
//! constructor in Python has its class in `python/riesz/kernels.py`.

/// Implements the columns, the schema and the arguments' values of a kind of factor that has a single schema.
/// Each argument is a field of the same name.
macro_rules! columns_and_arguments {
    ($($argument:ident),*) => {
        fn columns(&self) -> &[usize] {
            &self.columns
        }

        fn declaration(&self) -> &'static FactorSchema {
            Self::DECLARED[0]
        }

        fn values(&self) -> ArgumentValues {
            ArgumentValues(vec![$((stringify!($argument), self.$argument.to_values())),*])
        }
    };
}

/// Builds a factor over the given columns. Its other fields are the values of the arguments of these names.
macro_rules! from_arguments {
    ($($argument:ident),*) => {
        |columns, values| vec![Self { columns, $($argument: values.field(stringify!($argument))),* }.into()]
    };
}

mod anova;
mod categorical;
mod exponential_dot_product;
mod fast_distances;
mod fixed_rows;
mod gaussian_mixture;
mod gradient;
mod kernel_tile;
mod length_scale_heuristics;
mod linear;
mod matern;
mod mixture_fit;
mod packed_points;
mod parse;
mod periodic;
pub mod player_products;
mod polynomial;
pub mod polynomial_terms;
mod registry;
pub mod rounding_bounds;
mod sigmoid;
mod stationary;
mod stationary_functions;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use anova::Anova;
pub use categorical::Categorical;
pub use exponential_dot_product::ExponentialDotProduct;
pub use fixed_rows::FixedRows;
pub use gradient::GradientScratch;
pub use length_scale_heuristics::{ColumnScaling, LengthScale, length_scales, mean_variance};
pub use linear::Linear;
pub use packed_points::Points;
pub use parse::KernelExpression;
pub use periodic::Periodic;
pub use polynomial::Polynomial;
pub use registry::{Argument, ArgumentType, ArgumentValues, DefaultValue, FactorSchema, help_text};
pub use rounding_bounds::{ColumnRanges, RoundingBound};
pub use sigmoid::Sigmoid;
pub use stationary::{Profile, Stationary};

use self::gaussian_mixture::RadialFactor;
use self::player_products::RadialApproximation;
use crate::error::{Error, Result, first_repeated, listed};
use crate::linalg::{Matrix, add_to};
use crate::random::{Random, SeedableRng};
use crate::simd::Isa;
use crate::table::{Column, Table};

/// Number of rows of a gram matrix that are computed together.
const ROW_GROUP: usize = 16;

/// The way in which a factor combines its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    /// A product of one-column functions.
    Separable,
    /// A sum of one-column functions.
    Additive,
    /// Neither.
    Joint,
}

/// A tunable parameter, on the scale on which it is tuned: its natural logarithm unless the factor says
/// otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name within its factor.
    pub name: String,
    /// Value on the tuning scale.
    pub log_value: f64,
}

impl Parameter {
    /// A parameter that is tuned by its logarithm.
    pub fn logarithm(name: &str, value: f64) -> Self {
        Self { name: name.into(), log_value: value.ln() }
    }

    /// Whether this is a length scale.
    pub fn is_length_scale(&self) -> bool {
        self.name.starts_with("length_scale")
    }
}

/// A contiguous range of rows of a column-major table.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    data: &'a [f64],
    stride: usize,
    start: usize,
    len: usize,
    /// For each column of the table, the value that most of these rows share; `None` before the search for
    /// it.
    shared: Option<&'a [kernel_tile::SharedValues]>,
}

impl<'a> Columns<'a> {
    /// Rows `start..start + len` of a column-major array whose columns are `stride` apart.
    pub fn new(data: &'a [f64], stride: usize, start: usize, len: usize) -> Self {
        Self { data, stride, start, len, shared: None }
    }

    /// All rows of a table from `start` on.
    pub fn from_row(table: &'a Table, start: usize) -> Self {
        Self::new(table.column_major(), table.rows(), start, table.rows() - start)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rows `start..start + len` of these rows.
    pub fn part(&self, start: usize, len: usize) -> Self {
        debug_assert!(start + len <= self.len);
        Self { start: self.start + start, len, shared: None, ..*self }
    }

    /// Column `j`.
    #[inline]
    pub fn column(&self, j: usize) -> &'a [f64] {
        let from = j * self.stride + self.start;
        &self.data[from..from + self.len]
    }
}

/// The interface of a kind of factor. `v` is always a full row of the table; `out` has one number per row
/// of `u`.
pub trait KernelFactor {
    /// The columns that the factor reads.
    fn columns(&self) -> &[usize];
    /// The way in which the factor combines its columns.
    fn structure(&self) -> Structure {
        Structure::Separable
    }
    /// The schema of this kind of factor: its names, arguments and formula.
    fn declaration(&self) -> &'static FactorSchema;
    /// The values of the factor's arguments.
    fn values(&self) -> ArgumentValues;
    /// Checks the values of the factor's arguments.
    ///
    /// # Errors
    /// [`Error::Parameter`] or [`Error::Shape`].
    fn validate(&self) -> Result<()> {
        self.declaration().check(&self.values(), self.columns().len())
    }
    /// Multiplies `out[i]` by the one-column function of `columns()[slot]`, at `u[i]` and `v`. Only separable
    /// and additive factors need it.
    fn multiply_column(&self, isa: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]);
    /// Multiplies `out[i]` by the factor at row i of `u` and the row `v`.
    fn multiply_all(&self, isa: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        for (slot, &j) in self.columns().iter().enumerate() {
            self.multiply_column(isa, slot, u.column(j), v[j], out);
        }
    }
    /// Multiplies `out[r][i]` by the factor at row i of `u` and the row `v[r]`, by the operations of
    /// [`multiply_all`](Self::multiply_all).
    #[doc(hidden)]
    fn multiply_block(&self, isa: Isa, u: Columns<'_>, v: &[&[f64]], out: &mut kernel_tile::Block) {
        for (v, out) in v.iter().zip(out) {
            self.multiply_all(isa, u, v, &mut out[..u.len()]);
        }
    }
    /// Sets the centre of each column j to the argument's value at j, if this changes the factor by no more
    /// than functions of one row: `f(u, v) + g(u) + h(v)`.
    fn recenter(&mut self, _: &dyn Fn(usize) -> f64) {}
    /// The tunable parameters.
    fn parameters(&self) -> Vec<Parameter>;
    /// Sets the tunable parameters, on the tuning scale.
    fn set_parameters(&mut self, log_values: &[f64]);
    /// `out[p][i] = ∂ ln k / ∂ parameter p` at row i of `u` and the row `v`.
    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]);
    /// `out[p] = Σ_i weights[i] ∂ ln k / ∂ parameter p` at row i of `u` and the row `v`.
    fn weigh_slopes(&self, _: Isa, u: Columns<'_>, v: &[f64], weights: &[f64], out: &mut [f64]) {
        self.weighted_log_gradients(u, v, weights, out);
    }
    /// The sums of [`weigh_slopes`](Self::weigh_slopes), one number per parameter, computed from the list of
    /// derivatives that [`log_gradient`](Self::log_gradient) returns.
    #[doc(hidden)]
    fn weighted_log_gradients(&self, u: Columns<'_>, v: &[f64], weights: &[f64], out: &mut [f64]) {
        let mut slopes = vec![vec![0.0; u.len()]; out.len()];
        self.log_gradient(u, v, &mut slopes);
        out.iter_mut()
            .zip(&slopes)
            .for_each(|(out, slopes_of_parameter)| *out = crate::linalg::dot(weights, slopes_of_parameter));
    }
    /// The smallest value between two rows that differ by at most `delta[j]` in each column j. Only factors
    /// that are 1 between equal rows and at most 1 elsewhere have this bound; others return `None`.
    fn min_within(&self, _: &[f64]) -> Option<f64> {
        None
    }
    /// The largest `1 - k` between rows that differ by at most `delta[j]` in each column j, accurate to the
    /// last digits also for small differences. `None` in the cases of [`min_within`](Self::min_within).
    fn fall(&self, delta: &[f64]) -> Option<f64> {
        self.min_within(delta).map(|minimum| 1.0 - minimum)
    }
    /// Whether the factor is 1 for equal levels of a category and 0 for different levels.
    fn is_identity(&self) -> bool {
        false
    }
    /// Whether the factor is a positive definite kernel.
    fn positive_definite(&self) -> bool {
        true
    }
    /// Whether the factor is at most 1.
    fn bounded(&self) -> bool {
        true
    }
    /// Whether the factor is a sum whose terms can cancel.
    fn cancels(&self) -> bool {
        false
    }
    /// Whether the one-column functions are themselves sums whose terms can cancel.
    fn cancels_by_column(&self) -> bool {
        false
    }
    /// Multiplies `out[i]` by the size of the one-column function of `columns()[slot]`, at `u[i]` and `v`.
    /// See [`multiply_size`](Self::multiply_size) for the size.
    fn multiply_column_size(&self, isa: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        self.multiply_column(isa, slot, u, v, out);
    }
    /// Multiplies `out[i]` by the factor's size at row i of `u` and the row `v`. The size is the factor
    /// itself or, if the factor [`cancels`](Self::cancels), an upper bound in which the terms of its sums do
    /// not cancel.
    fn multiply_size(&self, isa: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        if self.cancels_by_column() {
            let slots = self.columns().iter().enumerate();
            slots.for_each(|(slot, &j)| self.multiply_column_size(isa, slot, u.column(j), v[j], out));
        } else {
            self.multiply_all(isa, u, v, out);
        }
    }
    /// Whether the factor is 1 plus, for each column, a kernel of functions that are orthogonal to 1. Then
    /// leaving columns out of a product of such factors is an orthogonal projection of the product's
    /// functions.
    fn projects(&self) -> bool {
        false
    }
    /// The value between two rows whose difference is `difference`, for a factor that depends on the
    /// difference only.
    fn value_at_difference(&self, difference: &[f64]) -> f64 {
        let (origin, mut out) = (vec![0.0; difference.len()], [1.0]);
        self.multiply_all(Isa::detect(), Columns::new(&origin, 1, 0, 1), difference, &mut out);
        out[0]
    }
    /// Whether the factor is a radial function of the distance over several columns, other than a Gaussian.
    fn is_radial(&self) -> bool {
        false
    }
    /// The factor with its approximation by a sum of Gaussians, if it [is radial](Self::is_radial).
    #[doc(hidden)]
    fn radial(&self, _: &RadialApproximation) -> Option<RadialFactor> {
        None
    }
    /// A draw from the spectral density of the one-column function of `columns()[slot]`, if the factor is the
    /// product of these functions over its columns. `None` if no spectral density is known.
    fn frequency(&self, _slot: usize, _: &mut Random) -> Option<f64> {
        None
    }
    /// The factor restricted to those of its columns that `kept` accepts, as a family of kernels is
    /// restricted to a subspace. `None` if the factor is 1 without the other columns.
    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor>;
    /// Bound of the rounding error between rows within the `ranges`, over the columns `columns()[slot]`
    /// for the given slots.
    #[doc(hidden)]
    fn precision(&self, slots: &[usize], ranges: &ColumnRanges) -> RoundingBound;
    /// Bound of the rounding error between rows within the `ranges`, over all columns of the factor.
    #[doc(hidden)]
    fn precision_of_all(&self, ranges: &ColumnRanges) -> RoundingBound {
        self.precision(&(0..self.columns().len()).collect::<Vec<_>>(), ranges)
    }
    /// Number of roundings in the factor's value between rows u and v, relative to `√(k(u, u) k(v, v))`.
    fn roundings(&self) -> f64 {
        (12 * self.columns().len() + 8) as f64
    }
    /// A short formula with the parameters' values.
    fn formula(&self) -> String {
        self.declaration().format_expression(&self.values(), "")
    }
}

macro_rules! factors {
    ($($(#[$doc:meta])* $variant:ident),* $(,)?) => {
        /// One factor of a product.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "factor", rename_all = "snake_case")]
        pub enum Factor { $($(#[$doc])* $variant($variant),)* }

        impl std::ops::Deref for Factor {
            type Target = dyn KernelFactor;
            fn deref(&self) -> &Self::Target {
                match self { $(Self::$variant(factor) => factor,)* }
            }
        }

        impl Factor {
            /// The columns that the factor reads, so that they can be renumbered.
            fn columns_mut(&mut self) -> &mut [usize] {
                match self { $(Self::$variant(factor) => &mut factor.columns[..],)* }
            }
        }

        impl std::ops::DerefMut for Factor {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self { $(Self::$variant(factor) => factor,)* }
            }
        }

        $(impl From<$variant> for Factor {
            fn from(factor: $variant) -> Self {
                Self::$variant(factor)
            }
        })*

        $(impl From<$variant> for Kernel {
            fn from(factor: $variant) -> Self {
                Self { terms: vec![Term { scale: 1.0, factors: vec![factor.into()] }] }
            }
        })*

        /// The schemas of all kinds of factors; each profile of a stationary factor has its own.
        pub fn registry() -> impl Iterator<Item = &'static FactorSchema> {
            [$($variant::DECLARED),*].into_iter().flatten().copied()
        }
    };
}

factors! {
    /// A profile of the scaled distance.
    Stationary,
    /// A periodic function of the distance.
    Periodic,
    /// An inner product.
    Linear,
    /// A power of an inner product.
    Polynomial,
    /// The exponential of an inner product.
    ExponentialDotProduct,
    /// The hyperbolic tangent of an inner product.
    Sigmoid,
    /// 1 for equal levels, a constant for different ones.
    Categorical,
    /// 1 plus a Gaussian profile from which its mean is subtracted.
    Anova,
}

impl Factor {
    /// The formula, and the names of the columns that the factor reads among a table's `columns`.
    pub(crate) fn describe(&self, columns: &[Column]) -> (String, String) {
        (self.formula(), listed(self.columns().iter().map(|&j| &columns[j].name)))
    }

    /// Draws `count` random frequencies ω of the one-column function of `columns()[slot]` from its spectral
    /// density. The mean of `cos(ω (u - v))` over the draws estimates the function. `None` if no density is
    /// known.
    pub fn frequencies(&self, slot: usize, count: usize, seed: u64) -> Option<Vec<f64>> {
        let mut random = Random::seed_from_u64(seed);
        (0..count).map(|_| self.frequency(slot, &mut random)).collect()
    }
}

/// A scaled product of factors; the constant `scale` if there are no factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Scale that multiplies the product, > 0.
    pub scale: f64,
    /// The factors.
    pub factors: Vec<Factor>,
}

/// `k(u, v) = Σ_t scale_t Π_f factor_tf(u, v)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The terms of the sum.
    pub terms: Vec<Term>,
}

impl std::ops::Add for Kernel {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self.terms.extend(other.terms);
        self
    }
}

impl std::ops::Mul for Kernel {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = |a: &Term, b: &Term| Term {
            scale: a.scale * b.scale,
            factors: a.factors.iter().chain(&b.factors).cloned().collect(),
        };
        Self {
            terms: self.terms.iter().flat_map(|a| other.terms.iter().map(move |b| product(a, b))).collect(),
        }
    }
}

impl std::ops::Mul<Kernel> for f64 {
    type Output = Kernel;
    fn mul(self, mut kernel: Kernel) -> Kernel {
        for term in &mut kernel.terms {
            term.scale *= self;
        }
        kernel
    }
}

impl Kernel {
    /// The constant kernel.
    pub fn constant(value: f64) -> Self {
        Self { terms: vec![Term { scale: value, factors: Vec::new() }] }
    }

    /// Whether some factor is a radial function of the distance over several columns, other than a Gaussian.
    pub fn is_radial(&self) -> bool {
        self.terms.iter().flat_map(|term| &term.factors).any(|factor| factor.is_radial())
    }

    /// The Gaussian kernel `exp(-Σ_c (u_c - v_c)²/(2ℓ_c²))` over the first `length_scale.len()` columns.
    pub fn gaussian(length_scale: &[f64]) -> Self {
        Self::stationary(Profile::Gaussian, length_scale)
    }

    /// The stationary kernel with this profile over the first `length_scale.len()` columns, one length scale
    /// each.
    pub fn stationary(profile: Profile, length_scale: &[f64]) -> Self {
        Stationary {
            profile,
            columns: (0..length_scale.len()).collect(),
            length_scale: length_scale.to_vec(),
            ard: true,
            isotropic: false,
        }
        .into()
    }

    /// A product of one Gaussian factor over numeric columns, if there are any, and of a factor for each
    /// categorical column.
    pub fn gaussian_and_categorical(
        columns: Vec<usize>,
        length_scale: Vec<f64>,
        ard: bool,
        categories: Vec<usize>,
    ) -> Self {
        let mut factors: Vec<Factor> = Vec::new();
        if !columns.is_empty() {
            let profile = Profile::Gaussian;
            factors.push(Stationary { profile, columns, length_scale, ard, isotropic: false }.into());
        }
        factors.extend(categories.into_iter().map(|j| Factor::from(Categorical::on_column(j))));
        Self { terms: vec![Term { scale: 1.0, factors }] }
    }

    /// Checks all parameters, and that every column index is below `width`.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`].
    pub fn validate(&self, width: usize) -> Result<()> {
        if self.terms.is_empty() {
            return Err(Error::parameter("kernel", "an empty sum", "a kernel needs at least one term"));
        }
        for term in &self.terms {
            if !(term.scale.is_finite() && term.scale > 0.0) {
                return Err(Error::parameter("kernel scale", term.scale, "scales are positive numbers"));
            }
            for factor in &term.factors {
                factor.validate()?;
                let columns = factor.columns();
                let refused = |allowed: String| {
                    Error::parameter("columns of the kernel", format!("{columns:?}"), allowed)
                };
                if columns.is_empty() || columns.iter().any(|&j| j >= width) {
                    return Err(refused(format!(
                        "a factor reads at least one of the table's {width} columns, counted from 0"
                    )));
                }
                if first_repeated(columns).is_some() {
                    return Err(refused("a factor reads a column once".into()));
                }
            }
        }
        Ok(())
    }

    /// Writes `out[i] = k(u_i, v)` for the rows `u_i` of `u`. `buffer` is scratch memory.
    pub fn row(&self, isa: Isa, u: Columns<'_>, v: &[f64], buffer: &mut Vec<f64>, out: &mut [f64]) {
        for (t, term) in self.terms.iter().enumerate() {
            buffer.resize(if t == 0 { 0 } else { out.len() }, 0.0);
            let product = if t == 0 { &mut *out } else { &mut *buffer };
            product.fill(term.scale);
            term.factors.iter().for_each(|factor| factor.multiply_all(isa, u, v, product));
            add_to(out, buffer);
        }
    }

    /// Number of roundings in the kernel's value between rows u and v, relative to `√(k(u, u) k(v, v))`.
    pub fn roundings(&self) -> f64 {
        let roundings_of = |term: &Term| term.factors.iter().map(|f| f.roundings()).sum::<f64>();
        self.terms.len() as f64 + self.terms.iter().map(roundings_of).fold(0.0, f64::max)
    }

    /// Bound of the rounding error of kernel values between rows within the `ranges`, for tables of
    /// `width` columns.
    pub fn rounding_bound(&self, ranges: &ColumnRanges, width: usize) -> f64 {
        let bound_of = |term: &Term| {
            let pieces = term.factors.iter().map(|f| (f.precision_of_all(ranges), f.bounded()));
            let bound = RoundingBound::product(pieces);
            // Squared distances may be summed up over all columns, and `z ln(1/z)` is 1/e at most.
            let logs = if bound.per_log > 0.0 { bound.per_log + 2.0 + width as f64 } else { 0.0 };
            let units = bound.units + 0.368 * logs + (term.factors.len() + self.terms.len()) as f64;
            term.scale * (f64::EPSILON / 2.0 * units * bound.top + bound.tiny)
        };
        1.01 * self.terms.iter().map(bound_of).sum::<f64>()
    }

    /// The columns that the factors read, which may occur more than once.
    pub fn columns_read(&self) -> impl Iterator<Item = usize> {
        self.terms.iter().flat_map(|term| &term.factors).flat_map(|factor| factor.columns()).copied()
    }

    /// This kernel with `offset` added to the index of every column.
    pub fn shift_columns(&self, offset: usize) -> Self {
        self.map_columns(&|j| j + offset)
    }

    /// This kernel with the index j of every column replaced by `place(j)`.
    pub fn map_columns(&self, new_index: &dyn Fn(usize) -> usize) -> Self {
        let mut kernel = self.clone();
        let factors = kernel.terms.iter_mut().flat_map(|term| &mut term.factors);
        factors.flat_map(|factor| factor.columns_mut()).for_each(|j| *j = new_index(*j));
        kernel
    }

    /// The kernel restricted to the columns that `kept` accepts, term by term and factor by factor.
    pub fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Self {
        let factors = |term: &Term| term.factors.iter().filter_map(|f| f.restricted(kept)).collect();
        let terms = self.terms.iter().map(|term| Term { scale: term.scale, factors: factors(term) });
        Self { terms: terms.collect() }
    }

    /// `k(u, v)` for two rows.
    pub fn eval(&self, u: &[f64], v: &[f64]) -> f64 {
        let mut out = [0.0];
        self.row(Isa::detect(), Columns::new(u, 1, 0, 1), v, &mut Vec::new(), &mut out);
        out[0]
    }

    /// The Gram matrix `k(x_i, x_i')` of the n rows of `x`, n × n. Cost O(n² d).
    pub fn gram(&self, x: &Table) -> Matrix {
        let mut out = self.values_by_rows(x, x, true);
        out.mirror_upper();
        out
    }

    /// The matrix `k(x_i, y_j)`, rows of `x` × rows of `y`.
    pub fn cross_gram(&self, x: &Table, y: &Table) -> Matrix {
        self.values_by_rows(x, y, false)
    }

    /// The matrix `k(x_i, y_j)`, rows of `x` × rows of `y`. If `upper` is true, most entries below the
    /// diagonal are 0.
    fn values_by_rows(&self, x: &Table, y: &Table, upper: bool) -> Matrix {
        let (mut out, n) = (Matrix::zeros(x.rows(), y.rows()), y.rows().max(1));
        out.data_mut().par_chunks_mut(ROW_GROUP * n).enumerate().for_each(|(c, out)| {
            let start = c * ROW_GROUP;
            let rows: Vec<Vec<f64>> = (start..start + out.len() / n).map(|i| x.row(i)).collect();
            let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
            let from = if upper { start } else { 0 };
            self.tile(Isa::detect(), Columns::from_row(y, from), &rows, &mut out[from..], n);
        });
        out
    }

    /// The values `k(x_i, x_i)` for all rows.
    pub fn diagonal(&self, x: &Table) -> Vec<f64> {
        (0..x.rows())
            .map(|i| {
                let row = x.row(i);
                self.eval(&row, &row)
            })
            .collect()
    }

    /// The largest value of the kernel, which is `k(u, u)`. `None` if it depends on the rows.
    pub fn max_value(&self) -> Option<f64> {
        let bounded = |term: &Term| term.factors.iter().all(|factor| factor.bounded());
        self.terms.iter().all(bounded).then(|| self.terms.iter().map(|term| term.scale).sum())
    }

    /// Whether the kernel has an upper bound that does not depend on the rows.
    pub fn is_bounded(&self) -> bool {
        self.max_value().is_some()
    }

    /// A short formula with the parameters' values.
    pub fn formula(&self) -> String {
        let term = |t: &Term| {
            let mut parts: Vec<String> = t.factors.iter().map(|f| f.formula()).collect();
            if t.scale != 1.0 || parts.is_empty() {
                parts.insert(0, format!("{:.4}", t.scale));
            }
            parts.join(" * ")
        };
        self.terms.iter().map(term).collect::<Vec<_>>().join(" + ")
    }
}
