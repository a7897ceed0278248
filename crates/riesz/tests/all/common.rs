//! Test helpers: fixed and random numbers, tables and kernels, and reference results of other programs.

use std::path::Path;

use proptest::prelude::*;
use riesz::kernel::{Linear, Polynomial, Profile, Stationary};
use riesz::{Background, Game, Kernel, KernelExpansion, Matrix, Players, Question, Table};
use serde_json::Value;

/// Returns a pseudo-random number in [-1.5, 1.5].
pub fn number(i: usize, j: usize) -> f64 {
    ((i * 67 + j * 131 + i * j * 29 + i * i * 3) % 211) as f64 / 70.0 - 1.5
}

/// Returns rows `from..from + n` of an endless table of numbers.
pub fn table(from: usize, n: usize, d: usize) -> Table {
    let rows: Vec<Vec<f64>> = (from..from + n).map(|i| (0..d).map(|j| number(i, j)).collect()).collect();
    Table::from_rows(&rows).unwrap()
}

/// Returns the question for `game` with the players `groups`.
pub fn about(game: &Game, groups: &Players) -> Question {
    Question::from(game.clone()).with_players(Some(groups.clone()))
}

/// Returns a model of two outputs over the first `n` rows.
pub fn model(kernel: Kernel, n: usize, d: usize) -> KernelExpansion {
    let coef = Matrix::from_row_major(n, 2, (0..2 * n).map(|t| number(t, 5)).collect());
    KernelExpansion::new(kernel, table(0, n, d), coef, vec![0.3, -2.0]).unwrap()
}

/// Returns a stationary factor of one column.
pub fn stationary(profile: Profile, column: usize, length_scale: f64) -> Kernel {
    let (columns, length_scale) = (vec![column], vec![length_scale]);
    Stationary { profile, columns, length_scale, ard: true, isotropic: false }.into()
}

/// A deterministic stream of numbers.
pub struct Stream(pub u64);

impl Stream {
    /// Returns a number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number in [-1, 1).
    pub fn signed(&mut self) -> f64 {
        self.uniform() * 2.0 - 1.0
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn rows(&mut self, n: usize, d: usize, cell: impl Fn(&mut Self, usize) -> f64) -> Table {
        let rows: Vec<Vec<f64>> = (0..n).map(|_| (0..d).map(|j| cell(self, j)).collect()).collect();
        Table::from_rows(&rows).unwrap()
    }

    /// Returns a table whose last column has the levels 0, 1, 2; the others have numbers on several scales,
    /// with some zeros.
    pub fn table(&mut self, n: usize, d: usize) -> Table {
        self.rows(n, d, |s, j| match j {
            _ if j + 1 == d => (s.signed() * 1.5 + 1.5).floor(),
            _ if s.signed() > 0.8 => 0.0,
            _ => s.signed() * (1.0 + j as f64),
        })
    }

    pub fn normals(&mut self, n: usize, d: usize) -> Table {
        self.rows(n, d, |s, _| s.normal())
    }

    /// Returns a table of normal numbers, with the levels 0, 1, 2 in the last column.
    pub fn normals_and_levels(&mut self, n: usize, d: usize) -> Table {
        self.rows(n, d, |s, j| if j + 1 == d { (3.0 * s.uniform()).floor() } else { s.normal() })
    }
}

/// A sum of products of one-column kernels, each with its column.
pub type Terms = Vec<(f64, Vec<(usize, Kernel)>)>;

/// Returns the value of the coalition `s` of `players`, which are lists of columns, from the game's
/// definition. It uses predictions at hybrid rows, which do not rely on products, or the one-column kernels
/// `terms` of the model's kernel.
pub fn value(
    model: &KernelExpansion,
    terms: &Terms,
    game: &Game,
    x: &[f64],
    output: usize,
    players: &[Vec<usize>],
    s: &[bool],
) -> f64 {
    let present =
        |j: usize| players.iter().zip(s).any(|(columns, &is_present)| is_present && columns.contains(&j));
    let background = match game {
        Game::Functional => None,
        Game::Baseline { point } => Some(Background::from(point.clone())),
        Game::Interventional { background } | Game::MarginalProduct { background } => {
            Some(background.clone())
        }
        other => panic!("no definition of {other:?}"),
    };
    let reference: Vec<(f64, Vec<f64>)> = background.map_or(Vec::new(), |background| {
        let raw = background.weights.unwrap_or_else(|| vec![1.0; background.rows.rows()]);
        let total: f64 = raw.iter().sum();
        raw.iter().enumerate().map(|(b, w)| (w / total, background.rows.row(b))).collect()
    });
    if matches!(game, Game::Baseline { .. } | Game::Interventional { .. }) {
        let mixed =
            |b: &[f64]| (0..x.len()).map(|j| if present(j) { x[j] } else { b[j] }).collect::<Vec<_>>();
        let prediction =
            |b: &[f64]| model.predict(&Table::from_rows(&[mixed(b)]).unwrap()).unwrap()[(0, output)];
        return reference.iter().map(|(w, b)| w * prediction(b)).sum();
    }
    let mut sum = model.intercept[output];
    for i in 0..model.support_points.rows() {
        let point = model.support_points.row(i);
        for (scale, factors) in terms {
            let mut product = scale * model.coef[(i, output)];
            for (columns, &is_present) in players.iter().zip(s) {
                let player_factors = factors.iter().filter(|(j, _)| columns.contains(j));
                let kernel_value =
                    |row: &[f64]| player_factors.clone().map(|(_, k)| k.eval(&point, row)).product::<f64>();
                if is_present {
                    product *= kernel_value(x);
                } else if matches!(game, Game::MarginalProduct { .. }) {
                    product *= reference.iter().map(|(w, b)| w * kernel_value(b)).sum::<f64>();
                }
            }
            sum += product;
        }
    }
    sum
}

/// Rows on a coarse grid, so that duplicates occur.
pub fn points(fewer_than: usize) -> impl Strategy<Value = Vec<[f64; 2]>> {
    let point = [-8..8_i32, -8..8_i32].prop_map(|p| p.map(|v| f64::from(v) * 0.25));
    prop::collection::vec(point, 8..fewer_than)
}

/// Returns the class names 0, 1, …
pub fn names(k: usize) -> Vec<String> {
    (0..k).map(|c| c.to_string()).collect()
}

pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |largest: f64, (a, b)| largest.max((a - b).abs()))
}

/// Returns the result of `run` on a pool of `threads` threads.
pub fn with_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
}

/// Reads a file of `tests/data`, written by one of `scripts/oracles`.
pub fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

pub fn lists(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

pub fn matrix(value: &Value) -> Matrix {
    let rows = lists(value);
    Matrix::from_row_major(rows.len(), rows[0].len(), rows.concat())
}

/// Returns a kernel from its name and parameters in scikit-learn.
pub fn kernel(value: &Value, width: usize) -> Kernel {
    let columns: Vec<usize> = (0..width).collect();
    let (center, scale) = (vec![0.0; width], vec![1.0; width]);
    let number = |name: &str| value[name].as_f64().unwrap();
    match value["kernel"].as_str().unwrap() {
        "rbf" => Stationary {
            profile: Profile::Gaussian,
            columns,
            length_scale: vec![(0.5 / number("gamma")).sqrt(); width],
            ard: false,
            isotropic: true,
        }
        .into(),
        "linear" => Linear { columns, center, scale }.into(),
        "poly" => Polynomial {
            columns,
            center,
            scale,
            gamma: number("gamma"),
            coef0: number("coef0"),
            degree: number("degree") as u32,
        }
        .into(),
        other => panic!("kernel {other}"),
    }
}
