//! The terms of a model's product games: batches of rows, panel by panel.

use super::super::panel::{PanelSide, PointPanel, log_extent, multiply, sum};
use super::{ProductEngine, ProductRounding};
use crate::attribution::product::{PowerTerms, ProductGame, ProductTerms, TermSink};
use crate::attribution::quadrature::{TermBatch, max_products};
use crate::error::Result;
use crate::game::AbsentSide;
use crate::kernel::player_products::PlayerProduct;
use crate::simd::{LANES, Lanes};
use crate::table::Table;

/// Weights into which factors of any size are multiplied keep far within the range of doubles: `exp` of this,
/// either way.
const EXTENT: f64 = 300.0;

/// Some rows under the game of a model, a batch a part. They are the rows of its tiles, and the panels' rows
/// one after the other, with their padding, are the points.
pub(super) struct RowBatches<'e> {
    pub(super) explainer: &'e ProductEngine<'e>,
    pub(super) data: &'e Table,
    pub(super) batch: usize,
}

/// Per-thread memory.
#[derive(Default)]
pub(super) struct TermScratch {
    present: Vec<f64>,
    /// The sizes of the present factors, and the products of the larger sizes of both sides.
    sizes: Vec<f64>,
    tops: Vec<Lanes>,
    absent: Vec<f64>,
    absent_sizes: Vec<f64>,
    active: Vec<u32>,
    candidates: Vec<u32>,
    weights: Vec<Lanes>,
}

/// A panel, a product, and some variants of the absent side with their factors.
struct PanelPortion<'a> {
    panel: &'a PointPanel,
    /// The number of the product.
    number: usize,
    product: &'a PlayerProduct<'a>,
    variants: std::ops::Range<usize>,
    absent: Option<&'a [f64]>,
    absent_sizes: Option<&'a [f64]>,
    /// The absent side, where it is one reference row.
    side: Option<&'a PanelSide>,
    /// For each row of the batch the factors whose columns differ from those of one row: the reference row,
    /// or zeros.
    differing: Option<&'a [Vec<u32>]>,
    /// The factors that are not 1 for a row of zeros.
    occupied: Option<&'a [u32]>,
}

impl ProductEngine<'_> {
    /// For each product and row, the factors whose columns differ from the one reference row, or from zeros
    /// where all absent factors are 1.
    fn differing(&self, rows: &[Vec<f64>]) -> Vec<Vec<Vec<u32>>> {
        let zeros = vec![0.0; self.model.support_points.width()];
        let reference = match self.absent.row(0) {
            Some(row) if !self.cached_absent_sides.is_empty() => row,
            None if self.nonunit_factors.iter().flatten().any(Option::is_some) => &zeros,
            _ => return Vec::new(),
        };
        let players = self.groups.players();
        let differs = |x: &[f64], p: usize| players[p].columns.iter().any(|&j| x[j] != reference[j]);
        let of_row = |product: &PlayerProduct<'_>, x: &[f64]| {
            (0..product.players.len() as u32).filter(|&k| differs(x, product.players[k as usize])).collect()
        };
        self.products.iter().map(|p| rows.iter().map(|x| of_row(p, x)).collect()).collect()
    }

    /// Passes the terms of a batch of rows for one panel, one product and a range of variants of the absent
    /// side.
    fn terms_of(
        &self,
        rows: &[Vec<f64>],
        part: &PanelPortion<'_>,
        w: &mut TermScratch,
        reader: &mut TermSink<'_>,
    ) -> Result<()> {
        let (product, panel) = (part.product, part.panel);
        let (factors, len) = (product.players.len(), panel.len);
        let weights = &self.absent.weights()[part.variants.clone()];
        // A constant is the same under all variants.
        let total = [weights.iter().sum()];
        let weights = if factors == 0 { &total } else { weights };
        // After the factors stands the engine's padding.
        w.present.clear();
        w.present.resize((factors + 1) * len, 1.0);
        let ProductRounding { bounded, by_size, always } = &self.rounded[part.number];
        let (bounded, by_size) = (*bounded, *by_size);
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
            let mut fill = |k: usize| {
                let factor = &mut w.present[k * len..(k + 1) * len];
                product.factor(self.isa, k, panel.columns(), x, factor);
            };
            match list {
                Some(list) => list.iter().for_each(|&k| fill(k as usize)),
                None => (0..factors).for_each(&mut fill),
            }
            if by_size {
                w.sizes.resize(factors * len, 1.0);
                let sizes = w.sizes.chunks_exact_mut(len).enumerate();
                sizes.for_each(|(k, out)| product.size(self.isa, k, panel.columns(), x, out));
            }
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
                w.weights.clear();
                w.weights.resize(len / LANES, Lanes::splat(weight * product.scale));
                if by_size {
                    let other = part.absent_sizes.map(|b| &b[slot * size..(slot + 1) * size]);
                    max_products(&w.sizes, other, &w.weights, &mut w.tops);
                }
                let mut rounding = *rounding;
                if let Some(b) = b.filter(|_| w.active.len() < factors) {
                    // The factors that both sides share, between the others.
                    let factor = |k: usize| &b[k * len..(k + 1) * len];
                    let active = w.active.iter().map(|&k| k as usize);
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
                            Some(side) => side.fold_factors(run, &mut w.weights),
                            None => run.for_each(|k| multiply(&mut w.weights, factor(k))),
                        });
                    } else {
                        // The engine has an eye on what such products are on their way.
                        let shared =
                            shared.flatten().filter(|_| list.is_some()).map(|k| k * len..(k + 1) * len);
                        shared.for_each(|range| w.present[range.clone()].copy_from_slice(&b[range]));
                        w.active.clear();
                        w.active.extend(0..factors as u32);
                    }
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
                        sizes: by_size.then_some(&w.tops),
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

    /// Lists the factors in which present and absent side differ somewhere in the panel; the others cost
    /// nothing further. Against a reference row it is enough to compare the rows.
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
                // Usually the first row tells.
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

    /// Passes the terms panel by panel.
    fn terms(&self, part: usize, w: &mut TermScratch, reader: &mut TermSink<'_>) -> Result<()> {
        let explainer = self.explainer;
        let rows = part * self.batch..((part + 1) * self.batch).min(self.data.rows());
        reader.begin_tile(&rows, &(0..explainer.panels.iter().map(|panel| panel.len).sum()));
        let rows: Vec<Vec<f64>> = rows.map(|i| self.data.row(i)).collect();
        let differing = explainer.differing(&rows);
        for (index, panel) in explainer.panels.iter().enumerate() {
            for (t, product) in explainer.products.iter().enumerate() {
                let side = explainer.cached_absent_sides.get(t).map(|kept| &kept[index]);
                // Sizes are made of all factors.
                let by_size = explainer.rounded[t].by_size;
                let part = PanelPortion {
                    panel,
                    number: t,
                    product,
                    variants: 0..1,
                    absent: side.map(|side| side.factors.as_slice()),
                    absent_sizes: side.and_then(|side| side.sizes.as_deref()),
                    side,
                    differing: differing.get(t).filter(|_| !by_size).map(Vec::as_slice),
                    occupied: explainer.nonunit_factors.get(t).and_then(|lists| lists[index].as_deref()),
                };
                if side.is_some() || !matches!(explainer.absent, AbsentSide::Rows(_)) {
                    explainer.terms_of(&rows, &part, w, reader)?;
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
                        factors.clear();
                        factors.resize(size * range.len(), 1.0);
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
                    if by_size {
                        fill(&mut sizes, true);
                    }
                    let absent_sizes = by_size.then_some(&sizes[..]);
                    let part =
                        PanelPortion { variants: range.clone(), absent: Some(&absent), absent_sizes, ..part };
                    explainer.terms_of(&rows, &part, w, reader)?;
                }
                (w.absent, w.absent_sizes) = (absent, sizes);
            }
            for power in &explainer.powers {
                for (row, x) in rows.iter().enumerate() {
                    let present = power.power.centred(x);
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
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        out.push(a[i].min(b[j]));
        (i, j) = (i + usize::from(a[i] <= b[j]), j + usize::from(b[j] <= a[i]));
    }
    out.extend(&a[i..]);
    out.extend(&b[j..]);
}
