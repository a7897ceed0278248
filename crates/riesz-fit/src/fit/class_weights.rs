//! Weights of the rows of a classifier.

use serde::{Deserialize, Serialize};

use crate::checks::not_negative;
use crate::error::{Error, Result, sized};
use crate::table::Table;

/// Cost of errors in each class, relative to the other classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeight {
    /// Errors in all classes cost the same.
    None,
    /// `n / (classes · rows of the class)`, counting rows and not their weights, as `"balanced"` in
    /// scikit-learn's `SVC`.
    Balanced,
    /// One number ≥ 0 per class.
    PerClass(Vec<f64>),
}

/// Checks rows, labels and weights; returns the class weight times the sample weight of each row.
///
/// # Errors
/// [`Error::TooFew`], [`Error::Shape`], [`Error::DuplicateName`], [`Error::Parameter`];
/// [`Error::Target`] if a class has no rows of positive weight.
pub fn row_weights(
    x: &Table,
    labels: &[usize],
    classes: &[String],
    class_weight: &ClassWeight,
    sample_weight: Option<&[f64]>,
) -> Result<Vec<f64>> {
    super::check_labels(x, labels, classes)?;
    let mut count = vec![0_usize; classes.len()];
    labels.iter().for_each(|&l| count[l] += 1);
    let class_factors = match class_weight {
        ClassWeight::None => vec![1.0; classes.len()],
        ClassWeight::Balanced => {
            count.iter().map(|&m| x.rows() as f64 / (classes.len() * m.max(1)) as f64).collect()
        }
        ClassWeight::PerClass(per_class) => {
            sized("class_weight", "numbers", classes.len(), per_class.len(), "one for each class")?;
            let allowed = "weights must not be negative";
            per_class.iter().try_for_each(|w| not_negative("class_weight", *w, allowed))?;
            per_class.clone()
        }
    };
    let mut row_weights = super::sample_weights(sample_weight, x)?;
    row_weights.iter_mut().zip(labels).for_each(|(w, &l)| *w *= class_factors[l]);
    if let Some(bad) = row_weights.iter().find(|w| !w.is_finite()) {
        return Err(Error::parameter("class_weight times sample_weight", bad, "lower the weights"));
    }
    let missing = |k: &usize| !labels.iter().zip(&row_weights).any(|(l, w)| l == k && *w > 0.0);
    if let Some(k) = (0..classes.len()).find(missing) {
        return Err(Error::target(
            "labels",
            format!(
                "has no rows of positive weight for the class '{}': a classifier needs rows of every class",
                classes[k]
            ),
        ));
    }
    Ok(row_weights)
}
