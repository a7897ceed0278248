//! Sums over all pairs of rows of a sample under a kernel: of the kernel's value, and of each player's
//! contribution to it.
//!
//! MMD² and HSIC are sums `Σ_ij W_ij k(x_i, x_j)` with weights W (n × n). With an absent factor replaced by
//! 1, each pair is a term of a product game. So a pair has one *channel* for the kernel's value and one for
//! the value of each player in that term (orthogonal factors have more: [`FeatureChannels`]). Every statistic
//! is a weighted sum of a channel over pairs, with the weights of the sample or of a draw from a null
//! distribution. Each pair is computed once, tile by tile, for all draws; memory does not depend on the
//! number of pairs. If no draws of the players' values are needed, the quadrature adds up the weighted pairs
//! itself, and they have no channels for players.

use std::ops::Range;

use super::kernels::FactorKind;
use super::null;
use super::orthogonal::{FeatureChannels, OrthogonalKernel, PairChannels, order_channels};
use super::points::Points;
use crate::attribution::interaction_weights::{SizeWeighting, SizeWeightings};
use crate::attribution::interactions::Interactions;
use crate::attribution::product::{
    PlayerFunctionals, PlayerValues, ProductGame, ProductTerms, TermAccumulator, TermSink, accumulate,
};
use crate::attribution::quadrature::{QuadratureEngine, RoundingUnits, TermBatch, max_products};
use crate::attribution::rule::InclusionMeasure;
use crate::attribution::sets::Sets;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::kernel::player_products::{PlayerProduct, RadialApproximation};
use crate::kernel::rounding_bounds::RoundingBound;
use crate::kernel::{Columns, Kernel};
use crate::linalg::{add_to, multiply_entries};
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};
use crate::table::{Players, Table};

/// The number of rows in a tile of pairs, and the number of tiles with the same columns that one task
/// processes.
const TILE: usize = 32;
const TILES_PER_TASK: usize = 8;

/// The number of columns in a tile, unless the draws need more.
const COLUMNS: usize = 128;

/// The number of parts into which the sum over tiles is divided, for any number of threads. One thread sums
/// each part, tile by tile in a fixed order, and the parts are added in order. So the statistic and its draws
/// are the same, bit for bit, for any number of threads.
pub(super) const PARTS: usize = 32;

/// The estimator of MMD² from n rows of the first and m rows of the second sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MmdEstimator {
    /// Means over all pairs of different rows (Gretton, Borgwardt, Rasch, Schölkopf and Smola 2012, equation
    /// 3). Its expectation is MMD², and it can be negative.
    #[default]
    Unbiased,
    /// Means over all pairs, including a row with itself (their equation 5). It is never negative, and too
    /// large on average.
    Biased,
    /// The mean over consecutive blocks of q ≥ 2 rows of each sample of `Σ_{i≠j} h(i, j) / (q (q - 1))`,
    /// where `h(i, j) = k(x_i, x_j) + k(z_i, z_j) - k(x_i, z_j) - k(z_i, x_j)` (Zaremba, Gretton and Blaschko
    /// 2013). Unbiased, in O(n q). Rows beyond the last full block are left out, and the order of rows
    /// matters.
    Block(usize),
}

impl MmdEstimator {
    /// The linear-time estimator, with blocks of two rows (Gretton and others 2012, lemma 14).
    pub const LINEAR: Self = Self::Block(2);

    /// The end of the range of rows with which row i may form pairs.
    fn end(self, i: usize, n: usize) -> usize {
        match self {
            Self::Unbiased | Self::Biased => n,
            Self::Block(q) => ((i / (2 * q) + 1) * 2 * q).min(n),
        }
    }

    /// The number of columns for a tile: few for small blocks, because pairs outside a block do not count.
    fn columns(self) -> usize {
        match self {
            Self::Unbiased | Self::Biased => COLUMNS,
            Self::Block(q) => (2 * q).next_multiple_of(LANES).clamp(TILE, COLUMNS),
        }
    }

    /// The number of times that the pair of rows i and j counts. Pairs are unordered: a pair of different
    /// rows counts twice, the pair of a row with itself once. In blocks of 2q rows, a row forms no pair with
    /// itself nor with the row q before or after it.
    fn multiplicity(self, i: usize, j: usize, n: usize) -> f64 {
        match self {
            _ if j < i || j >= self.end(i, n) => 0.0,
            Self::Biased if i == j => 1.0,
            Self::Unbiased if i == j => 0.0,
            Self::Block(q) if i % q == j % q => 0.0,
            _ => 2.0,
        }
    }
}

/// The pairs of rows of a sample under a kernel.
pub(super) struct SamplePairs<'k> {
    points: Points,
    kernel: &'k Kernel,
    /// The products of the kernel; empty if players have no channels.
    products: Vec<PlayerProduct<'k>>,
    /// A bound on the error of the sum of the products.
    approximation_error: f64,
    /// For each product, the rounding bound of each factor, and that of all factors together.
    precisions: Vec<(Vec<RoundingBound>, RoundingBound)>,
    players: usize,
    /// The orthogonal factors; `None` if the kernel's own factors are used.
    orthogonal: Option<OrthogonalKernel>,
    measure: InclusionMeasure,
    estimator: MmdEstimator,
    isa: Isa,
}

/// A tile of pairs: rows of the sample × columns, which are rows of the padded sample.
pub(super) struct PairTile<'a> {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// Channels × rows × columns: the pair's value times its multiplicity.
    pub(super) values: &'a [f64],
    pub(super) channels: usize,
}

impl PairTile<'_> {
    /// The number of pairs in the tile.
    pub(super) fn size(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Returns the values of a channel, rows × columns.
    pub(super) fn channel(&self, channel: usize) -> &[f64] {
        &self.values[channel * self.size()..(channel + 1) * self.size()]
    }
}

/// The weights of pairs for the sample itself.
pub(super) trait PairWeights: Sync {
    /// Computes `W_ij` for row i and a range of rows j of the padded sample. Entries for pairs that do not
    /// count are arbitrary.
    fn row(&self, i: usize, columns: &Range<usize>, out: &mut [f64]);
    /// A bound on the absolute error of each weight, in addition to a few relative roundings.
    fn error(&self) -> f64;
}

/// The weights of pairs for the draws from a null distribution.
pub(super) trait NullDraws: Sync {
    /// The number of draws.
    fn count(&self) -> usize;
    /// The number of columns that tiles with `channels` channels should have; `None` if any number is fine.
    fn columns(&self, _channels: usize) -> Option<usize> {
        None
    }
    /// Computes the numbers that all tiles with these columns share.
    fn prepare(&self, columns: &Range<usize>) -> Vec<f64>;
    /// Adds `Σ_ij W_ij v_ij` over the tile for each draw and channel: `out[draw * channels + channel]`.
    fn add(&self, tile: &PairTile<'_>, prepared: &[f64], memory: &mut Vec<f64>, out: &mut [f64]);
}

/// Weighted sums of channels over all pairs.
#[derive(Debug, Clone)]
pub(super) struct ChannelSums {
    /// For each channel, the sum with the sample's weights: first the statistic, then the players' values.
    pub(super) observed: Vec<f64>,
    /// A bound on the error of each player's value and the statistic, and of the sum of the values.
    pub(super) bound: f64,
    /// The sums with the weights of each draw, at `draw * drawn + channel`, for the first `drawn` channels.
    null: Vec<f64>,
    drawn: usize,
    /// The value of the empty coalition.
    empty_value: f64,
    /// For each channel, `Σ |W_ij v_ij|`; and `Σ |v_ij|` (`unweighted`) if weights have absolute errors.
    absolute: Vec<f64>,
    unweighted: Vec<f64>,
}

impl ChannelSums {
    fn new(channels: usize, drawn: usize, draws: usize) -> Self {
        Self {
            observed: vec![0.0; channels],
            bound: 0.0,
            null: vec![0.0; draws * drawn],
            drawn,
            empty_value: 0.0,
            absolute: vec![0.0; channels],
            unweighted: vec![0.0; channels],
        }
    }

    /// The largest difference of a channel's sums that rounding alone may cause.
    pub(super) fn tie_tolerance(&self, channel: usize) -> f64 {
        1e-12 * self.absolute[channel]
    }

    /// Returns the studentised scores of a channel: observed, then in every draw.
    pub(super) fn studentised(&self, channel: usize) -> Vec<f64> {
        null::studentised(self.observed[channel], &self.draws(channel), self.tie_tolerance(channel))
    }

    /// Returns the sums of a channel in every draw; empty if the channel was not drawn.
    pub(super) fn draws(&self, channel: usize) -> Vec<f64> {
        if channel < self.drawn {
            return self.null.iter().skip(channel).step_by(self.drawn).copied().collect();
        }
        Vec::new()
    }
}

/// The pairs as a product game. With weights it is the game of the statistic, which has one row. Without
/// weights it is the game of each row of the sample: its points are the rows with which it forms pairs, and
/// its terms are multiplied by the pair's multiplicity only.
struct PairGame<'p> {
    pairs: &'p SamplePairs<'p>,
    /// The number of columns in a tile.
    width: usize,
    weights: Option<&'p dyn PairWeights>,
}

/// Working memory of one thread.
#[derive(Default)]
struct Memory {
    factors: Vec<f64>,
    /// The sizes of factors that are sums with cancellation, and their products (`size_products`).
    sizes: Vec<f64>,
    size_products: Vec<Lanes>,
    active: Vec<u32>,
}

/// Sums channels over pairs, tile by tile.
struct TileSummation<'p> {
    pairs: &'p SamplePairs<'p>,
    weights: &'p dyn PairWeights,
    draws: Option<&'p dyn NullDraws>,
    /// The channels of a tile, the kernel's value before those of the players.
    functionals: PlayerFunctionals,
    rows: Range<usize>,
    columns: Range<usize>,
    /// The numbers of the current columns that the draws need.
    prepared: Vec<f64>,
    memory: Vec<f64>,
    sums: ChannelSums,
}

impl<'k> SamplePairs<'k> {
    /// Creates the pairs of the rows of `sample`, with channels for the players in `groups`, if there are
    /// any. Sums of Gaussians replace radial factors over several players, unless factors are made
    /// orthogonal: then each player needs a kernel of its own.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if the kernel ties columns of different players together.
    pub(super) fn new(
        sample: &Table,
        kernel: &'k Kernel,
        groups: Option<&Players>,
        measure: InclusionMeasure,
        estimator: MmdEstimator,
        factors: FactorKind,
    ) -> Result<Self> {
        let columns = Columns::from_row(sample, 0);
        let approximation = (factors != FactorKind::Orthogonal)
            .then(|| RadialApproximation::most_accurate(columns, sample.width()));
        let products_of = |groups: &Players| {
            let owner = groups.player_of_column(sample.width());
            kernel.split(sample.columns(), &owner, approximation.as_ref())
        };
        let products = groups.map(products_of).transpose()?;
        let (products, players) = (products.unwrap_or_default(), groups.map_or(0, |g| g.players().len()));
        let (points, isa) = (Points::new(sample), Isa::detect());
        let ranges = points.ranges();
        let precisions = products.iter().map(|product| product.precision(&ranges)).collect();
        let approximation_error = products.iter().map(|product| product.approximation_error(&ranges)).sum();
        let orthogonal = None;
        Ok(Self {
            points,
            kernel,
            products,
            approximation_error,
            precisions,
            players,
            orthogonal,
            measure,
            estimator,
            isa,
        })
    }

    /// Replaces the factors by orthogonal ones, centered over the rows with the indices `reference`.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(super) fn orthogonal(mut self, reference: &[usize], control: RunControl<'_>) -> Result<Self> {
        self.orthogonal = Some(OrthogonalKernel::new(
            &self.points,
            (&self.products, &self.precisions),
            reference,
            self.isa,
            control,
        )?);
        Ok(self)
    }

    /// Returns the same pairs with the kernel's channel alone.
    fn without_players(&self) -> Self {
        let Self { kernel, estimator, isa, .. } = *self;
        let (products, precisions, measure) = (Vec::new(), Vec::new(), self.measure.clone());
        let (points, players, orthogonal, approximation_error) = (self.points.clone(), 0, None, 0.0);
        Self {
            points,
            kernel,
            products,
            approximation_error,
            precisions,
            players,
            orthogonal,
            measure,
            estimator,
            isa,
        }
    }

    /// Returns the channels of orthogonal factors; `None` for the kernel's own factors.
    pub(super) fn extra_channels(&self) -> Option<FeatureChannels> {
        self.orthogonal.as_ref().map(|_| FeatureChannels { players: self.players })
    }

    pub(super) fn channels(&self) -> usize {
        self.extra_channels().map_or(1 + self.players, FeatureChannels::count)
    }

    /// Returns the sums over all pairs, in [`PARTS`] parts, with draws of the first `drawn` channels. Cost
    /// O(n² d) and that of the draws. The sums do not depend on the number of threads.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Overflow`].
    pub(super) fn sum(
        &self,
        weights: &dyn PairWeights,
        draws: Option<&dyn NullDraws>,
        drawn: usize,
        control: RunControl<'_>,
    ) -> Result<ChannelSums> {
        let players_drawn = drawn > 1 && draws.is_some_and(|draws| draws.count() > 0);
        let bounded = weights.error() == 0.0 || self.products.iter().all(|product| product.unbounded() == 0);
        if self.players == 0 || self.orthogonal.is_some() || players_drawn || !bounded {
            return self.channel_sums(weights, draws, drawn, control);
        }
        // The statistic and the players' values are summed in two passes; progress counts the longer one.
        let statistic_control = RunControl { progress: &Progress::default(), ..control };
        let mut sums = self.without_players().channel_sums(weights, draws, 1, statistic_control)?;
        let game = PairGame { pairs: self, width: self.estimator.columns(), weights: Some(weights) };
        let new = || PlayerValues::new(self.players, 1);
        let mut values = vec![0.0; self.players];
        for part in accumulate(&game, (self.isa, &self.measure), control, new)? {
            add_to(&mut values, &part.values);
            sums.bound += part.error.iter().sum::<f64>();
        }
        finite(&values)?;
        // A value of a pair is a mean of differences of two coalitions' values, each of which is at most the
        // scale in size.
        let n = self.points.rows() as f64;
        let size: f64 = self.products.iter().map(|product| 2.0 * product.scale.abs() * n * n).sum();
        sums.bound += if weights.error() > 0.0 { weights.error() * size } else { 0.0 };
        sums.bound += 2.0 * self.approximation_error_of_sum(weights);
        sums.observed.extend(values);
        Ok(sums)
    }

    /// Returns a bound on the error of the weighted sum of any coalition's values, over all pairs, that comes
    /// from the approximation of radial factors.
    fn approximation_error_of_sum(&self, weights: &dyn PairWeights) -> f64 {
        if self.approximation_error == 0.0 {
            return 0.0;
        }
        let columns = 0..self.points.stride();
        let absolute_sum = |i: usize| -> f64 {
            let (range, multiplicities) = self.counted_lanes(i, &columns);
            let mut row = vec![0.0; range.len()];
            weights.row(i, &range, &mut row);
            row.iter().zip(&multiplicities).map(|(w, m)| (w.abs() + weights.error()) * m).sum()
        };
        let total: f64 = (0..self.points.rows()).map(absolute_sum).sum();
        self.approximation_error * total * (1.0 + 1e-9)
    }

    /// Returns the sums of [`sum`](Self::sum) from the channels of each pair.
    fn channel_sums(
        &self,
        weights: &dyn PairWeights,
        draws: Option<&dyn NullDraws>,
        drawn: usize,
        control: RunControl<'_>,
    ) -> Result<ChannelSums> {
        let width = draws.and_then(|draws| draws.columns(drawn)).unwrap_or(self.estimator.columns());
        let new_sums = || ChannelSums::new(self.channels(), drawn, draws.map_or(0, NullDraws::count));
        let new_summation = || TileSummation {
            pairs: self,
            weights,
            draws,
            functionals: PlayerFunctionals::new((1..self.channels()).map(Some).collect()),
            rows: 0..0,
            columns: 0..0,
            prepared: Vec::new(),
            memory: Vec::new(),
            sums: new_sums(),
        };
        let game = PairGame { pairs: self, width, weights: None };
        let mut total = new_sums();
        let parts = accumulate(&game, (self.isa, &self.measure), control, new_summation)?;
        for part in parts.into_iter().map(|part| part.sums) {
            add_to(&mut total.observed, &part.observed);
            add_to(&mut total.null, &part.null);
            add_to(&mut total.absolute, &part.absolute);
            add_to(&mut total.unweighted, &part.unweighted);
            total.bound += part.bound;
            total.empty_value += part.empty_value;
        }
        total.bound += total.empty_value.abs();
        total.bound += 2.0 * self.approximation_error_of_sum(weights);
        total.bound += weights.error() * total.unweighted[..=self.players].iter().fold(0.0, |m, v| v.max(m));
        // The higher-order statistic may overflow, because it grows exponentially with the number of players.
        finite(
            &total.observed[..self.extra_channels().map_or(self.channels(), FeatureChannels::higher_order)],
        )?;
        Ok(total)
    }

    /// Returns the interaction indices of all pairs of players with the sample's weights, at the positions
    /// [`index_of`](crate::attribution::sets::index_of), and a bound on the error of each. Cost O(n²
    /// players²), in [`PARTS`] parts.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Overflow`].
    pub(super) fn interactions(
        &self,
        weights: &dyn PairWeights,
        control: RunControl<'_>,
    ) -> Result<(Vec<f64>, f64)> {
        let game = PairGame { pairs: self, width: self.estimator.columns(), weights: Some(weights) };
        let (mut total, mut error) = (vec![0.0; self.players * (self.players - 1) / 2], 0.0);
        if let Some(orthogonal) = &self.orthogonal {
            let n = self.points.rows();
            let summing = 2.0 * f64::EPSILON * (n * n / (LANES * PARTS) + PARTS + 64) as f64;
            let new = || PairChannels::new(self.players, orthogonal.error, summing);
            for part in accumulate(&game, (self.isa, &self.measure), control, new)? {
                add_to(&mut total, &part.indices);
                error += part.error;
            }
            finite(&total)?;
            return Ok((total, error));
        }
        let (averages, sets) =
            (SizeWeightings::new(vec![SizeWeighting::Uniform; 2]), Sets::new(self.players, 2));
        for part in
            accumulate(&game, (self.isa, &self.measure), control, || Interactions::new(&averages, &sets, 1))?
        {
            if self.players > 1 && !part.indices.is_empty() {
                add_to(&mut total, &part.indices[sets.of_size(2)]);
                error += part.errors.per_value(0, 2);
            }
        }
        finite(&total)?;
        error += 4.0 * self.approximation_error_of_sum(weights);
        Ok((total, error))
    }

    /// Returns the whole blocks of lanes, among some columns, that contain the pairs of row i that count,
    /// with multiplicities.
    fn counted_lanes(&self, i: usize, columns: &Range<usize>) -> (Range<usize>, Vec<f64>) {
        let n = self.points.rows();
        let from = i.max(columns.start) / LANES * LANES;
        let range = from..self.estimator.end(i, n).min(columns.end).next_multiple_of(LANES);
        (range.clone(), range.map(|j| self.estimator.multiplicity(i, j, n)).collect())
    }
}

impl ProductGame for PairGame<'_> {
    type Memory = Memory;

    fn parts(&self) -> usize {
        PARTS
    }

    fn terms(&self, part: usize, memory: &mut Memory, reader: &mut TermSink<'_>) -> Result<()> {
        let SamplePairs { points, products, estimator, .. } = self.pairs;
        let (n, stride) = (points.rows(), points.stride());
        let columns = (0..stride).step_by(self.width).map(|from| from..(from + self.width).min(stride));
        let tasks = columns.flat_map(|columns| {
            let last_row = columns.end.min(n);
            let rows = (0..last_row)
                .step_by(TILE * TILES_PER_TASK)
                .map(move |start| start..(start + TILE * TILES_PER_TASK).min(last_row));
            rows.map(move |rows| (rows, columns.clone()))
        });
        let tasks = tasks.filter(|(rows, columns)| estimator.end(rows.end - 1, n) > columns.start);
        for (rows, columns) in tasks.skip(part).step_by(PARTS) {
            for from in rows.clone().step_by(TILE) {
                let rows = from..(from + TILE).min(rows.end);
                reader.begin_tile(if self.weights.is_some() { &(0..1) } else { &rows }, &columns);
                for (row, i) in rows.enumerate().filter(|_| !products.is_empty()) {
                    self.row(if self.weights.is_some() { 0 } else { row }, i, &columns, memory, reader)?;
                }
                reader.finish_tile()?;
            }
        }
        Ok(())
    }
}

impl PairGame<'_> {
    /// Passes the pairs of row i of the sample to `reader` as terms of a row of the tile.
    fn row(
        &self,
        row: usize,
        i: usize,
        columns: &Range<usize>,
        memory: &mut Memory,
        reader: &mut TermSink<'_>,
    ) -> Result<()> {
        let SamplePairs { points, products, isa, .. } = self.pairs;
        let (range, multiplicities) = self.pairs.counted_lanes(i, columns);
        if range.is_empty() {
            return Ok(());
        }
        let lanes = |values: &[f64]| values.as_chunks().0.iter().copied().map(Lanes).collect::<Vec<_>>();
        let mut coef = vec![0.0; range.len()];
        if let Some(weights) = self.weights {
            weights.row(i, &range, &mut coef);
        }
        let coef = [lanes(&coef)];
        let (u, x, length) = (points.columns(&range), points.row(i), range.len());
        for (index, product) in products.iter().enumerate() {
            let factors = product.players.len();
            memory.factors.clear();
            memory.factors.resize((factors + 1) * length, 1.0);
            memory.active.clear();
            for (k, factor) in memory.factors.chunks_exact_mut(length).take(factors).enumerate() {
                product.factor(*isa, k, u, &x, factor);
                // A factor of 1, or of 0 if it is centered, contributes nothing to its player.
                let neutral = match &self.pairs.orthogonal {
                    Some(orthogonal) => {
                        orthogonal.centre((index, k), i, &range, factor);
                        0.0
                    }
                    None => 1.0,
                };
                if factor.iter().any(|f| *f != neutral) {
                    memory.active.push(k as u32);
                }
            }
            let active = memory.active.len();
            memory.active.resize(active.next_multiple_of(4), factors as u32);
            let weights: Vec<f64> = multiplicities.iter().map(|m| m * product.scale).collect();
            let weights = lanes(&weights);
            let cancels = self.pairs.orthogonal.is_none() && product.cancels(false);
            if cancels {
                memory.sizes.resize(factors * length, 1.0);
                let sizes = memory.sizes.chunks_exact_mut(length).enumerate();
                sizes.for_each(|(k, out)| product.size(*isa, k, u, &x, out));
                max_products(&memory.sizes, None, &weights, &mut memory.size_products);
            }
            reader.add_terms(&ProductTerms {
                row,
                point: range.start - columns.start,
                players: &product.players,
                run: TermBatch {
                    a: &memory.factors,
                    b: None,
                    stride: length,
                    offset: 0,
                    active: &memory.active,
                    players: active,
                    weights: &weights,
                    sizes: cancels.then_some(&memory.size_products),
                    tinies: &[],
                    rounding: self.rounding(index, x.len(), columns.len(), length),
                },
                coef: &coef,
                is_last: true,
            })?;
        }
        Ok(())
    }

    /// Returns the rounding of a product's factors between points of this width, and of the sums of terms in
    /// tiles with so many columns, `length` of them in a row.
    fn rounding(&self, product: usize, width: usize, columns: usize, length: usize) -> RoundingUnits {
        let SamplePairs { points, products, precisions, .. } = self.pairs;
        let RoundingBound { units, per_log, .. } = precisions[product].1;
        let mut rounding = RoundingUnits::new(units, per_log, width);
        if self.weights.is_some() {
            // All rows and tiles are added to one sum.
            let tiles = points.rows().div_ceil(TILE) * points.stride().div_ceil(columns);
            let additions =
                4 * (products.len() * TILE * tiles.div_ceil(PARTS) + TILE * length / LANES + PARTS + 64);
            (rounding.units, rounding.sums) = (rounding.units + additions as f64, additions as f64);
        }
        rounding
    }
}

impl TermAccumulator for TileSummation<'_> {
    fn begin_tile(&mut self, rows: &Range<usize>, columns: &Range<usize>) {
        if let Some(draws) = self.draws.filter(|_| self.columns != *columns) {
            self.prepared = draws.prepare(columns);
        }
        (self.rows, self.columns) = (rows.clone(), columns.clone());
        // The number of roundings in a sum over all pairs.
        let (n, stride) = (self.pairs.points.rows(), self.pairs.points.stride());
        let tiles = n.div_ceil(TILE) * stride.div_ceil(columns.len());
        let size = rows.len() * columns.len();
        self.functionals.summing = 2.0 * f64::EPSILON * (tiles / PARTS + size / LANES + PARTS + 64) as f64;
        self.functionals.begin_tile(rows, columns);
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        match &self.pairs.orthogonal {
            Some(OrthogonalKernel { error, .. }) => {
                let channels = FeatureChannels { players: self.pairs.players };
                order_channels(self.pairs.isa, terms, channels, *error, &mut self.functionals);
            }
            None => self.functionals.add_terms(terms, engine),
        }
    }

    /// Fills in the kernel's channel, and sums.
    fn finish_tile(&mut self) {
        let Self {
            pairs,
            functionals: PlayerFunctionals { values, error, summing, .. },
            rows,
            columns,
            sums,
            ..
        } = self;
        let (length, size) = (columns.len(), rows.len() * columns.len());
        let (mut unit_weights, mut weights, mut buffer) = (vec![0.0; size], vec![0.0; size], Vec::new());
        for (r, i) in rows.clone().enumerate() {
            self.weights.row(i, columns, &mut weights[r * length..(r + 1) * length]);
            let (range, multiplicities) = pairs.counted_lanes(i, columns);
            if range.is_empty() {
                continue;
            }
            let start = r * length + range.start - columns.start;
            unit_weights[start..start + range.len()].copy_from_slice(&multiplicities);
            if pairs.orthogonal.is_none() {
                let (u, out) = (pairs.points.columns(&range), &mut values[start..start + range.len()]);
                pairs.kernel.row(pairs.isa, u, &pairs.points.row(i), &mut buffer, out);
                multiply_entries(out, &multiplicities);
            }
        }
        let mut statistic_size = None;
        let (weighted, exact) =
            (sums.observed.iter_mut().zip(&mut sums.absolute), self.weights.error() == 0.0);
        for ((channel, (sum, absolute_sum)), unweighted_sum) in
            values.chunks_exact(size).zip(weighted).zip(&mut sums.unweighted)
        {
            let [value, absolute, unweighted] = weighted_sums(pairs.isa, channel, &weights);
            *sum += value;
            *absolute_sum += absolute;
            *unweighted_sum += if exact { 0.0 } else { unweighted };
            statistic_size.get_or_insert(absolute);
        }
        let statistic_size = statistic_size.unwrap_or(0.0);
        // The error of the players' values is known pair by pair. That of the statistic depends on the sizes
        // of its terms, which can be much larger than the statistic.
        let [_, pair_errors, _] = weighted_sums(pairs.isa, error, &weights);
        sums.bound += pair_errors + *summing * statistic_size;
        // The value of the empty coalition is the sum of the weights, which is 0 up to rounding.
        let scale: f64 = pairs.kernel.terms.iter().map(|term| term.scale).sum();
        sums.empty_value += if pairs.orthogonal.is_none() {
            scale * weighted_sums(pairs.isa, &unit_weights, &weights)[0]
        } else {
            0.0
        };
        if let Some(draws) = self.draws {
            let (rows, columns, channels) = (rows.clone(), columns.clone(), sums.drawn);
            let tile = PairTile { rows, columns, values: &values[..size * channels], channels };
            draws.add(&tile, &self.prepared, &mut self.memory, &mut sums.null);
        }
    }
}

fn finite(sums: &[f64]) -> Result<()> {
    if sums.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    Err(Error::overflow(
        "the sum of the kernel over all pairs of rows",
        "the kernel overflows on these rows: standardise the columns or choose a bounded kernel",
    ))
}

dispatch! {
    /// Returns the sum of products in a fixed order, the sum of the products' absolute values, and that of
    /// the values' absolute values. Entries whose weight is arbitrary have the value 0.
    fn weighted_sums<V: Simd>(values: &[f64], weights: &[f64]) -> [f64; 3] {
        let mut sums = [Lanes::ZERO; 3];
        for (v, w) in values.as_chunks::<LANES>().0.iter().zip(weights.as_chunks::<LANES>().0) {
            let (v, product) = (Lanes(*v), V::mul(Lanes(*v), Lanes(*w)));
            sums[0] = V::add(sums[0], product);
            sums[1] = V::add(sums[1], V::abs(product));
            sums[2] = V::add(sums[2], V::abs(v));
        }
        [sums[0].sum(), sums[1].sum(), sums[2].sum()]
    }
}
