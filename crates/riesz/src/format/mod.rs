//! Model files of other programs. Reading yields an [`Expansion`](crate::Expansion); writing takes one and says why if
//! the format cannot hold it.
//!
//! | module | files |
//! |---|---|
//! | [`libsvm`] | LIBSVM's text models (`svm-train`, `svm_save_model`) |

pub mod libsvm;
