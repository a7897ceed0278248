//! Tests of `riesz importance`: decompositions of variances and losses, in every format.

use serde_json::Value;

use crate::common::{Place, cells, number};

fn towns() -> Place {
    let place = Place::new();
    let row = |i: usize| {
        let (a, b, c) = (i * i % 17, i * 5 % 11, ["u", "v", "w"][i * 3 % 7 % 3]);
        format!("{a},{b},{c},{},{}\n", 3 * a + b, ["no", "yes"][usize::from(a > 6)])
    };
    place.write("train.csv", format!("a,b,c,y,class\n{}", (0..40).map(row).collect::<String>()));
    let options = "--ignore class --noise 0.1 --posterior --hyperparameter-samples 0";
    place.good(&format!("fit train.csv --target y --model gp {options} -o m.riesz"));
    place.good("fit train.csv --target class --ignore y --model klr -o c.riesz");
    place
}

#[test]
fn variances_in_every_form() {
    let place = towns();
    let (words, _) = place.good("importance m.riesz train.csv");
    assert!(words.contains("variance of y") && words.contains("Shapley effect"), "{words}");
    place.good("importance m.riesz train.csv -o w.csv");
    let table = cells(&place.read("w.csv"));
    assert_eq!(table[0][..5], ["output", "feature", "first_order", "shapley_effect", "total_order"]);
    assert_eq!(table[1][1], "a");
    let sum: f64 = table[1..].iter().map(|line| number(&line[3])).sum();
    let bound = number(&table[1][7]) / number(&table[1][6]);
    assert!((sum - 1.0).abs() < 4.0 * bound && bound < 1e-6, "{sum} {bound}");
    assert!(table[1..].iter().all(|l| number(&l[2]) <= number(&l[3]) && number(&l[3]) <= number(&l[4])));
    place.good("importance m.riesz train.csv --index moebius -o w.json");
    let json: Value = serde_json::from_str(&place.read("w.json")).unwrap();
    assert_eq!(json["format"], "riesz-sobol");
    assert_eq!(json["explanation"]["values"].as_array().unwrap().len(), 6);
    place.good("importance m.riesz train.csv --groups both=a,b -o w.svg");
    assert!(place.read("w.svg").contains("both"));
    place.good("importance m.riesz train.csv -o w.parquet");
    // With the posterior, its uncertainty adds to the variance.
    place.good("importance m.riesz train.csv --posterior -o p.csv");
    let expected = cells(&place.read("p.csv"));
    assert!(number(&expected[1][6]) > number(&table[1][6]), "{expected:?}");
}

#[test]
fn losses_in_every_form() {
    let place = towns();
    let (words, _) = place.good("importance m.riesz train.csv --target y");
    assert!(
        words.contains("mean squared error of 40 rows") && words.contains("exact for these rows"),
        "{words}"
    );
    place.good("importance m.riesz train.csv --target y --background train.csv --background-rows 9 -o w.csv");
    let table = cells(&place.read("w.csv"));
    assert_eq!(table[0], ["feature", "value", "std_error"]);
    assert_eq!(table[1][0], "a");
    place.good("importance c.riesz train.csv --target class -o w.json");
    let json: Value = serde_json::from_str(&place.read("w.json")).unwrap();
    assert_eq!(json["measure"], "log loss");
    let sum: f64 = json["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).sum();
    let gap = json["base_loss"].as_f64().unwrap() - json["loss"].as_f64().unwrap();
    assert!((sum - gap).abs() < 1e-12);
    place.good("importance c.riesz train.csv --target class -o w.png");
}

#[test]
fn what_cannot_be_said_is_refused() {
    let place = towns();
    place.bad("importance m.riesz train.csv -o w.doc", "not as .doc");
    place.bad("importance c.riesz train.csv --posterior", "--posterior needs a posterior");
    place.bad("importance m.riesz train.csv --target z", "'z'");
    place.bad("importance c.riesz train.csv --target c", "the model's classes are: no, yes");
    place.bad("importance m.riesz train.csv --target y,a", "one per output");
    place.bad("importance m.riesz train.csv --target y --orders 0", "orders");
}

/// Pages and pictures name their contents, and a constant output has no shares rather than shares of 0.
#[test]
fn pictures_say_what_they_show() {
    let place = towns();
    place.good("importance m.riesz train.csv -o w.svg");
    let picture = place.read("w.svg");
    assert!(picture.contains("share of the variance of y: Shapley effect") && !picture.contains("mean |"));
    place.good("importance m.riesz train.csv --index moebius -o w.svg");
    assert!(place.read("w.svg").contains("share of the variance of y: Möbius value<"));
    place.good("importance m.riesz train.csv --target y -o w.svg");
    let picture = place.read("w.svg");
    assert!(
        picture.contains("reduction of mean squared error: SAGE value") && picture.contains("95 % interval")
    );
    place.good("importance m.riesz train.csv -o w.html");
    let page = place.read("w.html");
    for words in [
        "Sources of the variance of y",
        "<td>0.",
        "a alone",
        "(proved limit",
        "train.csv",
        "runs from the feature’s first-order index to its total index",
    ] {
        assert!(page.contains(words), "{words}");
    }
    place.good("importance c.riesz train.csv --target class -o w.html");
    let page = place.read("w.html");
    for words in [
        "Reduction of the log loss by feature",
        "standard error over rows",
        " … ",
        "all coalitions of features were evaluated",
    ] {
        assert!(page.contains(words), "{words}");
    }
    place.write("flat.csv", "a,b,c\n1,2,u\n1,2,u\n1,2,u\n");
    place.good("importance m.riesz flat.csv -o flat.csv2.csv");
    let table = cells(&place.read("flat.csv2.csv"));
    assert!(
        table[1..].iter().all(|line| line[2..5].iter().all(String::is_empty) && !line[5].is_empty()),
        "{table:?}"
    );
    place.good("importance m.riesz flat.csv -o flat.html");
    assert!(
        place.read("flat.html").contains("shares are not defined")
            && place.read("flat.html").contains("<td>–</td>")
    );
    place.good("importance m.riesz flat.csv -o flat.svg");
    assert!(place.read("flat.svg").contains("part of the variance of y"));
}

/// Components have mean 0 over the rows, and components of two features along either of them.
#[test]
fn components_have_mean_zero() {
    let place = towns();
    place.good("effects m.riesz train.csv --of a --of c --of a,c -o w.csv");
    let table = cells(&place.read("w.csv"));
    assert_eq!(table[0], ["component", "output", "x", "x_2", "value", "std"]);
    let rows = cells(&place.read("train.csv"));
    let value_at = |component: &str, first: &str, second: &str| {
        let is_equal = |a: &str, b: &str| {
            a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
        };
        let line =
            table.iter().find(|l| l[0] == component && is_equal(&l[2], first) && is_equal(&l[3], second));
        number(&line.unwrap()[4])
    };
    let mean =
        |function: &dyn Fn(&[String]) -> f64| rows[1..].iter().map(|row| function(row)).sum::<f64>() / 40.0;
    let (a, c) = (mean(&|row| value_at("a", &row[0], "")), mean(&|row| value_at("c", &row[2], "")));
    assert!(a.abs() < 1e-8 && c.abs() < 1e-8, "{a} {c}");
    let joint = mean(&|row| value_at("a × c", "4", &row[2]));
    assert!(joint.abs() < 1e-8 && value_at("a × c", "4", "u").abs() > 1e-6, "{joint}");
    assert!(table[1..].iter().all(|line| number(&line[5]) > 0.0));
    // Every feature alone, without a posterior, as numbers and as pictures.
    let (words, _) = place.good("effects c.riesz train.csv");
    assert!(words.starts_with("component,output,x,value\n") && words.contains("\nc,yes vs no,w,"), "{words}");
    place.good("effects m.riesz train.csv --of a -o w.svg");
    assert!(place.read("w.svg").contains("component of a") && place.read("w.svg").contains("middle 95 %"));
    place.good("effects m.riesz train.csv --of a,c -o w.png");
    place.good("effects m.riesz train.csv --of c -o w.svg");
    place.good("effects m.riesz train.csv --of b,a -o w.parquet");
    place.bad("effects m.riesz train.csv -o w.svg", "a picture shows one component");
    place.bad("effects m.riesz train.csv --of z", "there is no feature 'z'; the features are: a, b, c");
    place.bad("effects m.riesz train.csv --of a,b,c", "these have 3");
    place.bad("effects m.riesz train.csv --of a --output-name z -o w.svg", "there is no output 'z'");
}

/// A linear function of independent features: the shares are those of the variances of its terms.
#[test]
fn variances_of_programs_are_estimated() {
    let place = towns();
    let program = ["importance", "cmd:awk -F, 'NR > 1 {print 3 * $1 - 2 * $2}'", "train.csv"];
    let run = |options: &str| {
        let output = place.command().args(program).args(options.split_whitespace()).output().unwrap();
        let (out, err) = crate::common::texts(&output);
        assert!(output.status.success(), "{options}: {err}");
        out
    };
    run("--ignore c,y,class --evaluations 7000 --seed 2 -o w.csv");
    let table = cells(&place.read("w.csv"));
    let train = cells(&place.read("train.csv"));
    let variance = |j: usize| {
        let column: Vec<f64> = train[1..].iter().map(|row| number(&row[j])).collect();
        let mean = column.iter().sum::<f64>() / column.len() as f64;
        column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / column.len() as f64
    };
    let (a, b) = (9.0 * variance(0), 4.0 * variance(1));
    let shares = [("a", a / (a + b)), ("b", b / (a + b))];
    for line in &table[1..] {
        let truth = shares.iter().find(|(name, _)| *name == line[1]).unwrap().1;
        for k in [2, 4, 6] {
            let (share, error) = (number(&line[k]), number(&line[k + 1]));
            assert!(error < 0.05 && (share - truth).abs() < 4.0 * error, "{line:?} {truth}");
        }
    }
    assert_eq!(table.len(), 3);
    let text = run("--ignore c,y,class --evaluations 700");
    assert!(text.contains("Estimates ± standard errors, from 700 rows"), "{text}");
    for file in ["w.json", "w.html", "w.svg", "w.parquet"] {
        run(&format!("--ignore c,y,class --evaluations 700 -o {file}"));
    }
    assert!(place.read("w.html").contains("awk -F,") && place.read("w.svg").contains("95 % interval"));
    let json: Value = serde_json::from_str(&place.read("w.json")).unwrap();
    assert!(json["format"] == "riesz-sobol-estimates" && json["evaluations"] == 700, "{json}");
    place.bad("importance m.riesz train.csv --evaluations 900", "--evaluations is an option for programs");
    place.bad("importance cmd:cat train.csv --ignore c,y,class --evaluations 5", "give at least 14");
    place.bad("importance cmd:cat train.csv --ignore c,y,class --index k-sii", "--index needs a model");
}

/// A program that predicts with a model's file has the model's SAGE values, which come from its kernel.
#[test]
fn losses_of_programs_are_those_of_the_model_that_they_call() {
    let place = towns();
    let binary = env!("CARGO_BIN_EXE_riesz");
    for (model, target, columns, ignored) in
        [("m.riesz", "y", "2", "class"), ("c.riesz", "class", "3,4", "y")]
    {
        let options = format!("train.csv --target {target} --background-rows 5 --format csv");
        let expected = cells(&place.good(&format!("importance {model} {options}")).0);
        let program = format!("cmd:{binary} predict {model} - -q | cut -d, -f{columns}");
        let options = format!("{options} --ignore {ignored} --orders 9");
        let mut command = place.command();
        let output =
            command.args(["importance", &program]).args(options.split_whitespace()).output().unwrap();
        let (out, err) = crate::common::texts(&output);
        assert!(output.status.success() && err.contains("--orders has no effect"), "{err}");
        let actual = cells(&out);
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual[1..].iter().zip(&expected[1..]) {
            assert_eq!(actual[0], expected[0]);
            let (value, truth) = (number(&actual[1]), number(&expected[1]));
            assert!((value - truth).abs() < 1e-6 * truth.abs().max(1.0), "{target}: {value} {truth}");
        }
    }
}
