//! Product games. A [`ProductGame`] provides terms, a [`TermAccumulator`] computes a statistic from them, and
//! [`accumulate`] connects the two and is the only function that runs the engine.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::polynomial_games::{self, PowerRequest, PowerResult, RowSums};
use super::quadrature::{QuadratureEngine, TermBatch};
use super::rule::InclusionMeasure;
use crate::control::RunControl;
use crate::error::Result;
use crate::linalg::add_to;
use crate::memory::refill;
use crate::simd::{Isa, LANES, Lanes, Plain, Simd, dispatch};

/// A game that is a sum of products with one factor per player, or several such games, one per row.
pub trait ProductGame: Sync {
    /// Scratch memory that a thread keeps between parts.
    type Memory: Default + Send;

    /// Number of parts of the terms. One thread reads a part in order, so sums do not depend on the number of
    /// threads.
    fn parts(&self) -> usize;

    /// Passes the terms of a part to `reader`, in tiles of some rows by some points, each begun and finished.
    fn terms(&self, part: usize, memory: &mut Self::Memory, reader: &mut TermSink<'_>) -> Result<()>;
}

/// Terms of one row at consecutive support points.
pub struct ProductTerms<'a> {
    /// The row within the tile.
    pub row: usize,
    /// The first point within the tile; the terms fill whole lanes.
    pub point: usize,
    /// The player of each factor, ascending; empty for a constant.
    pub players: &'a [usize],
    /// The terms without their coefficients.
    pub run: TermBatch<'a>,
    /// For each output, the coefficients of the points.
    pub coef: &'a [Vec<Lanes>],
    /// Whether a sum ends here: the next terms belong to another row, or to factors of other players.
    pub is_last: bool,
}

impl ProductTerms<'_> {
    /// For each output, the error of terms without factors, in proportion to the sum of their absolute
    /// values.
    pub(crate) fn constant_errors(&self) -> Vec<f64> {
        let weight = self.run.weights.first().map_or(0.0, |w| w.0[0].abs());
        let size = |coef: &Vec<Lanes>| coef.iter().flat_map(|lanes| lanes.0).map(f64::abs).sum::<f64>();
        let error = |coef| f64::EPSILON * self.run.rounding.units * (weight * size(coef));
        self.coef.iter().map(error).collect()
    }
}

/// Terms of one row at consecutive points that are powers.
pub struct PowerTerms<'a> {
    /// The row within the tile.
    pub row: usize,
    /// The first point within the tile.
    pub point: usize,
    /// Players of the sums, ascending.
    pub players: &'a [usize],
    /// The sums of powers.
    pub sums: RowSums<'a>,
    /// For each output, the coefficients of the points.
    pub coef: &'a [Vec<Lanes>],
}

impl PowerTerms<'_> {
    pub(crate) fn blocks(&self) -> usize {
        self.sums.len / LANES
    }
}

/// Computes a statistic from the terms of a product game.
pub trait TermAccumulator: Send {
    /// Begins a tile of these rows and points.
    fn begin_tile(&mut self, rows: &Range<usize>, points: &Range<usize>);

    /// Adds terms of the current tile.
    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine);

    /// The values that are requested for powers of the sums of these players.
    fn power_request(&mut self, _players: &[usize]) -> PowerRequest<'_> {
        PowerRequest::Values
    }

    /// Adds the values of powers at a block of points; blocks come in order. It is only called for games that
    /// have powers.
    fn add_power_block(&mut self, _powers: &PowerTerms<'_>, _block: usize, _found: &PowerResult<'_>) {
        debug_assert!(false, "this accumulator computes nothing from powers");
    }

    /// Finishes the tile after all of its terms.
    fn finish_tile(&mut self) {}
}

/// Passes the terms of a game to an accumulator, and stops when the user cancels.
pub struct TermSink<'r> {
    engine: &'r mut QuadratureEngine,
    powers: &'r mut polynomial_games::PowerEngine,
    accumulator: &'r mut dyn TermAccumulator,
    control: RunControl<'r>,
}

impl TermSink<'_> {
    /// See [`TermAccumulator::begin_tile`].
    pub fn begin_tile(&mut self, rows: &Range<usize>, points: &Range<usize>) {
        self.accumulator.begin_tile(rows, points);
    }

    /// See [`TermAccumulator::add_terms`].
    ///
    /// # Errors
    /// `Error::Interrupted`.
    pub fn add_terms(&mut self, terms: &ProductTerms<'_>) -> Result<()> {
        self.control.check_cancelled()?;
        self.accumulator.add_terms(terms, self.engine);
        Ok(())
    }

    /// Adds powers block by block, see [`TermAccumulator::add_power_block`].
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(crate) fn add_powers(&mut self, powers: &PowerTerms<'_>) -> Result<()> {
        for block in 0..powers.blocks() {
            self.control.check_cancelled()?;
            let result = self.powers.run(&powers.sums, block, self.accumulator.power_request(powers.players));
            self.accumulator.add_power_block(powers, block, &result);
        }
        Ok(())
    }

    /// See [`TermAccumulator::finish_tile`].
    ///
    /// # Errors
    /// `Error::Interrupted`.
    pub fn finish_tile(&mut self) -> Result<()> {
        self.accumulator.finish_tile();
        self.control.check_cancelled()
    }
}

/// Computes one accumulator per part of the game. Threads share the parts, and progress counts parts.
///
/// # Errors
/// `Error::Interrupted` soon after `control` is cancelled.
pub fn accumulate<G: ProductGame, R: TermAccumulator>(
    game: &G,
    (isa, measure): (Isa, &InclusionMeasure),
    control: RunControl<'_>,
    new: impl Fn() -> R + Sync,
) -> Result<Vec<R>> {
    let idle = Mutex::new(Vec::new());
    let idle = || idle.lock().unwrap_or_else(PoisonError::into_inner);
    let part = |part| {
        let kept = idle().pop();
        let fresh = || {
            let powers = polynomial_games::PowerEngine::new(isa, measure.clone());
            (G::Memory::default(), QuadratureEngine::new(isa, measure.clone()), powers)
        };
        let (mut memory, mut engine, mut powers) = kept.unwrap_or_else(fresh);
        let mut accumulator = new();
        let mut sink =
            TermSink { engine: &mut engine, powers: &mut powers, accumulator: &mut accumulator, control };
        game.terms(part, &mut memory, &mut sink)?;
        idle().push((memory, engine, powers));
        control.step();
        Ok(accumulator)
    };
    (0..game.parts()).into_par_iter().with_max_len(1).map(part).collect()
}

/// Scratch memory that is kept between batches.
#[derive(Default)]
struct Memory {
    weighed: ScaledTerms,
    sums: Vec<Lanes>,
}

/// Weights multiplied by the coefficients of a single output.
#[derive(Default)]
pub(crate) struct ScaledTerms {
    weights: Vec<Lanes>,
    sizes: Vec<Lanes>,
    unit_coefficients: [Vec<Lanes>; 1],
}

impl ScaledTerms {
    /// The batch with the coefficients of a single output multiplied into its weights, and the remaining
    /// coefficients of each output. Weights and coefficients may be far from 1 where their products are not.
    /// With several outputs, both remain unchanged.
    pub(crate) fn fold<'w>(
        &'w mut self,
        run: TermBatch<'w>,
        coef: &'w [Vec<Lanes>],
    ) -> (TermBatch<'w>, &'w [Vec<Lanes>]) {
        let [coefficients] = coef else { return (run, coef) };
        let Self { weights, sizes, unit_coefficients: ones } = self;
        weights.clear();
        weights.extend(run.weights.iter().zip(coefficients).map(|(w, c)| Plain::mul(*w, *c)));
        sizes.clear();
        let weighted_sizes = run.sizes.iter().copied().flatten().zip(coefficients);
        sizes.extend(weighted_sizes.map(|(s, c)| Plain::mul(*s, Plain::abs(*c))));
        ones[0].resize(weights.len(), Lanes::UNIT);
        (TermBatch { weights, sizes: run.sizes.map(|_| &sizes[..]), ..run }, ones)
    }
}

/// Runs the engine on terms times the coefficients of each output. `add` receives the output, the position of
/// an active factor and its values. `error` has one sum per output, to which the engine's error is added.
fn scale_terms(
    engine: &mut QuadratureEngine,
    run: TermBatch<'_>,
    coef: &[Vec<Lanes>],
    memory: &mut Memory,
    mut add: impl FnMut(usize, usize, Lanes),
    error: &mut [f64],
) {
    if let [_] = coef {
        let totals = engine.run(memory.weighed.fold(run, coef).0);
        error[0] += totals.error.sum();
        (0..run.players).for_each(|i| add(0, i, engine.values[i]));
        return;
    }
    // Several outputs share the engine's values of a block.
    let sums = &mut memory.sums;
    refill(sums, coef.len() * run.players, Lanes::ZERO);
    for index in 0..run.weights.len() {
        let totals = engine.run(run.block(index));
        for (o, coef) in coef.iter().enumerate() {
            let size = Plain::abs(coef[index]);
            error[o] += Plain::mul(size, totals.error).sum();
            let sums_and_values = sums[o * run.players..].iter_mut().zip(&engine.values[..run.players]);
            sums_and_values.for_each(|(sum, value)| *sum = Plain::add(*sum, Plain::mul(coef[index], *value)));
        }
    }
    (0..coef.len() * run.players).for_each(|t| add(t / run.players, t % run.players, sums[t]));
}

/// Value of every player in every row, for each output.
#[derive(Default)]
pub struct PlayerValues {
    players: usize,
    outputs: usize,
    /// Rows × outputs × players.
    pub values: Vec<f64>,
    /// Rows × outputs: a bound on the error of each value and, under the uniform measure, of their sum.
    pub error: Vec<f64>,
    /// Outputs × factors: the sum that has not ended.
    lanes: Vec<Lanes>,
    /// For each output, the sum of the absolute values of all partial sums, each of which was rounded.
    drift: Vec<Lanes>,
    memory: Memory,
}

impl PlayerValues {
    /// Creates the values of this number of players and outputs.
    pub fn new(players: usize, outputs: usize) -> Self {
        Self { players, outputs, ..Self::default() }
    }

    /// Adds the rounding of the partial sums of these players in the lanes to `drift`. At the end of a sum,
    /// adds the lanes to the values.
    fn added(&mut self, row: usize, players: &[usize], is_last: bool) {
        let Self { lanes, drift, .. } = self;
        for (drift, lanes) in drift.iter_mut().zip(lanes.chunks_exact(players.len())) {
            *drift = lanes.iter().fold(*drift, |total, sum| Plain::add(total, Plain::abs(*sum)));
        }
        if is_last {
            let first = row * self.outputs;
            let out = self.values[first * self.players..].chunks_exact_mut(self.players);
            for (lanes, out) in lanes.chunks_exact(players.len()).zip(out) {
                players.iter().zip(lanes).for_each(|(&player, lanes)| out[player] += lanes.sum());
            }
            for (error, drift) in self.error[first..].iter_mut().zip(drift.iter()) {
                *error += 0.51 * f64::EPSILON * drift.sum();
            }
            lanes.clear();
            drift.clear();
        }
    }
}

impl TermAccumulator for PlayerValues {
    /// Tiles of the same rows are summed, so existing values are kept.
    fn begin_tile(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        self.values.resize(rows.len() * self.outputs * self.players, 0.0);
        self.error.resize(rows.len() * self.outputs, 0.0);
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        let ProductTerms { row, players, run, coef, .. } = *terms;
        let (factors, first) = (players.len(), row * self.outputs);
        let Self { values, error, lanes, drift, memory, .. } = self;
        if factors == 0 {
            // A constant adds to no value, but has a rounding error like any other term.
            add_to(&mut error[first..], &terms.constant_errors());
            return;
        }
        let out = &mut values[first * self.players..];
        let error = &mut error[first..];
        // A sum that consists of one batch is added to the active players alone, who may be few.
        if terms.is_last && lanes.is_empty() && coef.len() == 1 {
            let add = |_, i: usize, value: Lanes| out[players[run.active[i] as usize]] += value.sum();
            return scale_terms(engine, run, coef, memory, add, error);
        }
        lanes.resize(self.outputs * factors, Lanes::ZERO);
        drift.resize(self.outputs, Lanes::ZERO);
        let add = |o: usize, i: usize, value| {
            let sum = &mut lanes[o * factors + run.active[i] as usize];
            *sum = Plain::add(*sum, value);
        };
        scale_terms(engine, run, coef, memory, add, error);
        self.added(row, players, terms.is_last);
    }

    fn add_power_block(&mut self, powers: &PowerTerms<'_>, block: usize, result: &PowerResult<'_>) {
        let (factors, first) = (powers.players.len(), powers.row * self.outputs);
        self.lanes.resize(self.outputs * factors, Lanes::ZERO);
        self.drift.resize(self.outputs, Lanes::ZERO);
        for (o, coef) in powers.coef.iter().enumerate() {
            let (coef, size) = (coef[block], Plain::abs(coef[block]));
            self.error[first + o] += Plain::mul(size, result.error).sum();

            for (sum, value) in self.lanes[o * factors..].iter_mut().zip(result.values) {
                *sum = Plain::add(*sum, Plain::mul(coef, *value));
            }
        }
        self.added(powers.row, powers.players, block + 1 == powers.blocks());
    }

    /// Drops the scratch memory; only the results are kept until all parts are done.
    fn finish_tile(&mut self) {
        (self.lanes, self.memory) = (Vec::new(), Memory::default());
    }
}

/// Contribution of each support point, with a coefficient of 1, to the value of every player in every row.
#[derive(Default)]
pub struct PlayerFunctionals {
    /// For each player, the slot of its functionals; `None` for players whose functionals are not requested.
    slots: Vec<Option<usize>>,
    /// Slots × rows × points.
    pub values: Vec<f64>,
    /// Rows × points: a bound on the error of each contribution, plus [`summing`](Self::summing) times its
    /// magnitude for the later use of contributions.
    pub error: Vec<f64>,
    /// Relative error of later sums of contributions.
    pub summing: f64,
    rows: usize,
    points: usize,
}

impl PlayerFunctionals {
    /// Creates functionals for points whose rows have these slots.
    pub fn new(slots: Vec<Option<usize>>) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Number of entries of a slot.
    pub fn size(&self) -> usize {
        self.rows * self.points
    }

    /// Index within a slot of a row's functional at a point.
    pub fn place(&self, row: usize, point: usize) -> usize {
        row * self.points + point
    }
}

impl TermAccumulator for PlayerFunctionals {
    /// Clears all results, which belong to a single tile.
    fn begin_tile(&mut self, rows: &Range<usize>, points: &Range<usize>) {
        (self.rows, self.points) = (rows.len(), points.len());
        let slots = self.slots.iter().flatten().max().map_or(1, |slot| slot + 1);
        refill(&mut self.values, slots * self.rows * self.points, 0.0);
        refill(&mut self.error, self.rows * self.points, 0.0);
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        let active = &terms.run.active[..terms.run.players];
        let start = |&k: &u32| self.slots[terms.players[k as usize]].map(|slot| slot * self.size());
        let starts: Vec<Option<usize>> = active.iter().map(start).collect();
        for index in 0..terms.run.weights.len() {
            let totals = engine.run(terms.run.block(index));
            let from = self.place(terms.row, terms.point) + index * LANES;
            add_at(engine.isa, &mut self.values, &starts, from, &engine.values);
            let error = totals.error.map2(totals.magnitude, |error, size| error + self.summing * size);
            add_to(&mut self.error[from..], &error.0);
        }
    }

    fn add_power_block(&mut self, powers: &PowerTerms<'_>, block: usize, result: &PowerResult<'_>) {
        let (from, size) = (self.place(powers.row, powers.point) + block * LANES, self.size());
        for (&player, value) in powers.players.iter().zip(result.values) {
            let Some(slot) = self.slots[player] else { continue };
            add_to(&mut self.values[slot * size + from..][..LANES], &value.0);
        }
        for (l, error) in self.error[from..from + LANES].iter_mut().enumerate() {
            *error += result.error.0[l] + self.summing * result.magnitude.0[l];
        }
    }
}

dispatch! {
    /// Adds each value to the eight numbers that begin `position` numbers after its start. Values without a
    /// start are not needed.
    fn add_at<V: Simd>(sums: &mut [f64], starts: &[Option<usize>], position: usize, values: &[Lanes]) {
        for (start, value) in starts.iter().zip(values) {
            let Some(start) = start else { continue };
            let sum = V::add(Lanes::load(sums, start + position), *value);
            sums[start + position..][..LANES].copy_from_slice(&sum.0);
        }
    }
}
