//! The posteriors of an effect as they were published, beside which ours is to be seen (Chau 2023, chapter 4
//! and appendix B; with the corrections of docs/errata.md).
//!
//! There f has the prior `GP(0, r)` with `r(y, y') = ∫ k(y, u) k(u, y') dν(u)`, so that it is an element of
//! the space of k, and the embedding μ of where the first study leads the prior `k_Ω ⊗ r`. It is observed at
//! the study's own mediators, with noise of covariance `λ r`. The effect is `⟨f, μ⟩`, of which mean and
//! covariance have closed forms: over landmarks, the mediators of both studies (the source), or without any,
//! by longer integrals (ours; what the source calls cumbersome). IMP is the part of the second study alone,
//! BayesIME that of the first.
//!
//! Three faults are of the model: f is believed to be 0 away from ν, so that bands narrow where nothing is
//! known; ν's mass scales bands; and `r` of mediators is all but singular, so that the jitter counts. They
//! are here to be compared with, not to be relied on.

use super::effect::{Effect, Model, Told};
use super::kernel_integrals::{KernelIntegrals, MediatorMeasure};
use super::outcome_gp::OutcomeGp;
use super::study_chain::{Link, Outcome};
use super::uncertainty_parts::{CovarianceParts, UncertaintyCause};
use crate::error::{Error, Result, unused};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::posterior::Functionals;
use crate::table::Table;

/// By what `⟨f, μ⟩` is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegralForm {
    /// Landmarks at the mediators of both studies (proposition 4.3.4).
    Landmarks,
    /// Integrals against ν.
    Integrals,
}

/// A published posterior.
#[derive(Debug, Clone, Copy)]
pub struct PublishedPosterior {
    /// Its form.
    pub form: IntegralForm,
    /// ν.
    pub measure: MediatorMeasure,
    /// What is added to the diagonals of the kernel matrices of mediators, in units of their means.
    pub jitter: f64,
}

impl Default for PublishedPosterior {
    fn default() -> Self {
        Self { form: IntegralForm::Landmarks, measure: MediatorMeasure::Rows, jitter: 1e-8 }
    }
}

impl Effect {
    /// The effect of each row of treatments by a published posterior, with the hyper-parameters of this one.
    /// The outcome's constant counts as known, and so does who is in the studies. Cost (n + m)³ a draw.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Unused`] for three studies or more, for shared covariates, and for a
    /// normal measure of other kernels than Gaussian ones;
    /// [`Error::NotPositiveDefinite`].
    pub fn published(&self, how: &PublishedPosterior, treatments: &Table) -> Result<Told> {
        self.mixture_moments(treatments, |model, treatments| {
            let Model::Link(link) = model else {
                return Err(unused("a published posterior", "effects across studies"));
            };
            let given = link.queries(treatments)?;
            let (means, parts) = how.first_study_terms(link, &given)?;
            Ok((means, parts, link.told(&given).2))
        })
    }
}

/// What both forms take of the first study: E, of queries F and R, what F leaves.
struct FirstStudyTerms {
    weights: Matrix,
    all: Matrix,
    open: Matrix,
}

impl PublishedPosterior {
    fn first_study_terms(&self, link: &Link, given: &Functionals) -> Result<(Vec<f64>, CovarianceParts)> {
        let process = match &link.outcome {
            Outcome::Process(own) if !link.shares() && link.sees_rows() && own.uses_all_rows() => own,
            _ => {
                let belongs =
                    "two studies that share no covariates that the outcome depends on, and are fitted with \
                     as many landmarks as they have rows, or more"
                        .into();
                return Err(Error::Unused { setting: "a published posterior".into(), belongs });
            }
        };
        let places = link.mediators().stack(process.points())?;
        let integrals = KernelIntegrals::new(self.measure, process.kernel(), places)?;
        let (weights, open) = link.weights(given);
        let led = FirstStudyTerms {
            weights,
            all: link.reading.query_covariance(&given.columns, &given.prior_scale),
            open,
        };
        let (means, outcome, scales) = match self.form {
            IntegralForm::Landmarks => self.landmarks(&led, link.mediators(), process, &integrals)?,
            IntegralForm::Integrals => self.integrals(&led, link.mediators(), process, &integrals)?,
        };
        let mean = process.mean_of_targets();
        let means = means.iter().zip(&given.constants).map(|(v, c)| v + c * mean).collect();
        let causes = [UncertaintyCause::Study(link.study), UncertaintyCause::Interaction];
        let mut parts: CovarianceParts = vec![(UncertaintyCause::Study(process.study), outcome)];
        for (cause, (all, known)) in causes.into_iter().zip(scales) {
            // all F - known G, without taking G from F.
            let mut part = led.all.clone();
            let own = part.data_mut().iter_mut().zip(led.open.data());
            own.for_each(|(v, open)| *v = (all - known) * *v + known * open);
            parts.push((cause, part));
        }
        Ok((means, parts))
    }

    fn factor(&self, mut gram: Matrix, what: &'static str) -> Result<Cholesky> {
        let n = gram.rows();
        let mean = (0..n).map(|i| gram[(i, i)]).sum::<f64>() / n as f64;
        gram.add_diagonal(|_| self.jitter * mean);
        Cholesky::new(gram, what)
    }

    /// Means, the outcome's part, and of the first study's part and of both the factors of F and of G.
    fn landmarks(
        &self,
        led: &FirstStudyTerms,
        y: &Table,
        process: &OutcomeGp,
        integrals: &KernelIntegrals<'_>,
    ) -> Result<Found> {
        let (kernel, points) = (process.kernel(), process.points());
        let places = y.stack(points)?;
        let gram = self.factor(kernel.gram(&places), "kernel matrix of mediators")?;
        let all = integrals.chain(&places, &places, 1);
        let with_y = integrals.chain(&places, y, 1);
        let of_y = self.factor(integrals.chain(y, y, 1), "integrated kernel matrix of mediators")?;
        let seen = OutcomeStudyTerms::new(process, integrals)?;
        let with_points = integrals.chain(&places, points, 1);
        let mean = with_points.matvec(&seen.coef);
        let mut left = with_points.transpose();
        seen.factor.solve_lower_in_place(&mut left);
        let left = less(&all, &left.transpose_matmul(&left));
        let own = of_y.solve(kernel.gram(y).matmul(&led.weights.transpose()));
        let turned = gram.solve(with_y.matmul(&own));
        let means = turned.transpose().matvec(&mean);
        let outcome = turned.transpose_matmul(&left.matmul(&turned));
        let mut half = with_y.transpose();
        of_y.solve_lower_in_place(&mut half);
        let known = half.transpose_matmul(&half);
        let f = gram.solve_vector(&mean);
        let (by_all, by_known, by_left) =
            (gram.solve(all.clone()), gram.solve(known.clone()), gram.solve(left));
        let of_means = (dot(&all.matvec(&f), &f), dot(&known.matvec(&f), &f));
        let of_open = (trace(&by_all, &by_left), trace(&by_known, &by_left));
        Ok((means, outcome, [of_means, of_open]))
    }

    fn integrals(
        &self,
        led: &FirstStudyTerms,
        y: &Table,
        process: &OutcomeGp,
        integrals: &KernelIntegrals<'_>,
    ) -> Result<Found> {
        let (kernel, points) = (process.kernel(), process.points());
        let of_y = self.factor(integrals.chain(y, y, 1), "integrated kernel matrix of mediators")?;
        let seen = OutcomeStudyTerms::new(process, integrals)?;
        let turned = of_y.solve(kernel.gram(y).matmul(&led.weights.transpose()));
        let two = integrals.chain(y, points, 2);
        let (own, others) = (integrals.chain(y, y, 3), integrals.chain(points, points, 3));
        let along = two.matvec(&seen.coef);
        let mut half = two.transpose();
        seen.factor.solve_lower_in_place(&mut half);
        let left = less(&own, &half.transpose_matmul(&half));
        let outcome = turned.transpose_matmul(&left.matmul(&turned));
        let of_means = (dot(&others.matvec(&seen.coef), &seen.coef), dot(&of_y.solve_vector(&along), &along));
        let diagonal = |m: &Matrix| (0..m.rows()).map(|i| m[(i, i)]).sum::<f64>();
        let of_open =
            (integrals.square() - diagonal(&seen.factor.solve(others)), diagonal(&of_y.solve(left)));
        Ok((turned.transpose().matvec(&along), outcome, [of_means, of_open]))
    }
}

type Found = (Vec<f64>, Matrix, [(f64, f64); 2]);

/// What the second study says of f: `(r + λ_f)` of its points, and that against its outcome.
struct OutcomeStudyTerms {
    factor: Cholesky,
    coef: Vec<f64>,
}

impl OutcomeStudyTerms {
    fn new(process: &OutcomeGp, integrals: &KernelIntegrals<'_>) -> Result<Self> {
        let mut gram = integrals.chain(process.points(), process.points(), 1);
        gram.add_diagonal(|_| process.noise());
        let factor = Cholesky::new(gram, "integrated kernel matrix of the outcome's points plus noise")?;
        let coef = factor.solve_vector(&process.targets());
        Ok(Self { factor, coef })
    }
}

fn less(all: &Matrix, known: &Matrix) -> Matrix {
    let values = all.data().iter().zip(known.data()).map(|(all, known)| all - known).collect();
    Matrix::from_row_major(all.rows(), all.cols(), values)
}

/// `tr(A B)`.
fn trace(a: &Matrix, b: &Matrix) -> f64 {
    dot(a.data(), b.transpose().data())
}
