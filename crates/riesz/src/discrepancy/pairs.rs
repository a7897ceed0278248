//! All pairs of rows of a sample under a kernel: the kernel's value, and what each player adds to it.
//!
//! MMD² and HSIC are sums `Σ_ij W_ij k(x_i, x_j)`, and with an absent factor replaced by 1 each pair is a term of a product game. So a
//! pair has one *channel* for the kernel's value and one for the Shapley value of each player in that term, and everything that is
//! asked is a weighted sum of channels over pairs: by the weights of the sample as it is, and by those of every draw from a null
//! distribution. Pairs are made once, tile by tile, and serve all draws; memory does not grow with their number.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::attribution::interaction;
use crate::attribution::quadrature::{self as engine, Rounding, Run, Scratch};
use crate::error::{Error, Result};
use crate::kernel::products::PlayerProduct;
use crate::kernel::{Columns, Kernel};
use crate::simd::{Isa, LANES, Lanes};
use crate::table::{Groups, Table};

/// Rows of a tile of pairs, and tiles below each other that threads take together.
const TILE: usize = 32;
const TOGETHER: usize = 8;

/// Columns of a tile, unless draws wish for more.
const COLUMNS: usize = 128;

/// Parts in which tiles are summed up, whatever the number of threads.
pub(super) const PARTS: usize = 32;

/// Which pairs count. Pairs are unordered: one that counts does so twice, the pair of a row with itself once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    /// All.
    Everything,
    /// All but those of a row with itself.
    OffDiagonal,
    /// Those within blocks of 2q rows, except a row with itself and with the row q before or after it.
    Blocks(usize),
}

impl Mask {
    /// The end of the rows that row i may have pairs with.
    fn end(self, i: usize, n: usize) -> usize {
        match self {
            Self::Everything | Self::OffDiagonal => n,
            Self::Blocks(q) => ((i / (2 * q) + 1) * 2 * q).min(n),
        }
    }

    /// The number of columns that a tile should have: few for small blocks, outside of which nothing counts.
    fn columns(self) -> usize {
        match self {
            Self::Everything | Self::OffDiagonal => COLUMNS,
            Self::Blocks(q) => (2 * q).next_multiple_of(LANES).clamp(TILE, COLUMNS),
        }
    }

    fn multiplicity(self, i: usize, j: usize, n: usize) -> f64 {
        match self {
            _ if j < i || j >= self.end(i, n) => 0.0,
            Self::Everything if i == j => 1.0,
            Self::OffDiagonal if i == j => 0.0,
            Self::Blocks(q) if i % q == j % q => 0.0,
            _ => 2.0,
        }
    }
}

/// Rows whose number is padded to a multiple of the lanes by repeating the last.
pub(super) struct Points {
    data: Vec<f64>,
    stride: usize,
    rows: usize,
    width: usize,
}

impl Points {
    pub(super) fn new(table: &Table) -> Self {
        let (n, d) = (table.rows(), table.width());
        let stride = n.next_multiple_of(LANES);
        let mut data = vec![0.0; stride * d];
        for (column, out) in (0..d).map(|j| table.column(j)).zip(data.chunks_exact_mut(stride.max(1))) {
            out[..n].copy_from_slice(column);
            out[n..].fill(column[n - 1]);
        }
        Self { data, stride, rows: n, width: d }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Their number with the padding.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    pub(super) fn row(&self, i: usize) -> Vec<f64> {
        (0..self.width).map(|j| self.data[j * self.stride + i]).collect()
    }

    pub(super) fn columns(&self, range: &Range<usize>) -> Columns<'_> {
        Columns::new(&self.data, self.stride, range.start, range.len())
    }

    /// The rows with the given numbers, column-major.
    pub(super) fn gather(&self, numbers: &[u32], out: &mut Vec<f64>) {
        for j in 0..self.width {
            let column = &self.data[j * self.stride..(j + 1) * self.stride];
            out.extend(numbers.iter().map(|&i| column[i as usize]));
        }
    }
}

/// The pairs of a sample.
pub(super) struct Pairs<'k> {
    points: Points,
    kernel: &'k Kernel,
    mask: Mask,
    channels: Channels<'k>,
    isa: Isa,
}

/// What is known of a pair besides the kernel's value.
enum Channels<'k> {
    Nothing,
    /// The value of each of so many players.
    Values(Vec<PlayerProduct<'k>>, usize),
    /// The kernel without each of so many players.
    Without(Vec<PlayerProduct<'k>>, usize),
}

/// What is asked of a pair besides the kernel's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask<'g> {
    Nothing,
    /// The Shapley values of these players.
    Values(&'g Groups),
    /// The kernel without each of them.
    Without(&'g Groups),
}

/// Some pairs: rows of the sample by columns of its (padded) rows.
pub(super) struct Tile<'a> {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// For each channel, each row and each column: its value times the pair's multiplicity.
    pub(super) values: &'a [f64],
    pub(super) channels: usize,
}

impl Tile<'_> {
    /// Numbers of a channel.
    pub(super) fn size(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// A channel, row after row.
    pub(super) fn channel(&self, channel: usize) -> &[f64] {
        &self.values[channel * self.size()..(channel + 1) * self.size()]
    }
}

/// The weights of the sample as it is.
pub(super) trait Weights: Sync {
    /// `W_ij` for row i and the (padded) rows of a range; what it says of pairs that do not count does not matter.
    fn row(&self, i: usize, columns: &Range<usize>, out: &mut [f64]);
}

/// The weights of many draws from a null distribution.
pub(super) trait Draws: Sync {
    /// Their number.
    fn count(&self) -> usize;
    /// The number of columns that tiles of so many channels should have.
    fn columns(&self, channels: usize) -> Option<usize>;
    /// What all tiles with these columns need.
    fn prepare(&self, columns: &Range<usize>) -> Vec<f64>;
    /// Adds `Σ_ij W_ij v_ij` over the tile for each draw and channel: `out[draw * channels + channel]`.
    fn add(&self, tile: &Tile<'_>, prepared: &[f64], memory: &mut Vec<f64>, out: &mut [f64]);
}

/// Weighted sums over all pairs.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    /// By channel, with the sample's weights: first the statistic, then the players' values.
    pub(super) observed: Vec<f64>,
    /// A bound on the error of each of them, and of the sum of the values.
    pub(super) bound: f64,
    /// `draw * drawn + channel`, for the first `drawn` channels.
    null: Vec<f64>,
    drawn: usize,
    /// What is left with everybody absent.
    empty: f64,
    /// `Σ |W_ij k(x_i, x_j)|`.
    size: f64,
}

impl Sums {
    fn new(channels: usize, drawn: usize, draws: usize) -> Self {
        Self {
            observed: vec![0.0; channels],
            bound: 0.0,
            null: vec![0.0; draws * drawn],
            drawn,
            empty: 0.0,
            size: 0.0,
        }
    }

    /// Sums closer than this may differ by rounding alone.
    pub(super) fn tie(&self) -> f64 {
        1e-12 * self.size
    }

    /// A channel in every draw; empty if it was not drawn.
    pub(super) fn draws(&self, channel: usize) -> Vec<f64> {
        if channel < self.drawn {
            return self.null.iter().skip(channel).step_by(self.drawn).copied().collect();
        }
        Vec::new()
    }
}

/// What one thread keeps between tiles.
#[derive(Default)]
struct Memory {
    scratch: Scratch,
    values: Vec<f64>,
    multiplicities: Vec<f64>,
    error: Vec<f64>,
    factors: Vec<f64>,
    active: Vec<u32>,
    row: Vec<f64>,
    weights: Vec<f64>,
    draws: Vec<f64>,
}

impl<'k> Pairs<'k> {
    /// The pairs of the rows of `sample`.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if the kernel ties columns of different players together.
    pub(super) fn new(sample: &Table, kernel: &'k Kernel, ask: Ask<'_>, mask: Mask) -> Result<Self> {
        let products = |groups| kernel.products(sample.columns(), groups);
        let channels = match ask {
            Ask::Nothing => Channels::Nothing,
            Ask::Values(groups) => Channels::Values(products(groups)?, groups.players().len()),
            Ask::Without(groups) => Channels::Without(products(groups)?, groups.players().len()),
        };
        Ok(Self { points: Points::new(sample), kernel, mask, channels, isa: Isa::detect() })
    }

    pub(super) fn channels(&self) -> usize {
        match &self.channels {
            Channels::Nothing => 1,
            Channels::Values(_, players) | Channels::Without(_, players) => players + 1,
        }
    }

    /// Sums over all pairs, and counts to [`PARTS`] in `done`; draws are made of the first `drawn` channels. Cost O(n² d) and that of the draws. Threads share columns; the sums do
    /// not depend on their number.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `stop` is set, [`Error::Overflow`].
    pub(super) fn sum(
        &self,
        weights: &dyn Weights,
        draws: Option<&dyn Draws>,
        drawn: usize,
        stop: &AtomicBool,
        done: &AtomicUsize,
    ) -> Result<Sums> {
        let (n, stride) = (self.points.rows(), self.points.stride());
        let width = draws.and_then(|draws| draws.columns(drawn)).unwrap_or(self.mask.columns());
        let empty = || Sums::new(self.channels(), drawn, draws.map_or(0, Draws::count));
        let tasks: Vec<[Range<usize>; 2]> = (0..stride)
            .step_by(width)
            .map(|start| start..(start + width).min(stride))
            .flat_map(|columns| {
                let starts = (0..columns.end.min(n)).step_by(TILE * TOGETHER);
                starts.map(move |from| {
                    [from..(from + TILE * TOGETHER).min(columns.end).min(n), columns.clone()]
                })
            })
            .filter(|[rows, columns]| self.mask.end(rows.end - 1, n) > columns.start)
            .collect();
        let parts: Vec<Sums> = (0..PARTS)
            .into_par_iter()
            .with_max_len(1)
            .map(|part| {
                let (mut memory, mut sums) = (Memory::default(), empty());
                for [rows, columns] in tasks.iter().skip(part).step_by(PARTS) {
                    let prepared = draws.map(|draws| (draws, draws.prepare(columns)));
                    for from in rows.clone().step_by(TILE) {
                        let rows = from..(from + TILE).min(rows.end);
                        if stop.load(Ordering::Relaxed) {
                            return Err(Error::Interrupted);
                        }
                        self.fill(&rows, columns, &mut memory);
                        self.observe(&rows, columns, weights, &mut memory, &mut sums);
                        if let Some((draws, prepared)) = &prepared {
                            let size = rows.len() * columns.len();
                            let values = &memory.values[..size * drawn];
                            let tile = Tile { rows, columns: columns.clone(), values, channels: drawn };
                            draws.add(&tile, prepared, &mut memory.draws, &mut sums.null);
                        }
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut total = empty();
        for part in &parts {
            total.observed.iter_mut().zip(&part.observed).for_each(|(t, v)| *t += v);
            total.null.iter_mut().zip(&part.null).for_each(|(t, v)| *t += v);
            total.bound += part.bound;
            total.empty += part.empty;
            total.size += part.size;
        }
        total.bound += total.empty.abs();
        finite(&total.observed)?;
        Ok(total)
    }

    /// Adds a tile with the sample's weights.
    fn observe(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        weights: &dyn Weights,
        memory: &mut Memory,
        sums: &mut Sums,
    ) {
        let Memory { values, multiplicities, error, weights: list, .. } = memory;
        let size = rows.len() * columns.len();
        list.clear();
        list.resize(size, 0.0);
        for (i, row) in rows.clone().zip(list.chunks_exact_mut(columns.len())) {
            weights.row(i, columns, row);
        }
        for (channel, sum) in values.chunks_exact(size).zip(&mut sums.observed) {
            *sum += dot(channel, list);
        }
        sums.size += values[..size].iter().zip(&*list).map(|(v, w)| (v * w).abs()).sum::<f64>();
        sums.bound += error.iter().zip(&*list).map(|(e, w)| e * w.abs()).sum::<f64>();
        // With everybody absent the weights' sum is left, which is 0 but for rounding.
        let scale: f64 = self.kernel.terms.iter().map(|term| term.scale).sum();
        sums.empty += scale * dot(multiplicities, list);
    }

    /// Fills a tile: `values` and, pair by pair, bounds on the errors of the values.
    fn fill(&self, rows: &Range<usize>, columns: &Range<usize>, memory: &mut Memory) {
        let (n, length) = (self.points.rows(), columns.len());
        let size = rows.len() * length;
        memory.values.clear();
        memory.values.resize(size * self.channels(), 0.0);
        for list in [&mut memory.error, &mut memory.multiplicities] {
            list.clear();
            list.resize(size, 0.0);
        }
        // How many roundings a sum over all pairs can add up.
        let tiles = n.div_ceil(TILE) * self.points.stride().div_ceil(length);
        let summing = 2.0 * f64::EPSILON * (tiles / PARTS + size / LANES + PARTS + 64) as f64;
        for (r, i) in rows.clone().enumerate() {
            // Whole blocks of lanes around the pairs that count.
            let from = i.max(columns.start) / LANES * LANES;
            let to = self.mask.end(i, n).min(columns.end).next_multiple_of(LANES);
            if from >= to {
                continue;
            }
            let (range, at) = (from..to, r * length + from - columns.start);
            let (u, x) = (self.points.columns(&range), self.points.row(i));
            let own = at..at + range.len();
            let multiplicity = &mut memory.multiplicities[own.clone()];
            multiplicity.iter_mut().zip(range).for_each(|(m, j)| *m = self.mask.multiplicity(i, j, n));
            let out = &mut memory.values[own.clone()];
            self.kernel.row(self.isa, u, &x, &mut memory.row, out);
            out.iter_mut().zip(&*multiplicity).for_each(|(v, m)| *v *= m);
            match &self.channels {
                Channels::Nothing => {}
                Channels::Values(products, _) => {
                    for product in products {
                        self.values(product, u, &x, (size, own.clone(), summing), memory);
                    }
                }
                Channels::Without(products, players) => {
                    for product in products {
                        self.without(product, *players, u, &x, (size, own.clone()), memory);
                    }
                }
            }
        }
    }

    /// Adds the players' values in one row of a tile for one product; `place` says how long a channel is, where in it the
    /// row stands, and what the summation of a number costs in precision.
    fn values(
        &self,
        product: &PlayerProduct<'_>,
        u: Columns<'_>,
        x: &[f64],
        place: (usize, Range<usize>, f64),
        memory: &mut Memory,
    ) {
        let (size, own, summing) = place;
        let at = own.start;
        let (length, players) = (u.len(), product.players.len());
        self.factors(product, u, x, memory);
        let active = memory.active.len();
        if active == 0 {
            return;
        }
        memory.active.resize(active.next_multiple_of(4), players as u32);
        let rounding = rounding(product, active, x.len());
        let blocks = memory.multiplicities[own].as_chunks::<LANES>().0;
        for (block, multiplicity) in blocks.iter().enumerate() {
            let weights = [Lanes(multiplicity.map(|m| m * product.scale))];
            let offset = block * LANES;
            let run = Run {
                a: &memory.factors,
                b: None,
                stride: length,
                offset,
                active: &memory.active,
                players: active,
                weights: &weights,
                rounding,
            };
            let totals = engine::run(self.isa, run, &mut memory.scratch);
            for (&k, value) in memory.active[..active].iter().zip(&memory.scratch.values) {
                let channel = 1 + product.players[k as usize];
                let from = channel * size + at + offset;
                let out = &mut memory.values[from..from + LANES];
                out.iter_mut().zip(value.0).for_each(|(out, v)| *out += v);
            }
            let error = &mut memory.error[at + offset..at + offset + LANES];
            for l in 0..LANES {
                error[l] += totals.error.0[l] + summing * totals.magnitude.0[l];
            }
        }
    }

    /// The factors of a product between some rows and the row `x`, and one more, all 1; and which of them are not 1 everywhere.
    fn factors(&self, product: &PlayerProduct<'_>, u: Columns<'_>, x: &[f64], memory: &mut Memory) {
        let (length, players) = (u.len(), product.players.len());
        memory.factors.clear();
        memory.factors.resize((players + 1) * length, 1.0);
        memory.active.clear();
        for k in 0..players {
            let factor = &mut memory.factors[k * length..(k + 1) * length];
            product.factor(self.isa, k, u, x, factor);
            // A factor of 1 gives its player nothing.
            if factor.iter().any(|f| *f != 1.0) {
                memory.active.push(k as u32);
            }
        }
    }

    /// Adds the kernel without each player in one row of a tile for one product.
    fn without(
        &self,
        product: &PlayerProduct<'_>,
        players: usize,
        u: Columns<'_>,
        x: &[f64],
        (size, own): (usize, Range<usize>),
        memory: &mut Memory,
    ) {
        let (length, count) = (u.len(), product.players.len());
        self.factors(product, u, x, memory);
        let Memory { values, multiplicities, factors, row, weights, .. } = memory;
        let factor = |k: usize| &factors[k * length..(k + 1) * length];
        // Products of the factors before each.
        let mut before: Vec<f64> = multiplicities[own.clone()].iter().map(|m| m * product.scale).collect();
        row.clear();
        for k in 0..count {
            row.extend_from_slice(&before);
            before.iter_mut().zip(factor(k)).for_each(|(b, f)| *b *= f);
        }
        weights.clear();
        weights.resize(length, 1.0);
        for k in (0..count).rev() {
            let from = (1 + product.players[k]) * size + own.start;
            let both = row[k * length..(k + 1) * length].iter().zip(&*weights);
            values[from..from + length].iter_mut().zip(both).for_each(|(v, (b, a))| *v += b * a);
            weights.iter_mut().zip(factor(k)).for_each(|(w, f)| *w *= f);
        }
        // Without a player that has no factor here, the product is whole.
        for player in (0..players).filter(|p| !product.players.contains(p)) {
            let from = (1 + player) * size + own.start;
            values[from..from + length].iter_mut().zip(&before).for_each(|(v, b)| *v += b);
        }
    }

    /// Shapley interaction indices of all pairs of players with the sample's weights (see [`interaction::place`]), and a
    /// bound on the error of each. Cost O(n² players²).
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `stop` is set.
    pub(super) fn interactions(&self, weights: &dyn Weights, stop: &AtomicBool) -> Result<(Vec<f64>, f64)> {
        let Channels::Values(products, players) = &self.channels else { return Ok((Vec::new(), 0.0)) };
        let (n, stride, count) = (self.points.rows(), self.points.stride(), players * (players - 1) / 2);
        let parts: Vec<(Vec<f64>, f64)> = (0..PARTS)
            .into_par_iter()
            .map(|part| {
                let mut memory = Memory::default();
                let (mut total, mut error) = (vec![0.0; count], 0.0);
                // Long and short rows take turns.
                for i in (part..n).step_by(PARTS) {
                    if stop.load(Ordering::Relaxed) {
                        return Err(Error::Interrupted);
                    }
                    let range = i / LANES * LANES..self.mask.end(i, n).next_multiple_of(LANES).min(stride);
                    let (u, x) = (self.points.columns(&range), self.points.row(i));
                    let mut own = vec![0.0; range.len()];
                    weights.row(i, &range, &mut own);
                    own.iter_mut().zip(range).for_each(|(w, j)| *w *= self.mask.multiplicity(i, j, n));
                    for product in products {
                        self.factors(product, u, &x, &mut memory);
                        let active = memory.active.len();
                        let list: Vec<Lanes> = own
                            .as_chunks::<LANES>()
                            .0
                            .iter()
                            .map(|w| Lanes(w.map(|w| w * product.scale)))
                            .collect();
                        let run = Run {
                            a: &memory.factors,
                            b: None,
                            stride: u.len(),
                            offset: 0,
                            active: &memory.active,
                            players: active,
                            weights: &list,
                            rounding: rounding(product, active, x.len()),
                        };
                        let mut sums = vec![Lanes::ZERO; active * active.saturating_sub(1) / 2];
                        error += interaction::add_pairs(self.isa, &run, &mut sums);
                        let mut found = sums.iter();
                        for (at, &j) in memory.active.iter().enumerate() {
                            for &l in &memory.active[at + 1..] {
                                let [j, l] = [j, l].map(|k| product.players[k as usize]);
                                let place = interaction::place(*players, j, l);
                                total[place] += found.next().map_or(0.0, |lanes| lanes.sum());
                            }
                        }
                    }
                }
                Ok((total, error))
            })
            .collect::<Result<_>>()?;
        let (mut total, mut error) = (vec![0.0; count], 0.0);
        for (part, bound) in &parts {
            total.iter_mut().zip(part).for_each(|(t, v)| *t += v);
            error += bound;
        }
        finite(&total)?;
        Ok((total, error))
    }
}

fn finite(sums: &[f64]) -> Result<()> {
    if sums.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    let remedy =
        "the kernel is not bounded on these rows: standardise the columns or choose a bounded kernel";
    Err(Error::Overflow { what: "the sum of the kernel over all pairs of rows".into(), remedy })
}

/// What the engine must know of factors that it is not given.
fn rounding(product: &PlayerProduct<'_>, active: usize, width: usize) -> Rounding {
    let fixed = 12.0 * product.pieces().saturating_sub(active) as f64;
    Rounding { per_log: 8.0 + width as f64, fixed, decay: 0.0 }
}

/// A sum of products in a fixed order, pair by pair where a weight may be meaningless but the value is 0.
fn dot(values: &[f64], weights: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (v, w) = (values.as_chunks::<LANES>().0, weights.as_chunks::<LANES>().0);
    for (v, w) in v.iter().zip(w) {
        for l in 0..LANES {
            lanes[l] += v[l] * w[l];
        }
    }
    lanes.iter().sum()
}
