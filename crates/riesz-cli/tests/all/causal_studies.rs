//! Tests of `riesz causal effect`: answers as tables, text, pictures and pages, and refusals.
//! The library computes the estimates.

use serde_json::Value;

use crate::common::{Place, texts};

/// Pseudo-random numbers between −1 and 1.
fn noise() -> impl FnMut() -> f64 {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 30) as f64 - 1.0
    }
}

pub const GRAPH: &str = "age -> dose; age -> psa; dose -> psa; psa -> volume";

/// Writes studies in which older people take higher doses, psa is age − 2 dose, and volume 3 psa. A dose of
/// 0.9 instead of 0.2 reduces the volume by 4.2.
pub fn world() -> Place {
    let (place, mut e) = (Place::new(), noise());
    let mut first = String::from("age,dose,psa,site\n");
    for i in 0..80 {
        let age = e();
        let dose = 0.5 + 0.3 * age + 0.5 * e();
        let psa = age - 2.0 * dose + 0.2 * e();
        first += &format!("{age},{dose},{psa},{}\n", ["a", "b"][i % 2]);
    }
    let mut second = String::from("psa,volume\n");
    for _ in 0..80 {
        let psa = -1.0 + 3.0 * e();
        second += &format!("{psa},{}\n", 3.0 * psa + 0.3 * e());
    }
    place.write("s1.csv", first);
    place.write("s2.csv", second);
    place.write("g.txt", GRAPH.replace("; ", "\n"));
    place.write("grid.csv", "dose\n0.2\n0.5\n0.9\n");
    place
}

const COMMAND: &str =
    "causal effect s1.csv s2.csv --graph g.txt --treatment dose --outcome volume --hyperparameter-samples 4";

/// Returns the columns of a CSV table.
pub fn columns(text: &str) -> std::collections::BTreeMap<String, Vec<f64>> {
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<String> = lines.next().unwrap().map(String::from).collect();
    let rows: Vec<Vec<f64>> = lines.map(|line| line.map(|cell| cell.parse().unwrap()).collect()).collect();
    names.into_iter().enumerate().map(|(j, name)| (name, rows.iter().map(|row| row[j]).collect())).collect()
}

#[test]
fn effects_agree_with_the_truth() {
    let place = world();
    let (out, err) = place.good(&format!("{COMMAND} --at grid.csv --baseline dose=0.2 -o effect.csv"));
    assert!(out.is_empty() && err.contains("back-door, adjusting for age"), "{out}{err}");
    let estimates = columns(&place.read("effect.csv"));
    assert_eq!(estimates["dose"], [0.2, 0.5, 0.9]);
    assert!(estimates["mean"][0].abs() < 1e-9 && estimates["std"][0] < 1e-5);
    for (k, truth) in [(1, -1.8), (2, -4.2)] {
        let (mean, sd) = (estimates["mean"][k], estimates["std"][k]);
        assert!((mean - truth).abs() < 4.0 * sd && sd < 0.8, "{mean} ± {sd}, in truth {truth}");
        let causes: f64 = estimates
            .iter()
            .filter(|(name, _)| name.starts_with("std:"))
            .map(|(_, sds)| sds[k] * sds[k])
            .sum();
        assert!((causes - sd * sd).abs() < 1e-9 * sd * sd);
        assert!(
            (estimates["high"][k] - mean - 1.959_964 * sd).abs() < 1e-5 * sd
                && estimates["support"][k] == 1.0
        );
    }
    // Without adjustment the effect of age is attributed to the dose.
    let (naive, _) = place.good(&format!(
        "{} --randomized --at grid.csv --baseline dose=0.2 -o - --format csv",
        COMMAND.replace("--graph g.txt ", "")
    ));
    assert!(columns(&naive)["mean"][2] > -3.2, "{naive}");
    // Through landmarks the effect is nearly the same.
    let sparse_command = format!("{COMMAND} --landmarks 30 --at grid.csv --baseline dose=0.2 --format csv");
    let estimates = columns(&place.good(&sparse_command).0);
    assert!(
        (estimates["mean"][2] + 4.2).abs() < 4.0 * estimates["std"][2] && estimates["std"][2] < 1.2,
        "{estimates:?}"
    );
    // The effect given an age is the same, because it does not depend on age here.
    let (of_old, _) =
        place.good(&format!("{COMMAND} --at grid.csv --baseline dose=0.2 --given age=0.5 --format csv"));
    let (mean, sd) = (columns(&of_old)["mean"][2], columns(&of_old)["std"][2]);
    assert!((mean + 4.2).abs() < 4.0 * sd, "{mean} ± {sd}");
}

/// Effects of chains are products: −2 in the first study, 2 in the second, 3 in the third.
#[test]
fn three_studies_make_a_chain() {
    let (place, mut e) = (Place::new(), noise());
    let mut study = |names: &str, slope: f64, reach: f64| {
        let row = |_| {
            let x = reach * e();
            format!("{x},{}\n", slope * x + 0.2 * e())
        };
        format!("{names}\n{}", (0..80).map(row).collect::<String>())
    };
    place.write("s1.csv", study("dose,psa", -2.0, 1.0));
    place.write("s2.csv", study("psa,size", 2.0, 3.0));
    place.write("s3.csv", study("size,volume", 3.0, 6.0));
    place.write("grid.csv", "dose\n-0.4\n0.5\n");
    let ask = "causal effect s1.csv s2.csv s3.csv --graph dose->psa->size->volume --treatment dose --outcome volume \
               --hyperparameter-samples 2";
    let (out, _) = place.good(&format!("{ask} --at grid.csv --baseline dose=0 --format csv"));
    let estimates = columns(&out);
    for (k, truth) in [(0, 4.8), (1, -6.0)] {
        let (mean, sd) = (estimates["mean"][k], estimates["std"][k]);
        assert!((mean - truth).abs() < 4.0 * sd && sd < 1.0, "{mean} ± {sd}, in truth {truth}");
    }
    for study in 1..=3 {
        assert!(estimates[&format!("std:study {study}")].iter().all(|sd| *sd > 0.0), "{out}");
    }
    assert!(estimates["support"] == [1.0, 1.0], "{out}");
    let (words, err) = place.good(&format!("{ask} --report chain.html"));
    assert!(words.contains("study 3") && place.read("chain.html").contains("study 3"), "{words}{err}");
    place.bad(&ask.replace(" s2.csv", ""), "share");
}

#[test]
fn slopes_and_effects_in_other_populations() {
    let place = world();
    let estimated =
        |options: &str| columns(&place.good(&format!("{COMMAND} --at grid.csv --format csv {options}")).0);
    let slope = estimated("--slope dose");
    for k in 0..3 {
        let (mean, sd) = (slope["mean"][k], slope["std"][k]);
        assert!((mean + 6.0).abs() < 4.0 * sd && sd < 3.0, "{mean} ± {sd}");
    }
    // The slope is close to a difference quotient of effects.
    place.write("near.csv", "dose\n0.499\n0.501\n");
    let near = columns(&place.good(&format!("{COMMAND} --at near.csv --format csv")).0);
    let difference = (near["mean"][1] - near["mean"][0]) / 0.002;
    assert!((slope["mean"][1] - difference).abs() < 1e-2 * difference.abs(), "{difference}");
    // The effect on a population is the mean over its members; older members have a higher psa.
    place.write("clinic.csv", "count,age\n1,-0.5\n3,0.7\n");
    let (young, old) = (estimated("--given age=-0.5"), estimated("--given age=0.7"));
    let (weighted, unweighted) =
        (estimated("--population clinic.csv --weights count"), estimated("--population clinic.csv"));
    for k in 0..3 {
        let [a, b] = [young["mean"][k], old["mean"][k]];
        assert!((weighted["mean"][k] - 0.25 * a - 0.75 * b).abs() < 1e-9);
        assert!((unweighted["mean"][k] - 0.5 * (a + b)).abs() < 1e-9);
        assert!((b - a - 3.6).abs() < 1.0, "{a} {b}");
    }
    // A given population counts as known: there is no adjustment part.
    assert!(!weighted.contains_key("std:adjustment"));
    let (out, _) = place.good(&format!("{COMMAND} --slope dose --population clinic.csv --report slope.html"));
    assert!(out.contains("a little more dose would change the mean of volume by between"), "{out}");
    assert!(out.contains("If the people of clinic.csv were treated alike"), "{out}");
    assert!(place.read("slope.html").contains("per unit of dose"));
    let (out, _) = place.good(&format!("{COMMAND} --slope dose --at grid.csv --format json"));
    let record: Value = serde_json::from_str(&out).unwrap();
    assert!(record["slope"]["by"] == "dose" && record["baseline"].is_null());
    place.write("bad.csv", "count,age\n-1,0.5\n2,0\n");
    for (options, expected) in [
        ("--slope age", "it is by one of the treatments, dose"),
        ("--slope dose --baseline dose=1", "cannot be used with"),
        ("--population clinic.csv --given age=1", "cannot be used with"),
        ("--weights count", "--population"),
        ("--population grid.csv", "there is no column 'age'"),
        ("--population bad.csv --weights count", "weights of members = -1"),
        ("--population clinic.csv --weights many", "there is no column 'many'"),
    ] {
        let output = place.run(&format!("{COMMAND} {options}"));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && err.contains(expected), "{options}: {err}");
    }
}

#[test]
fn answers_are_written_in_all_formats() {
    let place = world();
    let (out, err) = place.good(&format!("{COMMAND} --report effect.html"));
    for words in [
        "back-door, adjusting for age",
        "assumed",
        "If all people of study 1 were treated alike",
        "support",
        "the variance is due to: study 1",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(out.contains("50 rows in all") && !err.contains("warning"), "{out}{err}");
    let page = place.read("effect.html");
    for words in [
        "The effect of dose on volume",
        "Assumptions",
        "Sources of uncertainty by study",
        "adjusted for",
        "(SHA-256 ",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));
    let (out, _) = place.good(&format!("{COMMAND} --at grid.csv --level 0.5 --format json --quiet"));
    let record: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(record["identification"]["strategy"]["adjust"], serde_json::json!(["age"]));
    assert_eq!(record["effect"]["dose"], serde_json::json!([0.2, 0.5, 0.9]));
    let estimate = |name: &str| record["effect"][name][1].as_f64().unwrap();
    assert!(
        (estimate("high") - estimate("mean") - 0.674_490 * estimate("std")).abs() < 1e-5 * estimate("std"),
        "{out}"
    );
    let shares: f64 =
        record["variance_shares"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-12);
    place.good(&format!("{COMMAND} -o effect.parquet"));
    place.good(&format!("{COMMAND} -o effect.svg"));
    assert!(place.read("effect.svg").contains("E[volume | do(dose)]"));
    // A graph as text, studies as Parquet (recognised by their first bytes), and categorical treatments.
    let of_sites = |options: &[&str]| {
        let query = [
            "causal",
            "effect",
            "s1.csv",
            "s2.csv",
            "--graph",
            "site -> psa -> volume",
            "--treatment",
            "site",
        ];
        let settings = ["--outcome", "volume", "--hyperparameter-samples", "2", "--report", "sites.html"];
        let output = place.command().args(query).args(settings).args(options).output().unwrap();
        let (out, err) = texts(&output);
        (output.status.success(), out, err)
    };
    let (_, _, err) = of_sites(&["--among", "site=a"]);
    assert!(err.contains("averaged over covariates"), "{err}");
    let (fine, out, err) = of_sites(&[]);
    assert!(fine && out.contains("site = a") && place.read("sites.html").contains("site = b"), "{out}{err}");
}

#[test]
fn missing_cells_and_poor_matches_are_reported() {
    let place = world();
    let holed = place.read("s1.csv").lines().enumerate().fold(String::new(), |text, (i, line)| {
        let (_, tail) = line.split_once(',').unwrap();
        text + &if i == 3 || i == 7 { format!(",{tail}\n") } else { format!("{line}\n") }
    });
    place.write("holed.csv", holed);
    let narrow: String = place
        .read("s2.csv")
        .lines()
        .filter(|line| {
            line.starts_with("psa") || line.split_once(',').unwrap().0.parse::<f64>().unwrap() < -1.0
        })
        .map(|line| format!("{line}\n"))
        .collect();
    place.write("narrow.csv", narrow);
    let (_, err) = place.good(&COMMAND.replace("s1.csv", "holed.csv"));
    assert!(err.contains("warning: study 1: 2 of 80 rows have no value in age, and are left out"), "{err}");
    let (out, err) = place.good(&COMMAND.replace("s2.csv", "narrow.csv"));
    assert!(
        err.contains("warning: study 2 has no psa above -1")
            && err.contains("the later study has no information"),
        "{err}"
    );
    assert!(out.contains("  no\n"), "{out}");
    // The order of rows does not matter.
    let mut lines: Vec<String> = place.read("s1.csv").lines().map(String::from).collect();
    lines[1..].reverse();
    place.write("turned.csv", lines.join("\n"));
    let ask = format!("{COMMAND} --at grid.csv --format csv");
    assert_eq!(place.good(&ask).0, place.good(&ask.replace("s1.csv", "turned.csv")).0);
}

#[test]
fn refusals_are_one_sentence_and_leave_no_files() {
    let place = world();
    let first = place.read("s1.csv");
    let line = first.lines().nth(4).unwrap().to_string();
    let mut cells: Vec<&str> = line.split(',').collect();
    cells[0] = "old";
    place.write("text.csv", first.replace(&line, &cells.join(",")));
    place.write("empty.csv", "psa,volume\n");
    place.write("far.csv", place.read("s2.csv").replace('.', "").replace("psavolume", "psa,volume"));
    place.write("few.csv", "psa,volume\n1,2\n2,3\n");
    place.write("other.csv", "amount\n1\n");
    place.write("words.csv", "dose\nmuch\n");
    place.write("none.csv", "dose\n");
    let dated: String = (0..9).map(|k| format!("2026-11-{},{k}\n", 10 + k)).collect();
    place.write("dated.csv", format!("psa,volume\n{dated}"));
    let before = place.files();
    for (words, expected) in [
        (COMMAND.replace("outcome volume", "outcome volum"), "volum"),
        (COMMAND.replace("treatment dose", "treatment doze"), "doze"),
        (
            COMMAND.replace("s1.csv", "text.csv"),
            "column 'age' holds numbers, but its row 4 (line 5) is 'old'",
        ),
        (COMMAND.replace("s2.csv", "empty.csv"), "empty.csv has names of columns but no rows"),
        (
            COMMAND.replace("s2.csv", "dated.csv"),
            "days since some date for example (or --column 'psa=text' if",
        ),
        (COMMAND.replace("s2.csv", "missing.csv"), "missing.csv: there is no such file"),
        (COMMAND.replace("s2.csv", "few.csv"), "study 2 has 2 rows: at least 5 are needed"),
        (COMMAND.replace("s1.csv s2.csv", "s1.csv"), "two or more tables"),
        (format!("{COMMAND} --at other.csv"), "there is no column 'dose'"),
        (format!("{COMMAND} --at words.csv"), "is 'much', which is not a number"),
        (format!("{COMMAND} --at none.csv"), "names of columns but no rows"),
        (format!("{COMMAND} --baseline age=1"), "give name=value, where names are dose"),
        (format!("{COMMAND} --baseline dose=much"), "dose is 'much', which is not a number"),
        (format!("{COMMAND} --baseline dose=1,dose=2"), "dose is given twice"),
        (format!("{COMMAND} --given dose=1"), "names are age"),
        (format!("{COMMAND} --level 95"), "give a number between 0 and 1"),
        (format!("{COMMAND} --categorical nothing"), "no study has a column 'nothing'"),
        (format!("{COMMAND} --report effect.txt"), "pages are written as .html, not as .txt"),
        (COMMAND.replace("--graph g.txt ", ""), "give --graph; or, without a check, --adjust"),
        (COMMAND.replace("g.txt", "lost.txt"), "there is no such file"),
        (COMMAND.replace("--hyperparameter-samples 4", "--hyperparameter-samples 99999999999"), "memory"),
    ] {
        let output = place.run(&format!("{words} -o effect.csv"));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && err.contains(expected), "{words}: {err}");
        assert!(!err.contains("panicked") && !err.contains("a bug"), "{words}: {err}");
        assert_eq!(place.files(), before, "{words}");
    }
    place.bad(&format!("{COMMAND} -o page.html"), "pages are written with --report");
    place.write("g.txt", format!("{GRAPH}; dose <-> psa"));
    place.bad(COMMAND, "is not identified");
    place.write("g.txt", GRAPH);
    let shifted: String = std::iter::once("psa,volume\n".to_string())
        .chain((0..9).map(|k| format!("{},{}\n", 1000 + k, k)))
        .collect();
    place.write("far.csv", shifted);
    place.bad(&COMMAND.replace("s2.csv", "far.csv"), "no common support in psa");
}
