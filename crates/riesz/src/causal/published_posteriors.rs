//! Published posteriors of an effect, for comparison with this crate's (Chau 2023, chapter 4 and appendix B;
//! with the corrections of docs/background/errata.md).
//!
//! In the source f has the prior `GP(0, r)` with `r(y, y') = ∫ k(y, u) k(u, y') dν(u)`, so that f is an
//! element of the space of k. The embedding μ of the mediators' distribution has the prior `k_Ω ⊗ r`, and is
//! observed at the study's mediators with noise of covariance `λ r`. The effect is `⟨f, μ⟩`, whose mean and
//! covariance have closed forms. The source computes them through landmarks, the mediators of both studies.
//! This crate also computes them without landmarks by longer integrals, which the source calls cumbersome.
//! IMP is the second study's part of the covariance alone, BayesIME the first study's.
//!
//! The model has three faults. f is a priori 0 away from ν, so that bands narrow where there are no data. The
//! mass of ν scales bands. `r` between mediators is nearly singular, so that the jitter matters. The
//! posteriors are for comparison only.

use super::effect::{Effect, EffectEstimate, Model};
use super::kernel_integrals::{KernelIntegrals, MediatorMeasure};
use super::outcome_gp::OutcomeGp;
use super::study_chain::{ChainedOutcome, StudyLink};
use super::uncertainty_parts::{CovarianceParts, UncertaintyCause};
use crate::error::{Result, unused};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::posterior::Functionals;
use crate::table::Table;

/// The form in which `⟨f, μ⟩` is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegralForm {
    /// Landmarks at the mediators of both studies (proposition 4.3.4).
    Landmarks,
    /// Integrals over ν.
    Integrals,
}

/// A published posterior and its options.
#[derive(Debug, Clone, Copy)]
pub struct PublishedPosterior {
    /// Form of the computation.
    pub form: IntegralForm,
    /// The measure ν of mediators.
    pub measure: MediatorMeasure,
    /// Jitter of the kernel matrices of mediators, in units of the means of their diagonals.
    pub jitter: f64,
}

impl Default for PublishedPosterior {
    fn default() -> Self {
        Self { form: IntegralForm::Landmarks, measure: MediatorMeasure::Rows, jitter: 1e-8 }
    }
}

impl Effect {
    /// Returns the effect at each row of treatments by a published posterior, with the hyper-parameters of
    /// this one. The outcome's constant and the units of the studies count as known. Cost (n + m)³ per draw.
    ///
    /// # Errors
    /// Errors of [`Table::align_to`]; [`Error::Unused`](crate::Error::Unused) for three studies or more, for
    /// shared covariates, and for a normal measure with kernels that are not Gaussian;
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite).
    pub fn published(&self, form: &PublishedPosterior, treatments: &Table) -> Result<EffectEstimate> {
        self.mixture_moments(treatments, |model, treatments| {
            let Model::Link(link) = model else {
                return Err(unused("a published posterior", "effects across studies"));
            };
            let functionals = link.queries(treatments)?;
            let (means, parts) = form.first_study_terms(link, &functionals)?;
            Ok((means, parts, link.estimate(&functionals).2))
        })
    }
}

impl PublishedPosterior {
    fn first_study_terms(
        &self,
        link: &StudyLink,
        functionals: &Functionals,
    ) -> Result<(Vec<f64>, CovarianceParts)> {
        let process = match &link.outcome {
            ChainedOutcome::Process(process)
                if link.shared.is_none() && link.solver.uses_all_rows() && process.solver.uses_all_rows() =>
            {
                process
            }
            _ => {
                let belongs = "two studies that share no covariates that the outcome depends on, and are \
                               fitted with as many landmarks as they have rows, or more";
                return Err(unused("a published posterior", belongs));
            }
        };
        let landmarks = link.mediators.stack(&process.points)?;
        let integrals = KernelIntegrals::new(self.measure, &process.parameters.kernel, landmarks)?;
        let (weights, residual, _) = link.weights(functionals);
        let Functionals { columns, prior_covariance, .. } = functionals;
        let prior = link.query_embedding.query_covariance(columns, prior_covariance);
        let (means, outcome_covariance, factors) = match self.form {
            IntegralForm::Landmarks => self.landmarks(&weights, &link.mediators, process, &integrals)?,
            IntegralForm::Integrals => self.integrals(&weights, &link.mediators, process, &integrals)?,
        };
        let mean = process.mean_of_targets();
        let means = means.iter().zip(&functionals.constants).map(|(v, c)| v + c * mean).collect();
        let causes = [UncertaintyCause::Study(link.study), UncertaintyCause::Interaction];
        let mut parts: CovarianceParts = vec![(UncertaintyCause::Study(process.study), outcome_covariance)];
        for (cause, (prior_factor, explained_factor)) in causes.into_iter().zip(factors) {
            // `prior_factor F - explained_factor G`, without computing G as a difference from F.
            let mut part = prior.clone();
            let entries = part.data_mut().iter_mut().zip(residual.data());
            entries.for_each(|(v, residual)| {
                *v = (prior_factor - explained_factor) * *v + explained_factor * residual
            });
            parts.push((cause, part));
        }
        Ok((means, parts))
    }

    fn factor(&self, mut gram: Matrix, matrix_name: &'static str) -> Result<Cholesky> {
        let mean = gram.mean_diagonal();
        gram.add_diagonal(|_| self.jitter * mean);
        Cholesky::new(gram, matrix_name)
    }

    /// Returns the means, the outcome's part of the covariance, and the factors of F and of G for the first
    /// study's part and for the interaction.
    fn landmarks(
        &self,
        weights: &Matrix,
        y: &Table,
        process: &OutcomeGp,
        integrals: &KernelIntegrals<'_>,
    ) -> Result<PosteriorTerms> {
        let (kernel, points) = (&process.parameters.kernel, &process.points);
        let landmarks = y.stack(points)?;
        let gram = self.factor(kernel.gram(&landmarks), "kernel matrix of mediators")?;
        let joint_gram = integrals.chain(&landmarks, &landmarks, 1);
        let with_y = integrals.chain(&landmarks, y, 1);
        let mediator_factor =
            self.factor(integrals.chain(y, y, 1), "integrated kernel matrix of mediators")?;
        let outcome_terms = OutcomeStudyTerms::new(process, integrals)?;
        let with_points = integrals.chain(&landmarks, points, 1);
        let mean = with_points.matvec(&outcome_terms.coef);
        let mut posterior_covariance = joint_gram.clone();
        posterior_covariance
            .add_times(-1.0, &outcome_terms.factor.inverse_quadratic_form(with_points.transpose()));
        let embedded = mediator_factor.solve(kernel.gram(y).matmul(&weights.transpose()));
        let transformed = gram.solve(with_y.matmul(&embedded));
        let means = transformed.transpose().matvec(&mean);
        let outcome_covariance = posterior_covariance.quadratic_form(&transformed);
        let explained = mediator_factor.inverse_quadratic_form(with_y.transpose());
        let coefficients = gram.solve_vector(&mean);
        let (solved_joint, solved_explained, solved_posterior) =
            (gram.solve(joint_gram.clone()), gram.solve(explained.clone()), gram.solve(posterior_covariance));
        let mean_factors = (
            dot(&joint_gram.matvec(&coefficients), &coefficients),
            dot(&explained.matvec(&coefficients), &coefficients),
        );
        let covariance_factors =
            (trace(&solved_joint, &solved_posterior), trace(&solved_explained, &solved_posterior));
        Ok((means, outcome_covariance, [mean_factors, covariance_factors]))
    }

    fn integrals(
        &self,
        weights: &Matrix,
        y: &Table,
        process: &OutcomeGp,
        integrals: &KernelIntegrals<'_>,
    ) -> Result<PosteriorTerms> {
        let (kernel, points) = (&process.parameters.kernel, &process.points);
        let mediator_factor =
            self.factor(integrals.chain(y, y, 1), "integrated kernel matrix of mediators")?;
        let outcome_terms = OutcomeStudyTerms::new(process, integrals)?;
        let transformed = mediator_factor.solve(kernel.gram(y).matmul(&weights.transpose()));
        let cross_chain = integrals.chain(y, points, 2);
        let (mut posterior_covariance, point_chain) =
            (integrals.chain(y, y, 3), integrals.chain(points, points, 3));
        let mediator_means = cross_chain.matvec(&outcome_terms.coef);
        posterior_covariance
            .add_times(-1.0, &outcome_terms.factor.inverse_quadratic_form(cross_chain.transpose()));
        let outcome_covariance = posterior_covariance.quadratic_form(&transformed);
        let mean_factors = (
            dot(&point_chain.matvec(&outcome_terms.coef), &outcome_terms.coef),
            dot(&mediator_factor.solve_vector(&mediator_means), &mediator_means),
        );
        let covariance_factors = (
            integrals.square() - outcome_terms.factor.solve(point_chain).trace(),
            mediator_factor.solve(posterior_covariance).trace(),
        );
        Ok((
            transformed.transpose().matvec(&mediator_means),
            outcome_covariance,
            [mean_factors, covariance_factors],
        ))
    }
}

type PosteriorTerms = (Vec<f64>, Matrix, [(f64, f64); 2]);

/// Terms of the second study: the Cholesky factor of `r + λ_f` at its points, and the coefficients of its
/// outcome.
struct OutcomeStudyTerms {
    factor: Cholesky,
    coef: Vec<f64>,
}

impl OutcomeStudyTerms {
    fn new(process: &OutcomeGp, integrals: &KernelIntegrals<'_>) -> Result<Self> {
        let mut gram = integrals.chain(&process.points, &process.points, 1);
        gram.add_diagonal(|_| process.parameters.noise);
        let factor = Cholesky::new(gram, "integrated kernel matrix of the outcome's points plus noise")?;
        let coef = factor.solve_vector(&process.targets());
        Ok(Self { factor, coef })
    }
}

/// `tr(A B)`.
fn trace(a: &Matrix, b: &Matrix) -> f64 {
    dot(a.data(), b.transpose().data())
}
