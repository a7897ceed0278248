//! A model split by parts of its columns, such as the two items of a duel. No factor of the kernel may be a
//! joint function of several parts. Each term is then a product of kernels, one per part. Support points with
//! equal values in a part share computations: a model of duels between N items has N distinct rows in a part,
//! however many duels there are.

use std::collections::{BTreeMap, HashMap};

use super::KernelExpansion;
use crate::error::{Error, Result};
use crate::kernel::player_products::RadialApproximation;
use crate::kernel::{Columns, Kernel, Structure, Term};
use crate::linalg::{Matrix, dot};
use crate::simd::Isa;
use crate::table::Table;

/// The distinct rows of support points in the columns that a kernel reads, with this kernel.
#[derive(Debug, PartialEq)]
pub struct DistinctRows {
    /// The distinct rows, with the kernel's columns only.
    pub rows: Table,
    /// The kernel: one term with scale 1.
    pub kernel: Kernel,
}

impl DistinctRows {
    /// The most accurate approximation of radial factors, for rows about as far apart as these.
    pub fn radial_approximation(&self) -> RadialApproximation {
        RadialApproximation::most_accurate(Columns::from_row(&self.rows, 0), self.rows.width())
    }
}

/// The factors of a term that read the columns of one part.
#[derive(Debug)]
pub struct KernelView {
    /// The index of the part.
    pub part: usize,
    /// The indices of the domain's columns in the model.
    pub columns: Vec<usize>,
    /// The index of the domain.
    pub domain: usize,
    /// For each support point, its row of the domain.
    pub rows: Vec<u32>,
}

/// A term of the kernel with its coefficients. Support points with equal rows on all sides are merged into
/// one tuple.
#[derive(Debug)]
pub struct SparseTerm {
    /// The views whose kernels the term multiplies.
    pub sides: Vec<usize>,
    /// The rows of the tuples, tuples × sides, in ascending order.
    pub rows: Vec<u32>,
    /// Coefficients times the term's scale, outputs × tuples.
    pub coef: Vec<Vec<f64>>,
    /// The sums of the absolute values of the merged coefficients, outputs × tuples; rounding errors are
    /// relative to them.
    pub sizes: Vec<Vec<f64>>,
    /// The largest number of support points that were merged into one tuple.
    pub merged: usize,
}

/// A model split by parts of its columns; see the module.
#[derive(Debug)]
pub struct PartDecomposition {
    /// The views of the parts on the domains.
    pub views: Vec<KernelView>,
    /// Domains of the views; views with equal kernels and equal kinds of columns share one.
    pub domains: Vec<DistinctRows>,
    /// The terms of the sum of products.
    pub terms: Vec<SparseTerm>,
}

impl PartDecomposition {
    /// Splits a model by these lists of columns, which together contain every column of the model.
    ///
    /// # Errors
    /// [`Error::NotProduct`] for a factor that is a joint function of columns of several parts.
    pub fn new(model: &KernelExpansion, parts: &[Vec<usize>]) -> Result<Self> {
        let mut part_terms: Vec<(usize, Term)> = Vec::new();
        let mut sides = Vec::with_capacity(model.kernel.terms.len());
        for term in &model.kernel.terms {
            let mut term_sides = Vec::new();
            for (p, columns) in parts.iter().enumerate() {
                let part_term = (p, side(term, columns, model)?);
                if part_term.1.factors.is_empty() {
                    continue;
                }
                let position = part_terms.iter().position(|earlier| *earlier == part_term);
                term_sides.push(position.unwrap_or(part_terms.len()));
                if position.is_none() {
                    part_terms.push(part_term);
                }
            }
            sides.push(term_sides);
        }
        let mut decomposition = Self { views: Vec::new(), domains: Vec::new(), terms: Vec::new() };
        let mut numbers: Vec<HashMap<Vec<u64>, u32>> = Vec::new();
        for (part, term) in part_terms {
            let mut columns: Vec<usize> = term.factors.iter().flat_map(|f| f.columns()).copied().collect();
            columns.sort_unstable();
            columns.dedup();
            let kernel = Kernel { terms: vec![term] };
            let kernel = kernel.map_columns(&|j| columns.binary_search(&j).unwrap_or(j));
            let part_rows = model.support_points.select_columns(&columns);
            let is_same_domain = |d: &DistinctRows| {
                let kinds = part_rows.columns().iter().map(|c| &c.kind);
                d.rows.columns().iter().map(|c| &c.kind).eq(kinds) && d.kernel == kernel
            };
            let domain = decomposition.domains.iter().position(is_same_domain).unwrap_or_else(|| {
                decomposition.domains.push(DistinctRows { rows: part_rows.select_rows(&[]), kernel });
                numbers.push(HashMap::new());
                numbers.len() - 1
            });
            let (row_numbers, mut fresh) = (&mut numbers[domain], Vec::new());
            let number = |i: usize| {
                let next = row_numbers.len() as u32;
                let number = *row_numbers.entry(key(&part_rows.row(i))).or_insert(next);
                if number == next {
                    fresh.push(i);
                }
                number
            };
            let rows = (0..part_rows.rows()).map(number).collect();
            let known_rows = &mut decomposition.domains[domain].rows;
            *known_rows = known_rows.extended(&part_rows.select_rows(&fresh));
            decomposition.views.push(KernelView { part, columns, domain, rows });
        }
        let terms = model.kernel.terms.iter().zip(sides);
        decomposition.terms = terms
            .map(|(term, term_sides)| {
                SparseTerm::new(term.scale, term_sides, &decomposition.views, &model.coef)
            })
            .collect();
        Ok(decomposition)
    }

    /// Evaluates a view's kernel between a row of all columns and each row of its domain.
    fn read(&self, isa: Isa, view: &KernelView, x: &[f64], buffer: &mut Vec<f64>, out: &mut [f64]) {
        let DistinctRows { rows, kernel } = &self.domains[view.domain];
        let view_values: Vec<f64> = view.columns.iter().map(|&j| x[j]).collect();
        kernel.row(isa, Columns::from_row(rows, 0), &view_values, buffer, out);
    }

    /// The outputs, without intercepts, at a row of all columns.
    pub fn outputs_at(&self, isa: Isa, x: &[f64]) -> Vec<f64> {
        self.outputs(isa, &[x], &vec![None; self.terms.len()]).into_data()
    }

    /// The outputs, without intercepts, at rows of all columns: rows × outputs. `dense` holds matrices of
    /// each term's coefficients, or `None` if the term is summed tuple by tuple.
    fn outputs<R: AsRef<[f64]>>(&self, isa: Isa, rows: &[R], dense: &[Option<Vec<Matrix>>]) -> Matrix {
        let view_kernels = |view: &KernelView| {
            let points = self.domains[view.domain].rows.rows();
            let (mut out, mut buffer) = (Matrix::zeros(rows.len(), points), Vec::new());
            for (i, x) in rows.iter().enumerate() {
                self.read(isa, view, x.as_ref(), &mut buffer, out.row_mut(i));
            }
            out
        };
        let kernels: Vec<Matrix> = self.views.iter().map(view_kernels).collect();
        self.combine(rows.len(), &kernels, dense)
    }

    /// The outputs, without intercepts, of rows (rows × outputs) whose kernels on the views are given: for
    /// each view, rows × rows of its domain.
    fn combine<K: std::borrow::Borrow<Matrix>>(
        &self,
        rows: usize,
        kernels: &[K],
        dense: &[Option<Vec<Matrix>>],
    ) -> Matrix {
        let outputs = self.terms.first().map_or(0, |term| term.coef.len());
        let mut out = Matrix::zeros(rows, outputs);
        for (term, dense) in self.terms.iter().zip(dense) {
            let side_kernels: Vec<&Matrix> = term.sides.iter().map(|view| kernels[*view].borrow()).collect();
            for (o, coef) in term.coef.iter().enumerate() {
                match dense {
                    Some(matrices) => {
                        let products = side_kernels[0].matmul(&matrices[o]);
                        (0..rows).for_each(|i| out[(i, o)] += dot(products.row(i), side_kernels[1].row(i)));
                    }
                    None => (0..rows)
                        .for_each(|i| out[(i, o)] += term.sum(coef, |s, row| side_kernels[s][(i, row)])),
                }
            }
        }
        out
    }
}

/// Outputs of many rows at once. If most pairs of rows on two sides have a coefficient, as for landmarks, a
/// matrix product computes them.
pub struct BatchPredictor<'p> {
    parts: &'p PartDecomposition,
    /// For each term with two sides whose tuples fill at least a tenth of all pairs: for each output the
    /// coefficients, rows of the first side × rows of the second side.
    dense: Vec<Option<Vec<Matrix>>>,
    isa: Isa,
}

impl<'p> BatchPredictor<'p> {
    /// Prepares predictions of the decomposed model.
    pub fn new(parts: &'p PartDecomposition) -> Self {
        let matrix = |term: &SparseTerm| {
            let [first, second] = term.sides[..] else { return None };
            let size = |view: usize| parts.domains[parts.views[view].domain].rows.rows();
            let (rows, columns) = (size(first), size(second));
            let dense_matrix = |coef: &Vec<f64>| {
                let mut out = Matrix::zeros(rows, columns);
                coef.iter().enumerate().for_each(|(t, c)| out[(term.row(t, 0), term.row(t, 1))] += c);
                out
            };
            (10 * term.len() >= rows * columns).then(|| term.coef.iter().map(dense_matrix).collect())
        };
        Self { parts, dense: parts.terms.iter().map(matrix).collect(), isa: Isa::detect() }
    }

    /// The outputs, without intercepts, at rows of all columns: rows × outputs.
    pub fn predict(&self, rows: &[Vec<f64>]) -> Matrix {
        self.parts.outputs(self.isa, rows, &self.dense)
    }

    /// The outputs, without intercepts, of rows (rows × outputs) whose kernels on the views are given: for
    /// each view, rows × rows of its domain. The kernels may be means over some columns.
    pub fn combine<K: std::borrow::Borrow<Matrix>>(&self, rows: usize, kernels: &[K]) -> Matrix {
        self.parts.combine(rows, kernels, &self.dense)
    }
}

/// A key that is equal for equal rows: 0 and -0 are the same.
pub fn key(row: &[f64]) -> Vec<u64> {
    row.iter().map(|v| (v + 0.0).to_bits()).collect()
}

impl SparseTerm {
    fn new(scale: f64, sides: Vec<usize>, views: &[KernelView], coef: &Matrix) -> Self {
        // For each tuple the number of its support points, and for each output the sums of coefficients and
        // of their absolute values.
        let mut sums: BTreeMap<Vec<u32>, (usize, Vec<[f64; 2]>)> = BTreeMap::new();
        for i in 0..coef.rows() {
            let key = sides.iter().map(|view| views[*view].rows[i]).collect();
            let (count, tuple_sums) = sums.entry(key).or_insert_with(|| (0, vec![[0.0; 2]; coef.cols()]));
            *count += 1;
            for (sum, c) in tuple_sums.iter_mut().zip(coef.row(i)) {
                *sum = [sum[0] + c, sum[1] + c.abs()];
            }
        }
        let coefficients = |o: usize| sums.values().map(|(_, tuple_sums)| scale * tuple_sums[o][0]).collect();
        let sizes = |o: usize| sums.values().map(|(_, tuple_sums)| scale.abs() * tuple_sums[o][1]).collect();
        let coefs = (0..coef.cols()).map(coefficients).collect();
        let sizes = (0..coef.cols()).map(sizes).collect();
        let merged = sums.values().map(|(count, _)| *count).max().unwrap_or(0);
        Self { sides, rows: sums.into_keys().flatten().collect(), coef: coefs, sizes, merged }
    }

    /// The number of tuples.
    pub fn len(&self) -> usize {
        self.coef.first().map_or(0, Vec::len)
    }

    /// Runs of tuples that share the row of the first side: this row, and the range of the tuples.
    pub fn runs(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        let (width, count) = (self.sides.len(), self.len());
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = (from < count && width > 0).then(|| self.rows[from * width])?;
            let mut to = from + 1;
            while to < count && self.rows[to * width] == first {
                to += 1;
            }
            Some((first as usize, std::mem::replace(&mut from, to)..to))
        })
    }

    /// The row of a tuple on a side.
    pub fn row(&self, tuple: usize, side: usize) -> usize {
        self.rows[tuple * self.sides.len() + side] as usize
    }

    /// The sum over tuples of the coefficient times the product over sides of `number(side, row)`.
    pub fn sum(&self, coef: &[f64], number: impl Fn(usize, usize) -> f64) -> f64 {
        let other_sides =
            |tuple: usize| -> f64 { (1..self.sides.len()).map(|s| number(s, self.row(tuple, s))).product() };
        if self.sides.is_empty() {
            return coef.iter().sum();
        }
        let run = |(first, run): (usize, std::ops::Range<usize>)| {
            number(0, first) * run.map(|tuple| coef[tuple] * other_sides(tuple)).sum::<f64>()
        };
        self.runs().map(run).sum()
    }
}

/// The factors of a term that read these columns, restricted to them.
fn side(term: &Term, columns: &[usize], model: &KernelExpansion) -> Result<Term> {
    let mut factors = Vec::new();
    for factor in &term.factors {
        let shared_columns = factor.columns().iter().filter(|j| columns.contains(j)).count();
        if shared_columns == 0 {
            continue;
        }
        if shared_columns < factor.columns().len() && factor.structure() != Structure::Separable {
            let (factor, columns) = factor.describe(model.columns());
            return Err(Error::NotProduct { factor, columns });
        }
        factors.extend(factor.restricted(&|j| columns.contains(&j)));
    }
    Ok(Term { scale: 1.0, factors })
}
