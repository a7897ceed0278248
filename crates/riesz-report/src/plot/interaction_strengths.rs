//! The values of single features, pairs and larger sets, shared by the plots of interactions.

use std::collections::HashMap;

use super::*;

/// Maximum number of sets of three or more features that the caption names.
const NAMED: usize = 3;

/// Maximum width of a name in a sentence, in pixels.
const NAME: f64 = 330.0;

/// The strengths of sets of players. For an explanation with a single row these are its values with their
/// signs, otherwise means of |value| over rows.
pub(super) struct InteractionStrengths {
    /// Whether the strengths are the signed values of one row.
    pub(super) signed: bool,
    /// The value of each player alone.
    pub(super) single_values: Vec<f64>,
    /// The number of each player's own set, by which pages identify the player.
    pub(super) single_sets: Vec<usize>,
    /// Pairs and their strengths, the strongest first; ties keep their order.
    pub(super) pairs: Vec<([usize; 2], f64)>,
    /// Players by the total strength of the sets that contain them, the largest first.
    ranking: Vec<usize>,
    /// Sets of three or more and their strengths, the strongest first.
    larger_sets: Vec<(usize, f64)>,
    order: usize,
}

impl InteractionStrengths {
    /// The strengths for one output of a complete explanation, see [`check`].
    pub(super) fn new(e: &Explanation, output: usize) -> Self {
        let signed = e.rows() == 1;
        let strength = if signed { e.row_values(0, output).to_vec() } else { e.mean_abs(output) };
        let p = e.players.len();
        let (mut single_values, mut single_sets, mut total_strengths) =
            (vec![0.0; p], vec![0; p], vec![0.0; p]);
        let (mut pairs, mut larger_sets) = (Vec::new(), Vec::new());
        for (k, (set, &value)) in e.subsets.iter().flatten().zip(&strength).enumerate() {
            set.iter().for_each(|&j| total_strengths[j] += value.abs());
            match set[..] {
                [j] => (single_values[j], single_sets[j]) = (value, k),
                [a, b] => pairs.push(([a, b], value)),
                _ => larger_sets.push((k, value)),
            }
        }
        let mut ranking: Vec<usize> = (0..p).collect();
        ranking.sort_by(|&a, &b| total_strengths[b].total_cmp(&total_strengths[a]));
        pairs.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        larger_sets.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        Self { signed, single_values, single_sets, pairs, ranking, larger_sets, order: e.index.order() }
    }

    /// The `limit` players with the largest total strength, in the order of the explanation.
    pub(super) fn players(&self, limit: usize) -> Vec<usize> {
        let mut players: Vec<usize> = self.ranking.iter().take(limit.max(1)).copied().collect();
        players.sort_unstable();
        players
    }

    /// The symmetric matrix of the pairs of some players, with their single values on the diagonal.
    pub(super) fn matrix(&self, players: &[usize]) -> Vec<Vec<f64>> {
        let position_of: HashMap<usize, usize> = players.iter().enumerate().map(|(k, &j)| (j, k)).collect();
        let mut matrix = vec![vec![0.0; players.len()]; players.len()];
        for (k, &j) in players.iter().enumerate() {
            matrix[k][k] = self.single_values[j];
        }
        for ([a, b], value) in &self.pairs {
            if let (Some(&a), Some(&b)) = (position_of.get(a), position_of.get(b)) {
                (matrix[a][b], matrix[b][a]) = (*value, *value);
            }
        }
        matrix
    }

    /// The colour of a value: the colour of its sign, or one colour for all unsigned strengths.
    pub(super) fn paint(&self, value: f64) -> Paint {
        if self.signed { Paint::for_sign(value) } else { Paint::Down }
    }

    /// Writes a value, with its sign if the strengths are signed.
    pub(super) fn write(&self, value: f64) -> String {
        if self.signed { format::signed(value) } else { format::number(value) }
    }

    /// The name of the quantity: "mean |Shapley interaction value|".
    pub(super) fn quantity(&self, e: &Explanation, output: usize) -> String {
        if !self.signed {
            return format!("mean |{}|", value_name(e, output));
        }
        let suffix = if e.outputs() > 1 { format!(" for {}", e.output_names[output]) } else { String::new() };
        format!("{}{suffix} of {}", e.index.names(), e.row_name(0))
    }

    /// A sentence about the strongest sets of three or more; `None` if the index has none.
    pub(super) fn larger_sentence(&self, e: &Explanation) -> Option<String> {
        let (named, further) = self.larger_sets.split_at(self.larger_sets.len().min(NAMED));
        if named.is_empty() {
            return None;
        }
        let size = if self.order == 3 { "three" } else { "three or more" };
        let mut list: Vec<String> =
            named.iter().map(|&(k, v)| format!("{} {}", brief(&e.set_name(k)), self.write(v))).collect();
        if !further.is_empty() {
            list.push(format!("and {} more", further.len()));
        }
        Some(format!("Sets of {size} features: {}.", list.join(", ")))
    }

    /// A sentence about the strongest pairs; empty if there are none.
    pub(super) fn strongest(&self, e: &Explanation) -> String {
        let list: Vec<String> = self.pairs.iter().take(3).map(|(pair, v)| self.pair(e, *pair, *v)).collect();
        if list.is_empty() { String::new() } else { format!(" Strongest pairs: {}.", list.join(", ")) }
    }

    /// A pair with its value: "bmi × s5 +1.2".
    pub(super) fn pair(&self, e: &Explanation, [a, b]: [usize; 2], value: f64) -> String {
        let name = format!("{} × {}", e.players[a].name, e.players[b].name);
        format!("{} {}", brief(&name), self.write(value))
    }

    /// A sentence about the players that are not drawn; `None` if all are.
    pub(super) fn omitted_sentence(&self, drawn: usize) -> Option<String> {
        match self.single_values.len() - drawn {
            0 => None,
            1 => Some("Not drawn: the feature with the smallest total |value|.".into()),
            count => Some(format!("Not drawn: the {count} features with the smallest total |value|.")),
        }
    }
}

/// A name, shortened for a sentence.
pub(super) fn brief(name: &str) -> String {
    format::shorten(name, FONT, NAME)
}

/// Draws sentences below a picture, broken into lines between words, and returns the y below them.
pub(super) fn notes(canvas: &mut Canvas, (left, top): (f64, f64), sentences: &[String], room: f64) -> f64 {
    let mut y = top;
    for sentence in sentences {
        let mut line = String::new();
        for word in sentence.split(' ').map(Some).chain([None]) {
            let extended = word.map(|w| if line.is_empty() { w.into() } else { format!("{line} {w}") });
            match extended {
                Some(extended) if line.is_empty() || format::text_width(&extended, FONT) <= room => {
                    line = extended
                }
                _ => {
                    canvas.text((left, y), &line, Anchor::Start, Paint::Muted, room);
                    y += 16.0;
                    line = word.unwrap_or("").into();
                }
            }
        }
        y += 4.0;
    }
    y
}
