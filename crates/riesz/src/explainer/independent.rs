//! Games of parts that are independent of each other: absent columns of each part are drawn, or follow their distribution given the present ones, whatever the others' are.
//!
//! Where no factor ties columns of several parts together, a coalition's value is a sum over [tuples](crate::expansion::parts::Tuples) of support points' parts of products of means, one a part: all
//! coalitions are valued, at a cost of the sum over parts of their reference rows, where every combination of reference rows would take their product.
//! No fast exact way with many players is known, nor likely: with two parts whose columns belong to the same players it would count orthogonal pairs of bit vectors faster than
//! the orthogonal-vectors conjecture allows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::attribution::parts::{Present, add_block, blocks, by_blocks, means, sum_tuples};
use crate::attribution::quadrature::{FLOOR, falls};
use crate::attribution::recipe::Recipe;
use crate::attribution::set_errors::Errors;
use crate::attribution::sets::Sets;
use crate::attribution::tables::Weighing;
use crate::embedding::{ConditionalMeans, Conditioning};
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::expansion::parts::{Domain, Parts};
use crate::explanation::{Exactness, Explanation, Fact};
use crate::game::{Game, Reference, TERMS};
use crate::kernel::products::PlayerProduct;
use crate::kernel::{Columns, Reach};
use crate::linalg::{Matrix, dot_roundings};
use crate::question::Question;
use crate::simd::{Isa, LANES, Lanes};
use crate::stop::{Progress, Watch, check};
use crate::table::{Groups, Table};
use crate::unions::Tree;

/// Players of whom all coalitions are valued.
const PLAYERS: usize = 16;

/// The most numbers of means: 512 MB.
const NUMBERS: usize = 1 << 26;

/// Numbers of means that are found for some rows together, where they depend on the row.
const AT_ONCE: usize = 1 << 23;

/// Explains rows of one model by parts.
pub(super) struct Independent<'m> {
    model: &'m Expansion,
    pub(super) question: Question,
    pub(super) groups: Groups,
    parts: Parts,
    grounds: Vec<Ground>,
    /// By part, its ground.
    on: Vec<usize>,
    /// The players who can be absent.
    active: Vec<usize>,
    /// The outputs with nobody present; no numbers where columns are always present, and it depends on the row.
    pub(super) base: Vec<f64>,
    recipe: Recipe,
    sets: Sets,
    weighing: Weighing,
    pub(super) isa: Isa,
    stop: Arc<AtomicBool>,
    pub(super) progress: Arc<Progress>,
}

/// What absent columns of a part are taken from; parts that mean the same share one.
struct Ground {
    domain: usize,
    /// By column of the part, its player.
    owner: Vec<usize>,
    reference: Reference,
    /// By kernel and product, the largest size of each player's factor, players × rows.
    largest: Vec<Vec<Vec<f64>>>,
    absent: Absent,
}

enum Absent {
    /// The part's columns are always present.
    Never,
    /// By kernel and product, blocks × rows.
    Drawn(Vec<Vec<Vec<Lanes>>>),
    Conditional(Box<ConditionalMeans>),
}

/// Means given the present columns of some rows of a ground: what a row's are, and how far they are off.
struct Given {
    /// The number of each row among those.
    numbers: HashMap<Vec<u64>, usize>,
    /// By kernel, product and row, blocks × rows.
    means: Vec<Vec<Vec<Vec<Lanes>>>>,
    /// By row: the largest sum of sizes of weights, and the largest absolute error of a mean of factors of 1.
    off: Vec<[f64; 2]>,
}

/// What is found of a row.
struct Found {
    /// Outputs × sets.
    values: Vec<f64>,
    /// By output, a bound on the error of each value.
    bound: Vec<f64>,
    /// By output, its value with nobody present.
    base: Vec<f64>,
    /// By output.
    prediction: Vec<f64>,
}

/// A row's side of a part.
struct Side {
    x: Vec<f64>,
    /// Where all columns are always present: by kernel and row, what it is.
    always: Option<Vec<Vec<f64>>>,
    /// By kernel and product.
    present: Vec<Vec<Present>>,
    /// By kernel and row, what its products are at most.
    tops: Vec<Vec<f64>>,
    units: f64,
    per_log: f64,
    tiny: f64,
}

impl<'m> Independent<'m> {
    pub(super) fn new(
        model: &'m Expansion,
        question: Question,
        groups: Groups,
        unions: Option<&Tree>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let Game::Independent { parts: backgrounds, conditional } = &question.game else {
            return Err(Error::parameter("game", question.game.name(), "it has no parts"));
        };
        let width = model.points.width();
        let mut part_of = vec![usize::MAX; width];
        let mut columns = Vec::new();
        for (p, background) in backgrounds.iter().enumerate() {
            let known = |j: &usize| background.rows.index_of(&model.columns()[*j].name).is_ok();
            let own: Vec<usize> = (0..width).filter(known).collect();
            own.iter().for_each(|&j| part_of[j] = p);
            columns.push(own);
        }
        let own: usize = columns.iter().map(Vec::len).sum();
        let found: usize = backgrounds.iter().map(|b| b.rows.width()).sum();
        if own != found {
            let why = "each column of a background is one of the model's, and in no other background".into();
            let what = "the backgrounds of all parts".into();
            return Err(Error::Shape { what, unit: "columns", expected: own, found, why });
        }
        let fixed: Vec<usize> = (0..width).filter(|&j| part_of[j] == usize::MAX).collect();
        let owners = groups.owners(width);
        let active: Vec<usize> = (0..groups.players().len())
            .filter(|p| groups.players()[*p].columns.iter().any(|j| !fixed.contains(j)))
            .collect();
        if let Some(&j) = fixed.iter().find(|&&j| active.contains(&owners[j])) {
            let (player, column) = (&groups.players()[owners[j]].name, &model.columns()[j].name);
            let allowed = format!(
                "its column '{column}' is in no background, and others are: give all of them or none"
            );
            return Err(Error::parameter("player", player, allowed));
        }
        let players = active.len();
        if players > PLAYERS {
            let allowed = format!(
                "the game of independent parts values all coalitions of up to {PLAYERS} players: group columns, or give rows of all columns, combinations of the parts' rows, as one background"
            );
            return Err(Error::parameter("number of players", players, allowed));
        }
        if !fixed.is_empty() {
            columns.push(fixed);
        }
        let parts = Parts::new(model, columns)?;
        let (mut grounds, mut on): (Vec<Ground>, Vec<usize>) = (Vec::new(), Vec::new());
        for (p, part) in parts.parts.iter().enumerate() {
            let place = |j: &usize| active.iter().position(|p| *p == owners[*j]);
            let Some(background) = backgrounds.get(p) else {
                on.push(grounds.len());
                let reference = Reference { rows: Vec::new(), weights: Vec::new() };
                let owner = vec![0; part.columns.len()];
                let (domain, largest) = (part.domain, Vec::new());
                grounds.push(Ground { domain, owner, reference, largest, absent: Absent::Never });
                continue;
            };
            let names: Vec<_> = part.columns.iter().map(|&j| model.columns()[j].clone()).collect();
            let reference = Reference::new(background, &names)?;
            let owner: Vec<usize> = part.columns.iter().filter_map(place).collect();
            let same = |g: &Ground| {
                (g.domain, &g.owner) == (part.domain, &owner)
                    && (&g.reference.rows, &g.reference.weights) == (&reference.rows, &reference.weights)
            };
            let known = grounds.iter().position(same);
            on.push(known.unwrap_or(grounds.len()));
            if known.is_none() {
                let domain = &parts.domains[part.domain];
                grounds.push(Ground::new(
                    (domain, part.domain),
                    owner,
                    reference,
                    conditional,
                    players,
                    &stop,
                )?);
            }
        }
        let recipe = Recipe::new(question.index, unions);
        let sets = Sets::new(groups.players().len(), recipe.order());
        let weighing = Weighing::new(&recipe, &active);
        let mut game = Self {
            model,
            question,
            groups,
            parts,
            grounds,
            on,
            active,
            base: Vec::new(),
            recipe,
            sets,
            weighing,
            isa: Isa::detect(),
            stop,
            progress: Arc::default(),
        };
        game.base = game.base_values()?;
        Ok(game)
    }

    /// How many rows to hand over at once: where means depend on the row, those of a coalition's system.
    pub(super) fn rows_at_once(&self) -> usize {
        let each: usize =
            self.grounds.iter().map(|g| g.numbers(&self.parts.domains[g.domain], self.players())).sum();
        match self.grounds.iter().any(|g| matches!(g.absent, Absent::Conditional(_))) {
            true => (AT_ONCE / each.max(1)).clamp(1, 1024),
            false => 4096,
        }
    }

    /// What an absent feature means.
    pub(super) fn absent(&self) -> String {
        self.question.game.absent()
    }

    fn players(&self) -> usize {
        self.active.len()
    }

    /// The outputs with nobody present: means over the reference rows.
    fn base_values(&self) -> Result<Vec<f64>> {
        if self.grounds.iter().any(|ground| matches!(ground.absent, Absent::Never)) {
            return Ok(vec![f64::NAN; self.model.outputs()]);
        }
        let of = |ground: &Ground| -> Result<Vec<Vec<f64>>> {
            let domain = &self.parts.domains[ground.domain];
            let columns = Columns::of(&domain.rows, 0);
            let (mut out, mut buffer) = (vec![0.0; domain.rows.rows()], Vec::new());
            let mut sums = vec![vec![0.0; out.len()]; domain.kernels.len()];
            for (kernel, sums) in domain.kernels.iter().zip(&mut sums) {
                for (row, weight) in ground.reference.rows.iter().zip(&ground.reference.weights) {
                    check(&self.stop)?;
                    kernel.row(self.isa, columns, row, &mut buffer, &mut out);
                    sums.iter_mut().zip(&out).for_each(|(sum, v)| *sum += weight * v);
                }
            }
            Ok(sums)
        };
        let all: Vec<_> = self.grounds.iter().map(of).collect::<Result<_>>()?;
        let mut base = self.model.intercept.clone();
        for term in &self.parts.terms {
            for (base, coef) in base.iter_mut().zip(&term.coef) {
                *base += term.sum(coef, |s, row| {
                    let [p, kernel] = term.sides[s];
                    all[self.on[p]][kernel][row]
                });
            }
        }
        if base.iter().any(|v| !v.is_finite()) {
            let remedy = "the reference rows are too far from the data the model was fitted on";
            return Err(Error::Overflow { what: "the base value".into(), remedy });
        }
        Ok(base)
    }

    /// The values of every row of `rows`.
    pub(super) fn explain(&self, rows: &Table) -> Result<Explanation> {
        let data = rows.conform(self.model.columns())?;
        let (n, m) = (data.rows(), self.model.outputs());
        let watch = Watch { stop: &self.stop, progress: &self.progress };
        watch.progress.start(n);
        let mut values = Vec::with_capacity(n * m * self.sets.len());
        let (mut bound, mut base_values, mut predictions) = (Vec::new(), Vec::new(), Vec::new());
        for start in (0..n).step_by(self.rows_at_once()) {
            let chunk: Vec<Vec<f64>> =
                (start..n.min(start + self.rows_at_once())).map(|i| data.row(i)).collect();
            let given = self.given(&chunk)?;
            let row = |x: &Vec<f64>| {
                watch.check()?;
                let found = self.row(x, &given)?;
                watch.done();
                Ok(found)
            };
            for found in chunk.par_iter().map(row).collect::<Result<Vec<_>>>()? {
                values.extend(found.values);
                bound.extend(found.bound);
                base_values.extend(found.base);
                predictions.extend(found.prediction);
            }
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            let what = format!("a value of row {}", at / (m * self.sets.len()) + 1);
            let remedy = "its numbers are too far from the data the model was fitted on";
            return Err(Error::Overflow { what, remedy });
        }
        let ridges = self.grounds.iter().filter_map(|ground| match &ground.absent {
            Absent::Conditional(means) => Some(Fact::measured("ridge", means.ridge())),
            Absent::Drawn(_) | Absent::Never => None,
        });
        Ok(Explanation {
            index: self.question.index,
            players: self.groups.players().to_vec(),
            subsets: self.recipe.subsets(self.groups.players().len()),
            output_names: self.model.output_names.clone(),
            values,
            base_values,
            predictions,
            data,
            row_numbers: (0..n).collect(),
            uncertainty: None,
            exactness: Exactness::Exact { bound },
            provenance: self.question.provenance(self.model.facts(), ridges.collect()),
        })
    }

    /// By ground, the means that depend on these rows.
    fn given(&self, rows: &[Vec<f64>]) -> Result<Vec<Option<Given>>> {
        let of = |(g, ground): (usize, &Ground)| {
            let Absent::Conditional(means) = &ground.absent else { return Ok(None) };
            let (mut numbers, mut distinct) = (HashMap::new(), Vec::new());
            for x in rows {
                for (part, on) in self.parts.parts.iter().zip(&self.on) {
                    let own: Vec<f64> = part.columns.iter().map(|&j| x[j]).collect();
                    if *on == g && !numbers.contains_key(&key(&own)) {
                        numbers.insert(key(&own), distinct.len());
                        distinct.push(own);
                    }
                }
            }
            let domain = &self.parts.domains[ground.domain];
            ground.given(domain, means, numbers, &distinct, self.players(), &self.stop).map(Some)
        };
        self.grounds.iter().enumerate().map(of).collect()
    }

    fn row(&self, x: &[f64], given: &[Option<Given>]) -> Result<Found> {
        let (players, outputs) = (self.players(), self.model.outputs());
        let sides: Vec<Side> = self
            .parts
            .parts
            .iter()
            .zip(&self.on)
            .map(|(part, &on)| {
                let ground = &self.grounds[on];
                let own = part.columns.iter().map(|&j| x[j]).collect();
                ground.side(&self.parts.domains[ground.domain], own, players, self.isa)
            })
            .collect::<Result<_>>()?;
        // Where means of a side stand, and how far they are off.
        let mut means: Vec<&[Vec<Vec<Lanes>>]> = Vec::new();
        let mut number = Vec::new();
        let mut off = Vec::new();
        for (side, &on) in sides.iter().zip(&self.on) {
            match (&self.grounds[on].absent, &given[on]) {
                (_, Some(given)) => {
                    let at = given.numbers.get(&key(&side.x)).copied().unwrap_or(0);
                    number.push(Some(at));
                    off.push(given.off[at]);
                    means.push(&[]);
                }
                (Absent::Drawn(own), None) => {
                    number.push(None);
                    off.push([1.0, 0.0]);
                    means.push(own);
                }
                (Absent::Never | Absent::Conditional(_), None) => {
                    number.push(None);
                    off.push([1.0, 0.0]);
                    means.push(&[]);
                }
            }
        }
        let blocks = blocks(players);
        let mut worth = vec![0.0; outputs * blocks * LANES];
        let mut scratch: Vec<Vec<Vec<Lanes>>> = sides
            .iter()
            .map(|side| side.tops.iter().map(|tops| vec![Lanes::ZERO; tops.len()]).collect())
            .collect();
        for block in 0..blocks {
            for (p, (side, scratch)) in sides.iter().zip(&mut scratch).enumerate() {
                let scales = self.scales(p);
                for (k, out) in scratch.iter_mut().enumerate() {
                    out.fill(Lanes::ZERO);
                    let rows = out.len();
                    if let Some(always) = &side.always {
                        out.iter_mut().zip(&always[k]).for_each(|(out, v)| *out = Lanes::splat(*v));
                        continue;
                    }
                    for (q, present) in side.present[k].iter().enumerate() {
                        let own = match number[p] {
                            None => &means[p][k][q],
                            Some(at) => match &given[self.on[p]] {
                                Some(given) => &given.means[k][q][at],
                                None => continue,
                            },
                        };
                        let own = &own[block * rows..(block + 1) * rows];
                        add_block(self.isa, present, block, own, scales[k][q], out);
                    }
                }
            }
            for term in &self.parts.terms {
                let own: Vec<&[Lanes]> = term.sides.iter().map(|[p, k]| &scratch[*p][*k][..]).collect();
                for (o, coef) in term.coef.iter().enumerate() {
                    let sum = match own.is_empty() {
                        true => Lanes::splat(coef.iter().sum()),
                        false => sum_tuples(self.isa, term, coef, &own),
                    };
                    let at = (o * blocks + block) * LANES;
                    worth[at..at + LANES].iter_mut().zip(sum.0).for_each(|(w, v)| *w += v);
                }
            }
        }
        let errors = self.errors(&sides, &off);
        let mut values = vec![0.0; outputs * self.sets.len()];
        let (mut bound, mut base) = (Vec::with_capacity(outputs), Vec::with_capacity(outputs));
        for (o, (own, error)) in values.chunks_exact_mut(self.sets.len()).zip(errors).enumerate() {
            let worth = &worth[o * blocks * LANES..][..1 << players];
            let mut all = Errors::new(1, self.sets.order());
            let off = self.weighing.add(worth, &self.active, &self.sets, own);
            all.add_worths(0, error, &off);
            let bounded = self.recipe.finish(&all.of(0), own, &self.sets);
            let nobody =
                if self.base[o].is_nan() { self.model.intercept[o] + worth[0] } else { self.base[o] };
            base.push(nobody);
            // Summing them up rounds, too.
            let sum: f64 = own.iter().map(|v| v.abs()).sum();
            bound.push(bounded + f64::EPSILON * (self.sets.len() + 4) as f64 * (sum + nobody.abs()));
        }
        // By other roads than the worth of everybody.
        let own = self.parts.at(self.isa, x);
        let prediction = own.iter().zip(&self.model.intercept).map(|(v, b)| v + b).collect();
        Ok(Found { values, bound, base, prediction })
    }

    /// By kernel and product of a part, the product's scale.
    fn scales(&self, part: usize) -> Vec<Vec<f64>> {
        let ground = &self.grounds[self.on[part]];
        let of = |products: Vec<PlayerProduct<'_>>| products.iter().map(|p| p.scale).collect();
        let domain = &self.parts.domains[ground.domain];
        // What was split once can be.
        ground.products(domain).map_or(Vec::new(), |all| all.into_iter().map(of).collect())
    }

    /// By output, how far a coalition's value can be off.
    fn errors(&self, sides: &[Side], off: &[[f64; 2]]) -> Vec<f64> {
        let reference = self.grounds.iter().map(|g| g.reference.weights.len()).max().unwrap_or(1);
        let summed = TERMS + reference.div_ceil(TERMS) + 2 + reference.min(dot_roundings(reference));
        let predicted = self.model.points.width() + self.parts.terms.len();
        let of = |o: usize| {
            let mut error = 0.0;
            for term in &self.parts.terms {
                let own: Vec<&[f64]> = term.sides.iter().map(|[p, k]| &sides[*p].tops[*k][..]).collect();
                let magnitude: Vec<f64> = term.coef[o].iter().map(|c| c.abs()).collect();
                let size = term.sum(&magnitude, |s, row| own[s][row]);
                let decay = term.sum(&magnitude, |s, row| {
                    if s == 0 {
                        own[0][row] * falls(own[0][row].clamp(f64::MIN_POSITIVE, 1.0))
                    } else {
                        own[s][row]
                    }
                }) + term.sum(&magnitude, |s, row| {
                    if s == 1 {
                        own[1][row] * falls(own[1][row].clamp(f64::MIN_POSITIVE, 1.0))
                    } else {
                        own[s][row]
                    }
                });
                let longest = term.runs().map(|(_, run)| run.len()).max().unwrap_or(0);
                let runs = term.runs().count();
                let of_sides = || term.sides.iter().map(|[p, _]| (&sides[*p], off[*p]));
                let units: f64 = of_sides().map(|(side, _)| side.units).sum();
                let per_log = of_sides().map(|(side, _)| side.per_log).fold(0.0, f64::max);
                let tiny: f64 = of_sides().map(|(side, _)| side.tiny).sum();
                let units = units + (2 * (summed + longest + runs) + predicted + 32) as f64;
                let lengths: f64 = of_sides().map(|(_, off)| off[0] + off[1]).product();
                let open: f64 = lengths - of_sides().map(|(_, off)| off[0]).product::<f64>();
                error += lengths * 0.51 * f64::EPSILON * (units * size + per_log * (decay + 0.368 * size))
                    + open.max(0.0) * size
                    + (tiny + FLOOR) * magnitude.iter().sum::<f64>();
            }
            error + f64::EPSILON * self.parts.terms.len() as f64 * self.model.intercept[o].abs()
        };
        (0..self.model.outputs()).map(of).collect()
    }
}

impl Ground {
    fn new(
        (domain, number): (&Domain, usize),
        owner: Vec<usize>,
        reference: Reference,
        conditional: &Option<Conditioning>,
        players: usize,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let absent = Absent::Drawn(Vec::new());
        let mut ground = Self { domain: number, owner, reference, largest: Vec::new(), absent };
        let (isa, rows) = (Isa::detect(), domain.rows.rows());
        let columns = Columns::of(&domain.rows, 0);
        let products = ground.products(domain)?;
        let fill = |product: &PlayerProduct<'_>, x: &[f64], sizes: bool, out: &mut [f64]| {
            out.fill(1.0);
            for (k, &player) in product.players.iter().enumerate() {
                let out = &mut out[player * rows..(player + 1) * rows];
                if sizes {
                    product.size(isa, k, columns, x, out)
                } else {
                    product.factor(isa, k, columns, x, out)
                }
            }
        };
        let largest = |product: &PlayerProduct<'_>| {
            let (mut all, mut own) = (vec![0.0_f64; players * rows], vec![0.0; players * rows]);
            for x in &ground.reference.rows {
                check(stop)?;
                fill(product, x, true, &mut own);
                all.iter_mut().zip(&own).for_each(|(all, one)| *all = all.max(*one));
            }
            Ok(all)
        };
        let each =
            |of: &(dyn Fn(&PlayerProduct<'_>) -> Result<Vec<f64>> + Sync)| -> Result<Vec<Vec<Vec<f64>>>> {
                products.par_iter().map(|own| own.iter().map(of).collect()).collect()
            };
        let sizes = each(&largest)?;
        let absent = match conditional {
            None => {
                let numbers = ground.numbers(domain, players);
                if numbers > NUMBERS {
                    let allowed = format!(
                        "the means of all their coalitions are {numbers} numbers, and {NUMBERS} is the most that is held: group columns, or take fewer support points"
                    );
                    return Err(Error::parameter("number of players", players, allowed));
                }
                let weights = &ground.reference.weights;
                let of = |product: &PlayerProduct<'_>| {
                    check(stop)?;
                    Ok(means(isa, (players, rows), weights, |b, out| {
                        fill(product, &ground.reference.rows[b], false, out);
                    }))
                };
                let all = products.par_iter().map(|own| own.iter().map(of).collect::<Result<Vec<_>>>());
                Absent::Drawn(all.collect::<Result<_>>()?)
            }
            Some(conditioning) => {
                let table = ground.reference.table(domain.rows.columns())?;
                let own = if let [kernel] = &domain.kernels[..] { Some(kernel) } else { None };
                let kernel = conditioning.kernel.kernel(own, &table)?;
                let weights = ground.reference.weights.clone();
                let blocks = ground.blocks(players);
                let (n, b) = (table.rows(), blocks.len());
                conditioning.check_memory("the observational game", n, b, 0.0)?;
                let means = ConditionalMeans::learn(table, weights, &blocks, &kernel, conditioning, stop)?;
                Absent::Conditional(Box::new(means))
            }
        };
        drop(products);
        ground.largest = sizes;
        ground.absent = absent;
        Ok(ground)
    }

    /// Numbers of means.
    fn numbers(&self, domain: &Domain, players: usize) -> usize {
        let products = self.products(domain).map_or(1, |all| all.iter().map(Vec::len).sum::<usize>());
        products.saturating_mul(domain.rows.rows()).saturating_mul(blocks(players) * LANES)
    }

    /// By kernel, the products of players' factors that it is.
    fn products<'k>(&self, domain: &'k Domain) -> Result<Vec<Vec<PlayerProduct<'k>>>> {
        domain.kernels.iter().map(|kernel| kernel.split(domain.rows.columns(), &self.owner)).collect()
    }

    /// The columns of those players that have some, ascending.
    fn blocks(&self, players: usize) -> Vec<Vec<usize>> {
        let of = |p: usize| (0..self.owner.len()).filter(|&j| self.owner[j] == p).collect::<Vec<_>>();
        (0..players).map(of).filter(|own| !own.is_empty()).collect()
    }

    fn side(&self, domain: &Domain, x: Vec<f64>, players: usize, isa: Isa) -> Result<Side> {
        let (rows, columns) = (domain.rows.rows(), Columns::of(&domain.rows, 0));
        let (present, tops) = (Vec::new(), Vec::new());
        let mut side = Side { always: None, present, tops, units: 0.0, per_log: 0.0, tiny: 0.0, x };
        let mut reach = Reach { u: Reach::of(columns, self.owner.len()), v: Vec::new() };
        reach.v = side.x.iter().map(|v| [*v; 2]).collect();
        for row in &self.reference.rows {
            reach.v.iter_mut().zip(row).for_each(|(r, v)| *r = [r[0].min(*v), r[1].max(*v)]);
        }
        if let Absent::Never = self.absent {
            let mut buffer = Vec::new();
            let kernels = domain.kernels.iter().zip(self.products(domain)?);
            let always = kernels.map(|(kernel, products)| {
                let mut out = vec![0.0; rows];
                kernel.row(isa, columns, &side.x, &mut buffer, &mut out);
                // All columns are one player's here.
                let mut tops = vec![0.0; rows];
                for product in &products {
                    let mut size = vec![1.0; rows];
                    product.size(isa, 0, columns, &side.x, &mut size);
                    tops.iter_mut().zip(&size).for_each(|(sum, v)| *sum += v * product.scale.abs());
                    let (_, precision) = product.precision(&reach);
                    side.units =
                        side.units.max(precision.units + (2 * self.owner.len() + products.len()) as f64);
                    side.per_log = side.per_log.max(precision.per_log);
                    side.tiny = side.tiny.max(precision.tiny * precision.top.max(1.0));
                }
                side.tops.push(tops);
                out
            });
            let always = always.collect();
            side.always = Some(always);
            return Ok(side);
        }
        let (mut factors, mut size) = (vec![1.0; players * rows], vec![1.0; rows]);
        for (products, largest) in self.products(domain)?.iter().zip(&self.largest) {
            let (mut presents, mut tops) = (Vec::new(), vec![0.0; rows]);
            for (product, largest) in products.iter().zip(largest) {
                factors.fill(1.0);
                let mut top = vec![product.scale.abs(); rows];
                for (k, &player) in product.players.iter().enumerate() {
                    product.factor(
                        isa,
                        k,
                        columns,
                        &side.x,
                        &mut factors[player * rows..(player + 1) * rows],
                    );
                    product.size(isa, k, columns, &side.x, &mut size);
                    let largest = &largest[player * rows..(player + 1) * rows];
                    for ((top, own), other) in top.iter_mut().zip(&size).zip(largest) {
                        *top *= own.max(*other);
                    }
                }
                let mut present = Present::default();
                present.fill(&factors, rows);
                presents.push(present);
                tops.iter_mut().zip(&top).for_each(|(sum, top)| *sum += top);
                let (_, precision) = product.precision(&reach);
                side.units = side.units.max(precision.units + (2 * players + products.len()) as f64);
                side.per_log = side.per_log.max(precision.per_log);
                side.tiny = side.tiny.max(players as f64 * precision.tiny * precision.top.max(1.0));
            }
            side.present.push(presents);
            side.tops.push(tops);
        }
        Ok(side)
    }

    /// Means given each coalition's columns of some rows.
    fn given(
        &self,
        domain: &Domain,
        means: &ConditionalMeans,
        numbers: HashMap<Vec<u64>, usize>,
        distinct: &[Vec<f64>],
        players: usize,
        stop: &AtomicBool,
    ) -> Result<Given> {
        let own: Vec<usize> = (0..players).filter(|p| self.owner.contains(p)).collect();
        let rows = domain.rows.rows();
        let columns = domain.rows.columns();
        let values = (0..columns.len()).flat_map(|j| distinct.iter().map(move |x| x[j])).collect();
        let x = Table::from_column_major(columns.to_vec(), distinct.len(), values)?;
        let reference = self.reference.table(columns)?;
        let products = self.products(domain)?;
        // Factors between support points and reference rows: by kernel, product and own player.
        let between = |product: &PlayerProduct<'_>| -> Vec<Vec<f64>> {
            let kernels = product.kernels(players);
            own.iter().map(|&p| kernels[p].cross_gram(&domain.rows, &reference).data().to_vec()).collect()
        };
        let between: Vec<Vec<Vec<Vec<f64>>>> =
            products.iter().map(|all| all.iter().map(between).collect()).collect();
        // By coalition of own players: by kernel and product the means, and what weights are.
        let of = |coalition: usize| {
            check(stop)?;
            let present: Vec<bool> = (0..own.len()).map(|k| coalition >> k & 1 == 1).collect();
            if !present.contains(&false) {
                return Ok((None, vec![[1.0, 0.0]; distinct.len()]));
            }
            let weights = means.weights(&present, &x, stop)?;
            let root = (reference.rows() as f64).sqrt();
            let length = |r: usize| (0..reference.rows()).map(|b| weights.matrix[(b, r)].abs()).sum::<f64>();
            let off = (0..distinct.len()).map(|r| [length(r).max(1.0), root * weights.error[r]]).collect();
            let of = |factors: &Vec<Vec<f64>>| {
                let mut rest = vec![1.0; rows * reference.rows()];
                for (factor, present) in factors.iter().zip(&present) {
                    if !present {
                        rest.iter_mut().zip(factor).for_each(|(r, f)| *r *= f);
                    }
                }
                Matrix::from_row_major(rows, reference.rows(), rest).matmul(&weights.matrix)
            };
            let found: Vec<Vec<Matrix>> = between.iter().map(|all| all.iter().map(of).collect()).collect();
            Ok((Some(found), off))
        };
        let found: Vec<(Option<Vec<Vec<Matrix>>>, Vec<[f64; 2]>)> =
            (0..1_usize << own.len()).into_par_iter().with_max_len(1).map(of).collect::<Result<_>>()?;
        let within =
            |coalition: usize| own.iter().enumerate().map(|(k, p)| (coalition >> p & 1) << k).sum::<usize>();
        let of_row = |k: usize, q: usize, r: usize| {
            by_blocks(players, rows, |coalition, row| {
                found[within(coalition)].0.as_ref().map_or(1.0, |all| all[k][q][(row, r)])
            })
        };
        let all = |(k, own): (usize, &Vec<PlayerProduct<'_>>)| -> Vec<Vec<Vec<Lanes>>> {
            let product = |q: usize| (0..distinct.len()).into_par_iter().map(|r| of_row(k, q, r)).collect();
            (0..own.len()).map(product).collect()
        };
        let means = products.iter().enumerate().map(all).collect();
        let largest = |r: usize| {
            found.iter().fold([1.0_f64, 0.0], |all, (_, off)| [all[0].max(off[r][0]), all[1].max(off[r][1])])
        };
        Ok(Given { numbers, means, off: (0..distinct.len()).map(largest).collect() })
    }
}

fn key(row: &[f64]) -> Vec<u64> {
    row.iter().map(|v| (v + 0.0).to_bits()).collect()
}
