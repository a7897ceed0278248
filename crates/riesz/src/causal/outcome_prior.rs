//! Priors of the regression of the outcome: how treatments and covariates combine.
//!
//! With a product kernel, treatments and covariates may interact in any way. Its scale is learnt from the
//! outcome. Where covariates nearly determine a treatment, the effects of the two may cancel in the data, so
//! that the outcome hardly varies. A learnt scale is then small, and each of the two effects is shrunk to
//! nothing (regularisation-induced confounding). The additive prior therefore leaves cubic polynomials of
//! every numeric column, and the levels of every categorical column, free:
//!
//! ```text
//! f(t, a) = f_t(t) + f_a(a) + Σ_c p_c(column c),    f_t ~ GP(0, s_t² k_t),   f_a ~ GP(0, s_a² k_a)
//! p_c ~ GP(0, 0.2 (v/u) (1 + z z'/2)³),             v = var(outcome),   u = residual variance of t given a
//! ```
//!
//! where z is the standardised column and u a share. Free directions have wide posteriors where data do not
//! distinguish them. The additive prior assumes that treatments and covariates do not interact. Whether an
//! effect rests on this assumption shows in its standard deviations with free
//! [interactions](interaction_terms).

use super::defaults::{START_NOISE, default_kernel};
use super::outcome_gp::OutcomeGpParameters;
use crate::gp::hyperparameters::{HyperParameter, HyperPrior, ThetaReader};
use crate::kernel::{Categorical, ColumnScaling, Factor, Kernel, Parameter, Polynomial, Profile, Term};
use crate::table::{ColumnKind, Table};

/// Degree of the free polynomials, and the multiplier of the products in their kernel.
const DEGREE: u32 = 3;
const GAMMA: f64 = 0.5;

/// Variance of a free term in units of v/u. It is a compromise: larger variances have a smaller marginal
/// likelihood where the treatment varies freely, and smaller ones shrink more where it hardly does.
const FREE_VARIANCE: f64 = 0.2;

/// Smallest residual variance of a treatment that the variances of free terms use. Smaller ones make the
/// covariance of the outcome ill-conditioned.
const MIN_RESIDUAL_VARIANCE: f64 = 1e-3;

/// A prior of the regression of the outcome on the columns of a table.
pub(super) struct OutcomePrior {
    /// The hyper-parameters of the kernel, and the noise.
    pub hyperparameters: Vec<HyperParameter>,
    kernel: Kernel,
    intercept_variance: f64,
}

impl OutcomePrior {
    /// Returns the prior with a product kernel over all columns of `x`, for an outcome of this variance.
    pub fn product(x: &Table, variance: f64, intercept_variance: f64) -> Self {
        let kernel = variance * default_kernel(x);
        let hyperparameters = kernel.parameters().into_iter().map(HyperParameter::with_default_prior);
        Self::new(kernel.clone(), hyperparameters.collect(), variance, intercept_variance)
    }

    /// Returns the additive prior of treatments, the first columns of `x`, and covariates, its other columns,
    /// for an outcome of this variance. `residual` is the share of the treatments' variance that covariates
    /// leave unexplained.
    pub fn additive(
        x: &Table,
        treatment_count: usize,
        residual: f64,
        variance: f64,
        intercept_variance: f64,
    ) -> Self {
        let residual = residual.clamp(MIN_RESIDUAL_VARIANCE, 1.0);
        let scale = variance / residual.sqrt();
        let groups = [(0..treatment_count).collect(), (treatment_count..x.width()).collect::<Vec<_>>()];
        let smooth = groups.iter().flat_map(|group| {
            let kernel = scale * default_kernel(&x.select_columns(group));
            kernel.map_columns(&|j| group[j]).terms
        });
        let smooth = Kernel { terms: smooth.collect() };
        let free = Kernel { terms: free_terms(x, FREE_VARIANCE * variance / residual) };
        let prior_of = |parameter: Parameter| match &parameter.name[..] {
            "scale" => {
                let prior = HyperPrior::Normal { mean: scale.ln(), sd: 1.0 };
                HyperParameter { parameter, prior: Some(prior) }
            }
            _ => HyperParameter::with_default_prior(parameter),
        };
        let tuned = smooth.parameters().into_iter().map(prior_of);
        let fixed = free.parameters().into_iter().map(HyperParameter::fixed);
        Self::new(smooth.clone() + free.clone(), tuned.chain(fixed).collect(), variance, intercept_variance)
    }

    fn new(
        kernel: Kernel,
        mut hyperparameters: Vec<HyperParameter>,
        variance: f64,
        intercept_variance: f64,
    ) -> Self {
        let noise = Parameter::logarithm("noise", START_NOISE * variance);
        hyperparameters.push(HyperParameter::with_default_prior(noise));
        Self { hyperparameters, kernel, intercept_variance }
    }

    /// Returns the prior with this profile in place of the Gaussian one.
    pub fn with_profile(self, profile: Profile) -> Self {
        Self { kernel: self.kernel.with_profile(profile), ..self }
    }

    /// Returns the parameters of the process with these values of the hyper-parameters.
    pub fn parameters_at(&self, theta: &[f64]) -> OutcomeGpParameters {
        let mut reader = ThetaReader::new(theta);
        OutcomeGpParameters {
            kernel: reader.kernel(&self.kernel),
            noise: reader.exp(),
            intercept_variance: self.intercept_variance,
        }
    }
}

/// Returns the kernel of products of each treatment, one of the first columns of `x`, with each covariate,
/// one of its other columns. They are as free as the terms of the [additive prior](OutcomePrior::additive)
/// with the same arguments.
pub(super) fn interaction_terms(x: &Table, treatment_count: usize, residual: f64, variance: f64) -> Kernel {
    let scale = FREE_VARIANCE * variance / residual.clamp(MIN_RESIDUAL_VARIANCE, 1.0);
    let factors: Vec<Factor> = column_factors(x, 1);
    let (treatments, covariates) = factors.split_at(treatment_count);
    let pairs =
        treatments.iter().flat_map(|treatment| covariates.iter().map(move |other| [treatment, other]));
    let terms = pairs.map(|pair| Term { scale, factors: pair.map(Clone::clone).to_vec() });
    Kernel { terms: terms.collect() }
}

/// Returns a term of this variance for each column of `x`: a cubic polynomial of a number, or its levels.
fn free_terms(x: &Table, variance: f64) -> Vec<Term> {
    let term = |factor| Term { scale: variance, factors: vec![factor] };
    column_factors(x, DEGREE).into_iter().map(term).collect()
}

/// Returns a factor for each column: a polynomial of this degree of a number, or the levels of a category.
fn column_factors(x: &Table, degree: u32) -> Vec<Factor> {
    let units = ColumnScaling::standardised(x);
    let factor = |j: usize| match &x.columns()[j].kind {
        ColumnKind::Categorical { .. } => Factor::from(Categorical::on_column(j)),
        ColumnKind::Numeric => {
            let (columns, center, scale) = (vec![j], vec![units.center[j]], vec![units.scale[j]]);
            Polynomial { columns, center, scale, gamma: GAMMA, coef0: 1.0, degree }.into()
        }
    };
    (0..x.width()).map(factor).collect()
}
