//! The kernels of the tests: the choice of factors, the default kernel, and the removal of terms that do not
//! affect the statistic.

use crate::error::Result;
use crate::kernel::{ColumnScaling, Kernel, LengthScale, length_scales};
use crate::table::{ColumnKind, Players, Table};

/// The kernel factors, one per player, from which a test's statistic is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FactorKind {
    /// The kernel's factors `k_j`, centred under the sample and scaled to `k̃_j`, of which single players and
    /// pairs are used: `Σ_j k̃_j + Σ_{j<l} k̃_j k̃_l` in place of `Π_j k_j`. The contributions of players and
    /// pairs add up and are not negative (except by chance, if the estimator is unbiased), so no feature
    /// hides another, and a feature with equal distributions has value 0. A kernel without product form has
    /// no factors and is used unchanged, if nothing is attributed.
    #[default]
    Orthogonal,
    /// The kernel's factors unchanged (Mohammadi, Chau and Muandet 2025). A feature that differs strongly
    /// hides all others. These then have values around 0 or below and p-values up to 1, even if they differ
    /// strongly alone.
    Product,
}

impl FactorKind {
    /// The names of the kinds in front ends.
    pub const NAMES: [&'static str; 2] = ["orthogonal", "product"];

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        let index = Self::NAMES.iter().position(|n| *n == name)?;
        Some([Self::Orthogonal, Self::Product][index])
    }

    /// Returns the default kernel between rows. With product factors it is [`default_kernel`]. With
    /// orthogonal factors it is a product of a Gaussian over each numeric column, whose length scale is 1.5
    /// times the median distance between two values, and of a factor for each categorical column, which is ½
    /// where categories differ. In a group of q numeric columns, length scales are √q times as long.
    ///
    /// # Errors
    /// As [`default_kernel`].
    pub fn default_kernel(self, sample: &Table, groups: Option<&Players>) -> Result<Kernel> {
        if self == Self::Product {
            return default_kernel(sample);
        }
        let players = groups.cloned().unwrap_or_else(|| Players::singletons(sample.columns()));
        let (columns, categories) = sample.columns_by_kind();
        let scaling = ColumnScaling::raw(sample.width());
        let mut length_scale = length_scales(sample, &columns, &scaling, LengthScale::MedianPerFeature)?;
        let owners = players.player_of_column(sample.width());
        for (l, &j) in length_scale.iter_mut().zip(&columns) {
            let group_size = players.players()[owners[j]]
                .columns
                .iter()
                .filter(|&&j| sample.columns()[j].kind == ColumnKind::Numeric)
                .count();
            *l *= LENGTH_SCALE_MULTIPLE * (group_size as f64).sqrt();
        }
        Ok(Kernel::gaussian_and_categorical(columns, length_scale, true, categories))
    }
}

/// Length scales of orthogonal factors in median distances: shorter ones detect differences of scale better,
/// longer ones linear dependence.
const LENGTH_SCALE_MULTIPLE: f64 = 1.5;

/// Returns the kernel between rows that is used if none is given. It is a Gaussian over the standardised
/// numeric columns, whose single length scale is the median distance between two rows (of up to 1000), times
/// a factor of ½ for every categorical column in which two rows differ.
///
/// If more than half of the pairs are equal, the length scale is that of scikit-learn's `gamma="scale"`.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter) for columns whose spread overflows.
pub fn default_kernel(sample: &Table) -> Result<Kernel> {
    let (numeric, categorical) = sample.columns_by_kind();
    if numeric.is_empty() {
        return Ok(Kernel::gaussian_and_categorical(numeric, Vec::new(), false, categorical));
    }
    let scaling = ColumnScaling::standardised(sample);
    // The median is 0 if more than half of the pairs are equal.
    let length_scale = length_scales(sample, &numeric, &scaling, LengthScale::Median)
        .or_else(|_| length_scales(sample, &numeric, &scaling, LengthScale::Scale))?;
    Ok(Kernel::gaussian_and_categorical(numeric, length_scale, false, categorical))
}

/// Returns a copy of the kernel after checks, or the [`default_kernel`] of the sample if there is none.
pub(super) fn kernel_or_default(kernel: Option<&Kernel>, sample: &Table) -> Result<Kernel> {
    let Some(kernel) = kernel else { return default_kernel(sample) };
    kernel.validate(sample.width())?;
    Ok(kernel.clone())
}

/// Returns `kernel` with all length scales multiplied by each of `multiples`: the grid of an aggregated test.
pub fn length_scale_grid(kernel: &Kernel, multiples: &[f64]) -> Vec<Kernel> {
    let scaled_kernel = |multiple: &f64| {
        let mut kernel = kernel.clone();
        for factor in kernel.terms.iter_mut().flat_map(|term| &mut term.factors) {
            let scaled: Vec<f64> = factor
                .parameters()
                .iter()
                .map(|p| p.log_value + if p.is_length_scale() { multiple.ln() } else { 0.0 })
                .collect();
            factor.set_parameters(&scaled);
        }
        kernel
    };
    multiples.iter().map(scaled_kernel).collect()
}

/// Returns the kernel without functions of one argument, which cancel in sums with centered weights. The zero
/// of a linear factor that is a term alone moves to the sample's means, so that means far from 0 lose no
/// accuracy.
pub(super) fn without_constant_terms(kernel: &Kernel, sample: &Table) -> Kernel {
    let mut kernel = kernel.clone();
    for term in &mut kernel.terms {
        let [factor] = term.factors.as_mut_slice() else { continue };
        factor.recenter(&|j| sample.column(j).iter().map(|v| v / sample.rows() as f64).sum());
    }
    kernel
}
