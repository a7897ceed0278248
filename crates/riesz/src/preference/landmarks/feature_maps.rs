//! Feature maps of items and contexts through landmarks, and the features of further utilities.

use std::sync::atomic::AtomicBool;

use super::nystrom::{LandmarkChoice, Nystrom};
use crate::error::Result;
use crate::kernel::{Kernel, Term};
use crate::linalg::{Matrix, Sparse};
use crate::preference::bilinear_skew::SkewFeatures;
use crate::preference::pair_kernel::PairKernel;
use crate::preference::teams::Competitors;
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
    Landmarks(Nystrom),
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
}

impl PreferenceFeatureMaps {
    /// Chooses at most the given numbers of landmarks of items and contexts, whose rows have the weights
    /// `item_weights` and `context_weights`. Returns the maps, the features of all competitors and contexts,
    /// the interpolation weights of all items and contexts, and the unexplained shares of their variances.
    pub fn choose(
        prior: &PairKernel,
        (competitors, contexts): (Competitors<'_>, Option<&Table>),
        [max_landmarks, max_context_landmarks]: [usize; 2],
        [item_weights, context_weights]: &[Vec<f64>; 2],
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<(Self, SkewFeatures, LandmarkInterpolation, [f64; 2])> {
        let items = competitors.items;
        let choice = Nystrom::choose(&prior.items, items, max_landmarks, item_weights, seed, stop)?;
        let (mut extra_utilities, mut interpolation, mut dense) = (Vec::new(), Vec::new(), Vec::new());
        for term in prior.extra_utility_kernel.iter().flat_map(|k| &k.terms) {
            if let Some(utility) = ExtraUtility::levels(term, items) {
                interpolation.push(None);
                extra_utilities.push(utility);
                continue;
            }
            let kernel = Kernel { terms: vec![term.clone()] };
            let extra = Nystrom::choose(&kernel, items, max_landmarks, item_weights, seed, stop)?;
            dense.push(extra.features);
            interpolation.push(Some(extra.interpolation));
            extra_utilities.push(ExtraUtility::Landmarks(extra.feature_map));
        }
        let context_choice = prior.contexts.as_ref().zip(contexts).map(|(context_kernel, table)| {
            let kernel = context_kernel.with_shared_part();
            Nystrom::choose(&kernel, table, max_context_landmarks, context_weights, seed, stop)
        });
        let constant_feature = Matrix::column_vector(vec![1.0]);
        let (contexts, phi, context_interpolation, unexplained_contexts) = match context_choice.transpose()? {
            Some(LandmarkChoice { feature_map, features, interpolation, unexplained }) => {
                (Some(feature_map), features, interpolation, unexplained)
            }
            None => (None, constant_feature.clone(), constant_feature, 0.0),
        };
        let feature_maps = Self { items: choice.feature_map, extra_utilities, contexts };
        let features = feature_maps.assemble_features(prior, competitors, &choice.features, dense, phi)?;
        let interpolation = LandmarkInterpolation {
            items: choice.interpolation,
            extra_utilities: interpolation,
            contexts: context_interpolation,
        };
        Ok((feature_maps, features, interpolation, [choice.unexplained, unexplained_contexts]))
    }

    /// Returns the features of competitors and contexts.
    pub fn features(
        &self,
        prior: &PairKernel,
        competitors: Competitors<'_>,
        contexts: Option<&Table>,
    ) -> Result<SkewFeatures> {
        let items = competitors.items.align_to(self.items.landmarks.columns())?;
        let competitors = Competitors { items: &items, ..competitors };
        let dense = self.dense_maps().map(|map| map.features(&items)).collect::<Result<Vec<_>>>()?;
        let phi = match self.contexts.as_ref().zip(contexts) {
            Some((map, rows)) => map.features(rows)?,
            None => Matrix::column_vector(vec![1.0]),
        };
        self.assemble_features(prior, competitors, &self.items.features(&items)?, dense, phi)
    }

    /// Returns the feature maps of further utilities that have landmarks.
    pub fn dense_maps(&self) -> impl Iterator<Item = &Nystrom> {
        self.extra_utilities.iter().filter_map(|utility| match utility {
            ExtraUtility::Levels { .. } => None,
            ExtraUtility::Landmarks(map) => Some(map),
        })
    }

    /// Combines the features of the items (`item_features`), of further utilities that have landmarks
    /// (`dense`) and of contexts into those of a model of duels between competitors.
    fn assemble_features(
        &self,
        prior: &PairKernel,
        Competitors { items, bags }: Competitors<'_>,
        item_features: &Matrix,
        mut dense: Vec<Matrix>,
        contexts: Matrix,
    ) -> Result<SkewFeatures> {
        let n = items.rows();
        let scaled = |factor: f64| {
            let mut features = if factor > 0.0 { item_features.clone() } else { Matrix::zeros(n, 0) };
            features.scale(factor);
            features
        };
        dense.insert(0, scaled(prior.utility_variance.sqrt()));
        let (mut levels, mut columns) = (0, vec![Vec::new(); n]);
        for utility in &self.extra_utilities {
            let ExtraUtility::Levels { column, count, scale } = utility else { continue };
            let codes = items.column(*column).iter().zip(&mut columns);
            codes.for_each(|(code, column)| column.push((levels + *code as usize, scale.sqrt())));
            levels += count;
        }
        let features = SkewFeatures {
            // Each side has the fourth root of the variance, so that products have the square root.
            items: scaled(prior.generalised_variance.sqrt().sqrt()),
            utilities: Matrix::side_by_side(n, dense.iter()),
            item_effects: Sparse::from_columns(levels, columns)?,
            contexts,
        };
        match bags {
            None => Ok(features),
            Some(bags) => features.of_bags(bags),
        }
    }
}
