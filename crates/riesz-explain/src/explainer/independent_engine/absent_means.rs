//! The source of a part's absent columns, and the means of a domain's kernel over it: means of the products
//! of absent players' factors, and the sizes of these factors.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::attribution::part_coalition_values::{PresentProducts, blocks, means};
use crate::control::check_cancelled;
use crate::embedding::{ConditionalMeanEmbeddings, Conditioning};
use crate::error::{Error, Result};
use crate::game::{Part, ReferenceRows};
use crate::kernel::player_products::PlayerProduct;
use crate::kernel::{ColumnRanges, Columns, Kernel};
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::DistinctRows;
use crate::linalg::{add_to, multiply_entries, raise_to_abs};
use crate::simd::{Isa, LANES, Lanes};
use crate::table::Column;

/// The largest number of means: 512 MB.
const NUMBERS: usize = 1 << 26;

/// The distribution of a part's absent columns; parts with the same distribution share one source.
pub(super) struct Source {
    /// The part's columns; of several parts with this source, the first part's.
    pub(super) names: Vec<Column>,
    /// For each column of the part, its player.
    pub(super) owner: Vec<usize>,
    /// Rows of the part's columns.
    pub(super) reference: ReferenceRows,
    pub(super) conditional: Option<Box<ConditionalMeanEmbeddings>>,
}

/// The means of a domain's kernel over a source; views with the same means share them.
pub(super) struct DomainMeans {
    pub(super) domain: usize,
    pub(super) source: Option<usize>,
    /// For each column of the domain, its position among the part's columns (`places`) and its player
    /// (`owner`).
    pub(super) places: Vec<usize>,
    pub(super) owner: Vec<usize>,
    /// The source's rows in the domain's columns.
    pub(super) rows: Vec<Vec<f64>>,
    /// For each product, the largest size of each player's factor over the source's rows, players × rows.
    pub(super) largest: Vec<Vec<f64>>,
    /// For each product, the means if they do not depend on the explained row: blocks × rows.
    pub(super) drawn: Vec<Vec<Lanes>>,
}

/// The quantities of one view at a row.
#[derive(Default)]
pub(super) struct ViewSide {
    /// For each row of the domain, the kernel, if all columns are always present.
    pub(super) always: Option<Vec<f64>>,
    /// For each product, the products of the present players' factors.
    pub(super) present: Vec<PresentProducts>,
    pub(super) scales: Vec<f64>,
    /// For each row of the domain, an upper bound on the sum of the products.
    pub(super) tops: Vec<f64>,
    pub(super) units: f64,
    pub(super) per_log: f64,
    pub(super) tiny: f64,
    /// A bound on the error of the kernel that comes from the approximation of radial factors.
    pub(super) approximation_error: f64,
}

impl DomainMeans {
    /// Computes the sizes and, with `tables` and if they do not depend on the explained row, the means for
    /// all coalitions.
    pub(super) fn precomputed(
        mut self,
        domain: &DistinctRows,
        sources: &[Source],
        (players, tables): (usize, bool),
        stop: &AtomicBool,
    ) -> Result<Self> {
        let Some(source) = self.source.map(|s| &sources[s]) else { return Ok(self) };
        let (isa, rows, columns) = (Isa::detect(), domain.rows.rows(), Columns::from_row(&domain.rows, 0));
        let products = self.products(domain)?;
        let fill = |product: &PlayerProduct<'_>, x: &[f64], sizes: bool, out: &mut [f64]| {
            out.fill(1.0);
            for (k, &player) in product.players.iter().enumerate() {
                let out = &mut out[player * rows..(player + 1) * rows];
                match sizes {
                    true => product.size(isa, k, columns, x, out),
                    false => product.factor(isa, k, columns, x, out),
                }
            }
        };
        let largest = |product: &PlayerProduct<'_>| {
            let (mut max_sizes, mut sizes) = (vec![0.0_f64; players * rows], vec![0.0; players * rows]);
            for x in &self.rows {
                check_cancelled(stop)?;
                fill(product, x, true, &mut sizes);
                raise_to_abs(&mut max_sizes, &sizes);
            }
            Ok(max_sizes)
        };
        if source.conditional.is_some() || !tables {
            let sizes = products.iter().map(largest).collect::<Result<_>>()?;
            drop(products);
            self.largest = sizes;
            return Ok(self);
        }
        let numbers = self.size(domain, players);
        if numbers > NUMBERS {
            let allowed = format!(
                "the means of all their coalitions need {numbers} numbers, and at most {NUMBERS} fit: group \
                 columns, or take fewer support points"
            );
            return Err(Error::parameter("number of features", players, allowed));
        }
        let sizes_and_means = |product: &PlayerProduct<'_>| {
            // Without cancellation the size of a factor is its absolute value.
            let cancels = product.cancels(true);
            let mut sizes = if cancels { largest(product)? } else { vec![0.0; players * rows] };
            let weights = &source.reference.weights;
            let means = means(isa, (players, rows), weights, stop, |b, out| {
                fill(product, &self.rows[b], false, out);
                if !cancels {
                    raise_to_abs(&mut sizes, out);
                }
            })?;
            Ok((sizes, means))
        };
        let results = products.par_iter().map(sizes_and_means).collect::<Result<Vec<_>>>()?;
        drop(products);
        (self.largest, self.drawn) = results.into_iter().unzip();
        Ok(self)
    }

    /// The number of doubles that the means need.
    pub(super) fn size(&self, domain: &DistinctRows, players: usize) -> usize {
        let products = self.products(domain).map_or(1, |products| products.len());
        products.saturating_mul(domain.rows.rows()).saturating_mul(blocks(players) * LANES)
    }

    /// Returns the products of players' factors whose sum is the domain's kernel, or approximates it.
    pub(super) fn products<'k>(&self, domain: &'k DistinctRows) -> Result<Vec<PlayerProduct<'k>>> {
        let approximation = domain.radial_approximation();
        domain.kernel.split(domain.rows.columns(), &self.owner, Some(&approximation))
    }

    /// Returns the sizes of the domain's kernel at a row, which bound its rounding errors, and the kernel if
    /// all columns are always present.
    pub(super) fn side(
        &self,
        domain: &DistinctRows,
        x: &[f64],
        players: usize,
        isa: Isa,
    ) -> Result<ViewSide> {
        let (rows, columns) = (domain.rows.rows(), Columns::from_row(&domain.rows, 0));
        let mut side = ViewSide { tops: vec![0.0; rows], ..ViewSide::default() };
        let mut ranges = ColumnRanges {
            u: ColumnRanges::per_column(columns, self.owner.len()),
            v: x.iter().map(|v| [*v; 2]).collect(),
        };
        for row in &self.rows {
            ranges.v.iter_mut().zip(row).for_each(|(r, v)| *r = [r[0].min(*v), r[1].max(*v)]);
        }
        let mut size = vec![1.0; rows];
        let products = self.products(domain)?;
        for (q, product) in products.iter().enumerate() {
            let mut top = vec![product.scale.abs(); rows];
            for (k, &player) in product.players.iter().enumerate() {
                product.size(isa, k, columns, x, &mut size);
                if self.source.is_none() {
                    multiply_entries(&mut top, &size);
                    continue;
                }
                let range = player * rows..(player + 1) * rows;
                for ((top, point_size), other) in top.iter_mut().zip(&size).zip(&self.largest[q][range]) {
                    *top *= point_size.max(*other);
                }
            }
            add_to(&mut side.tops, &top);
            let (_, precision) = product.precision(&ranges);
            side.units = side.units.max(precision.units + (2 * players + products.len()) as f64);
            side.per_log = side.per_log.max(precision.per_log);
            side.tiny = side.tiny.max((players + 1) as f64 * precision.tiny * precision.top.max(1.0));
            side.approximation_error += product.approximation_error(&ranges);
        }
        if self.source.is_none() {
            side.always = Some(self.kernel_at(domain, x, isa));
        }
        Ok(side)
    }

    /// Adds to a side the products of the present players' factors of all coalitions.
    pub(super) fn fill_present(
        &self,
        domain: &DistinctRows,
        x: &[f64],
        players: usize,
        isa: Isa,
        side: &mut ViewSide,
    ) -> Result<()> {
        if self.source.is_none() {
            return Ok(());
        }
        let (rows, columns) = (domain.rows.rows(), Columns::from_row(&domain.rows, 0));
        let mut factors = vec![1.0; players * rows];
        for product in &self.products(domain)? {
            factors.fill(1.0);
            for (k, &player) in product.players.iter().enumerate() {
                product.factor(isa, k, columns, x, &mut factors[player * rows..(player + 1) * rows]);
            }
            let mut present = PresentProducts::default();
            present.fill(&factors, rows);
            side.present.push(present);
            side.scales.push(product.scale);
        }
        Ok(())
    }

    /// Evaluates the domain's kernel between a row and each row of the domain.
    pub(super) fn kernel_at(&self, domain: &DistinctRows, x: &[f64], isa: Isa) -> Vec<f64> {
        let mut out = vec![0.0; domain.rows.rows()];
        domain.kernel.row(isa, Columns::from_row(&domain.rows, 0), x, &mut Vec::new(), &mut out);
        out
    }
}

/// Returns the columns of each background, and the columns that are in no background.
pub(super) fn columns_of_parts(
    model: &KernelExpansion,
    parts: &[Part],
) -> Result<(Vec<Vec<usize>>, Vec<usize>)> {
    let width = model.support_points.width();
    let columns_of_part = |part: &Part| -> Vec<usize> {
        let has_column = |j: &usize| part.background.rows.index_of(&model.columns()[*j].name).is_ok();
        (0..width).filter(has_column).collect()
    };
    let columns: Vec<Vec<usize>> = parts.iter().map(columns_of_part).collect();
    let all_columns = columns.concat();
    let twice = (0..width).any(|j| all_columns.iter().filter(|k| **k == j).count() > 1);
    let actual: usize = parts.iter().map(|part| part.background.rows.width()).sum();
    if twice || all_columns.len() != actual {
        let why = "each column of a background must be a column of the model, and be in no other background";
        return Err(Error::shape("the backgrounds of all parts", "columns", all_columns.len(), actual, why));
    }
    Ok((columns, (0..width).filter(|j| !all_columns.contains(j)).collect()))
}

/// Learns the conditional distribution of a part's columns given some of them; `kernels` are the model's
/// kernels that read all of these columns.
pub(super) fn conditional_means(
    conditioning: &Conditioning,
    reference: &ReferenceRows,
    columns: &[Column],
    owner: &[usize],
    kernels: &[&Kernel],
    players: usize,
    stop: &AtomicBool,
) -> Result<ConditionalMeanEmbeddings> {
    let table = reference.table(columns)?;
    let model_kernel = if let [kernel] = kernels { Some(*kernel) } else { None };
    let columns_of_player = |p: usize| (0..owner.len()).filter(|&j| owner[j] == p).collect::<Vec<_>>();
    let blocks: Vec<Vec<usize>> =
        (0..players).map(columns_of_player).filter(|columns| !columns.is_empty()).collect();
    let (names, weights) = (("the observational game", model_kernel), reference.weights.clone());
    ConditionalMeanEmbeddings::learn(table, weights, &blocks, names, conditioning, |_, _| 0.0, stop)
}
