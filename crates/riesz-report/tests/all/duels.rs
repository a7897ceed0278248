//! Pictures and pages of duels: ladders, matrices, and explanations whose rows are duels.

use riesz::explanation::{Duel, WinProbability};
use riesz::model_card::CardEntry;
use riesz::preference::{CyclicTriad, Rankability};
use riesz::{Explanation, Matrix};
use riesz_report::{
    PLOTS, PlotOptions, Svg, Theme, png, render, render_ladder, render_preference_matrix, report,
};

use crate::common::explanation;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("item <{i}>")).collect()
}

/// Returns items whose utilities decrease with their number, except the last one, which is the best.
fn ranked(count: usize) -> Rankability {
    let place = |i: usize| (i + 1) % count + 1;
    let utility: Vec<f64> = (0..count).map(|i| -(place(i) as f64) + 0.5).collect();
    Rankability {
        utility_interval: utility.iter().map(|u| (u - 1.0, u + 2.0)).collect(),
        rank: (0..count).map(place).collect(),
        rank_interval: (0..count).map(|i| (place(i).max(2) - 1, place(i))).collect(),
        best: (0..count).map(|i| if place(i) == 1 { 1.0 } else { 0.004 }).collect(),
        condorcet: vec![0.0; count],
        cyclic_share: 0.1,
        cyclic_share_interval: (0.0, 0.1, 0.2),
        triangles: vec![
            CyclicTriad { items: [0, 2, 1], probability: 0.75 },
            CyclicTriad { items: [0, 1, count - 2], probability: 0.5 },
        ],
        level: 0.95,
        draws: 100,
        cycle_draws: 512,
        utility,
    }
}

/// Returns the y coordinate of each text, by its content.
fn heights(svg: &Svg) -> Vec<(String, f64)> {
    let document = roxmltree::Document::parse(&svg.text).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text") && node.has_attribute("y"));
    texts
        .map(|t| (t.text().unwrap_or_default().to_string(), t.attribute("y").unwrap().parse().unwrap()))
        .collect()
}

fn height(labels: &[(String, f64)], wanted: &str) -> Option<f64> {
    labels.iter().find(|(text, _)| text == wanted).map(|(_, y)| *y)
}

#[test]
fn ladders_have_the_best_on_top() {
    let (ranking, names) = (ranked(12), names(12));
    let complete =
        render_ladder(&ranking, &names, &PlotOptions { max_display: 30, ..Default::default() }).unwrap();
    let labels = heights(&complete);
    let rungs: Vec<f64> = names.iter().map(|name| height(&labels, name).unwrap()).collect();
    assert!(rungs[11] < rungs[0] && rungs.windows(2).take(10).all(|w| w[0] < w[1]), "{rungs:?}");
    for label in ["1 (1–1)", "3 (2–3)", "<.01", ".75", ".50", "place", "best"] {
        assert!(height(&labels, label).is_some(), "{label}");
    }
    // Two cycles: six arrows, each a curve and a head.
    assert_eq!(
        (complete.text.matches("stroke-width=\"1.5\"").count(), complete.text.matches("Z\"").count()),
        (6, 6)
    );
    let truncated =
        render_ladder(&ranking, &names, &PlotOptions { max_display: 4, ..Default::default() }).unwrap();
    let labels = heights(&truncated);
    assert!(height(&labels, "item <2>").is_some() && height(&labels, "item <3>").is_none());
    let notes: String = labels.iter().map(|(text, _)| format!("{text} ")).collect();
    assert!(
        notes.contains("Not drawn: 8 items below.") && notes.contains("1 of the 2 most probable"),
        "{notes}"
    );
    assert!(png(&complete, 1.0).unwrap().starts_with(b"\x89PNG"));
    for wrong in [3, 13] {
        assert!(render_ladder(&ranking, &self::names(wrong), &PlotOptions::default()).is_err());
    }
}

#[test]
fn matrices_put_clusters_together_and_the_better_first() {
    let n = 6;
    // Within a cluster the larger number wins; duels across clusters are coin tosses.
    let clusters: Vec<usize> = (0..n).map(|i| i % 2).collect();
    let p = |i: usize, j: usize| {
        if i % 2 != j % 2 {
            0.5
        } else if i > j {
            0.9
        } else {
            0.1
        }
    };
    let probabilities =
        Matrix::from_row_major(n, n, (0..n * n).map(|index| p(index / n, index % n)).collect());
    let options = PlotOptions::default();
    let svg = render_preference_matrix(&probabilities, &names(n), Some(&clusters), &options).unwrap();
    let labels = heights(&svg);
    let order: Vec<&str> =
        labels.iter().filter(|(text, _)| text.starts_with("item")).map(|(text, _)| text.as_str()).collect();
    let mut rows = order.clone();
    rows.dedup();
    let first: Vec<&str> = ["item <4>", "item <2>", "item <0>", "item <5>", "item <3>", "item <1>"].to_vec();
    assert!(
        rows.windows(6).any(|w| w == first) || rows.iter().step_by(2).copied().collect::<Vec<_>>() == first,
        "{rows:?}"
    );
    assert!(height(&labels, "cluster 1") < height(&labels, "cluster 2"));
    // Of 30 pairs, 6 are won, 6 are lost, and 18 are coin tosses, in orange, blue and without colour.
    let cells = |text: &str| labels.iter().filter(|(label, _)| label == text).count();
    assert_eq!([cells(".90"), cells(".10"), cells(".50")], [6, 6, 18]);
    let filled = |colour: &str| svg.text.matches(&format!("fill=\"{colour}\" fill-opacity=\"0.80\"")).count();
    assert_eq!([filled("#d55e00"), filled("#1f6fb2")].map(|c| c >= 6), [true, true]);
    // Large matrices in every theme, without names or clusters, still give a picture.
    let large = Matrix::from_row_major(90, 90, vec![0.5; 8100]);
    for theme in [Theme::Light, Theme::Dark, Theme::Auto] {
        let options = PlotOptions { theme, width: 400, ..Default::default() };
        let svg = render_preference_matrix(&large, &names(90), None, &options).unwrap();
        roxmltree::Document::parse(&svg.text).unwrap();
        assert!(!svg.text.contains("NaN"));
    }
    let wrong = Matrix::from_row_major(2, 2, vec![0.0, 1.5, -0.5, 0.0]);
    let error = render_preference_matrix(&wrong, &names(2), None, &options).unwrap_err().to_string();
    assert!(error.contains("1.5") && error.contains("from 0 to 1"), "{error}");
    assert!(render_preference_matrix(&probabilities, &names(5), None, &options).is_err());
    assert!(render_preference_matrix(&probabilities, &names(6), Some(&[0; 5]), &options).is_err());
}

/// Returns three rows that are duels, the last of them without probabilities.
fn duels() -> Explanation {
    let mut e = explanation(3, &["mass", "jaw"], 1);
    let estimate =
        Some(WinProbability { probability: 0.9, interval: [0.38, 1.0], tie: None, probability_better: 0.96 });
    let duel = |i: usize| Duel {
        left: format!("C<{i}>"),
        right: "C02".into(),
        win_probability: estimate.filter(|_| i < 2),
    };
    e.duels = Some((0..3).map(duel).collect());
    e.provenance.game = "Pref-SHAP, paired".into();
    e.provenance.run.push(CardEntry::new("explained", "the log odds that the left item wins its duel"));
    e
}

#[test]
fn pages_and_pictures_name_duels() {
    let e = duels();
    let page = report(&e, &Default::default()).unwrap();
    for phrase in [
        "of 3 duels and 2 features, in the <b>Pref-SHAP, paired</b> game",
        "which is called the prediction here, is the log odds that the left item wins its duel",
        "all values of a duel add up to its prediction",
        "its number here is the left item’s minus the right item’s",
        "<h2>Duels</h2>",
        "aria-label=\"Table of duels\"",
        "C\\u003c1> beats C02 with probability 0.90 (95 % 0.38 to 1.00; it is the better one with \
         probability 0.96)",
        "C\\u003c2> against C02",
    ] {
        assert!(page.contains(phrase), "{phrase}");
    }
    let script = page.find("<script>").unwrap();
    let words = page[..script].to_lowercase();
    for strange in [" rows", " row ", "each row", "a row"] {
        assert!(
            !words.contains(strange),
            "{strange}: {:?}",
            words.find(strange).map(|start| &words[start.saturating_sub(60)..start + 20])
        );
    }
    for plot in PLOTS.into_iter().filter(|plot| plot.can_show(&e)) {
        let svg = render(&e, plot, &PlotOptions { row: 1, ..Default::default() }).unwrap();
        assert!(!svg.text.to_lowercase().contains("row"), "{}: {}", plot.name, svg.text);
        if ["waterfall", "force"].contains(&plot.name) {
            assert!(svg.text.contains("C&lt;1&gt; against C02"), "{}", plot.name);
        }
    }
    // Without duels the rows are ordinary rows.
    let page = report(&explanation(3, &["mass", "jaw"], 1), &Default::default()).unwrap();
    assert!(
        page.contains("of 3 rows and 2 features")
            && page.contains("<h2>Rows</h2>")
            && !page.contains("duel<")
    );
}
