//! Clusters of comparable items: k-means against enumeration, the algebra of blocks, recovery of known
//! clusters, and invariances.

use riesz::preference::clusters::{
    ClusterCount, Clusterer, ClusteringMethod, Clusters, KMeans, adjusted_rand, renumbered, singular_vectors,
    spectral_embedding,
};
use riesz::preference::{Duels, PreferenceProcess};
use riesz::{Kernel, Matrix, Table};

use crate::common::Stream;

/// Returns every assignment of n items to k clusters.
fn assignments(n: usize, k: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..k.pow(n as u32)).map(move |code| (0..n).map(|i| code / k.pow(i as u32) % k).collect())
}

#[test]
fn kmeans_finds_the_best_of_all_partitions() {
    let mut s = Stream(4);
    let x = Matrix::from_row_major(9, 2, (0..18).map(|_| s.normal()).collect());
    for k in 1..=3 {
        let inertia = |labels: &Vec<usize>| -> f64 {
            let cluster_inertia = |c: usize| {
                let members: Vec<usize> = (0..9).filter(|&i| labels[i] == c).collect();
                // Half the sum of squared distances over all pairs of members, divided by their number.
                let pairs = members.iter().flat_map(|&i| members.iter().map(move |&j| (i, j)));
                let sum: f64 =
                    pairs.map(|(i, j)| (0..2).map(|c| (x[(i, c)] - x[(j, c)]).powi(2)).sum::<f64>()).sum();
                sum / (2 * members.len().max(1)) as f64
            };
            (0..k).map(cluster_inertia).sum()
        };
        let best = assignments(9, k).map(|l| (inertia(&l), l)).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let fitted = KMeans::fit(&x, k, 20, 0);
        assert!((fitted.inertia - best.0).abs() < 1e-12, "{} {}", fitted.inertia, best.0);
        assert_eq!(fitted.labels, renumbered(&best.1));
    }
    // All rows equal, and as many clusters as rows.
    assert!(KMeans::fit(&Matrix::zeros(4, 2), 2, 3, 0).inertia == 0.0);
    assert_eq!(KMeans::fit(&x, 9, 3, 0).labels, (0..9).collect::<Vec<_>>());
}

/// The adjusted Rand index against its definition over pairs of items and scikit-learn's documented values.
#[test]
fn the_adjusted_rand_index_counts_pairs() {
    assert!((adjusted_rand(&[0, 0, 1, 1], &[0, 0, 1, 2]) - 4.0 / 7.0).abs() < 1e-12);
    assert_eq!(adjusted_rand(&[0, 0, 0, 0], &[0, 1, 2, 3]), 0.0);
    assert!((adjusted_rand(&[0, 0, 1, 2], &[0, 0, 1, 1]) - 4.0 / 7.0).abs() < 1e-12);
    assert_eq!(adjusted_rand(&[0, 0, 1], &[5, 5, 2]), 1.0);
    assert_eq!(adjusted_rand(&[0, 0], &[1, 1]), 1.0);
    let mut s = Stream(1);
    let labels = |s: &mut Stream, k: f64| (0..30).map(|_| (s.uniform() * k) as usize).collect::<Vec<_>>();
    let (a, b) = (labels(&mut s, 3.0), labels(&mut s, 4.0));
    let [mut joint, mut first, mut second, mut n_pairs] = [0.0; 4];
    for i in 0..30 {
        for j in 0..i {
            let (x, y) = (f64::from(u8::from(a[i] == a[j])), f64::from(u8::from(b[i] == b[j])));
            (joint, first, second, n_pairs) = (joint + x * y, first + x, second + y, n_pairs + 1.0);
        }
    }
    let truth = (joint - first * second / n_pairs) / (0.5 * (first + second) - first * second / n_pairs);
    assert!((adjusted_rand(&a, &b) - truth).abs() < 1e-12);
}

/// Rankings within blocks: each block has one pair of equal singular values, n_c times the standard deviation
/// of its utility. The projector has no entries between blocks.
#[test]
fn blocks_are_pairs_of_singular_values() {
    let mut s = Stream(8);
    let sizes = [5, 7, 4];
    let cluster: Vec<usize> = sizes.iter().enumerate().flat_map(|(c, n)| vec![c; *n]).collect();
    let utility: Vec<f64> = cluster.iter().map(|c| (1.0 + *c as f64) * s.normal()).collect();
    let n = cluster.len();
    let mut g = Matrix::zeros(n, n);
    for i in 0..n {
        for j in (0..n).filter(|&j| cluster[i] == cluster[j]) {
            g[(i, j)] = utility[i] - utility[j];
        }
    }
    let (values, vectors) = singular_vectors(&g, 3).unwrap();
    let mut expected: Vec<f64> = (0..3)
        .flat_map(|c| {
            let utilities: Vec<f64> = (0..n).filter(|&i| cluster[i] == c).map(|i| utility[i]).collect();
            let m = utilities.len() as f64;
            let mean = utilities.iter().sum::<f64>() / m;
            let sd = (utilities.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / m).sqrt();
            [m * sd, m * sd]
        })
        .collect();
    expected.sort_by(|a, b| b.total_cmp(a));
    for (t, value) in values.iter().enumerate() {
        assert!((value - expected.get(t).unwrap_or(&0.0)).abs() < 1e-6, "{values:?} {expected:?}");
    }
    let projector = vectors.matmul(&vectors.transpose());
    for (i, a) in cluster.iter().enumerate() {
        for (j, b) in cluster.iter().enumerate() {
            let projected: f64 = (0..n).map(|t| g[(i, t)] * projector[(t, j)]).sum();
            assert!((projected - g[(i, j)]).abs() < 1e-9);
            assert!(a == b || projector[(i, j)].abs() < 1e-9);
        }
    }
    assert!(singular_vectors(&g, 9).unwrap_err().to_string().contains("two singular vectors"));
    // Spectral clustering finds the blocks of a graph.
    let mut size = g.clone();
    size.data_mut().iter_mut().for_each(|v| *v = v.abs());
    assert_eq!(KMeans::fit(&spectral_embedding(&size, 3).unwrap(), 3, 20, 0).labels, renumbered(&cluster));
}

/// Simulates rankings within clusters of items, and coin tosses between clusters; covariates separate the
/// clusters.
pub fn simulated(
    clusters: usize,
    items: usize,
    density: f64,
    shift: f64,
    seed: u64,
) -> (Table, Duels, Vec<usize>) {
    let mut s = Stream(seed);
    let labels: Vec<usize> = (0..items).map(|i| i % clusters).collect();
    let rows: Vec<[f64; 2]> =
        labels.iter().map(|c| [s.normal() + shift * *c as f64, s.normal() - shift * *c as f64]).collect();
    let utility: Vec<f64> = rows
        .iter()
        .zip(&labels)
        .map(|(x, c)| {
            4.0 * (1.3 * x[0] + 2.0 * *c as f64).sin() + 2.0 * if c % 2 == 0 { x[1] } else { -x[1] }
        })
        .collect();
    let (mut left, mut right, mut won) = (vec![], vec![], vec![]);
    for i in 0..items {
        for j in 0..i {
            if s.uniform() < density {
                let g = if labels[i] == labels[j] { utility[i] - utility[j] } else { 0.0 };
                left.push(i);
                right.push(j);
                won.push(f64::from(u8::from(s.uniform() < 1.0 / (1.0 + (-g).exp()))));
            }
        }
    }
    let duels = Duels::new(items, &left, &right, &won, None).unwrap();
    (Table::from_rows(&rows).unwrap(), duels, labels)
}

fn clusterer(method: ClusteringMethod, count: ClusterCount) -> Clusterer {
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.5, 1.5]));
    (process.tune, process.prior.utility_variance, process.prior.generalised_variance) = (false, 6.0, 6.0);
    Clusterer { method, count, ..Clusterer::new(process, 3) }
}

#[test]
fn mixtures_find_known_clusters_and_their_number() {
    for (clusters, covariates) in [(1, true), (2, true), (2, false)] {
        let (items, duels, truth) = simulated(clusters, 24, 0.9, 0.8, 5);
        let estimator = clusterer(ClusteringMethod::Mixture { covariates, starts: 8 }, ClusterCount::UpTo(3));
        let clustering = Clusterer { subsamples: 2, ..estimator }.fit(&items, &duels).unwrap();
        assert_eq!(clustering.count, clusters, "{:?}", clustering.bounds);
        assert!(adjusted_rand(&clustering.labels, &truth) > 0.8, "{:?}", clustering.labels);
        assert!(clustering.stability.unwrap() > 0.5, "{:?}", clustering.stability);
        assert_eq!(clustering.bounds.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [1, 2, 3]);
        for sweep in clustering.sweeps.windows(2) {
            assert!(sweep[1] >= sweep[0] - 1e-9, "{sweep:?}");
        }
        for i in 0..24 {
            let row = clustering.memberships.row(i);
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(row.iter().all(|q| *q <= row[clustering.labels[i]]));
        }
    }
}

#[test]
fn tuning_raises_the_bound() {
    let (items, duels, _) = simulated(2, 20, 0.9, 0.8, 11);
    let mut estimator =
        clusterer(ClusteringMethod::Mixture { covariates: true, starts: 2 }, ClusterCount::Fixed(2));
    estimator.process.prior.utility_variance = 0.05;
    let before = estimator.fit(&items, &duels).unwrap();
    estimator.process.tune = true;
    let after = estimator.fit(&items, &duels).unwrap();
    assert!(after.bounds[0].1 > before.bounds[0].1 + 5.0, "{:?} {:?}", after.bounds, before.bounds);
}

/// Clusters do not depend on sides, item order and threads, and the published methods find clear clusters.
#[test]
fn clusters_ignore_sides_item_order_and_threads() {
    let (items, duels, truth) = simulated(2, 20, 1.0, 1.6, 3);
    let order: Vec<usize> = (0..20).map(|i| (7 * i + 3) % 20).collect();
    let place = |i: usize| order.iter().position(|o| *o == i).unwrap();
    let (left, right): (Vec<usize>, Vec<usize>) =
        duels.pairs().iter().map(|&(l, r)| (place(r), place(l))).unzip();
    let won: Vec<f64> = duels.outcome().iter().map(|s| 1.0 - s).collect();
    let other = Duels::new(20, &left, &right, &won, Some(duels.weight())).unwrap();
    let methods = [
        (ClusteringMethod::Mixture { covariates: true, starts: 0 }, 0.8),
        (ClusteringMethod::Spectral, 0.5),
        (ClusteringMethod::Covariates, 0.5),
        (ClusteringMethod::Generalised, -1.0),
        (ClusteringMethod::Comparisons, -1.0),
        (ClusteringMethod::Abstaining { threshold: 0.1 }, -1.0),
    ];
    for (method, agreement) in methods {
        let estimator = clusterer(method, ClusterCount::Fixed(2));
        let fit = |items: &Table, duels: &Duels, threads: usize| -> Clusters {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| estimator.fit(items, duels).unwrap())
        };
        let clustering = fit(&items, &duels, 1);
        assert_eq!(clustering, fit(&items, &duels, 3));
        assert!(adjusted_rand(&clustering.labels, &truth) > agreement, "{method:?} {:?}", clustering.labels);
        // The singular vectors are white, so that k-means has many maxima there, and the order determines
        // which is found.
        if agreement < 0.0 {
            continue;
        }
        let permuted = fit(&items.select_rows(&order), &other, 2);
        let back: Vec<usize> = (0..20).map(|i| permuted.labels[place(i)]).collect();
        assert_eq!(adjusted_rand(&back, &clustering.labels), 1.0, "{method:?}");
        for ((_, a), (_, b)) in clustering.bounds.iter().zip(&permuted.bounds) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }
}

#[test]
fn impossible_clusterings_are_refused() {
    let (items, duels, _) = simulated(2, 8, 1.0, 1.0, 1);
    let assert_refused = |estimator: Clusterer, words: &str| {
        let error = estimator.fit(&items, &duels).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    assert_refused(clusterer(ClusteringMethod::Spectral, ClusterCount::UpTo(3)), "only the mixture");
    assert_refused(
        clusterer(ClusteringMethod::Covariates, ClusterCount::Fixed(9)),
        "from 1 to the number of items, 8",
    );
    assert_refused(clusterer(ClusteringMethod::Generalised, ClusterCount::Fixed(0)), "from 1");
    assert_refused(clusterer(ClusteringMethod::Generalised, ClusterCount::Fixed(5)), "two singular vectors");
    assert_refused(
        clusterer(ClusteringMethod::Abstaining { threshold: 0.5 }, ClusterCount::Fixed(2)),
        "less than 0.5",
    );
    let stopped = clusterer(ClusteringMethod::Covariates, ClusterCount::Fixed(2));
    stopped.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(stopped.fit(&items, &duels), Err(riesz::Error::Interrupted));
}
