//! Interactions of all sets of up to so many players, read off product games.
//!
//! Of a product `w Π_l f_l(t)` with `f_l = (1-t) b_l + t a_l` the interaction of T is `I_T(t) = w Π_{j∈T} (a_j - b_j) Π_{l∉T} f_l`, or `W Π_{j∈T} r_j` with
//! `W = w Π f_l` and `r_j = (a_j - b_j)/f_j`. So all pairs are a weighted Gram matrix of ratios, over lanes and nodes, and larger sets are such matrices for
//! each choice of the players before the last two. An error of the computed f_j goes out of the product again, so that dividing costs no digits unless f_j is
//! so small that ratios leave the range of doubles; such nodes are taken without dividing.

use std::ops::Range;

use super::averages::{Averages, Shared, binomial};
use super::block::Block;
use super::gram::{Ratios, WIDE};
use super::powers::Found;
use super::product::{Powers, Reading, Terms};
use super::quadrature::{Engine, Run};
use super::tables::Off;
use crate::simd::{Lanes, Plain};

/// Factors relative to the larger of their two sides that can be divided by.
const SMALLEST: f64 = 1e-6;

/// The sets of up to so many players, by size, those of one size in lexicographic order.
pub(crate) struct Sets {
    players: usize,
    order: usize,
    /// By size, from 1: the number of smaller sets.
    first: Vec<usize>,
    /// `ranks[r][v]`: how many sets of r + 1 players begin before v.
    ranks: Vec<Vec<usize>>,
}

impl Sets {
    pub(crate) fn new(players: usize, order: usize) -> Self {
        let order = order.min(players);
        let ranks = |r: usize| {
            let mut all = vec![0; players + 1];
            for u in 0..players {
                all[u + 1] = all[u] + binomial(players - 1 - u, r) as usize;
            }
            all
        };
        let ranks: Vec<Vec<usize>> = (0..order).map(ranks).collect();
        let sizes = ranks.iter().map(|rank| rank[players]);
        let first = std::iter::once(0).chain(sizes.scan(0, |all, n| {
            *all += n;
            Some(*all)
        }));
        Self { players, order, first: first.collect(), ranks }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.first.last().copied().unwrap_or(0)
    }

    /// How many players there are.
    pub(crate) fn players(&self) -> usize {
        self.players
    }

    /// How many pairs of players from `next` on begin before l.
    pub(crate) fn between(&self, next: usize, l: usize) -> usize {
        self.ranks[1][l] - self.ranks[1][next]
    }

    /// How many players the largest have.
    pub(crate) fn order(&self) -> usize {
        self.order
    }

    /// Where those of a size stand.
    pub(crate) fn of_size(&self, size: usize) -> Range<usize> {
        self.first[size - 1]..self.first[size]
    }

    /// Where a set stands, whose players ascend.
    pub(crate) fn place(&self, set: &[usize]) -> usize {
        let (mut at, mut next) = (self.first[set.len() - 1], 0);
        for (i, &j) in set.iter().enumerate() {
            let ranks = &self.ranks[set.len() - 1 - i];
            at += ranks[j] - ranks[next];
            next = j + 1;
        }
        at
    }

    /// Calls `each` with all sets in order.
    pub(crate) fn each(&self, mut each: impl FnMut(&[usize])) {
        for size in 1..=self.order {
            let mut set: Vec<usize> = (0..size).collect();
            loop {
                each(&set);
                // The last player that can move on.
                let Some(i) = (0..size).rev().find(|&i| set[i] < self.players - size + i) else { break };
                set[i] += 1;
                (i + 1..size).for_each(|l| set[l] = set[l - 1] + 1);
            }
        }
    }
}

/// The interactions of all sets in every row, for each output.
pub(crate) struct Interactions<'a> {
    averages: &'a Averages,
    sets: &'a Sets,
    outputs: usize,
    /// Rows × outputs × sets.
    pub(crate) indices: Vec<f64>,
    /// By row and output.
    pub(crate) errors: Errors,
    rules: Vec<Option<Vec<Shared>>>,
    ratios: Ratios,
}

impl<'a> Interactions<'a> {
    pub(crate) fn new(averages: &'a Averages, sets: &'a Sets, outputs: usize) -> Self {
        let (indices, rules, ratios) = (Vec::new(), Vec::new(), Ratios::default());
        let errors = Errors::new(0, sets.order());
        Self { averages, sets, outputs, indices, errors, rules, ratios }
    }

    /// Adds what has been gathered to the values of a row.
    fn flush(&mut self, row: usize, owners: &[usize], active: &[u32], engine: &Engine) {
        if self.ratios.is_empty() {
            return;
        }
        let (sets, games) = (self.sets.len(), row * self.outputs..(row + 1) * self.outputs);
        let players: Vec<usize> = active.iter().map(|&k| owners[k as usize]).collect();
        let out = &mut self.indices[games.start * sets..games.end * sets];
        self.ratios.add_to(engine.isa, &players, self.sets, out);
        self.ratios.clear();
        self.drift(games);
    }

    /// All sums were rounded.
    fn drift(&mut self, games: Range<usize>) {
        let (sets, order) = (self.sets.len(), self.sets.order());
        for g in games {
            for size in 1..=order {
                let own = &self.indices[g * sets..][self.sets.of_size(size)];
                let (mut largest, mut sum) = (0.0_f64, 0.0);
                for value in own {
                    largest = largest.max(value.abs());
                    sum += value.abs();
                }
                let error = &mut self.errors.sizes[g * order + size - 1];
                error.each += 0.51 * f64::EPSILON * largest;
                error.together += 0.51 * f64::EPSILON * sum;
                error.apart += 0.51 * f64::EPSILON * sum;
            }
        }
    }

    /// Adds a node of a block, lane by lane in `weights`, without dividing.
    fn undivided(
        &mut self,
        row: usize,
        owners: &[usize],
        run: &Run<'_>,
        block: &Block,
        node: &Shared,
        coef: &[Lanes],
    ) {
        let count = run.players;
        let factor: Vec<Lanes> = (0..count).map(|l| block.factor::<Plain>(l, node.t, node.s)).collect();
        let gap: Vec<Lanes> = (0..count).map(|l| block.a[l].sub::<Plain>(block.b[l])).collect();
        let mut set = Vec::new();
        let games = row * self.outputs;
        let (sets, indices) = (self.sets, &mut self.indices);
        let mut add = |set: &[usize], value: Lanes| {
            let players: Vec<usize> = set.iter().map(|&l| owners[run.active[l] as usize]).collect();
            let at = sets.place(&players);
            for (o, coef) in coef.iter().enumerate() {
                let own = value.mul::<Plain>(*coef).mul::<Plain>(Lanes::splat(node.weights[set.len() - 1]));
                indices[(games + o) * sets.len() + at] += own.sum();
            }
        };
        descend(&factor, &gap, block.weight, sets.order(), &mut set, &mut add);
    }
}

/// Hands over `weight Π_{j∈T} gap_j Π_{l∉T} factor_l` for every T that is `set` with players after its last, up to so many in all.
fn descend(
    factor: &[Lanes],
    gap: &[Lanes],
    weight: Lanes,
    order: usize,
    set: &mut Vec<usize>,
    add: &mut impl FnMut(&[usize], Lanes),
) {
    let count = factor.len();
    let of = |l: usize| if set.contains(&l) { Lanes::ONE } else { factor[l] };
    // Products of those before and after.
    let mut after = vec![weight; count + 1];
    (0..count).rev().for_each(|l| after[l] = after[l + 1].mul::<Plain>(of(l)));
    let mut before = Lanes::ONE;
    let from = set.last().map_or(0, |l| l + 1);
    (0..from).for_each(|l| before = before.mul::<Plain>(of(l)));
    for l in from..count {
        let rest = before.mul::<Plain>(after[l + 1]);
        before = before.mul::<Plain>(factor[l]);
        set.push(l);
        add(set, rest.mul::<Plain>(gap[l]));
        if set.len() < order {
            descend(factor, gap, weight.mul::<Plain>(gap[l]), order, set, add);
        }
        set.pop();
    }
}

/// What interactions are off, by row and output, and by size.
pub(crate) struct Errors {
    order: usize,
    sizes: Vec<SizeError>,
}

/// Of the interactions of one size.
#[derive(Debug, Clone, Copy, Default)]
struct SizeError {
    /// A bound on the error of each.
    each: f64,
    /// On the sum of all errors.
    apart: f64,
    /// On the sum of all errors but for what factors are off, which leaves the sum of an index that adds up as it is.
    together: f64,
    /// With the first size: on what the game is off with all players present and absent.
    ends: f64,
}

impl Errors {
    pub(crate) fn new(games: usize, order: usize) -> Self {
        Self { order, sizes: vec![SizeError::default(); games * order] }
    }

    /// Of values that are made of worths of coalitions, each of which is off by `error`.
    pub(crate) fn add_worths(&mut self, game: usize, error: f64, off: &[Off]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += 2.0 * error;
        for (own, off) in sizes.iter_mut().zip(off) {
            own.each += off.worths * error + off.each;
            own.apart += off.count * off.worths * error + off.together;
            own.together += off.together;
        }
    }

    /// Of a block whose values are off by `error`. Of a factor that is off by δ relative to the larger of its two sides, and of roundings, an interaction of T in a
    /// product M of these sides is off by `δ M Π_{j∈T} γ_j`, where j, if it is that factor, is left out and counts twice; and no γ is larger than 2.
    fn add(&mut self, game: usize, error: Lanes, symmetric: &[Lanes], heights: &[f64]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += error.sum();
        for (s, (own, height)) in sizes.iter_mut().zip(heights).enumerate() {
            // The engine's own errors are counted relative to the sum of all γ.
            let share = symmetric[s].map2(symmetric[0], |own, one| if one > 0.0 { own / one } else { 0.0 });
            let fewer = if s == 0 { Lanes::ONE } else { symmetric[s - 1] };
            let factors = symmetric[s].map2(fewer, |own, fewer| own + 2.0 * fewer);
            let engine = 3.0 * height * share.mul::<Plain>(error).sum();
            own.each += 1.5 * height * 2.0_f64.powi(s as i32 + 1) * error.sum();
            own.together += engine;
            own.apart += engine + height * factors.mul::<Plain>(error).sum();
        }
    }

    /// Of powers whose values are off by `error`: with `Σ |δ_j| ≤ 2 M^{1/p}` what sets of some size do together is `2^s C(p, s) M` at most, of each half as much.
    fn add_powers(&mut self, game: usize, error: f64, degree: usize, heights: &[f64]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += error;
        for (s, (own, height)) in sizes.iter_mut().zip(heights).enumerate() {
            let all = height * 2.0_f64.powi(s as i32 + 1) * binomial(degree, s + 1).max(1.0) * error;
            own.each += 0.5 * all;
            own.together += all;
            own.apart += all;
        }
    }

    /// Of one row and output.
    pub(crate) fn of(&self, game: usize) -> GameErrors<'_> {
        GameErrors { sizes: &self.sizes[game * self.order..][..self.order] }
    }
}

/// Of one row and output.
pub(crate) struct GameErrors<'e> {
    sizes: &'e [SizeError],
}

impl GameErrors<'_> {
    /// Of interactions of a size.
    pub(crate) fn each(&self, size: usize) -> f64 {
        self.sizes.get(size - 1).map_or(0.0, |own| own.each)
    }

    /// A bound on the error of each value, and of their sum if it `adds_up`, where sets get `shares` of the larger ones among `values`.
    pub(crate) fn bound(&self, shares: &[f64], adds_up: bool, values: &[f64], sets: &Sets) -> f64 {
        let size = |s: usize| values[sets.of_size(s + 1)].iter().map(|v| v.abs()).sum::<f64>();
        let sums: Vec<f64> = (0..self.sizes.len()).map(size).collect();
        let of = |s: usize| {
            let larger = self.sizes[s + 1..].iter().zip(&sums[s + 1..]).zip(shares);
            // Summing them rounds as often as there are some.
            let rounded = |sum: f64| f64::EPSILON * values.len() as f64 * sum;
            self.sizes[s].each
                + larger.map(|((own, sum), share)| share.abs() * (own.apart + rounded(*sum))).sum::<f64>()
        };
        let each = (0..self.sizes.len()).map(of).fold(0.0, f64::max);
        let ends = self.sizes.first().map_or(0.0, |own| own.ends);
        // What one set gets of another, this loses, to the last error.
        let own = if shares.is_empty() { self.sizes.len() } else { 1 };
        let together: f64 = self.sizes.iter().take(own).map(|own| own.together).sum();
        if adds_up { each.max(ends + together) } else { each }
    }
}

impl Reading for Interactions<'_> {
    /// Tiles of the same rows add up.
    fn begin(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        let games = rows.len() * self.outputs;
        self.indices.resize(games * self.sets.len(), 0.0);
        self.errors.sizes.resize(games * self.sets.order(), SizeError::default());
    }

    fn read(&mut self, terms: &Terms<'_>, engine: &mut Engine) {
        let Terms { row, players: owners, run, coef, .. } = *terms;
        let (games, order) = (row * self.outputs, self.sets.order());
        if owners.is_empty() {
            // A constant adds nothing, and is rounded like any other term.
            let weight = run.weights.first().map_or(0.0, |w| w.0[0].abs());
            for (o, coef) in coef.iter().enumerate() {
                let size = weight * coef.iter().flat_map(|lanes| lanes.0).map(f64::abs).sum::<f64>();
                self.errors.sizes[(games + o) * order].ends += f64::EPSILON * run.rounding.units * size;
            }
            return;
        }
        // A single output's coefficients are within the weights: these may be far from 1, and products of theirs not.
        let (ones, weights, sizes);
        let (run, coef) = if let [coef] = coef {
            ones = [vec![Lanes::ONE; run.weights.len()]];
            weights = run.weights.iter().zip(coef).map(|(w, c)| w.mul::<Plain>(*c)).collect::<Vec<_>>();
            let own = run.sizes.iter().copied().flatten().zip(coef);
            sizes = own.map(|(s, c)| s.map2(*c, |s, c| s * c.abs())).collect::<Vec<_>>();
            (Run { weights: &weights, sizes: run.sizes.map(|_| &sizes[..]), ..run }, &ones[..])
        } else {
            (run, coef)
        };
        let active = &run.active[..run.players];
        let choices = self.averages.choices(run.players);
        self.ratios.resize(active.len(), order);
        let mut block = Block::default();
        for at in 0..run.weights.len() {
            let found = engine.block(&run, at, &choices, &mut block);
            let symmetric = block.symmetric(order);
            for (o, coef) in coef.iter().enumerate() {
                let error = coef[at].map2(found.error, |c, e| c.abs() * e);
                self.errors.add(games + o, error, &symmetric, &self.averages.heights);
            }
            let own: Vec<Lanes> = coef.iter().map(|coef| coef[at]).collect();
            let nodes = found.choice.nodes;
            if self.rules.len() <= nodes {
                self.rules.resize(nodes + 1, None);
            }
            let rule = self.rules[nodes].take().unwrap_or_else(|| self.averages.rule(&found.choice));
            self.ratios.begin(&own);
            for node in &rule {
                if self.ratios.len() == WIDE {
                    self.flush(row, owners, active, engine);
                    self.ratios.begin(&own);
                }
                if !self.ratios.push(engine.isa, &block, node, SMALLEST) {
                    self.undivided(row, owners, &run, &block, node, &own);
                    self.drift(games..games + self.outputs);
                }
            }
            self.rules[nodes] = Some(rule);
        }
        self.flush(row, owners, active, engine);
    }

    fn averages(&self) -> Option<&Averages> {
        Some(self.averages)
    }

    fn take(&mut self, powers: &Powers<'_>, block: usize, found: &Found<'_>) {
        let (games, count) = (powers.row * self.outputs, self.sets.len());
        let mut places = Vec::with_capacity(found.values.len() + found.larger.len());
        Sets::new(powers.players.len(), self.sets.order()).each(|set| {
            places.push(self.sets.place(&set.iter().map(|&k| powers.players[k]).collect::<Vec<_>>()));
        });
        for (o, coef) in powers.coef.iter().enumerate() {
            let out = &mut self.indices[(games + o) * count..][..count];
            for (at, value) in places.iter().zip(found.values.iter().chain(found.larger)) {
                out[*at] += coef[block].mul::<Plain>(*value).sum();
            }
            let error = coef[block].map2(found.error, |c, e| c.abs() * e).sum();
            self.errors.add_powers(games + o, error, powers.sums.degree, &self.averages.heights);
        }
        self.drift(games..games + self.outputs);
    }

    /// What is kept until all is read are numbers alone.
    fn end(&mut self) {
        self.ratios = Ratios::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_stand_where_they_are_said_to() {
        for (players, order) in [(1, 1), (1, 3), (5, 2), (6, 4), (4, 4), (9, 3)] {
            let sets = Sets::new(players, order);
            let mut all: Vec<Vec<usize>> = Vec::new();
            sets.each(|set| all.push(set.to_vec()));
            assert_eq!(all.len(), sets.len());
            let mut sorted = all.clone();
            sorted.sort_by_key(|set| (set.len(), set.clone()));
            assert_eq!(all, sorted);
            for (k, set) in all.iter().enumerate() {
                assert_eq!(sets.place(set), k);
                assert!(sets.of_size(set.len()).contains(&k));
            }
        }
    }
}
