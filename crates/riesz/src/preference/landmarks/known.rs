//! What makes features of items and of their contexts: landmarks of either, and what is known of further
//! utilities.

use std::sync::atomic::AtomicBool;

use super::nystrom::{LandmarkChoice, Nystrom};
use crate::error::Result;
use crate::kernel::{Kernel, Term};
use crate::linalg::{Matrix, Sparse};
use crate::preference::bilinear_skew::SkewFeatures;
use crate::preference::pair_kernel::PairKernel;
use crate::table::{ColumnKind, Table};

/// What makes features of items and contexts.
#[derive(Debug, Clone)]
pub(super) struct PreferenceFeatureMaps {
    pub items: Nystrom,
    /// By term of further utilities.
    pub alone: Vec<ExtraUtility>,
    pub contexts: Option<Nystrom>,
}

/// A further utility.
#[derive(Debug, Clone)]
pub(super) enum ExtraUtility {
    /// Each level of a column has its own, exactly.
    Levels {
        column: usize,
        count: usize,
        scale: f64,
    },
    Through(Nystrom),
}

/// How what was learnt from stands between landmarks.
pub(super) struct LandmarkInterpolation {
    /// Items × landmarks.
    pub items: Matrix,
    /// Of each further utility, items × its landmarks; none where it has levels.
    pub alone: Vec<Option<Matrix>>,
    /// Contexts × landmarks; a 1 without contexts.
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
            Self::Through(own) => ExtraUtilityFeatures::Dense(own.features(items)?),
        })
    }
}

/// Features of a further utility.
enum ExtraUtilityFeatures {
    /// How many there are, the only one of each item that is not 0, and what it is.
    One(usize, Vec<usize>, f64),
    Dense(Matrix),
}

impl ExtraUtilityFeatures {
    fn levels(items: &Table, column: usize, count: usize, scale: f64) -> Self {
        Self::One(count, items.column(column).iter().map(|code| *code as usize).collect(), scale.sqrt())
    }
}

/// What a function is linear in.
fn assemble_features(
    prior: &PairKernel,
    items: &Matrix,
    alone: &[ExtraUtilityFeatures],
    contexts: Option<Matrix>,
) -> Result<SkewFeatures> {
    let n = items.rows();
    let scaled = |share: f64| {
        let mut own = if share > 0.0 { items.clone() } else { Matrix::zeros(n, 0) };
        own.data_mut().iter_mut().for_each(|v| *v *= share);
        own
    };
    let utility = scaled(prior.utility_variance.sqrt());
    let dense: Vec<&Matrix> = std::iter::once(&utility)
        .chain(
            alone
                .iter()
                .filter_map(|own| if let ExtraUtilityFeatures::Dense(f) = own { Some(f) } else { None }),
        )
        .collect();
    let width = dense.iter().map(|f| f.cols()).sum();
    let rows = (0..n).flat_map(|i| dense.iter().flat_map(move |f| f.row(i).iter().copied()));
    let (mut levels, mut columns) = (0, vec![Vec::new(); n]);
    for own in alone {
        let ExtraUtilityFeatures::One(count, places, value) = own else { continue };
        places.iter().zip(&mut columns).for_each(|(place, column)| column.push((levels + place, *value)));
        levels += count;
    }
    Ok(SkewFeatures {
        // Of either side the fourth root, so that products have the square root.
        items: scaled(prior.generalised_variance.sqrt().sqrt()),
        utilities: Matrix::from_row_major(n, width, rows.collect()),
        item_effects: Sparse::from_columns(levels, columns)?,
        contexts: contexts.unwrap_or_else(|| Matrix::column_vector(vec![1.0])),
    })
}

impl PreferenceFeatureMaps {
    /// Chooses landmarks of items and contexts, so many at most and each counting so much; returns features
    /// of all, how they are interpolated, and what is not known of items and of contexts.
    pub fn choose(
        prior: &PairKernel,
        (items, contexts): (&Table, Option<&Table>),
        [most, most_contexts]: [usize; 2],
        [counts, context_counts]: [&[f64]; 2],
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<(Self, SkewFeatures, LandmarkInterpolation, [f64; 2])> {
        let of_items = Nystrom::choose(&prior.items, items, most, counts, seed, stop)?;
        let (mut alone, mut interpolated, mut features) = (Vec::new(), Vec::new(), Vec::new());
        for term in prior.extra_utility_kernel.iter().flat_map(|k| &k.terms) {
            if let Some(own) = ExtraUtility::levels(term, items) {
                features.push(own.features(items)?);
                interpolated.push(None);
                alone.push(own);
                continue;
            }
            let kernel = Kernel { terms: vec![term.clone()] };
            let own = Nystrom::choose(&kernel, items, most, counts, seed, stop)?;
            features.push(ExtraUtilityFeatures::Dense(own.features));
            interpolated.push(Some(own.interpolated));
            alone.push(ExtraUtility::Through(own.known));
        }
        let of_contexts = prior.contexts.as_ref().zip(contexts).map(|(own, table)| {
            Nystrom::choose(&own.with_shared_part(), table, most_contexts, context_counts, seed, stop)
        });
        let one = || Matrix::column_vector(vec![1.0]);
        let (contexts, phi, between, unknown_contexts) = match of_contexts.transpose()? {
            Some(LandmarkChoice { known, features, interpolated, unknown }) => {
                (Some(known), Some(features), interpolated, unknown)
            }
            None => (None, None, one(), 0.0),
        };
        let features = assemble_features(prior, &of_items.features, &features, phi)?;
        let interpolated =
            LandmarkInterpolation { items: of_items.interpolated, alone: interpolated, contexts: between };
        let unknown = [of_items.unknown, unknown_contexts];
        Ok((Self { items: of_items.known, alone, contexts }, features, interpolated, unknown))
    }

    pub fn features(
        &self,
        prior: &PairKernel,
        items: &Table,
        contexts: Option<&Table>,
    ) -> Result<SkewFeatures> {
        let items = items.align_to(self.items.landmarks.columns())?;
        let alone = self.alone.iter().map(|own| own.features(&items)).collect::<Result<Vec<_>>>()?;
        let phi = self.contexts.as_ref().zip(contexts).map(|(own, rows)| own.features(rows)).transpose()?;
        assemble_features(prior, &self.items.features(&items)?, &alone, phi)
    }
}
