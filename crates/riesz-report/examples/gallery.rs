//! Draws everything once, into the directory given as argument: `cargo run --example gallery -- out`.
//!
//! The attribution is a made-up linear one; only the data are real.

use std::path::Path;

use riesz::explanation::Provenance;
use riesz::model_card::CardEntry;
use riesz::{Column, Exactness, Explanation, Players, Table, ValueIndex};
use riesz_report::{PLOTS, Plot, PlotOptions, ReportOptions, Theme, png, render, report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("give a directory")?;
    let out = Path::new(&out);
    std::fs::create_dir_all(out)?;
    let explanation = diabetes()?;
    let pairs = pairs(&explanation)?;
    for plot in PLOTS {
        let explanation = if plot.can_show(&explanation) { &explanation } else { &pairs };
        for (suffix, theme, width) in
            [("light", Theme::Light, 720), ("dark", Theme::Dark, 720), ("narrow", Theme::Light, 340)]
        {
            let options = PlotOptions {
                theme,
                width,
                player: Some(2),
                color_by: Some(8),
                max_display: if width < 400 { 6 } else { 10 },
                ..PlotOptions::default()
            };
            let svg = render(explanation, plot, &options)?;
            std::fs::write(out.join(format!("{}-{suffix}.png", plot.name)), png(&svg, 2.0)?)?;
            std::fs::write(out.join(format!("{}-{suffix}.svg", plot.name)), svg.text)?;
        }
    }
    for (name, plot) in [("force", "force"), ("interactions-row", "interactions"), ("network-row", "network")]
    {
        for (suffix, theme) in [("light", Theme::Light), ("dark", Theme::Dark)] {
            let svg = render(
                &pairs.select_rows(&[3]),
                Plot::named(plot)?,
                &PlotOptions { theme, ..PlotOptions::default() },
            )?;
            std::fs::write(out.join(format!("{name}-pairs-{suffix}.svg")), svg.text)?;
        }
    }
    std::fs::write(out.join("report.html"), report(&explanation, &ReportOptions::default())?)?;
    std::fs::write(out.join("report-pairs.html"), report(&pairs, &ReportOptions::default())?)?;
    Ok(())
}

/// The explanation with interactions of pairs of features added.
fn pairs(single: &Explanation) -> Result<Explanation, Box<dyn std::error::Error>> {
    let (n, d) = (single.rows(), single.players.len());
    let two = (0..d).flat_map(|a| (a + 1..d).map(move |b| vec![a, b]));
    let subsets: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).chain(two).collect();
    let value = |i: usize, set: &[usize]| {
        let values = single.row_values(i, 0);
        match *set {
            [a, b] => values[a] * values[b] * 0.012 * (1.0 + (7 * a + 3 * b) as f64).sin(),
            _ => values[set[0]],
        }
    };
    let values: Vec<f64> = (0..n).flat_map(|i| subsets.iter().map(move |set| value(i, set))).collect();
    let sum = |i: usize| values[i * subsets.len()..(i + 1) * subsets.len()].iter().sum::<f64>();
    let explanation = Explanation {
        index: "k-sii".parse()?,
        predictions: (0..n).map(|i| single.base_values[i] + sum(i)).collect(),
        values,
        subsets: Some(subsets),
        ..single.clone()
    };
    explanation.validate()?;
    Ok(explanation)
}

fn diabetes() -> Result<Explanation, Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../riesz-cli/data/diabetes.csv");
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().ok_or("no header")?.split(',').take(10).collect();
    let rows: Vec<Vec<f64>> = lines
        .map(|l| l.split(',').take(10).map(str::parse).collect::<Result<_, _>>())
        .collect::<Result<_, _>>()?;
    let columns: Vec<Column> = names.into_iter().map(Column::numeric).collect();
    let (n, d) = (rows.len(), columns.len());
    let data =
        Table::from_column_major(columns.clone(), n, (0..d * n).map(|k| rows[k % n][k / n]).collect())?;
    let weights = [-0.04, -22.9, 5.6, 1.12, -1.09, 0.75, 0.37, 6.5, 68.5, 0.28];
    let mean: Vec<f64> = (0..d).map(|j| data.column(j).iter().sum::<f64>() / n as f64).collect();
    let effect = |i: usize, j: usize| {
        // Some curvature and an interaction, so that the pictures have something to show.
        let z = data.get(i, j) - mean[j];
        weights[j] * z * (1.0 + if j == 2 { 0.15 * (data.get(i, 8) - mean[8]) } else { 0.0 })
    };
    let values: Vec<f64> = (0..n * d).map(|k| effect(k / d, k % d)).collect();
    let predictions: Vec<f64> =
        (0..n).map(|i| 152.133 + values[i * d..(i + 1) * d].iter().sum::<f64>()).collect();
    let explanation = Explanation {
        index: ValueIndex::Shapley,
        players: Players::singletons(&columns).players().to_vec(),
        subsets: None,
        output_names: vec!["progression".into()],
        values,
        base_values: vec![152.133; n],
        predictions,
        data,
        row_numbers: (0..n).collect(),
        exactness: Exactness::Exact { bound: vec![3.1e-12; n] },
        uncertainty: None,
        duels: None,
        provenance: Provenance {
            game: "interventional".into(),
            absent: "an absent feature takes its values from the background rows, whatever the others are"
                .into(),
            model: vec![CardEntry::new("model", "made-up linear model"), CardEntry::new("kernel", "linear")],
            run: vec![CardEntry::new("data", "diabetes.csv"), CardEntry::new("rows", n)],
        },
    };
    explanation.validate()?;
    Ok(explanation)
}
