//! LIBSVM's text model files (Chang and Lin, ACM TIST 2011; `svm_save_model`).
//!
//! The reader supports `c_svc`, `nu_svc`, `one_class`, `epsilon_svr` and `nu_svr` with the kernels `rbf`,
//! `linear`, `polynomial` and `sigmoid`. LIBSVM numbers its features from 1 and leaves zeros out. Here
//! features are columns, called x0, x1, … by their position (feature 1 is `x0`) unless [`Features`] names
//! them.
//!
//! Decision values keep LIBSVM's sign. For more than two classes, the classes are in the order of the file's
//! `label` line, and the outputs in LIBSVM's order of pairs. For two classes, LIBSVM's value is positive for
//! the *first* label, but the value of an [`KernelExpansion`](riesz_core::KernelExpansion) is positive for
//! `classes[1]`. So **the two labels are swapped**: `label 1 -1` becomes the classes "-1" and "1", and the
//! usual order of labels gives the same result as scikit-learn. A one-class model has the classes "-1"
//! (outside) and "1" (inside).
//!
//! Probability parameters (`probA`, `probB`, `prob_density_marks`) are stored as entries of the model card
//! and written back. For classifiers, `probA` and `probB` define the probabilities
//! ([`PlattScaling`](crate::kernel_model::PlattScaling)).

mod ranges;
mod read;
mod write;

pub use ranges::{Ranges, read_ranges};
pub use read::{Features, read, read_with, recognises};
pub use write::write;

/// The header fields that are copied from the file to the model card and back.
const PASSED: [&str; 3] = ["probA", "probB", "prob_density_marks"];

/// The kind of model, by LIBSVM's names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MachineType {
    Classifier,
    OneClass,
    Regressor,
}

const KINDS: [(&str, MachineType); 5] = [
    ("c_svc", MachineType::Classifier),
    ("nu_svc", MachineType::Classifier),
    ("one_class", MachineType::OneClass),
    ("epsilon_svr", MachineType::Regressor),
    ("nu_svr", MachineType::Regressor),
];

/// The length scale ℓ with `exp(-γ s) = exp(-s/(2ℓ²))`, correctly rounded. Neighbouring γ then give ℓ that
/// differ by at most one unit in the last place. So every ℓ has a γ, and a round trip loses nothing.
fn length_of(gamma: f64) -> f64 {
    let first = (0.5 / gamma).sqrt();
    // One Newton step on 1 - 2γℓ², with the rounding errors of the products.
    let double = 2.0 * gamma;
    let square = first * first;
    let product = double * square;
    let rounding = double.mul_add(square, -product) + double * first.mul_add(first, -square);
    let corrected = first + 0.5 * first * ((1.0 - product) - rounding);
    if corrected.is_finite() { corrected } else { first }
}

/// For a support vector of `class`: the positions of its k - 1 coefficients, each with the pair of classes it
/// belongs to.
fn places(class: usize, k: usize) -> impl Iterator<Item = (usize, usize)> {
    let pair = move |i: usize, j: usize| i * (2 * k - i - 1) / 2 + (j - i - 1);
    (0..k).filter(move |other| *other != class).map(move |other| {
        if other < class { (other, pair(other, class)) } else { (other - 1, pair(class, other)) }
    })
}
