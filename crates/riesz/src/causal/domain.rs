//! The domain of treatments that may be tried next.

use crate::error::{Error, Result, listed};
use crate::linalg::min_max;
use crate::random::{Random, RngExt, SeedableRng};
use crate::table::{Column, ColumnKind, Table};

/// Number of grid points of a single treatment.
const GRID: usize = 201;
/// Number of points for several treatments; each combination of levels has at least `MIN_POINTS`.
const POINTS: usize = 512;
const MIN_POINTS: usize = 32;
/// Maximum number of combinations of levels.
const COMBINATIONS: usize = 1024;
/// Step, as a share of a treatment's range, at which the local search ends.
const MIN_STEP: f64 = 1e-3;

/// Treatments that may be tried.
#[derive(Debug, Clone)]
pub enum Domain {
    /// These rows.
    Rows(Table),
    /// All levels of categorical treatments, and numbers between these bounds, with one pair for each numeric
    /// treatment in its order. A single number is searched on a grid of 201 points. Several are searched on a
    /// Kronecker sequence (Roberts 2018) of at least 512 points, shifted by the seed, and then by compass
    /// search (Kolda, Lewis and Torczon 2003) from the best of these.
    Between(Vec<(f64, f64)>),
}

impl Domain {
    /// Returns the domain with all levels of categorical treatments, and with the given bounds of the named
    /// treatments. Other numeric treatments range from the smallest to the largest number in the study.
    ///
    /// # Errors
    /// [`Error::Parameter`] for bounds of a column that is not a treatment, or that is categorical.
    pub fn from_bounds(studied: &Table, bounds: &[(String, (f64, f64))]) -> Result<Self> {
        let columns = studied.columns();
        for (name, (low, high)) in bounds {
            let allowed =
                match columns.iter().find(|column| column.name == *name).map(|treatment| &treatment.kind) {
                    Some(ColumnKind::Numeric) => continue,
                    Some(_) => {
                        "it is categorical, and all its levels are tried; give candidates for fewer".into()
                    }
                    None => {
                        format!("the treatments are {}", listed(columns.iter().map(|column| &column.name)))
                    }
                };
            return Err(Error::parameter(format!("bounds of {name}"), format!("({low}, {high})"), allowed));
        }
        let bounds_of = |j: usize| {
            let given_bounds = bounds.iter().find(|(name, _)| *name == columns[j].name);
            given_bounds.map_or_else(|| min_max(studied.column(j)), |(_, bounds)| *bounds)
        };
        Ok(Self::Between(numeric(columns).into_iter().map(bounds_of).collect()))
    }

    /// Returns the initial rows of the domain, with these columns.
    ///
    /// # Errors
    /// [`Error::TooFew`], [`Error::Shape`], [`Error::Parameter`] for invalid bounds or too many levels;
    /// errors of [`Table::align_to`].
    pub fn rows(&self, columns: &[Column], seed: u64) -> Result<Table> {
        let bounds = match self {
            Self::Rows(rows) if rows.rows() == 0 => {
                return Err(Error::too_few("candidates", 1, "row is"));
            }
            Self::Rows(rows) => return rows.align_to(columns),
            Self::Between(bounds) => bounds,
        };
        let numeric = numeric(columns);
        crate::error::sized(
            "bounds",
            "pairs",
            numeric.len(),
            bounds.len(),
            "one for each treatment that is a number",
        )?;
        for (&j, &(low, high)) in numeric.iter().zip(bounds) {
            if !(low.is_finite() && high.is_finite() && low < high) {
                let allowed = "they are two numbers, the lower one first";
                let parameter = format!("bounds of {}", columns[j].name);
                return Err(Error::parameter(parameter, format!("({low}, {high})"), allowed));
            }
        }
        let mut combinations = vec![vec![0.0; columns.len()]];
        for (j, column) in columns.iter().enumerate() {
            let ColumnKind::Categorical { levels } = &column.kind else { continue };
            if combinations.len() * levels.len() > COMBINATIONS {
                let allowed =
                    format!("treatments have more than {COMBINATIONS} combinations of levels: say which");
                return Err(Error::parameter("candidates", "all", allowed));
            }
            let with_level = |row: &Vec<f64>, level: usize| {
                let mut row = row.clone();
                row[j] = level as f64;
                row
            };
            combinations =
                combinations.iter().flat_map(|row| (0..levels.len()).map(|k| with_level(row, k))).collect();
        }
        let points_per_combination = match numeric.len() {
            0 => 1,
            1 => GRID,
            _ => (POINTS / combinations.len()).max(MIN_POINTS),
        };
        let steps = steps(numeric.len());
        let mut random = Random::seed_from_u64(seed);
        let shifts: Vec<f64> = numeric.iter().map(|_| random.random()).collect();
        let mut rows = Vec::with_capacity(points_per_combination * combinations.len());
        for (c, combination) in combinations.iter().enumerate() {
            for i in 0..points_per_combination {
                let mut row = combination.clone();
                for (d, (&j, &(low, high))) in numeric.iter().zip(bounds).enumerate() {
                    let share = match numeric.len() {
                        1 => i as f64 / (GRID - 1) as f64,
                        _ => (shifts[d] + (c * points_per_combination + i + 1) as f64 * steps[d]).fract(),
                    };
                    row[j] = low + share * (high - low);
                }
                rows.push(row);
            }
        }
        Table::from_named_rows(columns.to_vec(), &rows)
    }

    /// Whether the initial rows are only starts of a local search: several numbers between bounds.
    pub(super) fn needs_local_search(&self) -> bool {
        matches!(self, Self::Between(bounds) if bounds.len() > 1)
    }

    /// Maximises `values` by a compass search from a row. Returns the final row and its value; the start if
    /// the domain needs no local search.
    pub(super) fn compass_search(
        &self,
        columns: &[Column],
        start: (Vec<f64>, f64),
        values: impl Fn(&Table) -> Result<Vec<f64>>,
    ) -> Result<(Vec<f64>, f64)> {
        let (mut row, mut best) = start;
        let Self::Between(bounds) = self else { return Ok((row, best)) };
        if !self.needs_local_search() {
            return Ok((row, best));
        }
        let mut step = 1.0 / (POINTS as f64).powf(1.0 / bounds.len() as f64);
        while step > MIN_STEP {
            let mut neighbours = Vec::new();
            for (&j, &(low, high)) in numeric(columns).iter().zip(bounds) {
                for sign in [-1.0, 1.0] {
                    let mut next = row.clone();
                    next[j] = (row[j] + sign * step * (high - low)).clamp(low, high);
                    neighbours.push(next);
                }
            }
            let objective = values(&Table::from_named_rows(columns.to_vec(), &neighbours)?)?;
            let best_index =
                (0..objective.len()).reduce(|a, b| if objective[b] > objective[a] { b } else { a });
            match best_index.filter(|&index| objective[index] > best) {
                Some(index) => (row, best) = (neighbours.swap_remove(index), objective[index]),
                None => step *= 0.5,
            }
        }
        Ok((row, best))
    }
}

fn numeric(columns: &[Column]) -> Vec<usize> {
    (0..columns.len()).filter(|&j| columns[j].kind == ColumnKind::Numeric).collect()
}

/// Returns the powers 1 to d of 1/φ, where φ > 1 solves `xᵈ⁺¹ = x + 1` (the golden ratio for d = 1).
fn steps(d: usize) -> Vec<f64> {
    let root = (0..64).fold(2.0_f64, |x, _| (1.0 + x).powf(1.0 / (d + 1) as f64));
    (1..=d).map(|k| root.powi(-(k as i32))).collect()
}
