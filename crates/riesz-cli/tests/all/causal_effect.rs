//! Tests of `riesz causal effect` with one table: estimates of known effects, and refusals.
//! The library computes the estimates.

use serde_json::Value;

use crate::causal_studies::columns;
use crate::common::{Place, cells, estimates_lie_in_their_intervals, number};

/// Writes tables of linear models with known effects, and one with two classes.
fn tables() -> Place {
    let place = Place::new();
    place.write("sequential.csv", include_str!("../data/sequential.csv"));
    place.write("sequential.txt", include_str!("../data/sequential.txt"));
    place.write("front-door.csv", include_str!("../data/front-door.csv"));
    place.write("back-door.csv", include_str!("../data/back-door.csv"));
    place.write("population.csv", include_str!("../data/population.csv"));
    place.write("two-classes.csv", include_str!("../data/two-classes.csv"));
    place
}

/// Runs a command whose arguments may contain spaces.
fn run(place: &Place, words: &[&str]) -> String {
    let out = place.command().args(words).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

const BACK_DOOR: &str = "Z -> X; Z -> Y; X -> Y";

#[test]
fn a_front_door_in_one_table_is_estimated() {
    let place = tables();
    let ask = [
        "--graph",
        "X -> M -> Y; X <-> Y",
        "--treatment",
        "X",
        "--outcome",
        "Y",
        "--hyperparameter-samples",
        "2",
    ];
    let words =
        [&["causal", "effect", "front-door.csv"], &ask[..], &["--slope", "X", "--format", "csv"]].concat();
    let estimates = columns(&run(&place, &words));
    for ((mean, sd), support) in estimates["mean"].iter().zip(&estimates["std"]).zip(&estimates["support"]) {
        // The regression of Y on X has the slope 1.2 + 1.
        assert!((mean - 1.2).abs() < 4.0 * sd || *support == 0.0, "{mean} ± {sd}");
    }
    let middle = estimates["mean"].len() / 2;
    assert!(estimates["support"][middle] == 1.0 && estimates["std"][middle] < 0.25, "{estimates:?}");
    assert!(estimates.contains_key("std:outcome regression") && estimates.contains_key("std:stage 1"));

    let words = [&["causal", "effect", "front-door.csv"], &ask[..], &["--report", "page.html"]].concat();
    let text = run(&place, &words);
    assert!(text.starts_with("Front-door through M") || text.starts_with("front-door through M"), "{text}");
    let page = place.read("page.html");
    assert!(page.contains("all people of the table") && page.contains("the distribution of M"), "{page}");
    assert!(!page.contains("study 1 has") && !page.contains("The studies</h2>"));
}

#[test]
fn another_population_has_another_effect() {
    let place = tables();
    let ask =
        ["causal", "effect", "back-door.csv", "--graph", BACK_DOOR, "--treatment", "X", "--outcome", "Y"];
    let ask = [&ask[..], &["--hyperparameter-samples", "2", "--slope", "X", "--format", "csv"]].concat();
    for (options, truth) in [(vec![], 0.0), (vec!["--population", "population.csv"], 1.0)] {
        let estimates = columns(&run(&place, &[&ask[..], &options].concat()));
        let middle = estimates["mean"].len() / 2;
        let (mean, sd) = (estimates["mean"][middle], estimates["std"][middle]);
        assert!((mean - truth).abs() < 4.0 * sd && sd < 0.3, "{mean} ± {sd}, in truth {truth}");
    }
}

/// The published truth is E[Y | do(A0 = a, A1 = b)] = 2.05 a + 2 b.
#[test]
fn treatments_in_time_are_adjusted_for_one_after_the_other() {
    let place = tables();
    place.write("plans.csv", "A1,A0\n0,0\n1,0\n0,1\n1,1\n");
    let ask = "causal effect sequential.csv --graph sequential.txt --outcome Y --hyperparameter-samples 2";
    let joint = format!("{ask} --treatment A0,A1");
    let (text, _) = place.good(&format!("{joint} --at plans.csv --baseline A0=0,A1=0 --format csv"));
    estimates_lie_in_their_intervals(&text);
    let estimates = columns(&text);
    for (k, truth) in [0.0, 2.0, 2.05, 4.05].into_iter().enumerate() {
        let (mean, sd) = (estimates["mean"][k], estimates["std"][k]);
        assert!((mean - truth).abs() < 4.0 * sd + 1e-9 && sd < 0.5, "{mean} ± {sd}, in truth {truth}");
    }
    let (text, _) = place.good(&format!("{ask} --treatment A1 --slope A1 --format csv"));
    estimates_lie_in_their_intervals(&text);
    let estimates = columns(&text);
    let (mean, sd) = (estimates["mean"][25], estimates["std"][25]);
    assert!((mean - 2.0).abs() < 4.0 * sd && sd < 0.3, "{mean} ± {sd}");
    // Without a table of treatments the effect is printed at their quartiles.
    let (text, _) = place.good(&joint);
    assert!(text.contains("adjusting for L0 before A0, then L1 before A1"), "{text}");
    assert!(text.contains("stage 1") && !text.contains("measuring"), "{text}");
    let (record, _) = place.good(&format!("{joint} --format json"));
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["identification"]["strategy"]["kind"], "sequential");
    assert_eq!(record["effect"]["mean"].as_array().unwrap().len(), 9);
}

/// The risk difference standardised by the levels of g, from counts.
const STANDARDISED: f64 = 0.170_524_69;

#[test]
fn two_treatments_and_two_classes_have_an_average_effect() {
    let place = tables();
    let ask =
        ["causal", "effect", "two-classes.csv", "--graph", "g -> t; g -> y; t -> y", "--treatment", "t"];
    let ask =
        [&ask[..], &["--outcome", "y", "--categorical", "t,g", "--hyperparameter-samples", "4"]].concat();
    let text = run(&place, &ask);
    assert!(text.contains("average effect of t = 1 instead of t = 0: "), "{text}");
    let record: Value =
        serde_json::from_str(&run(&place, &[&ask[..], &["--format", "json"]].concat())).unwrap();
    let estimate = &record["average_effect"];
    let [mean, sd] = ["mean", "std"].map(|name| estimate[name].as_f64().unwrap());
    assert!((mean - STANDARDISED).abs() < 1.5 * sd && sd < 0.06, "{mean} ± {sd}");
    assert!(record["warnings"][0].as_str().unwrap().contains("the probability of 1"), "{record}");
    let words = [&ask[..], &["--baseline", "t=0", "--format", "csv"]].concat();
    let contrast = run(&place, &words);
    assert!(!contrast.is_empty());
}

#[test]
fn invalid_tables_are_refused() {
    let place = tables();
    place.write("constant.csv", "X,Y,Z\n1,1,0\n1,2,0.5\n1,3,0.25\n1,1.5,0\n1,2.5,1\n");
    place.write("holes.csv", "X,Y,Z\n1,1,\n,2,0.5\n1,,0.25\n1,1.5,0\n1,2.5,1\n");
    let ask =
        |options: &str| format!("causal effect back-door.csv --adjust Z --treatment X --outcome Y {options}");
    for (words, message) in [
        (ask("").replace("Y ", "W "), "the outcome; its columns are"),
        (ask("").replace("X ", "W "), "W"),
        (ask("").replace("X ", "Y "), "Y"),
        (ask("").replace("Z ", "W "), "W"),
        (ask("").replace("back-door.csv", "constant.csv"), "X is the same in all 5 rows"),
        (ask("").replace("back-door.csv", "holes.csv"), "at least 5"),
        (ask("--given X=1"), "names are Z"),
        (ask("--population constant.csv --weights none"), "none"),
    ] {
        place.bad(&words, message);
    }
}

/// The Shapley value of two treatments from its definition: effects are averaged over the observed treatments
/// that take the place of an absent one.
#[test]
fn effects_are_explained_by_treatments() {
    let place = tables();
    let ask = "causal effect sequential.csv --adjust L0 --outcome Y --hyperparameter-samples 2 \
               --treatment A0,A1";
    let rows = cells(&place.read("sequential.csv"));
    let observed: Vec<[f64; 2]> = rows[1..].iter().map(|row| [number(&row[1]), number(&row[3])]).collect();
    // The observed treatments, with none, one or both of them replaced.
    let plans = [[None, None], [Some(1.5), None], [None, Some(-0.5)], [Some(1.5), Some(-0.5)]];
    let replaced = |plan: [Option<f64>; 2]| {
        let line =
            move |row: &[f64; 2]| format!("{},{}\n", plan[0].unwrap_or(row[0]), plan[1].unwrap_or(row[1]));
        observed.iter().map(line).collect::<String>()
    };
    place.write("at.csv", format!("A0,A1\n{}", plans.map(replaced).concat()));
    let means = columns(&place.good(&format!("{ask} --at at.csv --format csv")).0)["mean"].clone();
    let mean = |plan: usize| {
        let chunk = &means[plan * observed.len()..(plan + 1) * observed.len()];
        chunk.iter().sum::<f64>() / chunk.len() as f64
    };
    assert_eq!(means.len(), 4 * observed.len());
    let [none, first, second, both] = std::array::from_fn(mean);
    let expected = [(first - none + both - second) / 2.0, (second - none + both - first) / 2.0];
    place.write("plan.csv", "A0,A1\n1.5,-0.5\n");
    place.good(&format!("{ask} --at plan.csv --explain why.csv"));
    let table = cells(&place.read("why.csv"));
    assert_eq!(table[0][5..], ["A0", "A1"]);
    assert!((number(&table[1][2]) - none).abs() < 1e-8 && (number(&table[1][3]) - both).abs() < 1e-8);
    for (cell, value) in table[1][5..].iter().zip(expected) {
        assert!((number(cell) - value).abs() < 1e-8, "{cell} {value}");
    }
    place.good(&format!("{ask} --explain why.json"));
    place.good("report why.json -o why.html");
    assert!(place.read("why.html").contains("sequential.csv"));
    place.bad(&format!("{ask} --explain why.html"), "why.html");
    place.bad(&format!("{ask} --explain why.csv --slope A0"), "cannot be used with");
}

#[test]
fn one_more_row_is_worth_more_if_there_are_few() {
    let place = tables();
    let text = place.read("back-door.csv");
    let quarter: Vec<&str> = text.lines().take(text.lines().count() / 4).collect();
    place.write("quarter.csv", quarter.join("\n"));
    let value = |file: &str| {
        let ask = format!("causal effect {file} --adjust Z --treatment X --outcome Y --baseline X=0");
        let options = "--hyperparameter-samples 2 --value-of-information";
        let record = place.good(&format!("{ask} {options} --format json")).0;
        let record: Value = serde_json::from_str(&record).unwrap();
        let share = record["value_of_information"]["the table"].as_f64().unwrap();
        let (text, _) = place.good(&format!("{ask} {options}"));
        assert!(text.contains("one more row of the table would remove"), "{text}");
        share
    };
    let (all, few) = (value("back-door.csv"), value("quarter.csv"));
    assert!(0.0 < all && all < few && few < 0.5, "{all} {few}");
}
