//! Tests of `riesz causal suggest`: agreement with the library's suggestions, and refusals in one sentence.

use riesz::causal::{
    Acquisition, AcquisitionSearch, CausalFusion, CausalQuery, Domain, EffectPrior, Graph, MeasuredColumns,
    TreatmentArm, Trials, UpdatedEffect, gather, identify,
};
use riesz::{Column, Table};
use serde_json::Value;

use crate::causal_studies::{GRAPH, columns, world};
use crate::common::Place;

const COMMAND: &str =
    "causal suggest s1.csv s2.csv --graph g.txt --treatment dose --outcome volume --hyperparameter-samples 4";

fn tried() -> Place {
    let place = world();
    place.write("tried.csv", "note,volume,dose,off\nfirst,-0.4,0.1,0.2\nsecond,-3.5,0.6,0.4\n");
    place
}

/// Returns the library's suggestions for the same query, with trials at 0.1 and 0.6.
fn suggested(
    place: &Place,
    noise: Option<Vec<f64>>,
    search: AcquisitionSearch,
    count: usize,
) -> Vec<[f64; 5]> {
    let measured = |file: &str, names: &[&str]| {
        let header = place.read(file).lines().next().unwrap().to_string();
        let header: Vec<String> = header.split(',').map(String::from).collect();
        let column = |name: &&str| {
            let j = header.iter().position(|title| title == name).unwrap();
            let text = place.read(file);
            let cell = |line: &str| line.split(',').nth(j).unwrap().parse().unwrap();
            (Column::numeric(*name), text.lines().skip(1).map(cell).collect())
        };
        MeasuredColumns { columns: names.iter().map(column).collect() }
    };
    let query = CausalQuery {
        treatments: vec!["dose".into()],
        outcome: "volume".into(),
        studies: vec![vec!["age".into(), "dose".into(), "psa".into()], vec!["psa".into(), "volume".into()]],
        ..CausalQuery::default()
    };
    let identification = identify(Some(&Graph::parse(GRAPH).unwrap()), &query).unwrap();
    let tables = [measured("s1.csv", &["age", "dose", "psa"]), measured("s2.csv", &["psa", "volume"])];
    let studies = gather(&identification, &tables).unwrap().studies;
    let effect = CausalFusion { draws: 4, ..CausalFusion::default() }.fit(&studies).unwrap();
    let dose = |values: Vec<f64>| {
        Table::from_column_major(vec![Column::numeric("dose")], values.len(), values).unwrap()
    };
    let trials = Trials { treatments: dose(vec![0.1, 0.6]), outcomes: vec![-0.4, -3.5], noise };
    let believed = UpdatedEffect::new(&effect, &trials, EffectPrior::Effect).unwrap();
    let arms = [TreatmentArm { believed, domain: Domain::Between(vec![(0.0, 1.0)]), costs: vec![1.0] }];
    let suggestions = search.suggest(&arms, count).unwrap();
    let numbers = |suggestion: &riesz::causal::Suggestion| {
        [
            suggestion.treatments[0],
            suggestion.mean,
            suggestion.sd,
            suggestion.expected_improvement,
            suggestion.acquisition,
        ]
    };
    suggestions.iter().map(numbers).collect()
}

#[test]
fn suggestions_agree_with_the_library() {
    let place = tried();
    let search =
        AcquisitionSearch { acquisition: Acquisition::LogEi, minimize: true, supported: false, seed: 0 };
    for (options, noise, search) in [
        ("", None, search),
        ("--std 0.5 --maximize", Some(vec![0.25; 2]), AcquisitionSearch { minimize: false, ..search }),
        (
            "--std off --acquisition ucb",
            Some(vec![0.2 * 0.2, 0.4 * 0.4]),
            AcquisitionSearch { acquisition: Acquisition::Ucb { deviations: 2.0 }, ..search },
        ),
    ] {
        let ask = format!("{COMMAND} --tried tried.csv --between dose=0..1 --count 3 {options}");
        let table = columns(&place.good(&format!("{ask} --format csv")).0);
        let names = ["dose", "mean", "std", "expected_improvement", "acquisition"];
        for (i, expected) in suggested(&place, noise, search, 3).iter().enumerate() {
            assert_eq!(names.map(|name| table[name][i]), *expected, "{options}");
        }
        assert!(table["support"].iter().all(|value| [0.0, 1.0].contains(value)));
    }
}

/// Suggestions for a volume that decreases with the dose everywhere.
#[test]
fn the_best_treatment_is_suggested() {
    let place = tried();
    place.write("doses.csv", "dose,euros\n0.2,1\n0.5,1\n0.9,1\n");
    for (options, dose) in [("", 0.9), ("--maximize", 0.2)] {
        let ask = format!("{COMMAND} {options} --candidates doses.csv --format csv");
        let table = columns(&place.good(&ask).0);
        assert_eq!(table["dose"], [dose], "{table:?}");
    }
    // The improvement on the best so far, as an integral over the posterior.
    let ask = format!("{COMMAND} --tried tried.csv --std 0.5 --between dose=0..0.7 -o next.json");
    let (_, words) = place.good(&ask);
    assert!(words.contains("Of the 2 trials so far, the posterior mean of volume is lowest"), "{words}");
    let record: Value = serde_json::from_str(&place.read("next.json")).unwrap();
    let estimate = |name: &str| record["suggestions"][name][0].as_f64().unwrap();
    let (mean, sd, best) = (estimate("mean"), estimate("std"), record["best"]["mean"].as_f64().unwrap());
    assert_eq!(record["best"]["treatments"]["dose"], serde_json::json!([0.6]));
    let steps = 100_000;
    let density = |e: f64| (-0.5 * e * e).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let gain: f64 = (0..steps)
        .map(|i| -9.0 + 18.0 * (f64::from(i) + 0.5) / f64::from(steps))
        .map(|e| (best - mean - sd * e).max(0.0) * density(e) * 18.0 / f64::from(steps))
        .sum();
    assert!((estimate("expected_improvement") - gain).abs() < 1e-6 * gain, "{gain} {record}");
    assert!((estimate("acquisition") - gain.ln()).abs() < 1e-6);
    assert!(record["provenance"].to_string().contains("tried.csv (SHA-256 ") && record["trials"] == 2);
    // A costlier treatment must have a larger gain.
    place.write("doses.csv", "dose,euros\n0.85,1000000\n0.9,1\n");
    let ask = format!("{COMMAND} --candidates doses.csv --cost euros --format csv");
    assert_eq!(columns(&place.good(&ask).0)["dose"], [0.9]);
    place.write("doses.csv", "dose,euros\n0.85,1\n0.9,1000000\n");
    assert_eq!(columns(&place.good(&ask).0)["dose"], [0.85]);
    let (out, _) = place.good(COMMAND);
    for words in
        ["There are no trials yet", "expected improvement", "back-door, adjusting for age", "lowest, −6."]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    place.good(&format!("{COMMAND} -o next.parquet"));
    let (help, _) = place.good("causal --help");
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("suggest Suggest the treatments to try next"), "{help}");
}

#[test]
fn refusals_are_one_sentence_and_leave_no_files() {
    let place = tried();
    place.write("lacks.csv", "dose,size\n0.1,2\n");
    place.write("holes.csv", "dose,volume\n0.1,\n");
    place.write("words.csv", "dose,volume\nmuch,1\n");
    place.write("none.csv", "dose,volume\n");
    place.write("twice.csv", "dose,volume\n0.1,1\n0.1,2\n");
    place.write("below.csv", "dose,volume,off\n0.1,1,-1\n");
    place.write("free.csv", "dose,euros\n0.1,0\n");
    place.write("far.csv", "dose\n900\n");
    let before = place.files();
    for (options, expected) in [
        ("--tried lacks.csv", "there is no column 'volume'"),
        ("--tried holes.csv", "row 1 (line 2)"),
        ("--tried words.csv", "is 'much', which is not a number"),
        ("--tried none.csv", "names of columns but no rows"),
        ("--tried missing.csv", "there is no such file"),
        ("--tried twice.csv --std 0", "outcomes of trials of one treatment = 1 and 2"),
        ("--tried tried.csv --std -1", "a standard deviation is a number of at least 0"),
        (
            "--tried below.csv --std off",
            "of column 'off' is -1: a standard deviation is a number of at least 0",
        ),
        ("--tried tried.csv --std note", "which is not a number"),
        ("--tried tried.csv --std spread", "there is no column 'spread'"),
        ("--std 1", "--tried"),
        ("--between dose=1..0", "bounds of dose = (1, 0)"),
        ("--between dose=0.5", "give dose=low..high"),
        ("--between age=0..1", "names are dose"),
        ("--candidates none.csv", "names of columns but no rows"),
        ("--candidates free.csv --cost euros", "of column 'euros' is 0: costs are more than 0"),
        ("--candidates far.csv --supported", "the studies support none of the candidates"),
        ("--candidates far.csv --between dose=0..1", "cannot be used with"),
        ("--cost euros", "--candidates"),
        ("--count 0", "--count"),
        ("--acquisition pi", "log-ei"),
        ("--prior best", "rank-one"),
    ] {
        let output = place.run(&format!("{COMMAND} {options} -o next.csv"));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && err.contains(expected), "{options}: {err}");
        assert!(!err.contains("panicked") && !err.contains("a bug"), "{options}: {err}");
        assert_eq!(place.files(), before, "{options}");
    }
    place.bad(&format!("{COMMAND} -o next.svg"), "not as .svg");
    place.bad(
        &format!("{COMMAND} -o next.html"),
        "suggestions are written as .csv, .parquet, .json or .txt, not as .html",
    );
    place.bad(&format!("{COMMAND} -o next.xls"), "not as .xls");
    // A study with the name of another command is read as a file.
    place.bad("causal effect suggest s2.csv --randomized --treatment dose --outcome volume", "no such file");
}
