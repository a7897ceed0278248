//! What absent features are filled in with, for models that are known by their answers alone: the rows of a background, or draws
//! from the distribution of the absent features given the present ones.

use crate::embedding::{ConditionalMean, Conditioning, Learnt, System, default_kernel};
use crate::error::{Error, Result};
use crate::game::{Background, Reference};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::random::Random;
use crate::table::{Column, ColumnKind, Groups, Table};

/// What takes the place of absent features.
#[derive(Debug, Clone, PartialEq)]
pub enum Absence {
    /// The rows of a background, whatever the present features are: the interventional game.
    Background(Background),
    /// Draws from a normal distribution with the reference's mean and covariance, given the present features (Aas, Jullum and Løland
    /// 2021, §3.1).
    Gaussian {
        /// The rows that mean and covariance come from.
        reference: Background,
        /// Draws for each coalition and row, at least 2.
        draws: usize,
    },
    /// The same for normal scores: each column is first mapped to a normal distribution through its ranks (§3.2 there).
    Copula {
        /// The rows that ranks and correlations come from.
        reference: Background,
        /// Draws for each coalition and row, at least 2.
        draws: usize,
    },
    /// The reference rows, weighted by a conditional mean embedding given the present features (RKHS-SHAP).
    Embedding {
        /// The rows from which conditional distributions are learnt.
        reference: Background,
        /// How they are learnt; by default with a Gaussian kernel and median length scales.
        conditioning: Conditioning,
    },
}

/// Draws that fit into memory with room to spare.
const MOST_DRAWS: usize = 1_000_000;

/// An [`Absence`] made ready.
pub(crate) struct Filling {
    pub(crate) reference: Reference,
    pub(crate) groups: Groups,
    way: Way,
}

enum Way {
    Background,
    Normal { normal: Normal, draws: usize },
    Embedding(Box<ConditionalMean>),
}

/// One coalition, for any row.
pub(crate) struct Given<'f> {
    filling: &'f Filling,
    /// By column.
    present: Vec<bool>,
    way: GivenWay<'f>,
}

enum GivenWay<'f> {
    Background,
    Normal {
        normal: &'f Normal,
        draws: usize,
        absent: Vec<usize>,
        known: Vec<usize>,
        slope: Matrix,
        lower: Matrix,
    },
    Embedding {
        embedding: &'f ConditionalMean,
        players: Vec<bool>,
        system: System,
    },
}

/// Weighted rows that stand for a coalition at a row.
pub(crate) struct Mixtures {
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) weights: Vec<f64>,
    /// Whether the rows are a random sample.
    pub(crate) drawn: bool,
    /// A bound on the length of the error of the weights.
    pub(crate) error: f64,
}

impl Absence {
    /// What the reference or background is.
    pub fn background(&self) -> &Background {
        match self {
            Self::Background(rows) => rows,
            Self::Gaussian { reference, .. }
            | Self::Copula { reference, .. }
            | Self::Embedding { reference, .. } => reference,
        }
    }

    /// In a sentence for people.
    pub fn absent(&self) -> String {
        let rows = self.background().rows.rows();
        match self {
            Self::Background(_) => {
                crate::game::Game::Interventional { background: self.background().clone() }.absent()
            }
            Self::Gaussian { draws, .. } => format!(
                "absent features are {draws} draws from a normal distribution given the present ones, with mean and covariance of {rows} rows"
            ),
            Self::Copula { draws, .. } => format!(
                "absent features are {draws} draws from a Gaussian copula given the present ones, with ranks and correlations of {rows} rows"
            ),
            Self::Embedding { .. } => format!(
                "absent features follow their distribution given the present ones, learnt from {rows} reference rows"
            ),
        }
    }

    /// Learns what has to be learnt from the reference.
    pub(crate) fn prepare(&self, columns: &[Column], groups: &Groups) -> Result<Filling> {
        let reference = Reference::new(self.background(), columns)?;
        let way = match self {
            Self::Background(_) => Way::Background,
            Self::Gaussian { draws, .. } | Self::Copula { draws, .. } => {
                if !(2..=MOST_DRAWS).contains(draws) {
                    let allowed = format!("from 2, for a standard error, to {MOST_DRAWS}");
                    return Err(Error::parameter("draws", draws, allowed));
                }
                let scores = matches!(self, Self::Copula { .. });
                Way::Normal { normal: Normal::new(&reference, columns, scores)?, draws: *draws }
            }
            Self::Embedding { conditioning, .. } => {
                let rows = reference.table(columns)?;
                let own = match &conditioning.kernel {
                    Some(kernel) => kernel.clone(),
                    None => default_kernel(&Kernel::constant(1.0), &rows)?,
                };
                let weights = reference.weights.clone();
                let learnt = Learnt::new(rows, weights, own, groups, conditioning)?;
                Way::Embedding(Box::new(ConditionalMean::new(learnt, conditioning)?))
            }
        };
        Ok(Filling { reference, groups: groups.clone(), way })
    }
}

/// A row, and what a coalition needs of it.
pub(crate) struct Known {
    pub(crate) x: Vec<f64>,
    /// By player, for an embedding.
    given: Vec<Vec<f64>>,
}

impl Filling {
    /// Prepares a row, for all coalitions.
    pub(crate) fn know(&self, x: Vec<f64>) -> Result<Known> {
        let given = match &self.way {
            Way::Embedding(embedding) => {
                let columns = embedding.learnt.rows.columns().to_vec();
                embedding.given(&Table::from_column_major(columns, 1, x.clone())?)?
            }
            Way::Background | Way::Normal { .. } => Vec::new(),
        };
        Ok(Known { x, given })
    }

    /// Prepares a coalition of players.
    pub(crate) fn given(&self, players: &[bool]) -> Result<Given<'_>> {
        let width = self.reference.rows[0].len();
        let mut present = vec![false; width];
        for (player, _) in self.groups.players().iter().zip(players).filter(|(_, on)| **on) {
            player.columns.iter().for_each(|&j| present[j] = true);
        }
        let way = match &self.way {
            Way::Background => GivenWay::Background,
            Way::Normal { normal, draws } => {
                let (known, absent): (Vec<usize>, Vec<usize>) = (0..width).partition(|&j| present[j]);
                let (slope, lower) = normal.given(&known, &absent)?;
                GivenWay::Normal { normal, draws: *draws, absent, known, slope, lower }
            }
            Way::Embedding(embedding) => {
                let mut system = System::default();
                embedding.prepare(players, &mut system)?;
                GivenWay::Embedding { embedding, players: players.to_vec(), system }
            }
        };
        Ok(Given { filling: self, present, way })
    }
}

impl Given<'_> {
    /// The rows that stand for the coalition at a row.
    pub(crate) fn mixtures(&self, row: &Known, random: &mut Random) -> Mixtures {
        let x = &row.x;
        let reference = &self.filling.reference;
        let mix = |other: &[f64]| -> Vec<f64> {
            (0..x.len()).map(|j| if self.present[j] { x[j] } else { other[j] }).collect()
        };
        let rows = || reference.rows.iter().map(|row| mix(row)).collect();
        match &self.way {
            GivenWay::Background => {
                Mixtures { rows: rows(), weights: reference.weights.clone(), drawn: false, error: 0.0 }
            }
            GivenWay::Embedding { embedding, players, system } => {
                let mut solved = vec![0.0; embedding.size()];
                embedding.right(&row.given, players, system, &mut solved);
                let length = dot(&solved, &solved).sqrt();
                embedding.solve(system, &mut solved);
                let units = (12 * x.len() + 8) as f64;
                // The reference rows' weights are no longer than what they come from.
                let error = embedding.solution_error(system, length, dot(&solved, &solved).sqrt(), units);
                let all = 0..reference.rows.len();
                let weights = embedding.weights(system, all, &solved);
                Mixtures { rows: rows(), weights, drawn: false, error }
            }
            GivenWay::Normal { normal, draws, absent, known, slope, lower } => {
                let centred: Vec<f64> = known
                    .iter()
                    .map(|&j| (normal.score(j, x[j]) - normal.mean[j]) / normal.scale[j])
                    .collect();
                let mean = slope.matvec(&centred);
                let draw = |random: &mut Random| {
                    let noise: Vec<f64> = absent.iter().map(|_| random.normal()).collect();
                    let mut row = x.to_vec();
                    for (a, &j) in absent.iter().enumerate() {
                        let own = dot(&lower.row(a)[..=a], &noise[..=a]);
                        row[j] = normal.value(j, normal.mean[j] + normal.scale[j] * (mean[a] + own));
                    }
                    row
                };
                let rows = (0..*draws).map(|_| draw(random)).collect();
                Mixtures { rows, weights: vec![1.0 / *draws as f64; *draws], drawn: true, error: 0.0 }
            }
        }
    }
}

/// A normal distribution of the columns, or of their normal scores.
struct Normal {
    mean: Vec<f64>,
    /// Standard deviations; 1 for constant columns.
    scale: Vec<f64>,
    /// Correlations; 0 for constant columns.
    correlation: Matrix,
    /// For each column its sorted values and their scores; empty without scores.
    scores: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Normal {
    fn new(reference: &Reference, columns: &[Column], with_scores: bool) -> Result<Self> {
        let (n, d) = (reference.rows.len(), columns.len());
        if n < 2 {
            return Err(Error::TooFew { what: "the reference".into(), needed: 2, unit: "rows are" });
        }
        if let Some(column) = columns.iter().find(|c| c.kind != ColumnKind::Numeric) {
            let expected = "numbers, which a normal distribution needs: use the kernel instead,";
            return Err(Error::WrongKind { column: column.name.clone(), found: "categories", expected });
        }
        let mut scores = Vec::new();
        let mut rows = reference.rows.clone();
        if with_scores {
            for j in 0..d {
                let table = score_table(reference, j);
                rows.iter_mut().for_each(|row| row[j] = interpolate(&table.0, &table.1, row[j]));
                scores.push(table);
            }
        }
        let weights = &reference.weights;
        let mean: Vec<f64> =
            (0..d).map(|j| rows.iter().zip(weights).map(|(row, w)| w * row[j]).sum()).collect();
        // The unbiased covariance for weights that say how reliable a row is.
        let correction = 1.0 / (1.0 - weights.iter().map(|w| w * w).sum::<f64>());
        let mut covariance = Matrix::zeros(d, d);
        for (row, w) in rows.iter().zip(weights) {
            for i in 0..d {
                for j in 0..d {
                    covariance[(i, j)] += correction * w * (row[i] - mean[i]) * (row[j] - mean[j]);
                }
            }
        }
        // In units of its own: what is added to a diagonal is little for every column.
        let of = |i: usize| covariance[(i, i)].sqrt();
        let scale: Vec<f64> = (0..d).map(|i| if of(i) > 0.0 { of(i) } else { 1.0 }).collect();
        for i in 0..d {
            for j in 0..d {
                covariance[(i, j)] /= scale[i] * scale[j];
            }
        }
        Ok(Self { mean, scale, correlation: covariance, scores })
    }

    /// From the known columns to the others, in standard units: the matrix of the conditional mean, and the factor of the conditional
    /// covariance.
    fn given(&self, known: &[usize], absent: &[usize]) -> Result<(Matrix, Matrix)> {
        let block = |a: &[usize], b: &[usize]| {
            let numbers =
                a.iter().flat_map(|&i| b.iter().map(move |&j| (i, j))).map(|at| self.correlation[at]);
            Matrix::from_row_major(a.len(), b.len(), numbers.collect())
        };
        // Constant columns, and columns that others determine, leave a singular matrix: a little is added to its diagonal.
        let regular = |mut m: Matrix| {
            m.add_diagonal(|_| 1e-10);
            m
        };
        let cross = block(known, absent);
        let slope = if known.is_empty() {
            Matrix::zeros(absent.len(), 0)
        } else {
            Cholesky::new(regular(block(known, known)), "covariance of the present columns")?
                .solve(cross.clone())
                .transpose()
        };
        let mut rest = block(absent, absent);
        let explained = slope.matmul(&cross);
        rest.data_mut().iter_mut().zip(explained.data()).for_each(|(r, e)| *r -= e);
        let lower = Cholesky::new(regular(rest), "covariance of the absent columns")?.lower().clone();
        Ok((slope, lower))
    }

    fn score(&self, column: usize, value: f64) -> f64 {
        self.scores.get(column).map_or(value, |(values, scores)| interpolate(values, scores, value))
    }

    fn value(&self, column: usize, score: f64) -> f64 {
        self.scores.get(column).map_or(score, |(values, scores)| interpolate(scores, values, score))
    }
}

/// A column's distinct values in order, and the normal score of each: that of the middle of the weight it holds.
fn score_table(reference: &Reference, j: usize) -> (Vec<f64>, Vec<f64>) {
    let mut order: Vec<usize> = (0..reference.rows.len()).collect();
    order.sort_by(|&a, &b| reference.rows[a][j].total_cmp(&reference.rows[b][j]));
    let (mut values, mut scores): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut below = 0.0;
    for group in order.chunk_by(|&a, &b| reference.rows[a][j] == reference.rows[b][j]) {
        let own: f64 = group.iter().map(|&b| reference.weights[b]).sum();
        values.push(reference.rows[group[0]][j]);
        scores.push(normal_quantile((below + own / 2.0).clamp(1e-12, 1.0 - 1e-12)));
        below += own;
    }
    (values, scores)
}

/// The value at `x` of the line through ascending points, and beyond them that of the last one.
fn interpolate(from: &[f64], to: &[f64], x: f64) -> f64 {
    let at = from.partition_point(|v| *v < x);
    if at == 0 {
        return to[0];
    }
    if at == from.len() {
        return to[at - 1];
    }
    let share = (x - from[at - 1]) / (from[at] - from[at - 1]);
    to[at - 1] + share * (to[at] - to[at - 1])
}

/// The standard normal quantile, by Newton's method on the distribution function, which is a series.
fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    // A start from Abramowitz and Stegun 26.2.23, good to 5e-4.
    let t = (-2.0 * p.ln()).sqrt();
    let mut x = -(t
        - (2.515517 + 0.802853 * t + 0.010328 * t * t)
            / (1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t));
    for _ in 0..4 {
        let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        x -= (normal_distribution(x, density) - p) / density;
    }
    x
}

/// P(X ≤ x) for x ≤ 0 of a standard normal X: its continued fraction in the tail, its series near 0.
fn normal_distribution(x: f64, density: f64) -> f64 {
    let y = -x;
    if y > 3.0 {
        // Mills' ratio (Laplace).
        let ratio = (1..=60).rev().fold(y, |r, k| y + f64::from(k) / r);
        return density / ratio;
    }
    let (mut term, mut sum) = (y, y);
    for k in 1..100 {
        term *= y * y / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // scipy.stats.norm.ppf
        for (p, x) in [
            (0.5, 0.0),
            (0.025, -1.959963984540054),
            (0.9, 1.2815515655446004),
            (1e-4, -3.719016485455709),
            (1e-9, -5.9978070150076865),
            (0.3, -0.5244005127080409),
        ] {
            assert!((normal_quantile(p) - x).abs() < 1e-10, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn lines_are_followed_and_ends_kept() {
        let (from, to) = ([1.0, 2.0, 4.0], [10.0, 20.0, 0.0]);
        for (x, y) in [(0.0, 10.0), (1.0, 10.0), (1.5, 15.0), (3.0, 10.0), (9.0, 0.0)] {
            assert_eq!(interpolate(&from, &to, x), y);
        }
    }
}
