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
    rows: Table,
    /// Indices of the mediated targets, with the factor of each target's column.
    targets: Vec<(usize, f64)>,
    /// Factor of each bag's row: 1, or for sums the inverse of the bag's mass.
    bag_scaling: Vec<f64>,
    factor: Cholesky,
    ridges: Vec<f64>,
    /// `(L + R)⁻¹ ℓ`, not centred, and without the factors of columns and rows.
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
    /// targets, the ties of all bags are additional targets, which come first. Cost J³ and J²M.
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
        let open = unmatched_targets(bag_of_target);
        let Some(&first) = open.first() else {
            let columns = bag_of_target.iter().flatten().map(|&b| [(b, 1.0)]);
            let weights = OperatorMatrix::Matched(Sparse::from_columns(j, columns)?);
            return Ok(Self::without_regression(weights));
        };
        let Some((mediation, mediators)) = mediation else {
            let allowed =
                "a target without rows needs mediators, covariates that it shares with bags with rows";
            return Err(Error::parameter(format!("bag of target {}", first + 1), "none", allowed));
        };
        let needed = open.last().map_or(0, |largest| largest + 1);
        let n_rows = mediators.targets.rows().min(needed);
        sized("the table of mediators of targets", "rows", needed, n_rows, "one for each target")?;
        if mediation.regressed == MediationTarget::Targets {
            if bags.unit() == TargetUnit::Sum {
                let allowed = "a regression of targets on mediators needs means: divide sums by their \
                               weights, or regress rows";
                return Err(Error::parameter("unit of the targets", "sums", allowed));
            }
            let regression = MediatorGp::new(mediation, mediators, &open, j)?;
            let columns = (0..j).map(Some).chain(bag_of_target.iter().copied()).map(|b| b.map(|b| (b, 1.0)));
            let mut ties = Matrix::zeros(j + m, j + m);
            (0..j).for_each(|b| ties[(b, b)] = 1.0);
            let weights = OperatorMatrix::Matched(Sparse::from_columns(j, columns)?);
            return Ok(Self {
                regression_covariance: Some(ties),
                regression: Some(regression),
                ..Self::without_regression(weights)
            });
        }
        let mediated = MediatedTargets::new(bags, &open, mediation, mediators)?;
        let mut weights = Matrix::zeros(j, m);
        (0..m).for_each(|t| bag_of_target[t].into_iter().for_each(|b| weights[(b, t)] = 1.0));
        for (k, (t, times)) in mediated.targets.iter().enumerate() {
            let missing = 1.0 - (0..j).map(|b| mediated.weights[(b, k)]).sum::<f64>();
            for b in 0..j {
                let weight = mediated.weights[(b, k)] + mediated.mass_shares[b] * missing;
                weights[(b, *t)] = times * mediated.bag_scaling[b] * weight;
            }
        }
        Ok(Self {
            regression_covariance: Some(mediated.regression_covariance(m)),
            mediated: Some(mediated),
            ..Self::of_weights(weights)
        })
    }

    /// The operator with given weights (J × M), which have no covariance.
    pub(super) fn of_weights(weights: Matrix) -> Self {
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
    pub(super) fn constants(&self, of_bags: &[f64]) -> Vec<f64> {
        let mut out = self.transpose_times_vector(of_bags.to_vec());
        if let Some(regression) = &self.regression {
            regression.constants(&mut out);
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
    pub(super) fn times_vector(&self, of_targets: Vec<f64>) -> Vec<f64> {
        self.times(&Matrix::column_vector(of_targets)).into_data()
    }

    /// Bᵀ times a vector with one number per bag.
    pub(super) fn transpose_times_vector(&self, of_bags: Vec<f64>) -> Vec<f64> {
        self.transpose_times(&Matrix::column_vector(of_bags)).into_data()
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
        let mut slopes = Matrix::zeros(j, k);
        for (c, (t, times)) in mediated.targets.iter().enumerate() {
            let weight_at = |b: usize| times * mediated.bag_scaling[b] * by_matrix[(b, *t)];
            let mean: f64 = (0..j).map(|b| mediated.mass_shares[b] * weight_at(b)).sum();
            (0..j).for_each(|b| slopes[(b, c)] = weight_at(b) - mean);
        }
        // Derivatives with respect to ℓ, half on either side of the diagonal; with respect to L + R, their
        // product with -B.
        let mut cross = mediated.factor.solve(slopes);
        let mut between = mediated.weights.matmul(&cross.transpose());
        between.scale(-1.0);
        let mut of_targets = Matrix::zeros(k, k);
        if let Some(variance_weights) = by_variance {
            for (c, (t, times)) in mediated.targets.iter().enumerate() {
                for (c2, (t2, times2)) in mediated.targets.iter().enumerate() {
                    of_targets[(c, c2)] = times * times2 * variance_weights[(*t, *t2)];
                }
            }
            let product = mediated.weights.matmul(&of_targets);
            cross.add_times(-2.0, &product);
            let square = product.matmul(&mediated.weights.transpose());
            between.add_times(1.0, &square);
        }
        let mut joint_weights = Matrix::zeros(j + k, j + k);
        for b in 0..j {
            (0..j).for_each(|c| joint_weights[(b, c)] = 0.5 * (between[(b, c)] + between[(c, b)]));
            for c in 0..k {
                joint_weights[(b, j + c)] = 0.5 * cross[(b, c)];
                joint_weights[(j + c, b)] = 0.5 * cross[(b, c)];
            }
        }
        (0..k).for_each(|c| joint_weights.row_mut(j + c)[j..].copy_from_slice(of_targets.row(c)));
        let mut gradient = mediated.mediation.kernel.gradient(&mediated.rows, &joint_weights);
        gradient.push((0..j).map(|b| between[(b, b)] * mediated.ridges[b]).sum());
        gradient
    }
}

impl MediatedTargets {
    fn new(bags: &Bags, open: &[usize], mediation: &Mediation, mediators: &Mediators) -> Result<Self> {
        let j = bags.count();
        let Mediators { bags: of_bags, targets, totals } = mediators;
        sized("the table of mediators of bags", "rows", j, of_bags.rows(), "one for each bag with rows")?;
        let targets_at = targets.select_rows(open);
        let (times, units): (Vec<f64>, Vec<f64>) = match bags.unit() {
            TargetUnit::Mean => (vec![1.0; open.len()], vec![1.0; j]),
            TargetUnit::Sum => {
                let Some(totals) = totals else {
                    let allowed = "a sum that is predicted from mediators needs the sum of its weights";
                    return Err(Error::parameter("totals of targets", "none", allowed));
                };
                let total_of = |&t: &usize| match totals.get(t) {
                    Some(total) if total.is_finite() && *total > 0.0 => Ok(*total),
                    other => {
                        let given_total = other.map_or_else(|| "none".into(), f64::to_string);
                        Err(Error::parameter(
                            format!("total of target {}", t + 1),
                            given_total,
                            "totals are positive numbers",
                        ))
                    }
                };
                let units = bags.weight_sums().iter().map(|mass| 1.0 / mass).collect();
                (open.iter().map(total_of).collect::<Result<_>>()?, units)
            }
        };
        let rows = of_bags.stack(&targets_at)?;
        let (factor, ridges) = mediation.factor(bags, of_bags)?;
        let cross = mediation.kernel.cross_gram(of_bags, &targets_at);
        let total_mass: f64 = bags.weight_sums().iter().sum();
        let shares = bags
            .weight_sums()
            .iter()
            .map(|bag_mass| if mediation.centred { bag_mass / total_mass } else { 0.0 })
            .collect();
        let weights = factor.solve(cross);
        check_mediators_kernel(&weights)?;
        Ok(Self {
            mediation: mediation.clone(),
            rows,
            targets: open.iter().copied().zip(times).collect(),
            bag_scaling: units,
            factor,
            ridges,
            weights,
            mass_shares: shares,
        })
    }

    /// S over all m targets, m × m.
    fn regression_covariance(&self, m: usize) -> Matrix {
        let (j, k) = (self.weights.rows(), self.weights.cols());
        let of_bags = self.rows.head(j);
        let of_targets = self.rows.select_rows(&(j..j + k).collect::<Vec<_>>());
        let mut whitened = self.mediation.kernel.cross_gram(&of_bags, &of_targets);
        self.factor.solve_lower_in_place(&mut whitened);
        let (prior, taken) =
            (self.mediation.kernel.gram(&of_targets), whitened.transpose().matmul(&whitened));
        let mut out = Matrix::zeros(m, m);
        for (c, (t, times)) in self.targets.iter().enumerate() {
            for (c2, (t2, times2)) in self.targets.iter().enumerate() {
                out[(*t, *t2)] = times * times2 * (prior[(c, c2)] - taken[(c, c2)]);
            }
        }
        out
    }
}
