//! All integration tests, in one program so that it is linked once.

mod bound;
mod cases;
mod coalitions;
mod common;
mod conjugate_gradients;
mod discrepancy;
mod embedding;
mod exact;
mod functionals;
mod gp;
mod kernel_shap;
mod kernels;
mod libsvm;
mod logistic;
mod models;
mod observational;
mod orthogonal;
mod penalty;
mod permutation;
mod posterior;
mod question;
mod ridge;
mod robustness;
mod selection;
mod semivalues;
mod svm;
