//! The posterior mean as an expansion over pairs of landmarks, for explanations and files.
//!
//! Under the prior that the landmarks represent, the posterior mean is `g = Σ_p α_p k̃(p_p, ·)` over the
//! compared pairs p_p, with coefficients α. Let P (items × landmarks) and R (contexts × landmarks c) be the
//! interpolation weights, k_l the kernels of item l with the landmarks, and s_e² and s_u² the variances of
//! the generalised and utility parts. Then `g(l, r, u) = Σ_c k(u, c) [s_e² k_lᵀ Pᵀ M_c P k_r + s_u² (k_l -
//! k_r)ᵀ Pᵀ M_c 1]`, where the skew matrix M_c (items × items) has `α R_uc` at each compared pair (l, r) and
//! minus this at (r, l). For duels between bags with shares B (bags × items) it is `Bᵀ M_c B`, where M_c is
//! the skew matrix of bags, so the expansion is again over pairs of landmarks.

use std::borrow::Cow;

use super::feature_maps::{ExtraUtility, LandmarkInterpolation, PreferenceFeatureMaps};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, Sparse, index_pairs};
use crate::model_card::CardEntry;
use crate::preference::bilinear_skew::ComparedPairs;
use crate::preference::comparison_graph::add_differences;
use crate::preference::pair_kernel::{self, Pair, PairKernel, wide_rows_in};
use crate::preference::teams::Competitors;
use crate::table::{ColumnKind, Table};

/// The largest number of cells of an expansion's points: 512 MB.
const MAX_CELLS: usize = 1 << 26;

/// Support points of an expansion without their contexts: the rows of their sides, pairs of these rows (the
/// same for each landmark of contexts), and coefficients.
struct SupportPairs {
    side_rows: Table,
    pairs: Vec<Pair>,
    coef: Vec<f64>,
}

impl SupportPairs {
    /// Adds a pair with its coefficient, and the pair in the other order.
    fn push(&mut self, (l, r): Pair, coef: f64) {
        self.pairs.extend([(l, r), (r, l)]);
        self.coef.extend([coef, -coef]);
    }
}

impl PreferenceFeatureMaps {
    /// Returns the posterior mean with the coefficients `alpha` of the compared pairs, or the reason why it
    /// is not available, see [`LandmarkFit::model`](super::LandmarkFit::model).
    #[allow(clippy::too_many_arguments, reason = "it has one caller")]
    pub fn expansion(
        &self,
        prior: &PairKernel,
        margin: Option<f64>,
        competitors: Competitors<'_>,
        interpolation: &LandmarkInterpolation,
        compared: &ComparedPairs,
        alpha: &[f64],
        card: Vec<CardEntry>,
    ) -> Result<std::result::Result<KernelExpansion, &'static str>> {
        let items = competitors.items;
        let context_landmarks = self.contexts.as_ref().map(|context_map| &context_map.landmarks);
        let contexts = context_landmarks.map_or(1, Table::rows);
        let level_count = |utility: &ExtraUtility| {
            if let ExtraUtility::Levels { count, .. } = utility { *count } else { 0 }
        };
        let n_extra_points: usize = self
            .extra_utilities
            .iter()
            .map(level_count)
            .chain(interpolation.extra_utilities.iter().flatten().map(Matrix::cols))
            .sum();
        let q = interpolation.items.cols();
        let count = if prior.generalised_variance > 0.0 { q * (q - 1) } else { 0 } + 2 * (q + n_extra_points);
        let width = 2 * items.width() + context_landmarks.map_or(0, Table::width);
        if count.saturating_mul(contexts).saturating_mul(width) > MAX_CELLS {
            return Ok(Err("there are too many pairs of landmarks times landmarks of contexts: take fewer \
                           landmarks"));
        }
        let kernels: Vec<&Kernel> = self.dense_maps().map(|map| &map.kernel).collect();
        let neutral = match NeutralRow::for_prior(prior, items, &kernels)? {
            Ok(row) => row,
            Err(reason) => return Ok(Err(reason)),
        };
        let support = |c: usize| {
            let terms = alpha.iter().zip(&compared.contexts);
            let slopes: Vec<f64> =
                terms.map(|(a, &context)| a * interpolation.contexts[(context, c)]).collect();
            self.support_pairs(prior, &neutral, competitors, interpolation, &compared.pairs, &slopes)
        };
        let SupportPairs { side_rows, pairs, mut coef } = support(0)?;
        for c in 1..contexts {
            coef.extend(support(c)?.coef);
        }
        let repeated_pairs = pairs.repeat(contexts);
        let rows: Vec<usize> = (0..repeated_pairs.len()).map(|i| i / pairs.len().max(1)).collect();
        let points = wide_rows_in(
            &side_rows,
            &repeated_pairs,
            context_landmarks.map(|table| table.select_rows(&rows)).as_ref(),
        )?;
        let link = margin.map_or(Link::Logistic, |margin| Link::LatentRaoKupper { margin });
        pair_kernel::model(prior.wide_row_kernel(items.width()), points, coef, link, card).map(Ok)
    }

    /// Returns the support pairs of one landmark of contexts, given coefficients of the compared pairs.
    fn support_pairs(
        &self,
        prior: &PairKernel,
        neutral: &NeutralRow,
        competitors: Competitors<'_>,
        interpolation: &LandmarkInterpolation,
        compared: &[Pair],
        alpha: &[f64],
    ) -> Result<SupportPairs> {
        let Competitors { items, bags } = competitors;
        let (p, n, q) = (&interpolation.items, competitors.count(), interpolation.items.cols());
        let mut columns = vec![Vec::new(); n];
        for (&(l, r), a) in compared.iter().zip(alpha) {
            columns[r].push((l, *a));
            columns[l].push((r, -a));
        }
        let mut sums = vec![0.0; n];
        add_differences(&mut sums, compared, alpha.iter().copied());
        let item_sums = competitors.sums_of_items(sums);
        let mut out = SupportPairs {
            side_rows: neutral.with_neutral_utilities(&self.items.landmarks)?,
            pairs: Vec::new(),
            coef: Vec::new(),
        };
        if prior.generalised_variance > 0.0 {
            let p = bags.map_or(Cow::Borrowed(p), |bags| Cow::Owned(bags.means(p)));
            // M is skew: its transpose has the opposite sign.
            let product = Sparse::from_columns(n, columns)?.transpose_times(&p);
            let weights = p.transpose().matmul(&product);
            for (i, j) in index_pairs(q) {
                let coef = 0.5 * (weights[(j, i)] - weights[(i, j)]);
                out.push((i, j), coef);
            }
        }
        out.side_rows = out.side_rows.stack(&neutral.row)?;
        if prior.utility_variance > 0.0 {
            // Each landmark is paired with the neutral row, at which the kernel vanishes, because the weights
            // of landmarks need not sum to 0. The pairs of landmarks above already contribute to the utility;
            // their coefficients are subtracted.
            let mut point_weights = p.transpose().matvec(&item_sums);
            out.pairs.iter().zip(&out.coef).for_each(|(&(i, _), c)| point_weights[i] -= c);
            for (i, weight) in point_weights.into_iter().enumerate() {
                out.push((i, q), weight);
            }
        }
        for (utility, weights_of_utility) in self.extra_utilities.iter().zip(&interpolation.extra_utilities) {
            let (rows, weights) = match (utility, weights_of_utility) {
                (ExtraUtility::Landmarks(feature_map), Some(weights_of_utility)) => {
                    let columns: Vec<usize> = feature_map.kernel.columns_read().collect();
                    let value = |i: usize, j: usize| feature_map.landmarks.get(i, j);
                    (
                        neutral.with_columns(&columns, feature_map.landmarks.rows(), value)?,
                        weights_of_utility.transpose().matvec(&item_sums),
                    )
                }
                (ExtraUtility::Levels { column, count, .. }, _) => {
                    let mut weights = vec![0.0; *count];
                    items
                        .column(*column)
                        .iter()
                        .zip(&item_sums)
                        .for_each(|(level, s)| weights[*level as usize] += s);
                    (neutral.with_columns(&[*column], *count, |level, _| level as f64)?, weights)
                }
                (ExtraUtility::Landmarks(_), None) => continue,
            };
            let first_row = out.side_rows.rows();
            out.side_rows = out.side_rows.stack(&rows)?;
            for (i, weight) in weights.into_iter().enumerate() {
                out.push((first_row + i, q), weight);
            }
        }
        Ok(out)
    }
}

/// A row that is far from all items. Its columns of further utilities equal those of every point without a
/// part in these utilities, so that these parts cancel.
struct NeutralRow {
    row: Table,
    /// The indices of the columns of further utilities.
    columns: Vec<usize>,
}

impl NeutralRow {
    /// Creates the neutral row of a prior, or returns the reason why there is none. `dense_kernels` are the
    /// kernels of further utilities without levels, which must vanish at this row.
    fn for_prior(
        prior: &PairKernel,
        items: &Table,
        dense_kernels: &[&Kernel],
    ) -> Result<std::result::Result<Self, &'static str>> {
        let columns: Vec<usize> = prior.extra_utility_kernel.iter().flat_map(Kernel::columns_read).collect();
        let reads_items = prior.utility_variance + prior.generalised_variance > 0.0;
        if reads_items && prior.items.columns_read().any(|j| columns.contains(&j)) {
            return Ok(Err("further utilities read columns of the kernel of items"));
        }
        let value = |j: usize| match &items.columns()[j].kind {
            ColumnKind::Numeric if columns.contains(&j) => 0.0,
            ColumnKind::Numeric => 1e12 * (1.0 + items.column(j).iter().fold(0.0_f64, |a, v| a.max(v.abs()))),
            ColumnKind::Categorical { levels } if columns.contains(&j) => (levels.len() - 1) as f64,
            ColumnKind::Categorical { .. } => 0.0,
        };
        let row =
            Table::from_column_major(items.columns().to_vec(), 1, (0..items.width()).map(value).collect())?;
        let vanishes = |k: &Kernel| k.cross_gram(items, &row).data().iter().all(|k| *k == 0.0);
        let must_vanish = prior.utility_variance > 0.0 || reads_items && prior.extra_utility_kernel.is_some();
        if must_vanish && !vanishes(&prior.items) || !dense_kernels.iter().all(|k| vanishes(k)) {
            return Ok(Err(
                "the kernel does not vanish far from all items, as Gaussian and Matérn kernels do",
            ));
        }
        Ok(Ok(Self { row, columns }))
    }

    /// Returns the items with the neutral row's columns of further utilities.
    fn with_neutral_utilities(&self, items: &Table) -> Result<Table> {
        let item_columns: Vec<usize> = (0..items.width()).filter(|j| !self.columns.contains(j)).collect();
        self.with_columns(&item_columns, items.rows(), |i, j| items.get(i, j))
    }

    /// Returns rows that equal the neutral row except in `columns`.
    fn with_columns(
        &self,
        columns: &[usize],
        rows: usize,
        value: impl Fn(usize, usize) -> f64,
    ) -> Result<Table> {
        let row = |i: usize| {
            let mut row = self.row.row(0);
            columns.iter().for_each(|&j| row[j] = value(i, j));
            row
        };
        Table::from_named_rows(self.row.columns().to_vec(), &(0..rows).map(row).collect::<Vec<_>>())
    }
}
