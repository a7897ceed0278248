//! Feature maps of items and contexts through landmarks, and the features of further utilities.

use std::sync::atomic::AtomicBool;

use super::nystrom::{LandmarkChoice, Nystrom};
use crate::error::Result;
use crate::kernel::{Kernel, Term};
use crate::linalg::{Matrix, Sparse};
use crate::preference::bilinear_skew::SkewFeatures;
use crate::preference::pair_kernel::PairKernel;
use crate::table::{ColumnKind, Table};

/// The feature maps of items and contexts.
#[derive(Debug, Clone)]
pub(super) struct PreferenceFeatureMaps {
    pub items: Nystrom,
    /// For each term of the further utilities, its feature map.
    pub extra_utilities: Vec<ExtraUtility>,
    pub contexts: Option<Nystrom>,
}

/// The feature map of a further utility.
#[derive(Debug, Clone)]
pub(super) enum ExtraUtility {
    /// Exact features: each level of a column has its own.
    Levels {
        column: usize,
        count: usize,
        scale: f64,
    },
    Through(Nystrom),
}

/// Interpolation weights of the training data between landmarks.
pub(super) struct LandmarkInterpolation {
    /// Items × landmarks.
    pub items: Matrix,
    /// For each further utility, items × its landmarks; `None` if it has levels.
    pub extra_utilities: Vec<Option<Matrix>>,
    /// Contexts × landmarks; the matrix (1) without contexts.
    pub contexts: Matrix,
}

impl ExtraUtility {
    pub fn levels(term: &Term, items: &Table) -> Option<Self> {
        let [factor] = &term.factors[..] else { return None };
        let ([column], true) = (factor.columns(), factor.is_identity()) else { return None };
        match &items.columns()[*column].kind {
            ColumnKind::Categorical { levels } => {
                Some(Self::Levels { column: *column, count: levels.len(), scale: term.scale })
            }
            ColumnKind::Numeric => None,
        }
    }

    fn features(&self, items: &Table) -> Result<ExtraUtilityFeatures> {
        Ok(match self {
            Self::Levels { column, count, scale } => {
                ExtraUtilityFeatures::levels(items, *column, *count, *scale)
            }
            Self::Through(map) => ExtraUtilityFeatures::Dense(map.features(items)?),
        })
    }
}

/// The features of a further utility.
enum ExtraUtilityFeatures {
    /// The number of levels, the level of each item, and the value of its only non-zero entry.
    One(usize, Vec<usize>, f64),
    Dense(Matrix),
}

impl ExtraUtilityFeatures {
    fn levels(items: &Table, column: usize, count: usize, scale: f64) -> Self {
        Self::One(count, items.column(column).iter().map(|code| *code as usize).collect(), scale.sqrt())
    }
}

/// Combines all features into those of a model of duels.
fn assemble_features(
    prior: &PairKernel,
    items: &Matrix,
    extra_features: &[ExtraUtilityFeatures],
    contexts: Option<Matrix>,
) -> Result<SkewFeatures> {
    let n = items.rows();
    let scaled = |share: f64| {
        let mut scaled_features = if share > 0.0 { items.clone() } else { Matrix::zeros(n, 0) };
        scaled_features.data_mut().iter_mut().for_each(|v| *v *= share);
        scaled_features
    };
    let utility = scaled(prior.utility_variance.sqrt());
    let dense: Vec<&Matrix> = std::iter::once(&utility)
        .chain(extra_features.iter().filter_map(|features| {
            if let ExtraUtilityFeatures::Dense(f) = features { Some(f) } else { None }
        }))
        .collect();
    let width = dense.iter().map(|f| f.cols()).sum();
    let rows = (0..n).flat_map(|i| dense.iter().flat_map(move |f| f.row(i).iter().copied()));
    let (mut levels, mut columns) = (0, vec![Vec::new(); n]);
    for features in extra_features {
        let ExtraUtilityFeatures::One(count, places, value) = features else { continue };
        places.iter().zip(&mut columns).for_each(|(place, column)| column.push((levels + place, *value)));
        levels += count;
    }
    Ok(SkewFeatures {
        // Each side has the fourth root of the variance, so that products have the square root.
        items: scaled(prior.generalised_variance.sqrt().sqrt()),
        utilities: Matrix::from_row_major(n, width, rows.collect()),
        item_effects: Sparse::from_columns(levels, columns)?,
        contexts: contexts.unwrap_or_else(|| Matrix::column_vector(vec![1.0])),
    })
}

impl PreferenceFeatureMaps {
    /// Chooses at most the given numbers of landmarks of items and contexts, whose rows have the weights
    /// `counts`. Returns the maps, the features of all rows, their interpolation weights, and the unexplained
    /// shares of the variance of items and of contexts.
    pub fn choose(
        prior: &PairKernel,
        (items, contexts): (&Table, Option<&Table>),
        [most, most_contexts]: [usize; 2],
        [counts, context_counts]: [&[f64]; 2],
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<(Self, SkewFeatures, LandmarkInterpolation, [f64; 2])> {
        let of_items = Nystrom::choose(&prior.items, items, most, counts, seed, stop)?;
        let (mut extra_utilities, mut interpolated, mut features) = (Vec::new(), Vec::new(), Vec::new());
        for term in prior.extra_utility_kernel.iter().flat_map(|k| &k.terms) {
            if let Some(utility) = ExtraUtility::levels(term, items) {
                features.push(utility.features(items)?);
                interpolated.push(None);
                extra_utilities.push(utility);
                continue;
            }
            let kernel = Kernel { terms: vec![term.clone()] };
            let choice = Nystrom::choose(&kernel, items, most, counts, seed, stop)?;
            features.push(ExtraUtilityFeatures::Dense(choice.features));
            interpolated.push(Some(choice.interpolated));
            extra_utilities.push(ExtraUtility::Through(choice.known));
        }
        let of_contexts = prior.contexts.as_ref().zip(contexts).map(|(context_kernel, table)| {
            Nystrom::choose(
                &context_kernel.with_shared_part(),
                table,
                most_contexts,
                context_counts,
                seed,
                stop,
            )
        });
        let constant_feature = || Matrix::column_vector(vec![1.0]);
        let (contexts, phi, between, unknown_contexts) = match of_contexts.transpose()? {
            Some(LandmarkChoice { known, features, interpolated, unknown }) => {
                (Some(known), Some(features), interpolated, unknown)
            }
            None => (None, None, constant_feature(), 0.0),
        };
        let features = assemble_features(prior, &of_items.features, &features, phi)?;
        let interpolated = LandmarkInterpolation {
            items: of_items.interpolated,
            extra_utilities: interpolated,
            contexts: between,
        };
        let unknown = [of_items.unknown, unknown_contexts];
        Ok((Self { items: of_items.known, extra_utilities, contexts }, features, interpolated, unknown))
    }

    pub fn features(
        &self,
        prior: &PairKernel,
        items: &Table,
        contexts: Option<&Table>,
    ) -> Result<SkewFeatures> {
        let items = items.align_to(self.items.landmarks.columns())?;
        let extra_features = self
            .extra_utilities
            .iter()
            .map(|utility| utility.features(&items))
            .collect::<Result<Vec<_>>>()?;
        let phi = self.contexts.as_ref().zip(contexts).map(|(map, rows)| map.features(rows)).transpose()?;
        assemble_features(prior, &self.items.features(&items)?, &extra_features, phi)
    }
}
