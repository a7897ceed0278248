//! The answer to a question about a model: values, what they add up to, how exact they are, and where
//! they come from. Everything that people see (tables, plots, pages) is made from an [`Explanation`].

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::table::{Player, Table};

/// How far the values can be from the game's true Shapley values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exactness {
    /// Exact up to rounding.
    Exact {
        /// `prediction - base_value - sum of values`, per row and output (rows × outputs). The prediction
        /// is computed on another path than the values.
        residual: Vec<f64>,
        /// A proved bound on the error of each value and on the residual: quadrature and rounding
        /// (rows × outputs). It takes kernel factors to be evaluated within a few units of rounding; a periodic
        /// factor over thousands of periods, and a polynomial of several columns within one player that cancels,
        /// can miss that.
        bound: Vec<f64>,
    },
    /// Estimated from samples.
    Estimated {
        /// Standard error of each value, in the layout of [`Explanation::values`].
        std_error: Vec<f64>,
        /// Number of evaluations of the game.
        evaluations: usize,
        /// Seed of the sampler.
        seed: u64,
    },
    /// Nothing is known: the values come from a file that does not say.
    Unstated,
}

/// One fact for people: a name and its value, for model cards and provenance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// Its value, in words or digits.
    pub value: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: impl Into<String>, value: impl ToString) -> Self {
        Self { name: name.into(), value: value.to_string() }
    }

    /// A measured number, to seven significant digits.
    pub fn measured(name: impl Into<String>, value: f64) -> Self {
        let size = value.abs();
        let text = if size == 0.0 || (1e-4..1e7).contains(&size) {
            let decimals = (6 - size.max(1e-4).log10().floor() as i32).max(0) as usize;
            let text = format!("{value:.decimals$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
        } else {
            let text = format!("{value:.6e}");
            match text.split_once('e') {
                Some((digits, power)) => {
                    format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
                }
                None => text,
            }
        };
        Self::new(name, text)
    }
}

/// Where an explanation comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Provenance {
    /// The game's name, for example `interventional`.
    pub game: String,
    /// What an absent feature means in this game, in a sentence.
    pub absent: String,
    /// The model card: kind, kernel, number of support points, how it was fitted.
    pub model: Vec<Fact>,
    /// Inputs (files, background), seed, version.
    pub run: Vec<Fact>,
}

/// Shapley values of `n` rows, `m` outputs and `p` players.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The players, in the order of the values.
    pub players: Vec<Player>,
    /// Names of the model's outputs.
    pub output_names: Vec<String>,
    /// Values, rows × outputs × players: player `j` of output `o` in row `i` is `values[(i * m + o) * p + j]`.
    pub values: Vec<f64>,
    /// The game's value with all players absent, rows × outputs.
    pub base_values: Vec<f64>,
    /// The model's prediction, rows × outputs.
    pub predictions: Vec<f64>,
    /// The explained rows in the user's units.
    pub data: Table,
    /// The number of each explained row in its source, from 0.
    pub row_numbers: Vec<usize>,
    /// Exact or estimated, and how far off.
    pub exactness: Exactness,
    /// Model card and run.
    pub provenance: Provenance,
}

impl Explanation {
    /// Number of explained rows.
    pub fn rows(&self) -> usize {
        self.data.rows()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.output_names.len()
    }

    /// The values of row `i`, output `o`, one a player.
    pub fn row_values(&self, i: usize, o: usize) -> &[f64] {
        let p = self.players.len();
        let start = (i * self.outputs() + o) * p;
        &self.values[start..start + p]
    }

    /// Mean of |value| over rows, one a player: the usual measure of global importance. Zeros if there are no rows.
    pub fn mean_abs(&self, output: usize) -> Vec<f64> {
        let mut mean = vec![0.0; self.players.len()];
        for i in 0..self.rows() {
            for (m, v) in mean.iter_mut().zip(self.row_values(i, output)) {
                *m += v.abs() / self.rows() as f64;
            }
        }
        mean
    }

    /// Players from the most to the least important by [`mean_abs`](Self::mean_abs); ties keep their order.
    pub fn ranking(&self, output: usize) -> Vec<usize> {
        let mean = self.mean_abs(output);
        let mut order: Vec<usize> = (0..mean.len()).collect();
        order.sort_by(|&a, &b| mean[b].total_cmp(&mean[a]));
        order
    }

    /// `prediction - base_value - sum of values`, per row and output (rows × outputs), recomputed.
    pub fn residuals(&self) -> Vec<f64> {
        let m = self.outputs();
        (0..self.rows() * m)
            .map(|k| {
                self.predictions[k] - self.base_values[k] - self.row_values(k / m, k % m).iter().sum::<f64>()
            })
            .collect()
    }

    /// The largest |residual|, the largest bound, and whether every residual is within its own bound.
    /// `None` if the values are not known to be exact.
    pub fn certificate(&self) -> Option<Certificate> {
        let Exactness::Exact { residual, bound } = &self.exactness else { return None };
        Some(Certificate {
            residual: residual.iter().fold(0.0, |m, r| r.abs().max(m)),
            bound: bound.iter().fold(0.0, |m, &b| b.max(m)),
            // Written so that NaN fails.
            holds: residual.iter().zip(bound).all(|(r, b)| r.abs() <= *b),
        })
    }

    /// Appends the rows of `other`, an explanation of further rows by the same explainer.
    ///
    /// # Errors
    /// [`Error::Format`] if the two do not belong together.
    pub fn append(&mut self, other: Self) -> Result<()> {
        let same = self.players == other.players
            && self.output_names == other.output_names
            && self.provenance.game == other.provenance.game
            && self.data.columns() == other.data.columns();
        match (&mut self.exactness, other.exactness) {
            (Exactness::Exact { residual, bound }, Exactness::Exact { residual: r, bound: b }) if same => {
                residual.extend(r);
                bound.extend(b);
            }
            (
                Exactness::Estimated { std_error, evaluations, seed },
                Exactness::Estimated { std_error: errors, evaluations: more, seed: same_seed },
            ) if same && *seed == same_seed => {
                std_error.extend(errors);
                *evaluations += more;
            }
            _ => {
                return Err(Error::Format {
                    problem:
                        "only explanations by the same explainer, exact or estimated alike, can be joined"
                            .into(),
                });
            }
        }
        self.data = self.data.stack(&other.data)?;
        self.row_numbers.extend(other.row_numbers);
        self.values.extend(other.values);
        self.base_values.extend(other.base_values);
        self.predictions.extend(other.predictions);
        Ok(())
    }

    /// Sets the outputs of `other`, an explanation of the same rows to the same players by the same game, beside these:
    /// two models, one table. The facts about its model follow these.
    ///
    /// # Errors
    /// [`Error::Format`] if the two do not belong together.
    pub fn beside(&mut self, other: Self) -> Result<()> {
        let same = self.players == other.players
            && self.provenance.game == other.provenance.game
            && self.row_numbers == other.row_numbers
            && self.data == other.data;
        let (m, k, p) = (self.outputs(), other.outputs(), self.players.len());
        match (&mut self.exactness, other.exactness) {
            (Exactness::Exact { residual, bound }, Exactness::Exact { residual: r, bound: b }) if same => {
                *residual = weave(residual, m, &r, k);
                *bound = weave(bound, m, &b, k);
            }
            _ => {
                return Err(Error::Format {
                    problem:
                        "only exact explanations of the same rows, players and game can stand side by side"
                            .into(),
                });
            }
        }
        self.values = weave(&self.values, m * p, &other.values, k * p);
        self.base_values = weave(&self.base_values, m, &other.base_values, k);
        self.predictions = weave(&self.predictions, m, &other.predictions, k);
        self.output_names.extend(other.output_names);
        self.provenance.model.extend(other.provenance.model);
        Ok(())
    }

    /// The rows with the given indices, in that order.
    pub fn select_rows(&self, indices: &[usize]) -> Self {
        let (m, p) = (self.outputs(), self.players.len());
        let pick = |list: &[f64], width: usize| -> Vec<f64> {
            indices.iter().flat_map(|&i| &list[i * width..(i + 1) * width]).copied().collect()
        };
        Self {
            players: self.players.clone(),
            output_names: self.output_names.clone(),
            values: pick(&self.values, m * p),
            base_values: pick(&self.base_values, m),
            predictions: pick(&self.predictions, m),
            data: self.data.select_rows(indices),
            row_numbers: indices.iter().map(|&i| self.row_numbers[i]).collect(),
            exactness: match &self.exactness {
                Exactness::Exact { residual, bound } => {
                    Exactness::Exact { residual: pick(residual, m), bound: pick(bound, m) }
                }
                Exactness::Estimated { std_error, evaluations, seed } => Exactness::Estimated {
                    std_error: pick(std_error, m * p),
                    evaluations: *evaluations,
                    seed: *seed,
                },
                Exactness::Unstated => Exactness::Unstated,
            },
            provenance: self.provenance.clone(),
        }
    }

    /// Checks that all parts have the sizes that belong together.
    ///
    /// # Errors
    /// [`Error::Shape`].
    pub fn validate(&self) -> Result<()> {
        let (n, m, p) = (self.rows(), self.outputs(), self.players.len());
        let check = |what: &str, found: usize, expected: usize| {
            if found == expected {
                return Ok(());
            }
            Err(Error::Shape {
                what: format!("the explanation's {what}"),
                unit: "numbers",
                expected,
                found,
                why: format!("{n} rows, {m} outputs, {p} players"),
            })
        };
        // A file may claim any number of rows.
        check("values", self.values.len(), n.saturating_mul(m).saturating_mul(p))?;
        check("row numbers", self.row_numbers.len(), n)?;
        check("base values", self.base_values.len(), n * m)?;
        check("predictions", self.predictions.len(), n * m)?;
        match &self.exactness {
            Exactness::Exact { residual, bound } => {
                check("residuals", residual.len(), n * m)?;
                check("bounds", bound.len(), n * m)
            }
            Exactness::Estimated { std_error, .. } => check("standard errors", std_error.len(), n * m * p),
            Exactness::Unstated => Ok(()),
        }?;
        for player in &self.players {
            if player.columns.iter().any(|&j| j >= self.data.width()) {
                return Err(Error::Format {
                    problem: format!("player '{}' names a column that the data lack", player.name),
                });
            }
        }
        Ok(())
    }
}

/// By turns `m` numbers of `a` and `k` of `b`.
fn weave(a: &[f64], m: usize, b: &[f64], k: usize) -> Vec<f64> {
    a.chunks(m.max(1)).zip(b.chunks(k.max(1))).flat_map(|(a, b)| a.iter().chain(b)).copied().collect()
}

/// What can be said of an exact explanation as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Certificate {
    /// The largest |residual|.
    pub residual: f64,
    /// The largest proved bound.
    pub bound: f64,
    /// Whether every residual is within its bound.
    pub holds: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_numbers_are_short() {
        let text = |v: f64| Fact::measured("", v).value;
        let cases = [
            (0.0, "0"),
            (0.177_827_941, "0.1778279"),
            (-2_405.738_241, "-2405.738"),
            (77.0, "77"),
            (1e-9, "1e-9"),
            (123_456_789.0, "1.234568e8"),
            (100.0, "100"),
            (0.000_123_456_789, "0.0001234568"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected);
        }
    }
}
