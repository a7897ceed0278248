//! Pairs of players, without all of them: how strong each player's interactions can be, and the interactions of some pairs.
//!
//! With the ratios r of [interactions](super::interactions) the interaction of a pair is `Σ W r_j r_l` over points, reference rows and nodes, so that by Cauchy's and
//! Schwarz's inequality it is `u_j u_l` at most, where `u_j² = Σ |W| r_j²` takes one pass over the factors. Where factors are too small to divide by, larger
//! ones take their place there: with `f'_l ≥ |f_l|` a pair adds no more than `|w| Π f'_l` times its two `|a - b| / f'`.
//!
//! Closer by far, for the cost of one node: of a point whose factors are positive W has one sign, and with `Ω = Σ W` over nodes and the means `m = Σ W r / Ω` a pair
//! has `Ω m_j m_l + Σ W (r_j - m_j)(r_l - m_l)`. The second sum is at most the product of two more numbers, `Σ |W| (r_j - m_j)² = Σ |W| r_j² - |Ω| m_j²` over all
//! points, and they are small: ratios change little from node to node where factors are close to 1, as those of many players are.

use std::ops::Range;

use super::averages::{Averages, Rules, Shared};
use super::block::Block;
use super::gram::{COLUMNS, ROWS, Ratios, STRIDE, WIDE, tile};
use super::interactions::SMALLEST;
use super::product::{Reading, Terms, Weighed};
use super::quadrature::{Engine, Rounding, Run};
use super::set_errors::each_off;
use crate::simd::{Isa, LANES, Lanes, Plain, Simd, dispatch};

/// Whatever a factor is, what it is divided by is no smaller.
const LEAST: f64 = 1e-290;

/// The terms with the coefficients of one output alone within their weights.
fn alone<'w>(terms: &Terms<'w>, output: usize, weighed: &'w mut Weighed) -> Run<'w> {
    let coef = &terms.coef[output..=output];
    let mut run = terms.run;
    if terms.coef.len() > 1 {
        // What several outputs are weighed by afterwards.
        let largest = coef[0].iter().flat_map(|lanes| lanes.0).fold(1.0, |most: f64, c| most.max(c.abs()));
        run.rounding = Rounding { floor: largest * run.rounding.floor, ..run.rounding };
    }
    weighed.fold(run, coef).0
}

/// How strong players' interactions can be.
#[derive(Default)]
pub(crate) struct Strength {
    /// By player u: no interaction is larger than the product of its players', but for `error`.
    pub(crate) whole: Vec<f64>,
    /// Nor farther from that of [means](Samples::Means) than the product of these.
    pub(crate) apart: Vec<f64>,
    /// A bound on the error of each interaction, but for its summing up.
    pub(crate) error: f64,
}

/// How strong the interactions of each player can be, in a game of one row.
pub(crate) struct Strengths<'a> {
    rules: Rules<'a>,
    output: usize,
    /// By player, the squares.
    whole: Vec<f64>,
    apart: Vec<f64>,
    error: f64,
    /// Numbers that were summed up.
    summed: usize,
    weighed: Weighed,
    nodes: Nodes,
    /// By active factor, whole and apart.
    sums: Vec<[Lanes; 2]>,
}

impl<'a> Strengths<'a> {
    /// Of interactions that are averaged as the first size of `averages` is.
    pub(crate) fn new(averages: &'a Averages, players: usize, output: usize) -> Self {
        let (whole, apart, sums) = (vec![0.0; players], vec![0.0; players], Vec::new());
        let (rules, nodes, weighed) = (Rules::new(averages), Nodes::default(), Weighed::default());
        Self { rules, output, whole, apart, error: 0.0, summed: 0, weighed, nodes, sums }
    }

    /// What was found, rounded up.
    pub(crate) fn finish(self) -> Strength {
        let up = 1.0 + 2.0 * f64::EPSILON * (self.summed + 8) as f64;
        let root = |squares: Vec<f64>| squares.iter().map(|square| (up * square).sqrt() * up).collect();
        Strength { whole: root(self.whole), apart: root(self.apart), error: self.error }
    }
}

impl Reading for Strengths<'_> {
    fn begin(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        debug_assert!(rows.len() == 1, "a game of several rows");
    }

    fn read(&mut self, terms: &Terms<'_>, engine: &mut Engine) {
        if terms.players.is_empty() {
            return;
        }
        let Self { rules, output, whole, apart, error, summed, weighed, nodes, sums } = self;
        let run = alone(terms, *output, weighed);
        let (count, height) = (run.players, rules.averages().heights[0]);
        let choices = rules.averages().choices(count);
        sums.clear();
        sums.resize(count, [Lanes::ZERO; 2]);
        let mut block = Block::default();
        for at in 0..run.weights.len() {
            let found = engine.block(&run, at, &choices, &mut block);
            *error += each_off(2, height, found.error);
            if count < 2 {
                continue;
            }
            let rule = rules.at(&found.choice);
            *summed += rule.len() + 1;
            nodes.add_up(engine.isa, &block, &rule);
            nodes.squares(sums);
        }
        *summed += LANES;
        for (&k, [own, rest]) in run.active.iter().zip(sums.iter()) {
            let player = terms.players[k as usize];
            whole[player] += own.sum();
            apart[player] += rest.sum();
        }
    }
}

/// The nodes of a block, summed up.
struct Nodes {
    /// By factor the ratios at a node, `Σ |W| r` and `Σ |W| r²`.
    ratios: Vec<Lanes>,
    firsts: Vec<Lanes>,
    seconds: Vec<Lanes>,
    /// `Σ |W|`, or 0 where there are no means.
    weight: Lanes,
    /// What the sums are off, relatively.
    off: Lanes,
}

impl Default for Nodes {
    fn default() -> Self {
        let (ratios, firsts, seconds) = (Vec::new(), Vec::new(), Vec::new());
        Self { ratios, firsts, seconds, weight: Lanes::ZERO, off: Lanes::ZERO }
    }
}

impl Nodes {
    fn add_up(&mut self, isa: Isa, block: &Block, rule: &[Shared]) {
        for own in [&mut self.ratios, &mut self.firsts, &mut self.seconds] {
            own.clear();
            own.resize(block.a.len(), Lanes::ZERO);
        }
        add_up(isa, block, rule, self);
        if rule.iter().any(|node| node.weights[0] < 0.0) {
            self.weight = Lanes::ZERO;
        }
    }

    /// Adds `Σ |W| r²`, and what is left of it without the mean, rounded up.
    fn squares(&self, sums: &mut [[Lanes; 2]]) {
        let (weight, off) = (self.weight, self.off);
        let inverse = weight.map2(weight, |weight, _| if weight > 0.0 { 1.0 / weight } else { 0.0 });
        for ((first, second), [whole, apart]) in self.firsts.iter().zip(&self.seconds).zip(sums) {
            let (up, mean) = (off.mul::<Plain>(*second), first.mul::<Plain>(*first).mul::<Plain>(inverse));
            *whole = whole.add::<Plain>(second.add::<Plain>(up));
            let rest = second.map2(mean, |second, mean| (second - mean).max(0.0));
            // Off are the two, and the mean's share of an interaction.
            *apart = apart.add::<Plain>(Lanes::splat(10.0).fma::<Plain>(up, rest));
        }
    }

    /// The weight of the means, which take the place of the ratios.
    fn means(&mut self, block: &Block) -> Lanes {
        for (mean, first) in self.ratios.iter_mut().zip(&self.firsts) {
            *mean = first.map2(self.weight, |first, weight| if weight > 0.0 { first / weight } else { 0.0 });
        }
        self.weight.map2(block.weight, f64::copysign)
    }
}

dispatch! {
    fn add_up(block: &Block, rule: &[Shared], out: &mut Nodes) = add_up_body::<V>
}

#[inline(always)]
fn add_up_body<V: Simd>(block: &Block, rule: &[Shared], out: &mut Nodes) {
    let count = block.a.len();
    let (ratios, firsts, seconds) =
        (&mut out.ratios[..count], &mut out.firsts[..count], &mut out.seconds[..count]);
    let (mut weights, mut most, mut short) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
    for node in rule {
        let (mut product, mut lost) = (Lanes::ONE, Lanes::splat(count as f64));
        for l in 0..count {
            let top = V::max(V::abs(block.a[l]), V::abs(block.b[l]));
            let least = V::max(top.mul::<V>(Lanes::splat(SMALLEST)), Lanes::splat(LEAST));
            let factor = block.factor::<V>(l, node.t, node.s);
            let size = V::max(V::abs(factor), least);
            let inverse = V::div(Lanes::ONE, size);
            product = product.mul::<V>(size);
            ratios[l] = block.a[l].sub::<V>(block.b[l]).mul::<V>(inverse);
            // Where a factor is negative or too small.
            short = V::max(short, size.sub::<V>(factor));
            // A factor is off by a rounding of the larger of its sides, and so are products and ratios.
            lost = top.fma::<V>(inverse, lost);
        }
        let weight = V::abs(block.weight).mul::<V>(product).mul::<V>(Lanes::splat(node.weights[0].abs()));
        weights = weights.add::<V>(weight);
        most = V::max(most, lost);
        for l in 0..count {
            let own = weight.mul::<V>(ratios[l]);
            firsts[l] = firsts[l].add::<V>(own);
            seconds[l] = own.fma::<V>(ratios[l], seconds[l]);
        }
    }
    out.weight = weights.map2(short, |weight, short| if short > 0.0 { 0.0 } else { weight });
    let roundings = most.add::<V>(Lanes::splat(rule.len() as f64));
    out.off = roundings.mul::<V>(Lanes::splat(8.0 * f64::EPSILON));
}

/// Of the pairs of a player some columns, and where their sums stand.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) columns: Columns,
    pub(crate) start: usize,
}

/// Ranks, ascending.
#[derive(Clone, Debug)]
pub(crate) enum Columns {
    /// All of these.
    Range(Range<usize>),
    /// Some.
    Listed(Vec<usize>),
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Listed(list) => list.len(),
        }
    }

    /// One after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = usize> {
        let (range, list) = match self {
            Self::Range(range) => (range.clone(), &[][..]),
            Self::Listed(list) => (0..0, &list[..]),
        };
        range.chain(list.iter().copied())
    }

    /// From the first to the last.
    fn range(&self) -> Range<usize> {
        match self {
            Self::Range(range) => range.clone(),
            Self::Listed(list) => list.first().map_or(0..0, |first| *first..list[list.len() - 1] + 1),
        }
    }

    /// Where a column stands among them.
    fn place(&self, column: usize) -> Option<usize> {
        match self {
            Self::Range(range) => range.contains(&column).then(|| column - range.start),
            Self::Listed(list) => list.binary_search(&column).ok(),
        }
    }
}

/// Some pairs of ranked players: of rows from the first on, one after the other, some columns beyond.
#[derive(Debug, Default)]
pub(crate) struct Stairs {
    /// The first row.
    pub(crate) first: usize,
    pub(crate) steps: Vec<Step>,
}

impl Stairs {
    /// How many pairs they are.
    pub(crate) fn len(&self) -> usize {
        self.steps.last().map_or(0, |step| step.start + step.columns.len())
    }

    /// The next row has these columns.
    pub(crate) fn push(&mut self, columns: Columns) {
        let start = self.len();
        self.steps.push(Step { columns, start });
    }
}

/// What is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Samples {
    /// All nodes: interactions.
    Nodes,
    /// Means over nodes: what is close to interactions, see the module's head.
    Means,
}

/// The interactions of some pairs, in a game of one row.
pub(crate) struct PairSums<'a> {
    rules: Rules<'a>,
    samples: Samples,
    output: usize,
    /// By player the rank.
    ranks: &'a [usize],
    stairs: &'a Stairs,
    /// In the order of the pairs.
    pub(crate) values: Vec<f64>,
    /// How often sums were rounded.
    pub(crate) rounded: usize,
    ratios: Ratios,
    weighed: Weighed,
    nodes: Nodes,
    /// Ranks and places of the active factors that matter, ascending.
    ranked: Vec<(usize, usize)>,
    rows: Vec<Lanes>,
}

impl<'a> PairSums<'a> {
    /// See [`Strengths::new`].
    pub(crate) fn new(
        (averages, samples): (&'a Averages, Samples),
        ranks: &'a [usize],
        stairs: &'a Stairs,
        output: usize,
    ) -> Self {
        let (values, ratios, weighed) = (vec![0.0; stairs.len()], Ratios::default(), Weighed::default());
        let (rules, nodes) = (Rules::new(averages), Nodes::default());
        let (ranked, rows) = (Vec::new(), Vec::new());
        Self {
            rules,
            samples,
            output,
            ranks,
            stairs,
            values,
            rounded: 0,
            ratios,
            weighed,
            nodes,
            ranked,
            rows,
        }
    }

    /// The pairs take in what has been gathered.
    fn flush(&mut self, engine: &Engine) {
        if !self.ratios.is_empty() {
            let Self { ratios, ranked, stairs, rows, values, .. } = self;
            add(engine.isa, ratios, ranked, stairs, rows, values);
            self.ratios.clear();
            self.rounded += 1;
        }
    }

    /// A node of a block, without dividing.
    fn undivided(&mut self, block: &Block, node: &Shared) {
        let Self { ranked, stairs, values, .. } = self;
        let count = block.a.len();
        let factor: Vec<Lanes> = (0..count).map(|l| block.factor::<Plain>(l, node.t, node.s)).collect();
        let gap = |l: usize| block.a[l].sub::<Plain>(block.b[l]);
        // Products of the factors before and after.
        let (mut before, mut after) = (vec![Lanes::ONE; count + 1], vec![Lanes::ONE; count + 1]);
        for &(row, j) in rows_of(ranked, stairs) {
            let of = |l: usize| if l == j { Lanes::ONE } else { factor[l] };
            after[count] = block.weight.mul::<Plain>(Lanes::splat(node.weights[0])).mul::<Plain>(gap(j));
            (0..count).rev().for_each(|l| after[l] = after[l + 1].mul::<Plain>(of(l)));
            (0..count).for_each(|l| before[l + 1] = before[l].mul::<Plain>(of(l)));
            let step = &stairs.steps[row - stairs.first];
            for &(column, l) in between(ranked, step.columns.range()) {
                let Some(at) = step.columns.place(column) else { continue };
                values[step.start + at] += before[l].mul::<Plain>(after[l + 1]).mul::<Plain>(gap(l)).sum();
            }
        }
        self.rounded += 1;
    }
}

/// Those whose ranks are `from..to`.
fn between(ranked: &[(usize, usize)], ranks: Range<usize>) -> &[(usize, usize)] {
    let at = |rank: usize| ranked.partition_point(|(own, _)| *own < rank);
    let start = at(ranks.start);
    &ranked[start..at(ranks.end).max(start)]
}

fn rows_of<'r>(ranked: &'r [(usize, usize)], stairs: &Stairs) -> &'r [(usize, usize)] {
    between(ranked, stairs.first..stairs.first + stairs.steps.len())
}

impl Reading for PairSums<'_> {
    fn begin(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        debug_assert!(rows.len() == 1, "a game of several rows");
    }

    fn read(&mut self, terms: &Terms<'_>, engine: &mut Engine) {
        let active = &terms.run.active[..terms.run.players];
        let last = self.stairs.steps.iter().map(|step| step.columns.range().end).max().unwrap_or(0);
        let ranks = active.iter().map(|&k| self.ranks[terms.players[k as usize]]).zip(0..);
        self.ranked.clear();
        self.ranked.extend(ranks.filter(|(rank, _)| (self.stairs.first..last).contains(rank)));
        self.ranked.sort_unstable();
        if self.ranked.len() < 2 || rows_of(&self.ranked, self.stairs).is_empty() {
            return;
        }
        let mut weighed = std::mem::take(&mut self.weighed);
        let run = alone(terms, self.output, &mut weighed);
        let choices = self.rules.averages().choices(run.players);
        self.ratios.resize(run.players, 1);
        let mut block = Block::default();
        for at in 0..run.weights.len() {
            let found = engine.block(&run, at, &choices, &mut block);
            let rule = self.rules.at(&found.choice);
            if self.samples == Samples::Means {
                if self.ratios.len() == WIDE {
                    self.flush(engine);
                }
                self.nodes.add_up(engine.isa, &block, &rule);
                let weight = self.nodes.means(&block);
                self.ratios.push_sample(weight, &self.nodes.ratios);
                continue;
            }
            for node in rule.iter() {
                if self.ratios.len() == WIDE {
                    self.flush(engine);
                }
                if !self.ratios.push(engine.isa, &block, node, SMALLEST) {
                    self.undivided(&block, node);
                }
            }
        }
        self.flush(engine);
        self.weighed = weighed;
    }
}

dispatch! {
    /// Adds the gathered samples to the values of all pairs.
    fn add(ratios: &Ratios, ranked: &[(usize, usize)], stairs: &Stairs, rows: &mut Vec<Lanes>, values: &mut [f64]) = add_body::<V>
}

#[inline(always)]
fn add_body<V: Simd>(
    ratios: &Ratios,
    ranked: &[(usize, usize)],
    stairs: &Stairs,
    rows: &mut Vec<Lanes>,
    values: &mut [f64],
) {
    let weights = ratios.weights(1);
    let len = weights.len();
    rows.resize(ROWS * STRIDE, Lanes::ZERO);
    for tall in rows_of(ranked, stairs).chunks(ROWS) {
        let step = |i: usize| &stairs.steps[tall[i].0 - stairs.first];
        for (i, (_, factor)) in tall.iter().enumerate() {
            let out = rows[i * STRIDE..][..len].iter_mut();
            for ((out, w), r) in out.zip(weights).zip(ratios.of(*factor)) {
                *out = w.mul::<V>(*r);
            }
        }
        if matches!(step(0).columns, Columns::Listed(_)) {
            (0..tall.len())
                .for_each(|i| listed::<V>(ratios, ranked, step(i), &rows[i * STRIDE..][..len], values));
            continue;
        }
        let taken = (0..tall.len()).map(|i| step(i).columns.range()).filter(|range| !range.is_empty());
        let (from, to) =
            taken.fold((usize::MAX, 0), |(from, to), range| (from.min(range.start), to.max(range.end)));
        // Rows and columns beyond the last are repeated.
        let row = |i: usize| &rows[i.min(tall.len() - 1) * STRIDE..][..len];
        for wide in between(ranked, from..to).chunks(COLUMNS) {
            let of = |j: usize| ratios.of(wide[j.min(wide.len() - 1)].1);
            let own = tile::<V>(&[row(0), row(1), row(2), row(3)], &[of(0), of(1), of(2), of(3)], 0, len);
            for (i, own) in own.iter().enumerate().take(tall.len()) {
                let step = step(i);
                for ((column, _), sum) in wide.iter().zip(own) {
                    if let Some(at) = step.columns.place(*column) {
                        values[step.start + at] += sum.sum();
                    }
                }
            }
        }
    }
}

/// The listed columns of one row.
#[inline(always)]
fn listed<V: Simd>(
    ratios: &Ratios,
    ranked: &[(usize, usize)],
    step: &Step,
    row: &[Lanes],
    values: &mut [f64],
) {
    let mut left = between(ranked, step.columns.range());
    let Columns::Listed(list) = &step.columns else { return };
    for (column, value) in list.iter().zip(&mut values[step.start..]) {
        left = &left[left.partition_point(|(own, _)| own < column)..];
        let Some((_, factor)) = left.first().filter(|(own, _)| own == column) else { continue };
        let mut sum = Lanes::ZERO;
        for (w, r) in row.iter().zip(ratios.of(*factor)) {
            sum = w.fma::<V>(*r, sum);
        }
        *value += sum.sum();
    }
}
