//! What every classifier needs of its labels, and how much each row counts.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::table::Table;

/// How much the classes' errors cost, relative to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeight {
    /// The same.
    None,
    /// `n / (classes · rows of the class)`, counting rows and not their weights, as the `"balanced"`
    /// of scikit-learn's `SVC`.
    Balanced,
    /// One number ≥ 0 a class.
    PerClass(Vec<f64>),
}

pub(crate) fn bad_labels(problem: String) -> Error {
    Error::Target { name: "labels".into(), problem }
}

/// Checks that labels are indices into `classes`, that names differ, and that two classes occur.
pub(crate) fn check_labels(labels: &[usize], classes: &[String]) -> Result<()> {
    if let Some(r) = labels.iter().position(|&l| l >= classes.len()) {
        return Err(bad_labels(format!(
            "is class number {} (from 0) in row {}, but there are {} classes",
            labels[r],
            r + 1,
            classes.len()
        )));
    }
    let mut names: Vec<&String> = classes.iter().collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::DuplicateName { name: pair[0].clone() });
    }
    match labels.first() {
        None => Err(Error::TooFew { what: "the list of labels".into(), needed: 2, unit: "labels are" }),
        Some(first) if labels.iter().all(|l| l == first) => Err(bad_labels(format!(
            "is '{}' in every row: a classifier needs rows of at least two classes",
            classes[*first]
        ))),
        Some(_) => Ok(()),
    }
}

/// Checks rows, labels and weights; returns class weight · sample weight of every row.
///
/// # Errors
/// [`Error::TooFew`], [`Error::Shape`], [`Error::DuplicateName`], [`Error::Parameter`];
/// [`Error::Target`] if a class has no rows of positive weight.
pub(crate) fn row_weights(
    x: &Table,
    labels: &[usize],
    classes: &[String],
    class_weight: &ClassWeight,
    sample_weight: Option<&[f64]>,
) -> Result<Vec<f64>> {
    super::check(x, labels.len(), 2)?;
    check_labels(labels, classes)?;
    let mut count = vec![0_usize; classes.len()];
    labels.iter().for_each(|&l| count[l] += 1);
    let of_class = match class_weight {
        ClassWeight::None => vec![1.0; classes.len()],
        ClassWeight::Balanced => {
            count.iter().map(|&m| x.rows() as f64 / (classes.len() * m.max(1)) as f64).collect()
        }
        ClassWeight::PerClass(given) => {
            if given.len() != classes.len() {
                return Err(Error::Shape {
                    what: "class_weight".into(),
                    unit: "numbers",
                    expected: classes.len(),
                    found: given.len(),
                    why: "one a class".into(),
                });
            }
            if let Some(bad) = given.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
                return Err(Error::parameter("class_weight", bad, "weights are not negative"));
            }
            given.clone()
        }
    };
    let mut all = super::sample_weights(sample_weight, x)?;
    all.iter_mut().zip(labels).for_each(|(w, &l)| *w *= of_class[l]);
    if let Some(bad) = all.iter().find(|w| !w.is_finite()) {
        return Err(Error::parameter("class_weight times sample_weight", bad, "lower the weights"));
    }
    let missing = |k: &usize| !labels.iter().zip(&all).any(|(l, w)| l == k && *w > 0.0);
    if let Some(k) = (0..classes.len()).find(missing) {
        return Err(bad_labels(format!(
            "has no rows (of positive weight) for the class '{}': a classifier needs some for every class",
            classes[k]
        )));
    }
    Ok(all)
}
