//! Product games, through the quadrature engine.
//!
//! Support points are cut into panels that fit the cache. For each panel the absent side is made once and
//! shared by the rows of a batch; for each row the present side is made once and shared by all reference
//! rows; the engine then takes eight support points at a time. Every row is summed in the same order
//! whatever the batch and the number of threads, so results are bit for bit the same.

use rayon::prelude::*;

use super::panel::{Panel, Side, decay, multiply, panels};
use crate::attribution::quadrature::{self as engine, Rounding, Run, Scratch};
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::explanation::{Exactness, Explanation, Fact, Index, Provenance};
use crate::game::{Absent, Game};
use crate::kernel::products::PlayerProduct;
use crate::linalg::Matrix;
use crate::simd::{Isa, LANES, Lanes, Plain};
use crate::table::{Groups, Table};

/// Rows explained together by one thread.
const BATCH: usize = 16;

/// Doubles that one panel's present side may hold: a share of the second-level cache.
const PANEL: usize = 16384;

/// Doubles that the absent side of a panel may hold before its reference rows are taken in portions.
const ABSENT: usize = 1 << 19;

/// Explains rows of one model under one product game.
pub(super) struct ByProducts<'m> {
    pub(super) model: &'m Expansion,
    pub(super) game: Game,
    pub(super) groups: Groups,
    products: Vec<PlayerProduct<'m>>,
    absent: Absent,
    panels: Vec<Panel>,
    /// The absent side of each product and panel, where it is the same for all rows: one reference row, or means.
    kept: Vec<Vec<Side>>,
    /// Where the absent side is all 1, for each product and panel: the factors that are not 1 for a row of zeros. `None` if
    /// they are so many that a list saves nothing.
    occupied: Vec<Vec<Option<Vec<u32>>>>,
    pub(super) base: Vec<f64>,
    pub(super) isa: Isa,
}

/// What is summed up for a row.
#[derive(Clone)]
struct Sums {
    /// outputs × players
    values: Vec<f64>,
    error: Vec<f64>,
    magnitude: Vec<f64>,
    /// A player, and what each support point contributes to its value before it is multiplied with its coefficient: panel by panel,
    /// padding included.
    functional: Option<(usize, Vec<f64>)>,
}

/// Per-thread memory.
#[derive(Default)]
struct Workspace {
    scratch: Scratch,
    present: Vec<f64>,
    absent: Vec<f64>,
    active: Vec<u32>,
    candidates: Vec<u32>,
    weights: Vec<Lanes>,
    lanes: Vec<Lanes>,
}

/// A panel, a product, and some variants of the absent side with their factors.
struct Portion<'a> {
    panel: &'a Panel,
    product: &'a PlayerProduct<'a>,
    variants: std::ops::Range<usize>,
    absent: Option<&'a [f64]>,
    /// The absent side, where it is one reference row.
    side: Option<&'a Side>,
    /// For each row of the batch the factors whose columns differ from those of one row: the reference row, or zeros.
    differing: Option<&'a [Vec<u32>]>,
    /// The factors that are not 1 for a row of zeros.
    occupied: Option<&'a [u32]>,
}

impl<'m> ByProducts<'m> {
    /// Prepares to explain `model` under `game` for players that cover its columns.
    pub(super) fn new(model: &'m Expansion, game: Game, groups: Groups) -> Result<Self> {
        let products = model.kernel.products(model.columns(), &groups)?;
        let absent = game.absent_side(model.columns())?;
        let widest = products.iter().map(|p| p.players.len()).max().unwrap_or(0).max(model.points.width());
        let panels = panels(model, (PANEL / widest.max(1) / LANES * LANES).clamp(LANES, 256));
        let mut explainer = Self {
            model,
            game,
            groups,
            products,
            absent,
            panels,
            kept: Vec::new(),
            occupied: Vec::new(),
            base: Vec::new(),
            isa: Isa::detect(),
        };
        if explainer.absent.weights().len() == 1 && !matches!(explainer.absent, Absent::Ones) {
            let sides = |p| explainer.panels.iter().map(|panel| explainer.side(p, panel)).collect();
            explainer.kept = explainer.products.iter().map(sides).collect();
        }
        if matches!(explainer.absent, Absent::Ones) {
            let lists = |p| explainer.panels.iter().map(|panel| explainer.occupied(p, panel)).collect();
            explainer.occupied = explainer.products.iter().map(lists).collect();
        }
        explainer.base = explainer.base_values();
        Ok(explainer)
    }

    fn side(&self, product: &PlayerProduct<'_>, panel: &Panel) -> Side {
        let size = product.players.len() * panel.len;
        let mut out = vec![1.0; size + panel.len];
        self.absent.fill(self.isa, product, panel.columns(), 0, &mut out[..size]);
        Side::new(out, panel.len, matches!(self.absent, Absent::Rows(_)))
    }

    fn occupied(&self, product: &PlayerProduct<'_>, panel: &Panel) -> Option<Vec<u32>> {
        let zeros = vec![0.0; self.model.points.width()];
        let mut factor = vec![1.0; panel.len];
        let mut is_one = |k: u32| {
            product.factor(self.isa, k as usize, panel.columns(), &zeros, &mut factor);
            factor.iter().all(|f| *f == 1.0)
        };
        let count = product.players.len();
        let list: Vec<u32> = (0..count as u32).filter(|&k| !is_one(k)).collect();
        (2 * list.len() < count).then_some(list)
    }

    /// `intercept + Σ_p w_p Π_j b_pj`, without the engine.
    fn base_values(&self) -> Vec<f64> {
        let m = self.model.outputs();
        let per_panel: Vec<Vec<f64>> = (0..self.panels.len())
            .into_par_iter()
            .map(|at| {
                let panel = &self.panels[at];
                let mut sums = vec![0.0; m];
                for (t, product) in self.products.iter().enumerate() {
                    let mut factors = vec![1.0; product.players.len() * panel.len];
                    let mut mean = vec![0.0; panel.len];
                    for (variant, weight) in self.absent.weights().iter().enumerate() {
                        match self.kept.get(t) {
                            Some(kept) => factors
                                .copy_from_slice(&kept[at].factors[..product.players.len() * panel.len]),
                            None => {
                                self.absent.fill(self.isa, product, panel.columns(), variant, &mut factors)
                            }
                        }
                        let mut value = vec![weight * product.scale; panel.len];
                        for factor in factors.chunks_exact(panel.len) {
                            value.iter_mut().zip(factor).for_each(|(v, f)| *v *= f);
                        }
                        mean.iter_mut().zip(&value).for_each(|(m, v)| *m += v);
                    }
                    for (sum, coef) in sums.iter_mut().zip(&panel.coef) {
                        *sum +=
                            mean.iter().zip(coef.iter().flat_map(|c| &c.0)).map(|(m, c)| m * c).sum::<f64>();
                    }
                }
                sums
            })
            .collect();
        let mut base = self.model.intercept.clone();
        for sums in &per_panel {
            base.iter_mut().zip(sums).for_each(|(b, s)| *b += s);
        }
        base
    }

    /// Shapley values of every row of `rows`.
    pub(super) fn explain(&self, rows: &Table) -> Result<Explanation> {
        let data = rows.conform(self.model.columns())?;
        let predictions = self.model.predict(&data)?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        // Small enough that every thread has work, and no smaller than that.
        let batch = n.div_ceil(rayon::current_num_threads()).clamp(1, BATCH);
        let starts: Vec<usize> = (0..n).step_by(batch).collect();
        let sums: Vec<Vec<Sums>> = starts
            .par_iter()
            .map_init(Workspace::default, |workspace, &start| {
                let batch: Vec<Vec<f64>> = (start..(start + batch).min(n)).map(|i| data.row(i)).collect();
                self.batch(&batch, None, workspace)
            })
            .collect();
        let mut values = Vec::with_capacity(n * m * p);
        let mut bound = Vec::with_capacity(n * m);
        let blocks: usize = self.panels.iter().map(|panel| panel.len / LANES).sum();
        let terms = (blocks * self.absent.weights().len() * self.products.len()) as f64;
        // Rounding of the sums over blocks, of the base value and of the prediction.
        let summing = f64::EPSILON / 2.0 * (2.0 * terms + 16.0 * p as f64 + 64.0);
        for (i, sums) in sums.iter().flatten().enumerate() {
            for o in 0..m {
                let row = &sums.values[o * p..(o + 1) * p];
                if row.iter().any(|v| !v.is_finite()) {
                    return Err(Error::Overflow {
                        what: format!("a value of row {}", i + 1),
                        remedy: "its numbers are too far from the data the model was fitted on",
                    });
                }
                let size = sums.magnitude[o] + self.model.intercept[o].abs();
                bound.push(sums.error[o] + summing * size);
                values.extend_from_slice(row);
            }
        }
        Ok(Explanation {
            index: Index::Shapley,
            players: self.groups.players().to_vec(),
            subsets: None,
            output_names: self.model.output_names.clone(),
            values,
            base_values: (0..n).flat_map(|_| self.base.iter().copied()).collect(),
            predictions: predictions.data().to_vec(),
            data,
            row_numbers: (0..n).collect(),
            exactness: Exactness::Exact { bound },
            provenance: Provenance {
                game: self.game.name().into(),
                absent: self.game.absent(),
                model: self.model.facts(),
                run: vec![Fact::new("riesz", env!("CARGO_PKG_VERSION"))],
            },
        })
    }

    /// `out[i][r]`: what a coefficient 1 of support point i would add to the value of `player` in row r.
    pub(super) fn functionals(&self, rows: &Table, player: usize) -> Result<Matrix> {
        let data = rows.conform(self.model.columns())?;
        let (n, count) = (self.model.points.rows(), data.rows());
        let mut out = Matrix::zeros(n, count);
        let starts: Vec<usize> = (0..count).step_by(BATCH).collect();
        let sums: Vec<Vec<Sums>> = starts
            .par_iter()
            .map_init(Workspace::default, |workspace, &start| {
                let batch: Vec<Vec<f64>> = (start..(start + BATCH).min(count)).map(|i| data.row(i)).collect();
                self.batch(&batch, Some(player), workspace)
            })
            .collect();
        for (r, sums) in sums.iter().flatten().enumerate() {
            let (mut i, mut padded) = (0, 0);
            let all = sums.functional.as_ref().map_or(&[][..], |(_, all)| all);
            for panel in &self.panels {
                for &value in &all[padded..padded + panel.own] {
                    out[(i, r)] = value;
                    i += 1;
                }
                padded += panel.len;
            }
        }
        Ok(out)
    }

    /// The sums of a few rows, panel by panel, and the functional of `player`.
    fn batch(&self, rows: &[Vec<f64>], player: Option<usize>, w: &mut Workspace) -> Vec<Sums> {
        let (m, p) = (self.model.outputs(), self.groups.players().len());
        let padded: usize = self.panels.iter().map(|panel| panel.len).sum();
        let functional = player.map(|player| (player, vec![0.0; padded]));
        let zero =
            Sums { values: vec![0.0; m * p], error: vec![0.0; m], magnitude: vec![0.0; m], functional };
        let mut sums = vec![zero; rows.len()];
        let differing = self.differing(rows);
        for (at, panel) in self.panels.iter().enumerate() {
            for (t, product) in self.products.iter().enumerate() {
                let size = (product.players.len() + 1) * panel.len;
                let kept = self.kept.get(t).map(|kept| &kept[at]);
                let absent = kept.map(|side| side.factors.as_slice());
                let occupied = self.occupied.get(t).and_then(|lists| lists[at].as_deref());
                let part = Portion {
                    panel,
                    product,
                    variants: 0..1,
                    absent,
                    side: kept,
                    differing: differing.get(t).map(Vec::as_slice),
                    occupied,
                };
                match &self.absent {
                    Absent::Rows(_) if kept.is_none() => {
                        let variants = self.absent.weights().len();
                        let portion = (ABSENT / size).max(1);
                        let mut absent = std::mem::take(&mut w.absent);
                        for from in (0..variants).step_by(portion) {
                            let range = from..(from + portion).min(variants);
                            absent.clear();
                            absent.resize(size * range.len(), 1.0);
                            for (slot, variant) in range.clone().enumerate() {
                                let out = &mut absent[slot * size..(slot + 1) * size - panel.len];
                                self.absent.fill(self.isa, product, panel.columns(), variant, out);
                            }
                            let part = Portion { variants: range, absent: Some(&absent), ..part };
                            self.portion(rows, &part, w, &mut sums);
                        }
                        w.absent = absent;
                    }
                    _ => self.portion(rows, &part, w, &mut sums),
                }
            }
        }
        sums
    }

    /// For each product and row, the factors whose columns differ from the one reference row, or from zeros where all
    /// absent factors are 1.
    fn differing(&self, rows: &[Vec<f64>]) -> Vec<Vec<Vec<u32>>> {
        let zeros = vec![0.0; self.model.points.width()];
        let reference = match self.absent.row(0) {
            Some(row) if !self.kept.is_empty() => row,
            None if self.occupied.iter().flatten().any(Option::is_some) => &zeros,
            _ => return Vec::new(),
        };
        let players = self.groups.players();
        let differs = |x: &[f64], p: usize| players[p].columns.iter().any(|&j| x[j] != reference[j]);
        let of_row = |product: &PlayerProduct<'_>, x: &[f64]| {
            (0..product.players.len() as u32).filter(|&k| differs(x, product.players[k as usize])).collect()
        };
        self.products.iter().map(|p| rows.iter().map(|x| of_row(p, x)).collect()).collect()
    }

    /// Adds to `sums` what one panel, one product and some variants of the absent side contribute.
    fn portion(&self, rows: &[Vec<f64>], part: &Portion<'_>, w: &mut Workspace, sums: &mut [Sums]) {
        let (m, players, len) = (self.model.outputs(), part.product.players.len(), part.panel.len);
        if players == 0 {
            // A constant gives nobody a value, and is rounded in prediction and base value like any other term.
            for (o, coef) in part.panel.coef.iter().enumerate() {
                let size: f64 = coef.iter().flat_map(|lanes| lanes.0).map(f64::abs).sum();
                let weight: f64 = part.variants.clone().map(|v| self.absent.weights()[v]).sum();
                sums.iter_mut().for_each(|s| s.magnitude[o] += weight * part.product.scale.abs() * size);
            }
            return;
        }
        // After the factors stands the engine's padding.
        w.present.clear();
        w.present.resize((players + 1) * len, 1.0);
        let mut candidates = std::mem::take(&mut w.candidates);
        for (row, (x, sums)) in rows.iter().zip(sums).enumerate() {
            // The factors that may differ from the absent side somewhere in the panel.
            let list = match (part.differing, part.occupied) {
                (Some(differing), None) if part.side.is_some() => Some(differing[row].as_slice()),
                (Some(differing), Some(occupied)) => {
                    merge(&differing[row], occupied, &mut candidates);
                    Some(candidates.as_slice())
                }
                _ => None,
            };
            let mut fill = |k: usize| {
                let factor = &mut w.present[k * len..(k + 1) * len];
                part.product.factor(self.isa, k, part.panel.columns(), x, factor);
            };
            match list {
                Some(list) => list.iter().for_each(|&k| fill(k as usize)),
                None => (0..players).for_each(&mut fill),
            }
            w.lanes.clear();
            w.lanes.resize(m * players, Lanes::ZERO);
            for (slot, variant) in part.variants.clone().enumerate() {
                let size = (players + 1) * len;
                let b = part.absent.map(|b| &b[slot * size..(slot + 1) * size]);
                w.active.clear();
                match list {
                    Some(list) => w.active.extend(list),
                    None => self.find_active(x, variant, part, b, &mut w.active, &w.present),
                }
                let active = w.active.len();
                w.active.resize(active.next_multiple_of(4), players as u32);
                w.weights.clear();
                w.weights
                    .resize(len / LANES, Lanes::splat(self.absent.weights()[variant] * part.product.scale));
                let mut rounding = Rounding {
                    // Predictions sum squares over all columns before they take an exponential.
                    per_log: 8.0 + self.model.points.width() as f64,
                    fixed: 12.0 * (part.product.pieces() - active) as f64,
                    decay: 0.0,
                };
                if let Some(rows) = self.absent.averaged() {
                    rounding.fixed += (players * (rows + 8)) as f64;
                }
                if let Some(b) = b.filter(|_| active < players) {
                    let mut from = 0;
                    for end in w.active[..active].iter().map(|&k| k as usize).chain([players]) {
                        match part.side {
                            Some(side) => rounding.decay += side.fold(from..end, &mut w.weights),
                            None => (from..end).map(|k| &b[k * len..(k + 1) * len]).for_each(|factor| {
                                rounding.decay += decay(factor);
                                multiply(&mut w.weights, factor);
                            }),
                        }
                        from = end + 1;
                    }
                }
                let Workspace { present, active: list, weights, scratch, lanes, .. } = &mut *w;
                let run = Run {
                    a: present,
                    b,
                    stride: len,
                    offset: 0,
                    active: list,
                    players: active,
                    weights: &[],
                    rounding,
                };
                if m == 1 && sums.functional.is_none() {
                    weights.iter_mut().zip(&part.panel.coef[0]).for_each(|(w, c)| *w = w.mul::<Plain>(*c));
                    let totals = engine::run(self.isa, Run { weights, ..run }, scratch);
                    sums.error[0] += totals.error.sum();
                    sums.magnitude[0] += totals.magnitude.sum();
                    for (&k, value) in list[..active].iter().zip(&scratch.values) {
                        lanes[k as usize] = lanes[k as usize].add::<Plain>(*value);
                    }
                    continue;
                }
                // Several outputs share the functionals of a block.
                for at in 0..weights.len() {
                    let one = Run { weights: &weights[at..=at], offset: at * LANES, ..run };
                    let totals = engine::run(self.isa, one, scratch);
                    if let Some((player, all)) = &mut sums.functional {
                        let mine =
                            list[..active].iter().position(|&k| part.product.players[k as usize] == *player);
                        let from = part.panel.from + at * LANES;
                        let values = mine.into_iter().flat_map(|k| scratch.values[k].0);
                        all[from..].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                        continue;
                    }
                    for o in 0..m {
                        let coef = part.panel.coef[o][at];
                        let size = coef.map2(Lanes::ONE, |c, _| c.abs());
                        sums.error[o] += size.mul::<Plain>(totals.error).sum();
                        sums.magnitude[o] += size.mul::<Plain>(totals.magnitude).sum();
                        for (&k, value) in list[..active].iter().zip(&scratch.values) {
                            let sum = &mut lanes[o * players + k as usize];
                            *sum = sum.add::<Plain>(coef.mul::<Plain>(*value));
                        }
                    }
                }
            }
            for o in 0..m {
                let out = &mut sums.values[o * self.groups.players().len()..];
                for (&player, lanes) in part.product.players.iter().zip(&w.lanes[o * players..]) {
                    out[player] += lanes.sum();
                }
            }
        }
        w.candidates = candidates;
    }

    /// Lists the factors in which present and absent side differ somewhere in the panel; the others cost nothing
    /// further. Against a reference row it is enough to compare the rows.
    fn find_active(
        &self,
        x: &[f64],
        variant: usize,
        part: &Portion<'_>,
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

/// The union of two ascending lists, ascending.
fn merge(a: &[u32], b: &[u32], out: &mut Vec<u32>) {
    out.clear();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        out.push(a[i].min(b[j]));
        (i, j) = (i + usize::from(a[i] <= b[j]), j + usize::from(b[j] <= a[i]));
    }
    out.extend(&a[i..]);
    out.extend(&b[j..]);
}
