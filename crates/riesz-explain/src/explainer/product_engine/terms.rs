//! The terms of a model's product games, for batches of rows, panel by panel.

use super::super::panel::{PanelSide, PointPanel, log_extent, multiply, sum};
use super::{ProductEngine, ProductRounding};
use crate::attribution::product::{PowerTerms, ProductGame, ProductTerms, TermSink};
use crate::attribution::quadrature::{RoundingUnits, TermBatch, max_products};
use crate::error::Result;
use crate::game::AbsentSide;
use crate::kernel::player_products::PlayerProduct;
use crate::memory::refill;
use crate::simd::{LANES, Lanes};
use crate::table::Table;

/// The largest absolute logarithm by which shared factors may change a weight, far within the range of
/// doubles.
const EXTENT: f64 = 300.0;

/// The product game of some rows under a model; each part is a batch of rows. The tiles' rows are these rows,
/// and their points are the rows of all panels in order, padding included.
pub(super) struct RowBatches<'e> {
    pub(super) explainer: &'e ProductEngine<'e>,
    pub(super) data: &'e Table,
    pub(super) batch: usize,
}

/// Working memory of one thread.
#[derive(Default)]
pub(super) struct TermScratch {
    present: Vec<f64>,
    /// The sizes of the present factors, and the products of the larger sizes of both sides (`tops`).
    sizes: Vec<f64>,
    tops: Vec<Lanes>,
    absent: Vec<f64>,
    absent_sizes: Vec<f64>,
    active: Vec<u32>,
    candidates: Vec<u32>,
    weights: Vec<Lanes>,
}

/// A panel, a product, and a range of variants of the absent side with their factors.
struct PanelPortion<'a> {
    panel: &'a PointPanel,
    /// The number of the product.
    number: usize,
    product: &'a PlayerProduct<'a>,
    variants: std::ops::Range<usize>,
    absent: Option<&'a [f64]>,
    absent_sizes: Option<&'a [f64]>,
    /// The absent side, if it is one reference row.
    side: Option<&'a PanelSide>,
    /// For each row of the batch, the factors whose columns differ from the reference row, or from zeros.
    differing: Option<&'a [Vec<u32>]>,
    /// The factors that are not 1 for a row of zeros.
    occupied: Option<&'a [u32]>,
}

impl TermScratch {
    /// Multiplies the weights by the factors that both sides share, so that only those that differ stay
    /// active. If this could leave the range of doubles, all factors become active instead. With
    /// `is_partial`, only the present factors that may differ are filled. `b` is the absent side.
    fn fold_shared_factors(
        &mut self,
        part: &PanelPortion<'_>,
        b: &[f64],
        bounded: bool,
        is_partial: bool,
        rounding: &mut RoundingUnits,
    ) {
        let (factors, len) = (part.product.players.len(), part.panel.len);
        // Runs of factors that both sides share, between those that differ.
        let factor = |k: usize| &b[k * len..(k + 1) * len];
        let active = self.active.iter().map(|&k| k as usize);
        let from = std::iter::once(0).chain(active.clone().map(|k| k + 1));
        let shared = from.zip(active.chain([factors])).map(|(from, end)| from..end);
        let extents = shared.clone().map(|run| match part.side {
            Some(side) => side.log_extent(&run),
            None => run.map(|k| log_extent(factor(k), !bounded)).fold([0.0; 2], sum),
        });
        let [decay, growth] = extents.fold([0.0; 2], sum);
        if bounded || decay.max(growth) < EXTENT {
            rounding.decay += decay;
            shared.for_each(|run| match part.side {
                Some(side) => side.fold_factors(run, &mut self.weights),
                None => run.for_each(|k| multiply(&mut self.weights, factor(k))),
            });
        } else {
            // The engine controls the intermediate magnitudes of such products.
            let shared = shared.flatten().filter(|_| is_partial).map(|k| k * len..(k + 1) * len);
            shared.for_each(|range| self.present[range.clone()].copy_from_slice(&b[range]));
            self.active.clear();
            self.active.extend(0..factors as u32);
        }
    }
}

impl ProductEngine<'_> {
    /// Returns, for each product and row, the factors whose columns differ from the single reference row, or
    /// from zeros if all absent factors are 1.
    fn differing(&self, rows: &[Vec<f64>]) -> Vec<Vec<Vec<u32>>> {
        let zeros = vec![0.0; self.model.support_points.width()];
        let reference = match self.absent.row(0) {
            Some(row) if !self.cached_absent_sides.is_empty() => row,
            None if self.nonunit_factors.iter().flatten().any(Option::is_some) => &zeros,
            _ => return Vec::new(),
        };
        let players = self.groups.players();
        let differs = |x: &[f64], p: usize| players[p].columns.iter().any(|&j| x[j] != reference[j]);
        let differing_players = |product: &PlayerProduct<'_>, x: &[f64]| {
            (0..product.players.len() as u32).filter(|&k| differs(x, product.players[k as usize])).collect()
        };
        self.products.iter().map(|p| rows.iter().map(|x| differing_players(p, x)).collect()).collect()
    }

    /// Passes the terms of a batch of rows to `reader`, for one panel, one product and a range of variants of
    /// the absent side.
    fn add_portion(
        &self,
        rows: &[Vec<f64>],
        part: &PanelPortion<'_>,
        w: &mut TermScratch,
        reader: &mut TermSink<'_>,
    ) -> Result<()> {
        let (product, panel) = (part.product, part.panel);
        let (factors, len) = (product.players.len(), panel.len);
        let weights = &self.absent.weights()[part.variants.clone()];
        // A constant term is the same under all variants.
        let total = [weights.iter().sum()];
        let weights = if factors == 0 { &total } else { weights };
        // The engine's padding follows the factors.
        refill(&mut w.present, (factors + 1) * len, 1.0);
        let ProductRounding { bounded, relative_to_size, always } = &self.rounded[part.number];
        let (bounded, relative_to_size) = (*bounded, *relative_to_size);
        let mut candidates = std::mem::take(&mut w.candidates);
        for (row, x) in rows.iter().enumerate() {
            // The factors that may differ from the absent side somewhere in the panel.
            let list = match (part.differing, part.occupied) {
                (Some(differing), None) if part.side.is_some() => Some(differing[row].as_slice()),
                (Some(differing), Some(occupied)) => {
                    sorted_union(&differing[row], occupied, &mut candidates);
                    Some(candidates.as_slice())
                }
                _ => None,
            };
            self.fill_present(part, x, list, w);
            let row_rounding = always.is_none().then(|| self.rounding(part.number, x));
            let Some((rounding, tinies)) = always.as_ref().or(row_rounding.as_ref()) else { continue };
            for (slot, (variant, weight)) in part.variants.clone().zip(weights).enumerate() {
                let size = (factors + 1) * len;
                let b = part.absent.map(|b| &b[slot * size..(slot + 1) * size]);
                w.active.clear();
                match list {
                    Some(list) => w.active.extend(list),
                    None => self.find_active(x, variant, part, b, &mut w.active, &w.present),
                }
                refill(&mut w.weights, len / LANES, Lanes::splat(weight * product.scale));
                if relative_to_size {
                    let other = part.absent_sizes.map(|b| &b[slot * size..(slot + 1) * size]);
                    max_products(&w.sizes, other, &w.weights, &mut w.tops);
                }
                let mut rounding = *rounding;
                if let Some(b) = b.filter(|_| w.active.len() < factors) {
                    w.fold_shared_factors(part, b, bounded, list.is_some(), &mut rounding);
                }
                let active = w.active.len();
                w.active.resize(active.next_multiple_of(4), factors as u32);
                reader.add_terms(&ProductTerms {
                    row,
                    point: panel.from,
                    players: &product.players,
                    run: TermBatch {
                        a: &w.present,
                        b,
                        stride: len,
                        offset: 0,
                        active: &w.active,
                        players: active,
                        weights: &w.weights,
                        sizes: relative_to_size.then_some(&w.tops),
                        tinies,
                        rounding,
                    },
                    coef: &panel.coef,
                    is_last: slot + 1 == weights.len(),
                })?;
            }
        }
        w.candidates = candidates;
        Ok(())
    }

    /// Fills the present factors of the row `x`, or only those of a list, and the sizes of all factors if
    /// errors are relative to them.
    fn fill_present(&self, part: &PanelPortion<'_>, x: &[f64], list: Option<&[u32]>, w: &mut TermScratch) {
        let (product, columns, len) = (part.product, part.panel.columns(), part.panel.len);
        let factors = product.players.len();
        let mut fill = |k: usize| {
            product.factor(self.isa, k, columns, x, &mut w.present[k * len..(k + 1) * len]);
        };
        match list {
            Some(list) => list.iter().for_each(|&k| fill(k as usize)),
            None => (0..factors).for_each(&mut fill),
        }
        if self.rounded[part.number].relative_to_size {
            w.sizes.resize(factors * len, 1.0);
            let sizes = w.sizes.chunks_exact_mut(len).enumerate();
            sizes.for_each(|(k, out)| product.size(self.isa, k, columns, x, out));
        }
    }

    /// Lists the factors in which present and absent side differ somewhere in the panel; the other factors
    /// need no further work. Against a reference row it compares the rows only.
    fn find_active(
        &self,
        x: &[f64],
        variant: usize,
        part: &PanelPortion<'_>,
        b: Option<&[f64]>,
        active: &mut Vec<u32>,
        present: &[f64],
    ) {
        let len = part.panel.len;
        let reference = self.absent.row(variant);
        for (k, &player) in part.product.players.iter().enumerate() {
            let a = &present[k * len..(k + 1) * len];
            let differs = match (reference, b) {
                (Some(row), _) => self.groups.players()[player].columns.iter().any(|&j| x[j] != row[j]),
                // The first comparison usually decides.
                (None, None) => a.iter().any(|&a| a != 1.0),
                (None, Some(b)) => a.iter().zip(&b[k * len..]).any(|(a, b)| a != b),
            };
            if differs {
                active.push(k as u32);
            }
        }
    }
}

impl ProductGame for RowBatches<'_> {
    type Memory = TermScratch;

    fn parts(&self) -> usize {
        self.data.rows().div_ceil(self.batch)
    }

    /// Passes the terms to `reader`, panel by panel.
    fn terms(&self, part: usize, w: &mut TermScratch, reader: &mut TermSink<'_>) -> Result<()> {
        let explainer = self.explainer;
        let rows = part * self.batch..((part + 1) * self.batch).min(self.data.rows());
        reader.begin_tile(&rows, &(0..explainer.panels.iter().map(|panel| panel.len).sum()));
        let rows = self.data.row_vectors(rows);
        let differing = explainer.differing(&rows);
        for (index, panel) in explainer.panels.iter().enumerate() {
            for (t, product) in explainer.products.iter().enumerate() {
                let side = explainer.cached_absent_sides.get(t).map(|kept| &kept[index]);
                // Sizes need all factors.
                let relative_to_size = explainer.rounded[t].relative_to_size;
                let part = PanelPortion {
                    panel,
                    number: t,
                    product,
                    variants: 0..1,
                    absent: side.map(|side| side.factors.as_slice()),
                    absent_sizes: side.and_then(|side| side.sizes.as_deref()),
                    side,
                    differing: differing.get(t).filter(|_| !relative_to_size).map(Vec::as_slice),
                    occupied: explainer.nonunit_factors.get(t).and_then(|lists| lists[index].as_deref()),
                };
                if side.is_some() || !matches!(explainer.absent, AbsentSide::Rows(_)) {
                    explainer.add_portion(&rows, &part, w, reader)?;
                    continue;
                }
                let (size, variants) =
                    ((product.players.len() + 1) * panel.len, explainer.absent.weights().len());
                let portion = explainer.portion(t, panel.len);
                let mut absent = std::mem::take(&mut w.absent);
                let mut sizes = std::mem::take(&mut w.absent_sizes);
                for from in (0..variants).step_by(portion) {
                    let range = from..(from + portion).min(variants);
                    let fill = |factors: &mut Vec<f64>, sizes: bool| {
                        refill(factors, size * range.len(), 1.0);
                        for (out, variant) in factors.chunks_exact_mut(size).zip(range.clone()) {
                            let variant_factors = &mut out[..size - panel.len];
                            explainer.absent.fill_factors(
                                explainer.isa,
                                product,
                                panel.columns(),
                                variant,
                                sizes,
                                variant_factors,
                            );
                        }
                    };
                    fill(&mut absent, false);
                    if relative_to_size {
                        fill(&mut sizes, true);
                    }
                    let absent_sizes = relative_to_size.then_some(&sizes[..]);
                    let part =
                        PanelPortion { variants: range.clone(), absent: Some(&absent), absent_sizes, ..part };
                    explainer.add_portion(&rows, &part, w, reader)?;
                }
                (w.absent, w.absent_sizes) = (absent, sizes);
            }
            for power in &explainer.powers {
                for (row, x) in rows.iter().enumerate() {
                    let present = power.power.centered(x);
                    let (players, sums) = (&power.power.players[..], power.sums(index, panel, &present));
                    reader.add_powers(&PowerTerms {
                        row,
                        point: panel.from,
                        players,
                        sums,
                        coef: &panel.coef,
                    })?;
                }
            }
        }
        reader.finish_tile()
    }
}

/// The union of two ascending lists, ascending.
fn sorted_union(a: &[u32], b: &[u32], out: &mut Vec<u32>) {
    out.clear();
    out.extend(a.iter().chain(b));
    // The stable sort merges the two lists in linear time.
    out.sort();
    out.dedup();
}
