use riesz::fit::{GaussianProcess, Tune};
use riesz::linalg::Cholesky;
use riesz::{Kernel, Matrix, Table};
use std::time::Instant;
fn main() {
    let mut st = 1u64;
    let mut draw = || {
        st = st.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((st >> 11) as f64) / (1u64 << 52) as f64 - 1.0
    };
    for n in [2000usize, 4000] {
        let rows: Vec<Vec<f64>> = (0..n).map(|_| (0..10).map(|_| draw()).collect()).collect();
        let y: Vec<f64> = rows.iter().map(|r| r[0].sin() + r[1] * r[2]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let k = Kernel::gaussian(&[1.0; 10]);
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                for _ in 0..2 {
                    let t = Instant::now();
                    let mut g = k.gram(&x);
                    let a = t.elapsed().as_secs_f64();
                    g.add_diagonal(|_| 0.1);
                    let t = Instant::now();
                    let f = Cholesky::new(g, "x").unwrap();
                    let b = t.elapsed().as_secs_f64();
                    let t = Instant::now();
                    f.solve_vector(&y);
                    let c = t.elapsed().as_secs_f64();
                    let mut gp = GaussianProcess::new(k.clone(), 0.1);
                    gp.tune = Tune::Nothing;
                    let t = Instant::now();
                    gp.fit(&x, &Matrix::column_vector(y.clone())).unwrap();
                    println!(
                        "{n} {threads} gram {a:.3} chol {b:.3} solve {c:.4} fit {:.3}",
                        t.elapsed().as_secs_f64()
                    );
                }
            });
        }
    }
}
