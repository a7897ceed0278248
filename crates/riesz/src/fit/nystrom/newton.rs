//! Kernel logistic regression of two classes through landmarks, by Newton's method: a pass over all rows for each step, of which only whole numbers are kept.
//!
//! `min Σ_i w_i log(1 + exp(-s_i f(x_i))) + (ridge/2) ‖f‖²`, s = ±1, over functions of the landmarks and a constant. A step solves `(Kᵀ D K + ridge P) d = Kᵀ w (y - p) - ridge P θ` with
//! D = w p (1 - p). The gram matrix is rounded, which changes the way; the gradient is not (to 2⁻⁴²), which decides where it ends.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::parts::{decode, encode};
use super::plan::{Plan, penalty};
use super::residual::{Coefficients, predictions};
use super::rows::Rows;
use super::statistics::whole;
use crate::error::{Error, Result};
use crate::expansion::{Expansion, Link};
use crate::explanation::Fact;
use crate::kernel::Columns;
use crate::linalg::fixed::{self, BITS, IntegerGram, ONE, packed_len, two_slices};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::simd::Isa;

/// Rows at a time.
const RUN: usize = 1024;

/// Gradient, curvature and loss of some rows at coefficients.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    plan: String,
    coefficients: String,
    units: BTreeSet<u64>,
    rows: u64,
    gram: Vec<i128>,
    cross: Vec<i128>,
    loss: i128,
}

#[derive(Serialize, Deserialize)]
struct Record {
    slope: String,
    coefficients: String,
    units: BTreeSet<u64>,
    rows: u64,
}

impl Slope {
    /// Of no rows.
    pub fn empty(plan: &Plan, coefficients: &Coefficients) -> Self {
        Self {
            plan: plan.digest(),
            coefficients: coefficients.digest(),
            units: BTreeSet::new(),
            rows: 0,
            gram: vec![0; packed_len(plan.size())],
            cross: vec![0; plan.size()],
            loss: 0,
        }
    }

    /// The units whose rows it counts.
    pub fn units(&self) -> &BTreeSet<u64> {
        &self.units
    }

    /// How many rows it counts.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds that of other units.
    ///
    /// # Errors
    /// [`Error::Format`] if it is of another plan or other coefficients, or a unit is in both.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if (&self.plan, &self.coefficients) != (&other.plan, &other.coefficients) {
            return Err(Error::Format {
                problem: "these slopes are of another plan or of other coefficients".into(),
            });
        }
        if let Some(twice) = self.units.intersection(&other.units).next() {
            return Err(Error::Format {
                problem: format!("unit {twice} is in both slopes, and its rows would count twice"),
            });
        }
        self.units.extend(&other.units);
        self.rows += other.rows;
        self.loss += other.loss;
        for (own, other) in [(&mut self.gram, &other.gram), (&mut self.cross, &other.cross)] {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        Ok(())
    }

    /// As a file. The same slopes have the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let record = Record {
            slope: self.plan.clone(),
            coefficients: self.coefficients.clone(),
            units: self.units.clone(),
            rows: self.rows,
        };
        encode(&record, &[&self.gram, &self.cross, &[self.loss]])
    }

    /// From a file, by the plan and coefficients that it should be of.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of others.
    pub fn from_bytes(plan: &Plan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "slopes")?;
        let mut all = Self::empty(plan, coefficients);
        if (&record.slope, &record.coefficients) != (&all.plan, &all.coefficients)
            || numbers.len() != all.gram.len() + all.cross.len() + 1
        {
            return Err(Error::Format {
                problem: "these slopes are of another plan or of other coefficients".into(),
            });
        }
        let (gram, rest) = numbers.split_at(all.gram.len());
        (all.gram, all.cross, all.loss) =
            (gram.to_vec(), rest[..all.cross.len()].to_vec(), rest[all.cross.len()]);
        (all.units, all.rows) = (record.units, record.rows);
        Ok(all)
    }
}

/// A slope of rows that come one part after the other.
pub struct Sloping<'p> {
    plan: &'p Plan,
    coefficients: &'p Coefficients,
    points: Vec<Vec<f64>>,
    all: Slope,
    gram: IntegerGram,
    block: Vec<f64>,
    scratch: Vec<f64>,
}

impl<'p> Sloping<'p> {
    /// Of no rows yet.
    pub fn new(plan: &'p Plan, coefficients: &'p Coefficients) -> Self {
        Self {
            points: (0..plan.landmarks.rows()).map(|i| plan.landmarks.row(i)).collect(),
            all: Slope::empty(plan, coefficients),
            gram: IntegerGram::new(plan.size()),
            block: Vec::new(),
            scratch: Vec::new(),
            plan,
            coefficients,
        }
    }

    /// Adds rows, whose target is 0 or 1. Cost O(rows landmarks (landmarks + columns)).
    ///
    /// # Errors
    /// As [`Accumulator::add`](super::Accumulator::add); [`Error::Target`] for other targets.
    pub fn add(&mut self, rows: &Rows) -> Result<()> {
        let Self { plan, coefficients, points, all, gram, block, scratch } = self;
        let x = rows.x.conform(plan.landmarks.columns())?;
        let scaled = plan.scaled(rows)?;
        if let Some(bad) = rows.y.data().iter().find(|y| **y != 0.0 && **y != 1.0) {
            return Err(Error::Target {
                name: "target".into(),
                problem: format!("holds {bad}, and classes are 0 and 1 here"),
            });
        }
        let (m, isa) = (points.len(), Isa::detect());
        for start in (0..rows.len()).step_by(RUN) {
            let n = RUN.min(rows.len() - start);
            let features = Columns::new(x.column_major(), x.rows(), start, n);
            let values = predictions(plan, points, &coefficients.values, features, block);
            let (mut first, mut second, mut curvature) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            for i in 0..n {
                let (f, y, root) = (values[i], rows.y.data()[start + i], scaled.root(start + i));
                // Of the class that it is, and of the other.
                let s = if y > 0.0 { f } else { -f };
                let other = 1.0 / (1.0 + libm::exp(s));
                let error = if y > 0.0 { other } else { -other };
                (first[i], second[i]) = two_slices(error * root * ONE);
                // At most one half, doubled.
                curvature[i] = 2.0 * (other * (1.0 - other)).max(0.0).sqrt() * root;
                let loss = libm::log1p(libm::exp(-s.abs())) + (-s).max(0.0);
                if !loss.is_finite() {
                    return Err(Error::Overflow {
                        what: format!("the prediction of row {}", start + i + 1),
                        remedy: "regularise more, or standardise the columns",
                    });
                }
                all.loss += (loss * root * root * ONE * ONE).round() as i128;
            }
            block.resize(n * (m + 1), plan.bound);
            block[n * m..].fill(plan.bound);
            let scale = ONE / plan.bound;
            let roots = scaled.roots(start, n);
            let column = |own: &mut [f64]| -> i128 {
                let [a, b] = fixed::sliced_products(isa, own, scale, roots, [&first, &second]);
                fixed::round(isa, own, scale, &curvature);
                (whole(a.0, a.1) << BITS) + whole(b.0, b.1)
            };
            let sums: Vec<i128> = block.par_chunks_mut(n).map(column).collect();
            all.cross.iter_mut().zip(sums).for_each(|(sum, own)| *sum += own);
            gram.add(block, n, scratch);
        }
        all.rows += rows.len() as u64;
        Ok(())
    }

    /// The slope of all rows, as that of one unit.
    pub fn finish(mut self, unit: u64) -> Slope {
        self.all.gram = self.gram.into_sums();
        self.all.units = BTreeSet::from([unit]);
        self.all
    }
}

/// Newton's method, step by step.
#[derive(Debug, Clone)]
pub struct Newton {
    plan: Plan,
    /// The penalty.
    pub ridge: f64,
    intercept: bool,
    /// The two classes.
    classes: Vec<String>,
    /// P.
    penalty: Matrix,
    /// Where the next slope is to be taken.
    pub coefficients: Coefficients,
    /// Where the last good slope was taken, and the objective there.
    last: Option<(Matrix, f64)>,
    /// Slopes so far.
    pub passes: usize,
    /// `gᵀ H⁻¹ g` at the last of them: twice what the objective is above its least, about.
    pub decrement: f64,
    jitter: f64,
    rows: u64,
    /// Whether it has ended.
    pub converged: bool,
}

/// Decrements, relative to the objective, after which one step more is the last: they square.
const LAST: f64 = 1e-9;
/// Decrements that no longer shrink by half, relative to the objective, which is as near its least.
const STALLED: f64 = 1e-6;

impl Newton {
    /// From coefficients of 0.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a ridge that is not positive; [`Error::Target`] if there are not two classes.
    pub fn new(plan: &Plan, ridge: f64, intercept: bool, classes: &[String]) -> Result<Self> {
        crate::fit::positive("ridge", ridge)?;
        if plan.targets.len() != 1 || plan.targets[0].center != 0.5 || classes.len() != 2 {
            let problem =
                "has not exactly two classes, 0 and 1, as classification through landmarks needs".into();
            return Err(Error::Target { name: "target".into(), problem });
        }
        Ok(Self {
            penalty: penalty(plan),
            coefficients: Coefficients { values: Matrix::zeros(plan.size(), 1) },
            plan: plan.clone(),
            ridge,
            intercept,
            classes: classes.to_vec(),
            last: None,
            passes: 0,
            decrement: f64::INFINITY,
            jitter: 0.0,
            rows: 0,
            converged: false,
        })
    }

    /// Takes a step by the slope of all rows at [`coefficients`](Self::coefficients). Cost O(landmarks³).
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`] where steps no longer help.
    pub fn step(&mut self, slope: &Slope) -> Result<()> {
        let (p, weight) = (self.plan.size(), self.plan.largest_weight.unwrap_or(1.0));
        let theta = self.coefficients.values.data().to_vec();
        let pull: Vec<f64> = self.penalty.matvec(&theta).iter().map(|v| self.ridge * v).collect();
        let loss = slope.loss as f64 * 0.5_f64.powi(2 * BITS) * weight;
        let objective = loss + 0.5 * dot(&theta, &pull);
        (self.passes, self.rows) = (self.passes + 1, slope.rows);
        if let Some((before, least)) = &self.last
            && objective > least + 1e-12 * least.abs()
        {
            // Back halfway.
            let half = before.data().iter().zip(&theta).map(|(a, b)| 0.5 * (a + b)).collect();
            let half = Matrix::from_row_major(p, 1, half);
            if self.passes > 60 || half == *before {
                return Err(Error::NotConverged {
                    method: "the logistic regression through landmarks",
                    iterations: self.passes,
                    change: objective - least,
                    remedy: "raise the ridge",
                });
            }
            self.coefficients = Coefficients { values: half };
            return Ok(());
        }
        let size = if self.intercept { p } else { p - 1 };
        let unit = |j: usize| if j + 1 < p { self.plan.bound } else { 1.0 };
        let step = 0.5_f64.powi(2 * BITS) * weight / 4.0;
        let mut matrix = Matrix::zeros(size, size);
        let mut at = 0;
        for j in 0..p {
            for i in j..p {
                if i < size && j < size {
                    let own =
                        slope.gram[at] as f64 * step * unit(i) * unit(j) + self.ridge * self.penalty[(i, j)];
                    (matrix[(i, j)], matrix[(j, i)]) = (own, own);
                }
                at += 1;
            }
        }
        let step = 0.5_f64.powi(4 * BITS) * weight;
        let gradient: Vec<f64> =
            (0..size).map(|j| slope.cross[j] as f64 * step * unit(j) - pull[j]).collect();
        let factor = Cholesky::new(matrix, "matrix of Newton's method")?;
        self.jitter = factor.jitter;
        let change = factor.solve_vector(&gradient);
        let before = std::mem::replace(&mut self.decrement, dot(&gradient, &change));
        self.last = Some((self.coefficients.values.clone(), objective));
        let mut values = theta;
        values.iter_mut().zip(&change).for_each(|(v, c)| *v += c);
        self.coefficients = Coefficients { values: Matrix::from_row_major(p, 1, values) };
        // Or rounding is all that moves it.
        let stalls = self.decrement <= STALLED * objective.abs() && self.decrement > 0.5 * before;
        self.converged = self.decrement <= LAST * objective.abs() || stalls;
        if self.passes > 100 && !self.converged {
            let remedy = "raise the ridge";
            let (method, iterations) = ("the logistic regression through landmarks", self.passes);
            return Err(Error::NotConverged { method, iterations, change: self.decrement, remedy });
        }
        Ok(())
    }

    /// The model, as far as it is.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn model(&self) -> Result<Expansion> {
        let m = self.plan.landmarks.rows();
        let values = self.coefficients.values.data();
        let model = Expansion {
            kernel: self.plan.kernel.clone(),
            points: self.plan.landmarks.clone(),
            coef: Matrix::column_vector(values[..m].to_vec()),
            intercept: vec![values[m]],
            output_names: vec![format!("{} vs {}", self.classes[1], self.classes[0])],
            link: Link::Logistic,
            classes: self.classes.clone(),
            card: vec![
                Fact::new("model", "kernel logistic regression through landmarks"),
                Fact::measured("ridge", self.ridge),
                Fact::measured("jitter", self.jitter),
                Fact::new("landmarks", m),
                Fact::measured("unexplained share of the kernel", self.plan.unexplained),
                Fact::new("rows", self.rows),
                Fact::new("passes", self.passes),
                Fact::measured("decrement before the last step", self.decrement),
                Fact::measured(
                    "objective before the last step",
                    self.last.as_ref().map_or(f64::NAN, |(_, least)| *least),
                ),
                Fact::new("plan", &self.plan.digest()[..16]),
            ],
        };
        model.validate()?;
        Ok(model)
    }
}
