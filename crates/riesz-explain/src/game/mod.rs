//! Games: the meaning of an absent feature.
//!
//! For a kernel model the first four are *product games*. Support point i with coefficient `coef_i`
//! contributes `coef_i Π_{j present} k_j(x_ij, x_j) Π_{j absent} b_ij` at a row x, where `k_j` is the
//! kernel's factor of feature j. The games differ only in the absent factors `b_ij`.
//!
//! | game | absent factor `b_ij` | base value | absent features are |
//! |---|---|---|---|
//! | functional | 1 | `intercept + Σ coef` | dropped from the model (PKeX-Shapley) |
//! | baseline | `k_j(x_ij, x⁰_j)` | prediction at x⁰ | set to a reference row x⁰ |
//! | interventional | `k_j(x_ij, b_j)` for each background row b, averaged | mean prediction over the background | set by intervention to values of background rows |
//! | marginal product | mean of `k_j(x_ij, b_j)` over the background | mean over the product of marginals | replaced by independent draws |
//! | observational | the conditional mean of the absent product, given the present features | mean prediction over the reference | predicted from the present ones |
//! | causal | its mean if the present ones are set | mean under the structure | predicted from causes |
//!
//! The functional game removes a factor. It is a projection onto functions of the remaining features only if
//! each factor's space contains 1 with norm 1.

mod causal_structure;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::embedding::{Conditioning, normalised};
use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{add_multiple, add_to};
use crate::simd::Isa;
use crate::table::{Column, Table};
pub(crate) use causal_structure::ComponentColumns;
pub use causal_structure::{CausalComponent, CausalStructure, StructureLists};

/// Rows from which absent features take their values, with optional weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Background {
    /// The rows; columns are matched to the model's by name.
    pub rows: Table,
    /// One weight per row, not negative, with a positive sum; they are normalised. `None` for equal weights.
    pub weights: Option<Vec<f64>>,
}

impl From<Table> for Background {
    fn from(rows: Table) -> Self {
        Self { rows, weights: None }
    }
}

/// One part of a game of independent parts: the distribution of its absent columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The rows of the part's columns.
    pub background: Background,
    /// The settings of the distribution of absent columns given the part's present ones; `None` if absent
    /// columns take their values from a background row.
    pub conditional: Option<Conditioning>,
}

impl From<Background> for Part {
    fn from(background: Background) -> Self {
        Self { background, conditional: None }
    }
}

impl From<Table> for Part {
    fn from(rows: Table) -> Self {
        Background::from(rows).into()
    }
}

/// The model of the distribution of absent features given the present ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionalModel {
    /// A conditional mean embedding (RKHS-SHAP), which weights the reference rows.
    Embedding(Conditioning),
    /// For functions: draws from a normal distribution with the reference's mean and covariance, conditional
    /// on the present features (Aas, Jullum and Løland 2021, §3.1).
    Gaussian {
        /// Number of draws for each coalition and row, at least 2.
        draws: usize,
    },
    /// [`Gaussian`](Self::Gaussian) on normal scores: the ranks map each column to a normal distribution
    /// first (Aas, Jullum and Løland 2021, §3.2).
    Copula {
        /// Number of draws for each coalition and row, at least 2.
        draws: usize,
    },
}

impl From<Conditioning> for ConditionalModel {
    fn from(conditioning: Conditioning) -> Self {
        Self::Embedding(conditioning)
    }
}

/// The definition of the value of a coalition of features: the meaning of the absence of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Game {
    /// Absent factors are 1, which needs no data. Source: Mohammadi, Chau and Muandet 2025 (PKeX-Shapley),
    /// §3.
    Functional,
    /// Absent features take the values of one reference row.
    Baseline {
        /// A table of one row.
        point: Table,
    },
    /// Absent features take a background row's values, averaged over the background. This is the game of
    /// KernelSHAP with all coalitions, and RKHS-SHAP's interventional game (Chau, Hu, Gonzalez and Sejdinovic
    /// 2022).
    Interventional {
        /// The background.
        background: Background,
    },
    /// Each absent factor is replaced by its own mean over the background. So the background's joint
    /// distribution is replaced by the product of its marginals. The code of PKeX-Shapley has this game as
    /// its default, under another name.
    MarginalProduct {
        /// The background.
        background: Background,
    },
    /// Absent features follow their conditional distribution given the present ones, estimated by a
    /// conditional mean embedding: RKHS-SHAP's observational game (Chau, Hu, Gonzalez and Sejdinovic 2022).
    /// It is not a product game: its coalitions are valued one by one. The empty coalition has the mean over
    /// the reference, the grand coalition the prediction.
    Observational {
        /// The rows from which conditional distributions are learnt.
        reference: Background,
        /// The model of the conditional distributions.
        conditional: ConditionalModel,
    },
    /// Absent features follow their distribution under an intervention that sets the present ones: the causal
    /// Shapley values of Heskes, Sijben, Bucur and Claassen 2020. With S the present columns, the absent
    /// columns of a component τ have the distribution given
    ///
    /// - its parents, if τ is confounded;
    /// - its parents and the present columns of τ, otherwise,
    ///
    /// where present parents have the values of the explained row. One confounded component is the
    /// interventional game, one component of interacting columns the observational game, and one component
    /// per column without parents the marginal product game.
    ///
    /// The mean is computed from the last component to the first, by one conditional mean embedding each
    /// (g-computation by iterated conditional means; Robins 1986). Where a factor that was averaged depends
    /// on earlier absent columns that are no parents of τ, the mean over τ is taken given these columns too,
    /// which changes nothing if the structure is true. For kernels that are sums of products over columns,
    /// or over groups of columns of one component. Its coalitions are valued one by one. The value of the
    /// empty coalition is the mean under the structure.
    Causal {
        /// The rows from which conditional distributions are learnt.
        reference: Background,
        /// The components, and the causes of each.
        structure: CausalStructure,
        /// The settings of the conditional mean embeddings.
        conditioning: Conditioning,
    },
    /// Parts of a row are independent of each other, such as the left and the right item of a duel (Chau,
    /// Gonzalez and Sejdinovic 2022, Pref-SHAP). In the interventional game the background is all
    /// combinations of the parts' background rows, at the cost of their sum. In the observational game absent
    /// features are predicted from the present ones of their part. For kernels without joint functions of
    /// columns of different parts. Values of players whose coalitions exceed the budget are estimated.
    Independent {
        /// The parts, without common columns. Columns in no part are always present.
        parts: Vec<Part>,
    },
}

impl Game {
    /// The observational game that uses the model's support points as reference, with a ridge chosen by
    /// cross-validation.
    pub fn observational(model: &KernelExpansion) -> Self {
        Self::Observational {
            reference: model.support_points.clone().into(),
            conditional: Conditioning::default().into(),
        }
    }

    /// The names of all games on the command line and in files.
    pub const NAMES: [&'static str; 6] =
        ["functional", "baseline", "interventional", "marginal-product", "observational", "causal"];

    /// The game's name, one of [`NAMES`](Self::NAMES).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Functional => Self::NAMES[0],
            Self::Baseline { .. } => Self::NAMES[1],
            Self::Interventional { .. } => Self::NAMES[2],
            Self::MarginalProduct { .. } => Self::NAMES[3],
            Self::Observational { .. } => Self::NAMES[4],
            Self::Causal { .. } => Self::NAMES[5],
            Self::Independent { parts } => {
                Self::NAMES[if parts.iter().all(|part| part.conditional.is_none()) { 2 } else { 4 }]
            }
        }
    }

    /// The rows from which absent features take their values, if the game has any.
    pub fn rows(&self) -> Option<&Table> {
        match self {
            Self::Functional | Self::Independent { .. } => None,
            Self::Baseline { point } => Some(point),
            Self::Interventional { background } | Self::MarginalProduct { background } => {
                Some(&background.rows)
            }
            Self::Observational { reference, .. } | Self::Causal { reference, .. } => Some(&reference.rows),
        }
    }

    /// Describes the meaning of absence in a sentence.
    pub fn absent(&self) -> String {
        let rows = self.rows().map_or(0, Table::rows);
        match self {
            Self::Functional => {
                "an absent feature's kernel factor is replaced by 1 (the feature is dropped)".into()
            }
            Self::Baseline { .. } => "an absent feature takes its value in the reference row".into(),
            Self::Interventional { .. } => {
                format!("absent features take the values of a background row, averaged over {rows} rows")
            }
            Self::MarginalProduct { .. } => {
                format!("each absent feature is averaged out on its own over {rows} background rows")
            }
            Self::Observational { conditional: ConditionalModel::Embedding(_), .. } => format!(
                "absent features follow their distribution given the present ones, learnt from {rows} \
                 reference rows"
            ),
            Self::Observational { conditional: ConditionalModel::Gaussian { draws }, .. } => format!(
                "absent features are {draws} draws from a normal distribution given the present ones, with \
                 mean and covariance of {rows} rows"
            ),
            Self::Observational { conditional: ConditionalModel::Copula { draws }, .. } => format!(
                "absent features are {draws} draws from a Gaussian copula given the present ones, with \
                 ranks and correlations of {rows} rows"
            ),
            Self::Causal { structure, .. } => format!(
                "absent features follow their distribution under an intervention on the present ones, for {} \
                 causal components, learnt from {rows} reference rows",
                structure.components.len()
            ),
            Self::Independent { parts } => {
                let rows = |parts: &[&Part]| {
                    let counts = parts.iter().map(|part| part.background.rows.rows().to_string());
                    counts.collect::<Vec<_>>().join(" and ")
                };
                let (conditional, drawn): (Vec<&Part>, Vec<&Part>) =
                    parts.iter().partition(|part| part.conditional.is_some());
                let drawn_text = format!(
                    "absent features of each part take the values of its background rows, averaged over all \
                     combinations of {} rows",
                    rows(&drawn)
                );
                let conditional_text = format!(
                    "absent features follow their distribution given the present ones of the same part, \
                     learnt from {} reference rows",
                    rows(&conditional)
                );
                match (conditional.is_empty(), drawn.is_empty()) {
                    (true, _) => drawn_text,
                    (_, true) => conditional_text,
                    _ => format!("{conditional_text}; in the other parts {drawn_text}"),
                }
            }
        }
    }

    /// The background or reference of this game, for a black-box function.
    ///
    /// # Errors
    /// [`Error::Parameter`] for games that need a kernel; [`Error::Shape`] for a baseline of several rows.
    pub(crate) fn function_background(&self) -> Result<Background> {
        match self {
            Self::Functional
            | Self::MarginalProduct { .. }
            | Self::Causal { .. }
            | Self::Independent { .. } => Err(Error::parameter(
                "game",
                self.name(),
                "it takes a model whose kernel is known; a function has only the interventional, the \
                     baseline and the observational game",
            )),
            Self::Baseline { point } => Ok(baseline_row(point)?.into()),
            Self::Interventional { background } => Ok(background.clone()),
            Self::Observational { reference, .. } => Ok(reference.clone()),
        }
    }

    /// The absent factors of a product game, with rows aligned to the model's columns.
    pub(crate) fn absent_side(&self, columns: &[Column]) -> Result<AbsentSide> {
        let rows = |background: &Background| ReferenceRows::new(background, columns);
        match self {
            Self::Functional => Ok(AbsentSide::Ones),
            Self::Baseline { point } => rows(&baseline_row(point)?.into()).map(AbsentSide::Rows),
            Self::Interventional { background } => rows(background).map(AbsentSide::Rows),
            Self::MarginalProduct { background } => rows(background).map(AbsentSide::Means),
            Self::Observational { .. } | Self::Causal { .. } | Self::Independent { .. } => {
                Err(Error::parameter("game", self.name(), "it is not a product game"))
            }
        }
    }
}

/// Checks that the baseline has one row, and returns it.
pub fn baseline_row(point: &Table) -> Result<Table> {
    if point.rows() == 1 {
        return Ok(point.clone());
    }
    Err(Error::shape(
        "the baseline",
        "rows",
        1,
        point.rows(),
        "a baseline has one row; the interventional game takes several",
    ))
}

/// Number of terms that are summed at a time in means, so that each number passes through fewer successive
/// roundings.
pub(crate) const TERMS: usize = 16;

/// Reference rows in the model's columns, with weights that sum to 1.
pub struct ReferenceRows {
    /// The rows, each with the values of all columns.
    pub rows: Vec<Vec<f64>>,
    /// The weights of the rows.
    pub weights: Vec<f64>,
}

impl ReferenceRows {
    /// Takes the rows of a background in the order of the columns.
    pub fn new(background: &Background, columns: &[Column]) -> Result<Self> {
        let table = background.rows.align_to(columns)?;
        let n = table.rows();
        let weights = normalised(background.weights.as_deref(), n, "background")?;
        // Rows of weight 0 have no effect, but would cost as much as others.
        let kept: Vec<usize> = (0..n).filter(|&i| weights[i] > 0.0).collect();
        Ok(Self {
            rows: table.row_vectors(kept.iter().copied()),
            weights: kept.iter().map(|&i| weights[i]).collect(),
        })
    }

    /// The rows as a table.
    pub(crate) fn table(&self, columns: &[Column]) -> Result<Table> {
        Table::from_named_rows(columns.to_vec(), &self.rows)
    }

    /// All numbers, column by column.
    pub(crate) fn column_major(&self) -> Vec<f64> {
        (0..self.rows[0].len()).flat_map(|j| self.rows.iter().map(move |row| row[j])).collect()
    }

    /// Writes the weighted mean over the rows of the numbers that `fill` computes for a row, summed [`TERMS`]
    /// rows at a time.
    pub(crate) fn mean(&self, mut fill: impl FnMut(&[f64], &mut [f64]), mean: &mut [f64]) {
        let (mut numbers, mut batch_sums) = (vec![0.0; mean.len()], vec![0.0; mean.len()]);
        mean.fill(0.0);
        for (rows, weights) in self.rows.chunks(TERMS).zip(self.weights.chunks(TERMS)) {
            batch_sums.fill(0.0);
            for (row, weight) in rows.iter().zip(weights) {
                fill(row, &mut numbers);
                add_multiple(&mut batch_sums, *weight, &numbers);
            }
            add_to(mean, &batch_sums);
        }
    }
}

/// The absent factors of a product game: one table of factors, or one for each reference row.
pub(crate) enum AbsentSide {
    /// All factors are 1.
    Ones,
    /// The factors at each reference row.
    Rows(ReferenceRows),
    /// Each factor's weighted mean over the reference rows.
    Means(ReferenceRows),
}

impl AbsentSide {
    /// The reference rows; `None` if all factors are 1.
    pub(crate) fn reference(&self) -> Option<&ReferenceRows> {
        match self {
            Self::Ones => None,
            Self::Rows(reference) | Self::Means(reference) => Some(reference),
        }
    }

    /// The weights of the variants; the game is their weighted mean.
    pub(crate) fn weights(&self) -> &[f64] {
        match self {
            Self::Rows(reference) => &reference.weights,
            Self::Ones | Self::Means(_) => &[1.0],
        }
    }

    /// The number of roundings of a mean factor, if absent factors are means.
    pub(crate) fn mean_roundings(&self) -> Option<usize> {
        match self {
            Self::Means(reference) => Some(TERMS + reference.rows.len().div_ceil(TERMS) + self.normalised()),
            Self::Ones | Self::Rows(_) => None,
        }
    }

    /// The number of roundings of the weights of reference rows, which are divided by their sum.
    pub(crate) fn normalised(&self) -> usize {
        let Some(ReferenceRows { weights, .. }) = self.reference() else { return 0 };
        let equal = 1.0 / weights.len() as f64;
        if weights.iter().all(|w| *w == equal) { 1 } else { 2 + weights.len() }
    }

    /// The smallest and the largest number of each of `width` columns; `None` without rows.
    pub(crate) fn column_ranges(&self, width: usize) -> Option<Vec<[f64; 2]>> {
        let reference = self.reference()?;
        let join = |[low, high]: [f64; 2], v: f64| [v.min(low), v.max(high)];
        let column = |j| reference.rows.iter().map(move |row| row[j]);
        Some((0..width).map(|j| column(j).fold([f64::INFINITY, f64::NEG_INFINITY], join)).collect())
    }

    /// The reference row of a variant, if it has one.
    pub(crate) fn row(&self, variant: usize) -> Option<&[f64]> {
        match self {
            Self::Rows(reference) => Some(&reference.rows[variant]),
            Self::Ones | Self::Means(_) => None,
        }
    }

    /// Writes the absent factor k of `product` for row i of `u` to `out[k * u.len() + i]`. If `sizes` is
    /// true, it writes the factors' sizes instead, to which errors are relative. Does nothing for
    /// [`AbsentSide::Ones`].
    pub(crate) fn fill_factors(
        &self,
        isa: Isa,
        product: &PlayerProduct<'_>,
        u: Columns<'_>,
        variant: usize,
        sizes: bool,
        out: &mut [f64],
    ) {
        let fill = |k: usize, row: &[f64], out: &mut [f64]| match sizes {
            false => product.factor(isa, k, u, row, out),
            true => product.size(isa, k, u, row, out),
        };
        match self {
            Self::Ones => {}
            Self::Rows(reference) => {
                for (k, factor) in out.chunks_exact_mut(u.len()).enumerate() {
                    fill(k, &reference.rows[variant], factor);
                }
            }
            Self::Means(reference) => {
                // Factors are computed in parallel; each sums its rows in order, [`TERMS`] at a time.
                out.par_chunks_exact_mut(u.len())
                    .enumerate()
                    .for_each(|(k, mean)| reference.mean(|row, factor| fill(k, row, factor), mean));
            }
        }
    }
}
