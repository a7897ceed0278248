//! Ranks as text, as a table, and as notes.

use riesz::preference::{ELO_MEAN, Rankability};

use crate::args::Format;
use crate::console::{Console, printable};
use crate::exit::Result;
use crate::io::output::write_all;
use crate::io::write::{Cells, TableWriter, text_table};

/// The ranks of items, for all duels or for each user.
pub struct Ranking {
    /// The names of the items.
    pub names: Vec<String>,
    /// The user, if ranks are those of a user, and the ranks.
    pub parts: Vec<(Option<String>, Rankability)>,
}

/// A number of each item.
type Read<T> = dyn Fn(&Rankability, usize) -> T;

impl Ranking {
    /// The items of each part, best first.
    fn lines(&self) -> Vec<(&Option<String>, &Rankability, usize)> {
        let lines_of = |(_, ranks): &(Option<String>, Rankability)| {
            let mut order: Vec<usize> = (0..self.names.len()).collect();
            order.sort_by_key(|&i| ranks.rank[i]);
            order
        };
        let parts = self.parts.iter().map(|part| (part, lines_of(part)));
        parts.flat_map(|(part, order)| order.into_iter().map(move |i| (&part.0, &part.1, i))).collect()
    }

    /// The columns that begin both forms: users, if there are any, and items.
    fn name_columns(&self) -> Vec<(&'static str, Cells)> {
        let lines = self.lines();
        let user = |line: &(&Option<String>, _, _)| line.0.as_deref().unwrap_or_default().to_string();
        let has_users = self.parts.iter().any(|(user, _)| user.is_some());
        let users = has_users.then(|| ("user", Cells::Texts(lines.iter().map(user).collect())));
        let items = lines.iter().map(|&(_, _, i)| self.names[i].clone()).collect();
        users.into_iter().chain([("item", Cells::Texts(items))]).collect()
    }

    fn numbers(&self, read: &Read<f64>) -> Cells {
        Cells::Numbers(self.lines().iter().map(|&(_, ranks, i)| read(ranks, i)).collect())
    }

    fn integers(&self, read: &Read<usize>) -> Cells {
        Cells::Integers(self.lines().iter().map(|&(_, ranks, i)| read(ranks, i) as i64).collect())
    }

    fn texts(&self, read: &Read<String>) -> Cells {
        Cells::Texts(self.lines().iter().map(|&(_, ranks, i)| read(ranks, i)).collect())
    }

    /// Writes the ranks as text or as a table.
    pub fn write(&self, path: Option<&std::path::Path>, format: Format) -> Result<()> {
        if format == Format::Text {
            return write_all(path, self.text().as_bytes());
        }
        let mut columns = self.name_columns();
        let elo = |read: fn(&riesz::preference::EloRating) -> f64| {
            self.numbers(&move |ranks, i| read(&ranks.elo(ELO_MEAN)[i]))
        };
        columns.extend([
            ("rank", self.integers(&|ranks, i| ranks.rank[i])),
            ("rank_low", self.integers(&|ranks, i| ranks.rank_interval[i].0)),
            ("rank_high", self.integers(&|ranks, i| ranks.rank_interval[i].1)),
            ("utility", self.numbers(&|ranks, i| ranks.utility[i])),
            ("utility_low", self.numbers(&|ranks, i| ranks.utility_interval[i].0)),
            ("utility_high", self.numbers(&|ranks, i| ranks.utility_interval[i].1)),
            ("elo", elo(|rating| rating.rating)),
            ("elo_low", elo(|rating| rating.low)),
            ("elo_high", elo(|rating| rating.high)),
            ("probability_best", self.numbers(&|ranks, i| ranks.best[i])),
            ("probability_best_std_error", self.numbers(&|ranks, i| ranks.best_std_error()[i])),
            ("probability_condorcet", self.numbers(&|ranks, i| ranks.condorcet[i])),
            ("probability_condorcet_std_error", self.numbers(&|ranks, i| ranks.condorcet_std_error()[i])),
        ]);
        TableWriter::write_columns(path, format, columns)
    }

    /// A short table, and what its columns are.
    fn text(&self) -> String {
        let rank = |ranks: &Rankability, i: usize| {
            let (low, high) = ranks.rank_interval[i];
            format!("{low} to {high}")
        };
        let interval = |ranks: &Rankability, i: usize| {
            let (low, high) = ranks.utility_interval[i];
            format!("{:6.2} to {:5.2}", rounded(low), rounded(high))
        };
        let mut columns = self.name_columns();
        let item = columns.len() - 1;
        columns.splice(
            item..item,
            [("rank", self.integers(&|ranks, i| ranks.rank[i])), ("95 % interval", self.texts(&rank))],
        );
        columns.extend([
            ("utility", self.texts(&|ranks, i| format!("{:7.2}", rounded(ranks.utility[i])))),
            ("95 % interval", self.texts(&interval)),
            ("best", self.texts(&|ranks, i| format!("{:.3}", ranks.best[i]))),
        ]);
        let draws = self.parts.first().map_or(1, |(_, ranks)| ranks.draws);
        format!(
            "{}\nutility: mean log odds against the other items; best: probability of being the best, from \
             {draws} samples (standard error at most {})\n",
            text_table(&columns),
            riesz_report::number(largest_std_error(draws))
        )
    }

    /// Prints the cycles, and the precision of the probabilities.
    pub fn notes(&self, console: &Console) {
        for (_, ranks) in &self.parts {
            for circle in &ranks.triangles {
                let [a, b, c] = circle.items.map(|i| printable(&self.names[i]));
                console.note(format!(
                    "cycle: {a} beats {b} beats {c} beats {a} (probability {:.2}, from {} samples)",
                    circle.probability, ranks.cycle_draws
                ));
            }
        }
    }
}

/// A number with two decimals, and without the sign of a zero.
fn rounded(x: f64) -> f64 {
    (100.0 * x).round() / 100.0 + 0.0
}

/// The largest standard error of a probability that is estimated from this number of draws.
fn largest_std_error(draws: usize) -> f64 {
    0.5 / (draws as f64).sqrt()
}
