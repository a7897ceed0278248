//! The observation operator, the matrix B (J × M) of `z = BᵀPᵀf(X) + e`: it maps J bags with rows to M
//! targets.
//!
//! A target with rows of its own is matched, and its column of B selects its bag. The other targets are
//! mediated. The embedding of a bag's rows, an element of the kernel's function space, is regressed on
//! covariates of all bags (stage 1). The column of B holds the weights with which this regression predicts
//! the target's embedding from those of bags with rows. Let L (J × J) be the mediators' kernel between bags
//! with rows, `ℓ_j` (J) its values between these bags and target j, and R (J × J) a diagonal matrix of
//! ridges:
//!
//! ```text
//! B_j = (L + R)⁻¹ ℓ_j        S_jj' = ℓ(ỹ_j, ỹ_j') - ℓ_jᵀ (L + R)⁻¹ ℓ_j'
//! ```
//!
//! S (M × M) is the posterior covariance of the regression with mean B. Source: Chau 2023, equations 3.1
//! (CMP, where the mediator is repeated for every row; the weights are the same by the push-through identity)
//! and 3.9 (S-CMP). Centring and S are additions of riesz.

use super::conditional_mean_process::MediatorQueries;
use super::mediation::{Mediation, MediationTarget, Mediators, check_mediators_kernel};
use super::mediator_regression::MediatorGp;
use super::row_bags::{Bags, TargetUnit, check_bag_number, unmatched_targets};
use crate::error::{Error, Result, sized};
use crate::linalg::{Cholesky, Matrix, Sparse};
use crate::table::Table;

/// The matrix B, J × M.
#[derive(Debug, Clone)]
enum OperatorMatrix {
    /// One entry 1 per column: the bag of the target.
    Matched(Sparse),
    Dense(Matrix),
}

/// The part of B and S for mediated targets, with the intermediate results for their gradient.
#[derive(Debug, Clone)]
struct MediatedTargets {
    mediation: Mediation,
    /// Mediators of the bags, then of the mediated targets.
    mediators: Table,
    /// Indices of the mediated targets, with the factor of each target's column.
    targets: Vec<(usize, f64)>,
    /// Factor of each bag's row: 1, or for sums the inverse of the bag's mass.
    bag_scaling: Vec<f64>,
    factor: Cholesky,
    ridges: Vec<f64>,
    /// `(L + R)⁻¹ ℓ`, not centered, and without the factors of columns and rows.
    weights: Matrix,
    /// π: the share of each bag in the total mass, or 0 without centring.
    mass_shares: Vec<f64>,
}

/// The linear map from bags with rows to targets.
#[derive(Debug, Clone)]
pub struct ObservationOperator {
    weights: OperatorMatrix,
    regression_covariance: Option<Matrix>,
    mediated: Option<MediatedTargets>,
    pub(super) regression: Option<MediatorGp>,
}

impl ObservationOperator {
    /// The operator for targets with the given bags (`None` for mediated targets). If the mediation regresses
    /// targets, each bag is tied to the regression by one more observation (`MediatorGp`); these ties come
    /// before the targets. Cost J³ and J²M.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a bag number that doesn't exist, for targets without rows and mediators, for
    /// sums without totals, and for a regression of sums; [`Error::Shape`] for mediators with other numbers
    /// of rows; those of their kernel.
    pub fn new(
        bags: &Bags,
        bag_of_target: &[Option<usize>],
        mediation: Option<(&Mediation, &Mediators)>,
    ) -> Result<Self> {
        let (j, m) = (bags.count(), bag_of_target.len());
        bag_of_target.iter().enumerate().try_for_each(|(t, bag)| check_bag_number(t, *bag, j))?;
        let unmatched = unmatched_targets(bag_of_target);
        let Some(&first_unmatched) = unmatched.first() else {
            let columns = bag_of_target.iter().flatten().map(|&b| [(b, 1.0)]);
            let weights = OperatorMatrix::Matched(Sparse::from_columns(j, columns)?);
            return Ok(Self::without_regression(weights));
        };
        let Some((mediation, mediators)) = mediation else {
            let allowed =
                "a target without rows needs mediators, covariates that it shares with bags with rows";
            return Err(Error::parameter(format!("bag of target {}", first_unmatched + 1), "none", allowed));
        };
        let min_rows = unmatched.last().map_or(0, |largest| largest + 1);
        let rows = mediators.targets.rows().min(min_rows);
        sized("the table of mediators of targets", "rows", min_rows, rows, "one for each target")?;
        if mediation.regressed == MediationTarget::Targets {
            if bags.unit() == TargetUnit::Sum {
                let allowed = "a regression of targets on mediators needs means: divide sums by their \
                               weights, or regress rows";
                return Err(Error::parameter("unit of the targets", "sums", allowed));
            }
            let regression = MediatorGp::new(mediation, mediators, &unmatched, j)?;
            let columns = (0..j).map(Some).chain(bag_of_target.iter().copied()).map(|b| b.map(|b| (b, 1.0)));
            let mut tie_covariance = Matrix::zeros(j + m, j + m);
            (0..j).for_each(|b| tie_covariance[(b, b)] = 1.0);
            let weights = OperatorMatrix::Matched(Sparse::from_columns(j, columns)?);
            return Ok(Self {
                regression_covariance: Some(tie_covariance),
                regression: Some(regression),
                ..Self::without_regression(weights)
            });
        }
        let mediated = MediatedTargets::new(bags, &unmatched, mediation, mediators)?;
        let mut weights = Matrix::zeros(j, m);
        (0..m).for_each(|t| bag_of_target[t].into_iter().for_each(|b| weights[(b, t)] = 1.0));
        for (k, (t, factor)) in mediated.targets.iter().enumerate() {
            let remainder = 1.0 - (0..j).map(|b| mediated.weights[(b, k)]).sum::<f64>();
            for b in 0..j {
                let weight = mediated.weights[(b, k)] + mediated.mass_shares[b] * remainder;
                weights[(b, *t)] = factor * mediated.bag_scaling[b] * weight;
            }
        }
        Ok(Self {
            regression_covariance: Some(mediated.regression_covariance(m)),
            mediated: Some(mediated),
            ..Self::from_weights(weights)
        })
    }

    /// The operator with given weights (J × M), which have no covariance.
    pub(super) fn from_weights(weights: Matrix) -> Self {
        Self::without_regression(OperatorMatrix::Dense(weights))
    }

    fn without_regression(weights: OperatorMatrix) -> Self {
        Self { weights, regression_covariance: None, mediated: None, regression: None }
    }

    /// The matrix B, J × M.
    pub fn matrix(&self) -> Matrix {
        match &self.weights {
            OperatorMatrix::Dense(b) => b.clone(),
            OperatorMatrix::Matched(b) => b.matmul(&Matrix::identity(b.cols())),
        }
    }

    /// S (M × M), the covariance of the regression behind B, which is 0 for matched targets; `None` if all
    /// targets are matched. If targets are regressed, it has an entry 1 for each tie.
    pub fn regression_covariance(&self) -> Option<&Matrix> {
        self.regression_covariance.as_ref()
    }

    /// The number J of bags.
    pub fn bags(&self) -> usize {
        match &self.weights {
            OperatorMatrix::Dense(b) => b.rows(),
            OperatorMatrix::Matched(b) => b.rows(),
        }
    }

    /// The number M of ties and targets.
    pub fn targets(&self) -> usize {
        match &self.weights {
            OperatorMatrix::Dense(b) => b.cols(),
            OperatorMatrix::Matched(b) => b.cols(),
        }
    }

    /// The number of ties, which come before the targets.
    pub(super) fn tie_count(&self) -> usize {
        self.regression.as_ref().map_or(0, MediatorGp::tie_count)
    }

    /// Responses of ties and targets to a constant function 1, given the responses of the bags.
    pub(super) fn constant_responses(&self, bag_responses: &[f64]) -> Vec<f64> {
        let mut out = self.transpose_times_vector(bag_responses.to_vec());
        if let Some(regression) = &self.regression {
            regression.set_constant_responses(&mut out);
        }
        out
    }

    /// `B dense`, for `dense` with M rows.
    ///
    /// # Panics
    /// Unless `dense` has one row per target.
    pub fn times(&self, dense: &Matrix) -> Matrix {
        match &self.weights {
            OperatorMatrix::Dense(b) => b.matmul(dense),
            OperatorMatrix::Matched(b) => b.matmul(dense),
        }
    }

    /// `Bᵀ dense`, for `dense` with J rows.
    ///
    /// # Panics
    /// Unless `dense` has one row per bag.
    pub fn transpose_times(&self, dense: &Matrix) -> Matrix {
        match &self.weights {
            OperatorMatrix::Dense(b) => b.transpose().matmul(dense),
            OperatorMatrix::Matched(b) => b.transpose_times(dense),
        }
    }

    /// B times a vector with one number per target.
    pub(super) fn times_vector(&self, target_values: Vec<f64>) -> Vec<f64> {
        self.times(&Matrix::column_vector(target_values)).into_data()
    }

    /// Bᵀ times a vector with one number per bag.
    pub(super) fn transpose_times_vector(&self, bag_values: Vec<f64>) -> Vec<f64> {
        self.transpose_times(&Matrix::column_vector(bag_values)).into_data()
    }

    /// The prior of the conditional mean process at new mediators (q rows), given the responses of the bags
    /// to a constant function 1; `None` if all targets are matched.
    pub(super) fn queries(
        &self,
        mediators: &Table,
        bag_responses: &[f64],
    ) -> Result<Option<MediatorQueries>> {
        let targets = self.targets();
        if let Some(regression) = &self.regression {
            let (cross_covariance, covariance) = regression.cross_covariance(mediators, targets)?;
            let bag_weights = Matrix::zeros(bag_responses.len(), covariance.rows());
            let responses = vec![1.0; covariance.rows()];
            return Ok(Some(MediatorQueries { bag_weights, responses, cross_covariance, covariance }));
        }
        let Some(mediated) = &self.mediated else { return Ok(None) };
        let (bag_weights, cross_covariance, covariance) = mediated.queries(mediators, targets)?;
        let responses = bag_weights.transpose_matvec(bag_responses);
        Ok(Some(MediatorQueries { bag_weights, responses, cross_covariance, covariance }))
    }

    /// Gradient of a function with respect to the parameters of the [`Mediation`], given its derivatives with
    /// respect to B (J × M) and S (M × M, symmetric); empty if all targets are matched. By differentials:
    /// `dB = (L + R)⁻¹ (dℓ - (dL + dR) B)`, `dS = dℓℓ - dℓᵀB - Bᵀdℓ + Bᵀ(dL + dR)B`, and with centring
    /// `dB - π 1ᵀdB`. Cost J²M and (J + M)² per parameter.
    ///
    /// # Panics
    /// If the matrices have other shapes.
    pub fn gradient(&self, by_matrix: &Matrix, by_variance: Option<&Matrix>) -> Vec<f64> {
        let Some(mediated) = &self.mediated else { return Vec::new() };
        let (j, k) = (mediated.weights.rows(), mediated.weights.cols());
        let mut by_weights = Matrix::zeros(j, k);
        for (c, (t, factor)) in mediated.targets.iter().enumerate() {
            let weight_at = |b: usize| factor * mediated.bag_scaling[b] * by_matrix[(b, *t)];
            let mean: f64 = (0..j).map(|b| mediated.mass_shares[b] * weight_at(b)).sum();
            (0..j).for_each(|b| by_weights[(b, c)] = weight_at(b) - mean);
        }
        // Derivatives with respect to ℓ, half on either side of the diagonal; with respect to L + R, their
        // product with -B.
        let mut by_cross_gram = mediated.factor.solve(by_weights);
        let mut by_bag_gram = mediated.weights.matmul(&by_cross_gram.transpose());
        by_bag_gram.scale(-1.0);
        let mut by_target_gram = Matrix::zeros(k, k);
        if let Some(variance_weights) = by_variance {
            for (c, (t, factor)) in mediated.targets.iter().enumerate() {
                for (c2, (t2, factor2)) in mediated.targets.iter().enumerate() {
                    by_target_gram[(c, c2)] = factor * factor2 * variance_weights[(*t, *t2)];
                }
            }
            let product = mediated.weights.matmul(&by_target_gram);
            by_cross_gram.add_times(-2.0, &product);
            let square = product.matmul(&mediated.weights.transpose());
            by_bag_gram.add_times(1.0, &square);
        }
        let mut joint_weights = Matrix::zeros(j + k, j + k);
        for b in 0..j {
            (0..j).for_each(|c| joint_weights[(b, c)] = 0.5 * (by_bag_gram[(b, c)] + by_bag_gram[(c, b)]));
            for c in 0..k {
                joint_weights[(b, j + c)] = 0.5 * by_cross_gram[(b, c)];
                joint_weights[(j + c, b)] = 0.5 * by_cross_gram[(b, c)];
            }
        }
        (0..k).for_each(|c| joint_weights.row_mut(j + c)[j..].copy_from_slice(by_target_gram.row(c)));
        let mut gradient = mediated.mediation.kernel.gradient(&mediated.mediators, &joint_weights);
        gradient.push((0..j).map(|b| by_bag_gram[(b, b)] * mediated.ridges[b]).sum());
        gradient
    }
}

impl MediatedTargets {
    fn new(bags: &Bags, unmatched: &[usize], mediation: &Mediation, mediators: &Mediators) -> Result<Self> {
        let j = bags.count();
        let Mediators { bags: bag_table, targets, totals } = mediators;
        sized("the table of mediators of bags", "rows", j, bag_table.rows(), "one for each bag with rows")?;
        let target_table = targets.select_rows(unmatched);
        let (factors, bag_scaling): (Vec<f64>, Vec<f64>) = match bags.unit() {
            TargetUnit::Mean => (vec![1.0; unmatched.len()], vec![1.0; j]),
            TargetUnit::Sum => {
                let Some(totals) = totals else {
                    let allowed = "a sum that is predicted from mediators needs the sum of its weights";
                    return Err(Error::parameter("totals of targets", "none", allowed));
                };
                let target_total = |&t: &usize| match totals.get(t) {
                    Some(total) if total.is_finite() && *total > 0.0 => Ok(*total),
                    invalid => {
                        let given_total = invalid.map_or_else(|| "none".into(), f64::to_string);
                        Err(Error::parameter(
                            format!("total of target {}", t + 1),
                            given_total,
                            "totals are positive numbers",
                        ))
                    }
                };
                let bag_scaling = bags.weight_sums().iter().map(|mass| 1.0 / mass).collect();
                (unmatched.iter().map(target_total).collect::<Result<_>>()?, bag_scaling)
            }
        };
        let stacked = bag_table.stack(&target_table)?;
        let (factor, ridges) = mediation.factor(bags, bag_table)?;
        let cross = mediation.kernel.cross_gram(bag_table, &target_table);
        let total_mass: f64 = bags.weight_sums().iter().sum();
        let mass_shares = bags
            .weight_sums()
            .iter()
            .map(|bag_mass| if mediation.centered { bag_mass / total_mass } else { 0.0 })
            .collect();
        let weights = factor.solve(cross);
        check_mediators_kernel(&weights)?;
        Ok(Self {
            mediation: mediation.clone(),
            mediators: stacked,
            targets: unmatched.iter().copied().zip(factors).collect(),
            bag_scaling,
            factor,
            ridges,
            weights,
            mass_shares,
        })
    }

    /// For q new mediators: the weights of bags in the mean of f (J × q), and the regression's covariance
    /// between all m targets and these (m × q) and among these (q × q).
    fn queries(&self, mediators: &Table, m: usize) -> Result<(Matrix, Matrix, Matrix)> {
        let mediators = mediators.align_to(self.mediators.columns())?;
        let (j, k, q) = (self.weights.rows(), self.weights.cols(), mediators.rows());
        let kernel = &self.mediation.kernel;
        let cross = kernel.cross_gram(&self.mediators, &mediators);
        check_mediators_kernel(&cross)?;
        let bag_cross = cross.first_rows(j);
        let mut bag_weights = self.factor.solve(bag_cross.clone());
        // The part of the covariance that the bags explain.
        let mut among_targets = cross.block(j..j + k, 0..q);
        among_targets.add_times(-1.0, &self.weights.transpose_matmul(&bag_cross));
        let mut covariance = kernel.gram(&mediators);
        covariance.add_times(-1.0, &bag_weights.transpose_matmul(&bag_cross));
        let mut cross_covariance = Matrix::zeros(m, q);
        for (c, (t, factor)) in self.targets.iter().enumerate() {
            cross_covariance.row_mut(*t).copy_from_slice(among_targets.row(c));
            cross_covariance.row_mut(*t).iter_mut().for_each(|v| *v *= factor);
        }
        for i in 0..q {
            let remainder = 1.0 - (0..j).map(|b| bag_weights[(b, i)]).sum::<f64>();
            for b in 0..j {
                let weight = bag_weights[(b, i)] + self.mass_shares[b] * remainder;
                bag_weights[(b, i)] = self.bag_scaling[b] * weight;
            }
        }
        Ok((bag_weights, cross_covariance, covariance))
    }

    /// S over all m targets, m × m.
    fn regression_covariance(&self, m: usize) -> Matrix {
        let (j, k) = (self.weights.rows(), self.weights.cols());
        let bag_mediators = self.mediators.head(j);
        let target_mediators = self.mediators.select_rows(&(j..j + k).collect::<Vec<_>>());
        let mut whitened = self.mediation.kernel.cross_gram(&bag_mediators, &target_mediators);
        self.factor.solve_lower_in_place(&mut whitened);
        let (prior, reduction) =
            (self.mediation.kernel.gram(&target_mediators), whitened.transpose().matmul(&whitened));
        let mut out = Matrix::zeros(m, m);
        for (c, (t, factor)) in self.targets.iter().enumerate() {
            for (c2, (t2, factor2)) in self.targets.iter().enumerate() {
                out[(*t, *t2)] = factor * factor2 * (prior[(c, c2)] - reduction[(c, c2)]);
            }
        }
        out
    }
}
