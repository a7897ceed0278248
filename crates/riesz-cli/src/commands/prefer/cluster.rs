//! `riesz prefer cluster`.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use riesz::Matrix;
use riesz::preference::Duels;
use riesz::preference::clusters::{ClusterCount, Clusterer, ClusteringMethod, adjusted_rand};
use riesz_report::{PlotOptions, render_preference_matrix};

use super::shared_fit::{Learn, Model, described, duels};
use crate::args::Global;
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::duels::Items;
use crate::io::picture::{drawn, in_pixels};
use crate::io::write::{Cells, TableWriter};

/// Largest number of items in a picture.
const DRAWN: usize = 150;

/// Arguments of `prefer cluster`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer cluster players.csv matches.csv --id name
  riesz prefer cluster players.csv matches.csv --clusters 3 --method spectral -o clusters.csv --plot matrix.svg

Within a cluster a ranking holds; between clusters each outcome has probability one half. The table
has the columns item, cluster (from 1) and probability of the membership, for methods that estimate
it.")]
pub struct Args {
    /// Options for reading the tables and for the model.
    #[command(flatten)]
    pub learn: Learn,
    /// Number of clusters [default: the number with the largest bound, only for the mixture]
    #[arg(long, value_name = "N")]
    pub clusters: Option<usize>,
    /// Largest number of clusters to try
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max_clusters: usize,
    /// Clustering method
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub method: Way,
    /// (mixture) Ignore the items' columns
    #[arg(long)]
    pub no_covariates: bool,
    /// Number of samples of 80 % of the duels, by which the stability of the clusters is measured
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub subsamples: usize,
    /// Also draw the matrix of win probabilities of the generalised model, ordered by clusters; .svg or .png
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Clustering methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Way {
    /// A mixture of rankings, with membership probabilities and an estimate of the number of clusters.
    #[default]
    Mixture,
    /// Spectral clustering by the magnitudes of the generalised model's log odds.
    Spectral,
    /// k-means of singular vectors of the generalised model's log odds (GPGP-CLUS).
    Generalised,
    /// Spectral clustering of the comparisons themselves (SVD-CLUS).
    Comparisons,
    /// Spectral clustering of confident wins by a utility (PR-CLUS).
    Abstaining,
    /// k-means of the items' columns, without duels.
    Covariates,
}

/// Finds clusters and writes them.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    args.plot.as_deref().map_or(Ok(false), in_pixels)?;
    let (items, duels_read) = args.learn.read(None, None, &console)?;
    if items.table.width() == 0 {
        let reason =
            "clusters need the items' columns, but these items have only names: give a table of items";
        return Err(Failure::input(reason));
    }
    if args.plot.is_some() && items.names.ids.len() > DRAWN {
        let reason = format!(
            "--plot draws at most {DRAWN} items, but there are {}: leave it out",
            items.names.ids.len()
        );
        return Err(Failure::input(reason));
    }
    let duels = duels(&items.names, &duels_read)?;
    described(&items.names, &duels, false, &console);
    let mut clusterer =
        Clusterer::new(args.learn.process(Model::Nested, &items.table, global.seed)?, args.max_clusters);
    let ClusteringMethod::Mixture { starts, .. } = clusterer.method else {
        return Err(Failure::input("the mixture is the default"));
    };
    clusterer.method = match args.method {
        Way::Mixture => ClusteringMethod::Mixture { covariates: !args.no_covariates, starts },
        Way::Spectral => ClusteringMethod::Spectral,
        Way::Generalised => ClusteringMethod::Generalised,
        Way::Comparisons => ClusteringMethod::Comparisons,
        Way::Abstaining => ClusteringMethod::Abstaining { threshold: 0.1 },
        Way::Covariates => ClusteringMethod::Covariates,
    };
    if args.no_covariates && args.method != Way::Mixture {
        return Err(Failure::input("--no-covariates is an option of --method mixture: leave it out"));
    }
    match args.clusters {
        Some(count) => clusterer.count = ClusterCount::Fixed(count),
        None if args.method == Way::Mixture => {}
        None => {
            let reason = "this method cannot estimate the number of clusters: give --clusters N, or use \
                          --method mixture";
            return Err(Failure::input(reason));
        }
    }
    (clusterer.subsamples, clusterer.seed) = (args.subsamples, global.seed);
    let done = clusterer.progress.clone();
    let fit = with_progress(&console, "finding clusters", &done, || clusterer.fit(&items.table, &duels))?;
    for (count, bound) in &fit.bounds {
        console.note(format!("{count} clusters: bound {bound:.2}"));
    }
    let agreement = adjusted_rand(&fit.labels, &fit.covariates);
    console.note(format!(
        "{} clusters; adjusted Rand index with k-means of the columns alone {agreement:.2}",
        fit.count
    ));
    if let Some(stability) = fit.stability {
        console.note(format!("adjusted Rand index with clusters of 80 % of the duels {stability:.2}"));
    }
    if let Some(path) = &args.plot {
        let probabilities = win_probabilities(args, &items, &duels, global.seed, &console)?;
        let picture = render_preference_matrix(
            &probabilities,
            &items.names.ids,
            Some(&fit.labels),
            &PlotOptions::default(),
        )?;
        drawn(path, picture)?;
    }
    let n = items.names.ids.len();
    let membership = |i: usize| fit.memberships[(i, fit.labels[i])];
    let names = ["item", "cluster", "probability"].map(String::from).to_vec();
    let cells = vec![
        Cells::Texts(items.names.ids.clone()),
        Cells::Integers(fit.labels.iter().map(|label| *label as i64 + 1).collect()),
        Cells::Numbers((0..n).map(membership).collect()),
    ];
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}

/// The probabilities (n × n) that the row's item beats the column's, by the generalised model.
fn win_probabilities(
    args: &Args,
    items: &Items,
    duels: &Duels,
    seed: u64,
    console: &Console,
) -> Result<Matrix> {
    let n = items.names.ids.len();
    let process = args.learn.process(Model::Generalised, &items.table, seed)?;
    let done = process.progress.clone();
    let fit = with_progress(console, "fitting", &done, || process.fit(&items.table, duels))?;
    let pairs: Vec<_> = (0..n).flat_map(|l| (0..l).map(move |r| (l, r))).collect();
    let probabilities = fit.probability(&items.table, &pairs)?;
    let mut matrix = Matrix::from_row_major(n, n, vec![0.5; n * n]);
    for (&(l, r), p) in pairs.iter().zip(probabilities) {
        (matrix[(l, r)], matrix[(r, l)]) = (p, 1.0 - p);
    }
    Ok(matrix)
}
