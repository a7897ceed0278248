//! A model by parts of its columns that no factor of its kernel ties together, such as the two items of a duel: each term is a product of kernels, one a part, and
//! support points that are alike in a part share what is found there. A model of duels of N items has N rows a part, however many its duels.

use std::collections::{BTreeMap, HashMap};

use super::Expansion;
use crate::error::{Error, Result, listed};
use crate::kernel::{Columns, Kernel, Structure, Term};
use crate::linalg::Matrix;
use crate::simd::Isa;
use crate::table::{ColumnKind, Table};

/// What a part of the support points is, each once; parts that mean the same share one.
#[derive(Debug, PartialEq)]
pub(crate) struct Domain {
    /// The different rows, in the part's own columns.
    pub(crate) rows: Table,
    /// The kernels that terms have there, one term each, of scale 1.
    pub(crate) kernels: Vec<Kernel>,
}

/// Columns, and whose rows they hold.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) columns: Vec<usize>,
    pub(crate) domain: usize,
}

/// A term of the kernel with its coefficients: support points that are alike in all its sides are one.
#[derive(Debug)]
pub(crate) struct Tuples {
    /// The parts on which it depends, each with the number of the kernel there.
    pub(crate) sides: Vec<[usize; 2]>,
    /// Tuples × sides, in ascending order: the rows.
    pub(crate) rows: Vec<u32>,
    /// Outputs × tuples: coefficients times the term's scale.
    pub(crate) coef: Vec<Vec<f64>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) terms: Vec<Tuples>,
}

impl Parts {
    /// By these lists of columns, which together are all of them.
    ///
    /// # Errors
    /// [`Error::NotProduct`] for a kernel that ties columns of several parts together.
    pub(crate) fn new(model: &Expansion, columns: Vec<Vec<usize>>) -> Result<Self> {
        let mut kernels: Vec<Vec<Kernel>> = vec![Vec::new(); columns.len()];
        let mut sides = Vec::with_capacity(model.kernel.terms.len());
        for term in &model.kernel.terms {
            let mut own = Vec::new();
            for (p, columns) in columns.iter().enumerate() {
                let kernel = side(term, columns, model)?;
                if kernel.terms[0].factors.is_empty() {
                    continue;
                }
                let at = kernels[p].iter().position(|known| *known == kernel);
                own.push([p, at.unwrap_or(kernels[p].len())]);
                if at.is_none() {
                    kernels[p].push(kernel);
                }
            }
            sides.push(own);
        }
        let (mut domains, mut known): (Vec<Domain>, Vec<HashMap<Vec<u64>, u32>>) = (Vec::new(), Vec::new());
        let (mut parts, mut places) = (Vec::new(), Vec::new());
        for (columns, kernels) in columns.into_iter().zip(kernels) {
            let own = columns_of(&model.points, &columns)?;
            let kinds = |table: &Table| -> Vec<ColumnKind> {
                table.columns().iter().map(|c| c.kind.clone()).collect()
            };
            let alike = |d: &Domain| kinds(&d.rows) == kinds(&own) && d.kernels == kernels;
            let domain = domains.iter().position(alike).unwrap_or_else(|| {
                domains.push(Domain { rows: own.select_rows(&[]), kernels });
                known.push(HashMap::new());
                domains.len() - 1
            });
            let known = &mut known[domain];
            let before = known.len();
            let mut fresh = Vec::new();
            let numbers: Vec<u32> = (0..own.rows())
                .map(|i| {
                    // 0 and -0 are one.
                    let key = own.row(i).iter().map(|v| (v + 0.0).to_bits()).collect();
                    let next = (before + fresh.len()) as u32;
                    let number = *known.entry(key).or_insert(next);
                    if number == next {
                        fresh.push(i);
                    }
                    number
                })
                .collect();
            domains[domain].rows = stacked(&domains[domain].rows, &own.select_rows(&fresh))?;
            parts.push(Part { columns, domain });
            places.push(numbers);
        }
        let terms = model.kernel.terms.iter().zip(sides);
        let terms = terms.map(|(term, sides)| Tuples::new(term.scale, sides, &places, &model.coef)).collect();
        Ok(Self { parts, domains, terms })
    }

    /// The outputs without intercepts at a row of all columns.
    pub(crate) fn at(&self, isa: Isa, x: &[f64]) -> Vec<f64> {
        let mut buffer = Vec::new();
        let of = |part: &Part| -> Vec<Vec<f64>> {
            let domain = &self.domains[part.domain];
            let own: Vec<f64> = part.columns.iter().map(|&j| x[j]).collect();
            let row = |kernel: &Kernel| {
                let mut out = vec![0.0; domain.rows.rows()];
                kernel.row(isa, Columns::of(&domain.rows, 0), &own, &mut buffer, &mut out);
                out
            };
            domain.kernels.iter().map(row).collect()
        };
        let rows: Vec<Vec<Vec<f64>>> = self.parts.iter().map(of).collect();
        let outputs = self.terms.first().map_or(0, |term| term.coef.len());
        let mut out = vec![0.0; outputs];
        for term in &self.terms {
            let sides: Vec<&[f64]> = term.sides.iter().map(|[p, k]| &rows[*p][*k][..]).collect();
            for (out, coef) in out.iter_mut().zip(&term.coef) {
                *out += term.sum(coef, |s, row| sides[s][row]);
            }
        }
        out
    }
}

impl Tuples {
    fn new(scale: f64, sides: Vec<[usize; 2]>, places: &[Vec<u32>], coef: &Matrix) -> Self {
        let mut sums: BTreeMap<Vec<u32>, Vec<f64>> = BTreeMap::new();
        for i in 0..coef.rows() {
            let key = sides.iter().map(|[p, _]| places[*p][i]).collect();
            let own = sums.entry(key).or_insert_with(|| vec![0.0; coef.cols()]);
            own.iter_mut().zip(coef.row(i)).for_each(|(sum, c)| *sum += c);
        }
        let of = |o: usize| sums.values().map(|own| scale * own[o]).collect();
        let coef = (0..coef.cols()).map(of).collect();
        Self { sides, rows: sums.into_keys().flatten().collect(), coef }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.coef.first().map_or(0, Vec::len)
    }

    /// Tuples that share their first row: that row, and which they are.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
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
    pub(crate) fn row(&self, tuple: usize, side: usize) -> usize {
        self.rows[tuple * self.sides.len() + side] as usize
    }

    /// The sum over tuples of coefficients times the product over sides of numbers of rows.
    pub(crate) fn sum(&self, coef: &[f64], number: impl Fn(usize, usize) -> f64) -> f64 {
        let others =
            |tuple: usize| -> f64 { (1..self.sides.len()).map(|s| number(s, self.row(tuple, s))).product() };
        if self.sides.is_empty() {
            return coef.iter().sum();
        }
        let run = |(first, run): (usize, std::ops::Range<usize>)| {
            number(0, first) * run.map(|tuple| coef[tuple] * others(tuple)).sum::<f64>()
        };
        self.runs().map(run).sum()
    }
}

/// Those factors of a term that read these columns, as a kernel of them alone.
fn side(term: &Term, columns: &[usize], model: &Expansion) -> Result<Kernel> {
    let mut factors = Vec::new();
    for factor in &term.factors {
        let own = factor.columns().iter().filter(|j| columns.contains(j)).count();
        if own == 0 {
            continue;
        }
        if own < factor.columns().len() && factor.structure() != Structure::Separable {
            let name = |&j: &usize| model.columns()[j].name.as_str();
            let columns = listed(factor.columns().iter().map(name));
            return Err(Error::NotProduct { factor: factor.formula(), columns });
        }
        factors.extend(factor.restricted(&|j| columns.contains(&j)));
    }
    let kernel = Kernel { terms: vec![Term { scale: 1.0, factors }] };
    Ok(kernel.renumbered(&|j| columns.iter().position(|&k| k == j).unwrap_or(j)))
}

/// Some columns of a table.
pub(crate) fn columns_of(table: &Table, columns: &[usize]) -> Result<Table> {
    let names = columns.iter().map(|&j| table.columns()[j].clone()).collect();
    let values = columns.iter().flat_map(|&j| table.column(j)).copied().collect();
    Table::from_column_major(names, table.rows(), values)
}

/// Rows of columns under the first table's names.
fn stacked(above: &Table, below: &Table) -> Result<Table> {
    let columns = above.columns().to_vec();
    let values = (0..columns.len()).flat_map(|j| above.column(j).iter().chain(below.column(j)));
    let values = values.copied().collect();
    Table::from_column_major(columns, above.rows() + below.rows(), values)
}
