//! Conditional mean embeddings by one factorisation a coalition, which serves all rows.

use std::ops::Range;

use rayon::prelude::*;

use super::features::Frequencies;
use super::{Approximation, Conditioning, Learnt};
use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::kernel::products::PlayerProduct;
use crate::linalg::sequential;
use crate::simd::Isa;
use crate::table::{Groups, Table};

/// Reference rows in a block of features.
const BLOCK: usize = 512;

/// Conditional mean embeddings on reference rows, for any set of present players.
pub(crate) struct ConditionalMean {
    pub(crate) learnt: Learnt,
    form: Form,
}

enum Form {
    /// By player: the factor between any two reference rows, column by column. Empty where the kernel has no factor of the
    /// player, which then says nothing of the others.
    Exact(Vec<Vec<f64>>),
    /// Some of the reference rows. Their factors are computed for each coalition: kept for all players they would be far larger than
    /// the features of one.
    Landmarks(Table),
    /// As with landmarks, arguments are not kept.
    Features(Frequencies),
}

/// The system of one coalition, in memory that is kept.
#[derive(Default)]
pub(crate) struct System {
    /// The Cholesky factor, size × size, column by column.
    lower: Vec<f64>,
    /// Features of the reference rows, size × rows; empty if the reference rows are the features.
    features: Vec<f64>,
    /// The Cholesky factor of the kernel between landmarks.
    whitening: Vec<f64>,
    /// Its trace.
    trace: f64,
}

impl ConditionalMean {
    /// Prepares embeddings given any players. Cost O(players · n²) for n reference rows, and nothing for landmarks and features.
    ///
    /// # Errors
    /// [`Error::Parameter`] for no landmarks or features, or factors that random features do not know.
    pub(crate) fn new(learnt: Learnt, conditioning: &Conditioning) -> Result<Self> {
        let seed = conditioning.seed;
        let products = learnt.product()?;
        let (rows, groups) = (&learnt.rows, &learnt.groups);
        let few = |name: &str, count: usize| match count {
            0 => Err(Error::parameter(name, count, "at least 1")),
            _ => Ok(count),
        };
        let form = match conditioning.approximation {
            Approximation::ConjugateGradients(_) => {
                let allowed = "conjugate gradients take a model whose kernel is known: use landmarks instead";
                return Err(Error::parameter("approximation", "conjugate gradients", allowed));
            }
            Approximation::Exact => Form::Exact(factors(&products, groups, rows, rows)),
            Approximation::Landmarks(count) => {
                Form::Landmarks(learnt.landmarks(few("landmarks", count)?, seed))
            }
            Approximation::RandomFeatures(count) => {
                let count = few("random features", count)?;
                Form::Features(Frequencies::new(&learnt.kernel, rows.width(), groups, count, seed)?)
            }
        };
        Ok(Self { form, learnt })
    }

    /// By player, the factor between any two reference rows; `None` for approximations, which do not have them.
    pub(crate) fn grams(&self) -> Option<&[Vec<f64>]> {
        match &self.form {
            Form::Exact(grams) => Some(grams),
            Form::Landmarks(_) | Form::Features(_) => None,
        }
    }

    /// Size of a coalition's system: the number of reference rows, landmarks or features.
    pub(crate) fn size(&self) -> usize {
        match &self.form {
            Form::Exact(_) => self.learnt.rows.rows(),
            Form::Landmarks(landmarks) => landmarks.rows(),
            Form::Features(frequencies) => frequencies.count(),
        }
    }

    /// In words.
    pub(crate) fn approximation(&self) -> String {
        match &self.form {
            Form::Exact(_) => "none: all reference rows".into(),
            Form::Landmarks(landmarks) => format!("{} landmarks", landmarks.rows()),
            Form::Features(frequencies) => format!("{} random Fourier features", frequencies.count()),
        }
    }

    /// What [`right`](Self::right) needs of rows, by player.
    pub(crate) fn given(&self, x: &Table) -> Result<Vec<Vec<f64>>> {
        let products = self.learnt.product()?;
        Ok(match &self.form {
            Form::Exact(_) => factors(&products, &self.learnt.groups, &self.learnt.rows, x),
            Form::Landmarks(landmarks) => factors(&products, &self.learnt.groups, landmarks, x),
            Form::Features(frequencies) => frequencies.arguments(x),
        })
    }

    /// Factors the system of a coalition.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] for a ridge that is too small.
    pub(crate) fn prepare(&self, present: &[bool], system: &mut System) -> Result<()> {
        let (n, size) = (self.learnt.rows.rows(), self.size());
        system.lower.resize(size * size, 0.0);
        match &self.form {
            Form::Exact(grams) => {
                let grams = split(grams, 0.., present, true);
                for j in 0..n {
                    let column = j * n + j..(j + 1) * n;
                    multiply(&grams, column.clone(), &mut system.lower[column]);
                }
                let roots: Vec<f64> = self.learnt.weights.iter().map(|w| w.sqrt()).collect();
                for j in 0..n {
                    let column = &mut system.lower[j * n + j..(j + 1) * n];
                    column.iter_mut().zip(&roots[j..]).for_each(|(v, root)| *v *= root * roots[j]);
                    system.lower[j * n + j] += self.learnt.ridge;
                }
            }
            Form::Landmarks(landmarks) => {
                // Φ = L⁻¹ K(landmarks, rows) with K(landmarks, landmarks) = L Lᵀ.
                let product = self.learnt.product()?;
                let between = |v: &Table, rows: Range<usize>, out: &mut [f64]| {
                    products(&product, present, true, landmarks, v, rows, out);
                };
                let System { whitening, .. } = system;
                whitening.resize(size * size, 0.0);
                between(landmarks, 0..size, whitening);
                let diagonal: f64 = (0..size).map(|i| whitening[i * size + i]).sum::<f64>() / size as f64;
                (0..size).for_each(|i| whitening[i * size + i] += 1e-10 * diagonal);
                if !sequential::cholesky_in_place(whitening, size) {
                    let what = "kernel matrix of the landmarks";
                    return Err(Error::NotPositiveDefinite { what, size, jitter: 1e-10 * diagonal });
                }
                let whitening = std::mem::take(whitening);
                self.fill_from_features(system, |rows, out| {
                    between(&self.learnt.rows, rows, out);
                    sequential::solve_lower_in_place(&whitening, size, out);
                });
                system.whitening = whitening;
            }
            Form::Features(frequencies) => self.fill_from_features(system, |rows, out| {
                let own = self.learnt.rows.select_rows(&rows.collect::<Vec<usize>>());
                let arguments = frequencies.arguments(&own);
                frequencies.features(&split(&arguments, 0.., present, true), out);
            }),
        }
        system.trace = (0..size).map(|i| system.lower[i * size + i]).sum();
        if sequential::cholesky_in_place(&mut system.lower, size) {
            return Ok(());
        }
        let what = "kernel matrix of the conditional mean embedding";
        Err(Error::NotPositiveDefinite { what, size, jitter: self.learnt.ridge })
    }

    /// `Φ diag(w) Φᵀ + η I`, block by block of the features, which `fill` computes.
    fn fill_from_features(&self, system: &mut System, fill: impl Fn(Range<usize>, &mut [f64])) {
        let size = self.size();
        let mut weighted = Vec::new();
        system.features.resize(size * self.learnt.rows.rows(), 0.0);
        system.lower.fill(0.0);
        for rows in self.blocks() {
            let block = &mut system.features[rows.start * size..rows.end * size];
            fill(rows.clone(), block);
            weighted.clear();
            weighted.extend_from_slice(block);
            for (row, weight) in weighted.chunks_exact_mut(size).zip(&self.learnt.weights[rows]) {
                row.iter_mut().for_each(|v| *v *= weight);
            }
            sequential::add_lower_outer_product(&mut system.lower, &weighted, block, size);
        }
        (0..size).for_each(|i| system.lower[i * size + i] += self.learnt.ridge);
    }

    /// Blocks of reference rows: all at once where their factors are kept, else so many that what is computed of them stays small.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let n = self.learnt.rows.rows();
        let length = if self.grams().is_some() { n.max(1) } else { BLOCK };
        (0..n).step_by(length).map(move |start| start..n.min(start + length))
    }

    /// What the system of a coalition is solved for, size × rows, from what rows are [`given`](Self::given) as.
    pub(crate) fn right(&self, given: &[Vec<f64>], present: &[bool], system: &System, out: &mut [f64]) {
        let own = split(given, 0.., present, true);
        match &self.form {
            Form::Exact(_) => {
                multiply(&own, 0..out.len(), out);
                self.times_roots(out);
            }
            Form::Landmarks(_) => {
                multiply(&own, 0..out.len(), out);
                sequential::solve_lower_in_place(&system.whitening, self.size(), out);
            }
            Form::Features(frequencies) => frequencies.features(&own, out),
        }
    }

    /// The products of the embedding's own factors between reference rows and rows.
    pub(crate) fn plain(&self, given: &[Vec<f64>], present: &[bool], out: &mut [f64]) {
        multiply(&split(given, 0.., present, true), 0..out.len(), out);
    }

    fn times_roots(&self, columns: &mut [f64]) {
        for column in columns.chunks_exact_mut(self.learnt.rows.rows()) {
            column.iter_mut().zip(&self.learnt.weights).for_each(|(v, w)| *v *= w.sqrt());
        }
    }

    /// A bound on the length of the error of a solution, from the lengths of right side and solution: the backward error of a
    /// Cholesky solution (Higham 2002, theorem 10.4, with ‖|R|ᵀ|R|‖ ≤ trace; the least eigenvalue is at least η), and that of factors that are
    /// off by `units` roundings.
    pub(crate) fn solution_error(&self, system: &System, right: f64, solution: f64, units: f64) -> f64 {
        let u = f64::EPSILON / 2.0;
        let backward = ((3 * self.size() + 1) as f64 * 1.1 + units) * system.trace;
        u / self.learnt.ridge * (backward * solution + units * right)
    }

    /// Solves the system in place.
    pub(crate) fn solve(&self, system: &System, b: &mut [f64]) {
        sequential::solve_in_place(&system.lower, self.size(), b);
    }

    /// Adds to `out` (size × k) what numbers by reference row (a block of rows × k) are worth in the system: their product with the
    /// weights of the reference rows is its product with what the system was solved to.
    pub(crate) fn project(&self, system: &System, rows: Range<usize>, by_row: &[f64], out: &mut [f64]) {
        let weights = &self.learnt.weights[rows.clone()];
        let Some(features) = self.features(system, &rows) else {
            for (out, column) in out.chunks_exact_mut(self.size()).zip(by_row.chunks_exact(rows.len())) {
                let both = out[rows.clone()].iter_mut().zip(column);
                both.zip(weights).for_each(|((out, v), w)| *out += v * w.sqrt());
            }
            return;
        };
        let weighted: Vec<f64> = by_row
            .chunks_exact(rows.len())
            .flat_map(|column| column.iter().zip(weights).map(|(v, w)| v * w))
            .collect();
        sequential::add_product(out, features, &weighted, self.size());
    }

    /// The same for numbers whose k of a row are next to one another (k × a block of rows), where the reference rows are not the features.
    pub(crate) fn project_rows(&self, system: &System, rows: Range<usize>, by_row: &[f64], out: &mut [f64]) {
        let Some(features) = self.features(system, &rows) else { return };
        let mut weighted = features.to_vec();
        for (row, weight) in weighted.chunks_exact_mut(self.size()).zip(&self.learnt.weights[rows]) {
            row.iter_mut().for_each(|v| *v *= weight);
        }
        sequential::add_outer_product(out, &weighted, by_row, self.size());
    }

    /// The weights of a block of reference rows, rows × k, from what the system was solved to, size × k.
    pub(crate) fn weights(&self, system: &System, rows: Range<usize>, solved: &[f64]) -> Vec<f64> {
        let weights = &self.learnt.weights[rows.clone()];
        let Some(features) = self.features(system, &rows) else {
            let columns = solved.chunks_exact(self.size());
            return columns
                .flat_map(|column| column[rows.clone()].iter().zip(weights).map(|(v, w)| v * w.sqrt()))
                .collect();
        };
        let mut out = vec![0.0; solved.len() / self.size() * rows.len()];
        sequential::add_transposed_product(&mut out, features, solved, self.size());
        for column in out.chunks_exact_mut(rows.len()) {
            column.iter_mut().zip(weights).for_each(|(v, w)| *v *= w);
        }
        out
    }

    /// The features of a block of reference rows; none if the reference rows are the features.
    fn features<'s>(&self, system: &'s System, rows: &Range<usize>) -> Option<&'s [f64]> {
        let size = self.size();
        self.grams().is_none().then(|| &system.features[rows.start * size..rows.end * size])
    }
}

/// The products of the factors of those players who are present, or of those who are absent, between all rows of `u` and some of `v`:
/// all rows of `u` with the first of `v`, then with the second, …
pub(crate) fn products(
    product: &PlayerProduct<'_>,
    present: &[bool],
    on: bool,
    u: &Table,
    v: &Table,
    rows: Range<usize>,
    out: &mut [f64],
) {
    let own: Vec<usize> = (0..product.players.len()).filter(|&k| present[product.players[k]] == on).collect();
    let mut factor = vec![0.0; u.rows()];
    for (i, out) in rows.zip(out.chunks_exact_mut(u.rows().max(1))) {
        let row = v.row(i);
        out.fill(1.0);
        for &k in &own {
            product.factor(Isa::detect(), k, Columns::of(u, 0), &row, &mut factor);
            out.iter_mut().zip(&factor).for_each(|(o, f)| *o *= f);
        }
    }
}

/// By player, the factor between the rows of `u` and each row of `x`; empty for players without one.
pub(super) fn factors(product: &PlayerProduct<'_>, groups: &Groups, u: &Table, x: &Table) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); groups.players().len()];
    for (k, &player) in product.players.iter().enumerate() {
        all[player] = between(u, x, |u, v, out| product.factor(Isa::detect(), k, u, v, out));
    }
    all
}

/// The factors of those of `players` that are present, or of those that are absent; empty ones are 1.
pub(crate) fn split<'f>(
    factors: &'f [Vec<f64>],
    players: impl IntoIterator<Item = usize>,
    present: &[bool],
    on: bool,
) -> Vec<&'f [f64]> {
    let own = factors.iter().zip(players).filter(|(factor, p)| present[*p] == on && !factor.is_empty());
    own.map(|(factor, _)| factor.as_slice()).collect()
}

/// The products of the factors' entries in a range; 1 without factors.
pub(crate) fn multiply(factors: &[&[f64]], range: std::ops::Range<usize>, out: &mut [f64]) {
    // A piece of this length stays in the first-level cache while all factors pass over it.
    const PIECE: usize = 1024;
    for (at, out) in out.chunks_mut(PIECE).enumerate() {
        let from = range.start + at * PIECE;
        match factors {
            [] => out.fill(1.0),
            [one] => out.copy_from_slice(&one[from..from + out.len()]),
            [one, two, more @ ..] => {
                let both = one[from..].iter().zip(&two[from..]);
                out.iter_mut().zip(both).for_each(|(o, (a, b))| *o = a * b);
                for factor in more {
                    out.iter_mut().zip(&factor[from..]).for_each(|(o, f)| *o *= f);
                }
            }
        }
    }
}

/// `fill(rows of u, row of x, out)` for every row of `x`, one after the other.
pub(crate) fn between(
    u: &Table,
    x: &Table,
    fill: impl Fn(Columns<'_>, &[f64], &mut [f64]) + Sync,
) -> Vec<f64> {
    let mut out = vec![0.0; u.rows() * x.rows()];
    out.par_chunks_mut(u.rows().max(1))
        .enumerate()
        .for_each(|(i, out)| fill(Columns::of(u, 0), &x.row(i), out));
    out
}
