//! Means of explained rows. Values are linear in the model's output, so the mean of the rows' values explains
//! the mean of their outputs. Examples are one item against many, a set of matches, or two bags whose log
//! odds are the mean of their members' log odds.

use std::collections::BTreeSet;

use super::{Duel, Explanation};
use crate::error::{Error, Result};
use crate::linalg::Sparse;
use crate::model_card::CardEntry;
use crate::table::{Column, ColumnKind, Table};

/// Level of a categorical column in a mean over rows with different levels.
const MIXED_LEVEL: &str = "(various)";

impl Explanation {
    /// Weighted means of rows, one for each column of `weights` (rows × means). They explain the same
    /// weighted means of the predictions. Weights need not sum to 1.
    ///
    /// A duel with swapped items has the same values with opposite signs, so a mean over both orders is 0.
    /// Choose the item on the left in each duel, for example the winner.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `weights` has one row per explained row; [`Error::Parameter`] if a mean has no
    /// rows, or weights that are negative or all 0.
    ///
    /// # Example
    /// ```
    /// # use riesz::{Exactness, Explanation, Players, Table, linalg::Sparse};
    /// # let data = Table::from_rows(&[[1.0, 2.0], [3.0, 8.0]])?;
    /// # let players = Players::singletons(data.columns()).players().to_vec();
    /// # let explanation = Explanation {
    /// #     index: Default::default(), players, subsets: None, output_names: vec!["y".into()], values: vec![1.0, 2.0, 3.0, 6.0],
    /// #     base_values: vec![0.0; 2], predictions: vec![3.0, 9.0], data, row_numbers: vec![0, 1], exactness: Exactness::Unknown,
    /// #     uncertainty: None, duels: None, provenance: Default::default(),
    /// # };
    /// let mean = explanation.average(&Sparse::from_columns(2, [[(0, 1.0), (1, 3.0)]])?)?;
    /// assert_eq!((mean.row_values(0, 0), mean.predictions[0]), (&[2.5, 5.0][..], 7.5));
    /// # Ok::<(), riesz::Error>(())
    /// ```
    pub fn average(&self, weights: &Sparse) -> Result<Self> {
        if weights.rows() != self.rows() {
            return Err(Error::shape(
                "the weights of a mean",
                "rows",
                self.rows(),
                weights.rows(),
                "one per row of the explanation",
            ));
        }
        let shares = (0..weights.cols()).map(|k| shares(weights, k)).collect::<Result<Vec<_>>>()?;
        let (m, s) = (self.outputs(), self.sets());
        let mean = |list: &[f64], width: usize| -> Vec<f64> {
            let weighted = |row_weights: &RowWeights, index: usize| {
                row_weights.iter().map(|(i, w)| w * list[i * width + index]).sum()
            };
            shares
                .iter()
                .flat_map(|row_weights| (0..width).map(move |index| weighted(row_weights, index)))
                .collect()
        };
        let (first, rows): (Vec<usize>, Vec<RowWeights>) =
            shares.iter().map(|row_weights| (row_weights[0].0, row_weights.clone())).unzip();
        let (sets, outputs): (Vec<_>, Vec<_>) = ((0..s).collect(), (0..m).collect());
        let exactness = self
            .exactness
            .map(|bound| self.rounded(&rows, mean(bound, m)), |std_error| mean(std_error, m * s));
        // Only a selection of single rows keeps its uncertainty.
        let is_selection = rows.iter().all(|row_weights| row_weights.len() == 1);
        let uncertainty = if is_selection { self.select(&first, &sets, &outputs).uncertainty } else { None };
        let mut provenance = self.provenance.clone();
        if !is_selection {
            provenance.run.push(CardEntry::new("mean", self.describe_rows(&rows)));
        }
        Ok(Self {
            values: mean(&self.values, m * s),
            base_values: mean(&self.base_values, m),
            predictions: mean(&self.predictions, m),
            data: self.mean_data(&rows)?,
            row_numbers: if is_selection {
                first.iter().map(|&i| self.row_numbers[i]).collect()
            } else {
                (0..rows.len()).collect()
            },
            exactness,
            uncertainty,
            duels: self
                .duels
                .as_ref()
                .map(|names| rows.iter().map(|row_weights| common_item_name(names, row_weights)).collect()),
            provenance,
            ..self.select(&[], &sets, &outputs)
        })
    }

    /// Error bounds of means: the mean of bounds plus the rounding of weights, products, sums and the
    /// residual.
    fn rounded(&self, means: &[RowWeights], mut bound: Vec<f64>) -> Vec<f64> {
        let (m, s) = (self.outputs(), self.sets());
        for (k, row_weights) in means.iter().enumerate() {
            for o in 0..m {
                let size = |i: usize| -> f64 {
                    let values: f64 = self.row_values(i, o).iter().map(|v| v.abs()).sum();
                    self.predictions[i * m + o].abs() + self.base_values[i * m + o].abs() + values
                };
                let size: f64 = row_weights.iter().map(|&(i, w)| w * size(i)).sum();
                bound[k * m + o] += (row_weights.len() + s + 4) as f64 * f64::EPSILON * size;
            }
        }
        bound
    }

    /// Data of the means: averages of numeric columns, and the categories on which all rows of a mean agree.
    fn mean_data(&self, means: &[RowWeights]) -> Result<Table> {
        let (mut columns, mut values) = (self.data.columns().to_vec(), Vec::new());
        for (j, column) in columns.iter_mut().enumerate() {
            let cells = self.data.column(j);
            let Column { kind: ColumnKind::Categorical { levels }, .. } = column else {
                values.extend(
                    means
                        .iter()
                        .map(|row_weights| row_weights.iter().map(|(i, w)| w * cells[*i]).sum::<f64>()),
                );
                continue;
            };
            for row_weights in means {
                let code = cells[row_weights[0].0];
                if row_weights.iter().all(|(i, _)| cells[*i] == code) {
                    values.push(code);
                    continue;
                }
                let mixed_code = levels.iter().position(|level| level == MIXED_LEVEL).unwrap_or(levels.len());
                if mixed_code == levels.len() {
                    levels.push(MIXED_LEVEL.into());
                }
                values.push(mixed_code as f64);
            }
        }
        Table::from_column_major(columns, means.len(), values)
    }

    /// Describes the number of rows in the means.
    fn describe_rows(&self, means: &[RowWeights]) -> String {
        let counts = || means.iter().map(Vec::len);
        let (fewest, largest) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let range = if fewest == largest { fewest.to_string() } else { format!("{fewest} to {largest}") };
        let [_, rows] = self.row_words();
        match self.duels {
            Some(_) => format!(
                "each row is a mean range {range} {rows}, from the view of the item on the left; range both \
                 orders of the items it would be 0"
            ),
            None => format!("each row is a mean over {range} {rows}"),
        }
    }
}

/// Rows of a mean and their shares, which sum to 1.
type RowWeights = Vec<(usize, f64)>;

fn shares(weights: &Sparse, k: usize) -> Result<RowWeights> {
    let bad = |value: f64| {
        let allowed = "weights must be at least 0, and some must be positive";
        Err(Error::parameter(format!("weight of mean {}", k + 1), value, allowed))
    };
    let row_weights: RowWeights = weights.column(k).collect();
    if let Some((_, wrong)) = row_weights.iter().find(|(_, w)| *w < 0.0) {
        return bad(*wrong);
    }
    let total: f64 = row_weights.iter().map(|(_, w)| w).sum();
    if !(total > 0.0 && total.is_finite()) {
        return bad(total);
    }
    Ok(row_weights.into_iter().filter(|(_, w)| *w > 0.0).map(|(i, w)| (i, w / total)).collect())
}

/// Name of a mean of duels: on each side the common item of all duels, or the number of different items.
fn common_item_name(duels: &[Duel], row_weights: &RowWeights) -> Duel {
    if let [(i, _)] = row_weights[..] {
        return duels[i].clone();
    }
    let side = |name: fn(&Duel) -> &String| {
        let names: BTreeSet<&String> = row_weights.iter().map(|(i, _)| name(&duels[*i])).collect();
        match names.first() {
            Some(name) if names.len() == 1 => (*name).clone(),
            _ => format!("{} items", names.len()),
        }
    };
    Duel { left: side(|duel| &duel.left), right: side(|duel| &duel.right), win_probability: None }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::super::{Dispersion, Uncertainty, UncertaintySource, WinProbability};
    use super::*;
    use crate::explanation::Exactness;

    fn means(columns: &[&[(usize, f64)]]) -> Sparse {
        Sparse::from_columns(2, columns.iter().map(|column| column.to_vec())).unwrap()
    }

    #[test]
    fn means_add_up_and_leave_out_unknown_covariances() {
        let mut two_rows = example();
        two_rows.uncertainty = Some(Uncertainty {
            dispersion: Dispersion::Sd(vec![0.1; 12]),
            source: Some(UncertaintySource::Posterior),
            conditioning: None,
        });
        let win_probability = Some(WinProbability {
            probability: 0.7,
            interval: [0.6, 0.8],
            tie: None,
            probability_better: 0.9,
        });
        let duel = |left: &str, right: &str| Duel { left: left.into(), right: right.into(), win_probability };
        two_rows.duels = Some(vec![duel("a", "b"), duel("a", "c")]);
        let means_of_rows = two_rows.average(&means(&[&[(0, 2.0), (1, 6.0)], &[(1, 5.0)]])).unwrap();
        means_of_rows.validate().unwrap();
        for v in 0..6 {
            let expected = 0.25 * two_rows.values[v] + 0.75 * two_rows.values[6 + v];
            assert!((means_of_rows.values[v] - expected).abs() < 1e-16, "{v}");
            assert_eq!(means_of_rows.values[6 + v], two_rows.values[6 + v]);
        }
        assert_eq!(
            (means_of_rows.data.row(0), means_of_rows.data.row(1)),
            (vec![3.25, 4.25, 5.25], vec![4.0, 5.0, 6.0])
        );
        // The certificate holds, and its bounds are as small as rounding errors.
        let Exactness::Exact { bound } = &means_of_rows.exactness else { panic!("it was exact") };
        assert!(
            means_of_rows.certificate().unwrap().holds && bound.iter().all(|b| (1e-15..1e-13).contains(b))
        );
        assert!(means_of_rows.uncertainty.is_none(), "of a mean over two rows nothing is known");
        let duels = means_of_rows.duels.as_ref().unwrap();
        assert_eq!(duels[0], Duel { left: "a".into(), right: "2 items".into(), win_probability: None });
        assert_eq!(duels[1], duel("a", "c"));
        assert!(
            means_of_rows.provenance.run[0]
                .value
                .contains("1 to 2 duels, from the view of the item on the left")
        );
        // A single row keeps its uncertainty.
        let single = two_rows.average(&means(&[&[(1, 0.5)]])).unwrap();
        assert_eq!(single.uncertainty, two_rows.select_rows(&[1]).uncertainty);
        assert_eq!(single.values, two_rows.select_rows(&[1]).values);
        // Rows may share their draws, so their standard errors are averaged and do not shrink.
        two_rows.exactness = Exactness::Estimated { std_error: vec![0.5; 12], sampling: None };
        let Exactness::Estimated { std_error, .. } =
            two_rows.average(&means(&[&[(0, 1.0), (1, 1.0)]])).unwrap().exactness
        else {
            panic!("it was estimated")
        };
        assert_eq!(std_error, [0.5; 6]);
        for (wrong, words) in [(vec![(0, -1.0), (1, 2.0)], "-1"), (vec![(0, 0.0)], "0"), (vec![], "0")] {
            let error = two_rows.average(&means(&[&wrong])).unwrap_err().to_string();
            assert!(error.contains("weight of mean 1") && error.contains(words), "{error}");
        }
        let too_long = Sparse::from_columns(3, [[(0, 1.0)]]).unwrap();
        assert!(
            two_rows.average(&too_long).unwrap_err().to_string().contains("one per row of the explanation")
        );
    }

    #[test]
    fn categories_are_shared_or_various() {
        let mut explanation = example();
        let mut columns = explanation.data.columns().to_vec();
        columns[1].kind = ColumnKind::Categorical { levels: vec!["x".into(), "y".into()] };
        explanation.data = Table::from_column_major(columns, 2, vec![1.0, 3.0, 0.0, 1.0, 5.0, 5.0]).unwrap();
        let averaged = explanation.average(&means(&[&[(0, 1.0), (1, 1.0)], &[(0, 1.0), (1, 0.0)]])).unwrap();
        averaged.validate().unwrap();
        let name = |i: usize| averaged.data.columns()[1].format(averaged.data.get(i, 1));
        assert_eq!([name(0), name(1)], ["(various)", "x"]);
    }
}
