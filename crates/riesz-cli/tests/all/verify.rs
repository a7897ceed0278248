//! Tests of `riesz verify` for programs, classifiers, settings that files state, and lists of differences.

use serde_json::Value;

use crate::common::{Place, texts};

/// A table of rows, a background with a target, and a program that multiplies and adds.
fn place() -> Place {
    let place = Place::new();
    let row = |i: usize| {
        let numbers = [i * i % 17, i * 5 % 11, i * 3 % 7, i * 2 % 5, i % 6, i * 7 % 13];
        numbers.map(|number| number.to_string()).join(",")
    };
    let rows = |n: usize| (0..n).map(|i| row(i) + "\n").collect::<String>();
    place.write("new.csv", format!("a,b,c,d,e,f\n{}", rows(9)));
    let train = (0..30).map(|i| format!("{},{}\n", row(i), 3 * i)).collect::<String>();
    place.write("train.csv", format!("a,b,c,d,e,f,y\n{train}"));
    place.write("f.awk", "NR > 1 {print $1 * $2 + 3 * $3 * $4 * $5 - $6 * $1}\n");
    place
}

/// Runs a command whose words contain 'PROGRAM'; returns its exit code, standard output and standard error.
fn run(place: &Place, words: &str) -> (Option<i32>, String, String) {
    let words = words.split_whitespace().map(|word| word.replace("PROGRAM", "cmd:awk -F, -f f.awk"));
    let output = place.command().args(words).output().unwrap();
    let (out, err) = texts(&output);
    (output.status.code(), out, err)
}

const EXPLAIN: &str = "explain PROGRAM new.csv --background train.csv --ignore y -q -o why.json";
const VERIFY: &str = "verify why.json --model PROGRAM --rows new.csv --background train.csv -q";

/// The file states its estimator, the number of orders and coalitions, the seed and the background rows.
#[test]
fn explanations_of_programs_are_made_again_as_they_were() {
    let place = place();
    for options in [
        "",
        "--background-rows 6 --seed 5",
        "--coalitions 30 --seed 3",
        "--estimator permutation --orders 3 --seed 4 --background-rows 4",
        "--groups g=a,b",
    ] {
        assert_eq!(run(&place, &format!("{EXPLAIN} {options}")).0, Some(0), "{options}");
        let groups = if options.contains("groups") { options } else { "" };
        for sample in ["", "--sample-rows 3 --seed 8"] {
            let (code, out, err) = run(&place, &format!("{VERIFY} {groups} {sample}"));
            assert_eq!(code, Some(0), "{options} {sample}: {out}{err}");
            assert!(out.starts_with("verdict            the explanation agrees with the program"), "{out}");
            let difference = |subject: &str| {
                let line = out.lines().find(|line| line.starts_with(subject)).unwrap();
                line.split_once("agree within ").unwrap().1.split(' ').next().unwrap().parse::<f64>().unwrap()
            };
            // The same sample gives the same numbers, not just numbers within some standard errors.
            assert!(difference("values") < 1e-12, "{out}");
            assert_eq!(
                out.contains("standard errors  "),
                options.contains("coalitions") || options.contains("orders"),
                "{out}"
            );
            assert_eq!(out.contains("in 3 of 9 rows"), !sample.is_empty(), "{out}");
        }
    }
}

#[test]
fn altered_explanations_of_programs_are_refused() {
    let place = place();
    run(&place, &format!("{EXPLAIN} --coalitions 30"));
    let original: Value = serde_json::from_str(&place.read("why.json")).unwrap();
    let verify = |forged: &Value, options: &str| {
        place.write("why.json", forged.to_string());
        run(&place, &format!("{VERIFY} {options}"))
    };
    let add = |record: &mut Value, k: usize, change: f64| {
        record["values"][k] = (record["values"][k].as_f64().unwrap() + change).into();
    };
    // Changes that are small against the standard errors, and keep the sums.
    let mut moved = original.clone();
    (0..24).for_each(|k| add(&mut moved, k, if k % 2 == 0 { 1e-3 } else { -1e-3 }));
    assert!(original["exactness"]["std_error"][0].as_f64().unwrap() > 0.1);
    let (code, out, err) = verify(&moved, "");
    assert_eq!(code, Some(1), "{out}");
    assert!(
        err.contains("values do not agree: 24 of 54 differ, by up to 1.0e-3; first row 0, feature a"),
        "{err}"
    );
    let listed = out.lines().filter(|line| line.starts_with("  row ")).count();
    assert!(listed == 10 && out.contains("  and 14 more"), "{out}");
    let (value, changed) = (&original["values"][3], &moved["values"][3]);
    let line = out.lines().find(|line| line.contains("row 0, feature d: ")).unwrap();
    assert!(line.contains(&format!("stated {changed}, recomputed {value}")), "{line}");
    let (_, json, _) = verify(&moved, "--format json");
    let records: Value = serde_json::from_str(&json).unwrap();
    assert!(records[0]["subject"] == "verdict" && records[0]["agrees"] == false, "{records}");
    let values = records.as_array().unwrap().iter().find(|record| record["subject"] == "values").unwrap();
    assert!(values["differing"] == 24 && values["differences"][3]["feature"] == "d", "{values}");
    // Larger standard errors, and another program.
    let mut wide = original.clone();
    wide["exactness"]["std_error"][0] = 100.0.into();
    assert!(verify(&wide, "").2.contains("standard errors do not agree: 1 of 54 differ"));
    place.write("f.awk", "NR > 1 {print $1 * $2}\n");
    assert!(verify(&original, "").2.contains("predictions do not agree"));
    // Without rows for absent features a program cannot be compared.
    let (code, _, err) = run(&place, "verify why.json --model PROGRAM --rows new.csv");
    assert!(code == Some(2) && err.contains("--background"), "{err}");
}

#[test]
fn settings_and_files_are_those_that_the_file_states() {
    let place = place();
    place.good(
        "fit train.csv --target y --model gp --noise 0.1 --posterior --hyperparameter-samples 0 -o m.riesz",
    );
    place.good("explain m.riesz new.csv --background train.csv --background-rows 5 --seed 7 -o why.json");
    let verify = "verify why.json --model m.riesz --rows new.csv";
    let (out, _) = place.good(&format!("{verify} --background train.csv"));
    assert_eq!(out.matches("the same file as recorded").count(), 3, "{out}");
    // A rewritten file with the same numbers is another file, and not an error.
    place.write("copy.csv", place.read("train.csv").replace('\n', "\r\n"));
    let (out, _) = place.good(&format!("{verify} --background copy.csv --background-rows 5"));
    assert_eq!(out.matches("the same file as recorded").count(), 2, "{out}");
    assert!(out.contains("not the file that was explained: its SHA-256 is"), "{out}");
    let (out, _) = place.good(verify);
    assert!(out.starts_with("verdict      incomplete: "), "{out}");
    place.good("explain m.riesz new.csv --background train.csv --variance --background-rows 3 -o why.json");
    let (out, _) = place.good(&format!("{verify} --background train.csv"));
    assert_eq!(out.matches("agree within").count(), 5, "{out}");
    let observational = "--game observational --conditional-ridge 0.01";
    place.good(&format!("explain m.riesz new.csv --background train.csv {observational} -o why.json"));
    place.good(&format!("{verify} --background train.csv"));
}

#[test]
fn decisions_of_classifiers_are_checked() {
    let place = place();
    let rows = |name: &str| {
        let text = place.read(name);
        text.lines()
            .enumerate()
            .map(|(i, line)| format!("{line},{}\n", if i == 0 { "k" } else { ["no", "yes"][i % 3 % 2] }))
            .collect::<String>()
    };
    place.write("classes.csv", rows("train.csv"));
    place.good("fit classes.csv --target k --ignore y --model klr -o k.riesz");
    for probabilities in ["", "--probabilities"] {
        place.good(&format!("explain k.riesz new.csv --background train.csv {probabilities} -o why.json"));
        let verify = "verify why.json --model k.riesz --rows new.csv --background train.csv";
        let (out, _) = place.good(verify);
        assert!(out.contains("\ndecisions          "), "{out}");
        let mut forged: Value = serde_json::from_str(&place.read("why.json")).unwrap();
        let chosen = forged["decisions"]["chosen"][2].as_u64().unwrap();
        forged["decisions"]["chosen"][2] = (1 - chosen).into();
        forged["decisions"]["probabilities"][0][1][4] = 0.123.into();
        place.write("why.json", forged.to_string());
        let output = place.run(verify);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{out}{err}");
        assert!(err.contains("decisions do not agree: 2 of 18 differ"), "{err}");
        assert!(
            out.contains("row 2, the class: stated ")
                && out.contains("row 4, the probability of yes: stated 0.123"),
            "{out}"
        );
    }
}

/// Messages name the option of the command line, and the remedy.
#[test]
fn messages_name_the_option_and_the_remedy() {
    let place = place();
    place.good(
        "fit train.csv --target y --model gp --noise 0.1 --posterior --hyperparameter-samples 0 -o m.riesz",
    );
    for option in ["--variance", "--covariance"] {
        let message =
            format!("{option} needs rows from which absent features take their values: give --background");
        place.bad(&format!("explain m.riesz new.csv {option}"), &message);
    }
    let (code, _, err) = run(&place, &EXPLAIN.replace("-q", "--coalitions 3"));
    assert!(code == Some(2) && err.contains("error: --coalitions = 3 is not allowed: "), "{err}");
    let orders = "--estimator permutation --orders 20 --groups g=a,b,c;h=d,e";
    let (code, _, err) = run(&place, &format!("{} {orders}", EXPLAIN.replace(" -q", "")));
    assert!(code == Some(0) && err.contains("note: --orders has no effect"), "{err}");
    // Standardised columns have their own length scales; a single one can be written.
    place.bad("convert m.riesz m.model", "fit it with --no-standardise and one length scale");
    let fit = "fit train.csv --target y --model krr --no-standardise --kernel rbf(length_scale=3) -o k.riesz";
    place.good(fit);
    let (_, err) = place.good("convert k.riesz k.model");
    assert!(err.contains("features 1, 2, … of the file are the columns a, b, c, d, e, f"), "{err}");
    assert!(err.contains("it needs no range file"), "{err}");
    let (_, err) = place.good("convert k.model k.riesz --columns a,b,c,d,e,f");
    assert!(err.contains("columns: a, b, c, d, e, f"), "{err}");
}
