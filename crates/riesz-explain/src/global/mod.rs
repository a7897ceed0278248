//! Global explanations: which features matter overall, with errors.
//!
//! [`Sensitivity`] decomposes the variance of a model's output into Sobol indices and Shapley effects,
//! exactly for independent inputs. [`Sage`] decomposes the model's loss on labelled rows. [`Components`] are
//! the functions of its functional ANOVA. [`Explanation::importance`](crate::Explanation::importance) is the
//! mean of |value| over explained rows.
//!
//! ```
//! use riesz::{Background, KernelExpansion, Kernel, Matrix, Sensitivity, Table};
//!
//! let rows: Vec<[f64; 2]> = (0..30).map(|i| [f64::from(i % 6), f64::from(i % 5)]).collect();
//! let x = Table::from_rows(&rows)?;
//! let coef = Matrix::column_vector((0..30).map(|i| f64::from(i).sin()).collect());
//! let model = KernelExpansion::new(Kernel::gaussian(&[2.0, 3.0]), x.clone(), coef, vec![0.0])?;
//!
//! let sobol = Sensitivity::default().run(&model, &Background::from(x))?;
//! let (first, effects, total) = (sobol.first_order(0), sobol.effects(0), sobol.total_order(0));
//! assert!((0..2).all(|j| first[j] <= effects[j] && effects[j] <= total[j]));
//! assert!((effects.iter().sum::<f64>() - sobol.variance(0)).abs() < 1e-9);
//! # Ok::<(), riesz::Error>(())
//! ```

mod components;
mod curves;
mod importance;
mod marginals;
mod mixture;
mod sage;
mod sampled_indices;
mod sobol;
mod variance;

pub use components::Components;
pub use curves::{Axis, Curve};
pub use importance::Importance;
pub use mixture::AverageComponents;
pub use sage::{Labels, Sage, SageValues};
pub use sampled_indices::{SampledIndices, SampledSensitivity, Shares};
pub use sobol::{Sensitivity, SobolIndices};
