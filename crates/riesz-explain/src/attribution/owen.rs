//! Owen values of product games: players arrive in random order, and players of a union arrive one after
//! another.
//!
//! When player j of the union G arrives, every other union H is present as a whole or absent, and each other
//! player of G is present or absent. For a product with weight w, let A_H and B_H be the products of the
//! present and of the absent factors of union H. Then `φ_j = w ∫ Π_{H≠G} ((1-t) B_H + t A_H) dt · (a_j - b_j)
//! ∫ Π_{l∈G, l≠j} ((1-s) b_l + s a_l) ds`, and likewise within unions of unions. Sources: Owen 1977; for
//! several levels, Winter 1989; the integrals by Owen 1972.

use std::ops::Range;

use super::factor_block::FactorBlock;
use super::polynomial_games::{PowerRequest, PowerResult};
use super::product::{PowerTerms, ProductTerms, ScaledTerms, TermAccumulator};
use super::quadrature::QuadratureEngine;
use super::rule::InclusionMeasure;
use crate::coalition_structure::CoalitionTree;
use crate::linalg::add_to;
use crate::simd::{Lanes, Plain, Simd};

/// The value of every player in every row, for each output.
pub(crate) struct OwenValues<'a> {
    tree: &'a CoalitionTree,
    players: usize,
    outputs: usize,
    /// Rows × outputs × players.
    pub(crate) values: Vec<f64>,
    /// Rows × outputs: a bound on the error of each value and of their sum.
    pub(crate) error: Vec<f64>,
    /// The tree restricted to the factors of the last batch.
    active_tree: Option<CoalitionTree>,
    active_players: Vec<usize>,
    weighed: ScaledTerms,
}

impl<'a> OwenValues<'a> {
    pub(crate) fn new(tree: &'a CoalitionTree, players: usize, outputs: usize) -> Self {
        Self {
            tree,
            players,
            outputs,
            values: Vec::new(),
            error: Vec::new(),
            active_tree: None,
            active_players: Vec::new(),
            weighed: ScaledTerms::default(),
        }
    }

    /// Restricts the tree to the active players.
    fn restrict_to_active(&mut self, active: &[usize]) {
        if self.active_players != active {
            self.active_tree = self.tree.restricted(&|player| active.iter().position(|p| *p == player));
            self.active_players = active.to_vec();
        }
    }

    /// Adds the values of the active players, in a block of support points with these coefficients, to the
    /// values of a row and output.
    fn add(&mut self, game: usize, active: &[usize], coef: Lanes, block_values: &[Lanes], error: Lanes) {
        let out = &mut self.values[game * self.players..][..self.players];
        let mut drift = 0.0_f64;
        for (&player, value) in active.iter().zip(block_values) {
            out[player] += Plain::mul(coef, *value).sum();
            drift += out[player].abs();
        }
        let error = Plain::mul(Plain::abs(coef), error).sum();
        self.error[game] += error + 0.51 * f64::EPSILON * drift;
    }
}

impl TermAccumulator for OwenValues<'_> {
    /// Tiles of the same rows are summed, so existing values are kept.
    fn begin_tile(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        self.values.resize(rows.len() * self.outputs * self.players, 0.0);
        self.error.resize(rows.len() * self.outputs, 0.0);
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        let ProductTerms { row, players: owners, run, coef, .. } = *terms;
        let first = row * self.outputs;
        if owners.is_empty() {
            // A constant adds to no value, but has a rounding error like any other term.
            add_to(&mut self.error[first..], &terms.constant_errors());
            return;
        }
        let mut weighed = std::mem::take(&mut self.weighed);
        let (run, coef) = weighed.fold(run, coef);
        let active: Vec<usize> = run.active[..run.players].iter().map(|&k| owners[k as usize]).collect();
        self.restrict_to_active(&active);
        let mut block_values = vec![Lanes::ZERO; active.len()];
        for index in 0..run.weights.len() {
            let block = engine.block(&run, index);
            // Without active players, the prediction and the base value still have rounding errors.
            if let Some(tree) = &self.active_tree {
                value(tree, block.weight, &block, &mut block_values);
            }
            for (o, coef) in coef.iter().enumerate() {
                // Nested unions take up to three times the roundings of the engine.
                let error = Plain::mul(block.error, Lanes::splat(3.0));
                self.add(first + o, &active, coef[index], &block_values, error);
            }
        }
        self.weighed = weighed;
    }

    fn power_request(&mut self, players: &[usize]) -> PowerRequest<'_> {
        self.restrict_to_active(players);
        self.active_tree.as_ref().map_or(PowerRequest::Values, PowerRequest::Unions)
    }

    fn add_power_block(&mut self, powers: &PowerTerms<'_>, block: usize, result: &PowerResult<'_>) {
        for (o, coef) in powers.coef.iter().enumerate() {
            let game = powers.row * self.outputs + o;
            self.add(game, powers.players, coef[block], result.values, result.error);
        }
    }
}

/// Products over a part of the tree with all its players present and with all absent.
fn part_products(tree: &CoalitionTree, block: &FactorBlock) -> [Lanes; 2] {
    match tree {
        CoalitionTree::Player(k) => [block.a[*k], block.b[*k]],
        CoalitionTree::CoalitionStructure(members) => {
            members.iter().fold([Lanes::UNIT; 2], |products, member| {
                let member_products = part_products(member, block);
                [Plain::mul(products[0], member_products[0]), Plain::mul(products[1], member_products[1])]
            })
        }
    }
}

/// Values of the players of a part, where `weight` is the factor of all players outside it.
fn value(tree: &CoalitionTree, weight: Lanes, block: &FactorBlock, out: &mut [Lanes]) {
    let members = match tree {
        CoalitionTree::Player(k) => {
            out[*k] = Plain::mul(weight, Plain::sub(block.a[*k], block.b[*k]));
            return;
        }
        CoalitionTree::CoalitionStructure(members) => members,
    };
    let sides: Vec<[Lanes; 2]> = members.iter().map(|member| part_products(member, block)).collect();
    let mut complements = vec![Lanes::ZERO; members.len()];
    let (mut mixed, mut before) = (Vec::new(), Vec::new());
    let uniform = InclusionMeasure::Uniform;
    for node in uniform.rule(members.len().div_ceil(2)) {
        let (t, s) = (Lanes::splat(node.t), Lanes::splat(node.s));
        mixed.clear();
        mixed.extend(sides.iter().map(|[a, b]| Plain::fma(t, *a, Plain::mul(s, *b))));
        before.clear();
        let mut product = Plain::mul(weight, Lanes::splat(node.weight));
        for mixture in &mixed {
            before.push(product);
            product = Plain::mul(product, *mixture);
        }
        let mut after = Lanes::UNIT;
        for (k, mixture) in mixed.iter().enumerate().rev() {
            complements[k] = Plain::fma(before[k], after, complements[k]);
            after = Plain::mul(after, *mixture);
        }
    }
    for (member, complement) in members.iter().zip(complements) {
        value(member, complement, block, out);
    }
}
