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
use crate::expansion::parts::{Domain, Parts, View, key};
use crate::explanation::{Exactness, Explanation, Fact};
use crate::game::{Background, Game, Reference, TERMS};
use crate::kernel::products::PlayerProduct;
use crate::kernel::{Columns, Kernel, Reach};
use crate::linalg::{Matrix, dot_roundings};
use crate::question::Question;
use crate::simd::{Isa, LANES, Lanes};
use crate::stop::{Progress, Watch, check};
use crate::table::{Column, Groups, Table};
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
    sources: Vec<Source>,
    /// By part, its source; none where its columns are always present.
    from: Vec<Option<usize>>,
    /// By part, its columns.
    columns: Vec<Vec<usize>>,
    grounds: Vec<Ground>,
    /// By view, its ground.
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

/// Where absent columns of a part are taken from; parts that mean the same share one.
struct Source {
    /// By column of the part, its player.
    owner: Vec<usize>,
    /// Rows of the part's columns.
    reference: Reference,
    conditional: Option<Box<ConditionalMeans>>,
}

/// What a domain's kernel makes of a source; views that mean the same share one.
struct Ground {
    domain: usize,
    source: Option<usize>,
    /// By column of the domain, its place among the part's columns, and its player.
    places: Vec<usize>,
    owner: Vec<usize>,
    /// The source's rows in the domain's columns.
    rows: Vec<Vec<f64>>,
    /// By product, the largest size of each player's factor, players × rows.
    largest: Vec<Vec<f64>>,
    /// Where means depend on no row: by product, blocks × rows.
    drawn: Vec<Vec<Lanes>>,
}

/// Means given the present columns of some rows of a source.
struct Given {
    /// The number of each row among those.
    numbers: HashMap<Vec<u64>, usize>,
    /// By ground, product and row, blocks × rows; nothing for grounds of other sources.
    means: Vec<Vec<Vec<Vec<Lanes>>>>,
    /// By row: the largest sum of sizes of weights, and the largest absolute error of a mean of factors of 1.
    off: Vec<[f64; 2]>,
}

/// By ground and product the means given a coalition, rows × support points, none where all are given; and by row what [`Given::off`] says of it.
type OfCoalition = (Option<Vec<Vec<Matrix>>>, Vec<[f64; 2]>);

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

/// What a view sees of a row.
struct Side {
    /// Where all columns are always present: by row of the domain, what the kernel is.
    always: Option<Vec<f64>>,
    /// By product.
    present: Vec<Present>,
    scales: Vec<f64>,
    /// By row of the domain, what the products are at most together.
    tops: Vec<f64>,
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
        let (mut columns, fixed) = columns_of_parts(model, backgrounds)?;
        let owners = groups.owners(model.points.width());
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
        let parts = Parts::new(model, &columns)?;
        let place = |j: &usize| active.iter().position(|p| *p == owners[*j]);
        let (mut sources, mut from): (Vec<Source>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
        for (own, background) in columns.iter().zip(backgrounds.iter().map(Some).chain([None])) {
            let Some(background) = background else {
                from.push(None);
                continue;
            };
            let names: Vec<_> = own.iter().map(|&j| model.columns()[j].clone()).collect();
            let reference = Reference::new(background, &names)?;
            let owner: Vec<usize> = own.iter().filter_map(place).collect();
            // Parts that read no kernel, or other ones, learn conditional distributions of their own.
            let kernels = |p: usize| -> Vec<usize> {
                parts.views.iter().filter(|view| view.part == p).map(|view| view.domain).collect()
            };
            let same = |(s, source): (usize, &Source)| {
                let first = from.iter().position(|f| *f == Some(s)).unwrap_or(0);
                source.owner == owner
                    && (&source.reference.rows, &source.reference.weights)
                        == (&reference.rows, &reference.weights)
                    && (conditional.is_none() || kernels(first) == kernels(from.len()))
            };
            let known = sources.iter().enumerate().find(|s| same(*s)).map(|(s, _)| s);
            from.push(Some(known.unwrap_or(sources.len())));
            if known.is_none() {
                let own: Vec<&Kernel> = kernels(from.len() - 1)
                    .iter()
                    .map(|&d| &parts.domains[d])
                    .filter(|d| d.rows.width() == owner.len())
                    .map(|d| &d.kernel)
                    .collect();
                let learn = |conditioning| {
                    conditional_means(conditioning, &reference, &names, &owner, &own, players, &stop)
                };
                let conditional = conditional.as_ref().map(learn).transpose()?.map(Box::new);
                sources.push(Source { owner, reference, conditional });
            }
        }
        let (mut grounds, mut on): (Vec<Ground>, Vec<usize>) = (Vec::new(), Vec::new());
        for view in &parts.views {
            let source = from[view.part];
            let of_part = &columns[view.part];
            let places: Vec<usize> =
                view.columns.iter().filter_map(|j| of_part.iter().position(|k| k == j)).collect();
            let owner = match source {
                Some(s) => places.iter().map(|&k| sources[s].owner[k]).collect(),
                None => vec![0; places.len()],
            };
            let of_row = |row: &Vec<f64>| places.iter().map(|&k| row[k]).collect();
            let rows: Vec<Vec<f64>> =
                source.map_or(Vec::new(), |s| sources[s].reference.rows.iter().map(of_row).collect());
            let weights = |s: Option<usize>| s.map(|s| &sources[s].reference.weights);
            let learnt = |s: Option<usize>| s.is_some_and(|s| sources[s].conditional.is_some());
            let same = |g: &Ground| {
                (g.domain, &g.owner, &g.rows) == (view.domain, &owner, &rows)
                    && weights(g.source) == weights(source)
                    && (!learnt(source) || g.source == source && g.places == places)
            };
            let known = grounds.iter().position(same);
            on.push(known.unwrap_or(grounds.len()));
            if known.is_none() {
                let (domain, largest, drawn) = (view.domain, Vec::new(), Vec::new());
                let ground = Ground { domain, source, places, owner, rows, largest, drawn };
                grounds.push(ground.prepared(&parts.domains[domain], &sources, players, &stop)?);
            }
        }
        let recipe = Recipe::new(question.index, unions);
        let sets = Sets::new(groups.players().len(), recipe.order());
        let weighing = Weighing::new(&recipe, &active);
        let (isa, progress) = (Isa::detect(), Arc::default());
        let mut game = Self {
            model,
            question,
            groups,
            parts,
            sources,
            from,
            columns,
            grounds,
            on,
            active,
            base: Vec::new(),
            recipe,
            sets,
            weighing,
            isa,
            stop,
            progress,
        };
        game.base = game.base_values()?;
        Ok(game)
    }

    fn domain(&self, ground: &Ground) -> &Domain {
        &self.parts.domains[ground.domain]
    }

    /// How many rows to hand over at once: where means depend on the row, those of a coalition's system.
    pub(super) fn rows_at_once(&self) -> usize {
        let learnt = |g: &&Ground| g.source.is_some_and(|s| self.sources[s].conditional.is_some());
        let each: usize =
            self.grounds.iter().filter(learnt).map(|g| g.numbers(self.domain(g), self.players())).sum();
        AT_ONCE.checked_div(each).map_or(4096, |rows| rows.clamp(1, 1024))
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
        if self.from.contains(&None) {
            return Ok(vec![f64::NAN; self.model.outputs()]);
        }
        let of = |ground: &Ground| -> Result<Vec<f64>> {
            let Domain { rows, kernel } = self.domain(ground);
            let (mut out, mut buffer) = (vec![0.0; rows.rows()], Vec::new());
            let mut sums = vec![0.0; out.len()];
            let weights = ground.source.map_or(&[][..], |s| &self.sources[s].reference.weights);
            for (row, weight) in ground.rows.iter().zip(weights) {
                check(&self.stop)?;
                kernel.row(self.isa, Columns::of(rows, 0), row, &mut buffer, &mut out);
                sums.iter_mut().zip(&out).for_each(|(sum, v)| *sum += weight * v);
            }
            Ok(sums)
        };
        let all: Vec<_> = self.grounds.iter().map(of).collect::<Result<_>>()?;
        let mut base = self.model.intercept.clone();
        for term in &self.parts.terms {
            for (base, coef) in base.iter_mut().zip(&term.coef) {
                *base += term.sum(coef, |s, row| all[self.on[term.sides[s]]][row]);
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
        let learnt = self.sources.iter().filter_map(|source| source.conditional.as_ref());
        let ridges = learnt.map(|means| Fact::measured("ridge", means.ridge()));
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

    /// By source, the means that depend on these rows.
    fn given(&self, rows: &[Vec<f64>]) -> Result<Vec<Option<Given>>> {
        let of = |(s, source): (usize, &Source)| {
            let Some(means) = &source.conditional else { return Ok(None) };
            let (mut numbers, mut distinct) = (HashMap::new(), Vec::new());
            for x in rows {
                for (columns, _) in self.columns.iter().zip(&self.from).filter(|(_, from)| **from == Some(s))
                {
                    let own: Vec<f64> = columns.iter().map(|&j| x[j]).collect();
                    numbers.entry(key(&own)).or_insert_with(|| {
                        distinct.push(own);
                        distinct.len() - 1
                    });
                }
            }
            self.given_of(s, means, numbers, &distinct).map(Some)
        };
        self.sources.iter().enumerate().map(of).collect()
    }

    /// Means given each coalition's columns of some rows of a source.
    fn given_of(
        &self,
        s: usize,
        means: &ConditionalMeans,
        numbers: HashMap<Vec<u64>, usize>,
        distinct: &[Vec<f64>],
    ) -> Result<Given> {
        let (source, players) = (&self.sources[s], self.players());
        let own: Vec<usize> = (0..players).filter(|p| source.owner.contains(p)).collect();
        let columns = means.learnt().rows.columns().to_vec();
        let reference = source.reference.rows.len();
        let values = (0..columns.len()).flat_map(|j| distinct.iter().map(move |x| x[j])).collect();
        let x = Table::from_column_major(columns, distinct.len(), values)?;
        // Factors between reference rows and support points: by ground, product and own player.
        let between = |ground: &Ground| -> Result<Vec<Vec<Vec<f64>>>> {
            if ground.source != Some(s) {
                return Ok(Vec::new());
            }
            let domain = self.domain(ground);
            let values = (0..domain.rows.width()).flat_map(|j| ground.rows.iter().map(move |row| row[j]));
            let names = domain.rows.columns().to_vec();
            let rows = Table::from_column_major(names, reference, values.collect())?;
            let of = |product: &PlayerProduct<'_>| -> Vec<Vec<f64>> {
                let kernels = product.kernels(players);
                own.iter().map(|&p| kernels[p].cross_gram(&rows, &domain.rows).data().to_vec()).collect()
            };
            Ok(ground.products(domain)?.iter().map(of).collect())
        };
        let between: Vec<_> = self.grounds.iter().map(between).collect::<Result<_>>()?;
        // By coalition of own players: by ground and product the means, and what weights are.
        let of = |coalition: usize| {
            check(&self.stop)?;
            let present: Vec<bool> = (0..own.len()).map(|k| coalition >> k & 1 == 1).collect();
            if !present.contains(&false) {
                return Ok((None, vec![[1.0, 0.0]; distinct.len()]));
            }
            let weights = means.weights(&present, &x, &self.stop)?;
            let root = (reference as f64).sqrt();
            let length = |r: usize| (0..reference).map(|b| weights.matrix[(b, r)].abs()).sum::<f64>();
            let off = (0..distinct.len()).map(|r| [length(r).max(1.0), root * weights.error[r]]).collect();
            // Rows × reference rows.
            let by_row = weights.matrix.transpose();
            let of = |factors: &Vec<Vec<f64>>| {
                let rows = factors.first().map_or(0, |factor| factor.len() / reference);
                let mut rest = vec![1.0; rows * reference];
                for (factor, _) in factors.iter().zip(&present).filter(|(_, present)| !**present) {
                    rest.iter_mut().zip(factor).for_each(|(r, f)| *r *= f);
                }
                by_row.matmul(&Matrix::from_row_major(reference, rows, rest))
            };
            let found: Vec<Vec<Matrix>> = between.iter().map(|all| all.iter().map(of).collect()).collect();
            Ok((Some(found), off))
        };
        let found: Vec<OfCoalition> =
            (0..1_usize << own.len()).into_par_iter().with_max_len(1).map(of).collect::<Result<_>>()?;
        let within =
            |coalition: usize| own.iter().enumerate().map(|(k, p)| (coalition >> p & 1) << k).sum::<usize>();
        let of_row = |g: usize, q: usize, r: usize| {
            by_blocks(players, self.domain(&self.grounds[g]).rows.rows(), |coalition, out| {
                match &found[within(coalition)].0 {
                    Some(all) => out.copy_from_slice(all[g][q].row(r)),
                    None => out.fill(1.0),
                }
            })
        };
        let all = |g: usize| -> Vec<Vec<Vec<Lanes>>> {
            let product = |q: usize| (0..distinct.len()).into_par_iter().map(|r| of_row(g, q, r)).collect();
            (0..between[g].len()).map(product).collect()
        };
        let means = (0..self.grounds.len()).map(all).collect();
        let largest = |r: usize| {
            found.iter().fold([1.0_f64, 0.0], |all, (_, off)| [all[0].max(off[r][0]), all[1].max(off[r][1])])
        };
        Ok(Given { numbers, means, off: (0..distinct.len()).map(largest).collect() })
    }

    /// The values of a row.
    fn row(&self, x: &[f64], given: &[Option<Given>]) -> Result<Found> {
        let (players, outputs) = (self.players(), self.model.outputs());
        let views = || self.parts.views.iter().zip(&self.on);
        let side = |(view, &on): (&View, &usize)| {
            let own: Vec<f64> = view.columns.iter().map(|&j| x[j]).collect();
            self.grounds[on].side(self.domain(&self.grounds[on]), &own, players, self.isa)
        };
        let sides: Vec<Side> = views().map(side).collect::<Result<_>>()?;
        // By view, the means of each product, and how far they are off.
        let told = |(view, &on): (&View, &usize)| {
            let of_row = self.grounds[on].source.and_then(|s| given[s].as_ref()).and_then(|given| {
                let own: Vec<f64> = self.columns[view.part].iter().map(|&j| x[j]).collect();
                Some((given, *given.numbers.get(&key(&own))?))
            });
            match of_row {
                Some((given, r)) => (given.means[on].iter().map(|own| &own[r][..]).collect(), given.off[r]),
                None => (self.grounds[on].drawn.iter().map(|own| &own[..]).collect(), [1.0, 0.0]),
            }
        };
        let (means, off): (Vec<Vec<&[Lanes]>>, Vec<[f64; 2]>) = views().map(told).unzip();
        let blocks = blocks(players);
        let mut worth = vec![0.0; outputs * blocks * LANES];
        let mut scratch: Vec<Vec<Lanes>> =
            sides.iter().map(|side| vec![Lanes::ZERO; side.tops.len()]).collect();
        for block in 0..blocks {
            for ((side, means), out) in sides.iter().zip(&means).zip(&mut scratch) {
                if let Some(always) = &side.always {
                    out.iter_mut().zip(always).for_each(|(out, v)| *out = Lanes::splat(*v));
                    continue;
                }
                out.fill(Lanes::ZERO);
                let rows = out.len();
                for ((present, means), scale) in side.present.iter().zip(means).zip(&side.scales) {
                    let own = &means[block * rows..(block + 1) * rows];
                    add_block(self.isa, present, block, own, *scale, out);
                }
            }
            for term in &self.parts.terms {
                let own: Vec<&[Lanes]> = term.sides.iter().map(|view| &scratch[*view][..]).collect();
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

    /// By output, how far a coalition's value can be off.
    fn errors(&self, sides: &[Side], off: &[[f64; 2]]) -> Vec<f64> {
        let reference = self.sources.iter().map(|s| s.reference.weights.len()).max().unwrap_or(1);
        let summed = TERMS + reference.div_ceil(TERMS) + 2 + reference.min(dot_roundings(reference));
        let predicted = self.model.points.width() + self.parts.terms.len();
        let of = |o: usize| {
            let mut error = 0.0;
            for term in &self.parts.terms {
                let tops = |s: usize, row: usize| sides[term.sides[s]].tops[row];
                let magnitude: Vec<f64> = term.coef[o].iter().map(|c| c.abs()).collect();
                let size = term.sum(&magnitude, tops);
                // What all sides together fall by is the sum of what each does.
                let falling = |side: usize| {
                    term.sum(&magnitude, |s, row| {
                        let top = tops(s, row);
                        if s == side { top * falls(top.clamp(f64::MIN_POSITIVE, 1.0)) } else { top }
                    })
                };
                let decay: f64 = (0..term.sides.len()).map(falling).sum();
                let longest = term.runs().map(|(_, run)| run.len()).max().unwrap_or(0);
                let runs = term.runs().count();
                let own = || term.sides.iter().map(|&view| (&sides[view], off[view]));
                let units: f64 = own().map(|(side, _)| side.units).sum();
                let per_log = own().map(|(side, _)| side.per_log).fold(0.0, f64::max);
                let tiny: f64 = own().map(|(side, _)| side.tiny).sum();
                let units = units + (2 * (summed + longest + runs) + predicted + 32) as f64;
                let lengths: f64 = own().map(|(_, off)| off[0] + off[1]).product();
                let open: f64 = lengths - own().map(|(_, off)| off[0]).product::<f64>();
                let relative = units * size + per_log * (decay + 0.368 * size);
                error += lengths * 0.51 * f64::EPSILON * relative
                    + open.max(0.0) * size
                    + (tiny + FLOOR) * magnitude.iter().sum::<f64>();
            }
            error + f64::EPSILON * self.parts.terms.len() as f64 * self.model.intercept[o].abs()
        };
        (0..self.model.outputs()).map(of).collect()
    }
}

impl Ground {
    /// With sizes and, where they depend on no row, means.
    fn prepared(
        mut self,
        domain: &Domain,
        sources: &[Source],
        players: usize,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let Some(source) = self.source.map(|s| &sources[s]) else { return Ok(self) };
        let (isa, rows, columns) = (Isa::detect(), domain.rows.rows(), Columns::of(&domain.rows, 0));
        let products = self.products(domain)?;
        let fill = |product: &PlayerProduct<'_>, x: &[f64], sizes: bool, out: &mut [f64]| {
            out.fill(1.0);
            for (k, &player) in product.players.iter().enumerate() {
                let out = &mut out[player * rows..(player + 1) * rows];
                match sizes {
                    true => product.size(isa, k, columns, x, out),
                    false => product.factor(isa, k, columns, x, out),
                }
            }
        };
        let largest = |product: &PlayerProduct<'_>| {
            let (mut all, mut own) = (vec![0.0_f64; players * rows], vec![0.0; players * rows]);
            for x in &self.rows {
                check(stop)?;
                fill(product, x, true, &mut own);
                raise(&mut all, &own);
            }
            Ok(all)
        };
        if source.conditional.is_some() {
            let sizes = products.iter().map(largest).collect::<Result<_>>()?;
            drop(products);
            self.largest = sizes;
            return Ok(self);
        }
        let numbers = self.numbers(domain, players);
        if numbers > NUMBERS {
            let allowed = format!(
                "the means of all their coalitions are {numbers} numbers, and {NUMBERS} is the most that is held: group columns, or take fewer support points"
            );
            return Err(Error::parameter("number of players", players, allowed));
        }
        let of = |product: &PlayerProduct<'_>| {
            check(stop)?;
            // The size of what does not cancel is what it is.
            let cancels = product.cancels(true);
            let mut sizes = if cancels { largest(product)? } else { vec![0.0; players * rows] };
            let means = means(isa, (players, rows), &source.reference.weights, |b, out| {
                fill(product, &self.rows[b], false, out);
                if !cancels {
                    raise(&mut sizes, out);
                }
            });
            Ok((sizes, means))
        };
        let found = products.par_iter().map(of).collect::<Result<Vec<_>>>()?;
        drop(products);
        (self.largest, self.drawn) = found.into_iter().unzip();
        Ok(self)
    }

    /// Numbers of means.
    fn numbers(&self, domain: &Domain, players: usize) -> usize {
        let products = self.products(domain).map_or(1, |all| all.len());
        products.saturating_mul(domain.rows.rows()).saturating_mul(blocks(players) * LANES)
    }

    /// The products of players' factors that the kernel is.
    fn products<'k>(&self, domain: &'k Domain) -> Result<Vec<PlayerProduct<'k>>> {
        domain.kernel.split(domain.rows.columns(), &self.owner)
    }

    fn side(&self, domain: &Domain, x: &[f64], players: usize, isa: Isa) -> Result<Side> {
        let (rows, columns) = (domain.rows.rows(), Columns::of(&domain.rows, 0));
        let mut side = Side {
            always: None,
            present: Vec::new(),
            scales: Vec::new(),
            tops: vec![0.0; rows],
            units: 0.0,
            per_log: 0.0,
            tiny: 0.0,
        };
        let mut reach =
            Reach { u: Reach::of(columns, self.owner.len()), v: x.iter().map(|v| [*v; 2]).collect() };
        for row in &self.rows {
            reach.v.iter_mut().zip(row).for_each(|(r, v)| *r = [r[0].min(*v), r[1].max(*v)]);
        }
        let (mut factors, mut size) = (vec![1.0; players * rows], vec![1.0; rows]);
        let products = self.products(domain)?;
        for (q, product) in products.iter().enumerate() {
            factors.fill(1.0);
            let mut top = vec![product.scale.abs(); rows];
            for (k, &player) in product.players.iter().enumerate() {
                product.size(isa, k, columns, x, &mut size);
                if self.source.is_none() {
                    top.iter_mut().zip(&size).for_each(|(top, own)| *top *= own);
                    continue;
                }
                let own = player * rows..(player + 1) * rows;
                product.factor(isa, k, columns, x, &mut factors[own.clone()]);
                for ((top, own), other) in top.iter_mut().zip(&size).zip(&self.largest[q][own]) {
                    *top *= own.max(*other);
                }
            }
            if self.source.is_some() {
                let mut present = Present::default();
                present.fill(&factors, rows);
                side.present.push(present);
                side.scales.push(product.scale);
            }
            side.tops.iter_mut().zip(&top).for_each(|(sum, top)| *sum += top);
            let (_, precision) = product.precision(&reach);
            side.units = side.units.max(precision.units + (2 * players + products.len()) as f64);
            side.per_log = side.per_log.max(precision.per_log);
            side.tiny = side.tiny.max((players + 1) as f64 * precision.tiny * precision.top.max(1.0));
        }
        if self.source.is_none() {
            let mut out = vec![0.0; rows];
            domain.kernel.row(isa, columns, x, &mut Vec::new(), &mut out);
            side.always = Some(out);
        }
        Ok(side)
    }
}

/// Takes in what is larger.
fn raise(largest: &mut [f64], own: &[f64]) {
    largest.iter_mut().zip(own).for_each(|(all, one)| *all = all.max(one.abs()));
}

/// The columns of each background, and those of none.
fn columns_of_parts(model: &Expansion, backgrounds: &[Background]) -> Result<(Vec<Vec<usize>>, Vec<usize>)> {
    let width = model.points.width();
    let own = |background: &Background| -> Vec<usize> {
        let known = |j: &usize| background.rows.index_of(&model.columns()[*j].name).is_ok();
        (0..width).filter(known).collect()
    };
    let columns: Vec<Vec<usize>> = backgrounds.iter().map(own).collect();
    let all = columns.concat();
    let twice = (0..width).any(|j| all.iter().filter(|k| **k == j).count() > 1);
    let found: usize = backgrounds.iter().map(|b| b.rows.width()).sum();
    if twice || all.len() != found {
        let why = "each column of a background is one of the model's, and in no other background".into();
        let what = "the backgrounds of all parts".into();
        return Err(Error::Shape { what, unit: "columns", expected: all.len(), found, why });
    }
    Ok((columns, (0..width).filter(|j| !all.contains(j)).collect()))
}

/// How the rest of a part is distributed given some of its columns; `own` are kernels of the model that read all of them.
fn conditional_means(
    conditioning: &Conditioning,
    reference: &Reference,
    columns: &[Column],
    owner: &[usize],
    own: &[&Kernel],
    players: usize,
    stop: &AtomicBool,
) -> Result<ConditionalMeans> {
    let table = reference.table(columns)?;
    let own = if let [kernel] = own { Some(*kernel) } else { None };
    let kernel = conditioning.kernel.kernel(own, &table)?;
    let of = |p: usize| (0..owner.len()).filter(|&j| owner[j] == p).collect::<Vec<_>>();
    let blocks: Vec<Vec<usize>> = (0..players).map(of).filter(|own| !own.is_empty()).collect();
    conditioning.check_memory("the observational game", table.rows(), blocks.len(), 0.0)?;
    ConditionalMeans::learn(table, reference.weights.clone(), &blocks, &kernel, conditioning, stop)
}
